"""The Bayesian filter and smoother: facts that hold whatever the data."""

from itertools import product

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from pytest import approx
from scipy.special import erf

from fl.tracking.chain import (
    Chain,
    Habits,
    Motion,
    RoundOfMotion,
    assume_weights,
    fit_weights,
    sum_maps,
)
from fl.tracking.error_model import ErrorModel
from fl.tracking.history import MAX_STEPS, History, classify_hours
from fl.tracking.place_grid import PlaceGrid
from fl.types import Public, RoundContext
from netsim.geometry import Area

ROUND_S = 1800.0
NOTHING = Public(Area(0.0, 0.0, 1.0, 1.0), 1)
ERRORS = ErrorModel(
    np.array([0.7, 0.3]), np.array([250.0, 900.0]), 0.1, 0.0, np.ones(2), np.zeros((2, 2))
)


def grid(nx, ny, side_m=3000.0):
    return PlaceGrid(Area(0.0, 0.0, side_m, side_m), nx, ny)


def look(z_m, rounds=None):
    """Estimates (T, n, 2) of UEs 0 ... n - 1, NaN where there are none."""
    past = History.empty(1)
    for t, z in zip(rounds or range(len(z_m)), z_m, strict=True):
        ue = np.flatnonzero(np.isfinite(z).all(axis=1))
        facts = RoundContext(t + 1, t * ROUND_S, NOTHING, week_s=(t + 1) * ROUND_S)
        past = past.add_look(facts, ERRORS, ue, z[ue][:, None])
    return past


def dense(motion, weight, prior):
    """K (G, G) of one UE, from its definition: Gaussians that end inside the area."""
    cells = motion.grid
    k = weight[0] * np.eye(len(cells)) + weight[-1] * prior.reshape(1, -1)
    width_m, height_m = cells.cell_m
    for w, sigma in zip(weight[1:-1], motion.sigma_m, strict=True):
        y = inside(cells.ny, height_m, sigma)
        x = inside(cells.nx, width_m, sigma)
        k += w * np.kron(y, x)
    return k


def inside(n, cell_m, sigma_m):
    """G (n, n) along an axis: of what ends in its cells, the share in each."""
    away = (np.arange(n) - np.arange(n)[:, None]) * cell_m
    scale_m = sigma_m * 2**0.5
    mass = erf((away + cell_m / 2) / scale_m) - erf((away - cell_m / 2) / scale_m)
    return mass / mass.sum(axis=1, keepdims=True)


def make_chain(n_ue=3, cells=None, seed=0):
    cells = cells or grid(3, 3)
    motion = Motion.from_max_speed(cells, 30.0, ROUND_S)
    rng = default_rng(seed)
    prior = rng.dirichlet(np.ones(len(cells))).reshape(1, cells.ny, cells.nx).astype(np.float32)
    borrowed = rng.dirichlet(np.ones(len(motion.sigma_m) + 2))
    habits = Habits.from_weights(n_ue, borrowed, cells, has_places=False)
    habits.count[:] = rng.gamma(2.0, 5.0, (n_ue, len(borrowed)))
    return Chain(motion, prior, ROUND_S), habits


def run(chain, habits, looks, n_ue):
    """The filter over a whole history: its beliefs."""
    z, first = looks.select_estimates(np.arange(n_ue))
    assert (first == 0).all()
    p = np.repeat(chain.prior, n_ue, axis=0)
    beliefs = []
    for t in range(len(looks)):
        emission = ERRORS.compute_emission(z[t], chain.grid)
        p, _ = chain.filter_beliefs(p, habits, looks.classify_steps(t, ROUND_S), emission)
        beliefs.append(p)
    return beliefs


def smooth(chain, looks, ues, habits, passes=0):
    """Beliefs (S, n, ny, nx) of all groups."""
    groups = chain.smooth_beliefs(looks, np.array([*ues]), habits, passes)
    return np.concatenate([p for _, p in groups], axis=1)


def test_filter_and_smoother_agree_with_the_enumeration_of_all_paths():
    chain, habits = make_chain()
    z = default_rng(1).uniform(0, 3000, (4, 3, 2))
    z[2, 1] = np.nan  # nothing is said of UE 1 in the third round
    looks = look(z)
    beliefs = run(chain, habits, looks, 3)
    smoothed = smooth(chain, looks, [0, 1, 2], habits).reshape(4, 3, 9)
    paths = np.array(list(product(range(9), repeat=4)))
    assert len(paths) == 6561
    for u in range(3):
        k = dense(chain.motion, habits.weight[u], chain.prior)
        e = ERRORS.compute_likelihood_ratio(z[:, u][:, None], chain.grid)
        joint = chain.prior.reshape(-1)[paths[:, 0]] * e[0, paths[:, 0]]
        for t in (1, 2, 3):
            joint = joint * k[paths[:, t - 1], paths[:, t]] * e[t, paths[:, t]]
        for t in range(4):
            expected = np.bincount(paths[:, t], weights=joint, minlength=9) / joint.sum()
            assert smoothed[t, u] == approx(expected, abs=5e-7)
        # of the last round both know the same
        assert beliefs[3][u].reshape(-1) == approx(expected, abs=5e-7)


def test_expected_uses_of_components_agree_with_the_enumeration():
    chain, habits = make_chain(1)
    z = default_rng(2).uniform(0, 3000, (3, 1, 2))
    e = ERRORS.compute_likelihood_ratio(z, chain.grid)
    kernels = np.stack([dense(chain.motion, w, chain.prior) for w in np.diag(habits.weight[0])])
    k = kernels.sum(axis=0)
    a = chain.prior.reshape(-1) * e[0]
    first = (a @ kernels * e[1]) @ (k @ e[2])
    second = ((a @ k) * e[1]) @ kernels @ e[2]
    learnt = chain.learn_habits(look(z), np.arange(1), habits, 1)
    assert learnt.count[0] == approx(first / first.sum() + second / second.sum(), abs=2e-6)
    online = chain.prior.reshape(-1) @ kernels @ e[1]
    emission = ERRORS.compute_emission(z[1][:, None], chain.grid)
    _, uses = chain.filter_beliefs(chain.prior, habits, [0], emission)
    assert uses[0] == approx(online / online.sum(), abs=2e-6)


def test_motion_is_stochastic_and_has_an_adjoint():
    rng = default_rng(4)
    for cells in (grid(40, 25, 10_000.0), grid(3, 3), grid(1, 7), grid(1, 1)):
        motion = Motion.from_max_speed(cells, 30.0, ROUND_S)
        shape = (5, cells.ny, cells.nx)
        target = rng.dirichlet(np.ones(len(cells)), 5).reshape(shape).astype(np.float32)
        leg = RoundOfMotion(rng.dirichlet(np.ones(len(motion.sigma_m) + 2), 5), target)
        a, b = (rng.random(shape, dtype=np.float32) for _ in "ab")
        ones = np.ones_like(a)
        assert motion.move_backward(ones, leg)[0] == approx(ones, abs=2e-5)
        moved, uses = motion.move_forward(a, leg, b)
        back, same = motion.move_backward(b, leg, a)
        assert same == approx(uses, rel=1e-4)
        assert sum_maps(moved) == approx(sum_maps(a), rel=1e-5)
        assert sum_maps(moved * b) == approx(sum_maps(a * back), rel=1e-5)
        for u in (0, 4):
            p = a[u].reshape(-1)
            expected = p @ dense(motion, leg.weight[u], target[u])
            assert moved[u].reshape(-1) == approx(expected, rel=2e-4)
            weights = np.diag(leg.weight[u])
            shares = [p @ dense(motion, w, target[u]) @ b[u].reshape(-1) for w in weights]
            assert uses[u] == approx(np.array(shares) / sum(shares), rel=1e-4)


def test_motion_leaves_out_what_is_too_small_to_be_seen_or_to_be_fast():
    motion = Motion(grid(100, 60, 10_000.0), np.array([150.0, 250.0]))
    prior = np.full((1, 60, 100), 1 / 6000, np.float32)
    one = np.zeros_like(prior)
    one[0, 7, 3] = 1.0
    leg = RoundOfMotion(np.array([[0.3, 0.4, 0.2, 0.1]]), prior)
    moved = motion.move_forward(one, leg)[0].reshape(-1)
    assert moved == approx(one.reshape(-1) @ dense(motion, leg.weight[0], prior), rel=1e-6)
    along_y, along_x = motion._gaussians[0][0]
    assert (along_x == 0).any()
    for matrix in (along_y, along_x):
        assert ((matrix == 0) | (matrix > 1e-21)).all()


def test_permuted_ues_are_equal_to_the_bit_and_groups_change_nothing():
    rng = default_rng(5)
    n = 11
    chain, habits = make_chain(n, grid(47, 53, 5000.0))
    z = rng.uniform(0, 5000, (6, n, 2))
    looks = look(z)
    order = rng.permutation(n)
    permuted = run(chain, habits.select(order), look(z[:, order]), n)
    assert_array_equal(np.stack(run(chain, habits, looks, n))[:, order], permuted)
    together = smooth(chain, looks, range(n), habits, 1)
    counts = chain.learn_habits(looks, np.arange(n), habits, 1).count
    for u in range(n):
        alone = habits.select(np.array([u]))
        assert_array_equal(smooth(chain, looks, [u], alone, 1)[:, 0], together[:, u])
        learnt = chain.learn_habits(looks, np.array([u]), alone, 1)
        assert_array_equal(learnt.count[0], counts[u])


def test_gaps_equal_repeated_steps_and_one_instant_has_none():
    past = History.empty(1)
    for time_s in (0.0, 1800.0, 1800.0, 9000.0, 9000.0 + 1e9):
        facts = RoundContext(1, time_s, NOTHING)
        past = past.add_look(facts, ERRORS, np.zeros(0, int), np.zeros((0, 1, 2)))
    assert [past.count_steps(t, ROUND_S) for t in range(5)] == [0, 1, 0, 4, MAX_STEPS]
    chain, habits = make_chain(1)
    z = np.full((5, 1, 2), np.nan)
    z[0] = 300.0, 400.0
    z[4] = 2500.0, 1700.0
    whole = smooth(chain, look(z), [0], habits)
    jumped = smooth(chain, look(z[[0, 4]], [0, 4]), [0], habits)
    assert jumped == approx(whole[[0, 4]], abs=1e-6)


def test_uses_draw_weights_away_from_what_is_borrowed():
    borrowed = assume_weights(np.array([150.0, 400.0]))
    assert borrowed.sum() == approx(1.0)
    habits = Habits.from_weights(1, borrowed, grid(2, 2), has_places=False)
    assert habits.weight[0] == approx(borrowed)
    habits.count[0, 0] = 8.0  # as much as the guess counts
    assert habits.weight[0] == approx((borrowed + np.eye(4)[0]) / 2)


def test_hours_are_those_of_the_middle_of_a_round():
    week_s = np.array([0.0, 34_200, 466_200, np.nan])
    assert classify_hours(week_s, 1800.0).tolist() == [47, 9, 33, 0]


def test_weights_are_found_again_in_displacements():
    """A tenth is that of a UE without knowledge."""
    sigma = np.array([400.0, 2500.0])
    moved = np.append(np.zeros(600), np.hypot(*default_rng(7).normal(0, 400, (2, 400))))
    weight = fit_weights(moved, sigma, 100.0, np.full(2, 20_000.0))
    assert weight == approx([0.59, 0.38, 0.02, 0.01], abs=0.03)
    unknown = fit_weights(np.zeros(0), sigma, 100.0, np.full(2, 1e4))
    assert unknown == approx(assume_weights(sigma))


def test_jumps_end_where_a_ue_was_at_this_time_of_day():
    prior = np.full((1, 2, 2), 0.25, np.float32)
    habits = Habits.from_weights(1, assume_weights(np.zeros(0)), grid(2, 2), has_places=True)
    cells = np.eye(4, dtype=np.float32).reshape(4, 1, 2, 2)
    for hour, cell in ((0, 0), (5, 0), (23, 3)):  # 0 and 5: the first quarter of a weekday
        habits.add_belief(hour, cells[cell])
    for hour, expected in ((3, [0.825, 0.025, 0.025, 0.125]), (30, [0.375, 0.175, 0.175, 0.275])):
        assert habits.compute_motion(hour, prior).target.ravel() == approx(expected)


def test_learning_happens_on_a_coarser_grid_and_keeps_the_mass():
    fine = PlaceGrid(Area(0.0, 0.0, 7200.0, 3100.0), 72, 31)
    chain, habits = make_chain(1, fine)
    coarse = chain.coarsen()
    assert (coarse.grid.nx, coarse.grid.ny) == (50, 31)
    assert coarse.coarsen() is coarse
    assert coarse.prior.sum() == approx(1.0, abs=1e-5)
    east = (chain.prior * np.arange(72)).sum() / 72 - (coarse.prior * np.arange(50)).sum() / 50
    assert east == approx(0.5 / 50 - 0.5 / 72, abs=2e-4)  # the same mean place
    looks = look(np.array([2000.0, 900.0]) + default_rng(0).normal(0, 250, (30, 1, 2)))
    learnt, again = (c.learn_habits(looks, np.arange(1), habits).weight for c in (chain, coarse))
    assert learnt == approx(again, abs=1e-6)
    assert smooth(chain, looks, [0], habits, 1).shape == (30, 1, 31, 72)

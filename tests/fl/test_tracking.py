"""The Bayesian filter and smoother: facts that hold whatever the data."""

from itertools import product

import numpy as np
import pytest
from scipy.special import erf

from fl.tracking.emission import Emission, updated
from fl.tracking.error_model import ErrorModel
from fl.tracking.filter import RoundOfMotion, step
from fl.tracking.habits import Habits, hour_class, weights_of, weights_without_knowledge
from fl.tracking.history import MOST_STEPS, History
from fl.tracking.maps import sums
from fl.tracking.motion import Motion
from fl.tracking.own_places import OwnPlaces, part_of_day
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.smoother import Chain, learnt
from netsim.geometry import Area

ROUND_S = 1800.0
ERRORS = ErrorModel(np.array([0.7, 0.3]), np.array([250.0, 900.0]), 0.1)


def grid(nx: int, ny: int, side_m: float = 3000.0) -> PlaceGrid:
    return PlaceGrid(Area(0.0, 0.0, side_m, side_m), nx, ny)


def uniform(cells: PlaceGrid) -> np.ndarray:
    return np.full((1, cells.ny, cells.nx), 1 / len(cells), dtype=np.float32)


def history(z_m: np.ndarray, every_s: float = ROUND_S) -> History:
    """Estimates (T, n, 2) of UEs 0 ... n - 1, NaN where there are none."""
    past = History.empty(1)
    for t, z in enumerate(z_m):
        there = np.flatnonzero(np.isfinite(z).all(axis=1))
        past = past.plus(t + 1, t * every_s, (t + 1) * every_s, ROUND_S, ERRORS, there, z[there][:, None])
    return past


def dense(motion: Motion, weight: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """K (G, G) of one UE, from its definition."""
    cells = motion.grid
    place, half = cells.place_m, cells.cell_m / 2
    k = weight[0] * np.eye(len(cells)) + weight[-1] * prior.reshape(1, -1)
    for w, sigma in zip(weight[1:-1], motion.sigma_m, strict=True):
        away = place[None] - place[:, None]
        axes = [
            (erf((away[..., a] + half[a]) / sigma / 2**0.5) - erf((away[..., a] - half[a]) / sigma / 2**0.5))
            for a in (0, 1)
        ]
        g = axes[0] * axes[1]
        k += w * g / g.sum(axis=1, keepdims=True)
    return k


def chain_of(n_ue: int = 3, cells: PlaceGrid | None = None, seed: int = 0) -> tuple[Chain, Habits, OwnPlaces]:
    cells = grid(3, 3) if cells is None else cells
    motion, rng = Motion.over(cells, 30.0, ROUND_S), np.random.default_rng(seed)
    prior = rng.dirichlet(np.ones(len(cells))).reshape(1, cells.ny, cells.nx).astype(np.float32)
    borrowed = rng.dirichlet(np.ones(len(motion.sigma_m) + 2))
    habits = Habits(rng.gamma(2.0, 5.0, (n_ue, 1, len(borrowed))), borrowed)
    return Chain(motion, prior, ROUND_S), habits, OwnPlaces.none(n_ue, False, cells.ny, cells.nx)


def run(chain: Chain, habits: Habits, looks: History, n_ue: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The filter over a whole history: its beliefs, and the log-likelihoods."""
    z, first = looks.of(np.arange(n_ue))
    p, total, beliefs = np.repeat(chain.prior, n_ue, axis=0), np.zeros(n_ue), []
    for t in range(len(looks)):
        legs = [RoundOfMotion(habits.weight(c), chain.prior) for c in looks.classes(t, chain.round_s)]
        done = step(chain.motion, p, legs, Emission.of(ERRORS, z[t], chain.motion.grid))
        assert (first == 0).all()
        p, total = done.p, total + done.log_ratio
        beliefs.append(p)
    return beliefs, total


def test_filter_and_smoother_agree_with_the_enumeration_of_all_paths() -> None:
    chain, habits, own = chain_of()
    cells, rng = chain.motion.grid, np.random.default_rng(1)
    z = rng.uniform(0, 3000, (4, 3, 2))
    z[2, 1] = np.nan  # nothing is said of UE 1 in the third round
    looks = history(z)
    beliefs, total = run(chain, habits, looks, 3)
    found = learnt(chain, looks, np.arange(3), habits, own, passes=0)
    paths = np.array(list(product(range(9), repeat=4)))
    assert len(paths) == 6561
    area = float(np.prod(cells.area.side_m))
    for u in range(3):
        k, e = dense(chain.motion, habits.weight(0)[u], chain.prior), np.ones((4, 9))
        for t in range(4):
            e[t] = ERRORS.likelihood(z[t, u][None, None], cells)[0] * area
        moves = np.prod([k[paths[:, t - 1], paths[:, t]] for t in (1, 2, 3)], axis=0)
        joint = chain.prior.reshape(-1)[paths[:, 0]] * moves * np.prod([e[t, paths[:, t]] for t in range(4)], axis=0)
        for t in range(4):
            smooth = np.bincount(paths[:, t], weights=joint, minlength=9) / joint.sum()
            assert found.p[t, u].reshape(-1) == pytest.approx(smooth, abs=5e-7)
        now = np.bincount(paths[:, 3], weights=joint, minlength=9) / joint.sum()
        assert beliefs[3][u].reshape(-1) == pytest.approx(now, abs=5e-7)
        assert total[u] == pytest.approx(np.log(joint.sum()), abs=1e-5)
        assert found.log_likelihood[u] == pytest.approx(total[u], abs=1e-5)


def test_expected_uses_of_components_agree_with_the_enumeration() -> None:
    chain, habits, own = chain_of(1)
    rng = np.random.default_rng(2)
    z = rng.uniform(0, 3000, (3, 1, 2))
    e = np.stack([ERRORS.likelihood(z[t][:, None], chain.motion.grid)[0] for t in range(3)])
    weight = habits.weight(0)[0]
    each = [dense(chain.motion, w, chain.prior) for w in np.diag(weight)]
    a = chain.prior.reshape(-1) * e[0]
    first = np.array([(a @ k * e[1]) @ (sum(each) @ e[2]) for k in each])
    second = np.array([((a @ sum(each)) * e[1]) @ k @ e[2] for k in each])
    use = first / first.sum() + second / second.sum()
    found = learnt(chain, history(z), np.arange(1), habits, own, passes=1)
    assert found.habits.count[0, 0] == pytest.approx(use, abs=2e-6)
    assert found.habits.count.sum() == pytest.approx(2.0, abs=1e-6)
    done = step(
        chain.motion,
        chain.prior,
        [RoundOfMotion(habits.weight(0), chain.prior)],
        Emission.of(ERRORS, z[1][:, None], chain.motion.grid),
    )
    online = np.array([chain.prior.reshape(-1) @ k @ e[1] for k in each])
    assert done.share[0] == pytest.approx(online / online.sum(), abs=2e-6)


def test_passes_make_the_estimates_more_likely() -> None:
    cells = grid(12, 12)
    chain, habits, own = chain_of(4, cells)
    rng = np.random.default_rng(3)
    z = np.repeat(rng.uniform(500, 2500, (1, 4, 2)), 40, axis=0) + rng.normal(0, 250, (40, 4, 2))  # nobody moves
    looks, at = history(z), [learnt(chain, history(z), np.arange(4), habits, own, n) for n in range(4)]
    gains = np.diff([one.log_likelihood for one in at], axis=0)
    assert len(looks) == 40
    assert (gains[0] > 1).all() and (gains > -1e-3).all()
    assert (at[3].habits.weight(0)[:, 0] > habits.weight(0)[:, 0]).all()


def test_motion_is_stochastic_and_has_an_adjoint() -> None:
    rng = np.random.default_rng(4)
    for cells in (grid(40, 25, 10_000.0), grid(3, 3), grid(1, 7), grid(1, 1)):
        motion = Motion.over(cells, 30.0, ROUND_S)
        weight = rng.dirichlet(np.ones(len(motion.sigma_m) + 2), 5)
        target = rng.dirichlet(np.ones(len(cells)), 5).reshape(5, cells.ny, cells.nx).astype(np.float32)
        a, b = (rng.random((5, cells.ny, cells.nx), dtype=np.float32) for _ in "ab")
        ones = np.ones_like(a)
        assert motion.back(ones, weight, target, ones[:0])[0] == pytest.approx(ones, abs=1e-5)
        moved, (back, uses) = motion.step(a, motion.parts(a), weight, target), motion.back(b, weight, target, a)
        assert sums(moved) == pytest.approx(sums(a), rel=1e-5)
        assert sums(moved * b) == pytest.approx(sums(a * back), rel=1e-5)
        assert uses.sum(axis=1) == pytest.approx(sums(a * back), rel=1e-5)
        k = dense(motion, weight[0], target[0])
        assert moved[0].reshape(-1) == pytest.approx(a[0].reshape(-1) @ k, rel=2e-4)


def test_permuted_ues_are_equal_to_the_bit_and_blocks_change_nothing() -> None:
    cells, rng = grid(47, 53, 5000.0), np.random.default_rng(5)
    n = 11
    chain, habits, own = chain_of(n, cells)
    z = rng.uniform(0, 5000, (6, n, 2))
    looks, order = history(z), rng.permutation(n)
    p, total = run(chain, habits, looks, n)
    q, permuted = run(chain, habits.of(order), history(z[:, order]), n)
    for one, other in zip(p, q, strict=True):
        assert np.array_equal(one[order], other)
    assert np.array_equal(total[order], permuted)
    every = learnt(chain, looks, np.arange(n), habits, own, 1)
    for u in range(n):
        alone = learnt(chain, looks, np.array([u]), habits.of(np.array([u])), own, 1)
        assert np.array_equal(alone.p[:, 0], every.p[:, u])
        assert np.array_equal(alone.habits.count[0], every.habits.count[u])


def test_gaps_equal_repeated_steps_and_one_instant_has_none() -> None:
    past = History.empty(1)
    nobody, nothing = np.zeros(0, dtype=np.int64), np.zeros((0, 1, 2))
    for time_s in (0.0, 1800.0, 1800.0, 9000.0, 9000.0 + 1e9):
        past = past.plus(1, time_s, time_s, ROUND_S, ERRORS, nobody, nothing)
    assert past.steps.tolist() == [0, 1, 0, 4, MOST_STEPS]
    chain, habits, own = chain_of(1)
    here, there = np.array([[[300.0, 400.0]]]), np.array([[[2500.0, 1700.0]]])
    gap = history(np.concatenate([here, np.full((3, 1, 2), np.nan), there]))
    skipped = History.empty(1)
    for t, z in ((0, here), (4, there)):
        skipped = skipped.plus(t + 1, t * ROUND_S, (t + 1) * ROUND_S, ROUND_S, ERRORS, np.arange(1), z)
    whole, jumped = (learnt(chain, looks, np.arange(1), habits, own, 0) for looks in (gap, skipped))
    assert jumped.p == pytest.approx(whole.p[[0, 4]], abs=1e-6)
    assert jumped.log_likelihood == pytest.approx(whole.log_likelihood, abs=1e-5)


def test_impossible_and_tiny_likelihoods_break_nothing() -> None:
    cells = grid(30, 30, 30_000.0)
    exact = ErrorModel.plain(100.0, 0.0)
    p = np.empty_like(uniform(cells))
    log, bad = updated(uniform(cells), Emission.of(exact, np.array([[[15_000.0, -1100.0]]]), cells), p)
    assert not bad.any() and np.isfinite(p).all() and log[0] < -50  # 11 sigma beyond the border: exp(-60)
    assert sums(p) == pytest.approx(1.0, abs=1e-5)
    log, bad = updated(uniform(cells), Emission.of(exact, np.array([[[15_000.0, -90_000.0]]]), cells), p)
    assert bad.all() and np.array_equal(p, uniform(cells)) and log[0] == 0


def test_hours_are_told_apart_and_shrunk_to_the_pool() -> None:
    assert hour_class(np.array([0.0, 9.5 * 3600, 5 * 86400 + 9.5 * 3600, np.nan]), 1800.0).tolist() == [47, 9, 33, 0]
    borrowed = weights_without_knowledge(np.array([150.0, 400.0]))
    assert borrowed.sum() == pytest.approx(1.0)
    habits = Habits.none(1, True, borrowed)
    stays = np.array([[1.0, 0, 0, 0]])
    for _ in range(200):
        habits = habits.plus(3, stays).plus(12, 1 - stays)
    assert habits.weight(3)[0, 0] > 0.9 > 0.1 > habits.weight(12)[0, 0]
    assert habits.weight(3)[0, 0] > habits.weight(20)[0, 0] > habits.weight(12)[0, 0]
    assert [part_of_day(c) for c in (0, 5, 6, 23, 24, 47)] == [0, 0, 1, 3, 4, 7]


def test_weights_are_found_again_in_displacements() -> None:
    rng, sigma = np.random.default_rng(7), np.array([400.0, 2500.0])
    moved = np.concatenate([np.zeros(600), np.hypot(*rng.normal(0, 400, (2, 400)))])
    weight = weights_of(moved, sigma, 100.0, np.full(2, 20_000.0))
    assert weight == pytest.approx([0.59, 0.38, 0.02, 0.01], abs=0.03)  # a tenth is that of a UE without knowledge
    assert weights_of(np.zeros(0), sigma, 100.0, np.full(2, 1e4)) == pytest.approx(weights_without_knowledge(sigma))


def test_learning_happens_on_a_coarser_grid_and_keeps_the_mass() -> None:
    fine = PlaceGrid(Area(0.0, 0.0, 7200.0, 3100.0), 72, 31)
    chain, habits, own = chain_of(1, fine)
    coarse = chain.coarser()
    assert (coarse.motion.grid.nx, coarse.motion.grid.ny) == (50, 31) and coarse.coarser() is coarse
    assert coarse.motion.sigma_m is chain.motion.sigma_m
    assert coarse.prior.sum() == pytest.approx(1.0, abs=1e-5)
    east = (chain.prior * np.arange(72)).sum() / 72 - (coarse.prior * np.arange(50)).sum() / 50
    assert east == pytest.approx(0.5 / 50 - 0.5 / 72, abs=2e-4)  # the same mean place
    p = OwnPlaces.none(1, True, 31, 72).plus(0, chain.prior).resampled(coarse.motion.grid).resampled(fine)
    assert sums(p.occupancy[0]) == pytest.approx(1.0, abs=1e-5)
    z = np.repeat(np.array([[[2000.0, 900.0]]]), 30, axis=0) + np.random.default_rng(0).normal(0, 250, (30, 1, 2))
    on = [learnt(one, history(z), np.arange(1), habits, own, 2).habits.weight(0) for one in (chain, coarse)]
    assert on[0] == pytest.approx(on[1], abs=1e-6)
    assert learnt(chain, history(z), np.arange(1), habits, own, 1).p.shape == (30, 1, 31, 72)

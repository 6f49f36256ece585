"""The Bayesian filter and smoother: facts that hold whatever the data."""

from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest
from scipy.special import erf

from fl.tracking.chain import (
    Chain,
    Habits,
    Motion,
    RoundOfMotion,
    sums,
    weights_of,
    weights_without_knowledge,
)
from fl.tracking.error_model import ErrorModel
from fl.tracking.history import MOST_STEPS, History, hour_class
from fl.tracking.place_grid import PlaceGrid
from fl.types import Public, RoundContext
from netsim.geometry import Area

ROUND_S = 1800.0
NOTHING = Public(Area(0.0, 0.0, 1.0, 1.0), 1)
ERRORS = ErrorModel(
    np.array([0.7, 0.3]), np.array([250.0, 900.0]), 0.1, 0.0, np.ones(2), np.zeros((2, 2))
)


def grid(nx: int, ny: int, side_m: float = 3000.0) -> PlaceGrid:
    return PlaceGrid(Area(0.0, 0.0, side_m, side_m), nx, ny)


def history(z_m: np.ndarray, rounds: list[int] | None = None) -> History:
    """Estimates (T, n, 2) of UEs 0 ... n - 1, NaN where there are none."""
    past = History.empty(1)
    for t, z in zip(rounds or range(len(z_m)), z_m, strict=True):
        there = np.flatnonzero(np.isfinite(z).all(axis=1))
        facts = RoundContext(t + 1, t * ROUND_S, NOTHING, week_s=(t + 1) * ROUND_S)
        past = past.plus(facts, ERRORS, there, z[there][:, None])
    return past


def dense(motion: Motion, weight: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """K (G, G) of one UE, from its definition: Gaussians that end inside the area."""
    cells = motion.grid
    k = weight[0] * np.eye(len(cells)) + weight[-1] * prior.reshape(1, -1)
    for w, sigma in zip(weight[1:-1], motion.sigma_m, strict=True):
        y, x = (
            inside(n, side, sigma)
            for n, side in zip((cells.ny, cells.nx), cells.cell_m[::-1], strict=True)
        )
        k += w * np.einsum("ab,cd->acbd", y, x).reshape(len(cells), len(cells))
    return k


def inside(n: int, cell_m: float, sigma_m: float) -> np.ndarray:
    """G (n, n) along an axis: of what ends in its cells, the share in each."""
    away = (np.arange(n) - np.arange(n)[:, None]) * cell_m
    mass = erf((away + cell_m / 2) / sigma_m / 2**0.5) - erf((away - cell_m / 2) / sigma_m / 2**0.5)
    return mass / mass.sum(axis=1, keepdims=True)


def chain_of(n_ue: int = 3, cells: PlaceGrid | None = None, seed: int = 0) -> tuple[Chain, Habits]:
    cells = grid(3, 3) if cells is None else cells
    motion = Motion.over(cells, 30.0, ROUND_S)
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.ones(len(cells))).reshape(1, cells.ny, cells.nx).astype(np.float32)
    borrowed = rng.dirichlet(np.ones(len(motion.sigma_m) + 2))
    habits = Habits.none(n_ue, borrowed, cells, own_places=False)
    habits.count[:] = rng.gamma(2.0, 5.0, (n_ue, len(borrowed)))
    return Chain(motion, prior, ROUND_S), habits


def run(chain: Chain, habits: Habits, looks: History, n_ue: int) -> list[np.ndarray]:
    """The filter over a whole history: its beliefs."""
    z, first = looks.of(np.arange(n_ue))
    assert (first == 0).all()
    p = np.repeat(chain.prior, n_ue, axis=0)
    beliefs = []
    for t in range(len(looks)):
        p, _ = chain.filtered(
            p, habits, looks.classes(t, ROUND_S), ERRORS.emission(z[t], chain.grid)
        )
        beliefs.append(p)
    return beliefs


def smoothed(
    chain: Chain, looks: History, ues: Iterable[int], habits: Habits, passes: int = 0
) -> np.ndarray:
    """Beliefs (S, n, ny, nx) of all groups."""
    every = [p for _, p in chain.smoothed(looks, np.array([*ues]), habits, passes)]
    return np.concatenate(every, axis=1)


def test_filter_and_smoother_agree_with_the_enumeration_of_all_paths() -> None:
    chain, habits = chain_of()
    rng = np.random.default_rng(1)
    z = rng.uniform(0, 3000, (4, 3, 2))
    z[2, 1] = np.nan  # nothing is said of UE 1 in the third round
    looks = history(z)
    beliefs = run(chain, habits, looks, 3)
    found = smoothed(chain, looks, [0, 1, 2], habits)
    paths = np.array(list(product(range(9), repeat=4)))
    assert len(paths) == 6561
    for u in range(3):
        k = dense(chain.motion, habits.weight[u], chain.prior)
        e = np.stack([ERRORS.likelihood(z[t, u][None, None], chain.grid)[0] for t in range(4)])
        moves = np.prod([k[paths[:, t - 1], paths[:, t]] for t in (1, 2, 3)], axis=0)
        joint = (
            chain.prior.reshape(-1)[paths[:, 0]]
            * moves
            * np.prod([e[t, paths[:, t]] for t in range(4)], axis=0)
        )
        for t in range(4):
            smooth = np.bincount(paths[:, t], weights=joint, minlength=9) / joint.sum()
            assert found[t, u].reshape(-1) == pytest.approx(smooth, abs=5e-7)
        assert beliefs[3][u].reshape(-1) == pytest.approx(
            smooth, abs=5e-7
        )  # of the last round both know the same


def test_expected_uses_of_components_agree_with_the_enumeration() -> None:
    chain, habits = chain_of(1)
    z = np.random.default_rng(2).uniform(0, 3000, (3, 1, 2))
    e = np.stack([ERRORS.likelihood(z[t][:, None], chain.grid)[0] for t in range(3)])
    each = [dense(chain.motion, w, chain.prior) for w in np.diag(habits.weight[0])]
    a = chain.prior.reshape(-1) * e[0]
    first = np.array([(a @ k * e[1]) @ (sum(each) @ e[2]) for k in each])
    second = np.array([((a @ sum(each)) * e[1]) @ k @ e[2] for k in each])
    use = first / first.sum() + second / second.sum()
    found = chain.learnt(history(z), np.arange(1), habits, 1)
    assert found.count[0] == pytest.approx(use, abs=2e-6)
    online = np.array([chain.prior.reshape(-1) @ k @ e[1] for k in each])
    _, uses = chain.filtered(chain.prior, habits, [0], ERRORS.emission(z[1][:, None], chain.grid))
    assert uses[0] == pytest.approx(online / online.sum(), abs=2e-6)


def test_motion_is_stochastic_and_has_an_adjoint() -> None:
    rng = np.random.default_rng(4)
    for cells in (grid(40, 25, 10_000.0), grid(3, 3), grid(1, 7), grid(1, 1)):
        motion = Motion.over(cells, 30.0, ROUND_S)
        target = (
            rng.dirichlet(np.ones(len(cells)), 5).reshape(5, cells.ny, cells.nx).astype(np.float32)
        )
        leg = RoundOfMotion(rng.dirichlet(np.ones(len(motion.sigma_m) + 2), 5), target)
        a, b = (rng.random((5, cells.ny, cells.nx), dtype=np.float32) for _ in "ab")
        ones = np.ones_like(a)
        assert motion.back(ones, leg)[0] == pytest.approx(ones, abs=2e-5)
        (moved, uses) = motion.step(a, leg, b)
        (back, same) = motion.back(b, leg, a)
        assert same == pytest.approx(uses, rel=1e-4)
        assert sums(moved) == pytest.approx(sums(a), rel=1e-5)
        assert sums(moved * b) == pytest.approx(sums(a * back), rel=1e-5)
        for u in (0, 4):
            k = dense(motion, leg.weight[u], target[u])
            assert moved[u].reshape(-1) == pytest.approx(a[u].reshape(-1) @ k, rel=2e-4)
            each = [
                a[u].reshape(-1) @ dense(motion, w, target[u]) @ b[u].reshape(-1)
                for w in np.diag(leg.weight[u])
            ]
            assert uses[u] == pytest.approx(np.array(each) / sum(each), rel=1e-4)


def test_permuted_ues_are_equal_to_the_bit_and_groups_change_nothing() -> None:
    cells = grid(47, 53, 5000.0)
    rng = np.random.default_rng(5)
    n = 11
    chain, habits = chain_of(n, cells)
    z = rng.uniform(0, 5000, (6, n, 2))
    looks = history(z)
    order = rng.permutation(n)
    permuted = run(chain, habits.select(order), history(z[:, order]), n)
    for one, other in zip(run(chain, habits, looks, n), permuted, strict=True):
        assert np.array_equal(one[order], other)
    every = smoothed(chain, looks, range(n), habits, 1)
    counts = chain.learnt(looks, np.arange(n), habits, 1).count
    for u in range(n):
        alone = habits.select(np.array([u]))
        assert np.array_equal(smoothed(chain, looks, [u], alone, 1)[:, 0], every[:, u])
        assert np.array_equal(chain.learnt(looks, np.array([u]), alone, 1).count[0], counts[u])


def test_gaps_equal_repeated_steps_and_one_instant_has_none() -> None:
    past = History.empty(1)
    for time_s in (0.0, 1800.0, 1800.0, 9000.0, 9000.0 + 1e9):
        past = past.plus(
            RoundContext(1, time_s, NOTHING),
            ERRORS,
            np.zeros(0, dtype=np.int64),
            np.zeros((0, 1, 2)),
        )
    assert [past.steps(look, ROUND_S) for look in range(5)] == [0, 1, 0, 4, MOST_STEPS]
    chain, habits = chain_of(1)
    here = np.array([[[300.0, 400.0]]])
    there = np.array([[[2500.0, 1700.0]]])
    gap = history(np.concatenate([here, np.full((3, 1, 2), np.nan), there]))
    skipped = history(np.concatenate([here, there]), [0, 4])
    whole, jumped = (smoothed(chain, looks, [0], habits) for looks in (gap, skipped))
    assert jumped == pytest.approx(whole[[0, 4]], abs=1e-6)


def test_uses_draw_weights_away_from_what_is_borrowed() -> None:
    assert hour_class(
        np.array([0.0, 9.5 * 3600, 5 * 86400 + 9.5 * 3600, np.nan]), 1800.0
    ).tolist() == [47, 9, 33, 0]
    borrowed = weights_without_knowledge(np.array([150.0, 400.0]))
    assert borrowed.sum() == pytest.approx(1.0)
    habits = Habits.none(1, borrowed, grid(2, 2), own_places=False)
    assert habits.weight[0] == pytest.approx(borrowed)
    habits.count[0, 0] = 8.0  # as much as the guess counts
    assert habits.weight[0] == pytest.approx((borrowed + np.eye(4)[0]) / 2)


def test_weights_are_found_again_in_displacements() -> None:
    rng = np.random.default_rng(7)
    sigma = np.array([400.0, 2500.0])
    moved = np.concatenate([np.zeros(600), np.hypot(*rng.normal(0, 400, (2, 400)))])
    weight = weights_of(moved, sigma, 100.0, np.full(2, 20_000.0))
    assert weight == pytest.approx(
        [0.59, 0.38, 0.02, 0.01], abs=0.03
    )  # a tenth is that of a UE without knowledge
    assert weights_of(np.zeros(0), sigma, 100.0, np.full(2, 1e4)) == pytest.approx(
        weights_without_knowledge(sigma)
    )


def test_jumps_end_where_a_ue_was_at_this_time_of_day() -> None:
    prior = np.full((1, 2, 2), 0.25, dtype=np.float32)
    habits = Habits.none(1, weights_without_knowledge(np.zeros(0)), grid(2, 2), own_places=True)
    for hour in (0, 5):  # of the first quarter of a weekday
        habits.add_belief(hour, np.array([[[1.0, 0], [0, 0]]], dtype=np.float32))
    habits.add_belief(23, np.array([[[0, 0], [0, 1.0]]], dtype=np.float32))
    assert habits.leg(3, prior).target[0] == pytest.approx(
        np.array([[0.825, 0.025], [0.025, 0.125]])
    )
    assert habits.leg(30, prior).target[0] == pytest.approx(
        np.array([[0.375, 0.175], [0.175, 0.275]])
    )


def test_learning_happens_on_a_coarser_grid_and_keeps_the_mass() -> None:
    fine = PlaceGrid(Area(0.0, 0.0, 7200.0, 3100.0), 72, 31)
    chain, habits = chain_of(1, fine)
    coarse = chain.coarser()
    assert (coarse.grid.nx, coarse.grid.ny) == (50, 31)
    assert coarse.coarser() is coarse
    assert coarse.prior.sum() == pytest.approx(1.0, abs=1e-5)
    east = (chain.prior * np.arange(72)).sum() / 72 - (coarse.prior * np.arange(50)).sum() / 50
    assert east == pytest.approx(0.5 / 50 - 0.5 / 72, abs=2e-4)  # the same mean place
    z = np.repeat(np.array([[[2000.0, 900.0]]]), 30, axis=0) + np.random.default_rng(0).normal(
        0, 250, (30, 1, 2)
    )
    on = [one.learnt(history(z), np.arange(1), habits).weight for one in (chain, coarse)]
    assert on[0] == pytest.approx(on[1], abs=1e-6)
    assert smoothed(chain, history(z), [0], habits, 1).shape == (30, 1, 31, 72)

"""Particles: they believe what the grid believes, and more exactly where estimates are exact."""

from dataclasses import replace
from math import pi

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.special import ndtr
from told_places import HOME_M, away_m, facts_of, noisy, played, tracker, view_of

from fl.attacks.tracker import Tracker
from fl.tracking import scattered, trajectories
from fl.tracking.answers import answers
from fl.tracking.cloud import Cloud, Sight
from fl.tracking.emission import Emission
from fl.tracking.error_model import ErrorModel, ErrorModels
from fl.tracking.filter import Leg, step
from fl.tracking.habits import Habits, weights_without_knowledge
from fl.tracking.history import History
from fl.tracking.motion import Motion
from fl.tracking.own_places import OwnPlaces
from fl.tracking.particles import Kernel, Move, followed
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.smoother import Chain, smoothed
from fl.tracking.truncated import inside_mass, truncated_normal
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.tree import from_tree, to_tree

ROUND_S = 1800.0
GRID = PlaceGrid(Area(0.0, 0.0, 4000.0, 3000.0), 40, 30)
MOTION = Motion.over(GRID, 30.0, ROUND_S)
WEIGHT = weights_without_knowledge(MOTION.sigma_m)
ERRORS = ErrorModel(
    np.array([0.7, 0.3]), np.array([200.0, 500.0]), 0.1,
    gain=np.array([1.0, 0.8]), offset_m=np.array([[0.0, 0.0], [300.0, 250.0]]),
)  # fmt: skip


def sloping() -> np.ndarray:
    """A prior that is larger in the east."""
    p = np.repeat(np.arange(1.0, 41.0)[None], 30, axis=0)
    return (p / p.sum())[None].astype(np.float32)


KERNEL = Kernel.of(MOTION, sloping())


def followed_to(
    z_m: np.ndarray, particles: int, errors: ErrorModel = ERRORS, ue: np.ndarray | None = None, steps: int = 1
) -> list[Move]:
    """The filter over estimates (T, n, R, 2), with `steps` rounds between looks."""
    ue, moves = np.arange(z_m.shape[1]) if ue is None else ue, list[Move]()
    cloud, weight = Cloud.none(len(ue), particles), np.repeat(WEIGHT[None], len(ue), axis=0)
    for t, z in enumerate(z_m):
        new = np.full(len(ue), t == 0)
        *_, last = followed(
            KERNEL, cloud, new, [weight] * steps if t else [], Sight.of(errors, z, GRID), Streams(7).at("test", t), ue
        )
        cloud = last.cloud
        moves.append(last)
    return moves


def apart(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Total variation (n,) of beliefs."""
    return np.asarray(0.5 * np.abs(p.reshape(len(p), -1) - q.reshape(len(q), -1)).sum(axis=1))


def estimates(rounds: int, n: int, seed: int = 0) -> np.ndarray:
    """Two places each (T, n, 2, 2) around places at rest."""
    rng = np.random.default_rng(seed)
    home = rng.uniform(500, 2500, (n, 1, 2))
    return home + rng.normal(0, 200, (rounds, n, 2, 2)) + np.array([[0.0, 0.0], [-100.0, 50.0]])


@pytest.mark.parametrize("steps", [1, 3])
def test_the_filter_agrees_with_the_grid(steps: int) -> None:
    z = estimates(5, 3)
    z[3, 1] = np.nan  # nothing is said of UE 1
    p, weight = np.repeat(KERNEL.prior, 3, axis=0), np.repeat(WEIGHT[None], 3, axis=0)
    for t, move in enumerate(followed_to(z, 8000, steps=steps)):
        legs = [Leg(weight, KERNEL.prior)] * steps if t else []
        done = step(MOTION, p, legs, Emission.of(ERRORS, z[t], GRID))
        p, exact = done.p, done.p.reshape(3, -1)
        believed = scattered.counted(move.cloud, GRID)
        assert believed.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
        assert believed @ GRID.place_m == pytest.approx(exact @ GRID.place_m, abs=25.0)
        assert (apart(believed, exact) < 0.08).all()
        assert move.log_ratio == pytest.approx(done.log_ratio, abs=0.08)
        areas = [answers(q, GRID, 100.0).area90_m2 for q in (believed, exact)]
        assert areas[0] == pytest.approx(areas[1], rel=0.15)
        if t and steps == 1:
            assert move.share == pytest.approx(done.share, abs=0.015)
            assert move.share.sum(axis=1) == pytest.approx(1.0)


def history(z_m: np.ndarray, errors: ErrorModel = ERRORS, every: int = 1) -> History:
    past = History.empty(z_m.shape[2])
    for t, z in enumerate(z_m):
        there = np.flatnonzero(np.isfinite(z).all(axis=(1, 2)))
        time_s = t * every * ROUND_S
        past = past.plus(t + 1, time_s, time_s, ROUND_S, errors, there, z[there])
    return past


@pytest.mark.parametrize(("every", "passes"), [(1, 0), (2, 0), (1, 2)])
def test_the_smoother_agrees_with_the_grid(every: int, passes: int) -> None:
    z = estimates(6, 3, seed=1)
    z[0, 2] = z[3, 1] = np.nan  # UE 2 comes later
    looks, ue = history(z, every=every), np.arange(3)
    habits = Habits.none(3, False, WEIGHT)
    chain = Chain(MOTION, KERNEL.prior, ROUND_S)
    exact = list(smoothed(chain, looks, ue, habits, OwnPlaces.none(3, False, 30, 40), passes))
    found = list(trajectories.smoothed(KERNEL, ROUND_S, looks, ue, habits, 3000, 5, passes))
    assert [b.ue.tolist() for b in found] == [[0, 1]] + [[0, 1, 2]] * 5
    for one, other in zip(found, exact, strict=True):
        assert (one.round, one.time_s) == (other.round, other.time_s)
        assert one.probability @ GRID.place_m == pytest.approx(other.probability @ GRID.place_m, abs=60.0)
        assert (apart(one.probability, other.probability) < 0.3).all()
        areas = [answers(b.probability, GRID, 100.0).area90_m2 for b in (one, other)]
        assert areas[0] == pytest.approx(areas[1], rel=0.5)
    gap = np.array(
        [(one.probability - other.probability) @ GRID.place_m for one, other in zip(found[1:], exact[1:], strict=True)]
    )
    assert np.abs(gap.mean(axis=(0, 1))).max() < 12.0  # no systematic shift


def test_exact_estimates_are_found_by_few_particles_wherever_the_ue_goes() -> None:
    exact, rng = ErrorModel.plain(1.0, 1e-3), np.random.default_rng(0)
    at = rng.uniform([100, 100], [3900, 2900], (6, 2, 2))
    for t, move in enumerate(followed_to(at[:, :, None], 100, exact)):
        assert scattered.middle_m(move.cloud) == pytest.approx(at[t], abs=0.5)
        assert scattered.probability_within(move.cloud, at[t], 5.0, 0.0) == pytest.approx(1.0, abs=0.03)
    for belief in trajectories.smoothed(
        KERNEL, ROUND_S, history(at[:, :, None], exact), np.arange(2), Habits.none(2, False, WEIGHT), 100, 3
    ):
        likeliest = belief.probability.argmax(axis=1)
        assert likeliest.tolist() == GRID.nearest(at[belief.round - 1]).tolist()


def test_ues_are_drawn_for_by_their_names_alone() -> None:
    z, order = estimates(4, 5), np.array([3, 0, 4, 1, 2])
    every, permuted = followed_to(z, 400)[-1], followed_to(z[:, order], 400, ue=order)[-1]
    alone = followed_to(z[:, [3]], 400, ue=np.array([3]))[-1]
    assert np.array_equal(every.cloud.place_m[order], permuted.cloud.place_m)
    assert np.array_equal(every.cloud.log_weight[order], permuted.cloud.log_weight)
    assert np.array_equal(every.cloud.place_m[3], alone.cloud.place_m[0])
    assert np.array_equal(every.share[3], alone.share[0])
    assert not np.array_equal(every.cloud.place_m[3], every.cloud.place_m[2])


def test_an_impossible_estimate_moves_its_ue_only() -> None:
    exact = ErrorModel.plain(100.0, 0.0)
    z = estimates(3, 2)[:, :, :1]
    z[2, 1] = [1500.0, -900_000.0]
    wild = followed_to(z, 500, exact)[-1]
    assert wild.bad.tolist() == [False, True] and wild.log_ratio[1] == 0 and (wild.share[1] == 0).all()
    assert GRID.area.contains(wild.cloud.place_m[1]).all()
    z[2, 1] = np.nan
    silent = followed_to(z, 500, exact)[-1]
    assert np.array_equal(wild.cloud.place_m, silent.cloud.place_m)
    assert np.array_equal(wild.cloud.log_weight, silent.cloud.log_weight)


def test_two_looks_at_one_instant_only_weigh() -> None:
    z = estimates(1, 2)[0]
    sight, ue, rng = Sight.of(ERRORS, z, GRID), np.arange(2), Streams(1).at("test")
    (once,) = followed(KERNEL, Cloud.none(2, 5000), np.array([True, True]), [], sight, rng, ue)
    (twice,) = followed(KERNEL, once.cloud, np.array([False, True]), [], sight, rng, ue)
    assert np.array_equal(twice.cloud.place_m, once.cloud.place_m)
    assert np.array_equal(twice.cloud.log_weight[1], once.cloud.log_weight[1])  # a new one begins in the same way
    first = step(MOTION, KERNEL.prior.repeat(2, axis=0), [], Emission.of(ERRORS, z, GRID))
    again = step(MOTION, first.p, [], Emission.of(ERRORS, z, GRID))
    assert twice.log_ratio[0] == pytest.approx(again.log_ratio[0], abs=0.05)
    assert np.exp(twice.cloud.log_weight).sum(axis=1) == pytest.approx(1.0)


def test_densities_at_points_have_the_means_of_cells() -> None:
    fine = PlaceGrid(GRID.area, 200, 150)
    z = estimates(1, 2)[0]
    at = ErrorModels.of([ERRORS], 2).densities(np.zeros(2, dtype=np.int64), z, float(np.prod(GRID.area.side_m)))
    square = ((fine.place_m[None, :, None] - at.mean_m[:, None]) ** 2).sum(axis=3)
    variance = at.sigma_m[:, None] ** 2
    e = at.floor[:, None] + (at.weight[:, None] * np.exp(-square / 2 / variance) / (2 * pi * variance)).sum(axis=2)
    assert e == pytest.approx(ERRORS.likelihood(z, fine) * np.prod(GRID.area.side_m), rel=5e-3)


def test_gaussians_that_end_inside() -> None:
    low, high, u = np.array([0.0, 0.0]), np.array([100.0, 50.0]), np.random.default_rng(0).random((40_000, 2))
    mean, sigma = np.array([[-20.0, 25.0]]), np.array([[30.0]])
    mass = np.prod(ndtr((high - mean[0]) / 30.0) - ndtr((low - mean[0]) / 30.0))
    assert inside_mass(mean, sigma, low, high) == pytest.approx([mass])
    assert inside_mass(np.array([[50.0, 25.0]]), np.array([[1.0]]), low, high) == pytest.approx([1.0])
    drawn = truncated_normal(mean, sigma, low, high, u)
    assert ((drawn >= low) & (drawn <= high)).all()
    hazard = np.exp(-0.5 * (20 / 30) ** 2) / np.sqrt(2 * pi) / ndtr(-20 / 30)
    assert drawn[:, 0].mean() == pytest.approx(-20 + 30 * hazard, abs=0.5)  # beyond 100 m: 4 sigma
    for beyond_m, nearest_m in ((-1e6, 0.0), (1e6, 100.0)):
        far = truncated_normal(np.array([[beyond_m, 25.0]]), np.array([[1.0]]), low, high, u[:1])
        assert far[0, 0] == nearest_m


def test_what_particles_say() -> None:
    rng = np.random.default_rng(0)
    near = rng.normal([2030.0, 1540.0], 1.0, (1, 600, 2))
    far = rng.normal([630.0, 740.0], 1.0, (1, 400, 2))
    cloud = Cloud.equal(np.concatenate([near, far], axis=1))
    p = scattered.counted(cloud, GRID)
    at = GRID.nearest(np.array([[2030.0, 1540.0], [630.0, 740.0]]))
    assert p[0, at] == pytest.approx([0.6, 0.4], abs=1e-3)
    assert scattered.middle_m(cloud)[0] == pytest.approx([2030.0, 1540.0], abs=3.0)  # not the mean
    place = np.array([[2030.0, 1540.0]])
    assert scattered.probability_within(cloud, place, 100.0, 0.0) == pytest.approx([0.6])
    shown = 0.6 * (1 - np.exp(-(100.0**2) / (2 * 150.0**2)))
    assert scattered.probability_within(cloud, place, 100.0, 150.0) == pytest.approx([shown], abs=1e-3)
    even = Cloud.equal(rng.uniform([0, 0], [4000, 3000], (1, 1000, 2)))
    assert (scattered.counted(even, GRID) > 0).all()  # 1000 particles leave none of 1200 cells empty


def test_the_attack_follows_with_particles_and_a_resumed_one_goes_on_to_the_bit() -> None:
    said = noisy(12)
    said[::3, 0] = np.nan
    attack = tracker(said, particles=300, hours=True)
    *_, (_, whole, last) = played(attack, said)
    *_, (_, _, half) = played(attack, said[:7])
    again = from_tree(to_tree(half), attack.start())
    *_, (_, resumed, end) = played(attack, said, again, 7)
    assert np.array_equal(last.cloud.place_m, end.cloud.place_m) and np.array_equal(last.count, end.count)
    assert np.array_equal(whole.position_m, resumed.position_m, equal_nan=True)
    assert last.p.size == 0 and last.count.sum() > 0
    hindsight = [list(attack.hindsight(state, facts_of(11))) for state in (last, end)]
    assert [b.round for b in hindsight[0]] == list(range(12))
    for x, y in zip(*hindsight, strict=True):
        assert np.array_equal(x.probability, y.probability)
    now = attack.belief(last, facts_of(11))
    assert now is not None and now.probability.sum(axis=1) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("particles", [None, 200])
def test_answers_are_finer_than_cells(particles: int | None) -> None:
    said = np.repeat(HOME_M[None], 5, axis=0)
    *_, (_, found, _) = played(tracker(said, sigma_m=1.0, cell_m=100.0, particles=particles), said)
    assert (away_m(found, "centroid") < 2.0).all()
    assert found.weight[:3] == pytest.approx(1.0, abs=0.01)


def test_what_cannot_be_is_refused() -> None:
    for bad, why in (
        ({"particles": 500, "own_places": True}, "particles: 500 with own_places, which are maps"),
        ({"particles": 99}, "greater than or equal to 100"),
        ({"particles": 100_001}, "less than or equal to 100000"),
    ):
        with pytest.raises(ValidationError, match=why):
            Tracker.model_validate(bad)
    attack = tracker(noisy(1), particles=100_000)
    many = replace(attack.start(), ue=np.arange(200))
    with pytest.raises(BadInput, match="particles 100,000 of 200 UEs, at most 10,000,000 together"):
        attack.run(view_of(np.arange(3)), facts_of(0), many, Streams(0).at("attack.test"))

"""Noise with a shape: budgets, closed forms, the nested algorithm of the paper, and centroid
attacks."""

import numpy as np
import pytest
from local_data import make_local
from noticed import lines
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pytest import approx, mark

from fl.attacks.base import View
from fl.attacks.grid_updates import WeightedCentroid, find_weighted_centroid
from fl.data.links import LinkMeasurements
from fl.defenses.clip import Clip
from fl.defenses.gaussian import Gaussian
from fl.defenses.shaped_noise import Alignment, EdgeNoise, GeometryAligned, UniformNoise
from fl.learners.radio_map import RadioMap
from fl.privacy.gaussian import compute_gaussian_epsilon
from fl.radio_map.obstacles import infer_height_grid
from fl.round.learning import Learning
from fl.types import DenseUpdates, Model, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 300.0, 300.0)
N = 30
GRID = infer_height_grid(AREA, N * N)
RAMP = GRID.place_m @ [0.6, 0.8]


def draw_peaks(n=4, seed=0):
    """Squared gradients that fall off from each device's place."""
    rng = default_rng(seed)
    place = rng.uniform(30, 270, (n, 2))
    away = norm(GRID.place_m[None] - place[:, None] - 4.0, axis=2)
    return np.exp(-away / 12) * rng.uniform(0.5, 1.5, (n, N * N)) ** 2, place


class TestFilled:
    @mark.parametrize("mu", [1e-3, 1.0, 1e5])
    @mark.parametrize("slope", [0.0, 1e-2, 10.0])
    def test_the_budget_is_spent_with_equality_on_a_ramp(self, mu, slope):
        g, place = draw_peaks()
        ramp = np.tile(slope * RAMP, (4, 1))
        sigma2 = Alignment(g, AREA, place, mu, 1.0).fill_budget(ramp)
        assert_allclose(sigma2.sum(axis=1), mu * g.sum(axis=1), rtol=1e-9)
        for variance, depth in zip(sigma2, g - ramp, strict=True):
            wet = variance > 1e-12 * variance.max()
            level = (variance + depth)[wet]
            assert np.ptp(level) <= 1e-9 * max(np.abs(level).max(), ramp.max())
            assert depth[~wet].min(initial=np.inf) >= level.max() * (1 - 1e-9) - 1e-9


class TestClosedForms:
    def test_variance_and_error_against_draws(self):
        g, place = draw_peaks(1)
        law = Alignment(g, AREA, place, 5.0, 1.0)
        sigma2 = law.fill_budget(0.004 * RAMP[None])
        draws = default_rng(1).normal(size=(6000, N * N))
        square = (np.sqrt(g) + np.sqrt(sigma2) * draws) ** 2
        variance = square.var(axis=1).mean()
        assert law.compute_spatial_variance(sigma2)[0] == approx(variance, rel=0.01)
        centroid_m = square @ GRID.place_m / square.sum(axis=1, keepdims=True)
        error = ((centroid_m - place) ** 2).sum(axis=1).mean()
        assert law.compute_squared_error_m2(sigma2)[0] == approx(error, rel=0.02)


def play_nested(g, place, mu, rho, start_slope, outer=20, inner=40):
    """Algorithm 1 as printed, for one device: bisection inside ascent of r inside ascent of u
    (ascent with halving)."""
    law = Alignment(g[None], AREA, place[None], mu, rho)

    def value(angle, slope):
        ramp = slope * (GRID.place_m @ [np.cos(angle), np.sin(angle)])
        budget = mu * g.sum()
        low = (g - ramp).min()
        high = (g - ramp).max() + budget
        for _ in range(60):
            b = (low + high) / 2
            if np.maximum(0, ramp + b - g).sum() < budget:
                low = b
            else:
                high = b
        return law.compute_objective_m2(np.maximum(0, ramp + b - g)[None])[0]

    towards = g @ GRID.place_m / g.sum() - place
    angle = np.arctan2(towards[1], towards[0])
    slope = start_slope
    turn = 0.5
    for _ in range(outer):
        factor = 2.0
        for _ in range(inner):
            best = max((slope / factor, slope, slope * factor), key=lambda s: value(angle, s))
            if best == slope:
                factor = np.sqrt(factor)
            slope = best
            if factor < 1.01:
                break
        best = max((angle - turn, angle, angle + turn), key=lambda a: value(a, slope))
        if best == angle:
            turn /= 2
        angle = best
        if turn < 0.01:
            break
    return value(angle, slope)


class TestAligned:
    @mark.parametrize("mu, rho", [(1.0, 1.0), (50.0, 100.0)])
    def test_it_is_no_worse_than_the_printed_algorithm(self, mu, rho):
        g, place = draw_peaks(3)
        law = Alignment(g, AREA, place, mu, rho)
        sigma2 = law.optimise_variance()
        assert_allclose(sigma2.sum(axis=1), mu * g.sum(axis=1), rtol=1e-9)
        reached = law.compute_objective_m2(sigma2)
        for i in range(3):
            slope = mu * g[i].sum() / (N * N) / 100.0
            printed = play_nested(g[i], place[i], mu, rho, slope)
            assert reached[i] >= printed - 0.02 * abs(printed)


def cohort(rows, place, phase="heights"):
    n = np.arange(len(rows))
    one = np.ones(len(n))
    updates = DenseUpdates(n, 0 * n, one, rows, phase)
    return updates, make_local(one, place, one), RoundContext(1, 60.0, Public(AREA, 1))


def protect(part, rows, place, phase="heights"):
    """Updates (or these, where they stay), state and spends after a defense."""
    updates, data, facts = cohort(rows, place, phase)
    noisy, state, spends = part.protect(
        updates, data, facts, part.start(0), Streams(0).derive_rng("d")
    )
    return noisy if noisy is not updates else None, state, spends


class TestProof:
    """What a gradient and its opposite prove, mu^2 = sum 4 g / sigma^2: they have the same
    noise."""

    def test_uniform_noise_proves_the_same_of_any_gradient(self):
        g, _ = draw_peaks()
        sigma2 = UniformNoise(mu=50.0).compute_variance(g, None, None)
        assert_allclose((4 * g / sigma2).sum(axis=1), 4 * N * N / 50.0, rtol=1e-12)
        assert compute_gaussian_epsilon(1e-5, np.sqrt(4 * 100**2 / 50)) == approx(519.7, abs=0.1)

    def test_aligned_noise_leaves_gradients_bare(self):
        """A single number without noise tells which of two gradients was sent: no epsilon is
        finite."""
        g, place = draw_peaks()
        sigma2 = Alignment(g, AREA, place, 50.0, 1.0).optimise_variance()
        assert (((sigma2 == 0) & (g > 1e-3 * g.max())).any(axis=1)).all()


class TestDefenses:
    @mark.parametrize("part", [UniformNoise(mu=4.0), GeometryAligned(mu=4.0), EdgeNoise(mu=4.0)])
    def test_energy_of_the_noise_nothing_booked_and_other_phases_untouched(self, part):
        g, place = draw_peaks(60)
        noisy, state, spends = protect(part, np.sqrt(g), place)
        energy = ((noisy.values - np.sqrt(g)) ** 2).sum(axis=1) / g.sum(axis=1)
        assert energy.mean() == approx(4.0, rel=0.1)
        assert spends == []
        assert part.collect_figures(state)["noise_over_gradient"] == approx(energy.mean())
        assert "no guarantee" in lines(part.notices(None))[0]
        assert protect(part, np.ones((60, 4)), place, "propagation")[0] is None

    def test_one_device_more_moves_nobody_elses_noise(self):
        g, place = draw_peaks(5)
        part = GeometryAligned(mu=4.0)
        five, four = (protect(part, np.sqrt(g[:n]), place[:n])[0].values for n in (5, 4))
        assert_allclose(five[:4], four, rtol=1e-12, atol=1e-15)

    def test_a_clip_of_one_phase_leaves_the_other_and_gives_no_bound(self):
        g, place = draw_peaks(2)
        clip = Clip(norm=0.5, phase="heights")
        assert protect(clip, np.sqrt(g), place)[0].norm().max() <= 0.5
        assert protect(clip, np.ones((2, 4)), place, "propagation")[0] is None
        assert "bound" not in clip.offers
        assert clip.promise_norm({}) is None
        study = {"round_s": 60, "data": LinkMeasurements(), "learner": RadioMap()}
        with pytest.raises(ValueError, match="covers phase heights only"):
            Learning(**study, defenses=(clip, Gaussian(noise_multiplier=1.0)))
        with pytest.raises(ValueError, match="no learner here has a phase"):
            Learning(**study, defenses=(Clip(phase="hights"),))


class TestAttacks:
    def test_weights_by_hand(self):
        size = np.array([[1.0, 2.0, 0.0]])
        place_m = np.array([[0.0, 0.0], [3.0, 0.0], [9.0, 9.0]])
        for size_of_cell, nu, x_m, y_m in (
            (size, 1.0, 2.0, 0.0),
            (size, 2.0, 2.4, 0.0),
            (size, np.inf, 3.0, 0.0),
            (1e-250 * size, 10.0, 3 * 1024 / 1025, 0.0),
            (np.ones((1, 3)), np.inf, 4.0, 3.0),
            (0 * size, 2.0, np.nan, np.nan),
        ):
            assert_allclose(find_weighted_centroid(size_of_cell, place_m, nu), [[x_m, y_m]])

    def test_it_finds_devices_and_looks_at_heights_only(self):
        attack = WeightedCentroid(nu=5.0)
        ue = np.arange(6)
        model = Model(np.zeros((1, N * N + 4)), {"area_m": np.array([0.0, 0.0, 300.0, 300.0])})
        facts = RoundContext(1, 60.0, Public(AREA, 1))

        def estimate(rows, phase="heights"):
            parts = (rows, 0 * ue, ue, 0 * ue, ue, model, model, RadioMap(cell_m=10.0))
            view = View("updates", phase, *parts)
            return attack.run(view, facts, attack.start(), Streams(0).derive_rng("a"))[0]

        g, place = draw_peaks(6)
        assert norm(estimate(np.sqrt(g)).position_m - place, axis=1).max() < 25
        assert len(estimate(np.ones((6, 4)), "propagation").ue) == 0
        assert set(estimate(0 * g).status) == {"no gradient"}

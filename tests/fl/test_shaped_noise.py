"""Noise with a shape: budgets, closed forms, the nested algorithm of the paper, and centroid
attacks."""

import numpy as np
import pytest
from noticed import lines

from fl.attacks.base import View
from fl.attacks.grid_updates import WeightedCentroid, weighted_centroid
from fl.data.links import LinkMeasurements
from fl.defenses.clip import Clip
from fl.defenses.gaussian import Gaussian
from fl.defenses.shaped_noise import Alignment, EdgeNoise, GeometryAligned, UniformNoise
from fl.learners.radio_map import RadioMap
from fl.privacy.gaussian import epsilon_of
from fl.radio_map.obstacles import height_grid_of
from fl.round.learning import Learning
from fl.types import DenseUpdates, Local, Model, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 300.0, 300.0)
N = 30
GRID = height_grid_of(AREA, N * N)


def peaked(n=4, seed=0):
    """Squared gradients that fall off from each device's place."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(30, 270, (n, 2))
    away = np.linalg.norm(GRID.place_m[None] - place[:, None] - 4.0, axis=2)
    return np.exp(-away / 12) * rng.uniform(0.5, 1.5, (n, N * N)) ** 2, place


class TestFilled:
    @pytest.mark.parametrize("mu", [1e-3, 1.0, 1e5])
    @pytest.mark.parametrize("slope", [0.0, 1e-2, 10.0])
    def test_the_budget_is_spent_with_equality_on_a_ramp(self, mu, slope):
        g, place = peaked()
        ramp = slope * (GRID.place_m @ [0.6, 0.8])[None] * np.ones((4, 1))
        sigma2 = Alignment(g, AREA, place, mu, 1.0).filled(ramp)
        np.testing.assert_allclose(sigma2.sum(axis=1), mu * g.sum(axis=1), rtol=1e-9)
        for i in range(4):
            wet = sigma2[i] > 1e-12 * sigma2[i].max()
            level = sigma2[i] + g[i] - ramp[i]
            assert np.ptp(level[wet]) <= 1e-9 * max(np.abs(level[wet]).max(), ramp[i].max())
            assert (g[i] - ramp[i])[~wet].min(initial=np.inf) >= level[wet].max() * (
                1 - 1e-9
            ) - 1e-9


class TestClosedForms:
    def test_variance_and_error_against_draws(self):
        g, place = peaked(1)
        ramp = 0.004 * (GRID.place_m @ [0.6, 0.8])[None]
        law = Alignment(g, AREA, place, 5.0, 1.0)
        sigma2 = law.filled(ramp)
        draws = np.random.default_rng(1).normal(size=(6000, N * N))
        square = (np.sqrt(g) + np.sqrt(sigma2) * draws) ** 2
        assert law.spatial_variance(sigma2)[0] == pytest.approx(square.var(axis=1).mean(), rel=0.01)
        where = square @ GRID.place_m / square.sum(axis=1, keepdims=True)
        error = ((where - place) ** 2).sum(axis=1).mean()
        assert law.squared_error_m2(sigma2)[0] == pytest.approx(error, rel=0.02)


def nested(g, place, mu, rho, start_slope, outer=20, inner=40):
    """Algorithm 1 as printed, for one device: bisection inside ascent of r inside ascent of u
    (ascent with halving)."""

    def value(angle, slope):
        ramp = slope * (GRID.place_m @ [np.cos(angle), np.sin(angle)])
        budget = mu * g.sum()
        low = (g - ramp).min()
        high = (g - ramp).max() + budget
        for _ in range(60):
            b = (low + high) / 2
            low, high = (b, high) if np.maximum(0, ramp + b - g).sum() < budget else (low, b)
        sigma2 = np.maximum(0, ramp + b - g)
        return Alignment(g[None], AREA, place[None], mu, rho).objective_m2(sigma2[None])[0]

    towards = g @ GRID.place_m / g.sum() - place
    angle = np.arctan2(towards[1], towards[0])
    slope = start_slope
    turn = 0.5
    for _ in range(outer):
        factor = 2.0
        for _ in range(inner):
            best = max((slope / factor, slope, slope * factor), key=lambda s: value(angle, s))
            factor = np.sqrt(factor) if best == slope else factor
            slope = best
            if factor < 1.01:
                break
        best = max((angle - turn, angle, angle + turn), key=lambda a: value(a, slope))
        turn = turn / 2 if best == angle else turn
        angle = best
        if turn < 0.01:
            break
    return value(angle, slope)


class TestAligned:
    @pytest.mark.parametrize(("mu", "rho"), [(1.0, 1.0), (50.0, 100.0)])
    def test_it_is_no_worse_than_the_printed_algorithm(self, mu, rho):
        g, place = peaked(3)
        law = Alignment(g, AREA, place, mu, rho)
        sigma2 = law.aligned()
        np.testing.assert_allclose(sigma2.sum(axis=1), mu * g.sum(axis=1), rtol=1e-9)
        mine = law.objective_m2(sigma2)
        for i in range(3):
            slope = mu * g[i].sum() / (N * N) / 100.0
            theirs = nested(g[i], place[i], mu, rho, slope)
            assert mine[i] >= theirs - 0.02 * abs(theirs)


def cohort(rows, place, phase="heights"):
    n = len(rows)
    data = Local(np.arange(n), np.zeros(n, int), np.arange(n + 1), place, np.zeros(n), np.zeros(n))
    made = DenseUpdates(np.arange(n), np.zeros(n, int), np.ones(n), rows, phase)
    return made, data, RoundContext(1, 60.0, Public(AREA, 1))


class TestProof:
    """What a gradient and its opposite prove, mu^2 = sum 4 g / sigma^2: they have the same
    noise."""

    def test_uniform_noise_proves_the_same_of_any_gradient(self):
        g, _ = peaked()
        sigma2 = UniformNoise(mu=50.0).variance(g, None, None)
        np.testing.assert_allclose((4 * g / sigma2).sum(axis=1), 4 * N * N / 50.0, rtol=1e-12)
        assert epsilon_of(1e-5, np.sqrt(4 * 100**2 / 50)) == pytest.approx(519.7, abs=0.1)

    def test_aligned_noise_leaves_gradients_bare(self):
        """A single number without noise tells which of two gradients was sent: no epsilon is
        finite."""
        g, place = peaked()
        sigma2 = Alignment(g, AREA, place, 50.0, 1.0).aligned()
        assert (((sigma2 == 0) & (g > 1e-3 * g.max())).any(axis=1)).all()


class TestDefenses:
    @pytest.mark.parametrize(
        "part", [UniformNoise(mu=4.0), GeometryAligned(mu=4.0), EdgeNoise(mu=4.0)]
    )
    def test_energy_of_the_noise_nothing_booked_and_other_phases_untouched(self, part):
        g, place = peaked(60)
        made, data, facts = cohort(np.sqrt(g), place)
        noisy, state, spends = part.protect(made, data, facts, part.start(0), Streams(0).at("d"))
        energy = ((noisy.values - made.values) ** 2).sum(axis=1) / g.sum(axis=1)
        assert energy.mean() == pytest.approx(4.0, rel=0.1)
        assert spends == []
        assert part.figures(state)["noise_over_gradient"] == pytest.approx(energy.mean())
        assert "no guarantee" in lines(part.notices(None))[0]
        other, _, _ = cohort(np.ones((60, 4)), place, "propagation")
        assert part.protect(other, data, facts, part.start(0), Streams(0).at("d"))[0] is other

    def test_one_device_more_moves_nobody_elses_noise(self):
        g, place = peaked(5)
        part = GeometryAligned(mu=4.0)
        rng = Streams(0).at("d")
        five = part.protect(*cohort(np.sqrt(g), place), part.start(0), rng)[0].values
        four = part.protect(*cohort(np.sqrt(g[:4]), place[:4]), part.start(0), rng)[0].values
        np.testing.assert_allclose(five[:4], four, rtol=1e-12, atol=1e-15)

    def test_a_clip_of_one_phase_leaves_the_other_and_gives_no_bound(self):
        g, place = peaked(2)
        clip = Clip(norm=0.5, phase="heights")
        made, data, facts = cohort(np.sqrt(g), place)
        assert (
            clip.protect(made, data, facts, clip.start(0), Streams(0).at("d"))[0].norm().max()
            <= 0.5
        )
        other, _, _ = cohort(np.ones((2, 4)), place, "propagation")
        assert clip.protect(other, data, facts, clip.start(0), Streams(0).at("d"))[0] is other
        assert "bound" not in clip.offers
        assert clip.promise({}) is None
        study = {"round_s": 60, "data": LinkMeasurements(), "learner": RadioMap()}
        with pytest.raises(
            ValueError, match=r"put a clip before it \(the clip before it covers phase heights only"
        ):
            Learning(**study, defenses=(clip, Gaussian(noise_multiplier=1.0)))
        with pytest.raises(ValueError, match="no learner here has a phase"):
            Learning(**study, defenses=(Clip(phase="hights"),))


class TestAttacks:
    def test_weights_by_hand(self):
        size = np.array([[1.0, 2.0, 0.0]])
        at = np.array([[0.0, 0.0], [3.0, 0.0], [9.0, 9.0]])
        np.testing.assert_allclose(weighted_centroid(size, at, 1.0), [[2.0, 0.0]])
        np.testing.assert_allclose(weighted_centroid(size, at, 2.0), [[2.4, 0.0]])
        np.testing.assert_allclose(weighted_centroid(size, at, np.inf), [[3.0, 0.0]])
        np.testing.assert_allclose(
            weighted_centroid(1e-250 * size, at, 10.0), [[3 * 1024 / 1025, 0.0]]
        )
        np.testing.assert_allclose(weighted_centroid(np.ones((1, 3)), at, np.inf), [[4.0, 3.0]])
        assert np.isnan(weighted_centroid(np.zeros((1, 3)), at, 2.0)).all()

    def test_it_finds_devices_and_looks_at_heights_only(self):
        attack = WeightedCentroid(nu=5.0)
        who = np.arange(6)
        zero = np.zeros(6, dtype=np.int64)
        model = Model(np.zeros((1, N * N + 4)), {"area_m": np.array([0.0, 0.0, 300.0, 300.0])})

        def said(rows, phase="heights"):
            view = View(
                "updates", phase, rows, zero, who, zero, who, model, model, RadioMap(cell_m=10.0)
            )
            facts = RoundContext(1, 60.0, Public(AREA, 1))
            return attack.run(view, facts, attack.start(), Streams(0).at("a"))[0]

        g, place = peaked(6)
        assert np.linalg.norm(said(np.sqrt(g)).position_m - place, axis=1).max() < 25
        assert len(said(np.ones((6, 4)), "propagation").ue) == 0
        assert set(said(0 * g).status) == {"no gradient"}

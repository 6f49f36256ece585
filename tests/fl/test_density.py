"""Population density by random features: the laws, the published figures, and what the server can
read."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest
from arrays import read_array
from interrupted import run_in_two
from local_data import make_local
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark
from rows import read_yaml
from tabled import cases

from fl.attacks.base import View
from fl.attacks.esprit import Lattice, find_kernel_peak_offset_m, read_waves
from fl.attacks.surfaces import DensityPeak, Posterior
from fl.defenses.clip import Clip
from fl.learners.density import TERMS, Density, compute_kernel_density, compute_rank_correlation
from fl.query import (
    Custom,
    compute_band_probability,
    compute_max_bandwidth_m,
    compute_min_interval_s,
    is_in_family,
)
from fl.round.assembly import build_setup
from fl.types import HeldOut, Public, Request, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.world.build import build_world
from scenarios.app.result import run
from scenarios.app.study.load import load

NINE = np.argwhere(np.ones((3, 3))) - 1.0
BOX_A = Area(-3.0, -3.0, 3.0, 3.0)
BOX_B = Area(-5.0, -5.0, 5.0, 5.0)
RATE = read_yaml("kind: custom, gamma: null, multiples: any")
H = 0.55


def places_a(n, seed):
    rng = default_rng(seed)
    middle = NINE[rng.integers(9, size=n)]
    return middle + 0.5 * rng.standard_normal((n, 2))


def law_a(place):
    square = ((place[:, None] - NINE) ** 2).sum(axis=2)
    return np.exp(-square / (2 * 0.25)).sum(axis=1)


def spokes():
    for i in range(1, 9):
        t = np.pi * i / 4
        along = np.array([np.cos(t), np.sin(t)])
        across = along[::-1] * [-1, 1]
        yield 3 * along, np.stack([along, 0.16 * across], axis=1)


def places_b(n, seed):
    rng = default_rng(seed)
    choice = rng.integers(8, size=n)
    z = rng.standard_normal((n, 2))
    place, axes = (np.array(v) for v in zip(*spokes(), strict=True))
    return place[choice] + np.einsum("nij,nj->ni", axes[choice], z)


def law_b(place):
    total = 0.0
    for m, axes in spokes():
        z = np.linalg.solve(axes, (place - m).T)
        total = total + np.exp(-0.5 * (z**2).sum(axis=0))
    return total


def make_rows(x, ue=None):
    return make_local([1] * len(x), x, None, ue)


def hold_out(x):
    n = np.zeros(len(x), dtype=int)
    return HeldOut(n, n, x, np.zeros(len(x)), n)


def make_updates(learner, box, x, seed=0, round_=1):
    model = learner.init(Public(box, 1), Streams(seed).derive_rng("learner.init"))
    rng = Streams(seed).derive_rng("learner.all", round_)
    return model, learner.train_locally(model, "all", make_rows(x), rng)


def estimate_map(learner, box, x, seed=0):
    model, updates = make_updates(learner, box, x, seed)
    return learner.step(model, "all", updates.sum_weighted(np.full(len(x), 1 / len(x)), 1))


def make_view(learner, model, updates):
    ue = updates.ue
    cell = updates.model
    rows = updates.rows(slice(None))
    return View("updates", "all", rows, cell, ue, cell, np.arange(len(ue)), model, model, learner)


def run_attack(attack, learner, box, model, updates):
    """What an attack says in its first round."""
    view = make_view(learner, model, updates)
    return attack.run(view, facts(box), attack.start(), rng())[0]


def facts(box, time_s=0.0, round_=1, request=None):
    return RoundContext(round_, time_s, Public(box, 1), request=request)


def rng(round_=1):
    return Streams(0).derive_rng("attack", round_)


def naive(learner, model, updates, place):
    """The answer of one device by the double loop of the definition."""
    h_m, x_m, y_m = (model.constants[f"{name}_m"] for name in ("bandwidth", "x", "y"))
    out = np.zeros((len(h_m), len(x_m), len(y_m)))
    for k, p, q in np.ndindex(out.shape):
        h = h_m[k]
        gap = np.array([x_m[p], y_m[q]]) - place
        if updates.unit is None:
            out[k, p, q] = math.exp(-(gap @ gap) / (2 * h * h))
        else:
            out[k, p, q] = sum(math.cos(xi @ gap / h) for xi in updates.unit[0])
    return out


def test_density_is_the_mean_of_kernels():
    """Of more places than are multiplied at once, beside a sum over places written out."""
    x_m = np.linspace(0.0, 900.0, 31)
    y_m = np.linspace(-200.0, 500.0, 27)
    h = 60.0
    at_m = default_rng(2).uniform([0, -200], [900, 500], (TERMS + 137, 2))
    total = np.zeros((31, 27))
    for a, b in at_m:
        square = (x_m[:, None] - a) ** 2 + (y_m - b) ** 2
        total += np.exp(-square / (2 * h * h))
    expected = total / len(at_m)
    assert_allclose(compute_kernel_density(at_m, h, x_m, y_m), expected, rtol=1e-13)
    assert not compute_kernel_density(at_m[:0], h, x_m, y_m).any()


class TestSurfaces:
    @mark.parametrize("features", [1, 3, "exact"])
    def test_are_the_definition(self, features):
        learner = Density(n_features=features, bandwidth_m=(H, 5 * H), grid=(17, 13))
        model, updates = make_updates(learner, BOX_A, read_array("0.3 -1.2;"))
        want = naive(learner, model, updates, read_array("0.3 -1.2"))
        surfaces = learner.to_surfaces(model, updates.rows(slice(None)))
        total = updates.sum_weighted(np.ones(1), 1).reshape(want.shape)
        assert np.abs(surfaces[0] - want).max() < 1e-12
        assert np.abs(total - want).max() < 1e-12

    @mark.parametrize("features", [0, 1, 4, "exact"])
    def test_sum_is_the_sum_of_the_rows_and_the_norm_theirs(self, features):
        learner = Density(n_features=features, bandwidth_m=(H, 2.0), grid=(20, 11))
        _, updates = make_updates(learner, BOX_A, places_a(2500, 1))
        updates = updates.scale_rows(np.linspace(-1, 2, len(updates.ue)), None)
        rows = updates.rows(slice(None))
        weights = default_rng(0).uniform(size=len(updates.ue))
        assert updates.sum_weighted(weights, 1) == approx((weights @ rows)[None], abs=1e-10)
        expected = np.linalg.norm(rows, axis=1)
        assert updates.norm() == approx(expected, rel=1e-9, abs=1e-9)
        assert (updates.rows(read_array("5 2")) == rows[[5, 2]]).all()

    def test_a_device_with_several_samples_answers_with_their_mean(self):
        learner = Density(n_features=3, bandwidth_m=H, grid=(12, 10))
        model = learner.init(Public(BOX_A, 1), rng())
        x = places_a(60, 3)  # so many that the norm takes the other way
        data = make_local([10, 50], x, None, read_array("4 9"))
        updates = learner.train_locally(model, "all", data, rng())
        for row, (first, end) in enumerate([(0, 10), (10, 60)]):
            ue = np.full(end - first, data.ue[row])
            alone = learner.train_locally(model, "all", make_rows(x[first:end], ue), rng())
            expected = alone.rows(slice(None)).mean(axis=0)
            assert updates.rows(np.array([row]))[0] == approx(expected, abs=1e-12)
        expected = np.linalg.norm(updates.rows(slice(None)), axis=1)
        assert updates.norm() == approx(expected, rel=1e-10)

    @mark.parametrize(
        ("features", "samples"),
        cases("""
        1, 2
        1, 40
        3, 2
    """),
    )
    def test_waves_that_cancel_are_clipped_as_all_others(self, features, samples):
        """Half of the places lie half a wave from the others, but for a share 10^-4 to 10^-15 of
        it: what is sent is beside the clip, and beside rows of more digits.
        """
        learner = Density(n_features=features, bandwidth_m=H, grid=(20, 16))
        model = learner.init(Public(BOX_A, 1), rng())
        draw = default_rng(5)
        origin = learner.train_locally(model, "all", make_rows(np.zeros((1, 2))), rng())
        omega = origin.unit[0, 0] / H
        for share in np.logspace(-4, -15, 40):
            x = np.repeat(draw.uniform(BOX_A.low_m, BOX_A.high_m, (samples // 2, 2)), 2, axis=0)
            x[1::2] += omega * np.pi / (omega @ omega) * (1 + share)
            data = make_local([samples], x, None)
            updates = learner.train_locally(model, "all", data, rng())
            grid_m = np.stack(np.meshgrid(updates.x_m, updates.y_m, indexing="ij"), -1)
            gap = grid_m[..., None, :].astype(np.longdouble) - x
            phase = gap @ (updates.unit[0] / H).T.astype(np.longdouble)
            true = float(np.linalg.norm(np.cos(phase).sum(axis=(2, 3)) / samples))
            assert updates.norm()[0] == approx(true, rel=1e-6, abs=1e-8)
            for norm in (1e-3, 1e-6, 1e-9, 1e-12):
                clip = Clip(norm=norm)
                sent, _, _ = clip.protect(updates, data, None, clip.start(1), None)
                total = sent.sum_weighted(np.ones(1), 1)
                assert np.linalg.norm(total) <= norm * (1 + 1e-9)


class TestLearner:
    def test_draws_of_a_device_hang_on_nobody_else(self):
        learner = Density(n_features=1, bandwidth_m=H)
        model = learner.init(Public(BOX_A, 1), rng())
        x = places_a(6, 0)
        all_ = learner.train_locally(model, "all", make_rows(x), rng()).unit
        few = learner.train_locally(model, "all", make_rows(x[3:], np.arange(3, 6)), rng()).unit
        assert (all_[3:] == few).all()

    def test_estimates_the_exact_kernel_without_bias(self):
        x = np.tile([[0.4, 0.2]], (20_000, 1))
        learner = Density(n_features=1, bandwidth_m=H, grid=(15, 15))
        result = estimate_map(learner, BOX_A, x).parameters[0]
        axis = np.linspace(-3, 3, 15)
        exact = compute_kernel_density(x[:1], H, axis, axis).ravel()
        assert np.abs(result - exact).max() < 0.025

    def test_bandwidth_by_neighbours_is_the_rule_of_the_paper(self):
        want = {1000: 1.002, 5000: 0.449, 10_000: 0.315}  # k = 200
        for n, h in want.items():
            x = places_a(n, 5)
            learner = Density(neighbours=200)
            assert learner.wants_sampled_places
            assert not learner.wants_dataset_statistics
            model = learner.init(Public(BOX_A, 1, sampled_m=x), rng())
            assert model.constants["bandwidth_m"] == approx([h], rel=0.06)

    def test_neighbours_are_counted_among_the_places_asked_about(self, tmp_path):
        """Of 60 people with 50 fixes each, half are asked in the first round: their last places,
        and no other row."""
        rng = default_rng(4)
        places = rng.uniform(0, 1000, (60, 50, 2))
        with (tmp_path / "t.csv").open("w") as file:
            print("time_s,user,x_m,y_m", file=file)
            for u, t in np.ndindex(60, 50):
                x, y = places[u, t]
                print(f"{t},u{u:02d},{x:.3f},{y:.3f}", file=file)
        changes = read_yaml(f"""
            world.ues.mobility: {{kind: replay, trace: {tmp_path}/t.csv, users: id,
                outlier_sigmas: null}},
            learning.round_s: 30, learning.participation: 0.5, learning.learner.bandwidth_m: null,
            learning.learner.neighbours: 7, learning.learner.grid: [8, 8], vary: null
        """)
        study = load("density/midtown", changes)
        streams = Streams(study.seed)
        world, play_world = (
            build_world(study.world, streams, study.learning.round_s) for _ in range(2)
        )
        setup = build_setup(world, study.learned, tmp_path / "r", study.power)
        requested = setup.public.sampled_m
        assert requested.shape == (30, 2)
        play_world.env.run(until=30.0)
        seen = play_world.drain_observations()
        order = np.argsort(seen.time_s)
        last = dict(zip(seen.ue[order].tolist(), map(tuple, seen.position_m[order]), strict=True))
        assert {tuple(a) for a in requested} <= set(last.values())
        away = np.linalg.norm(requested[:, None] - requested, axis=-1)
        apart = np.sort(away, axis=1)[:, 7]  # 0 is each place itself
        rng = streams.derive_rng("learner.init")
        model = study.learning.learner.init(setup.public, rng)
        result = model.constants["bandwidth_m"][0]
        assert apart.min() <= result <= apart.max()
        lot = rng.uniform("neighbours", np.arange(30))
        expected = apart[np.argsort(lot, kind="stable")[:3]].mean()
        assert result == approx(expected, rel=1e-12)

    def test_rank_correlation_is_spearmans(self):
        from scipy.stats import spearmanr

        a = default_rng(0).integers(0, 9, (30, 30)).astype(float)
        b = a + default_rng(1).normal(size=a.shape)
        expected = spearmanr(a.ravel(), b.ravel())[0]
        assert compute_rank_correlation(a, b) == approx(expected, abs=1e-12)
        assert math.isnan(compute_rank_correlation(a, np.ones_like(a)))


SETTINGS = {"a": (places_a, BOX_A), "b": (places_b, BOX_B)}


class TestPublishedFigures:
    """Acceptance figures of the reference study's setting, measured by several prototypes."""

    def utility(self, places, law, box, n, features, seed):
        x = places(n, seed)
        learner = Density(n_features=features, bandwidth_m=H)
        model = estimate_map(learner, box, x, seed)
        place = learner.build_grid_m(model)
        truth = law(place.reshape(-1, 2)).reshape(place.shape[:2])
        result = learner.compare(model, hold_out(x), truth)
        return result["truth_rank_correlation"]

    @mark.parametrize(
        ("which", "n", "features", "want", "give"),
        cases("""
        "a", 1000, 1, 0.84, 0.06
        "a", 5000, "exact", 0.997, 0.007
        "b", 20000, 1, 0.75, 0.03
    """),
    )
    def test_utility(self, which, n, features, want, give):
        places, box = SETTINGS[which]
        law = {"a": law_a, "b": law_b}[which]
        result = [self.utility(places, law, box, n, features, seed) for seed in range(3)]
        assert np.mean(result) == approx(want, abs=give)

    def privacy(self, law, features, n=300):
        places, box = SETTINGS[law]
        x = places(n, 0)
        learner = Density(n_features=features, bandwidth_m=H)
        attack = DensityPeak(max_places=10_000 if features else 500)
        result = run_attack(attack, learner, box, *make_updates(learner, box, x))
        place = np.array(result.what) == "place"
        ue = result.ue[place]
        weight = result.weight[place]
        assert np.bincount(ue, weight) == approx(np.ones(n))
        away = np.linalg.norm(result.position_m[place] - x[ue], axis=1)
        return np.bincount(ue, weight * away).mean()

    @mark.slow
    @mark.parametrize(
        ("which", "line", "one"),
        cases("""
        "a", 2.58, 2.45
        "b", 4.63, 4.57
    """),
    )
    def test_privacy_falls_with_features_from_near_the_line_to_nothing(self, which, line, one):
        z = np.array([self.privacy(which, b) for b in (0, 1, 2, 3, 4, 5, 8)])
        assert z[0] == approx(line, abs=0.12)
        assert z[1] == approx(one, abs=0.2)
        assert (np.diff(z) < 0).all()
        assert z[-1] < 0.15


class TestLemmas:
    @mark.parametrize("gamma", [0.1, 0.5, 1.0])
    @mark.parametrize("bands", [2, 3, 5])
    def test_3_is_met_with_equality(self, gamma, bands):
        h = compute_max_bandwidth_m(1000.0, bands, gamma)
        side = 1000.0
        omega = Streams(0).derive_rng("lemma").normal("omega", np.arange(200_000), (2,)) / h
        fits = bands * 2 * np.pi / np.linalg.norm(omega, axis=1) < side
        base = math.exp(-gamma / 2)
        assert fits.mean() == approx(base, abs=0.005)
        assert compute_band_probability(h, side, bands) == approx(base, abs=1e-12)

    def test_3_on_a_line(self):
        xi = np.abs(Streams(0).derive_rng("lemma").normal("omega", np.arange(200_000)))
        fits = (3 * 2 * np.pi * 0.3 / xi < 6.0).mean()
        assert compute_band_probability(0.3, 6.0, 3, dimensions=1) == approx(fits, abs=0.005)

    def test_4_the_family(self):
        h = read_array("1 2 3 5 9 5.5")
        assert is_in_family(h, 1.0, "4n+1").tolist() == [True, False, False, True, True, False]
        assert is_in_family(h, 1.0, (1, 2, 3)).tolist() == [True, True, True, False, False, False]

    @mark.parametrize(
        ("dimensions", "share"),
        cases("""
        2, 0.5
        1, 0.1
        1, 0.5
        1, 0.9
    """),
    )
    def test_rate_limit_lets_the_stated_share_pass(self, dimensions, share):
        seconds = compute_min_interval_s(200.0, 1.5, share, dimensions)
        xi = np.linalg.norm(
            Streams(0).derive_rng("lemma").normal("omega", np.arange(200_000), (dimensions,)),
            axis=1,
        )
        turn = 2 * np.pi * 200.0
        assert (turn / xi < 1.5 * seconds).mean() == approx(share, abs=0.005)
        if dimensions == 1:
            assert math.erfc(turn / (1.5 * seconds) / math.sqrt(2)) == approx(share, rel=1e-9)


WAVES = Posterior(places=20)


class TestWaves:
    def link_steps(self, step, n=400, seed=0, **options):
        """Errors along omega of displacements of length `step` between two snapshots."""
        g = default_rng(seed)
        turn = g.uniform(0, 2 * np.pi, n)
        start = places_a(n, seed)
        end = start + step * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        learner = Density(n_features=1, bandwidth_m=H, grid=(24, 24), **options)
        state = WAVES.start()
        for round_, x in enumerate((start, end), 1):
            model, updates = make_updates(learner, BOX_A, x, round_=round_)
            view = make_view(learner, model, updates)
            result, state = WAVES.run(view, facts(BOX_A, round_=round_), state, rng(round_))
        is_step = np.array(result.what) == "step"
        ue = result.ue[is_step]
        estimates = result.position_m[is_step]
        omega = updates.unit[ue, 0]
        u = omega / np.linalg.norm(omega, axis=1)[:, None]
        across = estimates - (estimates * u).sum(axis=1)[:, None] * u
        missed = (end - start)[ue] - estimates
        return (missed * u).sum(axis=1), across, result

    def test_short_steps_are_recovered_along_omega_exactly(self):
        error, across, _ = self.link_steps(0.3, n=100)
        assert len(error) == 100
        assert (np.abs(error) < 1e-9).mean() > 0.999
        assert np.abs(across).max() < 1e-6  # and nothing is said across

    @mark.parametrize(
        ("step", "share"),
        cases("""
        0.6, 0.996
        2.4, 0.53
    """),
    )
    def test_long_steps_wrap(self, step, share):
        error, _, _ = self.link_steps(step, n=200)
        assert (np.abs(error) < 1e-9).mean() == approx(share, abs=0.05)

    def test_redrawn_waves_and_other_surfaces_link_nothing(self):
        error, _, result = self.link_steps(0.1, n=60, draws="each-round")
        assert len(error) < 3
        assert result.status.count("new wave") > 57
        for features, status in ((0, "constant surface"), (20, "no wave"), ("exact", "ok")):
            learner = Density(n_features=features, bandwidth_m=H, grid=(24, 24))
            model, updates = make_updates(learner, BOX_A, places_a(20, 0))
            result = run_attack(WAVES, learner, BOX_A, model, updates)
            assert "step" not in result.what
            assert set(result.status) == {status}

    def test_noise_is_averaged_out(self):
        x = places_a(20, 0)
        learner = Density(n_features=1, bandwidth_m=H)
        model, updates = make_updates(learner, BOX_A, x)
        noisy = updates.plus(0.1 * default_rng(0).standard_normal((20, 10_000)))
        result = run_attack(Posterior(answer="mode"), learner, BOX_A, model, noisy)
        phase = (updates.unit[:, 0] / H * (result.position_m - x)).sum(axis=1)
        turns = phase / (2 * np.pi)
        read = np.array(result.status) == "ok"
        assert read.sum() > 15  # waves much longer than the area drown
        assert np.abs(turns - np.rint(turns))[read].max() < 0.01


class TestEsprit:
    @mark.parametrize(
        ("count", "shape"),
        cases("""
        1, (100, 100)
        2, (60, 40)
        3, (100, 100)
        2, (120, 1)
    """),
    )
    def test_waves_are_read_exactly(self, count, shape):
        """Amplitude and noise aside, omega and phase to rounding, of any sign of omega."""
        g = default_rng(3)
        x_m = np.linspace(500.0, 4500.0, shape[0])
        y_m = np.linspace(-2000.0, 1000.0, shape[1])
        grid = Lattice.from_axes(x_m, y_m)
        is_plane = shape[1] > 1
        for _ in range(20):
            omega = g.normal(size=(count, 2)) / 300.0 * [1.0, is_plane]
            d = g.uniform([500, -2000], [4500, 1000])
            surface = 0.0
            for along, across in omega:
                phase = along * (x_m[:, None] - d[0]) + across * (y_m - d[1])
                surface = surface + np.cos(phase)
            result = read_waves(0.4 * surface, grid, count, 300.0)
            assert result.misfit < 1e-20
            away = np.linalg.norm(result.omega[:, None] - np.concatenate([omega, -omega]), axis=2)
            assert away.min(axis=1).max() < 1e-9
            assert sorted(away.argmin(axis=1) % count) == list(range(count))
            off = (d - [2500.0, -500.0]) * [1, is_plane]
            phase = result.columns[:, 2] - result.omega @ off
            assert np.abs(np.exp(1j * phase) - 1).max() < 1e-7

    def test_the_peak_of_a_kernel_is_read_also_off_the_grid_and_no_other_surface_has_one(self):
        axis = np.linspace(0.0, 4000.0, 80)
        grid = Lattice.from_axes(axis, axis)
        for x, y in ((1234.5, 2345.6), (-800.0, 5200.0)):
            square = (axis[:, None] - x) ** 2 + (axis - y) ** 2
            kernel = np.exp(-square / (2 * 550.0**2))
            peak = find_kernel_peak_offset_m(0.3 * kernel, grid, 550.0) + 2000
            assert_allclose(peak, [x, y], rtol=0, atol=1e-6)
        waves = np.cos(axis[:, None] / 500) * np.cos(axis / 700)
        for surface in (kernel + kernel[::-1], waves):
            assert find_kernel_peak_offset_m(surface, grid, 550.0) is None


class Displaced:
    """A replica that tells of planar Laplace noise, and no more."""

    displacement_per_m = 0.8


class TestPosterior:
    def around(self, features, n=60, places=121, answer="median", replica=None, second=False):
        """Estimates, true places, the views and the model; other: with the answers of the next
        UE."""
        x = places_a(n, 5).clip(-3, 3)
        learner = Density(n_features=features, bandwidth_m=H, grid=(41, 41))
        model, updates = make_updates(learner, BOX_A, x)
        after = estimate_map(learner, BOX_A, places_a(4000, 6))
        view = replace(make_view(learner, model, updates), model_after=after, replica=replica)
        if second:
            view = replace(view, update=np.roll(view.update, 1, axis=0))
        attack = Posterior(places=places, answer=answer)
        result, _ = attack.run(view, facts(BOX_A), attack.start(), rng())
        return result.position_m[[w == "centroid" for w in result.what]], x, updates, after

    def dense(self, after):
        """Points of a fine grid and the map there, by SciPy."""
        from scipy.interpolate import RegularGridInterpolator

        axis = np.linspace(-3, 3, 121)
        grid = np.linspace(-3, 3, 41)
        fine = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        law = RegularGridInterpolator((grid, grid), after.parameters[0].reshape(41, 41))
        return fine, law(fine).clip(0)

    def test_it_is_that_of_a_dense_grid(self):
        """Slow and independent: every point of a fine grid, the drawn waves, the map by SciPy."""
        estimates, x, updates, after = self.around(2, n=12)
        mode, _, _, _ = self.around(2, n=12, answer="mode")
        fine, law = self.dense(after)
        right = 0
        for i in range(12):
            omega = updates.unit[i] / H
            angle = np.angle(np.exp(1j * (fine - x[i]) @ omega.T))
            off = angle / (0.025 * np.linalg.norm(omega, axis=1))
            weight = law * np.exp(-0.5 * (off**2).sum(axis=1))
            subset = weight > 1e-9 * weight.max()
            weight = weight[subset] / weight[subset].sum()
            place = fine[subset]
            smallest = min(weight @ np.linalg.norm(place - p, axis=1) for p in place)
            assert weight @ np.linalg.norm(place - estimates[i], axis=1) < smallest + 0.01
            offset = mode[i] - x[i]
            right += np.linalg.norm(offset) < 1e-6
            assert np.abs(np.angle(np.exp(1j * offset @ omega.T))).max() < 1e-6  # on both bands
        assert right >= 6

    def test_moved_places_are_remapped_as_on_a_dense_grid(self):
        estimates, x, _, after = self.around("exact", n=4, replica=Displaced())
        fine, law = self.dense(after)
        for i in range(4):
            weight = law * np.exp(-0.8 * np.linalg.norm(fine - x[i], axis=1))
            cost = [weight @ np.linalg.norm(fine - p, axis=1) for p in fine[::17]]
            assert weight @ np.linalg.norm(fine - estimates[i], axis=1) < min(cost) * 1.002
        exact, x, _, _ = self.around("exact", n=8)
        assert np.abs(exact - x).max() < 1e-6  # without noise the peak is the place


class TestPeaks:
    def test_exact_kernel_gives_the_grid_point_nearest(self):
        x = places_a(40, 0).clip(-3, 3)
        learner = Density(n_features="exact", bandwidth_m=H)
        model, updates = make_updates(learner, BOX_A, x)
        result = run_attack(DensityPeak(), learner, BOX_A, model, updates)
        assert np.abs(result.position_m - x[result.ue]).max() <= 3 / 99 + 1e-12

    def test_every_redraw_is_a_feature_more(self):
        box = BOX_B
        x = places_b(10, 0).clip(-5, 5)
        errors = {}
        for draws in ("once", "each-round"):
            learner = Density(n_features=1, bandwidth_m=H, grid=(101, 101), draws=draws)
            attack = Posterior(memory_rounds=6, prior="uniform", answer="mode")
            state = attack.start()
            for k in range(1, 7):
                model, updates = make_updates(learner, box, x, round_=k)
                view = make_view(learner, model, updates)
                result, state = attack.run(view, facts(box, round_=k), state, rng(k))
                errors[draws, k] = np.linalg.norm(result.position_m - x[result.ue], axis=1).mean()
        assert errors["each-round", 1] > 3.5
        assert errors["each-round", 6] < 0.3
        assert errors["once", 6] > 3.5


class TestPolicies:
    box = Area(0.0, 0.0, 6000.0, 4000.0)

    def ask(self, policy, state=None, time_s=0.0, n=4, **changes):
        asked = {"features": 1.0, "bandwidth_m": np.array([50.0]), "area": self.box}
        request = Request(**asked | changes)
        state = policy.start(n) if state is None else state
        return policy.accept(np.arange(n), facts(self.box, time_s, request=request), state)

    @mark.parametrize(
        ("changes", "reason"),
        cases("""
        {}, None
        {"features": 3.0}, None
        {"features": 4.0}, "features"
        {"features": 1e999}, "features"
        {"bandwidth_m": [67.0]}, None
        {"bandwidth_m": [68.0]}, "bandwidth"
        {"bandwidth_m": [10.0, 50.0]}, None
        {"bandwidth_m": [10.0, 30.0]}, "family"
        {"bandwidth_m": [10.0, 90.0]}, "bandwidth"
        {"area": [3000, 4000]}, "area"
    """),
    )
    def test_the_limits_give_their_reason(self, changes, reason):
        for name in changes.keys() & {"bandwidth_m"}:
            changes[name] = np.array(changes[name])
        if "area" in changes:
            changes["area"] = Area(0, 0, *changes["area"])
        accepted, state = self.ask(Custom(), **changes)
        assert accepted.all() == (reason is None)
        assert accepted.any() == (reason is None)
        refused = {k for k, v in state.figures.items() if k.startswith("refused") and v}
        assert refused == ({f"refused_{reason}"} if reason else set())

    def test_the_first_answer_fixes_the_base(self):
        policy = Custom(gamma=None)
        _, state = self.ask(policy, bandwidth_m=np.array([20.0]))
        for h, is_answered in ((20.0, True), (100.0, True), (40.0, False), (180.0, True)):
            accepted, _ = self.ask(policy, state, bandwidth_m=np.array([h]))
            assert accepted.all() == is_answered
        _, refused = self.ask(policy, bandwidth_m=np.array([20.0]), features=9.0)
        assert refused.base_m == 0.0

    @mark.parametrize("dimensions", [1, 2])
    def test_rate_limit_is_that_of_the_largest_bandwidth_and_of_its_dimensions(self, dimensions):
        policy = Custom(gamma=None, multiples="any", speed_m_s=1.5)
        several = {"bandwidth_m": read_array("50.0 250 150"), "dimensions": dimensions}
        wait = compute_min_interval_s(250.0, 1.5, 0.5, dimensions)
        _, state = self.ask(policy, **several)
        early, same = self.ask(policy, state, time_s=0.99 * wait, **several)
        late, _ = self.ask(policy, same, time_s=1.01 * wait, **several)
        assert not early.any()
        assert late.all()
        assert same.figures["refused_rate"] == 4.0


class TestRuns:
    def small(self, changes):
        base = read_yaml("""
            world.ues.count: 300, learning.learner.grid: [30, 30],
            learning.threat.n_targets: 20, vary: null
        """)
        return load("density/nine", base | changes)

    def test_the_records_hold_the_figures_and_no_matrix_is_dense_unless_an_attack_asks_for_rows(
        self, tmp_path, monkeypatch
    ):
        from fl.learners.density import SurfaceUpdates

        requested = []
        rows = SurfaceUpdates.rows
        monkeypatch.setattr(
            SurfaceUpdates,
            "rows",
            lambda self, index: requested.append(len(self.ue[index])) or rows(self, index),
        )
        run(self.small({"learning.attacks": []}), tmp_path / "none")
        assert sum(requested) == 1  # the answer that the page shows
        result = run(self.small({}), tmp_path / "some")
        assert sum(requested) == 1 + 20 + 1
        assert result["utility.rank_correlation"] > 0.3
        assert result["utility.useful"]
        assert result["utility.kde_truth_rank_correlation"] > 0.95
        assert result["metric.query.bands_probability.last"] == approx(0.0348, abs=1e-3)
        assert result["attack.density-peak.place_error_m.mean"] == approx(1690, abs=300)
        assert result["baseline.uniform_guess.error_m.mean"] == approx(1930, abs=80)
        with (tmp_path / "some" / "leakage.csv").open() as f:
            assert len({row["ue"] for row in csv.DictReader(f)}) == 20

    @mark.parametrize(
        ("grid", "area_m"),
        cases("""
        [12, 9], [1000, 2000, 3000, 8000]
        [40], [-1000, 0, 4000, 4000]
    """),
    )
    def test_a_constant_answer_leaves_what_the_baseline_says(self, grid, area_m, tmp_path):
        learner = {
            "kind": "density",
            "n_features": 0,
            "bandwidth_m": 550,
            "grid": grid,
            "area_m": area_m,
        }
        study = self.small({"world.ues.count": 50, "learning.learner": learner})
        result = run(study, tmp_path / "run")
        baseline = approx(result["baseline.uniform_guess.error_m.mean"], rel=1e-9)
        assert result["attack.density-peak.place_error_m.mean"] == baseline

    @mark.slow
    def test_linked_answers_give_the_walk_away_and_a_rate_limit_keeps_most_of_it(self, tmp_path):
        small = {"world.ues.count": 40, "learning.threat.n_targets": 10, "vary": None}
        figures = run(load("density/moving", small), tmp_path / "every")
        assert figures["attack.posterior.walk_error_m.mean"] < 1e-6
        assert figures["attack.posterior.walk_no_motion_m.mean"] > 500
        assert figures["attack.density-peak.centroid_error_m.median"] > 1000
        rate = RATE | {"speed_m_s": 1.8}
        study = load("density/moving", small | {"learning.request_policy": rate})
        seldom = run(study, tmp_path / "seldom")
        assert seldom["updates.sent"] == 80
        assert seldom["attack.posterior.walk_error_m.mean"] > 50
        study = load("density/moving", small | {"learning.learner.draws": "each-round"})
        anew = run(study, tmp_path / "anew")
        assert anew.get("attack.posterior.walk_error_m.mean", math.inf) > 10

    def test_an_interrupted_run_ends_in_the_same_bytes(self, tmp_path, table_bytes):
        rate = RATE | {"speed_m_s": 20.0}
        changes = read_yaml("""
            world.ues.count: 30, learning.learner.grid: [12, 12],
            learning.threat.n_targets: 4
        """)
        study = load(
            "density/moving",
            changes | {"learning.request_policy": rate, "learning.rounds": 8, "vary": None},
        )
        run(study, tmp_path / "whole")
        run_in_two(study, tmp_path / "parts", lambda progress: progress.done == 5)
        assert table_bytes(tmp_path / "whole") == table_bytes(tmp_path / "parts")

    @mark.parametrize(
        ("name", "count", "n_features", "low"),
        [
            ("nine", 1000, 1, 0.9),
            pytest.param("octagon", 20_000, 1, 0.88, marks=mark.slow),
            pytest.param("octagon", 1000, 50, 0.88, marks=mark.slow),
        ],
    )
    def test_the_printed_rank_correlations_are_reached(
        self, name, count, n_features, low, tmp_path
    ):
        """Above 0.9, close to 0.9, and a little over 0.9 are printed; radial clusters give 0.76, 6
        km x 6 km 0.84."""
        changes = {
            "world.ues.count": count,
            "learning.learner.n_features": n_features,
            "vary": None,
            "seed": 0,
        }
        result = run(load(f"density/{name}", changes | {"learning.attacks": []}), tmp_path / "run")
        assert low < result["utility.truth_rank_correlation"] < 0.95

    def test_mixture_is_drawn_from_its_law(self):
        study = load("density/nine")
        mobility = study.world.ues.mobility
        x = build_world(study.world, Streams(0), 60.0).locate_ues()
        edges = np.linspace(0, 4000, 9)
        counts = np.histogram2d(*x.T, bins=[edges, edges])[0]
        cells = 500.0 * np.argwhere(np.ones((8, 8))) + 250.0
        expected = (mobility.density(cells) * 500.0**2 * len(x)).reshape(8, 8)
        busy = expected > 100
        assert counts[busy] == approx(expected[busy], rel=0.25)
        assert mobility.density(read_array("2000.0 2000;"))[0] > 0


def test_on_a_line_places_are_moved_onto_it():
    learner = Density(n_features=2, bandwidth_m=H, grid=(9,))
    area = Area(-3.0, 1.0, 3.0, 5.0)
    rng = Streams(0).derive_rng("a")
    x = places_a(20, 0)
    model = learner.init(Public(area, 1), rng)
    at_m = learner.train_locally(model, "train", make_rows(x), rng).at_m
    expected = np.column_stack([x[:, 0], np.full(20, 3.0)])
    assert_array_equal(at_m, expected)

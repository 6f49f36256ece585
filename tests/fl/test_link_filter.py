"""The link filter: against a direct Gaussian likelihood, with noise of a known shape, and its
nulls."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fl.attacks.base import View
from fl.attacks.grid_updates import LinkFilter, noise_variance
from fl.defenses.shaped_noise import EdgeNoise, GeometryAligned, UniformNoise
from fl.learners.radio_map import RadioMap
from fl.radio_map.obstacles import height_grid
from fl.types import Antennas, DenseUpdates, Local, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 120.0, 120.0)
rng = np.random.default_rng(0)
STATIONS = np.column_stack([rng.uniform(5, 115, (30, 2)), np.full(30, 50.0)])
PUBLIC = Public(AREA, 1, antennas=Antennas(STATIONS, np.zeros(30), np.zeros(30)))
FACTS = RoundContext(1, 60.0, PUBLIC)
LEAK = RadioMap(cell_m=3.0, initial_height_m=50, sigmoid_scale_m=5)
NEAR = LinkFilter(nearest_links=4, step_m=3.0, resolution_m=0.05)


def sent(n=24, seed=1, learner=LEAK, noise=None, heights=None):
    """Gradients of UEs at random places, whose links differ from the model by some 18 dB, and the
    places."""
    g = np.random.default_rng(seed)
    place = g.uniform(10, 110, (n, 2))
    k = len(STATIONS)
    model = learner.init(PUBLIC, Streams(0).at("learner.init"))
    if heights is not None:
        model.parameters[0, :-4] = heights
    row = np.arange(n)
    cell = np.tile(np.arange(k), n)
    zero = np.zeros(n, dtype=np.int64)
    at = np.repeat(place, k, axis=0)
    gain = learner.errors_db(model, at, np.zeros(n * k), cell) + 18 * g.normal(size=n * k)
    data = Local(row, zero, k * np.arange(n + 1), at, gain, np.zeros(n * k), cell)
    made = learner.local(model, "heights", data, Streams(0).at("learner"))
    values = made.rows(slice(None))
    if noise is not None:
        facts = RoundContext(1, 60.0, PUBLIC)
        dense = DenseUpdates(row, zero, made.count, values, "heights")
        values = noise.protect(dense, data, facts, noise.start(n), Streams(seed).at("defense"))[
            0
        ].rows(slice(None))
    return View("updates", "heights", values, zero, row, zero, row, model, model, learner), place


def errors(view, place, attack=NEAR, facts=FACTS):
    found, _ = attack.run(view, facts, attack.start(), Streams(0).at("attack"))
    return np.linalg.norm(found.position_m - place, axis=1)


def dense(patterns, i, cells):
    """The patterns of the i-th place (cells, links)."""
    a = np.zeros((cells, patterns.links))
    some = patterns.link // patterns.links == i
    a[patterns.cell[some], patterns.link[some] % patterns.links] = patterns.value[some]
    return a


class TestLikelihood:
    @pytest.mark.parametrize("links", [2, 30])
    def test_it_is_that_of_a_direct_gaussian(self, links):
        """y ~ N(0, A A' + Sigma), every entry of the covariance written out."""
        g = np.random.default_rng(2)
        learner = RadioMap(cell_m=10.0, initial_height_m=10, sigmoid_scale_m=4)
        model = learner.init(PUBLIC, Streams(0).at("learner.init"))
        tried = g.uniform(5, 115, (12, 2))
        patterns = learner.link_patterns(model, tried, links, 7.0)
        variance = g.uniform(0.5, 2.0, 144)
        scale = 40.0
        y = g.normal(size=144)
        mine = patterns.log_likelihood(y, variance, scale)
        for i in range(len(tried)):
            a = scale * dense(patterns, i, 144)
            both = multivariate_normal(cov=a @ a.T + np.diag(variance)).logpdf(y)
            alone = multivariate_normal(cov=np.diag(variance)).logpdf(y)
            assert mine[i] == pytest.approx(both - alone, abs=0.02)

    def test_patterns_of_the_true_place_give_the_gradient(self):
        view, place = sent(6)
        patterns = LEAK.link_patterns(view.model_before, place, 30, 1.0)
        for i in range(6):
            a = dense(patterns, i, 1600)
            y = view.update[i, :1600]
            top = np.abs(y).max()
            size = np.maximum(np.abs(a).max(axis=0), 1e-300)
            rest = y / top - a / size @ np.linalg.lstsq(a / size, y / top, rcond=1e-12)[0]
            assert (
                np.abs(rest).max() < 5e-3
            )  # crossings below a thousandth of a link's are left out


class TestNoise:
    grid = height_grid(AREA, 3.0)

    def test_a_ramp_a_flat_floor_and_an_edge_are_told(self):
        g = np.random.default_rng(3)
        at = self.grid.place_m
        peak = np.exp(-np.linalg.norm(at - [40.0, 30.0], axis=1) / 2)
        edge = np.where(at[:, 0] > 118.0, 0.3, 0.0)
        for truth in (np.maximum(0.002 * (at @ [0.8, 0.6] - 90.0), 0.0), np.full(1600, 0.02), edge):
            squares = np.stack(
                [(peak + np.sqrt(truth) * g.normal(size=1600)) ** 2 for _ in range(20)]
            )
            found = noise_variance(squares / squares.max(axis=1, keepdims=True), self.grid)
            mean = (found * squares.max(axis=1, keepdims=True)).mean(axis=0)
            assert np.abs(mean - truth).sum() < 0.3 * truth.sum()
        assert not noise_variance(peak[None] ** 2, self.grid).any()

    @pytest.mark.parametrize(
        ("noise", "median"),
        [
            (None, 0.1),
            (UniformNoise(mu=50), 2.5),
            (GeometryAligned(mu=50, rho=1), 0.5),
            (EdgeNoise(mu=50), 0.3),
        ],
    )
    def test_places_are_found_under_it(self, noise, median):
        view, place = sent(noise=noise)
        assert np.median(errors(view, place)) < median

    def test_all_links_find_places_while_the_map_is_learnt(self):
        learner = RadioMap(cell_m=3.0, initial_height_m=10, sigmoid_scale_m=2)
        heights = np.where(np.random.default_rng(4).uniform(size=1600) < 0.1, 30.0, -8.0)
        view, place = sent(5, learner=learner, heights=heights)
        assert np.median(errors(view, place, LinkFilter(step_m=5.0, resolution_m=0.1))) < 0.5

    def test_another_ues_update_is_at_chance(self):
        view, place = sent(60)
        others = errors(view, np.roll(place, 1, axis=0))
        chance = np.linalg.norm(place[:, None] - place[None], axis=2)[~np.eye(60, dtype=bool)]
        assert np.median(others) == pytest.approx(np.median(chance), rel=0.25)

"""The link filter: against a direct Gaussian likelihood, with noise of a known shape, and its
nulls."""

import numpy as np
from numpy.linalg import norm
from numpy.random import default_rng
from pytest import approx, mark
from scipy.stats import multivariate_normal

from fl.attacks.base import View
from fl.attacks.grid_updates import LinkFilter, estimate_noise_variance
from fl.defenses.shaped_noise import EdgeNoise, GeometryAligned, UniformNoise
from fl.learners.radio_map import RadioMap
from fl.radio_map.obstacles import build_height_grid
from fl.types import Antennas, DenseUpdates, Local, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 120.0, 120.0)
rng = default_rng(0)
STATIONS = np.column_stack([rng.uniform(5, 115, (30, 2)), np.full(30, 50.0)])
PUBLIC = Public(AREA, 1, antennas=Antennas(STATIONS, np.zeros(30), np.zeros(30)))
FACTS = RoundContext(1, 60.0, PUBLIC)
LEAK = RadioMap(cell_m=3.0, initial_height_m=50, sigmoid_scale_m=5)
NEAR = LinkFilter(nearest_links=4, step_m=3.0, resolution_m=0.05)


def send_gradients(n=24, seed=1, learner=LEAK, noise=None, heights=None):
    """Gradients of UEs at random places, whose links differ from the model by some 18 dB, and the
    places."""
    g = default_rng(seed)
    place = g.uniform(10, 110, (n, 2))
    k = len(STATIONS)
    model = learner.init(PUBLIC, Streams(0).derive_rng("learner.init"))
    if heights is not None:
        model.parameters[0, :-4] = heights
    row = np.arange(n)
    cell = np.tile(np.arange(k), n)
    zero = np.zeros(n, dtype=int)
    location = np.repeat(place, k, axis=0)
    gain = learner.compute_errors_db(model, location, np.zeros(n * k), cell) + 18 * g.normal(
        size=n * k
    )
    data = Local(row, zero, k * np.arange(n + 1), location, gain, np.zeros(n * k), cell)
    updates = learner.train_locally(model, "heights", data, Streams(0).derive_rng("learner"))
    values = updates.rows(slice(None))
    if noise is not None:
        facts = RoundContext(1, 60.0, PUBLIC)
        dense = DenseUpdates(row, zero, updates.count, values, "heights")
        values = noise.protect(
            dense, data, facts, noise.start(n), Streams(seed).derive_rng("defense")
        )[0].rows(slice(None))
    return View("updates", "heights", values, zero, row, zero, row, model, model, learner), place


def errors(view, place, attack=NEAR, facts=FACTS):
    result, _ = attack.run(view, facts, attack.start(), Streams(0).derive_rng("attack"))
    return norm(result.position_m - place, axis=1)


def dense(patterns, i, cells):
    """The patterns of the i-th place (cells, links)."""
    a = np.zeros((cells, patterns.links))
    subset = patterns.link // patterns.links == i
    a[patterns.cell[subset], patterns.link[subset] % patterns.links] = patterns.value[subset]
    return a


class TestLikelihood:
    @mark.parametrize("links", [2, 30])
    def test_it_is_that_of_a_direct_gaussian(self, links):
        """y ~ N(0, A A' + Sigma), every entry of the covariance written out."""
        g = default_rng(2)
        learner = RadioMap(cell_m=10.0, initial_height_m=10, sigmoid_scale_m=4)
        model = learner.init(PUBLIC, Streams(0).derive_rng("learner.init"))
        tried = g.uniform(5, 115, (12, 2))
        patterns = learner.compute_link_patterns(model, tried, links, 7.0)
        variance = g.uniform(0.5, 2.0, 144)
        scale = 40.0
        y = g.normal(size=144)
        own_rows = patterns.compute_log_likelihood(y, variance, scale)
        for i in range(len(tried)):
            a = scale * dense(patterns, i, 144)
            both = multivariate_normal(cov=a @ a.T + np.diag(variance)).logpdf(y)
            alone = multivariate_normal(cov=np.diag(variance)).logpdf(y)
            assert own_rows[i] == approx(both - alone, abs=0.02)

    def test_patterns_of_the_true_place_give_the_gradient(self):
        view, place = send_gradients(6)
        patterns = LEAK.compute_link_patterns(view.model_before, place, 30, 1.0)
        for i in range(6):
            a = dense(patterns, i, 1600)
            y = view.update[i, :1600]
            top = np.abs(y).max()
            size = np.maximum(np.abs(a).max(axis=0), 1e-300)
            rest = y / top - a / size @ np.linalg.lstsq(a / size, y / top, rcond=1e-12)[0]
            # crossings below a thousandth of a link's are left out
            assert np.abs(rest).max() < 5e-3


class TestNoise:
    grid = build_height_grid(AREA, 3.0)

    def test_a_ramp_a_flat_floor_and_an_edge_are_told(self):
        g = default_rng(3)
        place = self.grid.place_m
        peak = np.exp(-norm(place - [40.0, 30.0], axis=1) / 2)
        edge = np.where(place[:, 0] > 118.0, 0.3, 0.0)
        for truth in (
            np.maximum(0.002 * (place @ [0.8, 0.6] - 90.0), 0.0),
            np.full(1600, 0.02),
            edge,
        ):
            squares = np.stack(
                [(peak + np.sqrt(truth) * g.normal(size=1600)) ** 2 for _ in range(20)]
            )
            result = estimate_noise_variance(
                squares / squares.max(axis=1, keepdims=True), self.grid
            )
            mean = (result * squares.max(axis=1, keepdims=True)).mean(axis=0)
            assert np.abs(mean - truth).sum() < 0.3 * truth.sum()
        assert not estimate_noise_variance(peak[None] ** 2, self.grid).any()

    @mark.parametrize(
        ("noise", "median"),
        [
            (None, 0.1),
            (UniformNoise(mu=50), 2.5),
            (GeometryAligned(mu=50, rho=1), 0.5),
            (EdgeNoise(mu=50), 0.3),
        ],
    )
    def test_places_are_found_under_it(self, noise, median):
        view, place = send_gradients(noise=noise)
        assert np.median(errors(view, place)) < median

    def test_all_links_find_places_while_the_map_is_learnt(self):
        learner = RadioMap(cell_m=3.0, initial_height_m=10, sigmoid_scale_m=2)
        heights = np.where(default_rng(4).uniform(size=1600) < 0.1, 30.0, -8.0)
        view, place = send_gradients(5, learner=learner, heights=heights)
        assert np.median(errors(view, place, LinkFilter(step_m=5.0, resolution_m=0.1))) < 0.5

    def test_another_ues_update_is_at_chance(self):
        view, place = send_gradients(60)
        rest = errors(view, np.roll(place, 1, axis=0))
        chance = norm(place[:, None] - place[None], axis=2)[~np.eye(60, dtype=bool)]
        assert np.median(rest) == approx(np.median(chance), rel=0.25)

"""Radio maps of virtual obstacles: cells under links, the law and its gradients, figures of
held-out links."""

import itertools
from dataclasses import replace

import numpy as np
from arrays import read_array
from local_data import make_local
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx

from fl.data.links import LINKS, POSITIONS, STATIONS, LinkMeasurements
from fl.learners.radio_map import RadioMap, compute_decay_figures, compute_descent_figures
from fl.radio_map import obstacles
from fl.radio_map.obstacles import (
    build_height_grid,
    compute_height_gradient,
    find_crossings,
    standardise_distance,
    to_theta,
)
from fl.types import Antennas, HeldOut, Public
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.ues import Observations

AREA = Area(0.0, 0.0, 30.0, 24.0)
GRID = build_height_grid(AREA, 3.0)


def make_links(n, rng):
    return (
        np.column_stack([AREA.sample(rng.uniform(size=(n, 2))), np.full(n, h)]) for h in (1.5, 20.0)
    )


def slow_incidence(grid, a, b):
    """Clip the link against the square of every cell, one after the other."""
    result = []
    for m, centre in enumerate(grid.place_m):
        low = 0.0
        high = 1.0
        for axis in (0, 1):
            d = b[axis] - a[axis]
            s = a[axis] - centre[axis]
            half = grid.cell_m[axis] / 2
            if d == 0:
                if not -half < s < half:
                    low = 1.0
                    high = 0.0
            else:
                ends = sorted(((-half - s) / d, (half - s) / d))
                low = max(low, ends[0])
                high = min(high, ends[1])
        if high - low > 1e-9:
            result.append((m, a[2] + (low + high) / 2 * (b[2] - a[2])))
    return sorted(result)


class TestTraversal:
    def test_it_equals_a_slow_exact_traversal(self):
        rng = default_rng(0)
        a, b = make_links(60, rng)
        # along a row
        a[0] = (1.5, 1.5, 1.0)
        b[0] = (28.5, 1.5, 20.0)
        # through corners
        a[1] = (0.0, 0.0, 1.0)
        b[1] = (24.0, 24.0, 20.0)
        a[2, :2] = b[2, :2]  # straight up
        b[3, :2] = (70.0, -20.0)  # out of the grid
        result = find_crossings(GRID, a, b)
        for j in range(len(a)):
            subset = slice(result.first[j], result.first[j + 1])
            own_rows = sorted(zip(result.cell[subset], result.z_m[subset], strict=True))
            slow = slow_incidence(GRID, a[j], b[j])
            assert [m for m, _ in own_rows] == [m for m, _ in slow]
            assert_allclose(own_rows, slow, atol=1e-6)

    def test_a_link_has_the_same_cells_whatever_its_number(self):
        """Also beyond 2^16, where a number and a fraction no longer fit into one float; upside down
        to 1e-9 m."""
        a, b = make_links(50, default_rng(6))
        alone = find_crossings(GRID, a, b)
        many = find_crossings(GRID, np.tile(a, (1400, 1)), np.tile(b, (1400, 1)))
        assert_array_equal(np.diff(many.first), np.tile(np.diff(alone.first), 1400))
        assert_array_equal(many.cell, np.tile(alone.cell, 1400))
        assert_array_equal(many.z_m, np.tile(alone.z_m, 1400))
        back = find_crossings(GRID, b, a)
        assert_array_equal(alone.first, back.first)
        for first, end in itertools.pairwise(alone.first):
            subset = slice(first, end)
            assert_array_equal(alone.cell[subset], back.cell[subset][::-1])
            assert_allclose(alone.z_m[subset], back.z_m[subset][::-1], rtol=1e-9)


def world(n_ue=3, n_bs=8):
    rng = default_rng(0)
    ue = np.column_stack([rng.uniform(1, 23, (n_ue, 2)), np.full(n_ue, 1.5)])
    bs = np.column_stack([rng.uniform(1, 23, (n_bs, 2)), np.full(n_bs, 15.0)])
    row = np.repeat(np.arange(n_ue), n_bs)
    a = ue[row]
    b = np.tile(bs, (n_ue, 1))
    y = -80 + 5 * rng.normal(size=n_ue * n_bs)
    links = obstacles.GridLinks(
        find_crossings(GRID, a, b), standardise_distance(norm(a - b, axis=1)), y, row
    )
    heights = rng.uniform(-2, 12, len(GRID))
    return links, heights, to_theta((-20.0, -38.0), (-30.0, -21.0)), np.full(n_ue, n_bs)


class TestLaw:
    def test_standardised_theta_is_the_law_in_decades(self):
        theta = to_theta((-22.0, -36.0), (-28.0, -22.0))
        d = 137.0
        x = standardise_distance(np.array([d]))[0]
        expected = -22 * np.log10(d) - 28
        assert theta[0] + theta[1] * x == approx(expected)
        expected = -36 * np.log10(d) - 22
        assert theta[2] + theta[3] * x == approx(expected)

    def test_gradients_equal_autograd(self):
        import torch

        scale_m = 2.0
        links, heights, theta, count = world()
        h = torch.tensor(heights, requires_grad=True)
        t = torch.tensor(theta, requires_grad=True)
        under = links.under
        above = torch.tensor(under.z_m) - h[torch.tensor(under.cell)]
        link = torch.tensor(under.link)
        log_psi = torch.nn.functional.logsigmoid(above / scale_m)
        s = torch.exp(torch.zeros(len(links.x), dtype=torch.float64).index_add(0, link, log_psi))
        x = torch.tensor(links.x)
        los = t[0] + t[1] * x
        nlos = t[2] + t[3] * x
        square = (torch.tensor(links.gain_db) - (nlos + (los - nlos) * s)) ** 2
        mine_h = compute_height_gradient(links, heights, theta, scale_m, count)
        mine_t = obstacles.compute_theta_gradient(links, heights, theta, scale_m, count)
        for i in range(len(count)):
            loss = square[torch.tensor(links.row == i)].mean()
            for analytic, parameter in ((mine_h, h), (mine_t, t)):
                (outside,) = torch.autograd.grad(loss, parameter, retain_graph=True)
                atol = 1e-8 * np.abs(analytic[i]).max()
                assert_allclose(analytic[i], outside.numpy(), rtol=1e-8, atol=atol)

    def test_a_gradient_is_the_sum_of_what_the_errors_of_its_links_make(self):
        links, heights, theta, count = world()
        error = links.gain_db - obstacles.compute_gain_db(links, heights, theta, 3.0)
        under = links.under
        value = obstacles.compute_link_gradients(links, heights, theta, 3.0)
        value = value * np.repeat(error, np.diff(under.first))
        total = np.zeros((len(count), len(heights)))
        np.add.at(total, (links.row[under.link], under.cell), value)
        updates = 2 * total / count[:, None]
        want = compute_height_gradient(links, heights, theta, 3.0, count)
        assert_allclose(updates, want, rtol=1e-10, atol=1e-12 * np.abs(want).max())

    def test_nothing_overflows_far_below_a_roof(self):
        links, heights, theta, count = world()
        result = compute_height_gradient(links, heights + 1e4, theta, 1.0, count)
        assert np.isfinite(result).all()
        assert not result.any()


def local(n_ue=3, n_bs=8):
    rng = default_rng(0)
    x = np.repeat(rng.uniform(1, 23, (n_ue, 2)), n_bs, axis=0)
    cell = np.tile(np.arange(n_bs), n_ue)
    y = -70 + 5 * rng.normal(size=len(x))
    return replace(make_local([n_bs] * n_ue, x, y), cell=cell)


class TestLearner:
    learner = RadioMap(cell_m=3.0, initial_height_m=8.0, learning_rate_heights=50.0)
    at = np.column_stack([default_rng(0).uniform(1, 23, (8, 2)), np.full(8, 15.0)])
    public = Public(AREA, 1, antennas=Antennas(at, np.full(8, 5.0)))

    def test_it_learns_and_heights_stay_in_range(self):
        data = local()
        rng = Streams(0).derive_rng("x")
        learner = self.learner
        model = learner.init(self.public, rng)
        before = learner.diagnose(model, data)["mae_links_db"]
        for _ in range(60):
            for phase in learner.phases:
                updates = learner.train_locally(model, phase, data, rng)
                model = learner.step(model, phase, updates.sum_weighted(np.full(3, 1 / 3), 1))
        assert learner.diagnose(model, data)["mae_links_db"] < before - 1
        heights = learner.get_heights_m(model)
        assert heights.min() >= -10
        assert heights.max() <= 50

    def test_normalised_gradients_have_norm_one_even_where_squares_vanish(self):
        learner = self.learner.model_copy(update={"gradient": "normalised"})
        model = learner.init(self.public, Streams(0).derive_rng("x"))
        far = np.append(np.full(80, 760.0), np.zeros(4))
        tiny = replace(model, parameters=model.parameters + far)
        updates = learner.train_locally(tiny, "heights", local(), Streams(0).derive_rng("x"))
        gradients = learner.compute_gradients(tiny, "heights", local())
        assert 0 < np.abs(gradients).max() < 1e-160
        assert_allclose(updates.norm(), 1.0)

    def test_figures_tell_held_out_groups_apart(self):
        model = self.learner.init(self.public, Streams(0).derive_rng("x"))
        data = local()
        group = np.where(
            data.row_of_sample == 0, POSITIONS, np.where(data.cell == 0, STATIONS, LINKS)
        )
        held = HeldOut(data.row_of_sample, 0 * data.cell, data.x, data.y, data.cell, group)
        result = self.learner.evaluate(model, held)
        error = self.learner.compute_errors_db(model, data.x, data.y, data.cell)
        expected = np.abs(error[group == POSITIONS]).mean()
        assert result["mae_new_positions_db"] == approx(expected)
        expected = np.abs(error[group == STATIONS]).mean()
        assert result["mae_new_stations_db"] == approx(expected)
        assert np.isnan(self.learner.evaluate(model, HeldOut.none())["mae_new_links_db"])


def observe_links(n_ue=5, n_bs=6, time_s=0.0):
    ue = np.repeat(np.arange(n_ue), n_bs)
    cell = np.tile(np.arange(n_bs), n_ue)
    position_m = np.stack([ue + time_s, 2.0 * ue], axis=1)
    return Observations(ue, np.full(len(ue), time_s), position_m, cell, -80.0 - cell)


class TestLinks:
    def test_held_out_stations_and_ues_are_never_learnt_from(self):
        data = LinkMeasurements(hold_out_stations=2, hold_out_ues=1, memory="round")
        state = data.start(0, None)
        lots = set()
        for r in (1, 2):
            seen = observe_links(time_s=60.0 * r)
            taken, state = data.take(
                seen, np.zeros(6, dtype=int), state, Streams(0).derive_rng("data", r)
            )
            held = taken.held_out
            new_ue = set(held.ue[held.group == POSITIONS])
            new_bs = set(held.cell[held.group == STATIONS])
            assert len(new_ue) == 1
            assert len(new_bs) == 2
            assert not (held.group == LINKS).any()
            assert not new_ue & set(taken.train.ue)
            assert not new_bs & set(taken.train.cell)
            assert not new_bs & set(held.cell[held.group == POSITIONS])
            assert taken.train.count.tolist() == [4] * 4
            assert taken.measured.count.tolist() == [6] * 4
            lots.add((frozenset(new_ue), frozenset(new_bs)))
        assert len(lots) == 1, "the same are held out in every round"


class TestTheory:
    def test_descent_of_a_quadratic_meets_its_bounds(self):
        """F = 5/2 |h|^2 for all devices: B = 1 and L = 5, and a step of 1 / L is the largest that
        descends."""
        h = read_array("1.0 2")
        d = read_array("0.3 -0.1")
        weight = np.full(4, 0.25)
        gradients = np.tile(5 * h, (4, 1))
        result = compute_descent_figures(gradients, weight, d, 5 * d, 0.1)
        assert result["dissimilarity_b"] == approx(1.0)
        assert result["smoothness_l"] == approx(5.0)
        assert result["largest_step"] == approx(0.2)
        assert result["kappa_h"] == approx(0.1 / 4)
        assert result["largest_mu"] == approx((1 / (5 * 0.1) - 1) / 0.25)
        expected = np.sqrt(0.1 * 5**4 / (8 * 0.025))
        assert result["residual"] == approx(expected)
        largest = compute_descent_figures(gradients, weight, d, 5 * d, 0.2)
        assert largest["kappa_h"] == approx(0.0, abs=1e-15) == largest["largest_mu"]
        assert np.isnan(compute_descent_figures(gradients, weight, d, 5 * d, 0.3)["residual"])
        opposite = compute_descent_figures(read_array("1.0; -1"), np.full(2, 0.5), d, d, 0.1)
        assert opposite["dissimilarity_b"] == float("inf")

    def test_what_falls_off_is_monotone_and_what_rises_is_not(self):
        grid = build_height_grid(Area(0.0, 0.0, 300.0, 300.0), 3.0)
        place = read_array("150.0 150; 31 200")
        away = norm(grid.place_m[None] - place[:, None], axis=2)
        falls = compute_decay_figures(np.exp(-away / 20), grid.place_m, place)
        assert falls["monotone_percent"] == 100.0
        assert falls["fall_48_m_db"] < falls["fall_12_m_db"] < 0
        assert (
            compute_decay_figures(np.exp(away / 50), grid.place_m, place)["monotone_percent"] == 0.0
        )
        assert np.isnan(compute_decay_figures(0 * away, grid.place_m, place)["monotone_percent"])

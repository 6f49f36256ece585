"""Theorems 1 and 2 and Lemma 1 of the source of radio maps, on random instances: where they hold,
how tight they are, and what breaks them."""

import numpy as np
import pytest
from numpy.linalg import norm
from numpy.random import default_rng
from pytest import approx

from fl.attacks.grid_updates import find_weighted_centroid
from fl.defenses.shaped_noise import Alignment, place_noise_at_edge
from fl.learners.radio_map import compute_descent_figures
from fl.radio_map.obstacles import (
    GridLinks,
    build_height_grid,
    compute_gain_db,
    compute_height_gradient,
    compute_link_gradients,
    find_crossings,
    infer_height_grid,
    standardise_distance,
    to_theta,
)
from netsim.geometry import Area

CITY = Area(0.0, 0.0, 123.0, 123.0)
GRID = build_height_grid(CITY, 3.0)
MIDDLE = 20  # the UE's column and row, in whose middle it stands
THETA = to_theta((-22.0, -36.0), (-28.0, -22.0))
SCALE_M = 2.0
NOISE_DB = 2.0
WAYS = [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1), (2, 1), (-1, 3)]


def draw_links(rng, n=200, aside_m=0.0):
    """Links of a UE, aside_m east of the middle of its cell, to base stations above the city."""
    ue = np.tile([61.5 + aside_m, 61.5, 1.5], (n, 1))
    antenna = np.column_stack([CITY.sample(rng.uniform(size=(n, 2))), np.full(n, 50.0)])
    x = standardise_distance(norm(ue - antenna, axis=1))
    return GridLinks(find_crossings(GRID, ue, antenna), x, np.zeros(n), np.zeros(n, int))


def compute_mean(links, heights, gain_db):
    made = GridLinks(links.under, links.x, gain_db, links.row)
    return compute_height_gradient(made, heights, THETA, SCALE_M, np.array([len(links.x)]))[0]


def compute_energy(links, heights, truth):
    """E[G_m^2] over the noise of measurements, in closed form: G is linear in them."""
    n = len(links.x)
    gain_db = compute_gain_db(links, truth, THETA, SCALE_M)
    per_db = 2 / n * compute_link_gradients(links, heights, THETA, SCALE_M)
    spread = np.bincount(links.under.cell, per_db**2, len(heights))
    return compute_mean(links, heights, gain_db) ** 2 + NOISE_DB**2 * spread


def list_ratios(energy):
    """E[G_m^2] / E[G_(m-1)^2] of neighbours along `WAYS`, where the nearer is crossed."""
    ratios = []
    for east, north in WAYS:
        steps = np.arange(20 // max(abs(east), abs(north)) + 1)
        along = energy[(MIDDLE + north * steps) * 41 + MIDDLE + east * steps]
        crossed = along[:-1] > 0
        ratios.extend(along[1:][crossed] / along[:-1][crossed])
    return np.array(ratios)


class TestTheorem1:
    """Squared gradients fall along every direction."""

    def test_its_expectation_is_that_of_draws(self):
        rng = default_rng(0)
        links = draw_links(rng, 50)
        truth = rng.uniform(0, 20, len(GRID))
        heights = np.full(len(GRID), 12.0)
        gain_db = compute_gain_db(links, truth, THETA, SCALE_M)
        square = np.zeros(len(GRID))
        for _ in range(2000):
            square += compute_mean(links, heights, gain_db + NOISE_DB * rng.normal(size=50)) ** 2
        energy = compute_energy(links, heights, truth)
        loud = energy > 1e-3 * energy.max()
        assert square[loud] / 2000 == approx(energy[loud], rel=0.1)

    @pytest.mark.parametrize("side", [1, -1])
    def test_it_holds_for_equal_heights_above_all_true_ones_or_below(self, side):
        """There (55) holds for a UE in the middle of its cell, and every link's slope falls."""
        rng = default_rng(side + 1)
        for _ in range(40):
            level_m = rng.uniform(0, 30)
            truth = level_m - side * rng.uniform(0.1, 20, len(GRID))
            energy = compute_energy(draw_links(rng), np.full(len(GRID), level_m), truth)
            assert list_ratios(energy).max() <= 1 + 1e-9

    def test_heights_that_differ_break_it_though_all_are_above_the_true_ones(self):
        rng = default_rng(2)
        flat = np.zeros(len(GRID))
        for _ in range(40):
            heights = rng.uniform(0.1, 10, len(GRID))
            assert list_ratios(compute_energy(draw_links(rng), heights, flat)).max() > 50

    def test_one_link_over_flat_ground_breaks_it(self):
        """Estimates of 1 m, and of 10 m in one cell: this has 322 times the energy of the nearer
        one."""
        ue = np.array([[61.5, 61.5, 1.5]])
        antenna = np.array([[118.0, 61.5, 50.0]])
        x = standardise_distance(norm(ue - antenna, axis=1))
        links = GridLinks(find_crossings(GRID, ue, antenna), x, np.zeros(1), np.zeros(1, int))
        heights = np.ones(len(GRID))
        far = MIDDLE * 41 + MIDDLE + 4
        heights[far] = 10.0
        energy = compute_energy(links, heights, np.zeros(len(GRID)))
        assert energy[far] / energy[far - 1] == approx(322, rel=0.01)


AREA = Area(0.0, 0.0, 300.0, 300.0)
PLACE = np.array([[90.0, 120.0]])


def spread_noise(shape, g, mu):
    """sigma^2 (M,) of one gradient."""
    if shape == "aligned":
        return Alignment(g[None], AREA, PLACE, mu, 1.0).optimise_variance()[0]
    if shape == "edge":
        return place_noise_at_edge(g[None], AREA, PLACE, mu)[0]
    if shape == "uniform":
        return np.full(len(g), mu * g.mean())
    return mu * g.sum() * (np.arange(len(g)) == len(g) - 1)


class TestTheorem2:
    """The attacker's error at exponent 2 tends to (bias of the gradient + mu times that of the
    noise) / (1 + mu)."""

    @pytest.mark.parametrize(
        "shape, slope, give",
        [("uniform", -0.5, 0.06), ("aligned", -0.5, 0.06), ("edge", -0.25, 0.06), ("one", 0, 0.05)],
    )
    @pytest.mark.parametrize("mu", [1.0, 50.0])
    def test_how_fast(self, shape, slope, give, mu):
        """As M^-1/2 where energy is spread, as its proof assumes; on an edge of sqrt(M) cells as
        M^-1/4, and on one cell not at all. Chebyshev's bound of the total, Var(sum G^2) over its
        squared mean, is met with equality."""
        rng = default_rng(4)
        sizes = np.array([15, 30, 60, 100]) ** 2
        apart = []
        for m in sizes:
            centre = infer_height_grid(AREA, m).place_m
            g = np.exp(-norm(centre - PLACE, axis=1) / 40)
            g /= g.sum()
            sigma2 = spread_noise(shape, g, mu)
            q = g + sigma2
            bias_g = g @ centre / g.sum() - PLACE[0]
            bias_n = sigma2 @ centre / sigma2.sum() - PLACE[0]
            limit = PLACE[0] + (bias_g + mu * bias_n) / (1 + mu)
            places = []
            totals = []
            for _ in range(8):
                noisy = np.sqrt(g) + np.sqrt(sigma2) * rng.normal(size=(50, m))
                places.append(find_weighted_centroid(np.abs(noisy), centre, 2.0))
                totals.append((noisy**2).sum(axis=1) / q.sum())
            away = norm(np.concatenate(places) - limit, axis=1)
            apart.append(np.sqrt((away**2).mean()))
            v = 2 * (q**2 - g**2)
            if shape != "one":
                closed = v @ norm(centre - limit, axis=1) ** 2
                assert apart[-1] == approx(np.sqrt(closed) / q.sum(), rel=0.2)
                assert np.var(totals) == approx(v.sum() / q.sum() ** 2, rel=0.3)
        found, _ = np.polyfit(np.log(sizes), np.log(apart), 1)
        assert found == approx(slope, abs=give)

    def test_the_spatial_variance_of_uniform_noise_is_not_zero(self):
        """The squares vary: Eq. 36 gives twice the squared mean, of any budget."""
        g = np.zeros((1, 10_000))
        alignment = Alignment(g, AREA, PLACE, 1.0, 1.0)
        v = alignment.compute_spatial_variance(np.full_like(g, 3.0))
        assert v == approx(2 * 3.0**2, rel=1e-3)

    def test_a_smaller_clip_does_not_protect(self):
        """Noise is in proportion to the clipped gradient, and the attack does not see its size."""
        g = default_rng(5).exponential(size=(1, 900)) ** 4
        wide, narrow = (
            Alignment(c**2 * g, AREA, PLACE, 10.0, 1.0).optimise_variance() / c**2
            for c in (1, 1e-3)
        )
        assert narrow == approx(wide, rel=1e-6)


class TestLemma1:
    def test_no_quadratic_breaks_it_without_a_clip(self):
        """F = sum w_i (h - a_i)' A (h - a_i) / 2, whose expected step is known exactly."""
        rng = default_rng(6)
        slack = []
        for _ in range(200):
            root = rng.normal(size=(6, 6))
            hessian = root @ root.T
            weight = rng.dirichlet(np.ones(5))
            rows = rng.normal(size=(5, 6)) @ hessian
            mean = weight @ rows
            b2 = (rows**2).sum(axis=1).max() / (mean @ mean)  # Assumption 1, for every device
            smooth = np.linalg.eigvalsh(hessian).max()
            mu = rng.uniform(0, 50)
            most = 1 / (smooth * b2 * (1 + mu * (weight @ weight)))
            eta = most * rng.uniform(0, 2)
            sigma2 = rng.dirichlet(np.ones(6), 5) * mu * (rows**2).sum(axis=1)[:, None]
            spread = (weight**2 @ sigma2) @ np.diag(hessian)
            change = -eta * mean @ mean + eta**2 / 2 * (mean @ hessian @ mean + spread)
            kappa = eta * (1 - eta / most) / 2
            slack.append((-kappa * mean @ mean - change) / (eta * mean @ mean))
        assert min(slack) >= 0.5  # half of the descent is given away to the clip

    def test_at_the_step_of_eq_32_nothing_is_guaranteed_and_half_of_it_is_best(self):
        hessian = np.diag([5.0, 1.0])
        rows = np.array([[1.0, 2.0], [2.0, 1.0]])
        weight = np.full(2, 0.5)
        step = np.array([1.0, 0.0])

        def kappa(eta):
            return compute_descent_figures(rows, weight, step, hessian @ step, eta)["kappa_h"]

        most = compute_descent_figures(rows, weight, step, hessian @ step, 1.0)["largest_step"]
        assert kappa(most) == approx(0, abs=1e-15)
        steps = most * np.linspace(0.05, 0.95, 19)
        assert max(steps, key=kappa) == approx(most / 2)

    def test_the_residual_depends_on_the_unit_of_heights(self):
        """Heights in feet make gradients and the clip C smaller by one factor, and the descent of a
        step stays; the bound of Corollary 1, residual / C, shrinks by its cube (Eq. 67 takes the
        squared B L, a curvature, for the squared gradient)."""
        foot = 0.3048
        rows = np.array([[1.0, 2.0], [2.0, 1.0]])
        weight = np.full(2, 0.5)
        step = np.array([1.0, 0.0])
        metres = compute_descent_figures(rows, weight, step, 5 * step, 0.05)
        feet = compute_descent_figures(
            rows * foot, weight, step / foot, 5 * step * foot, 0.05 / foot**2
        )
        energy = (rows**2).sum() * weight[0]
        assert feet["kappa_h"] * energy * foot**2 == approx(metres["kappa_h"] * energy)
        assert feet["residual"] / foot == approx(metres["residual"] * foot**3)

"""Noise on the height gradients of a radio map whose variance depends on the gradient."""

from abc import abstractmethod
from functools import cached_property, lru_cache
from math import pi

import numpy as np
from pydantic import Field

from fl.defenses import Defense, Protected
from fl.notice import Prepared, notice
from fl.radio_map.obstacles import CELLS, HEIGHTS, infer_height_grid
from fl.types import LastFigures, Local, RoundContext, Updates
from netsim.columns import average_or_nan, divide_or_zero, frozen
from netsim.geometry import Area, compute_ways
from netsim.notice import Notices
from netsim.rng import Rng
from netsim.units import ArrayPair, FloatArray

KAPPA_M2 = 100.0
_ANGLES = 32
_DEPTHS = 24
_STEEPER = 1.5  # as steep is a neighbour of a slope
_NEAREST_M = 15.0  # depth of the support of the steepest ramp,
_FARTHEST = 10.0  # and of the flattest over the diagonal
_STEPS = 100  # of Newton, which needs about ten


@frozen
class Alignment:
    r"""Noise on squares of a gradient that rise along a ramp away from the device, for every device
    at once.

    With g_m the squared (clipped) gradient of a device, g (n, M), c_m the cells' middles, p its
    place, place_m (n, 2), and mu the budget, noise of variance sigma_m^2 is drawn where the ramp is
    above g::

        sigma_m^2 = max(0, r u.c_m + b - g_m),    sum_m sigma_m^2 = mu sum_m g_m  (with equality)

    The direction u = (cos phi, sin phi) and the slope r maximise J = P - rho kappa V / qbar^2,
    where q = g + sigma^2, qbar = (1 + mu) mean(g), v_m = Var(G~_m^2) = 2 (q_m^2 - g_m^2), and, with
    c_q = sum q c / sum q,

        V = (1/M) sum_m (q_m - qbar)^2 + (1 - 1/M) (1/M) sum_m v_m     spatial variance, exact
        P = |c_q - p|^2 + sum_m v_m |c_m - c_q|^2 / (sum q)^2          squared error of an attacker,
        delta method

    V is about 1e-4 where P is 1e4 m^2: rho would do nothing. Hence V / qbar^2, and kappa = 100 m^2,
    with which rho = 1 and 100 land on the printed errors [Geometry-Aligned Differential Privacy,
    Eqs. 34 to 44].
    """

    g: FloatArray
    area: Area
    place_m: FloatArray
    mu: float
    rho: float

    @property
    def budget(self) -> FloatArray:
        """Sum of the variances of each row (n,)."""
        return self.mu * self.g.sum(axis=1)

    @cached_property
    def centre_m(self) -> FloatArray:
        """Middles of the cells (M, 2)."""
        return infer_height_grid(self.area, self.g.shape[1]).place_m

    def fill_budget(self, ramp: FloatArray) -> FloatArray:
        """sigma^2 (n, M) = max(0, ramp + b - g) whose rows sum to the budget: exact water-filling.

        sum_m max(0, b - t_m) is convex in b, t = g - ramp: Newton from the right falls onto the
        root and stops there. The root lies below where it were if all cells were under water, and
        if the deepest were alone.
        """
        t = self.g - ramp
        budget = self.budget
        flooded = (budget + t.sum(axis=1)) / t.shape[1]
        b = np.minimum(flooded, t.min(axis=1) + budget)
        for _ in range(_STEPS):
            under = t < b[:, None]
            level = budget + np.where(under, t, 0.0).sum(axis=1)
            new = level / np.maximum(under.sum(axis=1), 1)
            if (new >= b).all():
                break
            b = np.minimum(new, b)
        depth = np.maximum(b[:, None] - t, 0.0)
        total = depth.sum(axis=1)
        share = np.divide(budget, total, out=np.ones_like(total), where=total > 0)  # rounding only
        return depth * share[:, None]

    def compute_spatial_variance(self, sigma2: FloatArray) -> FloatArray:
        """V of each row (n,)."""
        q = self.g + sigma2
        m = self.g.shape[1]
        v = 2.0 * (q**2 - self.g**2)
        return q.var(axis=1) + (1.0 - 1.0 / m) * v.mean(axis=1)

    def compute_squared_error_m2(self, sigma2: FloatArray) -> FloatArray:
        """P of each row (n,)."""
        q = self.g + sigma2
        c = self.centre_m
        total = q.sum(axis=1)
        c_q = q @ c / total[:, None]
        v = 2.0 * (q**2 - self.g**2)
        # sum v |c - c_q|^2 without an array of (n, M, 2)
        crossed = ((v @ c) * c_q).sum(axis=1)
        spread = v @ (c**2).sum(axis=1) - 2.0 * crossed + v.sum(axis=1) * (c_q**2).sum(axis=1)
        return ((c_q - self.place_m) ** 2).sum(axis=1) + spread / total**2

    def compute_objective_m2(self, sigma2: FloatArray) -> FloatArray:
        """J of each row (n,)."""
        mean = (1.0 + self.mu) * self.g.mean(axis=1)
        smooth = self.compute_spatial_variance(sigma2) / mean**2
        return self.compute_squared_error_m2(sigma2) - self.rho * KAPPA_M2 * smooth

    def optimise_variance(self) -> FloatArray:
        """sigma^2 (n, M): the best direction and slope of a table or of four neighbours, filled
        exactly.

        Neighbours are tried with the true J. No row of g may be all zero.
        """
        angle, slope = self._find_best_ramp()
        sigma2, value = self._try_ramp(angle, slope)
        turn = pi / _ANGLES
        for turned, factor in ((-turn, 1.0), (turn, 1.0), (0.0, 1 / _STEEPER), (0.0, _STEEPER)):
            candidate, score = self._try_ramp(angle + turned, slope * factor)
            sigma2 = np.where((score > value)[:, None], candidate, sigma2)
            value = np.maximum(score, value)
        return sigma2

    def _try_ramp(self, angle: FloatArray, slope: FloatArray) -> ArrayPair:
        """sigma^2 (n, M) of a direction and slope a row, and its J (n,)."""
        way = compute_ways(angle) * slope[:, None]
        sigma2 = self.fill_budget(way @ self.centre_m.T)
        return sigma2, self.compute_objective_m2(sigma2)

    def _find_best_ramp(self) -> ArrayPair:
        """Direction and slope of the best ramp of the table for each row (n,).

        Ramps are scored as if they lay on nothing: the gradient's cells are few.
        """
        mu = self.mu
        m = self.g.shape[1]
        angle, total, centroid_m, moments = _build_ramps(self.area, m)
        c_g = self.g @ self.centre_m / self.g.sum(axis=1)[:, None]
        # (n, k, 2): the centroid of the squared gradient on top of each ramp
        c_q = (c_g[:, None] + mu * centroid_m) / (1.0 + mu)
        away = ((c_q - self.place_m[:, None]) ** 2).sum(axis=2)
        # sum v |c - c_q|^2 / (sum q)^2 with v = 2 sigma^4
        weight, cx, cy, square = moments.T
        projected = c_q[..., 0] * cx + c_q[..., 1] * cy
        spread = square - 2 * projected + (c_q**2).sum(axis=2) * weight
        share = (mu / (1.0 + mu)) ** 2
        noise = m * weight * share  # mean sigma^4 / qbar^2
        objective = away + 2 * share * spread - self.rho * KAPPA_M2 * 3 * noise
        best = objective.argmax(axis=1)
        return angle[best], self.budget / total[best]


@lru_cache(maxsize=4)
def _build_ramps(area: Area, n_cells: int) -> tuple[FloatArray, ...]:
    """Ramps (k,) that rise with 1 a metre over the last `depth` metres in a direction.

    Directions in radians, sums over cells, centroids (k, 2), and with shares w of a sum, sum w^2
    (1, c, |c|^2) (k, 4).
    """
    centre_m = infer_height_grid(area, n_cells).place_m
    diagonal_m = float(np.linalg.norm(area.side_m))
    depth_m = np.geomspace(min(_NEAREST_M, diagonal_m / 2), _FARTHEST * diagonal_m, _DEPTHS)
    angle = np.repeat(2 * pi * np.arange(_ANGLES) / _ANGLES, _DEPTHS)
    along = compute_ways(angle) @ centre_m.T
    depth = np.tile(depth_m, _ANGLES)[:, None]
    unit = np.maximum(along - along.max(axis=1, keepdims=True) + depth, 0.0)
    total = unit.sum(axis=1)
    share = unit / total[:, None]
    moments = np.column_stack([np.ones(n_cells), centre_m, (centre_m**2).sum(axis=1)])
    return angle, total, share @ centre_m, (share**2) @ moments


def place_noise_at_edge(g: FloatArray, area: Area, place_m: FloatArray, mu: float) -> FloatArray:
    """sigma^2 (n, M): the whole budget, in equal parts, on that side of the edge which is farthest
    from place_m.
    """
    (x, y) = infer_height_grid(area, g.shape[1]).place_m.T
    (east, north) = place_m.T
    edges = np.stack([x == x.min(), x == x.max(), y == y.min(), y == y.max()])
    away_m = np.stack(
        [east - area.x_min_m, area.x_max_m - east, north - area.y_min_m, area.y_max_m - north],
        axis=1,
    )
    on = edges[away_m.argmax(axis=1)]
    return mu * g.sum(axis=1, keepdims=True) * on / on.sum(axis=1, keepdims=True)


class ShapedNoise(Defense):
    """Adds n_m ~ N(0, sigma_m^2) to each cell of a height gradient, sum_m sigma_m^2 = mu |g|^2.

    There is no spend: the variance depends on the private gradient, so no epsilon can be stated.
    Updates of other phases do not change. Figures, means over devices: noise_over_gradient (|n|^2 /
    |g|^2), spread_percent (share of the cells that got noise) and largest_share_percent (of the
    budget on one cell).
    """

    mu: float = Field(ge=0, le=1e9)
    """ratio of the energy of the noise to that of the (clipped) gradient"""

    reference = (
        "Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map "
        "Construction, Eq. 21"
    )
    needs = {
        CELLS: (
            "its noise has a shape in space, so updates must have a number for each cell of "
            "a grid (radio-map)"
        )
    }

    def notices(self, prepared: Prepared) -> Notices:
        yield notice("noise-follows-gradient", self.label)

    def start(self, n_ue: int) -> LastFigures:
        return LastFigures()

    @abstractmethod
    def compute_variance(self, g: FloatArray, local: Local, facts: RoundContext) -> FloatArray:
        """sigma^2 (n, M) from squared gradients g (n, M)."""

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: LastFigures, rng: Rng
    ) -> Protected:
        if updates.phase != HEIGHTS or not len(updates.ue):
            return updates, state, []
        rows = updates.all_rows
        # squares of tiny gradients are zero: every row is scaled by its largest number first
        largest = np.abs(rows).max(axis=1, keepdims=True)
        g = divide_or_zero(rows, largest) ** 2
        sigma2 = self.compute_variance(g, local, facts)
        noise = np.sqrt(sigma2) * rng.normal("noise", updates.row, (updates.n_parameters,))
        energy = g.sum(axis=1)
        live = energy > 0
        noise_energy = (noise**2).sum(axis=1)[live]
        variance = sigma2[live]
        largest_percent = 100.0 * variance.max(axis=1) / np.maximum(variance.sum(axis=1), 1e-300)
        figures = {
            "noise_over_gradient": average_or_nan(noise_energy / energy[live]),
            "spread_percent": average_or_nan(100.0 * (variance > 0).mean(axis=1)),
            "largest_share_percent": average_or_nan(largest_percent),
        }
        return updates.plus(noise * largest), LastFigures(figures), []


class UniformNoise(ShapedNoise, kind="uniform-noise"):
    """The same variance on every cell, mu |g|^2 / n_cell."""

    example = {"kind": "uniform-noise", "mu": 1.0}

    def compute_variance(self, g: FloatArray, local: Local, facts: RoundContext) -> FloatArray:
        return np.broadcast_to(self.mu * g.mean(axis=1, keepdims=True), g.shape)


class GeometryAligned(ShapedNoise, kind="geometry-aligned"):
    """Noise along a ramp that shifts the weighted centroid of the update away from the UE, which
    knows its own place.

    sigma_m^2 = max(0, r u.c_m + b - g_m): direction u and slope r maximise the attacker's squared
    error P minus rho times the spatial variance V; b is set such that the budget is used exactly
    (`Alignment`).

    Departs from the paper: V is divided by the squared mean and multiplied by 100 m^2, because it
    is smaller than P by eight orders of magnitude; and a table of directions and slopes, with
    neighbours of the best, replaces the nested ascent.
    """

    rho: float = Field(50.0, ge=0, le=1e9)
    """weight of the spatial variance of the noise against the attacker's squared error"""

    reference = (
        "Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map "
        "Construction, Algorithm 1"
    )
    example = {"kind": "geometry-aligned", "mu": 1.0}

    def compute_variance(self, g: FloatArray, local: Local, facts: RoundContext) -> FloatArray:
        sigma2 = np.zeros_like(g)
        live = g.any(axis=1)  # each row's largest is 1
        place_m = local.average_x()[live]
        alignment = Alignment(g[live], facts.public.area, place_m, self.mu, self.rho)
        sigma2[live] = alignment.optimise_variance()
        return sigma2


class EdgeNoise(ShapedNoise, kind="edge-noise"):
    """The whole budget on the side of the area that is farthest from the centroid of the gradient.

    This maximises the attacker's error only; the pattern of the gradient remains visible (the
    paper's Fig. 3b).
    """

    example = {"kind": "edge-noise", "mu": 1.0}

    def compute_variance(self, g: FloatArray, local: Local, facts: RoundContext) -> FloatArray:
        area = facts.public.area
        energy = np.maximum(g.sum(axis=1, keepdims=True), 1e-300)
        centroid_m = g @ infer_height_grid(area, g.shape[1]).place_m / energy
        return place_noise_at_edge(g, area, centroid_m, self.mu)

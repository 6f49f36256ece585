r"""Distances between where UEs were and where an attacker says they were. Pure functions on arrays.

The sliced Wasserstein distance of order 1 is the mean over directions of the 1-D distance of the
projections,

    SW1(a, b) = (1 / pi) int_0^pi  int_0^1 |Q_a(u; theta) - Q_b(u; theta)| du dtheta,

with quantile functions Q. In the plane directions need not be random: equally spaced ones are the
trapezoid rule of a periodic integrand, and 90 of them agree with 1,000 random ones to within the
latter's noise. A shift by d
gives SW1 = (2 / pi) d.  [Bonneel et al. 2015, "Sliced and Radon Wasserstein barycenters"]
"""

from math import nan

import numpy as np

from netsim.columns import no_places
from netsim.compiled import compiled
from netsim.geometry import Area
from netsim.units import ArrayPair, FloatArray, IntArray


def project_points(points_m: FloatArray, directions: int) -> FloatArray:
    """Projections of points (..., n, 2) on equally spaced directions: (directions, ..., n)."""
    angle = np.pi * (np.arange(directions) + 0.5) / directions
    angle = angle.reshape(-1, *[1] * (points_m.ndim - 1))
    east_m = points_m[..., 0] * np.cos(angle)
    north_m = points_m[..., 1] * np.sin(angle)
    return east_m + north_m  # a matrix product promises no equal bits


def sort_projections(points_m: FloatArray, directions: int) -> FloatArray:
    """Projections of points (..., n, 2) on equally spaced directions, sorted: (..., directions,
    n).
    """
    along = project_points(points_m, directions)
    along.sort(axis=-1)
    return np.moveaxis(along, 0, -2)


def accumulate_sums(along: FloatArray) -> FloatArray:
    """Sums of the first 0 to n sorted projections (directions, n): (directions, n + 1)."""
    return np.cumsum(np.pad(along, ((0, 0), (1, 0))), axis=1)


def compute_sliced_w1(a: FloatArray, b: FloatArray, sums: FloatArray | None = None) -> FloatArray:
    """SW1 in metres of sorted projections a (directions, n) and b (..., directions, m): shape
    (...).

    sums (directions, n + 1): `accumulate_sums` of a, where they are known.
    """
    n = a.shape[-1]
    *shape, directions, m = b.shape
    if n == 0 or m == 0:
        return np.full(shape, nan)
    if n == m:
        return np.abs(a - b).mean(axis=(-2, -1))
    if sums is None:
        sums = accumulate_sums(a)
    sets = np.ascontiguousarray(np.swapaxes(b.reshape(-1, directions, m), 0, 1))
    first = np.arange(m + 1) * n  # the stretches, in units of 1 / (n m)
    gaps = _sum_gaps(np.ascontiguousarray(a), sums, sets, first, first // m, -(-first // m))
    # sums that cancel may round to less
    return (np.maximum(gaps, 0.0) / (n * m) / directions).reshape(shape)


@compiled
def _sum_gaps(
    a: FloatArray,
    sums: FloatArray,
    sets: FloatArray,
    first: IntArray,
    start: IntArray,
    stop: IntArray,
) -> FloatArray:
    """Return n m times the sum over directions of int_0^1 |Q_a(u) - Q_b(u)| du for every set b:
    (n_set,).

    a (directions, n) and sets (directions, n_set, m) are sorted; sums (directions, n + 1): of the
    points of a so far; first (m + 1,): where stretches begin, in units of 1 / (n m), and the points
    of a that hold these places, start, and end there, stop.

    One stretch of u for each point of b, over which Q_b is constant and Q_a crosses it at most
    once.

    With G(u) = int_0^u Q_a, known from the sums of a so far, a stretch from u_0 to u_1 that is
    crossed at u_c gives b (u_c - u_0) - (G(u_c) - G(u_0)) + (G(u_1) - G(u_c)) - b (u_1 - u_c). Most
    are crossed at an end; only among the points of a within a stretch is the crossing looked for,
    by halves.
    """
    directions, n = a.shape
    n_set, m = sets.shape[1:]
    total = np.zeros(n_set)
    ends = np.zeros(m + 1)  # G(u_0) of each stretch, and the last G(u_1)
    for d in range(directions):  # not set by set: one row of a stays in the cache
        row = a[d]
        so_far = sums[d]
        for j in range(m):
            ends[j] = so_far[start[j]] * m + (first[j] - start[j] * m) * row[start[j]]
        ends[m] = so_far[n] * m
        for s in range(n_set):
            values = sets[d, s]
            gaps = total[s]
            for j in range(m):
                b = values[j]
                u0 = first[j]
                u1 = first[j + 1]
                g0 = ends[j]
                g1 = ends[j + 1]
                low = start[j]
                high = stop[j + 1] - 1
                if b < row[low]:
                    crossed = u0
                    integral = g0
                elif row[high] <= b:
                    crossed = u1
                    integral = g1
                else:
                    low += 1
                    while low < high:
                        middle = (low + high) // 2
                        if row[middle] <= b:
                            low = middle + 1
                        else:
                            high = middle
                    crossed = low * m
                    integral = so_far[low] * m
                gaps += b * (2 * crossed - u0 - u1) - 2 * integral + g0 + g1
            total[s] = gaps
    return total


def compute_sliced_w1_of_sets(a: FloatArray, sets_m: FloatArray, sums: FloatArray) -> FloatArray:
    """SW1 in metres of sorted projections a (directions, n) and each of some sets of points (k, m,
    2): shape (k,).
    """
    return compute_sliced_w1(a, sort_projections(sets_m, len(a)), sums)


def measure_nearest_m(points_m: FloatArray, place_m: FloatArray) -> float:
    """Distance from a place (2,) to the nearest of points (n, 2); NaN without points or place."""
    distance = np.linalg.norm(points_m - place_m, axis=1)
    distance = distance[np.isfinite(distance)]
    if len(distance):
        return float(distance.min())
    return nan


_RADII = 1000  # at which a share of the area is tabulated, denser near the place


def measure_share_within(place_m: FloatArray, radius_m: FloatArray, area: Area) -> FloatArray:
    """Share of the area (n,) that lies within each radius (n,) of a place (2,): a disc cut by a
    rectangle.

    In a quadrant the disc has r^2 / 2 (asin(x / r) + x / r sqrt(1 - (x / r)^2)) to the left of x.
    """
    (x0, y0) = area.low_m - place_m
    (x1, y1) = area.high_m - place_m
    area_m2 = _measure_quadrant(x1, y1, radius_m)
    area_m2 -= _measure_quadrant(x0, y1, radius_m)
    area_m2 -= _measure_quadrant(x1, y0, radius_m)
    area_m2 += _measure_quadrant(x0, y0, radius_m)
    return area_m2 / np.prod(area.side_m)


def _measure_quadrant(x_m: float, y_m: float, radius_m: FloatArray) -> FloatArray:
    """Area of a disc around the origin within the box from the origin to (x, y), signed like x
    y.
    """
    x = np.minimum(abs(x_m), radius_m)
    y = np.minimum(abs(y_m), radius_m)
    flat = np.minimum(x, np.sqrt(radius_m**2 - y**2))  # so far the box cuts the disc from above

    def measure_left(edge_m: FloatArray) -> FloatArray:
        sine = edge_m / np.maximum(radius_m, 1e-300)
        triangle = edge_m * np.sqrt(radius_m**2 - edge_m**2)
        sector = radius_m**2 * np.arcsin(sine)
        return (triangle + sector) / 2

    sign = np.sign(x_m) * np.sign(y_m)
    return sign * (y * flat + measure_left(x) - measure_left(flat))


def expect_nearest_m(place_m: FloatArray, area: Area, count: int) -> float:
    """Expected distance from a place (2,) to the nearest of `count` uniformly random places in the
    area.

    int_0^inf (1 - F(r))^count dr, with F(r) the share of the area within r. NaN for no guess, or an
    unknown place.
    """
    if count == 0 or not np.isfinite(place_m).all():
        return nan
    radius_m = area.measure_farthest_corner_m(place_m[None])[0] * np.linspace(0, 1, _RADII) ** 3
    return np.trapezoid(
        np.clip(1.0 - measure_share_within(place_m, radius_m, area), 0.0, 1.0) ** count,
        radius_m,
    )


def find_density_peaks(
    points_m: FloatArray, weight: FloatArray, area: Area, width_m: float, count: int
) -> FloatArray:
    """The highest local maxima of a Gaussian density of points (n, 2): what one would name, (<=
    count, 2).

    On a grid of width_m / 3 over the area (at most 400 a side), with the 8-neighbourhood.
    """
    if len(points_m) == 0:
        return no_places()
    x, y = build_density_axes(area, width_m)
    return find_highest_peaks(x, y, sum_gaussians(points_m, weight, x, y, width_m), count)


def build_density_axes(area: Area, width_m: float) -> ArrayPair:
    """Coordinates x (p,) and y (q,) of a grid over the area in steps of at most width_m / 3, or of
    400 a side.
    """
    steps = np.clip(np.ceil(area.side_m / (width_m / 3)).astype(int) + 1, 2, 400)
    x = np.linspace(area.x_min_m, area.x_max_m, steps[0])
    return x, np.linspace(area.y_min_m, area.y_max_m, steps[1])


def sum_gaussians(
    points_m: FloatArray, weight: FloatArray, x: FloatArray, y: FloatArray, width_m: float
) -> FloatArray:
    """sum_i w_i exp(-|g - p_i|^2 / (2 width_m^2)) of points (n, 2) on a grid: (p, q)."""
    ex = np.exp(-0.5 * ((x[:, None] - points_m[:, 0]) / width_m) ** 2) * weight
    ey = np.exp(-0.5 * ((y[:, None] - points_m[:, 1]) / width_m) ** 2)
    return ex @ ey.T


def find_highest_peaks(
    x: FloatArray, y: FloatArray, values: FloatArray, count: int, threshold: float = 0.0
) -> FloatArray:
    """Places (<= count, 2) of the highest local maxima above `threshold` of values (p, q) on a
    grid, highest first.

    A maximum is strictly above those of its eight neighbours that come first, so that equal ones
    make one peak.
    """
    p, q = values.shape
    around = np.pad(values, 1, constant_values=-np.inf)
    is_peak = values > threshold
    for shift in np.ndindex(3, 3):
        i, j = shift
        neighbour = around[i : i + p, j : j + q]
        if shift < (1, 1):
            is_peak &= values > neighbour
        elif shift > (1, 1):
            is_peak &= values >= neighbour
    i, j = np.nonzero(is_peak)
    order = np.argsort(-values[i, j], kind="stable")[:count]
    return np.stack([x[i[order]], y[j[order]]], axis=1)

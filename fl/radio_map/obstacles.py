"""The law of a radio map of virtual obstacles, and its gradients, for all links at once.

Obstacles of height h_m stand on the cells of a grid. A link j that is z_jm above cell m is in sight
to the degree

    S_j = prod_{m under j} psi((z_jm - h_m) / s),    psi(x) = 1 / (1 + exp(-x))

computed as exp of a sum of logarithms. With x_j = (log10 d_j - 2.1) / 0.2 (d in metres, 3-D) and
theta = (p0, q0, p1, q1) its gain in dB is

    gamma_j = NLOS_j + (LOS_j - NLOS_j) S_j,    LOS_j = p0 + q0 x_j,    NLOS_j = p1 + q1 x_j

The loss of a device is F_i = mean_j (y_j - gamma_j)^2 in dB^2. With e_j = y_j - gamma_j:

    dF_i/dh_m   = (2 / J_i) sum_{j over m} e_j (LOS_j - NLOS_j) S_j (1 - psi((z_jm - h_m) / s)) / s
    dF_i/dtheta = -(2 / J_i) sum_j e_j (S_j, S_j x_j, 1 - S_j, (1 - S_j) x_j)

Cells under links: along link j from a to b, x(t) = a + t (b - a), the grid lines are crossed at::

    t = (x_k - a_x) / (b_x - a_x)   and   t = (y_k - a_y) / (b_y - a_y),   0 < t < 1

Between two neighbours of all these t, sorted, lies exactly one cell, that of the point in the
middle; the height there is z = a_z + t_mid (b_z - a_z). Stretches shorter than 1e-9 of a link (a
corner, a line along an edge) count as touching and are left out, and so is what lies outside of the
grid.

Reference: Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map Construction,
Eqs. 4 to 16 (the law); Amanatides and Woo, "A fast voxel traversal algorithm for ray tracing",
1987, as array work (cells).
"""

from functools import lru_cache
from math import sqrt

import numpy as np

from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen
from netsim.compiled import compiled
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.units import ArrayPair, FloatArray, FloatPair, IntArray

CELLS = "cells"  # what a learner offers whose updates have a number for each cell,
HEIGHTS = "heights"  # in the phase of this name
_SHARE = 1e-9  # of a cell, by which a side may fail to be a whole number of cells
_MOST = 4_000_000
DECADES = 2.1  # what standardises log10 of a distance in a city
SPREAD = 0.2
_TOUCH = 1e-9  # share of a link
_STEEPEST = 700.0  # beyond it exp leaves the numbers, and S is 0 anyway


def build_height_grid(area: Area, cell_m: float) -> PlaceGrid:
    """The grid of cells of that side; raises BadInput unless they fill the area."""
    across = area.side_m / cell_m
    nx, ny = (max(round(a), 1) for a in across)
    if np.abs(across - [nx, ny]).max() > _SHARE * max(nx, ny):
        raise BadInput(
            f"learning.learner.cell_m: {cell_m:g} m does not divide the area of "
            f"{area.side_m[0]:g} x {area.side_m[1]:g} m; take a divisor of both sides"
        )
    if nx * ny > _MOST:
        raise BadInput(
            f"learning.learner.cell_m: {cell_m:g} m makes {nx * ny:,} cells, at most {_MOST:,} "
            "are possible; take larger ones"
        )
    return PlaceGrid(area, nx, ny)


def infer_height_grid(area: Area, n_cells: int) -> PlaceGrid:
    """The grid with n_cells cells: the length of an update reveals it."""
    return build_height_grid(area, sqrt(np.prod(area.side_m) / n_cells))


@frozen
class Incidence:
    """Crossings (k,) of n links, link after link: `first` (n + 1,), the `cell` (k,) and the height
    z_m (k,) in it.
    """

    first: IntArray
    cell: IntArray
    z_m: FloatArray

    @property
    def link(self) -> IntArray:
        """The link of each crossing (k,)."""
        return self.repeat_values(np.arange(len(self.first) - 1))

    def repeat_values(self, value: np.ndarray) -> np.ndarray:
        """Values of links (n,) at each of their crossings (k,)."""
        return np.repeat(value, np.diff(self.first))


@frozen
class GridLinks:
    """Measured links (n,): the cells under them, x (n,) of their distance, gain_db (n,), and the
    device row (n,).
    """

    under: Incidence
    x: FloatArray
    gain_db: FloatArray
    row: IntArray


def find_crossings(grid: PlaceGrid, a_m: FloatArray, b_m: FloatArray) -> Incidence:
    """The crossings of links from a_m (n, 3) to b_m (n, 3)."""
    shape = np.array([grid.nx, grid.ny])
    low = grid.area.low_m
    cell_m = grid.cell_m
    start = (a_m[:, :2] - low) / cell_m
    way = (b_m[:, :2] - a_m[:, :2]) / cell_m
    # grid lines k strictly between both ends, within the grid
    end = start + way
    lowest = np.floor(np.minimum(start, end)) + 1
    lowest = np.maximum(lowest, 0).astype(int)
    highest = np.ceil(np.maximum(start, end)) - 1
    highest = np.minimum(highest, shape).astype(int)
    way_m = b_m - a_m
    first, cell, z_m = _trace_crossings(low, cell_m, shape, a_m, way_m, start, way, lowest, highest)
    return Incidence(first, cell, z_m)


@compiled
def _trace_crossings(
    low: FloatArray,
    cell_m: FloatArray,
    shape: IntArray,
    a_m: FloatArray,
    way_m: FloatArray,
    start: FloatArray,
    way: FloatArray,
    lowest: IntArray,
    highest: IntArray,
) -> tuple[IntArray, IntArray, FloatArray]:
    """The crossings of `Incidence`: of each link all t along both axes in order, and what lies
    between two of them.
    """
    n = len(a_m)
    first = np.zeros(n + 1, np.int64)
    lines = np.maximum(highest - lowest + 1, 0)
    cell = np.empty(n + lines.sum(), np.int64)
    z_m = np.empty(len(cell))
    left = np.empty(2, np.int64)
    line = np.empty(2, np.int64)
    turn = np.empty(2, np.int64)
    t = np.empty(2)
    n_found = 0
    for i in range(n):
        origin = start[i]
        step = way[i]
        origin_m = a_m[i]
        step_m = way_m[i]
        for axis in range(2):
            left[axis] = lines[i, axis]  # to cross,
            if step[axis] > 0:
                turn[axis] = 1
                line[axis] = lowest[i, axis]  # the next of them,
            else:
                turn[axis] = -1
                line[axis] = highest[i, axis]
            t[axis] = np.inf  # and where on the link
            if left[axis]:
                t[axis] = (line[axis] - origin[axis]) / step[axis]
        before = 0.0
        for _ in range(left.sum() + 1):
            axis = 0 if t[0] <= t[1] else 1
            end = min(max(t[axis], 0.0), 1.0)
            if end - before > _TOUCH:
                middle = (end + before) / 2
                x_m = origin_m[0] + middle * step_m[0]
                y_m = origin_m[1] + middle * step_m[1]
                column = np.floor((x_m - low[0]) / cell_m[0])
                row = np.floor((y_m - low[1]) / cell_m[1])
                if 0 <= column < shape[0] and 0 <= row < shape[1]:
                    cell[n_found] = np.int64(row) * shape[0] + np.int64(column)
                    z_m[n_found] = origin_m[2] + middle * step_m[2]
                    n_found += 1
            before = end
            left[axis] -= 1
            line[axis] += turn[axis]
            t[axis] = np.inf
            if left[axis] > 0:
                t[axis] = (line[axis] - origin[axis]) / step[axis]
        first[i + 1] = n_found
    return first, cell[:n_found], z_m[:n_found]


def recall_crossings(grid: PlaceGrid, a_m: FloatArray, b_m: FloatArray) -> Incidence:
    """`find_crossings`, remembered by content: the links of UEs at rest are cut once for all rounds
    and phases.
    """
    return _cache_crossings(grid, a_m.tobytes(), b_m.tobytes())


@lru_cache(maxsize=4)
def _cache_crossings(grid: PlaceGrid, a_m: bytes, b_m: bytes) -> Incidence:
    start_m = np.frombuffer(a_m).reshape(-1, 3)
    return find_crossings(grid, start_m, np.frombuffer(b_m).reshape(-1, 3))


def standardise_distance(distance_m: FloatArray) -> FloatArray:
    """x of a distance."""
    return (np.log10(np.maximum(distance_m, 1.0)) - DECADES) / SPREAD


def to_theta(slope_db: FloatPair, gain_db: FloatPair) -> FloatArray:
    """theta (4,) of gains slope log10 d + gain, in sight and without."""
    p0, p1 = gain_db
    q0, q1 = slope_db
    return np.array([p0 + q0 * DECADES, q0 * SPREAD, p1 + q1 * DECADES, q1 * SPREAD])


def _compute_visibility(under: Incidence, height_m: FloatArray, scale_m: float) -> ArrayPair:
    """S (n,), and 1 - psi (k,) of each crossing."""
    above = (height_m[under.cell] - under.z_m) / scale_m
    odds = np.exp(np.clip(above, -_STEEPEST, _STEEPEST))  # 1 / psi - 1
    return np.exp(-_sum_links(under.first, np.log1p(odds))), odds / (1.0 + odds)


@compiled
def _sum_links(first: IntArray, value: FloatArray) -> FloatArray:
    """Sum over the crossings of each link: value (k,) -> (n,)."""
    total = np.zeros(len(first) - 1)
    for link in range(len(total)):
        total[link] = value[first[link] : first[link + 1]].sum()
    return total


def compute_gain_db(
    links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float
) -> FloatArray:
    """gamma of each link (n,)."""
    s, _ = _compute_visibility(links.under, height_m, scale_m)
    return _mix_gains(theta, links.x, s)


def _mix_gains(theta: FloatArray, x: FloatArray, s: FloatArray) -> FloatArray:
    los = theta[0] + theta[1] * x
    nlos = theta[2] + theta[3] * x
    return nlos + (los - nlos) * s


def compute_link_gradients(
    links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float
) -> FloatArray:
    """dF_i/dh of each crossing (k,) for an error of 1 dB on its link alone, times J_i / 2."""
    s, closed = _compute_visibility(links.under, height_m, scale_m)
    return _compute_slope(links, theta, scale_m, s, closed)


def _compute_slope(
    links: GridLinks, theta: FloatArray, scale_m: float, s: FloatArray, closed: FloatArray
) -> FloatArray:
    apart = (theta[0] - theta[2]) + (theta[1] - theta[3]) * links.x
    return links.under.repeat_values(apart * s / scale_m) * closed


def compute_height_gradient(
    links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float, count: IntArray
) -> FloatArray:
    """dF_i/dh of each device (n_row, n_cell); `count` (n_row,) is J_i."""
    s, closed = _compute_visibility(links.under, height_m, scale_m)
    error = links.gain_db - _mix_gains(theta, links.x, s)
    n_row = len(count)
    n_cell = len(height_m)
    slope = _compute_slope(links, theta, scale_m, s, closed)
    gradient = links.under.repeat_values(2.0 / count[links.row] * error) * slope
    place = links.under.repeat_values(links.row * n_cell) + links.under.cell
    return np.asarray(
        np.bincount(place, weights=gradient, minlength=n_row * n_cell).reshape(n_row, n_cell),
        dtype=float,
    )


def compute_theta_gradient(
    links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float, count: IntArray
) -> FloatArray:
    """dF_i/dtheta of each device (n_row, 4)."""
    s, _ = _compute_visibility(links.under, height_m, scale_m)
    error = links.gain_db - _mix_gains(theta, links.x, s)
    slope = -2.0 / count[links.row] * error
    parts = (s, s * links.x, 1.0 - s, (1.0 - s) * links.x)
    total = [np.bincount(links.row, weights=slope * p, minlength=len(count)) for p in parts]
    return np.stack(total, axis=1)

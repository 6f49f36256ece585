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

from __future__ import annotations

from functools import lru_cache
from math import sqrt

import numpy as np

from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen
from netsim.compiled import compiled
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.units import FloatArray, IntArray

CELLS = "cells"  # what a learner offers whose updates have a number for each cell,
HEIGHTS = "heights"  # in the phase of this name
_SHARE = 1e-9  # of a cell, by which a side may fail to be a whole number of cells
_MOST = 4_000_000
DECADES = 2.1  # what standardises log10 of a distance in a city
SPREAD = 0.2
_TOUCH = 1e-9  # share of a link
_STEEPEST = 700.0  # beyond it exp leaves the numbers, and S is 0 anyway


def height_grid(area: Area, cell_m: float) -> PlaceGrid:
    """The grid of cells of that side; raises BadInput unless they fill the area."""
    across = area.side_m / cell_m
    nx, ny = (max(round(float(a)), 1) for a in across)
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


def height_grid_of(area: Area, n_cells: int) -> PlaceGrid:
    """The grid with n_cells cells: the length of an update reveals it."""
    return height_grid(area, sqrt(np.prod(area.side_m) / n_cells))


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
        return self.spread(np.arange(len(self.first) - 1))

    def spread(self, value: np.ndarray) -> np.ndarray:
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


def incidence(grid: PlaceGrid, a_m: FloatArray, b_m: FloatArray) -> Incidence:
    """The crossings of links from a_m (n, 3) to b_m (n, 3)."""
    shape = np.array([grid.nx, grid.ny])
    low = grid.area.low_m
    cell_m = grid.cell_m
    start = (a_m[:, :2] - low) / cell_m
    way = (b_m[:, :2] - a_m[:, :2]) / cell_m
    # grid lines k strictly between both ends, within the grid
    lowest = np.maximum(np.floor(np.minimum(start, start + way)) + 1, 0).astype(int)
    highest = np.minimum(np.ceil(np.maximum(start, start + way)) - 1, shape).astype(int)
    return Incidence(*_crossings(low, cell_m, shape, a_m, b_m - a_m, start, way, lowest, highest))


@compiled
def _crossings(
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
    at = 0
    for i in range(n):
        for axis in range(2):
            left[axis] = lines[i, axis]  # to cross,
            turn[axis] = 1 if way[i, axis] > 0 else -1
            line[axis] = (
                lowest[i, axis] if way[i, axis] > 0 else highest[i, axis]
            )  # the next of them,
            t[axis] = (
                (line[axis] - start[i, axis]) / way[i, axis] if left[axis] else np.inf
            )  # and where on the link
        before = 0.0
        for _ in range(left.sum() + 1):
            axis = 0 if t[0] <= t[1] else 1
            now = min(max(t[axis], 0.0), 1.0)
            if now - before > _TOUCH:
                middle = (now + before) / 2
                column = np.floor((a_m[i, 0] + middle * way_m[i, 0] - low[0]) / cell_m[0])
                row = np.floor((a_m[i, 1] + middle * way_m[i, 1] - low[1]) / cell_m[1])
                if 0 <= column < shape[0] and 0 <= row < shape[1]:
                    cell[at] = np.int64(row) * shape[0] + np.int64(column)
                    z_m[at] = a_m[i, 2] + middle * way_m[i, 2]
                    at += 1
            before = now
            left[axis] -= 1
            line[axis] += turn[axis]
            t[axis] = (line[axis] - start[i, axis]) / way[i, axis] if left[axis] > 0 else np.inf
        first[i + 1] = at
    return first, cell[:at], z_m[:at]


def known_incidence(grid: PlaceGrid, a_m: FloatArray, b_m: FloatArray) -> Incidence:
    """`incidence`, remembered by content: the links of UEs at rest are cut once for all rounds and
    phases.
    """
    return _incidence_of(grid, a_m.tobytes(), b_m.tobytes())


@lru_cache(maxsize=4)
def _incidence_of(grid: PlaceGrid, a_m: bytes, b_m: bytes) -> Incidence:
    return incidence(grid, np.frombuffer(a_m).reshape(-1, 3), np.frombuffer(b_m).reshape(-1, 3))


def standardised(distance_m: FloatArray) -> FloatArray:
    """x of a distance."""
    return (np.log10(np.maximum(distance_m, 1.0)) - DECADES) / SPREAD


def theta_of(slope_db: tuple[float, float], gain_db: tuple[float, float]) -> FloatArray:
    """theta (4,) of gains slope log10 d + gain, in sight and without."""
    return np.array(
        [(g + s * DECADES, s * SPREAD) for s, g in zip(slope_db, gain_db, strict=True)]
    ).ravel()


def _opened(
    under: Incidence, height_m: FloatArray, scale_m: float
) -> tuple[FloatArray, FloatArray]:
    """S (n,), and 1 - psi (k,) of each crossing."""
    below = np.clip((height_m[under.cell] - under.z_m) / scale_m, -_STEEPEST, _STEEPEST)
    up = np.exp(below)  # 1 / psi - 1
    return np.exp(-_of_links(under.first, np.log1p(up))), up / (1.0 + up)


@compiled
def _of_links(first: IntArray, value: FloatArray) -> FloatArray:
    """Sum over the crossings of each link: value (k,) -> (n,)."""
    total = np.zeros(len(first) - 1)
    for link in range(len(total)):
        total[link] = value[first[link] : first[link + 1]].sum()
    return total


def gain_db(
    links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float
) -> FloatArray:
    """gamma of each link (n,)."""
    return _mixed(theta, links.x, _opened(links.under, height_m, scale_m)[0])


def _mixed(theta: FloatArray, x: FloatArray, s: FloatArray) -> FloatArray:
    los = theta[0] + theta[1] * x
    nlos = theta[2] + theta[3] * x
    return nlos + (los - nlos) * s


def link_gradients(
    links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float
) -> FloatArray:
    """dF_i/dh of each crossing (k,) for an error of 1 dB on its link alone, times J_i / 2."""
    return _slope(links, theta, scale_m, *_opened(links.under, height_m, scale_m))


def _slope(
    links: GridLinks, theta: FloatArray, scale_m: float, s: FloatArray, closed: FloatArray
) -> FloatArray:
    apart = (theta[0] - theta[2]) + (theta[1] - theta[3]) * links.x
    return links.under.spread(apart * s / scale_m) * closed


def height_gradient(
    links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float, count: IntArray
) -> FloatArray:
    """dF_i/dh of each device (n_row, n_cell); `count` (n_row,) is J_i."""
    s, closed = _opened(links.under, height_m, scale_m)
    error = links.gain_db - _mixed(theta, links.x, s)
    shape = len(count), len(height_m)
    of_crossing = links.under.spread(2.0 / count[links.row] * error) * _slope(
        links, theta, scale_m, s, closed
    )
    place = links.under.spread(links.row * shape[1]) + links.under.cell
    flat = np.bincount(place, weights=of_crossing, minlength=shape[0] * shape[1])
    return np.asarray(flat.reshape(shape), dtype=float)


def theta_gradient(
    links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float, count: IntArray
) -> FloatArray:
    """dF_i/dtheta of each device (n_row, 4)."""
    s = _opened(links.under, height_m, scale_m)[0]
    of_link = -2.0 / count[links.row] * (links.gain_db - _mixed(theta, links.x, s))
    parts = (s, s * links.x, 1.0 - s, (1.0 - s) * links.x)
    return np.stack(
        [np.bincount(links.row, weights=of_link * p, minlength=len(count)) for p in parts], axis=1
    )

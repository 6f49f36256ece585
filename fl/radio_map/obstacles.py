"""The law of a radio map of virtual obstacles, and its gradients, for all links at once.

Obstacles of height h_m stand on the cells of a grid. A link j that is z_jm above cell m is in sight to the degree

    S_j = prod_{m under j} psi((z_jm - h_m) / s),    psi(x) = 1 / (1 + exp(-x))

computed as exp of a sum of logarithms. With x_j = (log10 d_j - 2.1) / 0.2 (d in metres, 3-D) and
theta = (p0, q0, p1, q1) its gain in dB is

    gamma_j = NLOS_j + (LOS_j - NLOS_j) S_j,    LOS_j = p0 + q0 x_j,    NLOS_j = p1 + q1 x_j

The loss of a device is F_i = mean_j (y_j - gamma_j)^2 in dB^2. With e_j = y_j - gamma_j:

    dF_i/dh_m   = (2 / J_i) sum_{j over m} e_j (LOS_j - NLOS_j) S_j (1 - psi((z_jm - h_m) / s)) / s
    dF_i/dtheta = -(2 / J_i) sum_j e_j (S_j, S_j x_j, 1 - S_j, (1 - S_j) x_j)

Reference: Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map Construction, Eqs. 4 to 16.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

import numpy as np

from fl.radio_map.grid import HeightGrid
from netsim.columns import frozen
from netsim.units import BoolArray, FloatArray, IntArray

_TOUCH = 1e-9  # share of a link
_KEPT = 4  # sets of links whose incidence stays in memory,
_MOST_KEPT = 20_000_000  # crossings at most


@frozen
class Incidence:
    """Crossings (k,) of n links, link after link: `first` (n + 1,), the `cell` (k,) and the height z_m (k,) in it."""

    first: IntArray
    cell: IntArray
    z_m: FloatArray

    def __len__(self) -> int:
        return len(self.cell)

    def of(self, start: int, end: int) -> Incidence:
        """The crossings of links start to end."""
        a, b = self.first[start], self.first[end]
        return Incidence(self.first[start : end + 1] - a, self.cell[a:b], self.z_m[a:b])

    @property
    def link(self) -> IntArray:
        """The link of each crossing (k,)."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def sums(self, value: FloatArray) -> FloatArray:
        """Sum over the crossings of each link: value (k,) -> (n,)."""
        # reduceat has no empty sums: they are cut out
        some = np.diff(self.first) > 0
        total = np.zeros(len(self.first) - 1)
        if some.any():
            total[some] = np.add.reduceat(value, self.first[:-1][some])
        return total


def incidence(grid: HeightGrid, a_m: FloatArray, b_m: FloatArray) -> Incidence:
    """The crossings of links from a_m (n, 3) to b_m (n, 3)."""
    n, low = len(a_m), grid.area.low_m
    t, link = [np.zeros(n), np.ones(n)], [np.arange(n), np.arange(n)]
    for axis, most in ((0, grid.nx), (1, grid.ny)):
        start, way = (a_m[:, axis] - low[axis]) / grid.cell_m, (b_m[:, axis] - a_m[:, axis]) / grid.cell_m
        # grid lines k strictly between both ends, within the grid
        lowest = np.maximum(np.floor(np.minimum(start, start + way)) + 1, 0)
        highest = np.minimum(np.ceil(np.maximum(start, start + way)) - 1, most)
        count = np.maximum(highest - lowest + 1, 0).astype(np.int64)
        row = np.repeat(np.arange(n), count)
        k = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + lowest[row]
        t.append((k - start[row]) / way[row])
        link.append(row)
    every_link, every_t = _in_order(np.concatenate(link), np.concatenate(t))
    length = every_t[1:] - every_t[:-1]
    real: BoolArray = (every_link[1:] == every_link[:-1]) & (length > _TOUCH)
    row, middle = every_link[:-1][real], ((every_t[1:] + every_t[:-1]) / 2)[real]
    way_m = b_m - a_m
    at_m = a_m[row, :2] + middle[:, None] * way_m[row, :2]
    cell = grid.cell(at_m)
    inside = cell >= 0
    row = row[inside]
    first = np.searchsorted(row, np.arange(n + 1))
    return Incidence(first, cell[inside], (a_m[row, 2] + middle[inside] * way_m[row, 2]))


def _in_order(link: IntArray, t: FloatArray) -> tuple[IntArray, FloatArray]:
    """Both (k,), by link and then by t. Complex numbers sort by real part, then imaginary part, without rounding."""
    both = np.empty(len(t), dtype=np.complex128)
    both.real, both.imag = link, t
    both.sort(kind="stable")  # merges the runs that are in order already, many times faster than np.lexsort
    return both.real.astype(np.int64), both.imag


_known: OrderedDict[bytes, Incidence] = OrderedDict()


def known_incidence(grid: HeightGrid, a_m: FloatArray, b_m: FloatArray) -> Incidence:
    """`incidence`, remembered by content: the links of UEs at rest are cut once for all rounds and phases."""
    digest = blake2b(repr((grid.area, grid.cell_m)).encode(), digest_size=16)
    for array in (a_m, b_m):
        digest.update(np.ascontiguousarray(array).tobytes())
    key = digest.digest()
    if key in _known:
        _known.move_to_end(key)
        return _known[key]
    lengths = incidence(grid, a_m, b_m)
    _known[key] = lengths
    while len(_known) > _KEPT or sum(map(len, _known.values())) > _MOST_KEPT:
        _known.popitem(last=False)
    return lengths


DECADES, SPREAD = 2.1, 0.2  # what standardises log10 of a distance in a city
_AT_ONCE = 150_000  # crossings
_STEEPEST = 700.0  # beyond it exp leaves the numbers, and S is 0 anyway


@frozen
class GridLinks:
    """Measured links (n,): the cells under them, x (n,) of their distance, gain_db (n,), and the device row (n,)."""

    under: Incidence
    x: FloatArray
    gain_db: FloatArray
    row: IntArray

    def of(self, start: int, end: int) -> GridLinks:
        """The links of device rows start to end, which become 0 and so on."""
        a, b = np.searchsorted(self.row, [start, end])
        return GridLinks(self.under.of(a, b), self.x[a:b], self.gain_db[a:b], self.row[a:b] - start)


def standardised(distance_m: FloatArray) -> FloatArray:
    """x of a distance."""
    return (np.log10(np.maximum(distance_m, 1.0)) - DECADES) / SPREAD


def theta_of(slope_db: tuple[float, float], gain_db: tuple[float, float]) -> FloatArray:
    """theta (4,) of gains slope log10 d + gain, in sight and without."""
    return np.array([(g + s * DECADES, s * SPREAD) for s, g in zip(slope_db, gain_db, strict=True)]).ravel()


def _opened(under: Incidence, height_m: FloatArray, scale_m: float) -> tuple[FloatArray, FloatArray]:
    """S (n,), and 1 - psi (k,) of each crossing."""
    below = np.clip((height_m[under.cell] - under.z_m) / scale_m, -_STEEPEST, _STEEPEST)
    up = np.exp(below)  # 1 / psi - 1
    closed = up / (1.0 + up)
    return np.exp(-under.sums(np.log1p(up))), closed


def sight(under: Incidence, height_m: FloatArray, scale_m: float) -> FloatArray:
    """S of each link (n,)."""
    return _opened(under, height_m, scale_m)[0]


def gain_db(links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float) -> FloatArray:
    """gamma of each link (n,)."""
    return _mixed(theta, links.x, sight(links.under, height_m, scale_m))


def _mixed(theta: FloatArray, x: FloatArray, s: FloatArray) -> FloatArray:
    los, nlos = theta[0] + theta[1] * x, theta[2] + theta[3] * x
    return np.asarray(nlos + (los - nlos) * s)


def height_gradient(
    links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float, count: IntArray
) -> FloatArray:
    """dF_i/dh of each device (n_row, n_cell); `count` (n_row,) is J_i. Links stand in the order of their rows."""
    gradient = np.empty((len(count), len(height_m)))
    # a few devices at a time stay within the cache: the cost grows with the crossings and no faster
    ends = links.under.first[np.searchsorted(links.row, np.arange(len(count) + 1))]
    start = 0
    while start < len(count):
        end = max(start + 1, int(np.searchsorted(ends, ends[start] + _AT_ONCE, "right")) - 1)
        some = links.of(start, end)
        gradient[start:end] = _height_gradient(some, height_m, theta, scale_m, count[start:end])
        start = end
    return gradient


def _height_gradient(
    links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float, count: IntArray
) -> FloatArray:
    s, closed = _opened(links.under, height_m, scale_m)
    error = links.gain_db - _mixed(theta, links.x, s)
    apart = (theta[0] - theta[2]) + (theta[1] - theta[3]) * links.x
    of_link = 2.0 / count[links.row] * error * apart * s / scale_m
    return _on_cells(links, of_link, closed, len(count), len(height_m))


def link_gradients(links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float) -> FloatArray:
    """dF_i/dh of each crossing (k,) for an error of 1 dB on its link alone, times J_i / 2."""
    s, closed = _opened(links.under, height_m, scale_m)
    apart = (theta[0] - theta[2]) + (theta[1] - theta[3]) * links.x
    return np.asarray(np.repeat(apart * s / scale_m, np.diff(links.under.first)) * closed)


def _on_cells(links: GridLinks, of_link: FloatArray, of_crossing: FloatArray, n_row: int, n_cell: int) -> FloatArray:
    """Sums of products over the links of a device that cross a cell (n_row, n_cell)."""
    crossings = np.diff(links.under.first)
    place = np.repeat(links.row * n_cell, crossings) + links.under.cell
    flat = np.bincount(place, weights=np.repeat(of_link, crossings) * of_crossing, minlength=n_row * n_cell)
    return np.asarray(flat, dtype=np.float64).reshape(n_row, n_cell)


def theta_gradient(
    links: GridLinks, height_m: FloatArray, theta: FloatArray, scale_m: float, count: IntArray
) -> FloatArray:
    """dF_i/dtheta of each device (n_row, 4)."""
    s = sight(links.under, height_m, scale_m)
    of_link = -2.0 / count[links.row] * (links.gain_db - _mixed(theta, links.x, s))
    parts = (s, s * links.x, 1.0 - s, (1.0 - s) * links.x)
    return np.stack([np.bincount(links.row, weights=of_link * p, minlength=len(count)) for p in parts], axis=1)

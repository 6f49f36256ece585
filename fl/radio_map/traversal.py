r"""Which cells of a grid lie under each link, and how high the link is above them.

Along link j from a to b, x(t) = a + t (b - a), the grid lines are crossed at::

    t = (x_k - a_x) / (b_x - a_x)   and   t = (y_k - a_y) / (b_y - a_y),   0 < t < 1

Between two neighbours of all these t, sorted, lies exactly one cell, that of the point in the middle; the height there
is z = a_z + t_mid (b_z - a_z). All links are cut at once; the cost is linear in the number of cells crossed, apart from
the sort. Stretches shorter than 1e-9 of a link (a corner, a line along an edge) count as touching and are left out, and
so is what lies outside of the grid.

Reference: the traversal of Amanatides and Woo, "A fast voxel traversal algorithm for ray tracing", 1987, as array work.
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

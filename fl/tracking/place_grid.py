"""A grid of places over the area, and discs on it: how much probability lies within a distance of
each place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil

import numpy as np

from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.units import Float32Array, FloatArray, IntArray

WIDEST_M = 25.0
MANY = 200_000  # places, beyond which attacks spare time
_OF_SHORTEST = 1.6  # a usual cell, and a cell over the shortest length that a map resolves,
_USUAL_PLACES = 100_000  # where it makes no more places
_MOST_PLACES = 1_000_000
_MOST_NUMBERS = 500_000_000  # of the maps of all targets together
_FINE = 32  # points a side and cell, by which shares of cells in a disc are counted


def usual_cell_m(area: Area, shortest_m: float) -> float:
    """Side of cells for a map that resolves such lengths: 1.6 of the shortest, wider for 100,000
    places, at most 25, or more where that makes over a million places.
    """
    usual_m, most_m = (
        float(np.prod(area.side_m / n**0.5) ** 0.5) for n in (_USUAL_PLACES, 0.95 * _MOST_PLACES)
    )
    return max(min(max(_OF_SHORTEST * shortest_m, usual_m), WIDEST_M), most_m)


def crossed(x: FloatArray, y: FloatArray) -> FloatArray:
    """All places (q p, 2) with one of the coordinates x (p,) and one of y (q,), row by row."""
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


@dataclass(frozen=True)
class PlaceGrid:
    """Places in the middles of equal cells that fill the area, no cell wider than asked for.

    Place i = row * nx + column; rows go from south to north, each from west to east.
    """

    area: Area
    nx: int
    ny: int

    @classmethod
    def over(cls, area: Area, cell_m: float | None, maps: int, attack: str) -> PlaceGrid:
        """The grid, None: of 25 m, wider for a million places; raises BadInput where `maps` maps
        fit no memory.
        """
        cell_m = cell_m or usual_cell_m(area, np.inf)
        nx, ny = (max(ceil(side / cell_m - 1e-9), 1) for side in area.side_m)
        most = min(_MOST_PLACES, _MOST_NUMBERS // max(maps, 1))
        if nx * ny > most:
            raise BadInput(
                f"learning.attacks: {attack}: cell_m {cell_m:g} makes {nx * ny:,} places, at most "
                f"{most:,} are possible in {maps:,} maps; take a larger cell_m, a smaller area, "
                "or attack fewer UEs with threat.n_targets"
            )
        return cls(area, nx, ny)

    def __len__(self) -> int:
        return self.nx * self.ny

    @cached_property
    def cell_m(self) -> FloatArray:
        """Width and height of a cell (2,)."""
        return self.area.side_m / [self.nx, self.ny]

    @cached_property
    def place_m(self) -> FloatArray:
        """All places (G, 2)."""
        x = self.area.x_min_m + (np.arange(self.nx) + 0.5) * self.cell_m[0]
        y = self.area.y_min_m + (np.arange(self.ny) + 0.5) * self.cell_m[1]
        return crossed(x, y)

    def nearest(self, position_m: FloatArray) -> IntArray:
        """The cell (n,) of positions (n, 2) inside the area."""
        with np.errstate(invalid="ignore", divide="ignore"):
            at = np.nan_to_num((position_m - self.area.low_m) / self.cell_m)
        column, row = np.clip(at.astype(int), 0, [self.nx - 1, self.ny - 1]).T
        return row * self.nx + column

    def thinned(self, step: int) -> IntArray:
        """Every step-th place of every step-th row (n,)."""
        return np.arange(len(self)).reshape(self.ny, self.nx)[::step, ::step].ravel()

    def around(self, place: IntArray, cells: int) -> IntArray:
        """All places (n,), ascending, within so many rows and columns of some of these places (any
        shape).
        """
        away = np.arange(-cells, cells + 1)
        row, column = np.divmod(place.reshape(-1, 1, 1), self.nx)
        in_row = np.clip(row + away[:, None], 0, self.ny - 1) * self.nx
        return np.unique(in_row + np.clip(column + away, 0, self.nx - 1))


def disc_masses(probability: Float32Array, grid: PlaceGrid, radius_m: float) -> Float32Array:
    """Probability (n, G) within radius_m of each place, of maps (n, G): cells count by the share of
    them inside.
    """
    share = disc_shares(grid, radius_m)
    rows, columns = (n // 2 for n in share.shape)
    padded = np.pad(
        probability.reshape(-1, grid.ny, grid.nx), ((0, 0), (rows, rows), (columns, columns))
    )
    inside = np.zeros((len(padded), grid.ny, grid.nx), dtype=probability.dtype)
    for row, column in np.argwhere(share > 0).tolist():
        cells = padded[:, row : row + grid.ny, column : column + grid.nx]
        inside += probability.dtype.type(share[row, column]) * cells
    return inside.reshape(probability.shape)


def best_discs(
    probability: Float32Array, grid: PlaceGrid, radius_m: float
) -> tuple[FloatArray, FloatArray]:
    """Centre (n, 2), a place of the grid, and probability (n,) of the disc that holds most of each
    map (n, G).
    """
    mass = disc_masses(probability, grid, radius_m)
    return grid.place_m[mass.argmax(axis=1)], np.minimum(mass.max(axis=1).astype(float), 1.0)


@lru_cache(maxsize=16)
def disc_shares(grid: PlaceGrid, radius_m: float) -> FloatArray:
    """Share (2 ry + 1, 2 rx + 1) of each cell around a cell that lies within radius_m of its
    middle.
    """
    x, y = (
        _points(cell_m, radius_m, n)
        for cell_m, n in zip(grid.cell_m.tolist(), (grid.nx, grid.ny), strict=True)
    )
    inside = np.hypot(y[:, None], x) <= radius_m
    return inside.reshape(len(y) // _FINE, _FINE, len(x) // _FINE, _FINE).mean(axis=(1, 3))


def _points(cell_m: float, radius_m: float, cells: int) -> FloatArray:
    """Fine points along an axis of the cells around a cell that a disc can reach, at most `cells`
    each way.
    """
    reach = min(int(radius_m / cell_m + 0.5), cells)
    number = np.arange((2 * reach + 1) * _FINE)
    return ((number + 0.5) / _FINE - reach - 0.5) * cell_m

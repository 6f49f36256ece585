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
from netsim.units import ArrayPair, Float32Array, FloatArray, IntArray

MAX_CELL_M = 25.0
MANY_PLACES = 200_000  # places, beyond which attacks spare time
_OF_SHORTEST = 1.6  # a usual cell, and a cell over the shortest length that a map resolves,
_USUAL_PLACES = 100_000  # where it makes no more places
_MOST_PLACES = 1_000_000
_MOST_NUMBERS = 500_000_000  # of the maps of all targets together
_FINE = 32  # points a side and cell, by which shares of cells in a disc are counted


def choose_cell_m(area: Area, shortest_m: float) -> float:
    """Side of cells for a map that resolves such lengths: 1.6 of the shortest, wider for 100,000
    places, at most 25, or more where that makes over a million places.
    """
    usual_m = np.prod(area.side_m / _USUAL_PLACES**0.5) ** 0.5
    most_m = np.prod(area.side_m / (0.95 * _MOST_PLACES) ** 0.5) ** 0.5
    return max(min(max(_OF_SHORTEST * shortest_m, usual_m), MAX_CELL_M), most_m)


def cross_axes(x: FloatArray, y: FloatArray) -> FloatArray:
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
    def from_area(cls, area: Area, cell_m: float | None, maps: int, attack: str) -> PlaceGrid:
        """The grid, None: of 25 m, wider for a million places; raises BadInput where `maps` maps
        fit no memory.
        """
        cell_m = cell_m or choose_cell_m(area, np.inf)
        width_m, height_m = area.side_m
        nx = max(ceil(width_m / cell_m - 1e-9), 1)
        ny = max(ceil(height_m / cell_m - 1e-9), 1)
        max_places = min(_MOST_PLACES, _MOST_NUMBERS // max(maps, 1))
        if nx * ny > max_places:
            raise BadInput(
                f"learning.attacks: {attack}: cell_m {cell_m:g} makes {nx * ny:,} places, at most "
                f"{max_places:,} are possible in {maps:,} maps; take a larger cell_m, a smaller "
                "area, or attack fewer UEs with threat.n_targets"
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
        return cross_axes(x, y)

    def find_cells(self, position_m: FloatArray) -> IntArray:
        """The cell (n,) of positions (n, 2) inside the area."""
        with np.errstate(invalid="ignore", divide="ignore"):
            index = np.nan_to_num((position_m - self.area.low_m) / self.cell_m)
        last = [self.nx - 1, self.ny - 1]
        column, row = np.clip(index.astype(int), 0, last).T
        return row * self.nx + column

    def thin_places(self, step: int) -> IntArray:
        """Every step-th place of every step-th row (n,)."""
        return np.arange(len(self)).reshape(self.ny, self.nx)[::step, ::step].ravel()

    def find_neighbours(self, place: IntArray, cells: int) -> IntArray:
        """All places (n,), ascending, within so many rows and columns of some of these places (any
        shape).
        """
        away = np.arange(-cells, cells + 1)
        row, column = np.divmod(place.reshape(-1, 1, 1), self.nx)
        rows = np.clip(row + away[:, None], 0, self.ny - 1)
        columns = np.clip(column + away, 0, self.nx - 1)
        return np.unique(rows * self.nx + columns)


def compute_disc_masses(
    probability: Float32Array, grid: PlaceGrid, radius_m: float
) -> Float32Array:
    """Probability (n, G) within radius_m of each place, of maps (n, G): cells count by the share of
    them inside.
    """
    share = compute_disc_shares(grid, radius_m)
    rows = share.shape[0] // 2
    columns = share.shape[1] // 2
    maps = probability.reshape(-1, grid.ny, grid.nx)
    padded = np.pad(maps, ((0, 0), (rows, rows), (columns, columns)))
    inside = np.zeros_like(maps)
    for row, column in np.argwhere(share > 0).tolist():
        cells = padded[:, row : row + grid.ny, column : column + grid.nx]
        inside += probability.dtype.type(share[row, column]) * cells
    return inside.reshape(probability.shape)


def find_best_discs(probability: Float32Array, grid: PlaceGrid, radius_m: float) -> ArrayPair:
    """Centre (n, 2), a place of the grid, and probability (n,) of the disc that holds most of each
    map (n, G).
    """
    mass = compute_disc_masses(probability, grid, radius_m)
    return grid.place_m[mass.argmax(axis=1)], np.minimum(mass.max(axis=1).astype(float), 1.0)


@lru_cache(maxsize=16)
def compute_disc_shares(grid: PlaceGrid, radius_m: float) -> FloatArray:
    """Share (2 ry + 1, 2 rx + 1) of each cell around a cell that lies within radius_m of its
    middle.
    """
    width_m, height_m = grid.cell_m.tolist()
    x = _build_fine_points(width_m, radius_m, grid.nx)
    y = _build_fine_points(height_m, radius_m, grid.ny)
    inside = np.hypot(y[:, None], x) <= radius_m
    shape = (len(y) // _FINE, _FINE, len(x) // _FINE, _FINE)
    return inside.reshape(shape).mean(axis=(1, 3))


def _build_fine_points(cell_m: float, radius_m: float, cells: int) -> FloatArray:
    """Fine points along an axis of the cells around a cell that a disc can reach, at most `cells`
    each way.
    """
    reach = min(int(radius_m / cell_m + 0.5), cells)
    number = np.arange((2 * reach + 1) * _FINE)
    return ((number + 0.5) / _FINE - reach - 0.5) * cell_m

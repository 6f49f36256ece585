"""A grid of places over the area."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.units import FloatArray, IntArray

_WIDEST_M, _OF_SHORTEST = 25.0, 1.6  # a usual cell, and a cell over the shortest length that a map resolves,
_USUAL_PLACES = 100_000  # where it makes no more places
_MOST_PLACES = 1_000_000
_MOST_NUMBERS = 500_000_000  # of the maps of all targets together


def usual_cell_m(area: Area, shortest_m: float) -> float:
    """Side of cells for a map that resolves such lengths: 1.6 of the shortest, wider for 100,000 places, at most 25."""
    return float(min(max(_OF_SHORTEST * shortest_m, float(np.prod(area.side_m) / _USUAL_PLACES) ** 0.5), _WIDEST_M))


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
        """The grid, None: of 25 m; raises BadInput where `maps` maps of it do not fit into memory."""
        cell_m = cell_m or _WIDEST_M
        nx, ny = (max(ceil(float(side) / cell_m - 1e-9), 1) for side in area.side_m)
        most = min(_MOST_PLACES, _MOST_NUMBERS // max(maps, 1))
        if nx * ny > most:
            raise BadInput(
                f"learning.attacks: {attack}: cell_m {cell_m:g} makes {nx * ny:,} places, at most {most:,} are "
                f"possible in {maps:,} maps; take a larger cell_m, or attack fewer UEs with threat.n_targets"
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
        return np.stack([np.tile(x, self.ny), np.repeat(y, self.nx)], axis=1)

    def nearest(self, position_m: FloatArray) -> IntArray:
        """The cell (n,) of positions (n, 2) inside the area."""
        with np.errstate(invalid="ignore", divide="ignore"):
            at = np.nan_to_num((position_m - self.area.low_m) / self.cell_m)
        column, row = np.clip(at.astype(np.int64), 0, [self.nx - 1, self.ny - 1]).T
        return np.asarray(row * self.nx + column)

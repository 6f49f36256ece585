"""A square grid over an area: cells in rows from south to north, each row from west to east."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.units import FloatArray, IntArray

CELLS = "cells"  # what a learner offers whose updates have a number for each cell,
HEIGHTS = "heights"  # in the phase of this name
_SHARE = 1e-9  # of a cell, by which a side may fail to be a whole number of cells
_MOST = 4_000_000


@dataclass(frozen=True)
class HeightGrid:
    """Cell m = row * nx + column has its middle at low_m + (column + 1/2, row + 1/2) * cell_m."""

    area: Area
    cell_m: float
    nx: int
    ny: int

    @classmethod
    def over(cls, area: Area, cell_m: float) -> HeightGrid:
        """The grid of cells of that side; raises BadInput unless they fill the area."""
        across = area.side_m / cell_m
        nx, ny = (max(round(float(a)), 1) for a in across)
        if np.abs(across - [nx, ny]).max() > _SHARE * max(nx, ny):
            raise BadInput(
                f"learning.learner.cell_m: {cell_m:g} m does not divide the area of {area.side_m[0]:g} x "
                f"{area.side_m[1]:g} m; take a divisor of both sides"
            )
        if nx * ny > _MOST:
            raise BadInput(
                f"learning.learner.cell_m: {cell_m:g} m makes {nx * ny:,} cells, at most {_MOST:,} are possible; take "
                "larger ones"
            )
        return cls(area, cell_m, nx, ny)

    @classmethod
    def of(cls, area: Area, n_cells: int) -> HeightGrid:
        """The grid with n_cells cells: the length of an update reveals it."""
        return cls.over(area, sqrt(float(np.prod(area.side_m)) / n_cells))

    def __len__(self) -> int:
        return self.nx * self.ny

    @cached_property
    def centre_m(self) -> FloatArray:
        """Middles of all cells (n_cell, 2)."""
        x = self.area.x_min_m + (np.arange(self.nx) + 0.5) * self.cell_m
        y = self.area.y_min_m + (np.arange(self.ny) + 0.5) * self.cell_m
        return np.stack([np.tile(x, self.ny), np.repeat(y, self.nx)], axis=1)

    def cell(self, position_m: FloatArray) -> IntArray:
        """The cell of each position (n, 2); -1 outside."""
        at = np.floor((position_m - self.area.low_m) / self.cell_m)
        inside = (at >= 0).all(axis=-1) & (at[..., 0] < self.nx) & (at[..., 1] < self.ny)
        column = np.where(inside, at[..., 0], 0)
        row = np.where(inside, at[..., 1], 0)
        return np.where(inside, row * self.nx + column, -1).astype(np.int64)

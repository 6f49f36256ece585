"""Attack on aligned noise: the ramp of the noise variance is estimated and subtracted."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.attacks.weighted_centroid import GridAttack
from fl.radio_map.grid import Grid
from netsim.units import FloatArray

_FITS = 8  # of the plane, each on the blocks where the last one was above zero
_MEDIAN = 0.4549364231195724  # of the square of a standard normal
_FEW = 3  # blocks that a plane needs


class RampAware(GridAttack):
    r"""Fits the linear ramp of the noise variance, subtracts it, and takes the weighted centroid of the rest.

    In a block of cells the median of G^2 is 0.455 times the noise variance, robust to a few strong cells. A plane
    a.c + b is fitted to these variances, iteratively where it is positive, and then::

        s_m^2 = max(0, G_m^2 - caution max(0, a.c_m + b)),    p = sum s_m^nu c_m / sum s_m^nu

    `caution` is the multiple of the variance that is subtracted: 2 ln(M), about 18 for 10,000 cells, is about the
    largest of M squared draws. Beyond the end of a ramp there is no noise, and the gradient is not changed. If nothing
    remains, the estimate is the strongest cell relative to the plane. Uniform noise is a flat plane.
    """

    kind: Literal["ramp-aware"] = "ramp-aware"
    block_cells: int = Field(default=4, ge=2, le=1000)
    """side of a block in cells"""
    border_cells: int = Field(default=0, ge=0, le=1000)
    """width in cells of the border of the area that is ignored, against noise on the edge"""
    caution: float | None = Field(default=None, gt=0, le=1e6)
    """multiple of the noise variance that is subtracted; none: 2 ln(number of cells)"""

    reference: ClassVar = "against Geometry-Aligned Differential Privacy, Eq. 37: an adversary who knows the scheme"
    example: ClassVar = {"kind": "ramp-aware", "block_cells": 2}

    def size(self, seen: FloatArray, grid: Grid) -> FloatArray:
        square, plane = self.square_and_noise(seen, grid)
        caution = self.caution or 2.0 * np.log(len(grid))
        left = np.maximum(square - caution * plane, 0.0)
        nothing = left.max(axis=1) <= 0
        ratio = square / np.maximum(plane, 1e-300)
        relative = np.where(ratio >= ratio.max(axis=1, keepdims=True), 1.0, 0.0) * (
            square.max(axis=1, keepdims=True) > 0
        )
        return np.sqrt(np.where(nothing[:, None], relative, left))

    def square_and_noise(self, seen: FloatArray, grid: Grid) -> tuple[FloatArray, FloatArray]:
        """Squared updates (n, M), the largest of each being 1, and the variance of the noise in the same unit."""
        seen = seen * self._believed(grid)
        largest = np.abs(seen).max(axis=1, keepdims=True)
        square = np.divide(seen, largest, out=np.zeros_like(seen), where=largest > 0) ** 2
        return square, np.maximum(fitted_plane(square, grid, self.block_cells), 0.0)

    def _believed(self, grid: Grid) -> FloatArray:
        """1 inside of the border, 0 on it (n_cell,)."""
        k = self.border_cells
        inside = np.zeros((grid.ny, grid.nx))
        inside[k : grid.ny - k, k : grid.nx - k] = 1.0
        return inside.ravel()


def fitted_plane(square: FloatArray, grid: Grid, block_cells: int) -> FloatArray:
    """The variance of the noise at each cell (n, M), as a plane through robust variances of blocks; may be negative."""
    n = len(square)
    ny, nx = grid.ny // block_cells, grid.nx // block_cells
    if ny * nx < _FEW:
        return np.zeros_like(square)
    whole = square.reshape(n, grid.ny, grid.nx)[:, : ny * block_cells, : nx * block_cells]
    blocks = whole.reshape(n, ny, block_cells, nx, block_cells).transpose(0, 1, 3, 2, 4).reshape(n, ny * nx, -1)
    variance = np.median(blocks, axis=2) / _MEDIAN  # (n, block)
    y, x = (np.arange(k) * block_cells + (block_cells - 1) / 2 for k in (ny, nx))
    # columns 1, x, y in units of the grid's width, so that the normal equations are well scaled
    at = np.stack([np.ones(ny * nx), np.tile(x, ny) / grid.nx, np.repeat(y, nx) / grid.nx], axis=1)
    use = variance > 1e-6 * variance.max(axis=1, keepdims=True)
    plane = np.zeros((n, 3))
    for _ in range(_FITS):
        weight = use.astype(np.float64)
        normal = np.einsum("nb,bi,bj->nij", weight, at, at) + 1e-9 * np.eye(3)
        moment = np.einsum("nb,nb,bi->ni", weight, variance, at)
        plane = np.linalg.solve(normal, moment[..., None])[..., 0]
        new = use & (plane @ at.T > 0)
        if (new == use).all() or (new.sum(axis=1) < _FEW).any():
            break
        use = new
    column, row = np.arange(len(grid)) % grid.nx, np.arange(len(grid)) // grid.nx
    cells = np.stack([np.ones(len(grid)), column / grid.nx, row / grid.nx], axis=1)
    return plane @ cells.T

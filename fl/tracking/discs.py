"""Discs on a grid of places: how much probability lies within a distance of each place, and where that is most."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fl.tracking.place_grid import PlaceGrid
from netsim.rng import ndtr
from netsim.units import Float32Array, FloatArray

_FINE = 32  # points a side and cell, by which shares of cells in a disc are counted


def disc_masses(probability: Float32Array, grid: PlaceGrid, radius_m: float) -> Float32Array:
    """Probability (n, G) within radius_m of each place, of maps (n, G): cells count by the share of them inside."""
    surface = probability.reshape(-1, grid.ny, grid.nx)
    inside = np.zeros_like(surface)
    shares = disc_shares(grid, radius_m)
    rows, columns = (n // 2 for n in shares.shape)
    for row, column in np.argwhere(shares > 0).tolist():
        to, of = zip(_ends(row - rows, grid.ny), _ends(column - columns, grid.nx), strict=True)
        inside[:, *to] += surface.dtype.type(shares[row, column]) * surface[:, *of]
    return inside.reshape(probability.shape)


def best_discs(probability: Float32Array, grid: PlaceGrid, radius_m: float) -> tuple[FloatArray, FloatArray]:
    """Centre (n, 2), a place of the grid, and probability (n,) of the disc that holds most of each map (n, G)."""
    mass = disc_masses(probability, grid, radius_m)
    best = mass.argmax(axis=1)
    return grid.place_m[best], np.minimum(mass[np.arange(len(mass)), best].astype(np.float64), 1.0)


def blurred(probability: Float32Array, grid: PlaceGrid, sigma_m: float) -> Float32Array:
    """Maps (n, G) of a place that was displaced by a Gaussian of sigma_m a axis, and is inside the area."""
    if sigma_m <= 0:
        return probability
    surface = probability.reshape(-1, grid.ny, grid.nx)
    across, along = (_spread(n, float(cell), sigma_m) for n, cell in zip((grid.nx, grid.ny), grid.cell_m, strict=True))
    return (along.T @ (surface @ across)).reshape(probability.shape)


def _spread(cells: int, cell_m: float, sigma_m: float) -> Float32Array:
    """Probability (cells, cells) to come from the middle of one cell into another, rows summing to 1."""
    away = (np.arange(cells + 1) - 0.5 - np.arange(cells)[:, None]) * (cell_m / sigma_m)
    mass = np.diff(ndtr(away), axis=1)
    return np.asarray(mass / mass.sum(axis=1, keepdims=True), dtype=np.float32)


def _ends(step: int, n: int) -> tuple[slice, slice]:
    """The cells of an axis that have one `step` further, and those."""
    return slice(max(-step, 0), n - max(step, 0)), slice(max(step, 0), n - max(-step, 0))


@lru_cache(maxsize=16)
def _disc_shares(cell_x_m: float, cell_y_m: float, hit_radius_m: float, most_x: int, most_y: int) -> FloatArray:
    rx, ry = min(int(hit_radius_m / cell_x_m + 0.5), most_x), min(int(hit_radius_m / cell_y_m + 0.5), most_y)
    sub = (np.arange(_FINE) + 0.5) / _FINE - 0.5
    x = ((np.arange(-rx, rx + 1)[:, None] + sub) * cell_x_m).reshape(-1)
    y = ((np.arange(-ry, ry + 1)[:, None] + sub) * cell_y_m).reshape(-1)
    inside = (np.hypot(y[:, None], x) <= hit_radius_m).astype(np.float64)
    return np.asarray(inside.reshape(2 * ry + 1, _FINE, 2 * rx + 1, _FINE).mean(axis=(1, 3)))


def disc_shares(grid: PlaceGrid, hit_radius_m: float) -> FloatArray:
    """Share (2 ry + 1, 2 rx + 1) of each cell around a cell that lies within hit_radius_m of its middle."""
    return _disc_shares(float(grid.cell_m[0]), float(grid.cell_m[1]), float(hit_radius_m), grid.nx, grid.ny)

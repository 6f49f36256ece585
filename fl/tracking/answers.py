r"""What an attacker answers from a belief: where the UE is, within which disc, within which area.

With probabilities p of the places of a grid, d the distance to the middle of a cell (of a point to its own cell, 0.38
times its side, the mean over a square):

    least expected distance   argmin_x  sum_c p_c d(x, c)              (for the error)
    best disc                 argmax_c  sum_c' p_c' |disc(c) with c'|   (for success within a radius; shares of cells)
    credible area             the smallest set of cells that holds a probability
    entropy                   - sum_c p_c log2 p_c

The posterior mean is no answer: between two humps it lies where nobody is. An answer in the cell to which an estimate
of the round points is that point, which is finer than the cell; and of discs that hold nearly as much as the best one,
that around the answer is taken.
[Shokri et al. 2011, Quantifying Location Privacy, Section III, for distance and success of the best answer]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fl.tracking.place_grid import PlaceGrid
from netsim.units import BoolArray, FloatArray

_AS_GOOD = 0.98  # of the best disc's mass
_FINE = 32  # points a side and cell, by which shares of cells in a disc are counted


@dataclass(frozen=True, eq=False)
class Answers:
    """Of k beliefs. place_m (k, 2), stated_error_m (k,) : least expected distance, and that distance; disc_m (k, 2),
    disc_probability (k,) : centre and mass of the best disc; entropy_bits (k,);
    area50_m2, area90_m2 (k,) : credible areas; least50, least90 (k,) : the least probability of a cell in them.
    """

    place_m: FloatArray
    stated_error_m: FloatArray
    disc_m: FloatArray
    disc_probability: FloatArray
    entropy_bits: FloatArray
    area50_m2: FloatArray
    area90_m2: FloatArray
    least50: FloatArray
    least90: FloatArray


def answers(
    probability: npt.NDArray[np.float32],
    grid: PlaceGrid,
    near_m: float,
    point_m: FloatArray | None = None,
    alone: bool = False,
) -> Answers:
    """What beliefs (k, G) name; near_m : radius of the disc; point_m (k, R, 2) : where estimates of the round point;
    alone : points are the answers wherever they lie. Rows of probability must sum to 1.

    Credible areas are exact to a hundredth of the least probability in them.
    """
    from fl.tracking.answer_loops import answered

    k = len(probability)
    share = disc_shares(grid, near_m)
    maps = np.ascontiguousarray(probability, dtype=np.float32).reshape(k, grid.ny, grid.nx)
    found = answered(maps, float(grid.cell_m[0]), float(grid.cell_m[1]), share)
    low = grid.area.low_m
    middle_m = low + found[:, 0:2]
    place_m = sharpened(middle_m, grid, point_m, alone)
    within = probability_within(probability, grid, place_m, near_m)
    same = (within >= _AS_GOOD * found[:, 5]) | (alone & (place_m != middle_m).any(axis=1))
    return Answers(
        place_m=place_m,
        stated_error_m=found[:, 2],
        disc_m=np.where(same[:, None], place_m, low + found[:, 3:5]),
        disc_probability=np.where(same, within, found[:, 5]),
        entropy_bits=found[:, 6],
        area50_m2=found[:, 7],
        area90_m2=found[:, 8],
        least50=found[:, 9],
        least90=found[:, 10],
    )


def sharpened(place_m: FloatArray, grid: PlaceGrid, point_m: FloatArray | None, alone: bool = False) -> FloatArray:
    """Places (k, 2), or the first of the points (k, R, 2) in their cells; alone : in any cell."""
    if point_m is None or not point_m.size:
        return place_m
    there = grid.area.contains(point_m.reshape(-1, 2)).reshape(point_m.shape[:2])
    cell = grid.nearest(np.where(there[..., None], point_m, grid.area.low_m).reshape(-1, 2)).reshape(there.shape)
    same = there & ((cell == grid.nearest(place_m)[:, None]) | alone)
    first = point_m[np.arange(len(place_m)), same.argmax(axis=1)]
    return np.where(same.any(axis=1)[:, None], first, place_m)


def places_of_least_distance_m(
    probability: npt.NDArray[np.float32], grid: PlaceGrid, point_m: FloatArray | None = None
) -> FloatArray:
    """`place_m` (k, 2) of `answers` of beliefs (k, G) alone, in half of the time."""
    from fl.tracking.answer_loops import middles

    maps = np.ascontiguousarray(probability, dtype=np.float32).reshape(-1, grid.ny, grid.nx)
    place_m = np.asarray(grid.area.low_m + middles(maps, float(grid.cell_m[0]), float(grid.cell_m[1])))
    return sharpened(place_m, grid, point_m)


def expected_distance_m(probability: npt.NDArray[np.float32], grid: PlaceGrid, place_m: FloatArray) -> FloatArray:
    """sum_c p_c d(place, c) (k,) of beliefs (k, G) to places (k, 2): the correctness of an attacker who answers with
    its whole belief.
    """
    from fl.tracking.distance_loops import distances_to

    maps = np.ascontiguousarray(probability, dtype=np.float32).reshape(-1, grid.ny, grid.nx)
    at = np.ascontiguousarray(place_m - grid.area.low_m)
    return distances_to(maps, float(grid.cell_m[0]), float(grid.cell_m[1]), at)


def probability_within(
    probability: npt.NDArray[np.float32], grid: PlaceGrid, place_m: FloatArray, near_m: float
) -> FloatArray:
    """Mass (k,) of beliefs (k, G) within near_m of the cells of places (k, 2)."""
    share = disc_shares(grid, near_m)
    ry, rx = share.shape[0] // 2, share.shape[1] // 2
    maps = probability.reshape(-1, grid.ny, grid.nx)
    row, column = np.divmod(grid.nearest(place_m), grid.nx)
    total = np.zeros(len(maps))
    every = np.arange(len(maps))
    for dy in range(-ry, ry + 1):
        for dx in range(-rx, rx + 1):
            y, x, s = row + dy, column + dx, share[dy + ry, dx + rx]
            inside = (y >= 0) & (y < grid.ny) & (x >= 0) & (x < grid.nx)
            total[inside] += s * maps[every[inside], y[inside], x[inside]]
    return total


def in_area(probability: npt.NDArray[np.float32], grid: PlaceGrid, place_m: FloatArray, least: FloatArray) -> BoolArray:
    """Whether places (k, 2) lie in cells of at least this probability (k,)."""
    inside = grid.area.contains(place_m)
    cell = grid.nearest(np.where(inside[:, None], place_m, grid.area.low_m))
    return inside & (probability[np.arange(len(place_m)), cell] >= least)


@lru_cache(maxsize=16)
def _disc_shares(cell_x_m: float, cell_y_m: float, near_m: float, most_x: int, most_y: int) -> FloatArray:
    rx, ry = min(int(near_m / cell_x_m + 0.5), most_x), min(int(near_m / cell_y_m + 0.5), most_y)
    sub = (np.arange(_FINE) + 0.5) / _FINE - 0.5
    x = ((np.arange(-rx, rx + 1)[:, None] + sub) * cell_x_m).reshape(-1)
    y = ((np.arange(-ry, ry + 1)[:, None] + sub) * cell_y_m).reshape(-1)
    inside = (np.hypot(y[:, None], x) <= near_m).astype(np.float64)
    return np.asarray(inside.reshape(2 * ry + 1, _FINE, 2 * rx + 1, _FINE).mean(axis=(1, 3)))


def disc_shares(grid: PlaceGrid, near_m: float) -> FloatArray:
    """Share (2 ry + 1, 2 rx + 1) of each cell around a cell that lies within near_m of its middle."""
    return _disc_shares(float(grid.cell_m[0]), float(grid.cell_m[1]), float(near_m), grid.nx, grid.ny)

r"""Answers of an attacker from a belief: a place, a disc and an area of the UE.

With probabilities p of the places of a grid, d the distance to the middle of a cell (of a point to its own cell, 0.38
times its side, the mean over a square):

    least expected distance   argmin_x  sum_c p_c d(x, c)              (for the error)
    best disc                 argmax_c  sum_c' p_c' |disc(c) with c'|   (for success within a radius; shares of cells)
    credible area             the smallest set of cells that holds a probability
    entropy                   - sum_c p_c log2 p_c

The posterior mean is no answer: between two humps it lies where no UE is. An answer in the cell to which an estimate
of the round points is that point, which is finer than the cell; and of discs that hold nearly as much as the best one,
that around the answer is taken.
[Shokri et al. 2011, Quantifying Location Privacy, Section III, for distance and success of the best answer]
"""

from __future__ import annotations

import numpy as np

from fl.tracking.discs import disc_masses, disc_shares
from fl.tracking.maps import Maps
from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen
from netsim.units import BoolArray, Float32Array, FloatArray

_AS_GOOD = 0.98  # of the best disc's mass
_CREDIBLE = (0.5, 0.9)  # probabilities of credible areas
_LEAST_BITS, _SHIFT = 0x2B800000, 16  # of a float of 2^-40; 128 buckets an octave


@frozen
class Answers:
    """Answers of k beliefs. place_m (k, 2), stated_error_m (k,) : least expected distance, and that distance; disc_m
    (k, 2), disc_probability (k,) : centre and mass of the best disc; entropy_bits (k,); area50_m2, area90_m2 (k,) :
    credible areas; least50, least90 (k,) : the least probability of a cell in them.
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
    probability: Float32Array,
    grid: PlaceGrid,
    hit_radius_m: float,
    point_m: FloatArray | None = None,
    alone: bool = False,
) -> Answers:
    """Answers of beliefs (k, G); hit_radius_m : radius of the disc; point_m (k, R, 2) : where estimates of the round
    point; alone : points are the answers wherever they lie. Rows of probability must sum to 1.

    Credible areas are exact to a hundredth of the least probability in them.
    """
    from fl.tracking.distance_loops import medians

    maps = np.ascontiguousarray(probability, dtype=np.float32).reshape(-1, grid.ny, grid.nx)
    found = medians(maps, *grid.cell_m.tolist())
    middle_m = grid.area.low_m + found[:, :2]
    place_m = sharpened(middle_m, grid, point_m, alone)
    within, mass = probability_within(probability, grid, place_m, hit_radius_m), disc_masses(maps, grid, hit_radius_m)
    mass = mass.reshape(len(maps), grid.ny * grid.nx)
    best = mass.argmax(axis=1)
    held = mass[np.arange(len(maps)), best].astype(np.float64)
    same = (within >= _AS_GOOD * held) | (alone & (place_m != middle_m).any(axis=1))
    areas = np.array([_credible(each) for each in maps]).reshape(-1, 2, 2)  # cells, and the least probability of one
    area_m2 = areas[:, :, 0] * grid.cell_m.prod()
    return Answers(
        place_m=place_m,
        stated_error_m=found[:, 2],
        disc_m=np.where(same[:, None], place_m, grid.place_m[best]),
        disc_probability=np.where(same, within, held),
        entropy_bits=_entropy_bits(maps),
        area50_m2=area_m2[:, 0],
        area90_m2=area_m2[:, 1],
        least50=areas[:, 0, 1],
        least90=areas[:, 1, 1],
    )


def _entropy_bits(maps: Maps) -> FloatArray:
    """- sum_c p_c log2 p_c (k,), with log2 of the mantissa m as (m - 1) times a polynomial: right to 1.4e-6 bits."""
    half, power = np.frexp(maps)  # p = 2 half 2^(power - 1)
    t = 2 * half - 1
    high = 0.21558853 + t * (-0.09606625 + t * 0.02049035)
    low = 0.47770593 + t * (-0.33924777 + t * high)
    log2 = (power - 1).astype(np.float32) + t * (1.44269326 + t * (-0.72116273 + t * low))
    return np.asarray(-(maps * log2).sum(axis=1).sum(axis=1, dtype=np.float64))


def _credible(p: Maps) -> list[tuple[float, float]]:
    """Cells of the smallest sets of places of a map that hold half and nine tenths, and the least probability of one.

    Cells are counted by buckets of probabilities that are equal to a hundredth, and taken as equal in each. Those in no
    credible area are left out: all of them hold less than 0.05.
    """
    whole = float(p.sum(dtype=np.float64))
    some = p[p >= np.float32(0.5 * (1.0 - _CREDIBLE[-1]) * whole / p.size)]
    bucket = np.maximum((some.view(np.int32) - _LEAST_BITS >> _SHIFT) + 1, 0)
    count, weight = np.bincount(bucket)[::-1], np.bincount(bucket, weights=some)[::-1]  # the largest first
    cells, held = np.cumsum(count), np.cumsum(weight)
    found = []
    for wanted in (share * whole for share in _CREDIBLE):
        at = int(np.argmax((held >= wanted) & (count > 0)))
        more = np.ceil((wanted - held[at] + weight[at]) / (weight[at] / count[at]))
        found.append((float(cells[at] - count[at] + more), _least_of(len(count) - 1 - at)))
    return found


def _least_of(bucket: int) -> float:
    """The smallest float in a bucket."""
    bits = np.array([(bucket - 1 << _SHIFT) + _LEAST_BITS], dtype=np.int32)
    return float(bits.view(np.float32)[0]) if bucket else 0.0


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
    probability: Float32Array, grid: PlaceGrid, point_m: FloatArray | None = None
) -> FloatArray:
    """`place_m` (k, 2) of `answers` of beliefs (k, G) alone."""
    from fl.tracking.distance_loops import medians

    maps = np.ascontiguousarray(probability, dtype=np.float32).reshape(-1, grid.ny, grid.nx)
    return sharpened(grid.area.low_m + medians(maps, *grid.cell_m.tolist())[:, :2], grid, point_m)


def expected_distance_m(probability: Float32Array, grid: PlaceGrid, place_m: FloatArray) -> FloatArray:
    """sum_c p_c d(place, c) (k,) of beliefs (k, G) to places (k, 2): the correctness of an attacker who answers with
    its whole belief.
    """
    from fl.tracking.distance_loops import distances_to

    maps = np.ascontiguousarray(probability, dtype=np.float32).reshape(-1, grid.ny, grid.nx)
    at = np.ascontiguousarray(place_m - grid.area.low_m)
    return distances_to(maps, float(grid.cell_m[0]), float(grid.cell_m[1]), at)


def probability_within(
    probability: Float32Array, grid: PlaceGrid, place_m: FloatArray, hit_radius_m: float
) -> FloatArray:
    """Mass (k,) of beliefs (k, G) within hit_radius_m of the cells of places (k, 2)."""
    share = disc_shares(grid, hit_radius_m)
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


def in_area(probability: Float32Array, grid: PlaceGrid, place_m: FloatArray, least: FloatArray) -> BoolArray:
    """Whether places (k, 2) lie in cells of at least this probability (k,)."""
    inside = grid.area.contains(place_m)
    cell = grid.nearest(np.where(inside[:, None], place_m, grid.area.low_m))
    return inside & (probability[np.arange(len(place_m)), cell] >= least)

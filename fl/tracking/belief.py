r"""Belief of an attacker about where UEs are: a probability for every place of a grid, and what it
answers from it.

With probabilities p of the places of a grid, d the distance to the middle of a cell (of a point to
its own cell, 0.38 times its side, the mean over a square):

    least expected distance   argmin_x  sum_c p_c d(x, c)              (for the error)
    best disc                 argmax_c  sum_c' p_c' |disc(c) with c'|   (for success within a
    radius; shares of cells)
    credible area             the smallest set of cells that holds a probability
    entropy                   - sum_c p_c log2 p_c

The posterior mean is no answer: between two humps it lies where no UE is. An answer in the cell to
which an estimate of the round points is that point, which is finer than the cell; and of discs that
hold nearly as much as the best one, that around the answer is taken. [Shokri et al. 2011,
Quantifying Location Privacy, Section III, for distance and success of the best answer; Weiszfeld
1937, for the point of least distance]
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from fl.tracking.history import successive
from fl.tracking.place_grid import PlaceGrid, best_discs, disc_shares
from netsim.columns import Columns, blocks, frozen, no_ints, no_places
from netsim.units import BoolArray, Float32Array, FloatArray, IntArray

_AS_GOOD = 0.98  # of the best disc's mass
_OWN = 0.3826  # mean distance from the middle of a unit square
_BLOCKS = 25  # per side, into which cells are gathered for the search of the least distance
_STEPS = 8  # of that search
_SURE = 0.05  # mass of a cell, beyond which its middle may be the best answer
_AT_ONCE = 320_000  # numbers of maps: temporary ones stay in the cache
_FEWEST = 30  # terms of D


@frozen
class Belief:
    """Probabilities of places after (or, in hindsight, for) one round.

    round, time_s : of the round that it speaks of; ue (k,) : of whom, by the names that the
    attacker knows, ascending; grid : the G places; probability (k, G) : each row sums to 1; prior
    (G,) : where a UE is, before any estimate. point_m (k, R, 2) : where the estimates of this round
    put them, finer than cells, NaN where there are none; alone : whether these are better answers
    than the belief (see `Memory`).
    """

    round: int
    time_s: float
    ue: IntArray
    grid: PlaceGrid
    probability: Float32Array
    prior: Float32Array
    point_m: FloatArray | None = None
    alone: bool = False

    def only(self, some: BoolArray | IntArray) -> Belief:
        """Select some UEs (k,), or rows (k,) in that order."""
        point_m = None if self.point_m is None else self.point_m[some]
        return replace(self, ue=self.ue[some], probability=self.probability[some], point_m=point_m)


@frozen
class Answers(Columns):
    """Answers of k beliefs. place_m (k, 2), stated_error_m (k,) : least expected distance, and that
    distance; disc_m (k, 2), disc_probability (k,) : centre and mass of the best disc; entropy_bits
    (k,); area50_m2, area90_m2 (k,) : credible areas; least50, least90 (k,) : the least probability
    of a cell in them.
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
    """Answers of beliefs (k, G); hit_radius_m : radius of the disc; point_m (k, R, 2) : where
    estimates of the round point; alone : points are the answers wherever they lie. Rows of
    probability must sum to 1.
    """
    if point_m is None:
        point_m = np.zeros((len(probability), 0, 2))
    else:
        point_m = point_m
    size = max(_AT_ONCE // len(grid), 1)
    each = blocks(max(len(probability), 1), size)
    return Answers.join(
        [_answers(probability[some], grid, hit_radius_m, point_m[some], alone) for some in each]
    )


def _answers(
    p: Float32Array, grid: PlaceGrid, hit_radius_m: float, point_m: FloatArray, alone: bool
) -> Answers:
    """`answers` of a few beliefs (k, G)."""
    middle_m = least_distance_m(p, grid)
    place_m = sharpened(middle_m, grid, point_m, alone)
    within = probability_within(p, grid, place_m, hit_radius_m)
    centre_m, held = best_discs(p, grid, hit_radius_m)
    same = (within >= _AS_GOOD * held) | (alone & (place_m != middle_m).any(axis=1))
    (area50_m2, least50), (area90_m2, least90) = _credible(p, grid)
    return Answers(
        place_m=place_m,
        stated_error_m=expected_distance_m(p, grid, middle_m),
        disc_m=np.where(same[:, None], place_m, centre_m),
        disc_probability=np.where(same, within, held),
        entropy_bits=-(p * np.log2(np.maximum(p, np.float32(1e-30)))).sum(axis=1, dtype=float),
        area50_m2=area50_m2,
        area90_m2=area90_m2,
        least50=least50,
        least90=least90,
    )


def _credible(p: Float32Array, grid: PlaceGrid) -> list[tuple[FloatArray, FloatArray]]:
    """Area (k,) of the smallest sets of places that hold half and nine tenths, and the least
    probability (k,) in it.

    Places below a twentieth of the mean are in neither: together they hold less than a twentieth.
    """
    most = (p >= 0.05 / p.shape[1]).sum(axis=1).max(initial=1)
    ordered = np.sort(p, axis=1)[:, : -most - 1 : -1]
    held = np.cumsum(ordered, axis=1)
    found = []
    for wanted in (0.5, 0.9):
        last = np.minimum((held < wanted).sum(axis=1), most - 1)
        least = np.take_along_axis(ordered, last[:, None], axis=1)[:, 0]
        found.append(((last + 1.0) * np.prod(grid.cell_m), least.astype(float)))
    return found


def least_distance_m(p: Float32Array, grid: PlaceGrid) -> FloatArray:
    """The point (k, 2) of least expected distance of beliefs (k, G), to a few metres per 100 m of a
    block.

    Cells are gathered into at most 25 x 25 blocks, each at its centre of mass c_b, and Weiszfeld's
    iteration

        x' = sum_b m_b c_b / d(x, c_b)  /  sum_b m_b / d(x, c_b)

    begins at the median along each axis. The likeliest cell is the answer where it is nearer to
    all.
    """
    maps = p.reshape(-1, grid.ny, grid.nx)
    (in_y, y_m) = _gathered(grid.ny, grid.cell_m[1])
    (in_x, x_m) = _gathered(grid.nx, grid.cell_m[0])
    along = maps @ in_x
    blocks = in_y.shape[1] * in_x.shape[1]
    mass = np.maximum(in_y.T @ along, np.float32(1e-30))
    block_y = ((in_y * y_m[:, None]).T @ along / mass).reshape(len(p), blocks)
    block_x = (in_y.T @ (maps @ (in_x * x_m[:, None])) / mass).reshape(len(p), blocks)
    x, y = (
        _median(mass.sum(axis=axis), at, into)
        for axis, at, into in ((1, x_m, in_x), (2, y_m, in_y))
    )
    mass = mass.reshape(len(p), blocks)
    own = np.float32(_OWN**2 * np.prod(grid.area.side_m) / blocks)
    for _ in range(_STEPS):
        weight = mass / np.sqrt(np.maximum((block_x - x) ** 2 + (block_y - y) ** 2, own))
        total = weight.sum(axis=1, keepdims=True)
        x, y = ((weight * at).sum(axis=1, keepdims=True) / total for at in (block_x, block_y))
    found = grid.area.low_m + np.concatenate([x, y], axis=1)
    sure = np.flatnonzero(p.max(axis=1) > _SURE)
    mode_m = grid.place_m[p[sure].argmax(axis=1)]
    nearer = expected_distance_m(p[sure], grid, mode_m) < expected_distance_m(
        p[sure], grid, found[sure]
    )
    found[sure[nearer]] = mode_m[nearer]
    return found


def _gathered(n: int, cell_m: float) -> tuple[Float32Array, Float32Array]:
    """Which of at most 25 blocks of an axis each of n cells is in (n, B), and the middles (n,) of
    the cells.
    """
    side = -(-n // _BLOCKS)
    block = np.arange(n)[:, None] // side == np.arange(-(-n // side))
    return block.astype(np.float32), ((np.arange(n) + 0.5) * cell_m).astype(np.float32)


def _median(mass: Float32Array, at_m: Float32Array, into: Float32Array) -> Float32Array:
    """The middle (k, 1) of the block of an axis up to which half of the mass (k, B) lies."""
    middle_m = at_m @ into / into.sum(axis=0)
    half = np.cumsum(mass, axis=1) >= 0.5 * mass.sum(axis=1, keepdims=True)
    return middle_m[half.argmax(axis=1), None]


def sharpened(
    place_m: FloatArray, grid: PlaceGrid, point_m: FloatArray, alone: bool = False
) -> FloatArray:
    """Places (k, 2), or the first of the points (k, R, 2) in their cells; alone : in any cell."""
    if not point_m.size:
        return place_m
    there = grid.area.contains(point_m.reshape(-1, 2)).reshape(point_m.shape[:2])
    cell = grid.nearest(
        np.where(there[..., None], point_m, grid.area.low_m).reshape(-1, 2)
    ).reshape(there.shape)
    same = there & ((cell == grid.nearest(place_m)[:, None]) | alone)
    first = np.take_along_axis(point_m, same.argmax(axis=1)[:, None, None], axis=1)[:, 0]
    return np.where(same.any(axis=1)[:, None], first, place_m)


def expected_distance_m(
    probability: Float32Array, grid: PlaceGrid, place_m: FloatArray
) -> FloatArray:
    """sum_c p_c d(place, c) (k,) of beliefs (k, G) to places (k, 2): the correctness of an attacker
    that answers with its whole belief.
    """
    middle_m = grid.place_m.reshape(grid.ny, grid.nx, 2)
    x = (middle_m[0, :, 0] - place_m[:, :1]).astype(np.float32) ** 2
    y = (middle_m[:, 0, 1] - place_m[:, 1:]).astype(np.float32) ** 2
    own = np.float32(_OWN**2 * np.prod(grid.cell_m))
    mean = np.empty(len(place_m))
    for row, p in enumerate(probability):
        distance = np.sqrt(np.maximum(y[row, :, None] + x[row], own))
        mean[row] = p @ distance.reshape(-1)
    return mean


def probability_within(
    probability: Float32Array, grid: PlaceGrid, place_m: FloatArray, hit_radius_m: float
) -> FloatArray:
    """Mass (k,) of beliefs (k, G) within hit_radius_m of the cells of places (k, 2)."""
    share = disc_shares(grid, hit_radius_m)
    maps = probability.reshape(-1, grid.ny, grid.nx)
    row, column = np.divmod(grid.nearest(place_m), grid.nx)
    total = np.zeros(len(maps))
    for dy, dx in np.argwhere(share > 0).tolist():
        y = row + dy - share.shape[0] // 2
        x = column + dx - share.shape[1] // 2
        inside = np.flatnonzero((y >= 0) & (y < grid.ny) & (x >= 0) & (x < grid.nx))
        total[inside] += share[dy, dx] * maps[inside, y[inside], x[inside]]
    return total


def in_area(
    probability: Float32Array, grid: PlaceGrid, place_m: FloatArray, least: FloatArray
) -> BoolArray:
    """Whether places (k, 2) lie in cells of at least this probability (k,)."""
    inside = grid.area.contains(place_m)
    cell = grid.nearest(np.where(inside[:, None], place_m, grid.area.low_m))
    return inside & (probability[np.arange(len(place_m)), cell] >= least)


@frozen
class Memory:
    r"""Whether what was believed of a round tells the next estimate better than the estimate of
    that round alone.

    Estimates of one round lie around the truth with errors of their own. So the answer x that lies
    nearer to the truth than the estimate z of its round is, on average, also nearer to the estimate
    z' of the round after. With

        D = mean of |z' - x| - |z' - z|      over UEs and successive rounds,

    memory does not help where D is more than one standard error above 0: then the errors of shadow
    UEs are not those of real ones. No true place is read. A UE that returns to where it was makes D
    smaller than it should be, so that an attacker believes in its memory too often, not too seldom.

    count, total_m, square_m2 : of the terms of D; round : the last; ue (k,), place_m, point_m (k,
    2) : answers of that round and the estimates alone.
    """

    count: int = 0
    total_m: float = 0.0
    square_m2: float = 0.0
    round: int = -1
    ue: IntArray = field(default_factory=no_ints)
    place_m: FloatArray = field(default_factory=no_places)
    point_m: FloatArray = field(default_factory=no_places)

    def plus(self, round_: int, ue: IntArray, place_m: FloatArray, point_m: FloatArray) -> Memory:
        """With answers (k, 2), and estimates alone (k, 2), of UEs (k,) ascending in a round; a
        second look at it does not count.
        """
        if round_ == self.round:
            return self
        now, then = successive(round_, ue, self.round, self.ue)
        next_m = point_m[now]
        term_m = np.hypot(*(next_m - self.place_m[then]).T) - np.hypot(
            *(next_m - self.point_m[then]).T
        )
        term_m = term_m[np.isfinite(term_m)]
        total_m = self.total_m + float(term_m.sum())
        square_m2 = self.square_m2 + float((term_m**2).sum())
        return Memory(self.count + len(term_m), total_m, square_m2, round_, ue, place_m, point_m)

    @property
    def misleads(self) -> bool:
        """Whether estimates alone tell the next ones better."""
        if self.count < _FEWEST:
            return False
        mean_m = self.total_m / self.count
        variance_m2 = max(self.square_m2 / self.count - mean_m**2, 0.0)
        return mean_m > float(np.sqrt(variance_m2 / self.count))

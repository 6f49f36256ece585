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

from fl.tracking.history import match_successive
from fl.tracking.place_grid import PlaceGrid, compute_disc_shares, find_best_discs
from netsim.columns import Columns, frozen, no_ints, no_places, split_blocks
from netsim.geometry import measure_lengths
from netsim.units import ArrayPair, BoolArray, Float32Array, FloatArray, IntArray

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

    def select_ues(self, rows: BoolArray | IntArray) -> Belief:
        """Select some UEs (k,), or rows (k,) in that order."""
        point_m = None if self.point_m is None else self.point_m[rows]
        return replace(self, ue=self.ue[rows], probability=self.probability[rows], point_m=point_m)


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


def answer_beliefs(
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
    size = max(_AT_ONCE // len(grid), 1)
    pieces = split_blocks(max(len(probability), 1), size)
    answers = []
    for rows in pieces:
        answers.append(_answer_block(probability[rows], grid, hit_radius_m, point_m[rows], alone))
    return Answers.join(answers)


def _answer_block(
    p: Float32Array, grid: PlaceGrid, hit_radius_m: float, point_m: FloatArray, alone: bool
) -> Answers:
    """`answer_beliefs` of a few beliefs (k, G)."""
    middle_m = find_geometric_medians_m(p, grid)
    place_m = refine_places(middle_m, grid, point_m, alone)
    within = compute_probability_within(p, grid, place_m, hit_radius_m)
    centre_m, held = find_best_discs(p, grid, hit_radius_m)
    is_good = within >= _AS_GOOD * held
    is_refined = alone & (place_m != middle_m).any(axis=1)
    same = is_good | is_refined
    log_p = np.log2(np.maximum(p, np.float32(1e-30)))
    (area50_m2, least50), (area90_m2, least90) = _measure_credible_areas(p, grid)
    return Answers(
        place_m=place_m,
        stated_error_m=compute_expected_distances_m(p, grid, middle_m),
        disc_m=np.where(same[:, None], place_m, centre_m),
        disc_probability=np.where(same, within, held),
        entropy_bits=-(p * log_p).sum(axis=1, dtype=float),
        area50_m2=area50_m2,
        area90_m2=area90_m2,
        least50=least50,
        least90=least90,
    )


def _measure_credible_areas(p: Float32Array, grid: PlaceGrid) -> list[ArrayPair]:
    """Area (k,) of the smallest sets of places that hold half and nine tenths, and the least
    probability (k,) in it.

    Places below a twentieth of the mean are in neither: together they hold less than a twentieth.
    """
    is_counted = p >= 0.05 / p.shape[1]
    n_cells = is_counted.sum(axis=1).max(initial=1)
    ordered = np.sort(p, axis=1)[:, ::-1][:, :n_cells]
    held = np.cumsum(ordered, axis=1)
    areas = []
    for mass in (0.5, 0.9):
        last = np.minimum((held < mass).sum(axis=1), n_cells - 1)
        threshold = ordered[np.arange(len(p)), last]
        area_m2 = (last + 1.0) * np.prod(grid.cell_m)
        areas.append((area_m2, threshold.astype(float)))
    return areas


def find_geometric_medians_m(p: Float32Array, grid: PlaceGrid) -> FloatArray:
    """The point (k, 2) of least expected distance of beliefs (k, G), to a few metres per 100 m of a
    block.

    Cells are gathered into at most 25 x 25 blocks, each at its centre of mass c_b, and Weiszfeld's
    iteration

        x' = sum_b m_b c_b / d(x, c_b)  /  sum_b m_b / d(x, c_b)

    begins at the median along each axis. The likeliest cell is the answer where it is nearer to
    all.
    """
    maps = p.reshape(-1, grid.ny, grid.nx)
    (in_y, y_m) = _group_cells(grid.ny, grid.cell_m[1])
    (in_x, x_m) = _group_cells(grid.nx, grid.cell_m[0])
    along = maps @ in_x
    blocks = in_y.shape[1] * in_x.shape[1]
    mass = np.maximum(in_y.T @ along, np.float32(1e-30))
    moment_y = (in_y * y_m[:, None]).T @ along
    moment_x = in_y.T @ (maps @ (in_x * x_m[:, None]))
    block_y = (moment_y / mass).reshape(len(p), blocks)
    block_x = (moment_x / mass).reshape(len(p), blocks)
    x = _find_median_m(mass.sum(axis=1), x_m, in_x)
    y = _find_median_m(mass.sum(axis=2), y_m, in_y)
    mass = mass.reshape(len(p), blocks)
    area_m2 = np.prod(grid.area.side_m)
    min_square_m2 = np.float32(_OWN**2 * area_m2 / blocks)
    for _ in range(_STEPS):
        square_m2 = (block_x - x) ** 2 + (block_y - y) ** 2
        weight = mass / np.sqrt(np.maximum(square_m2, min_square_m2))
        total = weight.sum(axis=1, keepdims=True)
        x = (weight * block_x).sum(axis=1, keepdims=True) / total
        y = (weight * block_y).sum(axis=1, keepdims=True) / total
    median_m = grid.area.low_m + np.concatenate([x, y], axis=1)
    sure = np.flatnonzero(p.max(axis=1) > _SURE)
    mode_m = grid.place_m[p[sure].argmax(axis=1)]
    mode_distance_m = compute_expected_distances_m(p[sure], grid, mode_m)
    nearer = mode_distance_m < compute_expected_distances_m(p[sure], grid, median_m[sure])
    median_m[sure[nearer]] = mode_m[nearer]
    return median_m


def _group_cells(n: int, cell_m: float) -> tuple[Float32Array, Float32Array]:
    """Which of at most 25 blocks of an axis each of n cells is in (n, B), and the middles (n,) of
    the cells.
    """
    side = -(-n // _BLOCKS)
    is_in_block = np.arange(n)[:, None] // side == np.arange(-(-n // side))
    middle_m = (np.arange(n) + 0.5) * cell_m
    return is_in_block.astype(np.float32), middle_m.astype(np.float32)


def _find_median_m(mass: Float32Array, cell_m: Float32Array, member: Float32Array) -> Float32Array:
    """The middle (k, 1) of the block of an axis up to which half of the mass (k, B) lies."""
    middle_m = cell_m @ member / member.sum(axis=0)
    half = np.cumsum(mass, axis=1) >= 0.5 * mass.sum(axis=1, keepdims=True)
    return middle_m[half.argmax(axis=1), None]


def refine_places(
    place_m: FloatArray, grid: PlaceGrid, point_m: FloatArray, alone: bool = False
) -> FloatArray:
    """Places (k, 2), or the first of the points (k, R, 2) in their cells; alone : in any cell."""
    if not point_m.size:
        return place_m
    flat_m = point_m.reshape(-1, 2)
    is_inside = grid.area.contains(flat_m)
    inside_m = np.where(is_inside[:, None], flat_m, grid.area.low_m)
    shape = point_m.shape[:2]
    cell = grid.find_cells(inside_m).reshape(shape)
    is_near = (cell == grid.find_cells(place_m)[:, None]) | alone
    same = is_inside.reshape(shape) & is_near
    first = point_m[np.arange(len(point_m)), same.argmax(axis=1)]
    return np.where(same.any(axis=1)[:, None], first, place_m)


def compute_expected_distances_m(
    probability: Float32Array, grid: PlaceGrid, place_m: FloatArray
) -> FloatArray:
    """sum_c p_c d(place, c) (k,) of beliefs (k, G) to places (k, 2): the correctness of an attacker
    that answers with its whole belief.
    """
    middle_m = grid.place_m.reshape(grid.ny, grid.nx, 2)
    x_m = middle_m[0, :, 0] - place_m[:, :1]
    y_m = middle_m[:, 0, 1] - place_m[:, 1:]
    x = x_m.astype(np.float32) ** 2
    y = y_m.astype(np.float32) ** 2
    min_square_m2 = np.float32(_OWN**2 * np.prod(grid.cell_m))
    mean = np.empty(len(place_m))
    for row, p in enumerate(probability):
        square_m2 = np.maximum(y[row, :, None] + x[row], min_square_m2)
        mean[row] = p @ np.sqrt(square_m2).reshape(-1)
    return mean


def compute_probability_within(
    probability: Float32Array, grid: PlaceGrid, place_m: FloatArray, hit_radius_m: float
) -> FloatArray:
    """Mass (k,) of beliefs (k, G) within hit_radius_m of the cells of places (k, 2)."""
    share = compute_disc_shares(grid, hit_radius_m)
    maps = probability.reshape(-1, grid.ny, grid.nx)
    row, column = np.divmod(grid.find_cells(place_m), grid.nx)
    total = np.zeros(len(maps))
    for dy, dx in np.argwhere(share > 0).tolist():
        y = row + dy - share.shape[0] // 2
        x = column + dx - share.shape[1] // 2
        is_row = (y >= 0) & (y < grid.ny)
        is_column = (x >= 0) & (x < grid.nx)
        inside = np.flatnonzero(is_row & is_column)
        mass = maps[inside, y[inside], x[inside]]
        total[inside] += share[dy, dx] * mass
    return total


def is_in_credible_area(
    probability: Float32Array, grid: PlaceGrid, place_m: FloatArray, min_probability: FloatArray
) -> BoolArray:
    """Whether places (k, 2) lie in cells of at least this probability (k,)."""
    inside = grid.area.contains(place_m)
    inside_m = np.where(inside[:, None], place_m, grid.area.low_m)
    cell_probability = probability[np.arange(len(place_m)), grid.find_cells(inside_m)]
    return inside & (cell_probability >= min_probability)


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

    def add_round(
        self, round_: int, ue: IntArray, place_m: FloatArray, point_m: FloatArray
    ) -> Memory:
        """With answers (k, 2), and estimates alone (k, 2), of UEs (k,) ascending in a round; a
        second look at it does not count.
        """
        if round_ == self.round:
            return self
        rows, previous = match_successive(round_, ue, self.round, self.ue)
        next_m = point_m[rows]
        answer_m = measure_lengths(next_m - self.place_m[previous])
        estimate_m = measure_lengths(next_m - self.point_m[previous])
        term_m = answer_m - estimate_m
        term_m = term_m[np.isfinite(term_m)]
        total_m = self.total_m + term_m.sum()
        square_m2 = self.square_m2 + (term_m**2).sum()
        return Memory(self.count + len(term_m), total_m, square_m2, round_, ue, place_m, point_m)

    @property
    def is_misleading(self) -> bool:
        """Whether estimates alone tell the next ones better."""
        if self.count < _FEWEST:
            return False
        mean_m = self.total_m / self.count
        variance_m2 = max(self.square_m2 / self.count - mean_m**2, 0.0)
        return mean_m > np.sqrt(variance_m2 / self.count)

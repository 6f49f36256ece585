r"""A hidden Markov chain over the places of a grid: motion, filter, smoother, and what they learn
of motion.

**Motion** from round to round: stay, move by a Gaussian, or jump,

    K = w_0 I + sum_k w_k G_k + w_J 1 pi^T,

with weights w of each UE, which sum to 1. G_k(i, j) is the integral over cell j of a Gaussian of
sigma_k per axis around the middle of cell i, of a UE that is known to end inside the area: rows sum
to 1 at the border as well. pi is where jumps end. G_k is a product of a matrix along y and one
along x. That of a wide Gaussian has few singular values that count, so that two thin products
replace one. Maps are (n_ue, ny, nx), float32.

**Habits** are how one UE moves: frequencies of the components, and the places to which it jumps
back. With n the expected uses of each component, and w^0 the weights of a UE of which nothing is
known,

    w = (n + m_0 w^0) / (|n| + m_0).

Borrowed weights alone made tracks worse than the estimates themselves, so that m_0 is small. A UE
with places of its own jumps to

    0.6 o_part + 0.3 o + 0.1 pi,

with o_part the mean of what was believed of the UE in rounds of this part of the day, o that of all
parts, and pi the prior of jumps, which takes the place of a mean that has no round yet. Parts are
quarters of a day, on weekdays and on weekends.

**Beliefs**, rescaled in every step:

    a_t(j) ~ e_t(j) sum_i a_{t-1}(i) K(i, j)                     (filter)
    b_t(i) ~ sum_j K(i, j) e_{t+1}(j) b_{t+1}(j)                 (backwards)
    p_t(i) ~ a_t(i) b_t(i)                                       (smoother)

w_k <a_{t-1}, K_k (e_t b_t)> / <a_{t-1}, K (e_t b_t)> is the probability that component k of motion
brought the UE here. With it weights are learnt, in the filter round by round with b = 1, and from
the whole history in passes of expectation and maximisation (EM); with the mean of p_t by part of
the day the places of a UE. UEs are worked through in groups, so that the maps of all looks at a
group fit into memory: 4 S G bytes per UE, of S looks at G places. [Rabiner 1989, Eqs. 19-27, and
91-95 for the scaling]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain

import numpy as np

from fl.tracking.error_model import Emission, ErrorModel
from fl.tracking.history import History
from fl.tracking.place_grid import PlaceGrid
from netsim.columns import Columns, divide_or_zero, frozen, split_blocks
from netsim.rng import ndtr
from netsim.units import Float32Array, FloatArray, IntArray

SIGMA_M = (150.0, 400.0, 1000.0, 2500.0)
CLASSES = 48
PARTS = 8
_BORROWED = 8.0  # m_0, rounds
_PART = 0.6
_ALL = 0.3
_STAY = 0.5
_JUMP = 0.1  # of an unknown UE; the Gaussians share the rest
_UNSEEN = 0.1  # of the weights of shadow UEs
_STEPS = 60
_NARROW = 1.0 / 3.0  # of a cell: nothing that a cell tells from staying
_NOTHING = 1e-5  # of the largest singular value: left out
_THIN = 0.6  # of the cells: with a larger rank, the whole matrix is faster
# a probability beside which none is smaller: without it no product is so small that it is slow
_NEVER = 1e-20
_NUMBERS = 40_000_000  # of the maps of a group: 160 MB
_AT_ONCE = 160_000  # numbers of the maps of one look at a group: temporary ones stay in the cache
_PASSES = 2  # in which weights and places are learnt
_LEARNT_ON = 50  # cells per side, at most

Maps = Float32Array
"""one number per UE and place: (n_ue, ny, nx)"""
Factors = list[tuple[Float32Array, Float32Array]]
"""matrices along y and x, of which one pair after the other is applied"""


@frozen
class RoundOfMotion:
    """One round of motion: weight (n_ue, K + 2) of the components, and target (n_ue or 1, ny, nx)
    of jumps.
    """

    weight: FloatArray
    target: Maps


@frozen
class Motion:
    """The components of motion on a grid; sigma_m (K,) of the Gaussians."""

    grid: PlaceGrid
    sigma_m: FloatArray

    @staticmethod
    @lru_cache(maxsize=8)
    def from_max_speed(grid: PlaceGrid, max_speed_mps: float, round_s: float) -> Motion:
        """Gaussians for rounds of round_s: none wider than half the way at the largest speed, none
        within a cell.
        """
        widest_m = max_speed_mps * round_s / 2 if np.isfinite(round_s) else np.inf
        sigma_m = np.unique(np.minimum(SIGMA_M, widest_m))
        return Motion(grid, sigma_m[sigma_m >= _NARROW * grid.cell_m.max()])

    def move_forward(
        self, p: Maps, leg: RoundOfMotion, e: Maps | None = None
    ) -> tuple[Maps, FloatArray]:
        """p K: where UEs with maps p are a round later; and the share of each component in coming
        to e, if any.
        """
        jumped = sum_maps(p)[:, None, None] * leg.target
        moved = (_apply_gaussian(gaussian, p) for gaussian in self._gaussians)
        return _mix_components(p, moved, jumped, leg.weight, e)

    def move_backward(
        self, v: Maps, leg: RoundOfMotion, p: Maps | None = None
    ) -> tuple[Maps, FloatArray]:
        """K v, the adjoint of `move_forward`; and the share of each component in coming from p, if
        any.
        """
        jumped = compute_inner_products(v, leg.target)[:, None, None]
        moved = (_apply_adjoint(gaussian, v) for gaussian in self._gaussians)
        return _mix_components(v, moved, jumped, leg.weight, p)

    @cached_property
    def _gaussians(self) -> list[Factors]:
        return [_factorise(_build_axis_matrices(self.grid, sigma_m)) for sigma_m in self.sigma_m]


def _apply_gaussian(gaussian: Factors, p: Maps) -> Maps:
    """p G."""
    for y, x in gaussian:
        p = y.T @ (p @ x)
    return p


def _apply_adjoint(gaussian: Factors, v: Maps) -> Maps:
    """G v."""
    for y, x in reversed(gaussian):
        v = y @ (v @ x.T)
    return v


def _mix_components(
    stayed: Maps, moved: Iterable[Maps], jumped: Maps, weight: FloatArray, target: Maps | None
) -> tuple[Maps, FloatArray]:
    """Sum of parts by weight (n_ue, K + 2), as large as those that stayed; and the share (n_ue, K +
    2) of each component in coming to (or from) other maps: <w_k part_k, other> / <sum, other>, 0
    where that is 0 or there are none.
    """
    mixed = np.zeros_like(stayed)
    room = np.empty_like(stayed)
    share = np.zeros(weight.shape)
    for k, part in enumerate(chain([stayed], moved, [jumped])):
        mixed += np.multiply(weight[:, k, None, None].astype(np.float32), part, out=room)
        if target is not None:
            share[:, k] = compute_inner_products(room, target)
    return np.maximum(mixed, 0, out=mixed), divide_or_zero(share, share.sum(axis=1, keepdims=True))


def _build_axis_matrices(grid: PlaceGrid, sigma_m: float) -> list[FloatArray]:
    """Along y and x, the probability (n, n) of coming from the middle of a cell into each by a
    Gaussian.
    """
    matrices = []
    for n, side_m in zip((grid.ny, grid.nx), grid.cell_m[::-1], strict=True):
        number = np.arange(n)
        away = np.abs(number[:, None] - number)
        sigma = sigma_m / side_m
        upper = ndtr((0.5 - away) / sigma)
        mass = upper - ndtr((-0.5 - away) / sigma)
        mass[mass < _NEVER] = 0.0
        matrices.append(mass / mass.sum(axis=1, keepdims=True))
    return matrices


def _factorise(axes: list[FloatArray]) -> Factors:
    """Matrices along y and x as they are, or as two thin ones each, whose product they are."""
    decompositions = [np.linalg.svd(axis) for axis in axes]
    ranks = [(s > _NOTHING * s[0]).sum() for _, s, _ in decompositions]
    pairs = [axes]
    if sum(ranks) <= _THIN * sum(map(len, axes)):
        left = []
        right = []
        for (u, s, v), rank in zip(decompositions, ranks, strict=True):
            left.append(u[:, :rank] * s[:rank])
            right.append(v[:rank])
        pairs = [left, right]
    return [(y.astype(np.float32), x.astype(np.float32)) for y, x in pairs]


def blur_maps(p: Float32Array, grid: PlaceGrid, sigma_m: float) -> Float32Array:
    """Maps (n, G) of a place that was displaced by a Gaussian of sigma_m per axis, and is inside
    the area.
    """
    if sigma_m <= 0:
        return p
    y, x = _build_axis_matrices(grid, sigma_m)
    factors = [(y.astype(np.float32), x.astype(np.float32))]
    return _apply_gaussian(factors, p.reshape(-1, grid.ny, grid.nx)).reshape(p.shape)


def compute_inner_products(p: Maps, q: Maps) -> Float32Array:
    """<p_u, q_u> (n,) of maps (n, ny, nx), each alone, whatever maps stand beside it; one q may
    serve all.
    """
    cells = p.shape[1] * p.shape[2]
    return (p.reshape(-1, 1, cells) @ q.reshape(-1, cells, 1))[:, 0, 0]


def sum_maps(p: Maps) -> Float32Array:
    """Sums (n,) of maps (n, ny, nx)."""
    return compute_inner_products(p, np.ones((1, *p.shape[1:]), np.float32))


def normalise_maps(p: Maps) -> Maps:
    """Maps (n, ny, nx) that sum to 1, in place."""
    p *= (1 / sum_maps(p))[:, None, None]
    return p


def resample_maps(p: Maps, grid: PlaceGrid) -> Maps:
    """Maps (..., ny, nx) on another grid of the same area: the mass of a cell is spread evenly over
    it.
    """
    ny, nx = p.shape[-2:]
    if (ny, nx) == (grid.ny, grid.nx):
        return p
    return _compute_overlap(ny, grid.ny).T @ (p @ _compute_overlap(nx, grid.nx))


def _compute_overlap(n: int, m: int) -> Float32Array:
    """Share (n, m) of each of n equal cells of an axis that lies in each of m."""
    low = np.arange(n)[:, None] / n
    start = np.arange(m) / m
    end = np.minimum(low + 1 / n, start + 1 / m)
    inside = end - np.maximum(low, start)
    return np.asarray(n * np.maximum(inside, 0.0), dtype=np.float32)


@frozen
class Habits(Columns):
    """Habits of UEs (n_ue,). count (n_ue, K + 2) : expected uses of each component of motion.
    borrowed (n_ue, K + 2) : the weights of a UE of which nothing is known. beliefs (n_ue, P, ny,
    nx) : sums by part of the day; P = 0 where UEs have no places of their own. Those of a slice
    stay parts of the others.
    """

    count: FloatArray
    borrowed: FloatArray
    beliefs: Maps

    @classmethod
    def from_weights(
        cls, n_ue: int, borrowed: FloatArray, grid: PlaceGrid, *, has_places: bool
    ) -> Habits:
        """Before anything is learnt, of borrowed weights (K + 2,)."""
        n_parts = PARTS if has_places else 0
        beliefs = np.zeros((n_ue, n_parts, grid.ny, grid.nx), np.float32)
        return cls(np.zeros((n_ue, len(borrowed))), np.tile(borrowed, (n_ue, 1)), beliefs)

    @classmethod
    def empty(cls) -> Habits:
        """Of no UE."""
        nothing = np.zeros((0, 0))
        return cls(nothing, nothing, np.zeros((0, 0, 0, 0), np.float32))

    @property
    def has_places(self) -> bool:
        """Whether UEs jump to places of their own."""
        return bool(self.beliefs.shape[1])

    def compute_motion(self, hour_class: int, prior: Maps) -> RoundOfMotion:
        """Motion in a round of a class of hours; prior (1, ny, nx) of jumps."""
        if not self.has_places:
            return RoundOfMotion(self.weight, prior)
        part = _average_or_prior(self.beliefs[:, _find_part_of_day(hour_class)], prior)
        overall = _average_or_prior(self.beliefs.sum(axis=1), prior)
        mixed = np.float32(_PART) * part + np.float32(_ALL) * overall
        mixed += np.float32(1 - _PART - _ALL) * prior
        return RoundOfMotion(self.weight, mixed)

    @property
    def weight(self) -> FloatArray:
        """Weights (n_ue, K + 2)."""
        n_uses = self.count.sum(axis=1, keepdims=True)
        return (self.count + _BORROWED * self.borrowed) / (n_uses + _BORROWED)

    def add_belief(self, hour_class: int, p: Maps) -> None:
        """Add what is believed (n_ue, ny, nx) of a round in a class of hours."""
        if self.has_places:
            self.beliefs[:, _find_part_of_day(hour_class)] += p

    def copy_unlearnt(self) -> Habits:
        """The same UEs, before anything is learnt."""
        return replace(self, count=np.zeros_like(self.count), beliefs=np.zeros_like(self.beliefs))

    def resample(self, grid: PlaceGrid) -> Habits:
        """On another grid of the same area."""
        return replace(self, beliefs=resample_maps(self.beliefs, grid))


def _find_part_of_day(hour_class: int) -> int:
    """Quarter of the day, and 4 more on weekends, of a class of hours."""
    return hour_class * PARTS // CLASSES


def _average_or_prior(total: Maps, prior: Maps) -> Maps:
    """Maps (n, ny, nx) that sum to 1; the prior for one that is 0."""
    mass = total.sum(axis=(1, 2), keepdims=True)
    return np.where(mass > 0, total / np.maximum(mass, np.float32(1e-30)), prior)


def assume_weights(sigma_m: FloatArray) -> FloatArray:
    """Weights (K + 2,) that are assumed before any motion was observed: in half of the rounds UEs
    stay.
    """
    moving = 1 - _STAY - _JUMP
    gaussians = np.full(len(sigma_m), moving / max(len(sigma_m), 1))
    weight = np.concatenate([[_STAY], gaussians, [_JUMP]])
    return weight / weight.sum()


def fit_weights(
    displacement_m: FloatArray, sigma_m: FloatArray, cell_m: float, side_m: FloatArray
) -> FloatArray:
    """Weights (K + 2,) most likely for displacements (n,) between successive rounds, by EM.

    A UE that stays moves within a cell; one that jumps ends anywhere in the area. A tenth is left
    to what is assumed of a UE of which nothing is known, since real UEs move otherwise.
    """
    start = assume_weights(sigma_m)
    if not len(displacement_m):
        return start
    # two places in a cell: cell^2 / 6 per axis
    variance_m2 = np.append(cell_m**2 / 6.0, sigma_m**2)
    square_m2 = displacement_m[:, None] ** 2
    density = np.exp(-square_m2 / (2 * variance_m2)) / (2 * np.pi * variance_m2)
    density = np.column_stack([density, np.full(len(density), 1.0 / np.prod(side_m))])
    weight = start
    for _ in range(_STEPS):
        share = density * weight
        weight = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    return (1 - _UNSEEN) * weight + _UNSEEN * start


@frozen
class LooksAtGroup:
    """A few UEs at all looks: emissions, look by look; first (n_ue,) look at each; the legs before
    each look, and their classes of hours.
    """

    emission: Emission
    first: IntArray
    classes: list[list[int]]
    motions: dict[int, RoundOfMotion]

    def compute_likelihood_ratio(self, look: int) -> Maps:
        """e (n_ue, ny, nx) of a look."""
        n_ue = len(self.first)
        return self.emission.select(slice(look * n_ue, (look + 1) * n_ue)).multiply_out()


@dataclass(frozen=True)
class Chain:
    """Motion, prior (1, ny, nx) of where UEs begin and jumps end, and the length of rounds."""

    motion: Motion
    prior: Maps
    round_s: float

    @property
    def grid(self) -> PlaceGrid:
        """The places."""
        return self.motion.grid

    def coarsen(self) -> Chain:
        """On a grid of at most 50 cells per side, on which motion is learnt as well, in a fraction
        of the time.
        """
        grid = self.grid
        if max(grid.nx, grid.ny) <= _LEARNT_ON:
            return self
        coarse = PlaceGrid(grid.area, min(grid.nx, _LEARNT_ON), min(grid.ny, _LEARNT_ON))
        motion = Motion(coarse, self.motion.sigma_m)
        return replace(self, motion=motion, prior=resample_maps(self.prior, coarse))

    def filter_beliefs(
        self, p: Maps, habits: Habits, classes: list[int], emission: Emission
    ) -> tuple[Maps, FloatArray]:
        """Beliefs (n_ue, ny, nx) after rounds of motion in these classes of hours and one look; and
        the uses (n_ue, K + 2) of the components, where exactly one round has passed, else 0.
        """
        new = np.empty_like(p)
        uses = np.zeros((len(p), len(self.motion.sigma_m) + 2))
        for rows in _group_ues(len(p), len(self.grid), 1):
            belief = p[rows]
            group = habits.select(rows)
            e = emission.select(rows).multiply_out()
            target = e if len(classes) == 1 else None
            for hour_class in classes:
                motion = group.compute_motion(hour_class, self.prior)
                belief, uses[rows] = self.motion.move_forward(belief, motion, target)
            new[rows] = normalise_maps(belief * e)
        return new, uses

    def smooth_beliefs(
        self, history: History, ue: IntArray, habits: Habits, passes: int = _PASSES
    ) -> Iterator[tuple[IntArray, Maps]]:
        """Beliefs (S, k, ny, nx) after every look about groups of UEs (k,), rows of those asked
        for: ue (n,) ascending.

        habits : where learning begins; passes : in which it is learnt again.
        """
        if passes:
            habits = self.learn_habits(history, ue, habits, passes).resample(self.grid)
        number = np.arange(len(ue))
        for rows in _group_ues(len(ue), len(self.grid), len(history)):
            group = habits.select(rows)
            looks = self._collect_looks(history, ue[rows], group)
            if passes and group.has_places:  # places need all cells
                places = group.copy_unlearnt()
                self._pass_both_ways(looks, places)
                learnt = replace(group, beliefs=places.beliefs)
                looks = replace(looks, motions=self._compute_motions(looks.classes, learnt))
            yield number[rows], self._pass_both_ways(looks, None)

    def learn_habits(
        self, history: History, ue: IntArray, habits: Habits, passes: int = _PASSES
    ) -> Habits:
        """Motion, and places on a coarser grid, as all looks of the history tell them (EM)."""
        coarse = self.coarsen()
        learnt = habits.resample(coarse.grid)
        for _ in range(passes):
            new = learnt.copy_unlearnt()
            for rows in _group_ues(len(ue), len(coarse.grid), len(history)):
                looks = coarse._collect_looks(history, ue[rows], learnt.select(rows))
                coarse._pass_both_ways(looks, new.select(rows))
            learnt = new
        return learnt

    def _collect_looks(self, history: History, ue: IntArray, habits: Habits) -> LooksAtGroup:
        """All looks at UEs (n,) ascending that move by these habits."""
        z_m, first = history.select_estimates(ue)
        models = ErrorModel.stack_models(history.looks.errors).remove_persistent_error()
        look = np.repeat(np.arange(len(history)), len(ue))
        of_look = models.select(look)
        classes = [history.classify_steps(look, self.round_s) for look in range(len(history))]
        flat_m = z_m.reshape(-1, *z_m.shape[2:])
        emission = of_look.compute_emission(flat_m, self.grid)
        return LooksAtGroup(emission, first, classes, self._compute_motions(classes, habits))

    def _compute_motions(
        self, classes: list[list[int]], habits: Habits
    ) -> dict[int, RoundOfMotion]:
        return {
            hour_class: habits.compute_motion(hour_class, self.prior)
            for hour_class in set(chain(*classes))
        }

    def _pass_both_ways(self, looks: LooksAtGroup, new: Habits | None) -> Maps:
        """One pass forward and backward: the smoother's beliefs (S, n_ue, ny, nx); new : where uses
        and beliefs are added, if any; a pass that learns motion alone leaves the filter's beliefs.
        """
        shape = (len(looks.classes), len(looks.first), self.grid.ny, self.grid.nx)
        p = np.empty(shape, np.float32)
        belief = np.repeat(self.prior, len(looks.first), axis=0)
        for t, classes in enumerate(looks.classes):
            for hour_class in classes:
                belief, _ = self.motion.move_forward(belief, looks.motions[hour_class])
            belief[looks.first >= t] = self.prior
            likelihood = looks.compute_likelihood_ratio(t)
            belief = normalise_maps(np.multiply(belief, likelihood, out=p[t]))
        v = np.ones_like(p[0])
        for t in range(len(p) - 1, -1, -1):
            classes = looks.classes[t]
            if new is None or new.has_places:
                p[t] = normalise_maps(p[t] * v)
            if new is not None and classes:
                is_followed = (looks.first <= t)[:, None, None]
                new.add_belief(classes[-1], np.where(is_followed, p[t], np.float32(0.0)))
            if t == 0:
                break
            v *= looks.compute_likelihood_ratio(t)
            before = p[t - 1] if new is not None and len(classes) == 1 else None
            was_followed = (looks.first < t)[:, None]
            for hour_class in reversed(classes):
                v, uses = self.motion.move_backward(v, looks.motions[hour_class], before)
                if new is not None:
                    new.count[:] += np.where(was_followed, uses, 0.0)
            v = normalise_maps(v)
        return p


def _group_ues(n_ue: int, places: int, looks: int) -> list[slice]:
    """UEs in groups whose maps of all looks fit into memory, and those of one look into the
    cache.
    """
    n_numbers = _NUMBERS // max(looks, 1)
    return split_blocks(n_ue, max(min(_AT_ONCE, n_numbers) // places, 1))

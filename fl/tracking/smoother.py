r"""The smoother: what is known of where UEs were, from all estimates, earlier and later ones.

    b_t(i) = sum_j K(i, j) e_{t+1}(j) b_{t+1}(j) / s_{t+1},     p_t ~ a_t b_t,

with a_t of the filter. With <a_{t-1}, w_k K_k (e_t b_t)> the expected uses of the components of motion, their weights
are learnt from the whole history (EM), and with the mean of p_t by part of the day the places of a UE.

UEs are worked through in groups, so that the maps of all looks at a group fit into memory: 4 S G bytes a UE, of S looks
at G places.

[Rabiner 1989, Eqs. 24-27 and 95]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fl.tracking.belief import Belief
from fl.tracking.emission import Emission, log_ratio
from fl.tracking.error_model import ErrorModels
from fl.tracking.filter import RoundOfMotion, blocks
from fl.tracking.habits import Habits
from fl.tracking.history import History
from fl.tracking.maps import Maps, multiply, scale_to, weighed
from fl.tracking.motion import Motion, resampled
from fl.tracking.own_places import OwnPlaces
from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen
from netsim.units import BoolArray, FloatArray, IntArray

_NUMBERS = 40_000_000  # of the maps of a group: 160 MB
_LEARNS, _TELLS = 40_000, 80_000  # of a block of maps, in passes that learn and in the one that tells
_PASSES = 2  # in which weights and places are learnt, before the last
_LEARNT_ON = 50  # cells a side, at most


@dataclass(frozen=True)
class Chain:
    """Prior knowledge of the smoother: motion, prior (1, ny, nx), and the length of rounds."""

    motion: Motion
    prior: Maps
    round_s: float

    def coarser(self) -> Chain:
        """On a grid of at most 50 cells a side, on which motion is learnt as well, in a fraction of the time."""
        grid = self.motion.grid
        if max(grid.nx, grid.ny) <= _LEARNT_ON:
            return self
        coarse = PlaceGrid(grid.area, min(grid.nx, _LEARNT_ON), min(grid.ny, _LEARNT_ON))
        return replace(self, motion=Motion(coarse, self.motion.sigma_m), prior=resampled(self.prior, coarse))


@frozen
class Passes:
    """p (S, n_ue, ny, nx) : after every look, what the smoother believes, empty where it only learns; log_likelihood
    (n_ue,) against estimates that say nothing; habits, own : as learnt from all looks.
    """

    p: Maps
    log_likelihood: FloatArray
    habits: Habits
    own: OwnPlaces


def smoothed(
    chain: Chain, history: History, ue: IntArray, habits: Habits, own: OwnPlaces, passes: int = _PASSES
) -> Iterator[Belief]:
    """Beliefs after every round of UEs (n,) ascending that had an estimate until then, in order for each UE.

    habits, own : where learning begins, and which places UEs have; passes : in which both are learnt again.
    """
    grid, last = chain.motion.grid, history.last_looks()
    habits, own = learnt_habits(chain, history, ue, habits, own, passes)
    size = max(min(_NUMBERS // max(len(history) * len(grid), 1), len(ue)), 1)
    room = np.empty(len(history) * size * len(grid), dtype=np.float32)  # of all groups: fresh memory is slow
    for at in range(0, len(ue), size):
        some = np.arange(at, min(at + size, len(ue)))
        known = history.of(ue[some])[1]
        maps = _told(chain, history, ue[some], habits.of(some), own.of(some), room, places=passes > 0).p
        for look in last.tolist():
            there = known <= look
            yield Belief(
                int(history.round[look]), float(history.time_s[look]), ue[some][there], grid,
                maps[look, there].reshape(-1, len(grid)), chain.prior.reshape(-1),
            )  # fmt: skip


def learnt(chain: Chain, history: History, ue: IntArray, habits: Habits, own: OwnPlaces, passes: int) -> Passes:
    """Forward and backward passes: some that learn, each from the one before, then the one that tells."""
    room = np.empty(len(history) * len(ue) * len(chain.motion.grid), dtype=np.float32)
    habits, own = learnt_habits(chain, history, ue, habits, own, passes)
    return _told(chain, history, ue, habits, own, room, places=passes > 0)


def _told(
    chain: Chain, history: History, ue: IntArray, habits: Habits, own: OwnPlaces, room: Maps, *, places: bool
) -> Passes:
    """The pass that tells, after one that learns places, which need all cells; room : for the maps, left there."""
    own = own.resampled(chain.motion.grid)
    if places and own.occupancy:
        own = _passed(chain, history, ue, habits, own, room, learn=True).own
    return _passed(chain, history, ue, habits, own, room, learn=False)


def learnt_habits(
    chain: Chain,
    history: History,
    ue: IntArray,
    habits: Habits,
    own: OwnPlaces,
    passes: int = _PASSES,
) -> tuple[Habits, OwnPlaces]:
    """Motion, and places on a coarser grid, as all looks of the history tell them (EM): the filter, too, may know
    them, from its past.
    """
    coarse = chain.coarser()
    cells = len(coarse.motion.grid)
    most = max((len(range(len(ue))[rows]) for rows in _learners(history, len(ue), cells)), default=0)
    room = np.empty(len(history) * most * cells, dtype=np.float32)
    for _ in range(passes):
        found = _passed(coarse, history, ue, habits, own.resampled(coarse.motion.grid), room, learn=True)
        habits, own = found.habits, found.own
    return habits, own


def _passed(
    chain: Chain, history: History, ue: IntArray, habits: Habits, own: OwnPlaces, room: Maps, learn: bool
) -> Passes:
    """One pass of all UEs (n,), a few at a time; of one that learns, what it has learnt is kept, not its maps."""
    grid, n = chain.motion.grid, len(ue)
    p = _maps(room, 0 if learn else len(history), n, grid)
    log_likelihood, every = np.zeros(n), np.arange(n)
    new, places = habits.forgotten() if learn else habits, own.forgotten() if learn else own
    classes = history.all_classes(chain.round_s)
    for rows in _learners(history, n, len(grid)) if learn else blocks(n, len(grid), _TELLS):
        some = every[rows]
        looks = _LooksAtUes.of(history.models, classes, grid, *history.of(ue[rows]))
        maps = _maps(room, len(history), len(some), grid) if learn else p[:, rows]
        found = _pass(chain, looks, habits.of(some), own.of(some), maps, learn)
        log_likelihood[rows] = found.log_likelihood
        if not learn:
            continue
        new.count[rows] = found.habits.count
        for whole, part in zip(places.occupancy, found.own.occupancy, strict=True):
            whole[rows] = part
    return Passes(p, log_likelihood, new, places)


def _learners(history: History, n: int, cells: int) -> list[slice]:
    """Blocks of n UEs whose maps of all looks fit into memory."""
    return blocks(n, cells, min(_LEARNS, _NUMBERS // max(len(history), 1)))


def _maps(room: Maps, looks: int, n: int, grid: PlaceGrid) -> Maps:
    """Maps (looks, n, ny, nx) in the first numbers of a room."""
    return room[: looks * n * len(grid)].reshape(looks, n, grid.ny, grid.nx)


@frozen
class _LooksAtUes:
    """A few UEs at all looks: emissions look by look; first (n_ue,) look at each; classes of the rounds before each."""

    emission: Emission
    first: IntArray
    classes: list[list[int]]

    def ignored(self, bad: BoolArray) -> _LooksAtUes:
        """Without some of the estimates (S, n_ue)."""
        return replace(self, emission=self.emission.ignored(bad.reshape(-1)))

    @classmethod
    def of(
        cls, errors: ErrorModels, classes: list[list[int]], grid: PlaceGrid, z_m: FloatArray, first: IntArray
    ) -> _LooksAtUes:
        """Emissions of estimates (S, n_ue, R, 2), each look by its own error model."""
        which = np.repeat(np.arange(len(z_m)), z_m.shape[1])
        return cls(Emission.of_models(errors, which, z_m.reshape(-1, *z_m.shape[2:]), grid), first, classes)

    def weigh(self, look: int, p: Maps, out: Maps) -> Maps:
        """Writes p e / sum(p e) of a look to out; that sum (n_ue,)."""
        rows = slice(look * len(self.first), (look + 1) * len(self.first))
        e = self.emission
        return weighed(out, p, e.fy[rows], e.fx[rows], e.floor[rows])


def _pass(chain: Chain, looks: _LooksAtUes, habits: Habits, own: OwnPlaces, p: Maps, learn: bool) -> Passes:
    """One forward and backward pass, which leaves beliefs in p (S, n_ue, ny, nx), unless it learns motion alone."""
    classes = sorted({c for some in looks.classes for c in some})
    legs = {c: RoundOfMotion(habits.weight(c), own.target(c, chain.prior)) for c in classes}
    log_likelihood, bad = _forward(chain, looks, legs, p)
    believes = not learn or bool(own.occupancy)
    back = _backward(chain, looks.ignored(bad), legs, p, learn, believes)
    if not learn:
        for _ in back:
            pass
        return Passes(p, log_likelihood, habits, own)
    new, places = habits.forgotten(), own.forgotten()
    for t, share in back:
        if not looks.classes[t]:
            continue
        c, seen = looks.classes[t][-1], looks.first <= t
        if believes:
            places = places.plus(c, np.where(seen[:, None, None], p[t], np.float32(0.0)))
        if len(looks.classes[t]) == 1:
            new = new.plus(c, np.where((looks.first < t)[:, None], share, 0.0))
    return Passes(p, log_likelihood, new, places)


def _forward(chain: Chain, looks: _LooksAtUes, legs: dict[int, RoundOfMotion], p: Maps) -> tuple[FloatArray, BoolArray]:
    """Writes a_t to p (S, n_ue, ny, nx); the log-likelihood (n_ue,), and which estimates (S, n_ue) are impossible."""
    n_ue = len(looks.first)
    total, log_likelihood = np.empty((len(p), n_ue), dtype=np.float32), np.zeros(n_ue)
    some = np.repeat(chain.prior, n_ue, axis=0)
    for t, classes in enumerate(looks.classes):
        for c in classes:
            some = chain.motion.step(some, chain.motion.parts(some), legs[c].weight, legs[c].target)
        if t <= looks.first.max():
            some[looks.first >= t] = chain.prior  # no UE is followed before the first look
        total[t] = looks.weigh(t, some, p[t])
        some = p[t]
    each, bad = log_ratio(total, looks.emission.log_top.reshape(total.shape))
    for log in each:
        log_likelihood += log
    return log_likelihood, bad


def _backward(
    chain: Chain, looks: _LooksAtUes, legs: dict[int, RoundOfMotion], p: Maps, learn: bool, believes: bool
) -> Iterator[tuple[int, FloatArray]]:
    """Makes a_t in p (S, n_ue, ny, nx) the smoother's belief, with `believes`, from the last look to the first.

    Yields each look when its belief stands, with the uses (n_ue, K + 2) of the components on the way there:
    0 without `learn`, or where not exactly one round has passed.
    """
    motion, v = chain.motion, np.ones_like(p[0])
    seen = np.empty_like(v)
    for t in range(len(p) - 1, -1, -1):
        if believes:
            multiply(p[t], v)
        share = np.zeros((len(v), len(motion.sigma_m) + 2))
        if t > 0:
            looks.weigh(t, v, seen)
            v = seen
            for c in reversed(looks.classes[t]):
                uses = learn and len(looks.classes[t]) == 1
                v, each = motion.back(v, legs[c].weight, legs[c].target, p[t - 1] if uses else v[:0])
                if uses:
                    share = each / each.sum(axis=1, keepdims=True)
            if v is seen:  # no round has passed
                v = seen.copy()
            scale_to(v, p[t - 1])  # so that <a, b> = 1
        yield t, share

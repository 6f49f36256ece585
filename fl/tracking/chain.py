r"""A hidden Markov chain over the places of a grid: the filter, the smoother, and what both learn of motion.

    a_t(j) ~ e_t(j) sum_i a_{t-1}(i) K(i, j)                     (filter)
    b_t(i) ~ sum_j K(i, j) e_{t+1}(j) b_{t+1}(j)                 (backwards)
    p_t(i) ~ a_t(i) b_t(i)                                       (smoother)

in float32, rescaled in every step. w_k <a_{t-1}, K_k (e_t b_t)> / <a_{t-1}, K (e_t b_t)> is the probability that
component k of motion brought the UE here. With it weights are learnt, in the filter round by round with b = 1, and from
the whole history in passes of expectation and maximisation (EM); with the mean of p_t by part of the day the places of
a UE. [Rabiner 1989, Eqs. 19-27, and 91-95 for the scaling]

UEs are worked through in groups, so that the maps of all looks at a group fit into memory: 4 S G bytes per UE, of S
looks at G places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fl.tracking.error_model import Emission, ErrorModel
from fl.tracking.history import History
from fl.tracking.motion import Habits, Maps, Motion, RoundOfMotion, resampled, sums
from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen
from netsim.units import FloatArray, IntArray

_NUMBERS = 40_000_000  # of the maps of a group: 160 MB
_AT_ONCE = 160_000  # numbers of the maps of one look at a group: temporary ones stay in the cache
_PASSES = 2  # in which weights and places are learnt
_LEARNT_ON = 50  # cells per side, at most


@frozen
class LooksAtGroup:
    """A few UEs at all looks: emissions, look by look; first (n_ue,) look at each; the legs before each look, and their
    classes of hours.
    """

    emission: Emission
    first: IntArray
    classes: list[list[int]]
    legs: dict[int, RoundOfMotion]

    def likelihood(self, look: int) -> Maps:
        """e (n_ue, ny, nx) of a look."""
        n_ue = len(self.first)
        return self.emission.select(slice(look * n_ue, (look + 1) * n_ue)).maps()


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

    def coarser(self) -> Chain:
        """On a grid of at most 50 cells per side, on which motion is learnt as well, in a fraction of the time."""
        grid = self.grid
        if max(grid.nx, grid.ny) <= _LEARNT_ON:
            return self
        coarse = PlaceGrid(grid.area, min(grid.nx, _LEARNT_ON), min(grid.ny, _LEARNT_ON))
        return replace(self, motion=Motion(coarse, self.motion.sigma_m), prior=resampled(self.prior, coarse))

    def filtered(self, p: Maps, habits: Habits, classes: list[int], emission: Emission) -> tuple[Maps, FloatArray]:
        """Beliefs (n_ue, ny, nx) after rounds of motion in these classes of hours and one look; and the uses
        (n_ue, K + 2) of the components, where exactly one round has passed, else 0.
        """
        new = np.empty_like(p)
        uses = np.zeros((len(p), len(self.motion.sigma_m) + 2))
        for rows in _groups(len(p), len(self.grid), 1):
            some = p[rows]
            own = habits.of(rows)
            e = emission.select(rows).maps()
            for at in classes:
                leg = own.leg(at, self.prior)
                some, uses[rows] = self.motion.step(some, leg, e if len(classes) == 1 else None)
            new[rows] = scaled(some * e)
        return new, uses

    def smoothed(
        self, history: History, ue: IntArray, habits: Habits, passes: int = _PASSES
    ) -> Iterator[tuple[IntArray, Maps]]:
        """Beliefs (S, k, ny, nx) after every look about groups of UEs (k,), rows of those asked for: ue (n,) ascending.

        habits : where learning begins; passes : in which it is learnt again.
        """
        if passes:
            habits = self.learnt(history, ue, habits, passes).resampled(self.grid)
        for rows in _groups(len(ue), len(self.grid), len(history)):
            own = habits.of(rows)
            looks = self._looks(history, ue[rows], own)
            if passes and own.own_places:  # places need all cells
                places = own.forgotten()
                self._passed(looks, places)
                looks = replace(looks, legs=self._legs(looks.classes, replace(own, beliefs=places.beliefs)))
            yield np.arange(len(ue))[rows], self._passed(looks, None)

    def learnt(self, history: History, ue: IntArray, habits: Habits, passes: int = _PASSES) -> Habits:
        """Motion, and places on a coarser grid, as all looks of the history tell them (EM)."""
        coarse = self.coarser()
        known = habits.resampled(coarse.grid)
        for _ in range(passes):
            new = known.forgotten()
            for rows in _groups(len(ue), len(coarse.grid), len(history)):
                own = known.of(rows)
                coarse._passed(coarse._looks(history, ue[rows], own), new.of(rows))
            known = new
        return known

    def _looks(self, history: History, ue: IntArray, habits: Habits) -> LooksAtGroup:
        """All looks at UEs (n,) ascending that move by these habits."""
        z_m, first = history.of(ue)
        models = ErrorModel.stacked(history.looks.errors).without_bias()
        of_look = models.at(np.repeat(np.arange(len(history)), len(ue)))
        classes = [history.classes(look, self.round_s) for look in range(len(history))]
        emission = of_look.emission(z_m.reshape(-1, *z_m.shape[2:]), self.grid)
        return LooksAtGroup(emission, first, classes, self._legs(classes, habits))

    def _legs(self, classes: list[list[int]], habits: Habits) -> dict[int, RoundOfMotion]:
        """Motion in the classes of hours that occur."""
        return {at: habits.leg(at, self.prior) for at in sorted({c for some in classes for c in some})}

    def _passed(self, looks: LooksAtGroup, new: Habits | None) -> Maps:
        """One pass forward and backward: the smoother's beliefs (S, n_ue, ny, nx); new : where uses and beliefs are
        added, if any; a pass that learns motion alone leaves the filter's beliefs.
        """
        p = self._forward(looks)
        motion = self.motion
        v = np.ones_like(p[0])
        believes = new is None or new.own_places
        for t in range(len(p) - 1, -1, -1):
            classes = looks.classes[t]
            seen = looks.first <= t
            if believes:
                p[t] = scaled(p[t] * v)
            if new is not None and classes:
                new.add_belief(classes[-1], np.where(seen[:, None, None], p[t], np.float32(0.0)))
            if t == 0:
                break
            v = v * looks.likelihood(t)
            for at in reversed(classes):
                leg = looks.legs[at]
                before = p[t - 1] if new is not None and len(classes) == 1 else None
                v, uses = motion.back(v, leg, before)
                if new is not None:
                    new.add_uses(at, np.where((looks.first < t)[:, None], uses, 0.0))
            v = scaled(v)
        return p

    def _forward(self, looks: LooksAtGroup) -> Maps:
        """a_t (S, n_ue, ny, nx); no UE is followed before the first look at it."""
        p = np.empty((len(looks.classes), len(looks.first), self.grid.ny, self.grid.nx), dtype=np.float32)
        some = np.repeat(self.prior, len(looks.first), axis=0)
        for t, classes in enumerate(looks.classes):
            for at in classes:
                some, _ = self.motion.step(some, looks.legs[at])
            some[looks.first >= t] = self.prior
            some = scaled(np.multiply(some, looks.likelihood(t), out=p[t]))
        return p


def scaled(p: Maps) -> Maps:
    """Maps (n, ny, nx) that sum to 1."""
    p *= (1 / sums(p))[:, None, None]
    return p


def _groups(n_ue: int, places: int, looks: int) -> list[slice]:
    """UEs in groups whose maps of all looks fit into memory, and those of one look into the cache."""
    size = max(min(_AT_ONCE, _NUMBERS // max(looks, 1)) // places, 1)
    return [slice(i, min(i + size, n_ue)) for i in range(0, n_ue, size)]

"""Tracks that an attacker keeps, and the names that it has given to them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fl.tracking.belief import Belief
from fl.tracking.fingerprint import Numbers
from fl.tracking.likeness import CellRarity, Directions
from fl.tracking.linking import LastSeen
from netsim.clock import slack_s
from netsim.columns import Columns, frozen, no_ints, no_places
from netsim.units import FloatArray, IntArray

_LEAST_S, _LEAST_ROUNDS = 3600.0, 6.0  # after which a track that nothing belonged to is given up


@frozen
class Clues(Columns):
    """Known facts of the senders (k,) of a round; NaN or -1 if unknown.

    z_m (k, R, 2) : places that are estimated of each; x (k, F), cell (k,), unit (k, D) : fingerprints.
    """

    z_m: FloatArray
    x: FloatArray
    cell: IntArray
    unit: FloatArray


@dataclass(frozen=True)
class Prints:
    """Fingerprints of the tracks (m,)."""

    numbers: Numbers
    cells: CellRarity
    directions: Directions

    @classmethod
    def none(cls, numbers: int) -> Prints:
        """Before the first update."""
        return cls(Numbers.none(numbers), CellRarity.none(), Directions.none())

    def heard(self, clues: Clues) -> Prints:
        """After updates of whomever."""
        return replace(self, numbers=self.numbers.heard(clues.x), cells=self.cells.heard(clues.cell))

    def log_ratios(self, clues: Clues) -> FloatArray:
        """log f(x_i | track j) / f(x_i): (m, k)."""
        numbers, cells = self.numbers.log_ratios(clues.x), self.cells.log_ratios(clues.cell)
        return numbers + cells + self.directions.log_ratios(clues.unit)

    def learnt(self, clues: Clues, together: FloatArray) -> Prints:
        """After updates that belong to tracks with probabilities (m, k)."""
        return Prints(
            self.numbers.learnt(clues.x, together),
            self.cells.learnt(clues.cell, together),
            self.directions.learnt(clues.unit, together),
        )

    def plus(self, track: IntArray, clues: Clues) -> Prints:
        """With updates of tracks (n,), each once."""
        return Prints(
            self.numbers.plus(track, clues.x),
            self.cells.plus(track, clues.cell),
            self.directions.plus(track, clues.unit),
        )

    def resized(self, kept: IntArray, new: int) -> Prints:
        """Select the tracks `kept` (an index each), and append new ones."""
        return Prints(
            self.numbers.resized(kept, new), self.cells.resized(kept, new), self.directions.resized(kept, new)
        )


@frozen
class Book:
    """track, at, seen_s, round (m,) : tracks that are kept, and when each was seen last; prints : of the same.

    name (N,) ascending, of, since (N,) : all names so far, the track of each, and the round in which it came first;
    born : number of tracks so far, which names the next one.
    """

    track: IntArray
    at: LastSeen
    seen_s: FloatArray
    round: IntArray
    prints: Prints
    name: IntArray
    of: IntArray
    since: IntArray
    born: int = 0

    @classmethod
    def empty(cls, numbers: int) -> Book:
        """Before the first round."""
        no = no_ints()
        return cls(no, LastSeen(no_places(), np.zeros(0)), np.zeros(0), no, Prints.none(numbers), no, no, no)

    def track_of(self, name: IntArray) -> IntArray:
        """The track (k,) of names (k,), -1 for one that it does not know."""
        at = np.minimum(np.searchsorted(self.name, name), max(len(self.name) - 1, 0))
        known = self.name[at] == name if len(self.name) else np.zeros(len(name), dtype=np.bool_)
        return np.where(known, self.of[at] if len(self.name) else -1, -1)

    def index(self, track: IntArray) -> IntArray:
        """Index of tracks (n,) among those that are kept; -1 for one that is not."""
        order = np.argsort(self.track)
        at = np.minimum(np.searchsorted(self.track[order], track), max(len(order) - 1, 0))
        if not len(order):
            return np.full(len(track), -1)
        return np.where(self.track[order[at]] == track, order[at], -1)

    def kept(self, now_s: float, round_s: float) -> Book:
        """Without tracks that nothing has belonged to for an hour, and for six rounds at least."""
        most_s = max(_LEAST_S, _LEAST_ROUNDS * round_s)
        old = now_s - self.seen_s > most_s + slack_s(most_s, now_s)
        return self._resized(np.flatnonzero(~old), no_ints())

    def with_tracks(self, track: IntArray) -> Book:
        """With tracks (n,) that are not kept yet, of which nothing is known so far."""
        every = np.arange(len(self.track))
        return replace(self._resized(every, track), born=max(self.born, int(track.max(initial=-1)) + 1))

    def with_names(self, name: IntArray, track: IntArray, round_: int) -> Book:
        """With new names (n,) of tracks (n,)."""
        every = np.concatenate([self.name, name])
        order = np.argsort(every, kind="stable")
        of, since = np.concatenate([self.of, track]), np.concatenate([self.since, np.full(len(name), round_)])
        return replace(self, name=every[order], of=of[order], since=since[order])

    def names_at(self, round_: int) -> tuple[IntArray, IntArray]:
        """The latest name (t,) of each track (t,), ascending, by a round."""
        some = np.flatnonzero(self.since <= round_)
        some = some[np.lexsort((self.name[some], self.since[some], self.of[some]))]
        last = np.flatnonzero(np.append(np.diff(self.of[some]) > 0, True)[: len(some)])
        return self.of[some[last]], self.name[some[last]]

    def by_names(self, belief: Belief) -> Belief:
        """A belief about tracks as one about names, ascending: each track by the name that it had last by then."""
        track, name = self.names_at(belief.round)
        some = belief.only(np.isin(belief.ue, track))
        names = name[np.searchsorted(track, some.ue)]
        order = np.argsort(names)
        return replace(some.only(order), ue=names[order])

    def seen(self, rows: IntArray, at: LastSeen, clues: Clues, now_s: float, round_: int) -> Book:
        """After updates of tracks at rows (n,), each once."""
        mean, var, seen_s, number = self.at.mean_m.copy(), self.at.var_m2.copy(), self.seen_s.copy(), self.round.copy()
        mean[rows], var[rows], seen_s[rows], number[rows] = at.mean_m, at.var_m2, now_s, round_
        prints = self.prints.plus(rows, clues)
        return replace(self, at=LastSeen(mean, var), seen_s=seen_s, round=number, prints=prints)

    def _resized(self, kept: IntArray, new: IntArray) -> Book:
        """Tracks `kept` (an index each), and new ones (n,)."""
        n = len(new)
        at = LastSeen(
            np.concatenate([self.at.mean_m[kept], np.zeros((n, 2))]),
            np.concatenate([self.at.var_m2[kept], np.zeros(n)]),
        )
        return replace(
            self,
            track=np.concatenate([self.track[kept], new]),
            at=at,
            seen_s=np.concatenate([self.seen_s[kept], np.zeros(n)]),
            round=np.concatenate([self.round[kept], np.full(n, -1)]),
            prints=self.prints.resized(kept, n),
        )

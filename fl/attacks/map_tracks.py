"""Tracks of an attacker who links names by maps: which name is whose, as it was told in its round and in hindsight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from fl.attacks.place_maps import PlaceMaps
from fl.attacks.subspace import AnyFloats
from fl.tracking.linking import Links
from fl.types import Facts
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_NEVER = 1e6  # cost of a track that another name holds in the same round
_MOST_PASSES = 20


@dataclass(frozen=True, eq=False)
class MapTracks:
    """name, track, since, last (N,) : all names so far in the order in which they came, the track that each was given
    in its round, and the rounds in which it was heard first and last; time_s (N,) : when it was heard first.

    score (K, G) : sum of the maps of each track; settled (K, G) : of the names that are not kept. pieces : sums of the
    maps of the latest names, (n, G) of those that came together. mean : of each model. links : of the last round.
    """

    equal_rows: ClassVar[bool] = False
    name: IntArray
    track: IntArray
    since: IntArray
    last: IntArray
    time_s: FloatArray
    score: AnyFloats
    settled: AnyFloats
    pieces: list[AnyFloats]
    mean: PlaceMaps
    links: Links

    @classmethod
    def none(cls) -> MapTracks:
        """Before the first round."""
        no, empty = np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.float32)
        return cls(no, no, no, no, np.zeros(0), empty, empty, [], PlaceMaps.empty(), Links.none())

    def track_of(self, name: IntArray) -> IntArray:
        """The track of each name (n,) that it knows."""
        return self.track[self._index(name)]

    def heard(
        self, name: IntArray, score: AnyFloats, mean: PlaceMaps, facts: Facts, least: int, most: int
    ) -> MapTracks:
        """After names (n,), ascending, with maps (n, G) in a round; at least so many tracks, at most so many kept."""
        row = self._index(name)
        known = np.flatnonzero(row >= 0)
        last = self.last.copy()
        last[row[known]] = facts.round
        in_use = self.track[last == facts.round]
        new = np.flatnonzero(row < 0)
        total, settled = (
            _grown(of, max(least, len(in_use) + len(new)), score.shape[1]) for of in (self.score, self.settled)
        )
        np.add.at(total, self.track[row[known]], score[known])
        pieces = _added(self.pieces, row[known] - self._kept_from, score[known])
        old = known[row[known] < self._kept_from]
        np.add.at(settled, self.track[row[old]], score[old])
        taken = np.zeros((len(new), len(total)), dtype=np.bool_)
        taken[:, in_use] = True
        track = _assigned(score[new], total, taken)
        born = np.asarray(~np.isin(track, self.track))
        total[track] += score[new]
        state = replace(
            self,
            name=np.concatenate([self.name, name[new]]),
            track=np.concatenate([self.track, track]),
            since=np.concatenate([self.since, np.full(len(new), facts.round)]),
            last=np.concatenate([last, np.full(len(new), facts.round)]),
            time_s=np.concatenate([self.time_s, np.full(len(new), facts.time_s)]),
            score=total, settled=settled, mean=mean,
            pieces=[*pieces, score[new].astype(np.float16)] if len(new) else pieces,
        )  # fmt: skip
        now = state._index(name)
        told = Links(facts.round, name, state.track[now], np.isin(name, name[new[born]]), np.full(len(name), np.nan))
        return replace(state, links=self.links.plus(told))._settled(most)

    def relinked(self, starts: int, rng: Rng) -> tuple[IntArray, AnyFloats]:
        """The track (N,) of each name and the maps (K, G) of all tracks in hindsight: the best of so many starts."""
        found = list[tuple[float, IntArray, AnyFloats]]()
        rounds = np.arange(len(self.pieces))
        for start in range(starts):
            track, total, order = self.track.copy(), self.score.copy(), rounds
            if start:
                order = np.argsort(rng.uniform("start", rounds, item=start), kind="stable")
                track[self._kept_from :], total = -1, self.settled.copy()
            for _ in range(_MOST_PASSES):
                if not self._passed(order, track, total):
                    break
            found.append((float(np.linalg.norm(total, axis=1).sum()), track, total))
        _, track, total = max(found, key=lambda one: one[0])
        return track, total

    def links_of(self, track: IntArray) -> Iterator[tuple[float, Links]]:
        """When each round was heard, and the links of the names that came in it, if they have tracks (N,)."""
        _, begun = np.unique(track, return_index=True)
        born = np.isin(np.arange(len(track)), begun)
        for number in np.unique(self.since).tolist():
            mine = np.flatnonzero(self.since == number)
            unsaid = np.full(len(mine), np.nan)
            yield float(self.time_s[mine[0]]), Links(number, self.name[mine], track[mine], born[mine], unsaid)

    @property
    def _kept_from(self) -> int:
        """The number of names whose maps are not kept."""
        return len(self.name) - sum(map(len, self.pieces))

    def _index(self, name: IntArray) -> IntArray:
        """Where names (n,) stand; -1 for one that it does not know."""
        if not len(self.name):
            return np.full(len(name), -1)
        order = np.argsort(self.name, kind="stable")
        at = order[np.minimum(np.searchsorted(self.name[order], name), len(order) - 1)]
        return np.where(self.name[at] == name, at, -1)

    def _settled(self, most: int) -> MapTracks:
        """With the maps of at most so many names."""
        pieces, settled, first = list(self.pieces), self.settled, self._kept_from
        while len(self.name) - first > most:
            piece = pieces.pop(0)
            np.add.at(settled, self.track[first : first + len(piece)], piece.astype(np.float32))
            first += len(piece)
        return replace(self, pieces=pieces, settled=settled)

    def _passed(self, order: IntArray, track: IntArray, total: AnyFloats) -> bool:
        """Whether any name moved as those of each piece were linked again, in place; track -1 : not linked yet."""
        first = np.cumsum([self._kept_from, *map(len, self.pieces)])
        edges, moved = list(pairwise(first.tolist())), False
        for i in order.tolist():
            mine, score = slice(*edges[i]), self.pieces[i].astype(np.float32)
            before = track[mine].copy()
            if before[0] >= 0:
                np.subtract.at(total, before, score)
            track[mine] = -1
            track[mine] = _assigned(score, total, self._held(mine, track, len(total)))
            total[track[mine]] += score
            moved |= bool((track[mine] != before).any())
        return moved

    def _held(self, mine: slice, track: IntArray, tracks: int) -> BoolArray:
        """Which tracks (n, K) are those of other names that are in use in the same rounds as names `mine`."""
        together = (self.since <= self.last[mine, None]) & (self.last >= self.since[mine, None]) & (track >= 0)
        held = np.zeros((len(together), tracks), dtype=np.bool_)
        row, other = np.nonzero(together)
        held[row, track[other]] = True
        return held


def _grown(score: AnyFloats, tracks: int, places: int) -> AnyFloats:
    """A copy of maps (k, G) with at least so many tracks."""
    grown = np.zeros((max(tracks, len(score)), places), dtype=np.float32)
    grown[: len(score)] = score.reshape(-1, places)
    return grown


def _added(pieces: list[AnyFloats], row: IntArray, score: AnyFloats) -> list[AnyFloats]:
    """Pieces with maps (n, G) added at rows (n,) of all of them together; rows before the first are left out."""
    first = np.cumsum([0, *map(len, pieces)])
    changed = list(pieces)
    for i in np.unique(np.searchsorted(first, row[row >= 0], "right") - 1).tolist():
        mine = np.flatnonzero((row >= first[i]) & (row < first[i + 1]))
        changed[i] = pieces[i].copy()
        changed[i][row[mine] - first[i]] += score[mine].astype(np.float16)
    return changed


def _assigned(score: AnyFloats, total: AnyFloats, taken: BoolArray) -> IntArray:
    """The track (n,) of maps (n, G), one to one, of largest sum of <x_i, T_k / |T_k|>; taken (n, K) ones come last."""
    from scipy.optimize import linear_sum_assignment

    length = np.linalg.norm(total, axis=1)
    similar = score @ (total / np.where(length > 0, length, 1.0)[:, None]).T
    return np.asarray(linear_sum_assignment(np.where(taken, _NEVER, -similar))[1], dtype=np.int64)

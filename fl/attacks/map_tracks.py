"""Tracks of an attacker that links names by maps: the track of each name in its round and in hindsight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.attacks.place_maps import PlaceMaps
from fl.tracking.linking import NameLinks
from fl.types import RoundContext
from netsim.columns import frozen, no_ints
from netsim.rng import Rng
from netsim.units import AnyFloats, BoolArray, FloatArray, IntArray

_NEVER = 1e6  # cost of a track that another name holds in the same round
_EMPTY = 1e-3  # length of a track's map that is rounding
_MOST_PASSES = 20


@frozen
class MapTracks:
    """name, track, since, last (N,) : all names so far in the order in which they came, the track that each was given
    in its round, and the rounds in which it was heard first and last; time_s (N,) : when it was heard first.

    score (K, G) : sum of the maps of each track; kept (n, G) : of each of the latest names. mean : mean map of each
    model.
    """

    name: IntArray
    track: IntArray
    since: IntArray
    last: IntArray
    time_s: FloatArray
    score: AnyFloats
    kept: AnyFloats
    mean: PlaceMaps

    @classmethod
    def none(cls) -> MapTracks:
        """Before the first round."""
        no, empty = no_ints(), np.zeros((0, 0), dtype=np.float32)
        return cls(no, no, no, no, np.zeros(0), empty, empty, PlaceMaps.empty())

    def heard(self, name: IntArray, score: AnyFloats, facts: RoundContext, least: int, most: int) -> MapTracks:
        """After names (n,) with maps (n, G) in a round; at least `least` tracks, the maps of at most `most` names."""
        new, places = np.setdiff1d(name, self.name), score.shape[1]
        state = self._with(new, facts, places)
        row, first = state._row(name), len(state.name) - len(state.kept)
        state.last[row] = facts.round
        state.kept[row[row >= first] - first] += score[row >= first]
        in_use = state.track[(state.last == facts.round) & (state.track >= 0)]
        total = np.zeros((max(least, len(in_use) + len(new), len(self.score)), places), dtype=np.float32)
        total[: len(self.score)] = self.score.reshape(-1, places)
        fresh = state.track[row] < 0
        np.add.at(total, state.track[row[~fresh]], score[~fresh])
        taken = np.zeros((len(new), len(total)), dtype=np.bool_)
        taken[:, in_use] = True
        state.track[row[fresh]] = _assigned(score[fresh], total, taken)
        total[state.track[row[fresh]]] += score[fresh]
        return replace(state, score=total, kept=state.kept[max(len(state.kept) - most, 0) :])

    def track_of(self, name: IntArray) -> IntArray:
        """The track of each name (n,) that it knows."""
        return self.track[self._row(name)]

    def relinked(self, starts: int, rng: Rng) -> tuple[IntArray, AnyFloats]:
        """The track (N,) of each name and the maps (K, G) of all tracks in hindsight: the best of `starts` starts."""
        latest = slice(len(self.name) - len(self.kept), None)
        rounds, best = np.unique(self.since[latest]), -1.0
        settled = self.score.copy()
        np.subtract.at(settled, self.track[latest], self.kept)
        for start in range(starts):
            track, total, order = self.track.copy(), self.score.copy(), rounds
            if start:
                order = rounds[np.argsort(rng.uniform("start", rounds, item=start), kind="stable")]
                track[latest], total = -1, settled.copy()
            passes = 0
            while self._moved(order, track, total) and passes < _MOST_PASSES:
                passes += 1
            value = float(np.linalg.norm(total, axis=1).sum())
            if value > best:
                best, found = value, (track, total)
        return found

    def links_of(self, track: IntArray) -> list[tuple[float, NameLinks]]:
        """Time of each round, and the links of its names, if they have tracks (N,)."""
        born, rounds = np.zeros(len(track), dtype=np.bool_), list[tuple[float, NameLinks]]()
        born[np.unique(track, return_index=True)[1]] = True
        for number in np.unique(self.since).tolist():
            mine = np.flatnonzero(self.since == number)
            links = NameLinks(number, self.name[mine], track[mine], born[mine], np.full(len(mine), np.nan))
            rounds.append((float(self.time_s[mine[0]]), links))
        return rounds

    def _with(self, name: IntArray, facts: RoundContext, places: int) -> MapTracks:
        """A copy with names (n,) that have no track yet."""

        def then(old: IntArray, value: int) -> IntArray:
            return np.concatenate([old, np.full(len(name), value)])

        return replace(
            self,
            name=np.concatenate([self.name, name]),
            track=then(self.track, -1),
            since=then(self.since, facts.round),
            last=then(self.last, facts.round),
            time_s=np.concatenate([self.time_s, np.full(len(name), facts.time_s)]),
            kept=np.concatenate([self.kept.reshape(-1, places), np.zeros((len(name), places), dtype=np.float32)]),
        )

    def _row(self, name: IntArray) -> IntArray:
        """Rows of the known names (n,)."""
        order = np.argsort(self.name)
        return order[np.searchsorted(self.name[order], name)]

    def _moved(self, order: IntArray, track: IntArray, total: AnyFloats) -> bool:
        """Whether any name moved as those that came in each round were linked again, in place; track -1 : none yet."""
        first, moved = len(self.name) - len(self.kept), False
        for number in order.tolist():
            mine = first + np.flatnonzero(self.since[first:] == number)
            score, before = self.kept[mine - first], track[mine]
            linked = before >= 0
            np.subtract.at(total, before[linked], score[linked])
            track[mine] = -1
            track[mine] = _assigned(score, total, self._held(mine, track, len(total)))
            total[track[mine]] += score
            moved |= bool((track[mine] != before).any())
        return moved

    def _held(self, mine: IntArray, track: IntArray, tracks: int) -> BoolArray:
        """Which tracks (n, K) are those of other names that are in use in the same rounds as names (n,)."""
        together = (self.since <= self.last[mine, None]) & (self.last >= self.since[mine, None]) & (track >= 0)
        held = np.zeros((len(mine), tracks), dtype=np.bool_)
        row, other = np.nonzero(together)
        held[row, track[other]] = True
        return held


def _assigned(score: AnyFloats, total: AnyFloats, taken: BoolArray) -> IntArray:
    """The track (n,) of maps (n, G), one to one, of largest sum of <x_i, T_k / |T_k|>; taken (n, K) ones come last."""
    from scipy.optimize import linear_sum_assignment

    length = np.linalg.norm(total, axis=1)
    similar = score @ (total * np.where(length > _EMPTY, 1.0 / np.maximum(length, _EMPTY), 0.0)[:, None]).T
    return np.asarray(linear_sum_assignment(np.where(taken, _NEVER, -similar))[1], dtype=np.int64)

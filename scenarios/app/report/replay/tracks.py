"""Tracks with fewer rows: straight lines that stay within a stated distance of the recorded ones at every time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.units import BoolArray, FloatArray, IntArray

TOLERANCES_M = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, eq=False)
class Tracks:
    """Rows of UEs in order of UE and time: at_m (n, 2), NaN from when a UE is absent; within_m: how near the recorded
    motion they are.
    """

    ue: IntArray
    time_s: FloatArray
    at_m: FloatArray
    indoor: BoolArray
    cell: IntArray
    within_m: float = 0.0

    def __len__(self) -> int:
        return len(self.ue)

    def rows(self, kept: BoolArray | IntArray, within_m: float) -> Tracks:
        """Some of the rows."""
        return Tracks(self.ue[kept], self.time_s[kept], self.at_m[kept], self.indoor[kept], self.cell[kept], within_m)


def simplified(tracks: Tracks, most: int) -> Tracks:
    """With at most so many rows, as near the recorded ones as that allows; rows that cannot be left out stay."""
    for within_m in TOLERANCES_M:
        fewer = tracks.rows(needed(tracks, within_m), within_m)
        if len(fewer) <= most:
            break
    return fewer


def of_first_ues(tracks: Tracks, n_ue: int, most: int) -> tuple[Tracks, int]:
    """Tracks of as many of the first of n_ue UEs as have at most so many rows, of one at least; and how many UEs."""
    if len(tracks) <= most:
        return tracks, n_ue
    end = np.searchsorted(tracks.ue, np.arange(n_ue), side="right")
    n = max(1, int(np.searchsorted(end, most, side="right")))
    return tracks.rows(tracks.ue < n, tracks.within_m), n


def needed(tracks: Tracks, within_m: float) -> BoolArray:
    """Rows (n,) whose straight lines are at every time within a distance of all rows.

    By Ramer, Douglas and Peucker with the distance at the same time, all tracks at once: lines are split at the row
    that is farthest from them until none is too far. Where a UE comes or goes, or its cell or `indoor` changes, a row
    is always kept.
    """
    n = len(tracks)
    if n < 3:
        return np.ones(n, dtype=np.bool_)
    kept = _fixed(tracks)
    open_: BoolArray = np.ones(n, dtype=np.bool_)  # rows of lines that may still have to be split
    while True:
        ends = np.flatnonzero(kept)
        line = np.searchsorted(ends, np.arange(n), side="right") - 1
        inner = np.flatnonzero(open_ & ~kept)
        if not len(inner):
            return kept
        a, b = ends[line[inner]], ends[line[inner] + 1]
        away_m = _away_m(tracks, inner, a, b)
        first = np.flatnonzero(np.diff(a, prepend=-1))
        worst_m = np.repeat(np.maximum.reduceat(away_m, first), np.diff(np.append(first, len(a))))
        far = worst_m > within_m  # not where a distance is no number
        kept[inner[far & (away_m == worst_m)]] = True
        open_[inner[~far]] = False


def _fixed(tracks: Tracks) -> BoolArray:
    """Rows that are always kept: those about a change of state, and the ends of each track."""
    gone = np.asarray(np.isnan(tracks.at_m).any(axis=1))
    state = np.column_stack([tracks.ue, gone, tracks.indoor, tracks.cell])
    changed = np.asarray((state[1:] != state[:-1]).any(axis=1))
    own = tracks.ue[1:] != tracks.ue[:-1]
    return np.asarray(np.append(True, changed) | np.append(changed & (own | gone[1:]), True))


def _away_m(tracks: Tracks, row: IntArray, a: IntArray, b: IntArray) -> FloatArray:
    """Distances (n,) of rows from the lines between rows a and b at their own times."""
    span_s = tracks.time_s[b] - tracks.time_s[a]
    share = np.divide(tracks.time_s[row] - tracks.time_s[a], span_s, out=np.zeros(len(row)), where=span_s > 0)
    on_line = tracks.at_m[a] + share[:, None] * (tracks.at_m[b] - tracks.at_m[a])
    return np.asarray(np.linalg.norm(tracks.at_m[row] - on_line, axis=1))

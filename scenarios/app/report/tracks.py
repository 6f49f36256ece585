"""Tracks with fewer rows: straight lines that stay within a stated distance of the recorded ones at every time."""

from __future__ import annotations

import numpy as np

from netsim.units import BoolArray, FloatArray, IntArray
from scenarios.app.results.run import Table, where

FINEST_M = 0.5
_COARSEST_M = 16.0


def simplified(tracks: Table, most: int) -> tuple[Table, float]:
    """At most so many rows where lines within 16 m allow that, and how near the recorded tracks they stay, metres."""
    within_m = FINEST_M
    while (kept := needed(tracks, within_m)).sum() > most and within_m < _COARSEST_M:
        within_m *= 2
    return where(tracks, kept), within_m


def needed(tracks: Table, within_m: float) -> BoolArray:
    """Rows (n,) whose straight lines are at every time within a distance of all rows.

    By Ramer, Douglas and Peucker with the distance at the same time, all tracks at once: lines are split at the row
    that is farthest from them until none is too far. Where a UE comes or goes, or its cell or `indoor` changes, a row
    is always kept.
    """
    n, at_m = len(tracks["ue"]), np.column_stack([tracks["x_m"], tracks["y_m"]])
    if n < 3:
        return np.ones(n, dtype=np.bool_)
    kept = _fixed(tracks, at_m)
    open_: BoolArray = np.ones(n, dtype=np.bool_)  # rows of lines that may still have to be split
    while True:
        ends = np.flatnonzero(kept)
        line = np.searchsorted(ends, np.arange(n), side="right") - 1
        inner = np.flatnonzero(open_ & ~kept)
        if not len(inner):
            return kept
        a, b = ends[line[inner]], ends[line[inner] + 1]
        away_m = _away_m(tracks["time_s"], at_m, inner, a, b)
        first = np.flatnonzero(np.diff(a, prepend=-1))
        worst_m = np.repeat(np.maximum.reduceat(away_m, first), np.diff(np.append(first, len(a))))
        far = worst_m > within_m  # not where a distance is no number
        kept[inner[far & (away_m == worst_m)]] = True
        open_[inner[~far]] = False


def _fixed(tracks: Table, at_m: FloatArray) -> BoolArray:
    """Rows that are always kept: those about a change of state, and the ends of each track."""
    gone = np.asarray(np.isnan(at_m).any(axis=1))
    state = np.column_stack([tracks["ue"], gone, tracks["indoor"], tracks["cell"]])
    changed = np.asarray((state[1:] != state[:-1]).any(axis=1))
    own = tracks["ue"][1:] != tracks["ue"][:-1]
    return np.asarray(np.append(True, changed) | np.append(changed & (own | gone[1:]), True))


def _away_m(time_s: FloatArray, at_m: FloatArray, row: IntArray, a: IntArray, b: IntArray) -> FloatArray:
    """Distances (n,) of rows from the lines between rows a and b at their own times."""
    span_s = time_s[b] - time_s[a]
    share = np.divide(time_s[row] - time_s[a], span_s, out=np.zeros(len(row)), where=span_s > 0)
    return np.asarray(np.linalg.norm(at_m[row] - at_m[a] - share[:, None] * (at_m[b] - at_m[a]), axis=1))

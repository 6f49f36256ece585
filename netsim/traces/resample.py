"""Rows at regular times: straight lines between a trip's rows, nothing between trips."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from netsim.clock import slack_s
from netsim.errors import BadInput
from netsim.traces.order import by_user_and_time
from netsim.units import FloatArray, IntArray

MOST_ROWS = 10**8


@dataclass(frozen=True, eq=False)
class Moves:
    """Rows: user (n,), time (n,), place (n, 2)."""

    user: npt.NDArray[np.integer]
    time_s: FloatArray
    xy_m: FloatArray

    @cached_property
    def order(self) -> IntArray | None:
        """The rows by user and time, None if they are in order."""
        return by_user_and_time(self.user, self.time_s)


def resampled(moves: Moves, every_s: float, gap_s: float) -> tuple[Moves, int]:
    """Rows at the multiples of `every_s` within trips, and the number of trips.

    A trip ends where the next row of its user is more than `gap_s` later. Of rows at one time the first counts.
    A trip between two multiples leaves no row.
    """
    order = np.lexsort((moves.time_s, moves.user))
    user, time_s = moves.user[order], moves.time_s[order]
    new = np.append(True, (np.diff(user) != 0) | (np.diff(time_s) > 0))
    user, time_s, order = user[new], time_s[new], order[new]
    max_s = gap_s + slack_s(gap_s, time_s[1:])
    starts = np.flatnonzero(np.append(True, (np.diff(user) != 0) | (np.diff(time_s) > max_s)))
    ends = np.append(starts[1:], len(user)) - 1
    first = np.ceil(time_s[starts] / every_s - 1e-9)
    n_rows = np.maximum(np.floor(time_s[ends] / every_s + 1e-9) - first + 1, 0).astype(np.int64)
    if n_rows.sum() > MOST_ROWS:
        raise BadInput(f"resample_s: {every_s:g} makes {n_rows.sum():.3g} rows, at most {MOST_ROWS:.0e} are possible")
    trip = np.repeat(np.arange(len(starts)), n_rows)
    at_s = (first[trip] + np.arange(len(trip)) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)) * every_s
    before = _rows_before(time_s, starts, ends, trip, at_s)
    after = np.minimum(before + 1, ends[trip])
    step_s = time_s[after] - time_s[before]
    share = np.clip((at_s - time_s[before]) / np.where(step_s > 0, step_s, 1.0), 0.0, 1.0)
    start_m, end_m = moves.xy_m[order[before]], moves.xy_m[order[after]]
    return Moves(user[before], at_s, start_m + share[:, None] * (end_m - start_m)), len(starts)


def _rows_before(time_s: FloatArray, starts: IntArray, ends: IntArray, trip: IntArray, at_s: FloatArray) -> IntArray:
    """The last row of the trip at or before each time; all trips at once, laid end to end on one axis."""
    length_s = time_s[ends] - time_s[starts] + 1.0
    shift_s = np.cumsum(length_s) - length_s - time_s[starts]
    axis_s = time_s + np.repeat(shift_s, ends - starts + 1)
    row = np.searchsorted(axis_s, at_s + shift_s[trip], side="right") - 1
    return np.clip(row, starts[trip], ends[trip])

"""Moves of the users of a trace: who they are, rows at regular times, and the time without a row that means absence.

Users: "id" is the user column; "all" is one user with all rows; "day" is one user for each local day; "chain" takes ids
as drives and joins those that begin where another ended (within a mile) into one user, the rest being `background`;
"segments" divides all rows, sorted by time, into `segments` equal parts; "rows" makes every row a user; "auto" is "id",
unless no id has rows in two rounds of `round_s` seconds, and then "all".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from netsim.clock import DAY_S, Clock, slack_s
from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.traces.trace import Trace
from netsim.units import BoolArray, FloatArray, IntArray

Users = Literal["auto", "all", "id", "day", "chain", "segments", "rows"]
Index = npt.NDArray[np.integer]
MOST_ROWS = 10**8
CHAIN_M = 1609.344  # a mile
BACKGROUND = "background"


@frozen
class Moves:
    """Rows: user (n,), time (n,), place (n, 2)."""

    user: Index
    time_s: FloatArray
    xy_m: FloatArray

    @cached_property
    def order(self) -> IntArray | None:
        """The rows by user and time, None if they are in order; rows of one user and time stay as in the file."""
        user, time_s = self.user, self.time_s
        in_order: BoolArray = user[1:] > user[:-1]
        in_order |= (user[1:] == user[:-1]) & (time_s[1:] >= time_s[:-1])
        return None if in_order.all() else np.asarray(np.lexsort((time_s, user)))

    def sorted(self, column: Any) -> Any:
        """A column (n, ...) by user and time."""
        return column if self.order is None else column[self.order]


@dataclass(frozen=True)
class Naming:
    """Definition of users: the setting `users`, and of which names, number of segments and length of rounds."""

    users: Users
    names: tuple[str, ...]
    segments: int | None
    round_s: float


def name_users(naming: Naming, moves: Moves, clock: Clock) -> tuple[tuple[str, ...], IntArray, list[str]]:
    """Names, the user of each row (n,), and notes."""
    ids, time_s, users = moves.user, moves.time_s, naming.users
    notes: list[str] = []
    if users == "auto":
        users = "id" if _rounds_apart(moves, naming.round_s, clock) else "all"
        if users == "all":
            notes = [f"users: all rows are one target: no user has rows in two rounds of {naming.round_s:g} s"]
    if users == "id":
        return *renumbered(naming.names, ids), notes
    if users == "all":
        return ("all",), np.zeros(len(ids), dtype=np.int64), notes
    if users == "rows":
        return tuple(f"row{k}" for k in range(1, len(ids) + 1)), np.arange(len(ids)), ["users: every row is a user"]
    if users == "segments":
        n = naming.segments or 1
        user = np.empty(len(ids), dtype=np.int64)
        user[np.argsort(time_s, kind="stable")] = np.arange(len(ids)) * n // len(ids)
        n_rows = np.bincount(user, minlength=n)
        size = f"{n} segments of {n_rows.min()} to {n_rows.max()} rows"
        names = tuple(f"segment{k}" for k in range(1, n + 1))
        return names, user, [f"users: all rows in order of time, cut into {size}"]
    if users == "chain":
        chain = chained(ids, time_s, moves.xy_m, CHAIN_M)
        labels = (BACKGROUND, *(f"chain{k}" for k in range(1, int(chain.max()) + 1)))
        n_alone = int((chain[np.unique(ids)] == 0).sum())
        chains = f"{len(labels) - 1} chains of drives, each beginning within a mile of where the last ended"
        return *renumbered(labels, chain[ids]), [f"users: {chains}; {n_alone} other drives are one background user"]
    days, user = np.unique(clock.wall_s(time_s) // DAY_S, return_inverse=True)
    return tuple(str(clock.first_day + timedelta(days=int(day))) for day in days), user.astype(np.int64), notes


def renumbered(names: tuple[str, ...], code: Index) -> tuple[tuple[str, ...], IntArray]:
    """Only the names that still occur, in the old order, and each row's place among them (n,)."""
    still = np.bincount(code, minlength=len(names)) > 0
    return tuple(name for name, here in zip(names, still, strict=True) if here), (np.cumsum(still) - 1)[code]


def chained(ids: Index, time_s: FloatArray, xy_m: FloatArray, reach_m: float) -> IntArray:
    """Chain of each id (n_ids,): 0 for the background, then 1, 2, ... by falling number of rows.

    An id (a file, a drive) goes on with the chain that ended nearest to where it begins, if that is within reach_m
    and the chain had ended by then. Ids that nothing precedes or follows are the
    background.
    """
    order = np.lexsort((time_s, ids))
    edge = np.flatnonzero(np.diff(ids[order], prepend=-1))
    first, last = order[edge], order[np.append(edge[1:], len(order)) - 1]
    chain_of = np.full(int(ids.max()) + 1, -1)
    ends_s, ends_m = np.full(len(first), np.inf), np.zeros((len(first), 2))  # of chains; the others never end
    n_chains = 0
    for k in np.argsort(time_s[first], kind="stable"):
        away_m = np.linalg.norm(ends_m - xy_m[first[k]], axis=1)
        away_m[ends_s > time_s[first[k]]] = np.inf
        chain = int(np.argmin(away_m))
        if away_m[chain] > reach_m:
            chain = n_chains
            n_chains += 1
        ends_s[chain], ends_m[chain] = time_s[last[k]], xy_m[last[k]]
        chain_of[ids[first[k]]] = chain
    n_ids = np.bincount(chain_of[ids[first]], minlength=n_chains)
    n_rows = np.bincount(chain_of[ids], minlength=n_chains)
    real = np.flatnonzero(n_ids > 1)
    number = np.zeros(n_chains, dtype=np.int64)
    number[real[np.argsort(-n_rows[real], kind="stable")]] = np.arange(1, len(real) + 1)
    return np.where(chain_of >= 0, number[chain_of], 0)


def _rounds_apart(moves: Moves, round_s: float, clock: Clock) -> bool:
    """Whether any user has rows in two rounds."""
    same_user = np.diff(moves.sorted(moves.user)) == 0
    later = np.diff(moves.sorted(clock.round_of(moves.time_s, round_s))) > 0
    return bool((same_user & later).any())


def resampled(moves: Moves, every_s: float, gap_s: float) -> tuple[Moves, int]:
    """Rows at the multiples of `every_s` within trips, and the number of trips: straight lines between a trip's rows.

    A trip ends where the next row of its user is more than `gap_s` later. Of rows at one time the first counts.
    A trip between two multiples leaves no row.
    """
    order = np.lexsort((moves.time_s, moves.user))
    user, time_s = moves.user[order], moves.time_s[order]
    new = np.append(True, (np.diff(user) != 0) | (np.diff(time_s) > 0))
    user, time_s, xy_m = user[new], time_s[new], moves.xy_m[order[new]]
    max_s = gap_s + slack_s(gap_s, time_s[1:])
    starts = np.flatnonzero(np.append(True, (np.diff(user) != 0) | (np.diff(time_s) > max_s)))
    ends = np.append(starts[1:], len(user)) - 1
    first = np.ceil(time_s[starts] / every_s - 1e-9)
    n_rows = np.maximum(np.floor(time_s[ends] / every_s + 1e-9) - first + 1, 0).astype(np.int64)
    if n_rows.sum() > MOST_ROWS:
        raise BadInput(f"resample_s: {every_s:g} makes {n_rows.sum():.3g} rows, at most {MOST_ROWS:.0e} are possible")
    trip = np.repeat(np.arange(len(starts)), n_rows)
    at_s = (first[trip] + np.arange(len(trip)) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)) * every_s
    # all trips at once, laid end to end on one axis; a tick up to 1e-9 steps outside of its trip takes the end of it
    length_s = time_s[ends] - time_s[starts] + 1.0
    shift_s = np.cumsum(length_s) - length_s - time_s[starts]
    axis_s = time_s + np.repeat(shift_s, ends - starts + 1)
    tick_s = np.clip(at_s, time_s[starts][trip], time_s[ends][trip]) + shift_s[trip]
    x_m, y_m = (np.interp(tick_s, axis_s, axis) for axis in xy_m.T)
    return Moves(user[starts][trip], at_s, np.column_stack([x_m, y_m])), len(starts)


@dataclass(frozen=True)
class Presence:
    """A UE is absent when its last fix is older than absent_after_s; `why` gives the source of that figure."""

    absent_after_s: float
    why: str

    def words(self) -> str:
        """The rule in words."""
        return f"a UE is absent {self.absent_after_s:g} s after its last fix ({self.why})"


_MARGIN = 1.5  # intervals: one row is due, and clocks jitter
_USUAL = 3.0  # median intervals that a trip holds at least, where the whole trace is sampled more coarsely than gap_s
_COVERED = 0.99  # of the time of all trips


def presence(trace: Trace, gap_s: float) -> Presence:
    """1.5 times the interval at which, or more finely, 99 % of the trips' time is sampled; at most a pause.

    A pause, which ends a trip, is longer than gap_s and than three median intervals. A simulated trace has a row for
    every UE at every step, so that a missing row means that the UE has left. People's traces have holes, in which
    most of them are still there: the share is one of time, in which a long hole counts for more than a short one.
    """
    interval_s = np.diff(trace.time_s)[np.diff(trace.user) == 0]
    interval_s = interval_s[interval_s > 0]
    if not len(interval_s):
        return Presence(gap_s, "gap_s, for no user has rows at two times")
    pause_s = max(gap_s, _USUAL * float(np.median(interval_s)))
    within = np.sort(interval_s[interval_s <= pause_s])
    covered_s = np.cumsum(within)
    usual_s = float(within[np.searchsorted(covered_s, _COVERED * covered_s[-1])])
    why = f"99 % of the trips' time is sampled every {usual_s:g} s or more often"
    if _MARGIN * usual_s < pause_s:
        return Presence(_MARGIN * usual_s, f"{why}; {_MARGIN:g} times that")
    return Presence(pause_s, f"{why}; a pause that ends a trip")

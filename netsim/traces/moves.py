"""Moves of the users of a trace: rows in order and at regular times, and the time without a row
that means absence.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, nan, pi
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from netsim.clock import Clock, compute_rounding_s
from netsim.columns import Columns, frozen
from netsim.errors import BadInput, format_count
from netsim.geometry import measure_lengths
from netsim.notice import Notices, notice
from netsim.traces.table import GLOBE, Coordinates, FixRows, TraceTable, look_like_degrees
from netsim.traces.trace import Trace
from netsim.traces.values import renumber_names
from netsim.units import BoolArray, FloatArray, IntArray, Texts

Index = npt.NDArray[np.integer]
Sorted = TypeVar("Sorted", bound=npt.NDArray[Any] | None)
MOST_ROWS = 10**8
CHAIN_M = 1609.344  # a mile


@frozen
class Moves(Columns):
    """Rows: user (n,), time (n,), place (n, 2)."""

    user: Index
    time_s: FloatArray
    xy_m: FloatArray

    @cached_property
    def order(self) -> IntArray | None:
        """The rows by user and time, None if they are in order; rows of one user and time stay as
        in the file.
        """
        user = self.user
        time_s = self.time_s
        in_order = user[1:] > user[:-1]
        is_same_user = user[1:] == user[:-1]
        in_order |= is_same_user & (time_s[1:] >= time_s[:-1])
        if in_order.all():
            return None
        return np.lexsort((time_s, user))

    @property
    def gap_s(self) -> FloatArray:
        """Time between each two consecutive rows of a user."""
        is_same_user = np.diff(self.sort_column(self.user)) == 0
        return np.diff(self.sort_column(self.time_s))[is_same_user]

    @property
    def usual_interval_s(self) -> float:
        """Median time between two rows of a user at different times; 0 without such rows."""
        interval_s = self.gap_s[self.gap_s > 0]
        if len(interval_s):
            return np.median(interval_s)
        return 0.0

    def sort_column(self, column: Sorted) -> Sorted:
        """A column of the rows in order; None stays."""
        if column is None or self.order is None:
            return column
        return column[self.order]  # type: ignore[return-value]


def keep_occurring(names: Texts, code: Index) -> tuple[Texts, IntArray]:
    """Only the names that still occur, in the old order, and each row's place among them (n,)."""
    return renumber_names(names, code, np.bincount(code, minlength=len(names)) > 0)


def chain_drives(ids: Index, time_s: FloatArray, xy_m: FloatArray, reach_m: float) -> IntArray:
    """Chain of each id (n_ids,): 0 for the background, then 1, 2, ... by falling number of rows.

    An id (a file, a drive) goes on with the chain that ended nearest to where it begins, if that is
    within reach_m and the chain had ended by then. Ids that nothing precedes or follows are the
    background.
    """
    order = np.lexsort((time_s, ids))
    edges = np.flatnonzero(np.diff(ids[order], prepend=-1, append=-1))
    first = order[edges[:-1]]
    last = order[edges[1:] - 1]
    chain_of = np.full(ids.max() + 1, -1)
    ends_s = np.full(len(first), inf)  # of chains; the others never end
    ends_m = np.zeros((len(first), 2))
    n_chains = 0
    for begin, end in sorted(zip(first, last, strict=True), key=lambda drive: time_s[drive[0]]):
        distance_m = np.linalg.norm(ends_m - xy_m[begin], axis=1)
        away_m = np.where(ends_s > time_s[begin], inf, distance_m)
        chain = int(np.argmin(away_m))
        if away_m[chain] > reach_m:
            chain = n_chains
            n_chains += 1
        ends_s[chain] = time_s[end]
        ends_m[chain] = xy_m[end]
        chain_of[ids[begin]] = chain
    n_ids = np.bincount(chain_of[ids[first]])
    busiest = np.argsort(-np.bincount(chain_of[ids]), kind="stable")
    number = np.zeros(n_chains, int)
    number[busiest[n_ids[busiest] > 1]] = np.arange(1, (n_ids > 1).sum() + 1)
    return np.where(chain_of >= 0, number[chain_of], 0)


def has_two_rounds(moves: Moves, round_s: float, clock: Clock) -> bool:
    """Whether any user has rows in two rounds."""
    same_user = np.diff(moves.sort_column(moves.user)) == 0
    later = np.diff(moves.sort_column(clock.find_rounds(moves.time_s, round_s))) > 0
    return (same_user & later).any()


def sample_rows(moves: Moves, every_s: float) -> BoolArray:
    """Which rows (n,) a phone makes that measures once in every period, from time 0 on: those of a
    user's first time in each, several where a row is a cell.
    """
    period = np.floor(moves.time_s / every_s + 1e-9)
    order = np.lexsort((moves.time_s, period, moves.user))
    time_s = moves.time_s[order]
    new = np.ones(len(order), bool)
    is_new_user = np.diff(moves.user[order]) != 0
    new[1:] = is_new_user | (np.diff(period[order]) != 0)
    due = np.empty(len(order), bool)
    due[order] = time_s == time_s[new][np.cumsum(new) - 1]
    return due


def resample_trips(moves: Moves, every_s: float, gap_s: float) -> tuple[Moves, int]:
    """Rows at the multiples of `every_s` within trips, and the number of trips: straight lines
    between a trip's rows.

    A trip ends where the next row of its user is more than `gap_s` later. Of rows at one time the
    first counts. A trip between two multiples leaves no row.
    """
    moves = moves.select(np.lexsort((moves.time_s, moves.user)))
    moves = moves.select(np.append(True, (np.diff(moves.user) != 0) | (np.diff(moves.time_s) > 0)))
    user = moves.user
    time_s = moves.time_s
    max_s = gap_s + compute_rounding_s(gap_s, time_s[1:])
    cuts = np.flatnonzero((np.diff(user) != 0) | (np.diff(time_s) > max_s)) + 1
    pieces: list[Moves] = []
    n_rows = 0
    for trip in np.split(np.arange(len(user)), cuts):
        own_s = time_s[trip]
        first = math.ceil(own_s[0] / every_s - 1e-9)
        ticks = np.arange(first, math.floor(own_s[-1] / every_s + 1e-9) + 1)
        n_rows += len(ticks)
        if n_rows > MOST_ROWS:
            raise BadInput(
                f"resample_s: {every_s:g} makes more than {MOST_ROWS:,} rows, the most "
                f"that are possible"
            )
        at_s = ticks * every_s
        columns_m = [np.interp(at_s, own_s, axis_m[trip]) for axis_m in moves.xy_m.T]
        pieces.append(Moves(np.full(len(ticks), user[trip[0]]), at_s, np.column_stack(columns_m)))
    return Moves.join(pieces), len(pieces)


WALK_M_S = 1.4  # a comfortable pace of adults


def add_walk_times(table: TraceTable) -> TraceTable:
    """The table with times of a walk at 1.4 m/s through its places in the order of the file."""
    step_m = measure_lengths(np.diff(table.coordinates.to_plane(table.fixes.place).xy_m, axis=0))
    time_s = np.append(0.0, np.cumsum(step_m)) / WALK_M_S
    walk = notice("trace-survey", speed_m_s=WALK_M_S, length_s=time_s[-1])
    return replace(table, fixes=replace(table.fixes, time_s=time_s), notices=(*table.notices, walk))


@dataclass(frozen=True)
class Presence:
    """A UE is absent when its last fix is older than absent_after_s; `why` gives the source of that
    figure.
    """

    absent_after_s: float
    why: str

    def to_words(self) -> str:
        return f"a UE is absent {self.absent_after_s:g} s after its last fix ({self.why})"


_MARGIN = 1.5  # intervals: one row is due, and clocks jitter
# median intervals that a trip holds at least, where the whole trace is sampled more coarsely than
# gap_s
_USUAL = 3.0
_COVERED = 0.99  # of the time of all trips


def estimate_presence(trace: Trace, gap_s: float) -> Presence:
    """1.5 times the interval at which, or more finely, 99 % of the trips' time is sampled; at most
    a pause.

    A pause, which ends a trip, is longer than gap_s and than three median intervals. A simulated
    trace has a row for every UE at every step, so that a missing row means that the UE has left.
    People's traces have holes, in which most of them are still there: the share is one of time, in
    which a long hole counts for more than a short one.
    """
    interval_s = np.diff(trace.time_s)[np.diff(trace.user) == 0]
    interval_s = interval_s[interval_s > 0]
    if not len(interval_s):
        return Presence(gap_s, "gap_s, for no user has rows at two times")
    pause_s = max(gap_s, _USUAL * np.median(interval_s))
    within = np.sort(interval_s[interval_s <= pause_s])
    covered_s = np.cumsum(within)
    usual_s = within[np.searchsorted(covered_s, _COVERED * covered_s[-1])]
    reason = f"99 % of the trips' time is sampled every {usual_s:g} s or more often"
    if _MARGIN * usual_s < pause_s:
        return Presence(_MARGIN * usual_s, f"{reason}; {_MARGIN:g} times that")
    return Presence(pause_s, f"{reason}; a pause that ends a trip")


TOO_FAST_M_S = 100.0
_CLOCK_S = 1.0  # clocks of traces show seconds: within one, a user may have moved
_FAR_FROM_NO_FIX_DEG = 1.0
_FIRST = 3  # steps that are too fast, of which the lines are named
_MANY = 10  # rows, from which on one user per row is odd
_MAX_DEGREES = 2.0  # of a trace; and fewer metres than a walk
_OLDEST_S = 1_167_609_600.0  # 2007: receivers that rolled over since April 2019 show earlier dates
_WEEKS_S = 1024 * 7 * 86_400.0  # after which GPS counts weeks from 0 again
_ALMOST_DAY_S = 82_800.0  # 23 h, of the day on which clocks go forward
_FROM_ORIGIN_M = 1e6  # of a place in a projected system, say; local planes begin near by
_MARGIN_DEG = 1e-4  # 11 m around the rows that a box is to keep


@frozen
class TraceSteps:
    """Steps between the rows of one user in order of time: their number, the rows (k,) to which
    those too fast lead, in order of the file, the number of those without time, and how far the
    longest of these leads.

    A step is too fast beyond 100 m/s, one between the first and another row of one time beyond 100
    m. Rows of one time and place, as of several cells, make no step.
    """

    n: int
    fast: IntArray
    n_at_once: int
    apart_m: float

    @property
    def n_fast(self) -> int:
        return len(self.fast)

    @property
    def speed(self) -> str:
        """The share that is too fast, for a person."""
        return (
            f"{100 * self.n_fast / max(self.n, 1):.3f} % of steps imply more than "
            f"{TOO_FAST_M_S:.0f} m/s"
        )


def measure_steps(moves: Moves) -> TraceSteps:
    """The steps of rows (n,) in any order."""
    xy_m = moves.sort_column(moves.xy_m)
    gap_s = np.diff(moves.sort_column(moves.time_s))
    is_other_user = np.diff(moves.sort_column(moves.user)) != 0
    row = np.arange(len(xy_m))
    # of each user and time
    first = np.maximum.accumulate(np.where(np.append(True, is_other_user | (gap_s > 0)), row, 0))
    start = np.where(gap_s == 0, first[1:], row[:-1])
    step_m = measure_lengths(xy_m[1:] - xy_m[start])
    step_m[is_other_user] = nan
    at_once = (gap_s == 0) & (step_m > 0)
    fast = step_m > TOO_FAST_M_S * np.where(gap_s == 0, _CLOCK_S, gap_s)
    n = (at_once | ((gap_s > 0) & np.isfinite(step_m))).sum()
    fast_rows = np.sort(moves.sort_column(row)[1:][fast])
    return TraceSteps(n, fast_rows, at_once.sum(), step_m[at_once].max(initial=0.0))


def report_doubts(table: TraceTable, moves: Moves) -> Notices:
    """What is doubtful about rows; moves : of the rows of the table, in its order."""
    n = len(moves.user)
    coordinates = table.coordinates
    place = table.fixes.place
    steps = measure_steps(moves)
    if n >= _MANY and len(np.unique(moves.user)) == n:
        yield notice("trace-users-many")
    if n > 1 and np.ptp(moves.time_s) == 0:
        yield notice("trace-one-time", number=n)
    if not table.relative:
        yield from _report_dates(table.fixes, moves)
    if coordinates.crs == GLOBE:
        yield from _report_no_fixes(place)
        yield from _report_regions(place, moves)
    wide_m = np.ptp(place, axis=0).max()
    if coordinates.crs is None and look_like_degrees(*place.T) and 0 < wide_m < _MAX_DEGREES:
        yield notice("trace-degrees-unnamed", width_m=wide_m)
    if coordinates == Coordinates(None) and np.abs(place).min(axis=0).max() > _FROM_ORIGIN_M:
        yield notice("trace-web-mercator")
    if steps.apart_m > TOO_FAST_M_S * _CLOCK_S:
        if steps.apart_m >= 1e3:
            far = f"{steps.apart_m / 1e3:,.1f} km"
        else:
            far = f"{steps.apart_m:,.1f} m"
        yield notice("trace-places-at-once", rows=format_count(steps.n_at_once, "row"), away=far)
    if steps.n_fast:
        first = [
            f"{table.fixes.line[k]} (user {table.users[moves.user[k]]})"
            for k in steps.fast[:_FIRST]
        ]
        lines = ", ".join(first)
        yield notice(
            "trace-too-fast", file=table.path, speed=steps.speed, number=steps.n_fast, first=lines
        )


def _report_dates(fixes: FixRows, moves: Moves) -> Notices:
    """Clocks that were not set, or whose weeks rolled over, and dates in place of times."""
    time_s = fixes.time_s
    offset_s = np.abs(time_s - np.median(time_s))
    odd = (time_s < _OLDEST_S) | (offset_s > _WEEKS_S / 2)
    if odd.any():
        yield notice(
            "trace-clock-unset", rows=format_count(odd.sum(), "row"), line=fixes.line[odd][0]
        )
    later_s = moves.gap_s[moves.gap_s > 0]
    at_midnight = not (time_s % 86_400.0).any()
    if 0 < len(later_s) < len(moves.gap_s) + at_midnight and later_s.min() >= _ALMOST_DAY_S:
        yield notice("trace-dates-alone")


def _report_regions(place: FloatArray, moves: Moves) -> Notices:
    """Rows that are more than 1,000 km apart, with boxes of 3 degrees around where most of them
    are.
    """
    elsewhere = np.ones(len(place), bool)
    boxes = list[str]()
    if np.ptp(moves.xy_m, axis=0).max() < 1e6:
        return
    while elsewhere.any() and len(boxes) < 3:
        square, n_rows = np.unique(
            np.floor(place[elsewhere]).astype(int), axis=0, return_counts=True
        )
        low, high = square[n_rows.argmax()] + [[-1], [2]]
        is_inside = ((low <= place) & (place <= high)).all(axis=1)
        box = ",".join(map(str, (*low, *high)))
        users = format_count(len(np.unique(moves.user[is_inside])), "user")
        boxes.append(f"--area-deg {box} ({users}, {format_count(is_inside.sum(), 'row')})")
        elsewhere &= ~is_inside
    yield notice("trace-regions", boxes=", ".join(boxes), number=elsewhere.sum())


def _report_no_fixes(place: FloatArray) -> Notices:
    """Rows at latitude 0, longitude 0, if the others are elsewhere, or on rows all near by, at
    sea.
    """
    zero = (place == 0).all(axis=1)
    if np.abs(place).max() < pi:
        yield notice("trace-near-zero")
        return
    placed = place[~zero]
    if not zero.any() or np.abs(np.median(placed, axis=0)).max() < _FAR_FROM_NO_FIX_DEG:
        return
    corners = [*(placed.min(axis=0) - _MARGIN_DEG), *(placed.max(axis=0) + _MARGIN_DEG)]
    box = ",".join(f"{corner:.4f}" for corner in corners)
    yield notice("trace-without-fix", rows=format_count(zero.sum(), "row"), box=box)

"""Simulated time: seconds from a local midnight, and the calendar and the wall clock behind
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from math import ceil, floor, inf
from typing import TypeVar

import numpy as np

from netsim.units import FloatArray, FloatPair, IntArray

_MIN = 1e-9
_SHARE = 2.0**-50
Times = TypeVar("Times", float, FloatArray)


def find_last_multiple(time_s: float, every_s: float) -> int:
    """The largest k with k every_s <= time_s."""
    count = time_s / every_s
    slack = _SHARE * count
    return floor(count + (slack if slack > _MIN else _MIN))  # a tick asks often: `max` takes longer


def find_last_multiples(time_s: FloatArray, every_s: float) -> FloatArray:
    """`find_last_multiple` of many times (n,), as floats; infinite for an infinite time."""
    count = time_s / every_s
    return np.floor(count + np.maximum(_MIN, _SHARE * count))


def find_first_multiple(time_s: float, every_s: float) -> int:
    """The smallest k with k every_s >= time_s."""
    count = time_s / every_s
    slack = _SHARE * count
    return ceil(count - (slack if slack > _MIN else _MIN))


def find_tick_after(time_s: float, tick_s: float) -> float:
    """The next multiple of tick_s after time_s, as the clock of events reaches it."""
    return time_s + ((find_last_multiple(time_s, tick_s) + 1) * tick_s - time_s)


def compute_rounding_s(span_s: float, time_s: Times) -> Times:
    """Rounding error of a span_s that is a difference of times up to time_s, a number or (n,): 1e-9
    and 8 roundings.
    """
    return _MIN * span_s + _SHARE * time_s


DAY_S = 86_400.0
WEEK_S = 7 * DAY_S


@dataclass(frozen=True)
class Clock:
    """Time 0 is local midnight at the start of `first_day`, or begins_s later; time is elapsed
    time: it never jumps.

    changes : (time_s, shift_s) in order of time. From time_s on the wall clock shows time_s +
    shift_s; before the first
        it shows the time itself. Without changes every day has 86,400 s; one at which clocks go
        back has 90,000.
    """

    first_day: date
    changes: tuple[FloatPair, ...] = ()

    @classmethod
    def from_first_day(cls, first_day: date, begins_s: float) -> Clock:
        """The clock whose time 0 is begins_s after the midnight of a day, which is then a negative
        time.
        """
        return cls(first_day, ((-begins_s, begins_s),) if begins_s else ())

    @property
    def begins_s(self) -> float:
        """What the wall clock shows at time 0."""
        return self._compute_shown_s(0.0)

    def _compute_shown_s(self, time_s: float) -> float:
        return float(self.wall_s(np.array(time_s)))

    def wall_s(self, time_s: FloatArray) -> FloatArray:
        """Times (...) of the wall clock, in seconds from the first midnight."""
        if not self.changes:
            return np.asarray(time_s, float)
        at_s, shift_s = np.array(self.changes).T
        return time_s + np.append(0.0, shift_s)[np.searchsorted(at_s, time_s, side="right")]

    def find_first_s(self, wall_s: FloatArray) -> FloatArray:
        """The first times (...) at which the wall clock shows wall_s (...) or later: the end of a
        skipped hour for an instant inside, the former of two for an instant that comes twice.
        """
        edge_s = (-inf, *(at_s for at_s, _ in self.changes), inf)
        shift_s = (0.0, *(shift for _, shift in self.changes))
        first = np.full(np.shape(wall_s), inf)
        for k in reversed(range(len(shift_s))):
            time_s = np.asarray(wall_s) - shift_s[k]
            first = np.where(time_s < edge_s[k + 1], np.maximum(time_s, edge_s[k]), first)
        return first

    def find_day(self, time_s: float) -> int:
        """Number of the local day, from 0."""
        return find_last_multiple(self._compute_shown_s(time_s), DAY_S)

    def find_ended_day(self, time_s: float) -> int:
        """Number of the local day, from 0, that holds the moment before: at midnight, the day that
        ends with it.
        """
        return max(find_first_multiple(self._compute_shown_s(time_s), DAY_S) - 1, 0)

    def weekday(self, day: int) -> int:
        """0 Monday ... 6 Sunday."""
        return (self.first_day + timedelta(days=day)).weekday()

    def week_s(self, time_s: float) -> float:
        """Seconds since the midnight with which the week began, a Monday's, by the wall clock."""
        return (self.first_day.weekday() * DAY_S + self._compute_shown_s(time_s)) % WEEK_S

    def to_text(self, time_s: float) -> str:
        """`2026-01-05 07:30` for people: the wall clock."""
        day, rest = divmod(self._compute_shown_s(time_s), DAY_S)
        minutes = int(rest // 60)
        return f"{self.first_day + timedelta(days=int(day))} {minutes // 60:02d}:{minutes % 60:02d}"

    def compute_round_ends_s(self, n_rounds: int, round_s: float) -> FloatArray:
        """Ends (n_rounds,) of the first rounds: of whole days at local midnight, else round_s
        apart.
        """
        number = np.arange(1.0, n_rounds + 1.0)
        if self._has_day_rounds(round_s):
            return self.find_first_s(number * round_s)
        return number * round_s

    def compute_round_end_s(self, round_: int, round_s: float) -> float:
        """End of one round, counted from 1."""
        if self._has_day_rounds(round_s):
            return float(self.find_first_s(np.array(round_ * round_s)))
        return round_ * round_s

    def find_shortest_round_s(self, n_rounds: int, round_s: float) -> float:
        """Shortest round after the first: of whole days that in which clocks go forward."""
        if not self._has_day_rounds(round_s):
            return round_s
        return round(np.diff(self.compute_round_ends_s(n_rounds, round_s)).min(initial=round_s), 6)

    def count_rounds(self, duration_s: float, round_s: float) -> int:
        """Number of rounds of a run; the last may be cut short."""
        n_rounds = find_first_multiple(duration_s, round_s)
        if self._has_day_rounds(round_s):
            # no change, nor all of them together, shifts the clock by two days
            n_rounds = max(n_rounds - 2, 0)
            while self.compute_round_end_s(n_rounds, round_s) < duration_s:
                n_rounds += 1
        return n_rounds

    def find_rounds(self, time_s: FloatArray, round_s: float) -> IntArray:
        """The rounds (n,), counted from 0, in which times (n,) lie."""
        if not self._has_day_rounds(round_s):
            return find_last_multiples(time_s, round_s).astype(int)
        last = self.count_rounds(np.max(time_s, initial=0.0), round_s) + 1
        return np.searchsorted(self.compute_round_ends_s(last, round_s), time_s, side="right")

    def _has_day_rounds(self, round_s: float) -> bool:
        return bool(self.changes) and round_s % DAY_S == 0

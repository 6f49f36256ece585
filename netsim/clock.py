"""Simulated time: seconds from a local midnight, and the calendar behind them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

DAY_S = 86_400.0


@dataclass(frozen=True)
class Clock:
    """Time 0 is local midnight at the start of `first_day`; days have 86,400 s."""

    first_day: date

    def day(self, time_s: float) -> int:
        """Day number from 0."""
        return int(time_s // DAY_S)

    def weekday(self, day: int) -> int:
        """0 Monday ... 6 Sunday."""
        return (self.first_day + timedelta(days=day)).weekday()

    def text(self, time_s: float) -> str:
        """`2026-01-05 07:30` for people."""
        day, rest = divmod(time_s, DAY_S)
        minutes = int(rest // 60)
        return f"{self.first_day + timedelta(days=int(day))} {minutes // 60:02d}:{minutes % 60:02d}"

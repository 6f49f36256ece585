"""Timetables: when each person sleeps, works and is free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.clock import DAY_S, Clock
from netsim.units import BoolArray, FloatArray, IntArray

NIGHT, WORK, FREE = range(3)
_HOUR_S = 3600.0


@dataclass(frozen=True, eq=False)
class Timetable:
    """Hours of the day (n,) of n people: in bed from night_h to morning_h, at work from work_from_h to work_until_h.

    works (n,) : whether the person works; work is Monday to Friday.
    """

    night_h: FloatArray
    morning_h: FloatArray
    work_from_h: FloatArray
    work_until_h: FloatArray
    works: BoolArray

    def at(self, row: IntArray, time_s: FloatArray, clock: Clock) -> tuple[IntArray, FloatArray]:
        """The period (m,) that people `row` (m,) are in at times (m,), and the time (m,) at which it ends, s."""
        wall_s = clock.wall_s(time_s)
        day = np.floor(wall_s / DAY_S)
        hour = (wall_s - day * DAY_S) / _HOUR_S
        night_h, morning_h = self.night_h[row], self.morning_h[row]
        from_h, until_h = self.work_from_h[row], self.work_until_h[row]
        workday = self.works[row] & ((clock.weekday(0) + day) % 7 < 5)
        period = np.full(len(row), FREE)
        period[workday & (hour >= from_h) & (hour < until_h)] = WORK
        period[(hour < morning_h) | (hour >= night_h)] = NIGHT
        free_until_h = np.where(workday & (hour < from_h), from_h, night_h)
        morning_end_h = np.where(hour < morning_h, morning_h, 24.0 + morning_h)
        end_h = np.choose(period, [morning_end_h, until_h, free_until_h])
        return period, clock.first_s(day * DAY_S + end_h * _HOUR_S)

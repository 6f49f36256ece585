"""Timetables: when each person sleeps, works and is free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.clock import DAY_S, Clock
from netsim.units import BoolArray, FloatArray, IntArray

NIGHT, WORK, FREE = range(3)
_HOUR_S = 3600.0
_LATEST_NIGHT_H = 23.9  # so that every night begins on the day that it belongs to
_ROUNDING_H = 1e-6  # an hour that is computed from the end of a period belongs to the next one


@dataclass(frozen=True, eq=False)
class Timetable:
    """Hours of the day (n,) of n people: in bed from night_h to morning_h, at work from work_from_h to work_until_h.

    works (n,) : whether the person works.
    """

    night_h: FloatArray
    morning_h: FloatArray
    work_from_h: FloatArray
    work_until_h: FloatArray
    works: BoolArray

    def at(
        self, row: IntArray, time_s: FloatArray, clock: Clock, late_h: FloatArray, workday: BoolArray
    ) -> tuple[IntArray, FloatArray]:
        """The period (m,) that people `row` (m,) are in at times (m,), and the time (m,) at which it ends, s.

        late_h (m, 3) : how much later than usual work and evening of that day are, and the next morning, h. workday
        (m,) : whether people with work do work that day.
        """
        day, second = np.divmod(clock.wall_s(time_s), DAY_S)
        hour = second / _HOUR_S + _ROUNDING_H
        night_h = np.minimum(self.night_h[row] + late_h[:, 1], _LATEST_NIGHT_H)
        morning_h, next_h = self.morning_h[row] + late_h[:, 0], self.morning_h[row] + late_h[:, 2]
        from_h, until_h = self.work_from_h[row] + late_h[:, 0], self.work_until_h[row] + late_h[:, 0]
        works = self.works[row] & workday
        period = np.full(len(row), FREE)
        period[works & (hour >= from_h) & (hour < until_h)] = WORK
        period[(hour < morning_h) | (hour >= night_h)] = NIGHT
        free_until_h = np.where(works & (hour < from_h), from_h, night_h)
        morning_end_h = np.where(hour < morning_h, morning_h, 24.0 + next_h)
        end_h = np.choose(period, [morning_end_h, until_h, free_until_h])
        return period, clock.first_s(day * DAY_S + end_h * _HOUR_S)

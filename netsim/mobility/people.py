"""People: home, workplace, hours and mode of travel of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.mobility.timetable import Timetable
from netsim.mobility.venues import Rooms, Venues, rooms
from netsim.rng import Rng
from netsim.streets.graph import CYCLE, DRIVE, WALK
from netsim.units import BoolArray, FloatArray, IntArray

_MORNING_H, _NIGHT_H, _WORK_FROM_H, _WORK_UNTIL_H, _LUNCH_H = 7.0, 22.0, 9.0, 17.0, 12.0
_SHIFT_H, _LUNCH_STD_H, _TAIL = 1.0, 0.5, 2.0  # deviations of a person's hours, cut at 2 standard deviations


@dataclass(frozen=True, eq=False)
class PopulationShares:
    """Shares of the population: without work, working at home (of those who work), driving, cycling."""

    no_work: float
    work_at_home: float
    drive: float
    cycle: float


@dataclass(frozen=True, eq=False)
class People:
    """n people, who do not change during a run.

    home, work (n,) : places; work is home for those who work at home, or not at all.
    home_room, work_room : their rooms there.
    timetable : their hours; lunch_h (n,) and lunches (n,): when and with which probability they leave work for lunch.
    mode (n,) : how they travel when it is too far to walk.
    """

    home: IntArray
    work: IntArray
    home_room: Rooms
    work_room: Rooms
    timetable: Timetable
    lunch_h: FloatArray
    lunches: FloatArray
    mode: IntArray

    @classmethod
    def drawn(cls, ue: IntArray, venues: Venues, shares: PopulationShares, rng: Rng) -> People:
        """Homes in proportion to floor area, workplaces in proportion to attractiveness, never at home."""
        unit, hour = rng.uniform("person", ue, (6,)), rng.normal("hours", ue, (3,))
        hour = np.clip(hour, -_TAIL, _TAIL)
        home = weighted(unit[:, 0], venues.premises.floor_area_m2)
        works = unit[:, 1] >= shares.no_work
        away = works & (unit[:, 2] >= shares.work_at_home)
        work = np.where(away, weighted_elsewhere(unit[:, 3], venues.weight, home), home)
        day_h, evening_h = _SHIFT_H * hour[:, 0], _SHIFT_H * hour[:, 1]
        table = Timetable(
            night_h=_NIGHT_H + evening_h,
            morning_h=_MORNING_H + day_h,
            work_from_h=_WORK_FROM_H + day_h,
            work_until_h=_WORK_UNTIL_H + day_h,
            works=works,
        )
        home_room, office = rooms(venues, home, rng, "home", ue), rooms(venues, work, rng, "work", ue)
        work_room = office.where(away, home_room)
        rides = np.where(unit[:, 4] < shares.drive + shares.cycle, CYCLE, WALK)
        mode = np.where(unit[:, 4] < shares.drive, DRIVE, rides)
        lunch_h = _LUNCH_H + _LUNCH_STD_H * hour[:, 2]
        return cls(home, work, home_room, work_room, table, lunch_h, unit[:, 5], mode)

    @property
    def commutes(self) -> BoolArray:
        """Whether each person has a workplace away from home (n,)."""
        return np.asarray(self.work != self.home)


def weighted(unit: FloatArray, weight: FloatArray) -> IntArray:
    """An index (n,) with probability in proportion to weight (k,), by inversion of unit (n,)."""
    upto = np.cumsum(weight)
    return np.asarray(np.minimum(np.searchsorted(upto, unit * upto[-1], side="right"), len(weight) - 1))


def weighted_elsewhere(unit: FloatArray, weight: FloatArray, but: IntArray) -> IntArray:
    """As `weighted`, with weight 0 for one index each, but (n,)."""
    upto = np.cumsum(weight)
    before, own = upto[but] - weight[but], weight[but]
    mark = unit * (upto[-1] - own)
    chosen = np.searchsorted(upto, np.where(mark < before, mark, mark + own), side="right")
    chosen = np.minimum(chosen, len(weight) - 1)
    beside = np.where(but == 0, 1, but - 1)  # sums are rounded, so the index left out may come up
    return np.where(chosen == but, beside, chosen)

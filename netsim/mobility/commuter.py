"""Commuters: a daily schedule of home, work, lunch and an evening stop, with fixes every few minutes."""

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.clock import DAY_S
from netsim.errors import BadInput
from netsim.mobility.base import Ground, Mobility, Places, State
from netsim.mobility.diary import Day, dwell_fixes, walk_fixes, walked
from netsim.mobility.places import Points, drawn_m, inside_m, listed_m
from netsim.rng import Rng
from netsim.ues import Fixes
from netsim.units import FloatArray, IntArray

_HOME, _WORK, _THIRD = 0, 1, 2  # rows of a UE's places; all rows from _THIRD on are third places
_HOUR_S = 3600.0
_MORNING_H, _LATE_MORNING_H, _NIGHT_H = 7.0, 8.0, 23.5  # [dlg 11] first fixes of a workday, of others; last
# [dlg 11] leave home 08:30, lunch 12:12, leave work 17:48; the source gives no deviation for lunch
_HOUR_MEAN, _HOUR_STD = np.array([8.5, 12.2, 17.8]), np.array([0.5, 0.25, 0.8])
_TRIP_PROBABILITY, _TRIP_AT_H = 0.7, 12.0  # [dlg 11] a trip on days without work
_PACE_LOW, _PACE_HIGH = 0.85, 1.6  # [dlg 11] speed of a walk over walk_speed_m_s
_CORNER_STD_M = 25.0  # [dlg 11]
_TAIL = 3.0  # hours and corners are cut at 3 deviations, so that every day ends at home
_MAX_WALK_S = 4000.0  # from work at 20:12, two such walks and a stop of 1.5 h end before midnight
_THIRD_PLACES = 4  # [dlg 11]
_DWELL_FIXES_PER_H, _WORK_FIXES_PER_H = 25.0, 18.0  # [dlg 11] at home and third places; at work
_WALK_FIX_EVERY_S = 15.0  # [dlg 11]
_HOME_SPREAD_M, _WORK_SPREAD_M, _THIRD_SPREAD_M = 18.0, 22.0, 15.0  # [dlg 11] deviation of fixes, per axis
_GPS_NOISE_M = 4.0  # deviation of fixes on a walk, per axis
_SKIP_DAY, _COMMUTE, _LUNCH, _EVENING = 0.04, 0.92, 0.6, 0.3  # [dlg 11] probabilities; the last two on a workday
_BLOCK = 512  # UEs whose fixes are drawn at once, to bound memory


@dataclass(frozen=True)
class CommuterDay:
    """A simulated day: its number, the schedule of every UE, and the fixes, in s from midnight of the first day."""

    day: int
    plan: Day
    fixes: Fixes


@dataclass(frozen=True, eq=False)
class CommuterState(State):
    """ue (n_ue,); place_m (n_ue, 2 + third places, 2): home, work and others; today: None before the first day."""

    ue: IntArray
    place_m: FloatArray
    today: CommuterDay | None = None


class Commuter(Mobility):
    r"""UEs with a home, a workplace and a daily schedule, which measure at random times at places and on the way.

    A day has six stays with five walks between them; a skipped stay or walk has length zero (hours are N(mean, std))::

        workday    home 07:00 to N(8:30, 0.5 h), work, lunch at a third place from N(12:12, 0.25 h) for
                   U(0.4, 1) h, work to N(17:48, 0.8 h), a stop at a third place for U(0.5, 1.5) h,
                   home to 23:30
        other day  home 08:00 to 12:00, with probability 0.7 a third place for U(0.5, 3) h, home to 23:30

    A walk goes east or west first, then north or south, through a corner with 25 m of jitter, at walk_speed_m_s
    x U(0.85, 1.6). Fixes at a place are a Poisson process in time and Gaussian around the place; fixes on the
    way are regular. At night and on a skipped day a UE is at home and takes no fixes.

    Day d of UE u depends on (seed, u, d) only. Fixes are clipped to the area.

    Departs from the source: no cap of 3,500 fixes a week; hours and corners are truncated at 3 standard deviations;
    the deviation of the lunch hour, which the source does not give, is 0.25 h.
    """

    reference: ClassVar = (
        "own generator [dlg 11], after the users of Bakopoulou et al., 'Location Leakage in Federated Signal Maps'"
    )
    example: ClassVar = {"kind": "commuter"}
    needs: ClassVar = {
        "open-ground": "a diary walks straight from place to place and would pass through the walls of buildings; "
        "take city open-field, or mobility random-waypoint"
    }
    has_own_fixes: ClassVar[bool] = True

    kind: Literal["commuter"] = "commuter"
    home_m: Points | None = None
    """homes [[x, y], ...] in m; UE u takes entry u mod length; none: drawn uniformly per UE"""
    work_m: Points | None = None
    """workplaces [[x, y], ...] in m, as home_m; none: drawn at least a third of the area's shorter side from home"""
    third_places_m: Points | None = None
    """places for lunch, evenings and trips [[x, y], ...] in m, for all UEs; none: four drawn per UE"""
    walk_speed_m_s: float = Field(default=1.4, gt=0)
    """walking speed before its factor U(0.85, 1.6), m/s"""

    def start(self, ue: IntArray, ground: Ground) -> CommuterState:
        """All UEs at home."""
        place_m = self._all_places(ue, ground)
        self._refuse_long_walks(place_m)
        return CommuterState(place_m[:, _HOME].copy(), ue, place_m)

    def advance(self, state: CommuterState, t0_s: float, t1_s: float, ground: Ground) -> tuple[CommuterState, Fixes]:
        """Simulates every day that overlaps the window; returns the fixes inside the window."""
        taken, today = [Fixes.none()], state.today
        days = range(ground.clock.day(t0_s), ceil(t1_s / DAY_S))
        for day in days:
            if today is None or today.day != day:
                today = self._live(day, state.ue, state.place_m, ground)
            within = (today.fixes.time_s >= t0_s) & (today.fixes.time_s < t1_s)
            taken.append(today.fixes.select(within))
        if today is not None and len(days):
            row = np.arange(len(state.ue))
            time_s = np.full(len(row), t1_s - today.day * DAY_S)
            state = replace(state, position_m=today.plan.at(row, time_s), today=today)
        return state, _in_order(Fixes.join(taken))

    def wake_s(self, state: CommuterState, now_s: float, ground: Ground) -> float:
        """The morning if it is night for all UEs, else now."""
        day, today = ground.clock.day(now_s), state.today
        morning_s = day * DAY_S + _MORNING_H * _HOUR_S
        if today is not None and today.day == day and now_s >= day * DAY_S + today.plan.knot_s[:, -1].max(initial=0.0):
            return morning_s + DAY_S
        return max(now_s, morning_s)

    def places(self, state: CommuterState, ground: Ground) -> Places:
        """Homes and workplaces."""
        return Places(state.place_m[:, _HOME], state.place_m[:, _WORK])

    def _live(self, day: int, ue: IntArray, place_m: FloatArray, ground: Ground) -> CommuterDay:
        """Schedule, route and fixes of one day."""
        rng = ground.streams.at("mobility.commuter", day)
        low_m, high_m = ground.area.low_m, ground.area.high_m
        stop, from_s, until_s, stay_s = self._plan(rng, ue, place_m.shape[1] - _THIRD, ground.clock.weekday(day) < 5)
        at_m = place_m[np.arange(len(ue))[:, None], stop]  # (n, 6, 2)
        corner_m = np.stack([at_m[:, 1:, 0], at_m[:, :-1, 1]], axis=2)  # (n, 5, 2)
        jitter_m = _CORNER_STD_M * np.clip(rng.normal("corner", ue, (5, 2)), -_TAIL, _TAIL)
        stays_put = (stop[:, 1:] == stop[:, :-1])[:, :, None]
        corner_m = np.where(stays_put, at_m[:, 1:], np.clip(corner_m + jitter_m, low_m, high_m))
        pace = _PACE_LOW + (_PACE_HIGH - _PACE_LOW) * rng.uniform("pace", ue, (5,))
        plan = walked(at_m, corner_m, self.walk_speed_m_s * pace, from_s, until_s, stay_s)
        fixes = self._fixes(plan, np.minimum(stop, _THIRD), ue, rng)
        kept_m = np.clip(fixes.position_m, low_m, high_m)
        return CommuterDay(day, plan, Fixes(fixes.ue, fixes.time_s + day * DAY_S, kept_m))

    def _plan(
        self, rng: Rng, ue: IntArray, n_third: int, weekday: bool
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Schedule in s of the day: place index (n, 6), start (n,), end time and further stay (n, 6) of each stay."""
        chance = rng.uniform("chance", ue, (8,)).T
        hours = _HOUR_MEAN + _HOUR_STD * np.clip(rng.normal("hour", ue, (3,)), -_TAIL, _TAIL)
        leave_h, lunch_h, close_h = hours.T
        out = chance[0] >= _SKIP_DAY
        works = out & weekday & (chance[1] < _COMMUTE)
        lunch = works & (chance[2] < _LUNCH)
        evening = works & (chance[3] < _EVENING)
        trip = out & ~works & (chance[2] < _TRIP_PROBABILITY)
        midday, after = _THIRD + (chance[4:6] * n_third).astype(np.int64)
        office = np.where(works, _WORK, _HOME)
        home, zero = np.zeros_like(midday), np.zeros(len(ue))
        stop = [
            home,
            np.where(trip, midday, office),
            np.where(lunch, midday, office),
            office,
            np.where(evening, after, _HOME),
            home,
        ]
        morning_h, night_h = np.where(works, leave_h, _TRIP_AT_H), np.full(len(ue), _NIGHT_H)
        until_h = [morning_h, lunch * lunch_h, zero, works * close_h, zero, night_h]
        trip_h, meal_h, evening_h = 0.5 + 2.5 * chance[6], 0.4 + 0.6 * chance[6], 0.5 + chance[7]  # [dlg 11]
        stay_h = [zero, trip * trip_h, lunch * meal_h, zero, evening * evening_h, zero]
        # a skipped day begins and ends at midnight
        from_s = out * np.where(works, _MORNING_H, _LATE_MORNING_H) * _HOUR_S
        until_s = out[:, None] * np.stack(until_h, axis=1) * _HOUR_S
        return np.stack(stop, axis=1), from_s, until_s, np.stack(stay_h, axis=1) * _HOUR_S

    def _fixes(self, plan: Day, role: IntArray, ue: IntArray, rng: Rng) -> Fixes:
        """All fixes of the day, sorted by (ue, time); times in s of the day."""
        rate_per_h = np.array([_DWELL_FIXES_PER_H, _WORK_FIXES_PER_H, _DWELL_FIXES_PER_H])
        spread_m = np.array([_HOME_SPREAD_M, _WORK_SPREAD_M, _THIRD_SPREAD_M])
        pieces = [Fixes.none()]
        for first in range(0, len(ue), _BLOCK):
            some = slice(first, first + _BLOCK)
            part = Day(plan.knot_s[some], plan.knot_m[some])
            rate_per_s = rate_per_h[role[some]] / _HOUR_S
            pieces.append(dwell_fixes(part, rate_per_s, spread_m[role[some]], ue[some], rng))
            pieces.append(walk_fixes(part, _WALK_FIX_EVERY_S, _GPS_NOISE_M, ue[some], rng))
        return _in_order(Fixes.join(pieces))

    def _all_places(self, ue: IntArray, ground: Ground) -> FloatArray:
        """Home, work and third places (n, 2 + n_third, 2) of every UE."""
        rng, area = ground.streams.at("mobility.commuter"), ground.area
        home = None if self.home_m is None else listed_m(self.home_m, ue, area, "world.ues.mobility.home_m")
        work = None if self.work_m is None else listed_m(self.work_m, ue, area, "world.ues.mobility.work_m")
        if home is None:
            home = drawn_m(rng, "home", ue, area, away_from=work)
        if work is None:
            work = drawn_m(rng, "work", ue, area, away_from=home)
        if self.third_places_m is None:
            third = inside_m(area, rng.uniform("third", ue, (_THIRD_PLACES, 2)))
        else:
            each = np.arange(len(self.third_places_m))
            third = listed_m(self.third_places_m, each, area, "world.ues.mobility.third_places_m")
            third = np.broadcast_to(third, (len(ue), *third.shape))
        return np.concatenate([home[:, None], work[:, None], third], axis=1)

    def _refuse_long_walks(self, place_m: FloatArray) -> None:
        """Raises BadInput if a walk is too long for the day to end at home."""
        detour_m = 4 * _TAIL * _CORNER_STD_M  # there and back, along both axes
        max_distance_m = float(np.ptp(place_m, axis=1).sum(axis=1).max(initial=0.0)) + detour_m
        needed_m_s = max_distance_m / (_PACE_LOW * _MAX_WALK_S)
        if needed_m_s > self.walk_speed_m_s:
            raise BadInput(
                f"world.ues.mobility.walk_speed_m_s: {self.walk_speed_m_s:g} m/s is too slow for a way of "
                f"{max_distance_m:.0f} m between places of one UE; give at least {needed_m_s:.2f} (a car: 8), "
                "or nearer places"
            )


def _in_order(fixes: Fixes) -> Fixes:
    return fixes.select(np.lexsort((fixes.time_s, fixes.ue)))

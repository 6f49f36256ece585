"""Commuters: a daily schedule of home, work, lunch and an evening stop, with fixes every few
minutes.
"""

from math import ceil

import numpy as np
from numpy.linalg import norm
from pydantic import PositiveFloat

from netsim.clock import DAY_S
from netsim.columns import copy_with, frozen, rank_in_groups
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.mobility.base import Ground, Mobility, Places, Points, State, assign_places
from netsim.part import Fraction
from netsim.rng import Rng
from netsim.streets.graph import Paths
from netsim.ues import Fixes
from netsim.units import FloatArray, IntArray

_HOME = 0  # rows of a UE's places; all rows from _THIRD on are third places
_WORK = 1
_THIRD = 2
_HOUR_S = 3600.0
_MORNING_H = 7.0  # [dlg 11] first fixes of a workday
_LATE_MORNING_H = 8.0  # [dlg 11] first fixes of other days
_NIGHT_H = 23.5  # [dlg 11] last fixes
# [dlg 11] leave home 08:30, lunch 12:12, leave work 17:48; the source gives no deviation for lunch
_HOUR_MEAN = np.array([8.5, 12.2, 17.8])
_HOUR_STD = np.array([0.5, 0.25, 0.8])
_TRIP_PROBABILITY = 0.7  # [dlg 11] a trip on days without work
_TRIP_AT_H = 12.0  # [dlg 11]
_PACE_LOW = 0.85  # [dlg 11] speed of a walk over walk_speed_m_s
_PACE_HIGH = 1.6  # [dlg 11]
_CORNER_STD_M = 25.0  # [dlg 11]
_TAIL = 3.0  # hours and corners are cut at 3 deviations, so that every day ends at home
_MAX_WALK_S = 4000.0  # from work at 20:12, two such walks and a stop of 1.5 h end before midnight
_THIRD_PLACES = 4  # [dlg 11]
_FIXES_PER_H = np.array([25.0, 18.0, 25.0])  # [dlg 11] at home, work, third places
_WALK_FIX_EVERY_S = 15.0  # [dlg 11]
_SPREAD_M = np.array([18.0, 22.0, 15.0])  # [dlg 11] deviation of fixes there, per axis
_GPS_NOISE_M = 4.0  # deviation of fixes on a walk, per axis
_SKIP_DAY = 0.04  # [dlg 11] probability, as are the next two
_LUNCH = 0.6  # on a workday
_EVENING = 0.3  # on a workday
_MARGIN = 0.05  # of each side of the area, without places drawn at random
_TRIES = 64  # candidates for a place; each is too near with probability below 0.5


@frozen
class CommuterDay:
    """A simulated day: its number, the ways of all UEs by the second of the day, and the fixes, in
    s from time 0.
    """

    day: int
    way: Paths
    fixes: Fixes


@frozen
class CommuterState(State):
    """ue (n_ue,); place_m (n_ue, 2 + third places, 2): home, work and others; today: None before
    the first day.
    """

    ue: IntArray
    place_m: FloatArray
    today: CommuterDay | None = None


class Commuter(Mobility, kind="commuter"):
    r"""UEs with a home, a workplace and a daily schedule, which measure at random times at places
    and on the way.

    A day has six stays with five walks between them; a skipped stay or walk has length zero (hours
    are N(mean, std))::

        workday    home 07:00 to N(8:30, 0.5 h), work, lunch at a third place from N(12:12, 0.25 h)
        for
                   U(0.4, 1) h, work to N(17:48, 0.8 h), a stop at a third place for U(0.5, 1.5) h,
                   home to 23:30
        other day  home 08:00 to 12:00, with probability 0.7 a third place for U(0.5, 3) h, home to
        23:30

    A walk goes east or west first, then north or south, through a corner with 25 m of jitter, at
    walk_speed_m_s x U(0.85, 1.6). Fixes at a place are a Poisson process in time and Gaussian
    around the place; fixes on the way are regular. At night and on a skipped day a UE is at home
    and takes no fixes.

    Day d of UE u depends on (seed, u, d) only. Fixes are clipped to the area.

    Departs from the source: no cap of 3,500 fixes a week; hours and corners are truncated at 3
    standard deviations; the deviation of the lunch hour, which the source does not give, is 0.25 h.
    """

    reference = (
        "own generator [dlg 11], after the users of Bakopoulou et al., 'Location Leakage in "
        "Federated Signal Maps'"
    )
    needs = {
        "open-ground": (
            "a diary walks straight from place to place and would pass through the walls of "
            "buildings; take city open-field, or mobility random-waypoint"
        )
    }
    has_own_fixes = True

    has_homes = True
    home_m: Points | None = None
    """homes [[x, y], ...] in m; UE u takes entry u mod length; none: drawn uniformly per UE"""
    work_m: Points | None = None
    """workplaces [[x, y], ...] in m, as home_m; none: drawn at least a third of the area's shorter
    side from home"""
    third_places_m: Points | None = None
    """places for lunch, evenings and trips [[x, y], ...] in m, for all UEs; none: four drawn per
    UE"""
    walk_speed_m_s: PositiveFloat = 1.4
    """walking speed before its factor U(0.85, 1.6), m/s"""
    commute_probability: Fraction = 0.92
    """probability of a day at work, of Monday to Friday"""

    def start(self, ue: IntArray, ground: Ground) -> CommuterState:
        rng = ground.streams.derive_rng("mobility.commuter")
        area = ground.area
        key = "world.ues.mobility."
        home = None if self.home_m is None else assign_places(self.home_m, ue, area, f"{key}home_m")
        work = None if self.work_m is None else assign_places(self.work_m, ue, area, f"{key}work_m")
        home = _draw_places(rng, "home", ue, area, work) if home is None else home
        work = _draw_places(rng, "work", ue, area, home) if work is None else work
        third = _map_inside(area, rng.uniform("third", ue, (_THIRD_PLACES, 2)))
        if self.third_places_m is not None:
            shared = assign_places(
                self.third_places_m,
                np.arange(len(self.third_places_m)),
                area,
                f"{key}third_places_m",
            )
            third = np.tile(shared, (len(ue), 1, 1))
        place_m = np.concatenate([home[:, None], work[:, None], third], axis=1)
        self._refuse_long_walks(place_m)
        return self.advance(CommuterState(home, ue, place_m), 0.0, 0.0, ground)[0]

    def advance(
        self, state: CommuterState, t0_s: float, t1_s: float, ground: Ground
    ) -> tuple[CommuterState, Fixes]:
        """Simulates every day that overlaps the window; returns the fixes inside the window."""
        taken = [Fixes.none()]
        wall_s = ground.clock.begins_s + t1_s
        for day in range(ground.clock.find_day(t0_s), ceil(wall_s / DAY_S)):
            today = state.today
            if today is None or today.day != day:
                today = self._simulate_day(day, state, ground)
            is_inside = (today.fixes.time_s >= t0_s) & (today.fixes.time_s < t1_s)
            taken.append(today.fixes.select(is_inside))
            second_of_day = np.full(len(state.ue), wall_s - day * DAY_S)
            position_m = today.way.interpolate_m(np.arange(len(state.ue)), second_of_day)
            state = copy_with(state, position_m=position_m, today=today)
        fixes = Fixes.join(taken)
        return state, fixes.select(np.lexsort((fixes.time_s, fixes.ue)))

    def wake_s(self, state: CommuterState, now_s: float, ground: Ground) -> float:
        """The morning if it is night for all UEs, else now."""
        day = ground.clock.find_day(now_s)
        today = state.today
        midnight_s = day * DAY_S - ground.clock.begins_s
        morning_s = midnight_s + _MORNING_H * _HOUR_S
        if (
            today is not None
            and today.day == day
            and now_s >= midnight_s + today.way.span.max(initial=0.0)
        ):
            return morning_s + DAY_S
        return max(now_s, morning_s)

    def places(self, state: CommuterState, ground: Ground) -> Places:
        return Places(state.place_m[:, _HOME], state.place_m[:, _WORK])

    def _simulate_day(self, day: int, state: CommuterState, ground: Ground) -> CommuterDay:
        rng = ground.streams.derive_rng("mobility.commuter", day)
        ue = state.ue
        n = len(ue)
        low_m = ground.area.low_m
        high_m = ground.area.high_m
        n_third = state.place_m.shape[1] - _THIRD
        stop, arrives_s, earliest_s, stay_s = self._draw_schedule(
            rng, ue, n_third, ground.clock.weekday(day) < 5
        )
        place_m = state.place_m[np.arange(n)[:, None], stop]  # (n, 6, 2)
        next_m = np.concatenate([place_m[:, 1:], place_m[:, -1:]], axis=1)
        jitter_m = np.zeros_like(place_m)
        normal = np.clip(rng.normal("corner", ue, (5, 2)), -_TAIL, _TAIL)
        jitter_m[:, :-1] = _CORNER_STD_M * normal
        straight_m = np.stack([next_m[..., 0], place_m[..., 1]], axis=2)
        corner_m = np.clip(straight_m + jitter_m, low_m, high_m)
        is_same = stop[:, 1:] == stop[:, :-1]
        stays_put = np.append(is_same, np.full((n, 1), True), axis=1)
        corner_m = np.where(stays_put[:, :, None], next_m, corner_m)
        # (n, 6, 3, 2): arrival, departure, corner of the walk
        knot_m = np.stack([place_m, place_m, corner_m], axis=2)
        pace = np.append(rng.uniform("pace", ue, (5,)), np.zeros((n, 1)), axis=1)
        speed_m_s = self.walk_speed_m_s * (_PACE_LOW + (_PACE_HIGH - _PACE_LOW) * pace)
        first_s = norm(corner_m - place_m, axis=2) / speed_m_s
        second_s = norm(next_m - corner_m, axis=2) / speed_m_s
        knot_s = np.empty(knot_m.shape[:3])
        for k in range(6):
            until_s = np.maximum(earliest_s[:, k], arrives_s)
            leaves_s = until_s + stay_s[:, k]
            turns_s = leaves_s + first_s[:, k]
            knot_s[:, k] = np.stack([arrives_s, leaves_s, turns_s], axis=1)
            arrives_s = knot_s[:, k, 2] + second_s[:, k]
        way = Paths(knot_m.reshape(-1, 2), 18 * np.arange(n + 1), knot_s.ravel())
        role = np.minimum(stop, _THIRD)
        arrive_s = knot_s[..., 0]
        leave_s = knot_s[..., 1]
        rate_per_s = _FIXES_PER_H[role] / _HOUR_S
        row, stay, time_s, scatter = _draw_dwell_fixes(arrive_s, leave_s, rate_per_s, ue, rng)
        spread_m = _SPREAD_M[role[row, stay]][:, None]
        position_m = place_m[row, stay] + spread_m * scatter
        walker, walk_s, noise = _draw_walk_fixes(arrive_s, leave_s, ue, rng)
        walk_m = way.interpolate_m(walker, walk_s) + _GPS_NOISE_M * noise
        taken_m = np.clip(np.concatenate([position_m, walk_m]), low_m, high_m)
        taken_s = np.concatenate([time_s, walk_s]) + (day * DAY_S - ground.clock.begins_s)
        return CommuterDay(day, way, Fixes(ue[np.concatenate([row, walker])], taken_s, taken_m))

    def _draw_schedule(
        self, rng: Rng, ue: IntArray, n_third: int, weekday: bool
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Six stays of every UE in s of the day: index of the place (n, 6), when the first begins
        (n,), until when at least (n, 6), and how long after that and the arrival (n, 6).
        """
        chance = rng.uniform("chance", ue, (8,)).T
        hours = _HOUR_MEAN + _HOUR_STD * np.clip(rng.normal("hour", ue, (3,)), -_TAIL, _TAIL)
        leave_h, lunch_h, close_h = hours.T
        out = chance[0] >= _SKIP_DAY
        works = out & weekday & (chance[1] < self.commute_probability)
        lunch = works & (chance[2] < _LUNCH)
        evening = works & (chance[3] < _EVENING)
        trip = out & ~works & (chance[2] < _TRIP_PROBABILITY)
        midday, after = _THIRD + (chance[4:6] * n_third).astype(int)
        office = works * _WORK
        trip_h = 0.5 + 2.5 * chance[6]  # [dlg 11]
        meal_h = 0.4 + 0.6 * chance[6]  # [dlg 11]
        evening_h = 0.5 + chance[7]  # [dlg 11]
        morning_h = np.where(works, leave_h, _TRIP_AT_H)
        zero = np.zeros(len(ue))
        trip_stop = np.where(trip, midday, office)
        lunch_stop = np.where(lunch, midday, office)
        # where, until when, and for how long after that
        stays = [
            (zero, morning_h, zero),
            (trip_stop, lunch * lunch_h, trip * trip_h),
            (lunch_stop, zero, lunch * meal_h),
            (office, works * close_h, zero),
            (evening * after, zero, evening * evening_h),
            (zero, zero + _NIGHT_H, zero),
        ]
        stop, until_h, stay_h = np.array(stays).transpose(1, 2, 0)
        # a skipped day begins and ends at midnight
        from_s = out * np.where(works, _MORNING_H, _LATE_MORNING_H) * _HOUR_S
        until_s = out[:, None] * until_h * _HOUR_S
        return stop.astype(int), from_s, until_s, stay_h * _HOUR_S

    def _refuse_long_walks(self, place_m: FloatArray) -> None:
        detour_m = 4 * _TAIL * _CORNER_STD_M  # there and back, along both axes
        max_distance_m = np.ptp(place_m, axis=1).sum(axis=1).max(initial=0.0) + detour_m
        needed_m_s = max_distance_m / (_PACE_LOW * _MAX_WALK_S)
        if needed_m_s > self.walk_speed_m_s:
            raise BadInput(
                f"world.ues.mobility.walk_speed_m_s: {self.walk_speed_m_s:g} m/s is too slow for "
                f"a way of {max_distance_m:.0f} m between places of one UE; give at least "
                f"{needed_m_s:.2f} (a car: 8), or nearer places"
            )


def _draw_dwell_fixes(
    arrive_s: FloatArray, leave_s: FloatArray, rate_per_s: FloatArray, ue: IntArray, rng: Rng
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Fixes at stays (n, 6): a Poisson process of a rate each: row and stay (m,), time (m,), normal
    numbers (m, 2).

    Arrivals of a process of rate 1 are mapped through the inverse of the integrated rate of the
    day, which gives the process of varying rate [Cinlar 1975, Ch. 4]. The random numbers of a UE do
    not depend on other UEs.
    """
    mean = rate_per_s * (leave_s - arrive_s)
    upto = np.cumsum(mean, axis=1)
    max_mean = upto.max(initial=0.0)
    # a Poisson count above this has probability below 1e-12
    count = int(max_mean + 8 * np.sqrt(max_mean) + 20)
    arrival = np.cumsum(rng.exponential("dwell", ue, (count,)), axis=1)  # (n, count)
    stay = sum(arrival >= until[:, None] for until in upto.T)
    row, column = np.nonzero(stay < upto.shape[1])
    k = stay[row, column]
    before = (upto - mean)[row, k]
    since_s = (arrival[row, column] - before) / rate_per_s[row, k]
    normal = rng.normal("spread", ue, (count, 2))
    return row, k, arrive_s[row, k] + since_s, normal[row, column]


def _draw_walk_fixes(
    arrive_s: FloatArray, leave_s: FloatArray, ue: IntArray, rng: Rng
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Fixes at the start of each walk between stays (n, 6) and regularly after it: row, time (m,),
    numbers (m, 2).
    """
    leave_s = leave_s[:, :-1]
    count = np.ceil((arrive_s[:, 1:] - leave_s) / _WALK_FIX_EVERY_S).astype(int)
    index = np.repeat(np.arange(count.size), count.ravel())
    row, walk = np.divmod(index, count.shape[1])
    per_ue = count.sum(axis=1)
    time_s = leave_s[row, walk] + _WALK_FIX_EVERY_S * rank_in_groups(count.ravel())
    return (
        row,
        time_s,
        rng.normal("walk", ue, (per_ue.max(initial=1), 2))[row, rank_in_groups(per_ue)],
    )


def _map_inside(area: Area, unit: FloatArray) -> FloatArray:
    """Uniform numbers (..., 2) mapped to places inside the margin of the area."""
    return area.sample(_MARGIN + (1 - 2 * _MARGIN) * unit)


def _draw_places(
    rng: Rng, name: str, ue: IntArray, area: Area, away_from: FloatArray | None
) -> FloatArray:
    """A uniform place (n, 2) per UE, at least a third of the shorter side away from another (n,
    2).
    """
    if away_from is None:
        return _map_inside(area, rng.uniform(name, ue, (2,)))
    candidate = _map_inside(area, rng.uniform(name, ue, (_TRIES, 2)))  # (n, tries, 2)
    distance_m = norm(candidate - away_from[:, None], axis=2)
    far = distance_m >= area.side_m.min() / 3
    return candidate[np.arange(len(ue)), far.argmax(axis=1)]

"""Residents: people who live and work in buildings, explore a town and return to the places they
know.
"""

from math import inf, nan

import numpy as np
from pydantic import Field

from netsim.clock import DAY_S
from netsim.columns import divide_or, frozen
from netsim.errors import BadInput
from netsim.mobility.base import Ground, Mobility, Places
from netsim.mobility.people import (
    FREE,
    HOUR_S,
    NIGHT,
    NOWHERE,
    SPOT_S,
    WORK,
    WORK_CLOSES_H,
    WORK_OPENS_H,
    Lives,
    People,
    PeopledTown,
    Venues,
    draw_known_place,
    draw_new_place,
    draw_rooms,
    draw_weighted_index,
    plan_trips,
    sample_stay_s,
)
from netsim.part import Fraction
from netsim.rng import Rng
from netsim.streets.graph import CYCLE, DRIVE, WALK, Paths
from netsim.streets.routes import Routes
from netsim.ues import Fixes
from netsim.units import BoolArray, FloatArray, IntArray

_MORNING_H = 7.0
_NIGHT_H = 22.0
_WORK_FROM_H = 9.0
_WORK_UNTIL_H = 17.0
_LUNCH_H = 12.0
_SHIFT_H = 1.0  # deviation of a person's hours
_LUNCH_STD_H = 0.5  # deviation of a person's lunch hour
_DAY_STD_H = 0.5  # deviation of the hours of a day from those of the person
_TAIL = 2.0  # deviations at which hours are cut
_NIGHT_BREAK = 0.2  # probability of leaving home at night, relative to that of leaving work
_MIN_STAY_S = 600.0  # where a place closes, or a period ends, before a person arrives
_BREAK_H = (0.5, 1.0)  # time away from work in a break
_FIRST_PLACES = 8  # columns of the table of visited places, which doubles when it is full


@frozen
class Intents:
    """Intents of m people (m,): destination, whether they are free of the timetable, their period
    and its end.
    """

    target: IntArray
    free: BoolArray
    period: IntArray
    period_end_s: FloatArray


class Resident(Mobility, kind="resident"):
    r"""People with a home, most with work, who visit other places of a town by exploration and
    preferential return.

    A decision is made at the end of each stay::

        night        home, 22 to 7 h
        working hours, Mon-Fri    work, 9 to 17 h
        other time   explore with probability rho S^-gamma, S places visited so far: a new place j
        with
                     probability ~ weight_j / (r_j + 100 m)^2; else return to place i with
                     probability ~ visits_i
        stay         P(t) ~ t^-(1 + beta) exp(-t / tau), t >= 1 h, until the place closes or the
        timetable asks

    Only places that are open are chosen; home and work are known from the beginning. Hours of a
    person are shifted by N(0, 1 h), those of a day by N(0, 0.5 h), both cut at 2 standard
    deviations: morning and work together, evening on its own. A day off has no working hours.
    People leave work early with `break_probability` per hour, and at noon, shifted by N(0, 0.5 h),
    with a probability that is uniform over people; they explore or return for U(0.5, 1) h. They
    leave home at night with a fifth of `break_probability` per hour until midnight. Times of the
    timetable are those of departure.

    Homes are drawn in proportion to floor area, workplaces in proportion to weight = floor area x
    Pareto(1.2). Places open from 8 to 18, 10 to 20 or 17 to 24 h, one's workplace from 7 to 19 h,
    Monday to Friday, a home always. Home and work are fixed rooms, elsewhere the room is drawn for
    every stay. People go through the doors and follow the fastest route along the streets; trips
    below 1 km are not driven, below 500 m not cycled.

    Decision k of UE u depends on (seed, u, k), the day and u's own past only, so the tick length
    and other UEs have no effect.

    Departs from the sources: gravity instead of a distribution of jump lengths, which exceed a
    town; decisions at the ends of stays instead of hourly; opening hours.
    """

    reference = (
        "Song, Koren, Wang, Barabasi, 'Modelling the scaling properties of human mobility', "
        "Nature Physics 6, 2010; Pappalardo et al., 'Returners and explorers dichotomy in human "
        "mobility', Nature Communications 6, 2015 (gravity)"
    )
    needs = {
        "streets": (
            "residents travel along streets; take city town or grid, or give footprints a "
            "file of streets"
        ),
        "buildings": "residents live and work in buildings; take a city with buildings",
    }

    has_homes = True
    rho: Fraction = 0.6
    """probability of exploring a new place, for a person who knows one place"""
    gamma: float = Field(0.21, ge=0, le=5)
    """exponent with which exploration becomes rarer as more places are known"""
    stay_beta: float = Field(0.8, ge=-1, le=5)
    """exponent of the duration of stays: P(t) ~ t^-(1 + stay_beta) exp(-t / stay_tau_h)"""
    stay_tau_h: float = Field(17.0, ge=0.1, le=1000)
    """cut-off of the duration of stays, h"""
    break_probability: float = Field(0.05, ge=0, le=0.99)
    """probability per hour of leaving work early for a break; at night, of leaving home, a fifth of
    it"""
    day_off_probability: Fraction = 0.1
    """probability of a day off on a working day: holiday, illness"""
    no_work_share: Fraction = 0.2
    """share of people without work"""
    work_at_home_share: Fraction = 0.1
    """share of those with work who work at home"""
    drive_share: Fraction = 0.4
    """share of people who drive to places 1 km or more away"""
    cycle_share: Fraction = 0.2
    """share of people who cycle to places 500 m or more away; all others walk"""
    stay_radius_m: float = Field(0.0, ge=0, le=1000)
    """distance from the room, m, within which a person who stays is at another spot of the building
    every half hour, at night too; 0: always in the room. Homes, workplaces, times of stays and
    trips are those of the rooms"""

    @property
    def ride_share(self) -> float:
        """Share of people who do not walk."""
        return self.drive_share + self.cycle_share

    def start(self, ue: IntArray, ground: Ground) -> Lives:
        """All UEs where the first day has brought them at time 0, since they decided at home at its
        midnight.
        """
        town = self._build_town(ue, ground)
        midnight_s = 0.0 - ground.clock.begins_s
        home = town.people.home
        n = len(ue)
        visited = np.full((n, _FIRST_PLACES), NOWHERE)
        visited[:, 0] = home.place
        visited[:, 1] = np.where(town.people.commutes, town.people.work.place, NOWHERE)
        nothing = np.zeros(n, int)
        no = np.zeros(n, bool)
        trip_s = np.zeros((n, 6))
        count = (visited >= 0).astype(int)
        state = Lives(
            position_m=home.room_m,
            ue=ue,
            decision=nothing,
            before=home,
            there=home,
            way=Paths.none(n),
            trip_s=trip_s,
            until_s=np.full(n, midnight_s),
            breaks=no,
            drives=no,
            stay=nothing,
            visited=visited,
            count=count,
            now_s=midnight_s,
            depth_m=home.depth_m,
            town=town,
        )
        state = self._decide(state, np.arange(n), midnight_s, ground)
        return self.advance(state, midnight_s, 0.0, ground)[0]

    def _build_town(self, ue: IntArray, ground: Ground) -> PeopledTown:
        """The town of the ground; raises BadInput if it has fewer than two buildings with a
        door.
        """
        if ground.graph is None or len(ground.premises) < 2:
            raise BadInput(
                "world.ues.mobility: resident needs at least 2 buildings with a door to "
                "a street, and the city has "
                f"{len(ground.premises)}; take a city with streets between its buildings"
            )
        rng = _open_stream(ground)
        venues = Venues.from_premises(ground.premises, ground.buildings.footprint, rng)
        return PeopledTown(
            self._draw_people(ue, venues, rng),
            venues,
            Routes(ground.graph),
            self.stay_radius_m,
            ground.streams.derive_rng("mobility.spots"),
        )

    def _draw_people(self, ue: IntArray, venues: Venues, rng: Rng) -> People:
        """Homes in proportion to floor area, workplaces in proportion to attractiveness, never at
        home.
        """
        by_home, by_work, by_place, by_office, by_mode, lunches = rng.uniform("person", ue, (6,)).T
        day, evening, lunch = np.clip(rng.normal("hours", ue, (3,)), -_TAIL, _TAIL).T
        home = draw_rooms(
            venues, draw_weighted_index(by_home, venues.premises.floor_area_m2), rng, "home", ue
        )
        works = by_work >= self.no_work_share
        away = np.flatnonzero(works & (by_place >= self.work_at_home_share))
        office = draw_rooms(
            venues, draw_weighted_index(by_office, venues.weight, home.place), rng, "work", ue
        )
        rides = np.where(by_mode < self.ride_share, CYCLE, WALK)
        day_shift_h = _SHIFT_H * day
        return People(
            home=home,
            work=home.replace_rows(away, office.select(away)),
            works=works,
            night_h=_NIGHT_H + _SHIFT_H * evening,
            morning_h=_MORNING_H + day_shift_h,
            work_from_h=_WORK_FROM_H + day_shift_h,
            work_until_h=_WORK_UNTIL_H + day_shift_h,
            lunch_h=_LUNCH_H + _LUNCH_STD_H * lunch,
            lunches=lunches,
            mode=np.where(by_mode < self.drive_share, DRIVE, rides),
        )

    def advance(
        self, state: Lives, t0_s: float, t1_s: float, ground: Ground
    ) -> tuple[Lives, Fixes]:
        """Makes every decision that is due by t1_s; positions are those on the trip or in the room
        at t1_s.
        """
        while len(due := np.flatnonzero(state.until_s <= t1_s)):
            state = self._decide(state, due, t1_s, ground)
        return state.move_until(t1_s), Fixes.none()

    def wake_s(self, state: Lives, now_s: float, ground: Ground) -> float:
        """The earliest end of a stay, or change of a spot, when no UE travels, else now."""
        since_s = state.trip_s[:, -1]
        if (since_s > now_s).any():
            return now_s
        every_s = SPOT_S if self.stay_radius_m > 0 else inf
        next_s = np.minimum(state.until_s, now_s + every_s - (now_s - since_s) % every_s)
        return max(now_s, float(next_s.min(initial=inf)))

    def places(self, state: Lives, ground: Ground) -> Places:
        return _collect_places(state.town.people)

    def residents(self, ue: IntArray, ground: Ground) -> Places:
        return _collect_places(self._build_town(ue, ground).people)

    def _decide(self, state: Lives, row: IntArray, time_s: float, ground: Ground) -> Lives:
        """The state after the next decisions of UEs in `row` (m,), each at the end of its stay
        before time_s.
        """
        rng = _open_stream(ground)
        ue = state.ue[row]
        number = state.decision[row] + 1
        people = state.town.people
        now_s = state.until_s[row]
        unit = rng.uniform("decision", ue, (5,), item=number)
        plan = self._draw_intents(state, row, now_s, unit, ground)
        moving = np.flatnonzero(plan.target != state.there.place[row])
        row_moving = row[moving]
        place = plan.target[moving]
        room = draw_rooms(state.town.venues, place, rng, "room", ue[moving], number[moving])
        for usual in (people.work, people.home):
            is_usual = np.flatnonzero(place == usual.place[row_moving])
            room = room.replace_rows(is_usual, usual.select(row_moving[is_usual]))
        left = plan_trips(state, row_moving, room, now_s[moving])
        arrive_s = now_s.copy()
        arrive_s[moving] = left.time_s[:, -1]
        leave_s = self._draw_leave_s(state.town, row, plan, now_s, arrive_s, unit, ground)
        until_s = np.maximum(np.minimum(leave_s, plan.period_end_s), arrive_s + _MIN_STAY_S)
        breaks = ~plan.free & (leave_s < plan.period_end_s)
        return state.apply_decisions(row, until_s, breaks).start_trips(row_moving, left, time_s)

    def _draw_intents(
        self, state: Lives, row: IntArray, now_s: FloatArray, unit: FloatArray, ground: Ground
    ) -> Intents:
        """Destinations of people in `row` (m,) at now_s (m,)."""
        people = state.town.people
        late_h, workday = self._draw_day(state.ue[row], now_s, ground)
        period, end_s = people.find_period_and_end_s(row, now_s, ground.clock, late_h, workday)
        free = (period == FREE) | state.breaks[row]
        target = np.where(period == WORK, people.work.place[row], people.home.place[row])
        free_rows = np.flatnonzero(free)
        hour = ground.clock.wall_s(now_s[free_rows]) % DAY_S / HOUR_S
        chosen = self._choose_places(
            state, row[free_rows], hour, workday[free_rows], unit[free_rows]
        )
        target[free_rows] = chosen
        return Intents(target, free, period, end_s)

    def _draw_day(
        self, ue: IntArray, now_s: FloatArray, ground: Ground
    ) -> tuple[FloatArray, BoolArray]:
        """Delay of work and evening on the day of now_s (m,), and of the next morning, against
        usual (m, 3), h.

        Also whether that day is a working day for them (m,).
        """
        rng = _open_stream(ground)
        day = np.floor(ground.clock.wall_s(now_s) / DAY_S).astype(int)
        today, tomorrow = (
            np.clip(rng.normal("day", ue, (2,), item=d), -_TAIL, _TAIL) for d in (day, day + 1)
        )
        weekday = (ground.clock.weekday(0) + day) % 7 < 5
        off = rng.uniform("off", ue, item=day)
        normal = np.column_stack([today, tomorrow[:, 0]])
        return _DAY_STD_H * normal, weekday & (off >= self.day_off_probability)

    def _choose_places(
        self, state: Lives, row: IntArray, hour: FloatArray, workday: BoolArray, unit: FloatArray
    ) -> IntArray:
        """Places (m,) that free people in `row` (m,) explore or return to at an hour of a working
        day or not (m,).
        """
        venues = state.town.venues
        people = state.town.people
        visited = state.visited[row]
        now_at = state.there.place[row]
        home = people.home.place[row]
        work = people.work.place[row]
        choice = np.full(len(row), NOWHERE)
        probability = self.rho * np.maximum((visited >= 0).sum(axis=1), 1) ** -self.gamma
        new = np.flatnonzero(unit[:, 0] < probability)
        from_m = venues.premises.door_m[now_at[new]]
        choice[new] = draw_new_place(unit[new, 1], hour[new], from_m, venues, visited[new])
        old = np.flatnonzero(choice == NOWHERE)
        visited_old = visited[old]
        at_h = hour[old, None]
        at_work = workday[old, None] & (at_h >= WORK_OPENS_H)
        at_work &= at_h < WORK_CLOSES_H
        is_work = visited_old == work[old, None]
        allowed = np.where(is_work, at_work, venues.is_open(visited_old, at_h))
        allowed |= visited_old == home[old, None]
        allowed &= visited_old != now_at[old, None]
        choice[old] = draw_known_place(unit[old, 1], visited_old, state.count[row[old]], allowed)
        return np.where(choice == NOWHERE, home, choice)

    def _draw_leave_s(
        self,
        town: PeopledTown,
        row: IntArray,
        plan: Intents,
        now_s: FloatArray,
        arrive_s: FloatArray,
        unit: FloatArray,
        ground: Ground,
    ) -> FloatArray:
        """When people in `row` (m,) would leave their next place, but for the timetable (m,).

        now_s, arrive_s (m,) : times of the decision, and of the arrival.
        """
        people = town.people
        period = plan.period
        target = plan.target
        is_work = target == people.work.place[row]
        closes_h = np.where(is_work, WORK_CLOSES_H, town.venues.closes_h[target])
        is_home = target == people.home.place[row]
        closing_s = np.where(is_home, inf, _find_hour_s(now_s, closes_h, ground))
        long_s = sample_stay_s(unit[:, 2], self.stay_beta, self.stay_tau_h)
        span_h = _BREAK_H[1] - _BREAK_H[0]
        short_s = HOUR_S * (_BREAK_H[0] + span_h * unit[:, 2])
        free_until_s = np.minimum(arrive_s + np.where(period == WORK, short_s, long_s), closing_s)
        # breaks of the timetable come after an exponential time
        probability = np.where(
            period == NIGHT, _NIGHT_BREAK * self.break_probability, self.break_probability
        )
        rate_per_h = -np.log1p(-probability)
        exponential = -np.log(unit[:, 3])
        break_s = arrive_s + HOUR_S * divide_or(exponential, rate_per_h, inf)
        noon_s = _find_hour_s(arrive_s, people.lunch_h[row], ground)
        lunches = (period == WORK) & (noon_s > arrive_s)
        lunches &= unit[:, 4] < people.lunches[row]
        break_s = np.where(lunches, np.minimum(break_s, noon_s), break_s)
        tomorrow_s = _find_hour_s(now_s, 24.0, ground)
        asleep = period == NIGHT
        asleep &= (plan.period_end_s < tomorrow_s) | (break_s >= tomorrow_s)
        return np.where(plan.free, free_until_s, np.where(asleep, inf, break_s))


def _collect_places(people: People) -> Places:
    work_m = np.where(people.commutes[:, None], people.work.room_m, nan)
    return Places(people.home.room_m.copy(), work_m)


def _open_stream(ground: Ground) -> Rng:
    # decisions have no day: the round is always 0 and the number of the decision is the item
    return ground.streams.derive_rng("mobility.resident")


def _find_hour_s(time_s: FloatArray, hour: FloatArray | float, ground: Ground) -> FloatArray:
    midnight_s = np.floor(ground.clock.wall_s(time_s) / DAY_S) * DAY_S
    return ground.clock.find_first_s(midnight_s + hour * HOUR_S)

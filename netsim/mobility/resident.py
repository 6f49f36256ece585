"""Residents: people who live and work in buildings, explore a town and return to the places they know."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.clock import DAY_S
from netsim.errors import BadInput
from netsim.mobility import exploration
from netsim.mobility.base import Ground, Mobility, Places
from netsim.mobility.decisions import Decisions
from netsim.mobility.exploration import NOWHERE
from netsim.mobility.journeys import Journeys
from netsim.mobility.lives import Lives, PeopledTown, after, placed
from netsim.mobility.outings import outings, room_in
from netsim.mobility.people import People, PopulationShares
from netsim.mobility.timetable import FREE, NIGHT, WORK
from netsim.mobility.venues import WORK_CLOSES_H, WORK_OPENS_H, Venues
from netsim.rng import Rng
from netsim.streets.routes import Routes
from netsim.ues import Fixes
from netsim.units import BoolArray, FloatArray, IntArray

_HOUR_S = 3600.0
_NIGHT_BREAK = 0.2  # probability of leaving home at night, relative to that of leaving work
_MIN_STAY_S = 600.0  # where a place closes, or a period ends, before a person arrives
_DAY_STD_H, _TAIL = 0.5, 2.0  # deviation of the hours of a day from those of the person, cut at 2 deviations
_BREAK_H = (0.5, 1.0)  # time away from work in a break
_FIRST_PLACES = 8  # columns of the table of visited places, which doubles when it is full


@dataclass(frozen=True, eq=False)
class _Intents:
    """Intents of m people: destination, whether they break the timetable, and the period that they are in."""

    target: IntArray
    free: BoolArray
    period: IntArray
    period_end_s: FloatArray


class Resident(Mobility):
    r"""People with a home, most with work, who visit other places of a town by exploration and preferential return.

    A decision is made at the end of each stay::

        night        home, 22 to 7 h
        working hours, Mon-Fri    work, 9 to 17 h
        other time   explore with probability rho S^-gamma, S places visited so far: a new place j with
                     probability ~ weight_j / (r_j + 100 m)^2; else return to place i with probability ~ visits_i
        stay         P(t) ~ t^-(1 + beta) exp(-t / tau), t >= 1 h, until the place closes or the timetable asks

    Only places that are open are chosen; home and work are known from the beginning. Hours of a person are shifted by
    N(0, 1 h), those of a day by N(0, 0.5 h), both cut at 2 standard deviations: morning and work together, evening on
    its own. A day off has no working hours. People leave work early with `break_probability` per hour, and at noon,
    shifted by N(0, 0.5 h), with a probability that is uniform over people; they explore or return for U(0.5, 1) h. They
    leave home at night with a fifth of `break_probability` per hour until midnight. Times of the timetable are those of
    departure.

    Homes are drawn in proportion to floor area, workplaces in proportion to weight = floor area x Pareto(1.2). Places
    open from 8 to 18, 10 to 20 or 17 to 24 h, one's workplace from 7 to 19 h, Monday to Friday, a home always. Home and
    work are fixed rooms, elsewhere the room is drawn for every stay. People go through the doors and follow the fastest
    route along the streets; trips below 1 km are not driven, below 500 m not cycled.

    Decision k of UE u depends on (seed, u, k), the day and u's own past only, so the tick length and other UEs have no
    effect.

    Departs from the sources: gravity instead of a distribution of jump lengths, which exceed a town; decisions at the
    ends of stays instead of hourly; opening hours.
    """

    reference: ClassVar = (
        "Song, Koren, Wang, Barabasi, 'Modelling the scaling properties of human mobility', Nature Physics 6, 2010; "
        "Pappalardo et al., 'Returners and explorers dichotomy in human mobility', Nature Communications 6, 2015 "
        "(gravity)"
    )
    example: ClassVar = {"kind": "resident"}
    needs: ClassVar = {
        "streets": "residents travel along streets; take city town or grid, or give footprints a file of streets",
        "buildings": "residents live and work in buildings; take a city with buildings",
    }

    kind: Literal["resident"] = "resident"
    rho: float = Field(default=0.6, ge=0, le=1)
    """probability of exploring a new place, for a person who knows one place"""
    gamma: float = Field(default=0.21, ge=0, le=5)
    """exponent with which exploration becomes rarer as more places are known"""
    stay_beta: float = Field(default=0.8, ge=-1, le=5)
    """exponent of the duration of stays: P(t) ~ t^-(1 + stay_beta) exp(-t / stay_tau_h)"""
    stay_tau_h: float = Field(default=17.0, ge=0.1, le=1000)
    """cut-off of the duration of stays, h"""
    break_probability: float = Field(default=0.05, ge=0, le=0.99)
    """probability per hour of leaving work early for a break; at night, of leaving home, a fifth of it"""
    day_off_probability: float = Field(default=0.1, ge=0, le=1)
    """probability of a day off on a working day: holiday, illness"""
    no_work_share: float = Field(default=0.2, ge=0, le=1)
    """share of people without work"""
    work_at_home_share: float = Field(default=0.1, ge=0, le=1)
    """share of those with work who work at home"""
    drive_share: float = Field(default=0.4, ge=0, le=1)
    """share of people who drive to places 1 km or more away"""
    cycle_share: float = Field(default=0.2, ge=0, le=1)
    """share of people who cycle to places 500 m or more away; all others walk"""

    @model_validator(mode="after")
    def _modes(self) -> Self:
        if self.drive_share + self.cycle_share > 1:
            raise ValueError(f"drive_share + cycle_share = {self.drive_share + self.cycle_share:g}: at most 1")
        return self

    def start(self, ue: IntArray, ground: Ground) -> Lives:
        """All UEs at home at time 0, where they have made their first decision."""
        town = self._town(ue, ground)
        people, n = town.people, len(ue)
        room, home, commutes = people.home_room, people.home, people.commutes
        visited = np.full((n, _FIRST_PLACES), NOWHERE)
        visited[:, 0], visited[commutes, 1] = home, people.work[commutes]
        nothing = np.zeros(n, dtype=np.int64)
        state = Lives(
            position_m=room.room_m.copy(),
            ue=ue,
            decision=nothing,
            place=np.stack([home, home], axis=1),
            floor=np.stack([room.floor, room.floor], axis=1),
            depth_m=np.stack([room.depth_m, room.depth_m], axis=1),
            room_m=np.stack([room.room_m, room.room_m], axis=1),
            trip_s=np.zeros((n, 6)),
            until_s=np.zeros(n),
            breaks=np.zeros(n, dtype=np.bool_),
            drives=np.zeros(n, dtype=np.bool_),
            stay=nothing,
            visited=visited,
            count=(visited >= 0).astype(np.int64),
            inside=np.ones(n, dtype=np.int64),
            in_vehicle=np.zeros(n, dtype=np.bool_),
            journeys=Journeys.none(n),
            town=town,
        )
        return after(state, self._decisions(state, np.arange(n), ground), 0.0)

    def _town(self, ue: IntArray, ground: Ground) -> PeopledTown:
        """The town of the ground; raises BadInput if it has fewer than two buildings with a door."""
        if ground.graph is None or len(ground.premises) < 2:
            raise BadInput(
                "world.ues.mobility: resident needs at least 2 buildings with a door to a street, and the city has "
                f"{len(ground.premises)}; take a city with streets between its buildings"
            )
        rng = _stream(ground)
        venues = Venues.drawn(ground.premises, ground.buildings.footprint, rng)
        shares = PopulationShares(self.no_work_share, self.work_at_home_share, self.drive_share, self.cycle_share)
        return PeopledTown(People.drawn(ue, venues, shares, rng), venues, Routes(ground.graph))

    def advance(self, state: Lives, t0_s: float, t1_s: float, ground: Ground) -> tuple[Lives, Fixes]:
        """Makes every decision that is due by t1_s; positions are those on the trip or in the room at t1_s."""
        while len(due := np.flatnonzero(state.until_s <= t1_s)):
            state = after(state, self._decisions(state, due, ground), t1_s)
        return placed(state, t1_s), Fixes.none()

    def wake_s(self, state: Lives, now_s: float, ground: Ground) -> float:
        """The earliest end of a stay when no UE travels, else now."""
        if (state.trip_s[:, -1] > now_s).any():
            return now_s
        return max(now_s, float(np.min(state.until_s, initial=inf)))

    def places(self, state: Lives, ground: Ground) -> Places:
        """Rooms at home and at work; NaN for those without a workplace away from home."""
        return _places(state.town.people)

    def residents(self, ue: IntArray, ground: Ground) -> Places:
        return _places(self._town(ue, ground).people)

    def _decisions(self, state: Lives, row: IntArray, ground: Ground) -> Decisions:
        """The next decisions of the UEs in `row` (m,), each at the end of its own stay."""
        rng, ue, number = _stream(ground), state.ue[row], state.decision[row] + 1
        unit = rng.uniform("decision", ue, (5,), item=number)
        now_s = state.until_s[row]
        plan = self._plan(state, row, now_s, unit, ground)
        some = np.flatnonzero(plan.target != state.place[row, 1])
        who, place = row[some], plan.target[some]
        room = room_in(state.town, who, place, ue[some], number[some], rng)
        since_s, trips, drives = outings(state, who, place, room)
        trip_s = now_s[some, None] + since_s
        arrive_s = now_s.copy()
        arrive_s[some] = trip_s[:, -1]
        until_s, breaks = self._stay(plan, state.town, row, now_s, arrive_s, unit, ground)
        return Decisions(row, until_s, breaks, who, place, room, trip_s, drives, trips)

    def _plan(self, state: Lives, row: IntArray, now_s: FloatArray, unit: FloatArray, ground: Ground) -> _Intents:
        """Destinations of people in `row` (m,) at now_s (m,)."""
        people = state.town.people
        late_h, workday = self._day(state.ue[row], now_s, ground)
        period, end_s = people.timetable.at(row, now_s, ground.clock, late_h, workday)
        free = (period == FREE) | state.breaks[row]
        target = np.where(period == WORK, people.work[row], people.home[row])
        some = np.flatnonzero(free)
        target[some] = self._chosen(state, row[some], _hour(now_s[some], ground), workday[some], unit[some])
        return _Intents(target, free, period, end_s)

    def _day(self, ue: IntArray, now_s: FloatArray, ground: Ground) -> tuple[FloatArray, BoolArray]:
        """Delay of work and evening on the day of now_s (m,), and of the next morning, against usual (m, 3), h.

        Also whether that day is a working day for them (m,).
        """
        rng, day = _stream(ground), np.floor(ground.clock.wall_s(now_s) / DAY_S).astype(np.int64)
        today, tomorrow = (np.clip(rng.normal("day", ue, (2,), item=d), -_TAIL, _TAIL) for d in (day, day + 1))
        weekday, off = (ground.clock.weekday(0) + day) % 7 < 5, rng.uniform("off", ue, item=day)
        return _DAY_STD_H * np.column_stack([today, tomorrow[:, 0]]), weekday & (off >= self.day_off_probability)

    def _chosen(self, state: Lives, row: IntArray, hour: FloatArray, workday: BoolArray, unit: FloatArray) -> IntArray:
        """Places (m,) that free people in `row` (m,) explore or return to at an hour of a working day or not (m,)."""
        town, visited = state.town, state.visited[row]
        venues, people = town.venues, town.people
        choice = np.full(len(row), NOWHERE)
        n_visited = (visited >= 0).sum(axis=1)
        new = np.flatnonzero(exploration.explores(unit[:, 0], n_visited, self.rho, self.gamma))
        from_m = venues.premises.door_m[state.place[row[new], 1]]
        choice[new] = exploration.new_place(unit[new, 1], hour[new], from_m, venues, visited[new])
        old = np.flatnonzero(choice == NOWHERE)
        known, at_h = visited[old], hour[old, None]
        at_work = workday[old, None] & (at_h >= WORK_OPENS_H) & (at_h < WORK_CLOSES_H)
        home, work = (places[row[old], None] for places in (people.home, people.work))
        allowed = np.where(known == work, at_work, venues.is_open(known, at_h)) | (known == home)
        allowed &= known != state.place[row[old], 1, None]
        choice[old] = exploration.known_place(unit[old, 1], known, state.count[row[old]], allowed)
        return np.where(choice == NOWHERE, people.home[row], choice)

    def _stay(
        self,
        plan: _Intents,
        town: PeopledTown,
        row: IntArray,
        now_s: FloatArray,
        arrive_s: FloatArray,
        unit: FloatArray,
        ground: Ground,
    ) -> tuple[FloatArray, BoolArray]:
        """Ends of stays (m,), and whether each ends by a break of the timetable (m,)."""
        people, period = town.people, plan.period
        long_s = exploration.stay_s(unit[:, 2], self.stay_beta, self.stay_tau_h)
        short_s = _HOUR_S * (_BREAK_H[0] + (_BREAK_H[1] - _BREAK_H[0]) * unit[:, 2])
        free_until_s = np.minimum(
            arrive_s + np.where(period == WORK, short_s, long_s), _closing_s(town, row, plan.target, now_s, ground)
        )
        break_s = self._break_s(period, arrive_s, unit[:, 3])
        noon_s = _at_hour(arrive_s, people.lunch_h[row], ground)
        lunches = (period == WORK) & (noon_s > arrive_s) & (unit[:, 4] < people.lunches[row])
        break_s = np.where(lunches, np.minimum(break_s, noon_s), break_s)
        tomorrow_s = _at_hour(now_s, 24.0, ground)
        asleep = (period == NIGHT) & ((plan.period_end_s < tomorrow_s) | (break_s >= tomorrow_s))
        break_s = np.where(asleep, inf, break_s)
        leave_s = np.where(plan.free, free_until_s, break_s)
        breaks = ~plan.free & (leave_s < plan.period_end_s)
        return np.maximum(np.minimum(leave_s, plan.period_end_s), arrive_s + _MIN_STAY_S), breaks

    def _break_s(self, period: IntArray, arrive_s: FloatArray, unit: FloatArray) -> FloatArray:
        """Times at which people would break the timetable (m,): exponential after arrival."""
        probability = np.where(period == NIGHT, _NIGHT_BREAK * self.break_probability, self.break_probability)
        rate_per_h = -np.log1p(-probability)
        wait_h = np.divide(-np.log(unit), rate_per_h, out=np.full(len(unit), inf), where=rate_per_h > 0)
        return np.asarray(arrive_s + _HOUR_S * wait_h)


def _places(people: People) -> Places:
    work_m = np.where(people.commutes[:, None], people.work_room.room_m, np.nan)
    return Places(people.home_room.room_m.copy(), work_m)


def _stream(ground: Ground) -> Rng:
    # decisions have no day: the round is always 0 and the number of the decision is the item
    return ground.streams.at("mobility.resident")


def _hour(time_s: FloatArray, ground: Ground) -> FloatArray:
    """The hour of the day (m,) that the wall clock shows, 0 to 24."""
    return ground.clock.wall_s(time_s) % DAY_S / _HOUR_S


def _at_hour(time_s: FloatArray, hour: FloatArray | float, ground: Ground) -> FloatArray:
    """Time of an hour on the day of times (m,), s."""
    midnight_s = np.floor(ground.clock.wall_s(time_s) / DAY_S) * DAY_S
    return ground.clock.first_s(midnight_s + hour * _HOUR_S)


def _closing_s(town: PeopledTown, row: IntArray, place: IntArray, now_s: FloatArray, ground: Ground) -> FloatArray:
    """Closing times of places (m,) on the day of now_s (m,); infinite for a home."""
    people = town.people
    closes_h = np.where(place == people.work[row], WORK_CLOSES_H, town.venues.closes_h[place])
    return np.where(place == people.home[row], inf, _at_hour(now_s, closes_h, ground))

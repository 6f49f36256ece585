r"""People and the buildings that they visit, how they choose the next place and the length of a
stay, and their trips.

Exploration and preferential return (EPR): with S places visited so far, a person explores a new
place with probability rho S^-gamma, else returns to a known one [Song, Koren, Wang, Barabasi 2010].
A new place j is drawn by gravity [Pappalardo et al. 2015]::

    P(j) ~ weight_j / (r_j + 100 m)^2,   r_j the distance to place j

and a known place in proportion to past visits. Stays last P(t) ~ t^-(1 + beta) exp(-t / tau), t >=
1 h.
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from math import inf

import numpy as np
import numpy.typing as npt
from numpy.linalg import norm

from netsim.checkpoint import REBUILT
from netsim.clock import DAY_S, Clock
from netsim.columns import Columns, copy_with, frozen, replace_values, split_blocks
from netsim.maps import Shapes
from netsim.mobility.base import State, draw_column_index
from netsim.rng import Rng
from netsim.streets.doors import Premises
from netsim.streets.graph import CYCLE, DRIVE, WALK, WALK_M_S, Paths
from netsim.streets.routes import Routes
from netsim.ues import Indoors
from netsim.units import ArrayPair, BoolArray, FloatArray, IntArray

NOWHERE = -1
NIGHT, WORK, FREE = range(3)
HOUR_S = 3600.0
SPOT_S = 1800.0  # time at one spot of a place
WORK_OPENS_H = 7.0
WORK_CLOSES_H = 19.0
_LATEST_NIGHT_H = 23.9  # so that every night begins on the day that it belongs to
_ROUNDING_H = 1e-6  # an hour that is computed from the end of a period belongs to the next one
_PARETO = 1.2  # exponent of the distribution of attractiveness per floor area
# shops and services, restaurants and shopping, evening venues
_OPENS_H = np.array([8.0, 10.0, 17.0])
_CLOSES_H = np.array([18.0, 20.0, 24.0])
_TRIES = 16  # points of the bounding box that are tried for a room
_NEAR_M = 100.0  # added to distances, so that gravity stays finite
_MIN_STAY_H = 1.0
_MAX_TAUS = 40.0  # of a stay; the tail beyond has probability below 1e-17
_GRID = 8192  # points of the tabulated distribution of stays
_BLOCK = 2**16  # weights that are computed at once: what they take stays in the cache


@frozen
class Venues:
    """k places, one for each of the premises.

    weight (k,) : attractiveness, Pareto(1.2) times floor area; opens_h, closes_h (k,) : opening
    hours, every day. footprint (k,) : shapely polygons.
    """

    premises: Premises
    footprint: Shapes
    weight: FloatArray
    opens_h: FloatArray
    closes_h: FloatArray

    @classmethod
    def from_premises(cls, premises: Premises, footprint: Shapes, rng: Rng) -> Venues:
        """Attractiveness and opening hours; those of a building depend on its index only."""
        unit = rng.uniform("venue", premises.building, (2,))
        hours = (unit[:, 1] * len(_OPENS_H)).astype(int)
        weight = premises.floor_area_m2 * unit[:, 0] ** (-1.0 / _PARETO)
        return cls(
            premises, footprint[premises.building], weight, _OPENS_H[hours], _CLOSES_H[hours]
        )

    def is_open(self, place: IntArray, hour: FloatArray) -> BoolArray:
        """Whether places are open at an hour of the day; the shapes broadcast."""
        return (self.opens_h[place] <= hour) & (hour < self.closes_h[place])


@frozen
class Rooms(Columns):
    """Rooms (n,): index of the venue, room_m (n, 2), floor above the ground floor, and depth_m from
    the facade.
    """

    place: IntArray
    room_m: FloatArray
    floor: IntArray
    depth_m: FloatArray


def draw_rooms(
    venues: Venues,
    place: IntArray,
    rng: Rng,
    name: str,
    ue: IntArray,
    item: npt.ArrayLike = 0,
    about_m: FloatArray | None = None,
    radius_m: float = inf,
) -> Rooms:
    """A random room in each of the places (n,): uniform in the footprint within radius_m of about_m
    (n, 2), which is an interior point if not stated, on a uniform floor.

    Where 16 random points of the box around both all lie outside, the room is at about_m.
    """
    import shapely

    unit = rng.uniform(name, ue, (2 * _TRIES + 1,), item=item)
    shape = venues.footprint[place]
    if about_m is None:
        about_m = shapely.get_coordinates(shapely.point_on_surface(shape))
    low_m, high_m = shapely.bounds(shape).reshape(-1, 2, 1, 2).swapaxes(0, 1)
    about = about_m[:, None]
    low_m = np.maximum(low_m, about - radius_m)
    side_m = np.minimum(high_m, about + radius_m) - low_m
    at_m = low_m + side_m * unit[:, 1:].reshape(-1, 2, _TRIES).swapaxes(1, 2)
    inside = shapely.contains_xy(shape[:, None], *np.moveaxis(at_m, 2, 0))
    inside &= norm(at_m - about, axis=2) <= radius_m
    first = at_m[np.arange(len(place)), inside.argmax(axis=1)]
    room_m = np.where(inside.any(axis=1)[:, None], first, about_m)
    floor = (unit[:, 0] * venues.premises.floors[place]).astype(int)
    depth_m = shapely.distance(shapely.boundary(shape), shapely.points(room_m))
    return Rooms(place, room_m, floor, depth_m)


@frozen
class People:
    """n people, who do not change during a run.

    home, work : their rooms; work is home for those who work at home, or not at all. works (n,):
    whether they work. night_h, morning_h (n,) : hours between which they are in bed; work_from_h,
    work_until_h (n,) : of work. lunch_h (n,) and lunches (n,): when and with which probability they
    leave work for lunch. mode (n,) : how they travel when it is too far to walk.
    """

    home: Rooms
    work: Rooms
    works: BoolArray
    night_h: FloatArray
    morning_h: FloatArray
    work_from_h: FloatArray
    work_until_h: FloatArray
    lunch_h: FloatArray
    lunches: FloatArray
    mode: IntArray

    @property
    def commutes(self) -> BoolArray:
        return self.work.place != self.home.place

    def find_period_and_end_s(
        self,
        row: IntArray,
        time_s: FloatArray,
        clock: Clock,
        late_h: FloatArray,
        workday: BoolArray,
    ) -> tuple[IntArray, FloatArray]:
        """The period (m,) that people `row` (m,) are in at times (m,), and the time (m,) at which
        it ends, s.

        late_h (m, 3) : how much later than usual work and evening of that day are, and the next
        morning, h. workday (m,) : whether people with work do work that day.
        """
        day, second = np.divmod(clock.wall_s(time_s), DAY_S)
        hour = second / HOUR_S + _ROUNDING_H
        work_late_h, evening_late_h, next_late_h = late_h.T
        night_h = np.minimum(self.night_h[row] + evening_late_h, _LATEST_NIGHT_H)
        morning_h = self.morning_h[row] + work_late_h
        next_h = self.morning_h[row] + next_late_h
        from_h = self.work_from_h[row] + work_late_h
        until_h = self.work_until_h[row] + work_late_h
        works = self.works[row] & workday
        period = np.full(len(row), FREE)
        period[works & (hour >= from_h) & (hour < until_h)] = WORK
        period[(hour < morning_h) | (hour >= night_h)] = NIGHT
        free_until_h = np.where(works & (hour < from_h), from_h, night_h)
        morning_end_h = np.where(hour < morning_h, morning_h, 24.0 + next_h)
        end_h = np.choose(period, [morning_end_h, until_h, free_until_h])
        return period, clock.find_first_s(day * DAY_S + end_h * HOUR_S)


def draw_weighted_index(
    unit: FloatArray, weight: FloatArray, excluded: IntArray | None = None
) -> IntArray:
    """An index (n,) with probability in proportion to weight (k,), by inversion of unit (n,).

    excluded (n,) : an index each that is not drawn.
    """
    upto = np.cumsum(weight)
    last = len(weight) - 1
    if excluded is None:
        chosen = np.searchsorted(upto, unit * upto[-1], side="right")
        return np.minimum(chosen, last)
    own_weight = weight[excluded]
    mark = unit * (upto[-1] - own_weight)
    shifted = np.where(mark < upto[excluded] - own_weight, mark, mark + own_weight)
    chosen = np.searchsorted(upto, shifted, side="right")
    chosen = np.minimum(chosen, last)
    # sums are rounded, so the index left out may come up
    neighbour = np.where(excluded == 0, 1, excluded - 1)
    return np.where(chosen == excluded, neighbour, chosen)


def sample_stay_s(unit: FloatArray, beta: float, tau_h: float) -> FloatArray:
    """Durations of stays (n,), s, by inversion of uniform numbers (n,); at least 1 h."""
    share, hours = _tabulate_stays(beta, tau_h)
    return HOUR_S * np.interp(unit, share, hours)


@lru_cache(maxsize=8)
def _tabulate_stays(beta: float, tau_h: float) -> ArrayPair:
    """Distribution function of stays at durations in h, both (_GRID,)."""
    hours = np.geomspace(_MIN_STAY_H, _MIN_STAY_H + _MAX_TAUS * tau_h, _GRID)
    # density of log t, which is smooth on a logarithmic grid; the factor exp(1 / tau) keeps it from
    # underflow
    density = hours**-beta * np.exp((_MIN_STAY_H - hours) / tau_h)
    mean_density = (density[1:] + density[:-1]) / 2
    area = np.append(0.0, np.cumsum(mean_density * np.diff(np.log(hours))))
    return area / area[-1], hours


def draw_new_place(
    unit: FloatArray, hour: FloatArray, from_m: FloatArray, venues: Venues, visited: IntArray
) -> IntArray:
    """A place (m,) that each of m people at from_m (m, 2) has not visited, by gravity; NOWHERE if
    none is open.

    hour (m,) of the day; visited (m, v): places by index, NOWHERE for no place.
    """
    at_m = venues.premises.door_m
    chosen = np.full(len(unit), NOWHERE)
    for rows in split_blocks(len(unit), max(1, _BLOCK // max(1, len(at_m)))):
        east_m, north_m = (from_m[rows, None, axis] - at_m[:, axis] for axis in (0, 1))
        away_m = np.sqrt(east_m * east_m + north_m * north_m) + _NEAR_M
        is_open = venues.is_open(np.arange(len(at_m)), hour[rows, None])
        pull = np.where(is_open, venues.weight / (away_m * away_m), 0.0)
        row, column = np.nonzero(visited[rows] >= 0)
        pull[row, visited[rows][row, column]] = 0.0
        chosen[rows] = draw_column_index(unit[rows], pull)
    return chosen


def draw_known_place(
    unit: FloatArray, visited: IntArray, count: IntArray, allowed: BoolArray
) -> IntArray:
    """A visited place (m,) in proportion to its count; NOWHERE if none is allowed.

    visited, count, allowed (m, v) : places by index, numbers of visits, and which of them may be
    chosen.
    """
    column = draw_column_index(unit, np.where(allowed & (visited >= 0), count, 0.0))
    return np.where(column == NOWHERE, NOWHERE, visited[np.arange(len(unit)), column])


_INDOOR_M_S = 1.0  # between a room and the door
_DRIVE_FROM_M = 1000.0  # straight-line distance below which people walk
_CYCLE_FROM_M = 500.0  # the same of those who cycle


@frozen
class PeopledTown:
    """The people, venues and routes of a town, which do not change during a run.

    stay_radius_m : distance from the room within which people change their spot; spots : the stream
    that draws spots.
    """

    people: People
    venues: Venues
    routes: Routes
    stay_radius_m: float
    spots: Rng


@frozen
class Lives(State):
    """The state of n_ue residents.

    ue, decision (n_ue,) : index of the UE and number of its last decision. before, there : rooms
    where the last trip began, and where it ended or will end. way : that trip, by time since
    departure, without vertices for a UE whose trip is over. trip_s (n_ue, 6) : times of that trip:
    leaves the room, leaves the door, boards a vehicle at the street, leaves the
        vehicle, is at the door, is in the room.
    until_s (n_ue,) : when the stay after it ends. breaks (n_ue,) : whether the stay ends before the
    timetable asks for it. drives (n_ue,) : whether that trip is driven; stay (n_ue,): number of the
    stay after it. visited, count (n_ue, v) : places visited, in the order of the first visit, and
    how often; -1 and 0 beyond them. now_s : the time of the state. depth_m (n_ue,) : distance of
    the spot in `there` from the facade.
    """

    ue: IntArray
    decision: IntArray
    before: Rooms
    there: Rooms
    way: Paths
    trip_s: FloatArray
    until_s: FloatArray
    breaks: BoolArray
    drives: BoolArray
    stay: IntArray
    visited: IntArray
    count: IntArray
    now_s: float
    depth_m: FloatArray
    town: PeopledTown = field(metadata=REBUILT)

    def indoors(self) -> Indoors:
        """Building, floor and depth of every UE that is indoors; between room and door a UE is
        indoors.
        """
        leaves, boards, alights, arrives = self.trip_s[:, 1:5].T
        begins = self.now_s < leaves
        inside = begins | (self.now_s >= arrives)
        place = np.where(begins, self.before.place, self.there.place)
        floor = np.where(begins, self.before.floor, self.there.floor)
        depth_m = np.where(begins, self.before.depth_m, self.depth_m)
        building = self.town.venues.premises.building[place]
        return Indoors(
            ue=self.ue,
            building=np.where(inside, building, -1),
            floor=np.where(inside, floor, 0),
            depth_m=np.where(inside, depth_m, 0.0),
            stay=self.stay - begins,
            in_vehicle=self.drives & (boards <= self.now_s) & (self.now_s < alights),
        )

    def apply_decisions(self, row: IntArray, until_s: FloatArray, breaks: BoolArray) -> Lives:
        """The state after decisions of UEs in `row` (m,): the ends of their stays."""
        decision = replace_values(self.decision, row, self.decision[row] + 1)
        return copy_with(
            self,
            decision=decision,
            until_s=replace_values(self.until_s, row, until_s),
            breaks=replace_values(self.breaks, row, breaks),
        )

    def start_trips(self, row: IntArray, trip: Trips, now_s: float) -> Lives:
        """The state in which UEs in `row` (m,) leave on trips; the ways of trips that end by now_s
        are dropped.
        """
        n = len(self.ue)
        m = len(row)
        is_moving = self.trip_s[:, -1] > now_s
        way = np.where(is_moving, np.arange(n), n + m)
        way[row] = n + np.arange(m)
        visited_before = self.visited[row]
        same = visited_before == trip.room.place[:, None]
        column = np.where(same.any(axis=1), same.argmax(axis=1), (visited_before >= 0).sum(axis=1))
        width = self.visited.shape[1]
        grown = (
            (0, 0),
            (0, width if column.max(initial=0) >= width else 0),
        )
        visited = np.pad(self.visited, grown, constant_values=NOWHERE)
        count = np.pad(self.count, grown)
        visited[row, column] = trip.room.place
        count[row, column] += 1
        ways = Paths.join([self.way, trip.way, Paths.none(1)])
        stay = replace_values(self.stay, row, self.stay[row] + 1)
        return copy_with(
            self,
            before=self.before.replace_rows(row, self.there.select(row)),
            there=self.there.replace_rows(row, trip.room),
            way=ways.select(way),
            trip_s=replace_values(self.trip_s, row, trip.time_s),
            drives=replace_values(self.drives, row, trip.drives),
            stay=stay,
            visited=visited,
            count=count,
        )

    def move_until(self, now_s: float) -> Lives:
        """The state at now_s; positions of UEs that rest are those of their spots or rooms, to the
        last bit.
        """
        town = self.town
        spot = self.there
        since_s = self.trip_s[:, -1]
        if town.stay_radius_m > 0:
            begun_s = since_s + (now_s - since_s) // SPOT_S * SPOT_S
            moment = np.round(1e3 * begun_s).astype(int)
            spot = draw_rooms(
                town.venues,
                spot.place,
                town.spots,
                "spot",
                self.ue,
                moment,
                spot.room_m,
                town.stay_radius_m,
            )
        position_m = spot.room_m.copy()
        moving = np.flatnonzero(since_s > now_s)
        gone_s = now_s - self.trip_s[moving, 0]
        position_m[moving] = self.way.interpolate_m(moving, gone_s)
        return copy_with(self, position_m=position_m, depth_m=spot.depth_m, now_s=now_s)


@frozen
class Trips:
    """m trips to rooms `there`: the ways from room to room; time_s (m, 6), drives (m,) : as in
    `Lives`.
    """

    room: Rooms
    way: Paths
    time_s: FloatArray
    drives: BoolArray


def plan_trips(state: Lives, row: IntArray, new_room: Rooms, leave_s: FloatArray) -> Trips:
    """Trips of UEs in `row` (m,) from the rooms that they are in to other ones, which begin at
    leave_s (m,).
    """
    town = state.town
    old_room = state.there.select(row)
    premises = town.venues.premises
    from_m = premises.door_m[old_room.place]
    to_m = premises.door_m[new_room.place]
    mode = town.people.mode[row]
    away_m = norm(to_m - from_m, axis=1)
    near = (mode == DRIVE) & (away_m < _DRIVE_FROM_M)
    near |= (mode == CYCLE) & (away_m < _CYCLE_FROM_M)
    walks = near
    for place in (old_room.place, new_room.place):
        walks |= premises.select_access(mode, place).street < 0
    mode = np.where(walks, WALK, mode)
    origin = premises.select_access(mode, old_room.place)
    destination = premises.select_access(mode, new_room.place)
    outside = town.routes.find_trips(origin, destination, mode, from_m, to_m)
    out_s = norm(from_m - old_room.room_m, axis=1) / _INDOOR_M_S
    in_s = norm(new_room.room_m - to_m, axis=1) / _INDOOR_M_S
    board_s = norm(origin.at_m - from_m, axis=1) / WALK_M_S
    alight_s = norm(destination.at_m - to_m, axis=1) / WALK_M_S
    zero_s = np.zeros(len(row))
    end_s = out_s + outside.span + in_s
    door_s = end_s - in_s
    since_s = np.stack([zero_s, out_s, out_s + board_s, door_s - alight_s, door_s, end_s], axis=1)
    ends = outside.first.repeat(2)[1:-1]
    rooms_m = np.stack([old_room.room_m, new_room.room_m], axis=1).reshape(-1, 2)
    vertex_m = np.insert(outside.vertex_m, ends, rooms_m, axis=0)
    first = outside.first + 2 * np.arange(len(outside.first))
    ends_s = np.column_stack([zero_s, end_s]).ravel()
    along_s = outside.along + out_s[outside.owner]
    way = Paths(vertex_m, first, np.insert(along_s, ends, ends_s))
    return Trips(new_room, way, leave_s[:, None] + since_s, mode == DRIVE)

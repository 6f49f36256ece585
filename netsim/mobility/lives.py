"""The state of residents: rooms, last trips, and places visited."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from netsim.checkpoint import REBUILT
from netsim.columns import altered, frozen, replaced
from netsim.mobility.base import State
from netsim.mobility.people import NOWHERE, People, Rooms, Venues
from netsim.streets.graph import CYCLE, DRIVE, WALK, WALK_M_S
from netsim.streets.paths import Paths
from netsim.streets.routes import Routes
from netsim.ues import Indoors
from netsim.units import BoolArray, FloatArray, IntArray

_INDOOR_M_S = 1.0  # between a room and the door
_DRIVE_FROM_M, _CYCLE_FROM_M = 1000.0, 500.0  # straight-line distances below which people walk


@frozen
class PeopledTown:
    """The people, venues and routes of a town, which do not change during a run."""

    people: People
    venues: Venues
    routes: Routes


@frozen
class Lives(State):
    """The state of n_ue residents.

    ue, decision (n_ue,) : index of the UE and number of its last decision.
    before, there : rooms where the last trip began, and where it ended or will end.
    way : that trip, by time since departure, without vertices for a UE whose trip is over.
    trip_s (n_ue, 6) : times of that trip: leaves the room, leaves the door, boards a vehicle at the street, leaves the
        vehicle, is at the door, is in the room.
    until_s (n_ue,) : when the stay after it ends.
    breaks (n_ue,) : whether the stay ends before the timetable asks for it.
    drives (n_ue,) : whether that trip is driven; stay (n_ue,): number of the stay after it.
    visited, count (n_ue, v) : places visited, in the order of the first visit, and how often; -1 and 0 beyond them.
    now_s : the time of the state.
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
    town: PeopledTown = field(metadata=REBUILT)

    def indoors(self) -> Indoors:
        """Building, floor and depth of every UE that is indoors; between room and door a UE is indoors."""
        leaves, boards, alights, arrives = self.trip_s[:, 1:5].T
        begins = self.now_s < leaves
        ends = self.now_s >= arrives
        inside = begins | ends
        place = np.where(begins, self.before.place, self.there.place)
        floor = np.where(begins, self.before.floor, self.there.floor)
        depth_m = np.where(begins, self.before.depth_m, self.there.depth_m)
        return Indoors(
            ue=self.ue,
            building=np.where(inside, self.town.venues.premises.building[place], -1),
            floor=np.where(inside, floor, 0),
            depth_m=np.where(inside, depth_m, 0.0),
            stay=self.stay - begins,
            in_vehicle=self.drives & (boards <= self.now_s) & (self.now_s < alights),
        )

    def decided(self, row: IntArray, until_s: FloatArray, breaks: BoolArray) -> Lives:
        """The state after decisions of UEs in `row` (m,): the ends of their stays."""
        return altered(
            self,
            decision=replaced(self.decision, row, self.decision[row] + 1),
            until_s=replaced(self.until_s, row, until_s),
            breaks=replaced(self.breaks, row, breaks),
        )

    def leaving(self, row: IntArray, trip: Trips, now_s: float) -> Lives:
        """The state in which UEs in `row` (m,) leave on trips; the ways of trips that end by now_s are dropped."""
        n = len(self.ue)
        m = len(row)
        way = np.where(self.trip_s[:, -1] > now_s, np.arange(n), n + m)
        way[row] = n + np.arange(m)
        known = self.visited[row]
        same = known == trip.there.place[:, None]
        column = np.where(same.any(axis=1), same.argmax(axis=1), (known >= 0).sum(axis=1))
        grown = ((0, 0), (0, self.visited.shape[1] if column.max(initial=0) >= self.visited.shape[1] else 0))
        visited = np.pad(self.visited, grown, constant_values=NOWHERE)
        count = np.pad(self.count, grown)
        visited[row, column] = trip.there.place
        count[row, column] += 1
        return altered(
            self,
            before=self.before.replaced(row, self.there.select(row)),
            there=self.there.replaced(row, trip.there),
            way=Paths.join([self.way, trip.way, Paths.none(1)]).select(way),
            trip_s=replaced(self.trip_s, row, trip.time_s),
            drives=replaced(self.drives, row, trip.drives),
            stay=replaced(self.stay, row, self.stay[row] + 1),
            visited=visited,
            count=count,
        )

    def at(self, now_s: float) -> Lives:
        """The state at now_s; positions of UEs that rest are those of their rooms, to the last bit."""
        position_m = self.there.room_m.copy()
        moving = np.flatnonzero(self.trip_s[:, -1] > now_s)
        position_m[moving] = self.way.position(moving, now_s - self.trip_s[moving, 0])
        return altered(self, position_m=position_m, now_s=now_s)


@frozen
class Trips:
    """m trips to rooms `there`: the ways from room to room; time_s (m, 6), drives (m,) : as in `Lives`."""

    there: Rooms
    way: Paths
    time_s: FloatArray
    drives: BoolArray


def trips(state: Lives, row: IntArray, there: Rooms, leave_s: FloatArray) -> Trips:
    """Trips of UEs in `row` (m,) from the rooms that they are in to other ones, which begin at leave_s (m,)."""
    town = state.town
    here = state.there.select(row)
    premises = town.venues.premises
    from_m = premises.door_m[here.place]
    to_m = premises.door_m[there.place]
    mode = town.people.mode[row]
    away_m = np.linalg.norm(to_m - from_m, axis=1)
    near = ((mode == DRIVE) & (away_m < _DRIVE_FROM_M)) | ((mode == CYCLE) & (away_m < _CYCLE_FROM_M))
    closed = np.minimum(premises.meets(mode, here.place).street, premises.meets(mode, there.place).street) < 0
    mode = np.where(near | closed, WALK, mode)
    origin = premises.meets(mode, here.place)
    destination = premises.meets(mode, there.place)
    outside = town.routes.trips(origin, destination, mode, from_m, to_m)
    out_s = np.linalg.norm(from_m - here.room_m, axis=1) / _INDOOR_M_S
    in_s = np.linalg.norm(there.room_m - to_m, axis=1) / _INDOOR_M_S
    board_s = np.linalg.norm(origin.at_m - from_m, axis=1) / WALK_M_S
    alight_s = np.linalg.norm(destination.at_m - to_m, axis=1) / WALK_M_S
    zero_s = np.zeros(len(row))
    end_s = out_s + outside.span + in_s
    since_s = np.stack([zero_s, out_s, out_s + board_s, end_s - in_s - alight_s, end_s - in_s, end_s], axis=1)
    ends = np.column_stack([outside.first[:-1], outside.first[1:]]).ravel()
    way = Paths(
        np.insert(outside.vertex_m, ends, np.stack([here.room_m, there.room_m], axis=1).reshape(-1, 2), axis=0),
        outside.first + 2 * np.arange(len(outside.first)),
        np.insert(outside.along + out_s[outside.owner], ends, np.column_stack([zero_s, end_s]).ravel()),
    )
    return Trips(there, way, leave_s[:, None] + since_s, mode == DRIVE)

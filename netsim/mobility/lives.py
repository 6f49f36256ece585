"""The state of residents: positions, last trips, and places visited."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netsim.checkpoint import GROWS, REBUILT
from netsim.columns import altered
from netsim.later import Later
from netsim.mobility.base import State
from netsim.mobility.decisions import Decisions
from netsim.mobility.exploration import NOWHERE
from netsim.mobility.journeys import Journeys
from netsim.mobility.people import People
from netsim.mobility.venues import Venues
from netsim.streets.routes import Routes
from netsim.ues import Indoors
from netsim.units import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from netsim.mobility import journey_loops
else:
    journey_loops = Later("netsim.mobility.journey_loops")


@dataclass(frozen=True, eq=False)
class PeopledTown:
    """The people, venues and routes of a town, which do not change during a run."""

    people: People
    venues: Venues
    routes: Routes


@dataclass(frozen=True, eq=False)
class Lives(State):
    """The state of n_ue residents.

    ue, decision (n_ue,) : index of the UE and number of its last decision.
    place, floor, depth_m (n_ue, 2), room_m (n_ue, 2, 2) : where the last trip began, and where it ended or will end.
    trip_s (n_ue, 6) : times of that trip: leaves the room, leaves the door, boards a vehicle at the street, leaves the
        vehicle, is at the door, is in the room.
    until_s (n_ue,) : when the stay after it ends.
    breaks (n_ue,) : whether the stay ends before the timetable asks for it.
    drives (n_ue,) : whether that trip is driven; stay (n_ue,): number of the stay after it.
    visited, count (n_ue, v) : places visited, in the order of the first visit, and how often; -1 and 0 beyond them.
    inside (n_ue,) : 0 in the building where the trip began, 1 in that where it ends, -1 outdoors; in_vehicle (n_ue,).
    """

    ue: IntArray
    decision: IntArray
    place: IntArray
    floor: IntArray
    depth_m: FloatArray
    room_m: FloatArray
    trip_s: FloatArray
    until_s: FloatArray
    breaks: BoolArray
    drives: BoolArray
    stay: IntArray
    visited: IntArray = field(metadata=GROWS)
    count: IntArray = field(metadata=GROWS)
    inside: IntArray
    in_vehicle: BoolArray
    journeys: Journeys
    town: PeopledTown = field(metadata=REBUILT)

    def indoors(self) -> Indoors:
        """Building, floor and depth of every UE that is indoors; between room and door a UE is indoors."""
        row, there = np.arange(len(self.ue)), np.maximum(self.inside, 0)
        indoors = self.inside >= 0
        building = self.town.venues.premises.building[self.place[row, there]]
        return Indoors(
            ue=self.ue,
            building=np.where(indoors, building, -1),
            floor=np.where(indoors, self.floor[row, there], 0),
            depth_m=np.where(indoors, self.depth_m[row, there], 0.0),
            stay=self.stay - (self.inside == 0),
            in_vehicle=self.in_vehicle,
        )


def after(state: Lives, made: Decisions, until_s: float) -> Lives:
    """The state after decisions. Journeys that end by until_s are dropped."""
    new = altered(state, **{k: v.copy() for k, v in vars(state).items() if isinstance(v, np.ndarray)})
    new.decision[made.row] += 1
    new.until_s[made.row], new.breaks[made.row] = made.until_s, made.breaks
    who, room = made.leaver, made.room
    if not len(who):
        return new
    for both, value in (
        (new.place, made.place), (new.floor, room.floor), (new.depth_m, room.depth_m), (new.room_m, room.room_m),
    ):  # fmt: skip
        both[who, 0], both[who, 1] = both[who, 1], value
    new.trip_s[who], new.drives[who] = made.trip_s, made.drives
    new.stay[who] += 1
    keep = state.trip_s[:, -1] > until_s
    return altered(_visiting(new, who, made.place), journeys=state.journeys.with_trips(who, made.trips, keep))


def _visiting(state: Lives, row: IntArray, place: IntArray) -> Lives:
    """One more visit of UEs in `row` (m,) to a place each (m,); changes the state given, where there is room."""
    visited, count = state.visited, state.count
    known = visited[row]
    same = known == place[:, None]
    column = np.where(same.any(axis=1), same.argmax(axis=1), (known >= 0).sum(axis=1))
    if column.max() >= visited.shape[1]:
        visited = np.pad(visited, ((0, 0), (0, visited.shape[1])), constant_values=NOWHERE)
        count = np.pad(count, ((0, 0), (0, count.shape[1])))
    visited[row, column] = place
    count[row, column] += 1
    return altered(state, visited=visited, count=count)


def placed(state: Lives, now_s: float) -> Lives:
    """The state with positions at now_s; those of UEs that rest are those of their rooms, to the last bit."""
    way = state.journeys
    position_m, inside, in_vehicle = journey_loops.placed(
        now_s, state.room_m, state.trip_s, state.drives, way.first, way.vertex_m, way.time_s
    )
    return altered(state, position_m=position_m, inside=inside, in_vehicle=in_vehicle)

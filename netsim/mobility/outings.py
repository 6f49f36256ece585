"""Outings of residents: destination room, mode of travel, and times at doors and streets."""

from __future__ import annotations

import numpy as np

from netsim.mobility.journeys import between_rooms, indoor_s
from netsim.mobility.lives import Lives, PeopledTown
from netsim.mobility.venues import Rooms, rooms
from netsim.rng import Rng
from netsim.streets.graph import CYCLE, DRIVE, WALK
from netsim.streets.routes import Trips
from netsim.streets.speeds import WALK_M_S
from netsim.units import BoolArray, FloatArray, IntArray

_DRIVE_FROM_M, _CYCLE_FROM_M = 1000.0, 500.0  # straight-line distances below which people walk


def room_in(town: PeopledTown, row: IntArray, place: IntArray, ue: IntArray, number: IntArray, rng: Rng) -> Rooms:
    """The rooms (m,) in which people stay: their own at home and at work, elsewhere drawn for the stay."""
    people = town.people
    some = rooms(town.venues, place, rng, "room", ue, number)
    some = people.work_room.select(row).where(place == people.work[row], some)
    return people.home_room.select(row).where(place == people.home[row], some)


def outings(state: Lives, row: IntArray, place: IntArray, room: Rooms) -> tuple[FloatArray, Trips, BoolArray]:
    """Trips of UEs in `row` (m,) to rooms in places (m,): their times since departure (m, 6), as `Lives.trip_s`.

    Also the trips themselves, from room to room, and which of them are driven (m,).
    """
    town, here = state.town, state.place[row, 1]
    premises = town.venues.premises
    mode = _mode(town, row, here, place)
    origin, destination = premises.meets(mode, here), premises.meets(mode, place)
    from_m, to_m = premises.door_m[here], premises.door_m[place]
    outside = town.routes.trips(origin, destination, mode, from_m, to_m)
    whole = between_rooms(outside, state.room_m[row, 1], room.room_m)
    out_s, in_s = indoor_s(outside, state.room_m[row, 1], room.room_m)
    board_s = np.linalg.norm(origin.at_m - from_m, axis=1) / WALK_M_S
    alight_s = np.linalg.norm(destination.at_m - to_m, axis=1) / WALK_M_S
    end_s = whole.duration_s
    zero_s = np.zeros(len(row))
    since_s = np.stack([zero_s, out_s, out_s + board_s, end_s - in_s - alight_s, end_s - in_s, end_s], axis=1)
    return since_s, whole, mode == DRIVE


def _mode(town: PeopledTown, row: IntArray, here: IntArray, there: IntArray) -> IntArray:
    """Mode of travel (m,) of people in `row` (m,) from one place to another (m,)."""
    premises = town.venues.premises
    mode = town.people.mode[row]
    away_m = np.linalg.norm(premises.door_m[there] - premises.door_m[here], axis=1)
    near = ((mode == DRIVE) & (away_m < _DRIVE_FROM_M)) | ((mode == CYCLE) & (away_m < _CYCLE_FROM_M))
    closed = np.minimum(*(premises.meets(mode, at).edge for at in (here, there))) < 0
    return np.where(near | closed, WALK, mode)

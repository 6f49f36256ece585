"""Decisions of residents: where they go next, how, and until when they stay."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.mobility.venues import Rooms
from netsim.streets.routes import Trips
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Decisions:
    """m decisions, at most one of a UE, each due at the end of its stay.

    row, number (m,) : row of the UE, and number of the decision.
    until_s, breaks (m,) : as in `Lives`.
    leaves (k,) : the decisions to leave for another place; place (k,), room : that place and the room there;
        trip_s (k, 6), drives (k,) : as in `Lives`; trips : the journeys from room to room.
    """

    row: IntArray
    number: IntArray
    leaves: IntArray
    place: IntArray
    room: Rooms
    trip_s: FloatArray
    drives: BoolArray
    trips: Trips
    until_s: FloatArray
    breaks: BoolArray

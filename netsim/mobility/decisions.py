"""Decisions of residents: next place, way there and end of the stay."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.mobility.venues import Rooms
from netsim.streets.routes import Trips
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Decisions:
    """m decisions, at most one of a UE, and the k trips of UEs that leave for another place.

    row (m,) : row of the UE; until_s, breaks (m,) : as in `Lives`.
    leaver (k,) : row of the UE; place (k,), room : its destination; trip_s (k, 6), drives (k,) : as in `Lives`;
    trips : journeys from room to room.
    """

    row: IntArray
    until_s: FloatArray
    breaks: BoolArray
    leaver: IntArray
    place: IntArray
    room: Rooms
    trip_s: FloatArray
    drives: BoolArray
    trips: Trips

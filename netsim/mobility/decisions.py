"""Decisions of residents: where they go next, how, and until when they stay; made when due, or ahead of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.columns import Columns
from netsim.streets.routes import Trips
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Decisions(Columns):
    """m decisions in an order in which each UE's follow one another.

    row, number (m,) : row of the UE, and number of the decision; at_s (m,) : when it is due, at the end of a stay.
    moves (m,) : whether the UE leaves for another place. Of one that does not, the next ones have any values:
        place, floor, depth_m (m,), room_m (m, 2) : where it goes; trip_s (m, 6), drives (m,) : as in `Lives`;
        trips : its journey from room to room, of no vertex for one that stays.
    until_s, breaks (m,) : as in `Lives`.
    """

    row: IntArray
    number: IntArray
    at_s: FloatArray
    moves: BoolArray
    place: IntArray
    floor: IntArray
    depth_m: FloatArray
    room_m: FloatArray
    trip_s: FloatArray
    drives: BoolArray
    trips: Trips
    until_s: FloatArray
    breaks: BoolArray

    def __len__(self) -> int:
        return len(self.row)

    def following(self, number: IntArray, until_s: FloatArray) -> IntArray:
        """Indices of the next decisions of UEs whose last ones are `number` (n,), at the ends until_s (n,) of stays."""
        return np.flatnonzero((self.number == number[self.row] + 1) & (self.at_s == until_s[self.row]))


@dataclass(frozen=True, eq=False)
class Foreseen:
    """Decisions that were made ahead, and what they depend on beside the state."""

    decisions: Decisions
    by: tuple[Any, ...]

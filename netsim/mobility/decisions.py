"""Decisions of residents: where they go next, how, and until when they stay; made when due, or ahead of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from netsim.streets.routes import Trips
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Decisions:
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

    @classmethod
    def join(cls, pieces: list[Self]) -> Self:
        """All decisions of at least one piece, those of the first piece first."""
        if len(pieces) == 1:
            return pieces[0]
        names = [f.name for f in fields(cls) if f.name != "trips"]
        columns = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in names}
        return cls(**columns, trips=Trips.join([piece.trips for piece in pieces]))

    def select(self, index: IntArray) -> Self:
        """Decisions by index."""
        columns = {f.name: getattr(self, f.name)[index] for f in fields(self) if f.name != "trips"}
        return type(self)(**columns, trips=self.trips.select(index))

    def following(self, number: IntArray, until_s: FloatArray) -> IntArray:
        """Indices of the next decisions of UEs whose last ones are `number` (n,), at the ends until_s (n,) of stays."""
        return np.flatnonzero((self.number == number[self.row] + 1) & (self.at_s == until_s[self.row]))


@dataclass(frozen=True, eq=False)
class Foreseen:
    """Decisions that were made ahead, and what they depend on beside the state."""

    decisions: Decisions
    by: tuple[Any, ...]

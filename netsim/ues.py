"""States of UEs: inside or outside, their measurements, their tracks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Self

import numpy as np

from netsim.clock import find_first_multiple, find_last_multiple
from netsim.columns import Columns, frozen, no_floats, no_ints, no_places
from netsim.units import BoolArray, FloatArray, IntArray

STOREY_M = 3.0  # [TR 38.901, Section 7.2] height of a floor: h_UT = 3 (n_fl - 1) + 1.5 m


@frozen
class _OfUes(Columns):
    """Columns with the UE of each row."""

    ue: IntArray

    def __len__(self) -> int:
        return len(self.ue)


@frozen
class Indoors(_OfUes):
    """One row a UE.

    ue (n,) : index of the UE, which owns the random terms of its stays.
    building (n,) : index of the building that the UE is in, -1 outside of buildings.
    floor (n,) : storey above the ground floor, 0 on the ground floor and outside of buildings.
    depth_m (n,) : distance d_2D-in from the facade, m; 0 outside of buildings.
    stay (n,) : number of the stay; random terms of penetration loss change with it only.
    in_vehicle (n,) : whether the UE is inside a vehicle.
    """

    building: IntArray
    floor: IntArray
    depth_m: FloatArray
    stay: IntArray
    in_vehicle: BoolArray

    @classmethod
    def outdoors(cls, ue: IntArray) -> Self:
        """All UEs outdoors and on foot."""
        n = len(ue)
        zero = np.zeros(n, int)
        return cls(ue, np.full(n, -1), zero, np.zeros(n), zero, np.zeros(n, bool))

    @property
    def inside(self) -> BoolArray:
        """Whether each UE is in a building (n,)."""
        return self.building >= 0


@frozen
class Fixes(_OfUes):
    """Places and times at which UEs measure.

    ue (n,), time_s (n,), position_m (n, 2) is the position as the UE knows it (GPS noise included).
    A replayed trace may bring its own rsrp_dbm (n,) and cell (n,); otherwise they are None and the
    radio supplies them.
    """

    time_s: FloatArray
    position_m: FloatArray
    rsrp_dbm: FloatArray | None = None
    cell: IntArray | None = None

    @staticmethod
    @cache
    def none() -> Fixes:
        """No fix."""
        return Fixes(no_ints(), no_floats(), no_places())


@frozen
class Observations(_OfUes):
    """One row a measured signal: ue (n,), time_s (n,), position_m (n, 2), cell (n,), rsrp_dbm
    (n,).
    """

    time_s: FloatArray
    position_m: FloatArray
    cell: IntArray
    rsrp_dbm: FloatArray

    @classmethod
    def none(cls) -> Observations:
        """No observation."""
        return cls(no_ints(), no_floats(), no_places(), no_ints(), no_floats())


# that are looked at, and of all their tracks together
MOST_UES = 1000
MOST_ROWS = 200_000


@dataclass(frozen=True)
class Looks:
    """The grid of times of looks at the first `ues` UEs: 0, every_s, ..., last every_s."""

    every_s: float
    ues: int
    last: int

    @classmethod
    def choose_interval(cls, n_ue: int, duration_s: float, tick_s: float) -> Self:
        """The shortest interval, a multiple of tick_s, at which a row of every UE at every look is
        not too many.
        """
        ues = min(n_ue, MOST_UES)
        ticks = find_last_multiple(duration_s, tick_s)
        stride = ticks // (MOST_ROWS // max(ues, 1)) + 1
        return cls(stride * tick_s, ues, ticks // stride)


@frozen
class UeStates(Columns):
    """All UEs at a look: at_m (n_ue, 2), NaN for an absent one; inside (n_ue,); cell (n_ue,), -1
    for none.
    """

    at_m: FloatArray
    inside: BoolArray
    cell: IntArray

    @property
    def absent(self) -> BoolArray:
        """Whether each UE is absent (n,)."""
        return np.any(np.isnan(self.at_m), axis=1)

    def find_changed(self, new: UeStates) -> BoolArray:
        """Whether each UE has moved, come or gone, went in or out, or has another cell (n,)."""
        is_absent = new.absent
        was_gone = self.absent
        is_changed = (new.at_m != self.at_m).any(axis=1)
        is_changed |= (new.inside != self.inside) | (new.cell != self.cell)
        return (is_absent != was_gone) | (~is_absent & ~was_gone & is_changed)


@frozen
class TrackRows:
    """Rows of tracks: the UEs (k,), the number of the look, and the UEs then."""

    ue: IntArray
    look: int
    seen: UeStates


@frozen
class Trail:
    """Progress of tracks: number of the last look, -1 before any; the UEs then; the look of each
    UE's last row (t,).
    """

    looked: int
    seen: UeStates
    row: IntArray

    @classmethod
    def start(cls, looks: Looks) -> Self:
        """The state before the first look: all UEs are absent."""
        none = np.full(looks.ues, -1)
        return cls(
            -1,
            UeStates(np.full((looks.ues, 2), np.nan), np.zeros(looks.ues, bool), none),
            none,
        )

    def look(self, number: int, states: UeStates) -> tuple[Trail, list[TrackRows]]:
        """The next state, and the rows that look `number` gives; nothing has changed between the
        last look and it.
        """
        states = states.select(slice(len(self.row)))
        changed = np.flatnonzero(self.seen.find_changed(states))
        has_gap = self.row[changed] < number - 1
        rested = changed[has_gap & ~self.seen.absent[changed]]
        rows = [
            TrackRows(rested, number - 1, self.seen.select(rested)),
            TrackRows(changed, number, states.select(changed)),
        ]
        row = self.row.copy()
        row[changed] = number
        return Trail(number, states, row), [piece for piece in rows if len(piece.ue)]


@dataclass
class Tracks:
    """Takes the tracks of a world whose UEs, when they move, do so at every tick; looks are at
    ticks.
    """

    looks: Looks
    trail: Trail
    rows: list[TrackRows] = field(default_factory=list)
    """rows that have not been drained yet"""

    def record_moves(
        self, time_s: float, before: Callable[[], UeStates], after: Callable[[], UeStates]
    ) -> None:
        """Look at the UEs, which have been as `before` since the last call, and are as `after` at
        time_s.
        """
        looks = self.looks
        # numbers of the last look before time_s, -1 for none, and of the last at or before it
        passed = min(find_first_multiple(time_s, looks.every_s) - 1, looks.last)
        number = min(find_last_multiple(time_s, looks.every_s), looks.last)
        if passed > self.trail.looked:
            self._take(self.trail.looked + 1, before())
            self.trail = replace(self.trail, looked=passed)  # nothing changed until then
        if number > self.trail.looked:
            self._take(number, after())

    def _take(self, number: int, seen: UeStates) -> None:
        self.trail, rows = self.trail.look(number, seen)
        self.rows += rows

    def drain(self) -> list[TrackRows]:
        """The rows since the last call."""
        rows = self.rows
        self.rows = []
        return rows

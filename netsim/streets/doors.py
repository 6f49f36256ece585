"""Doors: where a building is entered, and the nearest street for every mode of travel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from netsim.columns import Columns, no_ints, no_places
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Access(Columns):
    """Points on streets: edge (k,), distance along_m (k,) from its tail, and position at_m (k, 2).

    edge is -1 where no street is open to the mode of travel.
    """

    edge: IntArray
    along_m: FloatArray
    at_m: FloatArray


@dataclass(frozen=True, eq=False)
class Premises:
    """Buildings that can be entered from a street, k of them.

    building (k,) : index into the buildings of the city.
    door_m (k, 2) : point of the facade that is nearest to a street that is open to pedestrians.
    access : nearest point of a street to the door, for walking, cycling and driving (order of `graph.MODES`).
    floors (k,) : number of storeys.
    floor_area_m2 (k,) : area of the footprint times storeys.
    """

    building: IntArray
    door_m: FloatArray
    access: tuple[Access, Access, Access]
    floors: IntArray
    floor_area_m2: FloatArray

    def __len__(self) -> int:
        return len(self.building)

    @cached_property
    def _meets(self) -> Access:
        """`access` with a row for each mode of travel."""
        names = ("edge", "along_m", "at_m")
        return Access(*(np.stack([getattr(each, name) for each in self.access]) for name in names))

    def meets(self, mode: IntArray, which: IntArray) -> Access:
        """Points at which some of the premises (m,) meet the streets, for a mode of travel each (m,)."""
        each = self._meets
        return Access(each.edge[mode, which], each.along_m[mode, which], each.at_m[mode, which])

    @classmethod
    def none(cls) -> Premises:
        """No building has a door."""
        nothing, nowhere = no_ints(), no_places()
        access = Access(nothing, np.zeros(0), nowhere)
        return cls(nothing, nowhere, (access, access, access), nothing, np.zeros(0))

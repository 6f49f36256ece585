"""Which UEs are inside a building or a vehicle, and where in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from netsim.columns import Columns
from netsim.units import BoolArray, FloatArray, IntArray

STOREY_M = 3.0  # [TR 38.901, Section 7.2] height of a floor: h_UT = 3 (n_fl - 1) + 1.5 m


@dataclass(frozen=True, eq=False)
class Indoors(Columns):
    """One row a UE.

    ue (n,) : index of the UE, which owns the random terms of its stays.
    building (n,) : index of the building that the UE is in, -1 outside of buildings.
    floor (n,) : storey above the ground floor, 0 on the ground floor and outside of buildings.
    depth_m (n,) : distance d_2D-in from the facade, m; 0 outside of buildings.
    stay (n,) : number of the stay; random terms of penetration loss change with it only.
    in_vehicle (n,) : whether the UE is inside a vehicle.
    """

    ue: IntArray
    building: IntArray
    floor: IntArray
    depth_m: FloatArray
    stay: IntArray
    in_vehicle: BoolArray

    def __len__(self) -> int:
        return len(self.ue)

    @classmethod
    def outdoors(cls, ue: IntArray) -> Self:
        """All UEs outdoors and on foot."""
        n = len(ue)
        zero = np.zeros(n, dtype=np.int64)
        return cls(ue, np.full(n, -1), zero, np.zeros(n), zero, np.zeros(n, dtype=np.bool_))

    @property
    def inside(self) -> BoolArray:
        """Whether each UE is in a building (n,)."""
        return self.building >= 0

    @property
    def above_ground_m(self) -> FloatArray:
        """Height of the floor above ground (n,), m; added to the height of a UE at street level."""
        return np.asarray(STOREY_M * self.floor)

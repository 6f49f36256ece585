"""UEs that do not move."""

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.errors import BadInput
from netsim.mobility.base import Ground, Mobility, State
from netsim.mobility.places import Points, listed_m
from netsim.ues import Fixes
from netsim.units import BoolArray, FloatArray, IntArray

_DRAWS = 1000  # of a place away from all base stations
_BLOCK = 4096  # UEs whose distances are computed at once, to bound memory


class Static(Mobility):
    """UEs do not move: x_u(t) = x_u(0), drawn uniformly outdoors unless `positions_m` lists the places.

    UE u takes place u mod len(positions_m), so adding a UE does not move the others. A listed place may be indoors.
    """

    renamed: ClassVar = {"at_m": "positions_m"}
    reference: ClassVar = "none: a fixed deployment"
    example: ClassVar = {"kind": "static"}

    kind: Literal["static"] = "static"
    positions_m: Points | None = None
    """places [[x, y], ...] in m; none: uniform outdoors"""
    min_station_distance_m: float = Field(default=0.0, ge=0, le=1e6)
    """smallest horizontal distance from a base station, m; nearer places are drawn again"""

    @model_validator(mode="after")
    def _drawn(self) -> Self:
        if self.positions_m is not None and self.min_station_distance_m:
            raise ValueError(
                "min_station_distance_m: belongs to places that are drawn; leave it out beside positions_m"
            )
        return self

    def start(self, ue: IntArray, ground: Ground) -> State:
        """Positions (n_ue, 2), which do not change."""
        if self.positions_m is not None:
            return State(listed_m(self.positions_m, ue, ground.area, "world.ues.mobility.positions_m"))
        rng = ground.streams.at("mobility.static")
        position_m = ground.buildings.outdoor(ground.area, rng, "start", ue)
        if not self.min_station_distance_m:
            return State(position_m)
        left = np.flatnonzero(self._near(position_m, ground.stations_m))
        for draw in range(1, _DRAWS):
            if not left.size:
                return State(position_m)
            position_m[left] = ground.buildings.outdoor(ground.area, rng, f"start.{draw}", ue[left])
            left = left[self._near(position_m[left], ground.stations_m)]
        raise BadInput(
            f"world.ues.mobility.min_station_distance_m: {_DRAWS} random places were all within "
            f"{self.min_station_distance_m:g} m of a base station; take a smaller distance"
        )

    def _near(self, position_m: FloatArray, stations_m: FloatArray) -> BoolArray:
        """Which positions (n, 2) are too near to a base station."""
        near = np.zeros(len(position_m), dtype=np.bool_)
        for at in range(0, len(position_m), _BLOCK):
            away_m = np.linalg.norm(position_m[at : at + _BLOCK, None] - stations_m, axis=-1)
            near[at : at + _BLOCK] = (away_m < self.min_station_distance_m).any(axis=1)
        return near

    def advance(self, state: State, t0_s: float, t1_s: float, ground: Ground) -> tuple[State, Fixes]:
        """The same state, without fixes."""
        return state, Fixes.none()

    def wake_s(self, state: State, now_s: float, ground: Ground) -> float:
        """Infinity: no UE ever moves."""
        return float("inf")

"""UEs that do not move."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from netsim.mobility.base import Ground, Mobility, State
from netsim.mobility.places import Points, listed_m
from netsim.observations import Fixes
from netsim.units import IntArray


class Static(Mobility):
    """UEs do not move: x_u(t) = x_u(0), drawn uniformly outdoors unless `at_m` lists the places.

    UE u takes place u mod len(at_m), so adding a UE does not move the others. A listed place may be indoors.
    """

    reference: ClassVar[str] = "none: a fixed deployment"
    example: ClassVar[dict[str, Any]] = {"kind": "static"}

    kind: Literal["static"] = "static"
    at_m: Points | None = None
    """places [[x, y], ...] in m; none: uniform outdoors"""

    def start(self, ue: IntArray, ground: Ground) -> State:
        """Positions (n_ue, 2), which do not change."""
        if self.at_m is not None:
            return State(listed_m(self.at_m, ue, ground.area, "world.ues.mobility.at_m"))
        rng = ground.streams.at("mobility.static")
        return State(ground.buildings.outdoor(ground.area, rng, "start", ue))

    def advance(self, state: State, t0_s: float, t1_s: float, ground: Ground) -> tuple[State, Fixes]:
        """The same state, without fixes."""
        return state, Fixes.none()

    def wake_s(self, state: State, now_s: float, ground: Ground) -> float:
        """Infinity: no UE ever moves."""
        return float("inf")

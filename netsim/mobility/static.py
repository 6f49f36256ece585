"""UEs that stay where they are."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from netsim.mobility.base import Ground, Mobility, State
from netsim.mobility.places import Points, listed_m
from netsim.observations import Fixes
from netsim.units import IntArray


class Static(Mobility):
    """Nobody moves: x_u(t) = x_u(0), uniform out of doors unless `at_m` lists the places.

    UE u takes place u mod len(at_m), so that adding a UE moves nobody. A listed place may be indoors.
    """

    reference: ClassVar[str] = "none: a fixed deployment"
    example: ClassVar[dict[str, Any]] = {"kind": "static"}

    kind: Literal["static"] = "static"
    at_m: Points | None = None
    """places [[x, y], ...] in m; none: uniform out of doors"""

    def start(self, ue: IntArray, ground: Ground) -> State:
        """Positions (n_ue, 2), for good."""
        if self.at_m is not None:
            return State(listed_m(self.at_m, ue, ground.area, "world.ues.mobility.at_m"))
        rng = ground.streams.at("mobility.static")
        return State(ground.buildings.outdoor(ground.area, rng, "start", ue))

    def advance(self, state: State, t0_s: float, t1_s: float, ground: Ground) -> tuple[State, Fixes]:
        """Time passes."""
        return state, Fixes.none()

    def wake_s(self, state: State, now_s: float, ground: Ground) -> float:
        """Never."""
        return float("inf")

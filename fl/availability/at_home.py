"""UEs that learn at home only."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.availability.base import HOMES, Availability, Conditions
from fl.types import State
from netsim.rng import Rng
from netsim.units import BoolArray


class AtHome(Availability):
    """A UE is available while it is within `radius_m` of its home, where it has Wi-Fi and power.

    A UE without a home, or that is absent, is not available. Homes are those of the mobility model; for a replayed
    trace they are the places where UEs were at night.
    """

    kind: Literal["at-home"] = "at-home"
    radius_m: float = Field(default=100.0, gt=0, le=1e6)
    """distance from home up to which a UE is available, m"""

    reference: ClassVar = (
        "Bonawitz et al., Towards Federated Learning at Scale: System Design, 2019, Section 3: idle, charging, and on "
        "an unmetered network; that this is so at home, and only there, is assumed"
    )
    needs: ClassVar = {HOMES: "without them no UE would ever be available"}

    def available(self, now: Conditions, state: State, rng: Rng) -> tuple[BoolArray, State]:
        return np.hypot(*(now.position_m - now.home_m).T) <= self.radius_m, state

"""The availability slot: which UEs may be asked for an update now, and how much energy they may spend on it."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.types import State
from netsim.columns import frozen
from netsim.part import OneOf, Part
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

HOMES = "homes"
"""what a rule needs that asks where UEs live"""


@frozen
class Conditions:
    """State of all UEs (n_ue,) when the server selects UEs.

    time_s : of the simulation; wall_s : what the wall clock shows, seconds from the first midnight, so that
    `wall_s % 86400` is the time of day; position_m, home_m (n_ue, 2) : NaN for a UE that is absent, or has no home.
    """

    time_s: float
    wall_s: float
    position_m: FloatArray
    home_m: FloatArray


class Availability(Part):
    """A rule by which UEs are available for learning. It must not depend on their data."""

    kind: str

    def start(self, n_ue: int) -> State:
        """The first state; None for a rule without memory."""
        return None

    @abstractmethod
    def available(self, now: Conditions, state: State, rng: Rng) -> tuple[BoolArray, State]:
        """Which of all UEs (n_ue,) may be asked now. The server asks in order of time.

        rng : one stream for the whole run, the same at every call, so that a draw for a UE and a night (or any other
        `item`) is the same whenever, and however often, the server asks.
        """

    def energy_j(self, state: State) -> FloatArray | None:
        """Energy (n_ue,) that each UE may spend on its next update, training included; None: without a limit."""
        return None

    def spent(self, ue: IntArray, energy_j: FloatArray, state: State) -> State:
        """The next state after UEs (n,) have spent energy_j (n,) on an update that has ended."""
        return state


class Always(Availability):
    """Every UE is available at any time, with energy without end."""

    kind: Literal["always"] = "always"
    reference: ClassVar = "the usual assumption of federated learning papers"

    def available(self, now: Conditions, state: State, rng: Rng) -> tuple[BoolArray, State]:
        return np.ones(len(now.position_m), dtype=np.bool_), state


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


AVAILABILITIES = OneOf(
    "availability",
    Always,
    AtHome,
    places={
        "charging": "fl.availability.energy:Charging",
        "battery": "fl.availability.energy:Battery",
    },
)

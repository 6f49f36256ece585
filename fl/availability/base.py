"""The availability slot: which UEs may be asked for an update now, and how much energy they may spend on it."""

from abc import abstractmethod

from fl.types import State
from netsim.columns import frozen
from netsim.part import Part
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

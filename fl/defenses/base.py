"""The defense slot: a half on the device, a half at the server, and a memory of what was published."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from fl.types import Facts, Local, Received, Spend, State, Updates
from netsim.part import Named
from netsim.rng import Rng
from netsim.units import FloatArray


@dataclass(frozen=True)
class Standing:
    """Where a defense with a budget stands: noise it asked of each UE (n_ue,) in its last round and what it drew of it,
    0 before the first; and the share of the budget that is left.
    """

    required_std: FloatArray
    drawn_std: FloatArray
    budget_left: float


class Defense(Named):
    """A step between the learner and the server. Steps are chained in the order written.

    A step that limits row norms sets `Updates.bound`; noise reads it. `facts.channel` is the planned uplink, so
    a defense may count on its noise. A step that changes rows withdraws the bound unless it says `keeps_bound`. A
    defense that does nothing in a half keeps the default of that half.
    """

    kind: str
    keeps_bound: ClassVar[bool] = False
    """whether row norms that were bounded before stay within the same bound"""

    contracts: ClassVar[bool] = False
    """whether it never moves two updates further apart: cutting down to a norm does not, independent noise does not"""

    caveat: ClassVar[str] = ""
    """what whoever reads a run must know of it: it stands among the warnings of the run"""

    tells_in_clear: ClassVar[str] = ""
    """what every UE tells the server in clear in each round besides its update, in words; empty: nothing"""

    @property
    def noise_on_device(self) -> bool:
        """Whether it draws noise on the update before that leaves the UE: then it holds against the server too."""
        return "spend" in self.offers and "central noise" not in self.offers

    @property
    def bounded_phase(self) -> str | None:
        """The one phase of the learner whose updates it bounds; None: it bounds none, or those of all phases."""
        return None

    @property
    def waits(self) -> bool:
        """Whether a round of it is still to be found by the plan of a study."""
        return False

    def all_drawn(self) -> Defense:
        """The same, but with all noise drawn that it may leave to the channel."""
        return self

    def switched(self, until_round: int) -> Defense:
        """The same with the round that a plan has found for it."""
        return self

    def start(self, n_ue: int) -> State:
        """The first state; None for a defense without memory."""
        return None

    def promise(self, state: State) -> float | None:
        """The L2 bound that it will hold this round, known before any update: what a radio may scale by."""
        return None

    @abstractmethod
    def protect(
        self, updates: Updates, local: Local, facts: Facts, state: State, rng: Rng
    ) -> tuple[Updates, State, list[Spend]]:
        """Device half: the whole cohort in one call."""

    def finish(
        self, total: FloatArray, n_expected: int, facts: Facts, state: State, rng: Rng
    ) -> tuple[FloatArray, State, list[Spend]]:
        """Server half: on the merged update (n_model, d), in reverse order of the chain."""
        return total, state, []

    def figures(self, state: State) -> dict[str, float]:
        """What it has to say of the round that it remembers: names with units, for the table `metrics`."""
        return {}

    def standing(self, state: State) -> Standing | None:
        """Where its budget stands, for whoever plans by it; None without one."""
        return None

    def observe(self, received: Received, weights: FloatArray, facts: Facts, state: State) -> State:
        """The next state, from public information only."""
        return state

"""The aggregation slot: how much each received row counts."""

from __future__ import annotations

from abc import abstractmethod

from fl.types import Facts, Local, Received, State
from netsim.part import Part
from netsim.units import FloatArray


class Aggregation(Part):
    """Weights of the rows that the server merges; a row that was not decoded weighs nothing."""

    kind: str

    @property
    def weight(self) -> float | None:
        """What every decoded row weighs, where that is known before any comes; None: it hangs on who comes."""
        return None

    @property
    def expected_participation(self) -> float | None:
        """Share of the UEs that its weights count on; None: they hang on who comes."""
        return None

    @property
    def discloses(self) -> str:
        """What devices tell the server of their data besides updates and their number, in words; empty: nothing."""
        return ""

    def start(self) -> State:
        """The first state; None for a rule without memory."""
        return None

    def receive_disclosed(self, local: Local, facts: Facts, state: State) -> State:
        """The next state, after devices told what it `discloses`, before they train."""
        return state

    def figures(self, state: State) -> dict[str, float]:
        """What it has to say of the round that it remembers: names with units, for the table `metrics`."""
        return {}

    @abstractmethod
    def weights(self, received: Received, facts: Facts, state: State) -> tuple[FloatArray, State]:
        """Weights (n,), 0 where not decoded; they sum to 1 over a model's decoded rows unless `weight` is fixed."""

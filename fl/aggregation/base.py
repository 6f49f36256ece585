"""The aggregation slot: how much each received row counts."""

from __future__ import annotations

from abc import abstractmethod

from fl.types import Facts, Received, State
from netsim.part import Part
from netsim.units import FloatArray


class Aggregation(Part):
    """Weights of the rows that the server merges; a row that was not decoded weighs nothing."""

    kind: str

    def start(self) -> State:
        """The first state."""
        return {}

    @abstractmethod
    def weights(self, received: Received, facts: Facts, state: State) -> tuple[FloatArray, State]:
        """Weights (n,) that sum to 1 over the decoded rows of each model (0 if there are none)."""

"""The aggregation slot: weights of the received rows."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from fl.types import Local, Metrics, Received, RoundContext, State
from netsim.part import OneOf, Part
from netsim.units import FloatArray


class Aggregation(Part):
    """Weights of the rows that the server merges; a row that was not decoded has weight 0."""

    kind: str

    @property
    def weight(self) -> float | None:
        """The weight of every decoded row if it is fixed; None: it depends on the participants."""
        return None

    @property
    def expected_participation(self) -> float | None:
        """Share of the UEs that its fixed weights assume; None: the weights depend on the participants."""
        return None

    @property
    def discloses(self) -> str:
        """Data that UEs disclose besides updates and the number of samples, in words; empty: nothing."""
        return ""

    def start(self) -> State:
        """The first state; None for a rule without memory."""
        return None

    def receive_disclosed(self, local: Local, facts: RoundContext, state: State) -> State:
        """The next state after UEs have sent what it `discloses`, before they train."""
        return state

    def figures(self, state: State) -> Metrics:
        """Figures of the last round for the table `metrics`; names with units."""
        return dict(getattr(state, "figures", {}))

    @abstractmethod
    def weights(self, received: Received, facts: RoundContext, state: State) -> tuple[FloatArray, State]:
        """Weights (n,), 0 where not decoded; they sum to 1 over a model's decoded rows unless `weight` is fixed."""


class FedAvg(Aggregation):
    """w_k = n_k / sum_j n_j over the rows that were decoded, for each model."""

    kind: Literal["fedavg"] = "fedavg"
    reference: ClassVar = "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017"

    def weights(self, received: Received, facts: RoundContext, state: State) -> tuple[FloatArray, State]:
        updates = received.updates
        mass = np.where(received.decoded, updates.count, 0.0)
        total = np.bincount(updates.model, weights=mass, minlength=facts.public.n_model)
        share = np.divide(mass, total[updates.model], out=np.zeros_like(mass), where=total[updates.model] > 0)
        return share, state


AGGREGATIONS = OneOf(
    "aggregation",
    FedAvg,
    places={
        "uniform": "fl.aggregation.weights:Uniform",
        "wasserstein": "fl.aggregation.weights:Wasserstein",
        "beda": "fl.aggregation.weights:Beda",
    },
)

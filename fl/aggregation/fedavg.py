"""Weights by the number of samples."""

from typing import ClassVar, Literal

import numpy as np

from fl.aggregation.base import Aggregation
from fl.types import Received, RoundContext, State
from netsim.units import FloatArray


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

"""Momentum at the server."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.server_optimiser.base import LINEAR_STEP, ServerOptimiser
from netsim.columns import frozen
from netsim.units import BoolArray, FloatArray


@frozen
class Velocity:
    """v (n_model, d), or (0, 0) before the first step, where it is zero."""

    value: FloatArray


class FedAvgM(ServerOptimiser):
    """v <- momentum v + D, w <- w + learning_rate v, from v = 0.

    The step between two published models then mixes the updates of earlier rounds into those of the last.
    """

    kind: Literal["fedavgm"] = "fedavgm"
    learning_rate: float = Field(default=1.0, gt=0, le=100)
    """server learning rate"""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """share of the velocity that is kept from round to round (beta)"""

    reference: ClassVar = (
        "Hsu, Qi, Brown 2019, Measuring the Effects of Non-Identical Data Distribution for Federated Visual "
        "Classification, Section 4.3"
    )
    offers: ClassVar = frozenset({LINEAR_STEP})

    def start(self) -> Velocity:
        return Velocity(np.zeros((0, 0)))

    def change(self, merged: FloatArray, came: BoolArray, state: Velocity) -> tuple[FloatArray, Velocity]:
        before = state.value if state.value.size else np.zeros_like(merged)
        v = np.where(came[:, None], self.momentum * before + merged, before)
        return np.where(came[:, None], self.learning_rate * v, 0.0), Velocity(v)

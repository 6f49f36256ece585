"""Gradient descent with momentum."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.optimisers.base import Optimiser
from netsim.units import FloatArray


class Momentum(Optimiser):
    """v <- momentum v + g, w <- w - learning_rate v, from v = 0 in every round."""

    kind: Literal["momentum"] = "momentum"
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """share of the velocity that is kept from step to step"""

    reference: ClassVar = "Goodfellow, Bengio, Courville, Deep Learning, 2016, Section 8.3.2"

    def start(self, w: FloatArray) -> list[FloatArray]:
        return [np.zeros_like(w)]

    def step(self, w: FloatArray, g: FloatArray, memory: list[FloatArray], learning_rate: float, t: int) -> None:
        velocity, number = memory[0], w.dtype.type
        velocity *= number(self.momentum)
        velocity += g
        w -= number(learning_rate) * velocity

"""Adam."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.optimisers.base import Optimiser
from netsim.units import FloatArray


class Adam(Optimiser):
    """Steps of each parameter's own size: w <- w - learning_rate m' / (sqrt(v') + epsilon).

    m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2, both from zero in every round, and
    m' = m / (1 - beta1^t), v' = v / (1 - beta2^t). An update is no linear combination of gradients: the first step of
    every parameter has the same size.
    """

    kind: Literal["adam"] = "adam"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """decay of the mean of gradients"""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """decay of the mean of their squares"""
    epsilon: float = Field(default=1e-8, ge=1e-16, le=1)
    """what is added to the root of the mean square"""

    linear: ClassVar = False
    reference: ClassVar = "Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, Algorithm 1"

    def start(self, w: FloatArray) -> list[FloatArray]:
        return [np.zeros_like(w), np.zeros_like(w)]

    def step(self, w: FloatArray, g: FloatArray, memory: list[FloatArray], learning_rate: float, t: int) -> None:
        (m, v), number = memory, w.dtype.type
        size, root = number(learning_rate / (1.0 - self.beta1**t)), number((1.0 - self.beta2**t) ** 0.5)
        m *= number(self.beta1)
        m += number(1.0 - self.beta1) * g
        v *= number(self.beta2)
        v += number(1.0 - self.beta2) * g * g
        w -= size * m / (np.sqrt(v) / root + number(self.epsilon))

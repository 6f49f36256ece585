"""Local optimisers: how a device moves its weights along the gradients of its batches."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.part import OneOf, Part
from netsim.units import FloatArray, IntArray


class Optimiser(Part):
    """Moves weights w by a step along the gradient g of a batch; t, or t (k, 1), counts the steps
    of a round from 1.

    Its memory begins at zero in every round, so an update depends on the data of its round alone.
    """

    kind: str
    linear: ClassVar = True
    """whether the change of the weights is a linear combination of the gradients, with the same
    factors for all parameters"""

    def start(self, w: FloatArray) -> list[FloatArray]:
        """The memory before the first step of networks w (k, d): arrays of the shape and type of
        w.
        """
        return []

    @abstractmethod
    def step(
        self,
        w: FloatArray,
        g: FloatArray,
        memory: list[FloatArray],
        learning_rate: float,
        t: int | IntArray,
    ) -> None:
        """Changes weights w (k, d) and memory in place; in the precision of w, from gradients g (k,
        d).

        Rows are networks, and contiguous. They become fewer when devices have taken all their
        steps, and lack the parameters of frozen layers.
        """


class Sgd(Optimiser):
    """w <- w - learning_rate g."""

    kind: Literal["sgd"] = "sgd"

    reference = (
        "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017, Algorithm 1"
    )

    def step(
        self,
        w: FloatArray,
        g: FloatArray,
        memory: list[FloatArray],
        learning_rate: float,
        t: int | IntArray,
    ) -> None:
        w -= w.dtype.type(learning_rate) * g


class Momentum(Optimiser):
    """v <- momentum v + g, w <- w - learning_rate v, from v = 0 in every round."""

    kind: Literal["momentum"] = "momentum"
    momentum: float = Field(0.9, ge=0, lt=1)
    """share of the velocity that is kept from step to step"""

    reference = "Goodfellow, Bengio, Courville, Deep Learning, 2016, Section 8.3.2"

    def start(self, w: FloatArray) -> list[FloatArray]:
        return [np.zeros_like(w)]

    def step(
        self,
        w: FloatArray,
        g: FloatArray,
        memory: list[FloatArray],
        learning_rate: float,
        t: int | IntArray,
    ) -> None:
        velocity = memory[0]
        number = w.dtype.type
        velocity *= number(self.momentum)
        velocity += g
        w -= number(learning_rate) * velocity


class Adam(Optimiser):
    """Steps of each parameter's own size: w <- w - learning_rate m' / (sqrt(v') + epsilon).

    m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2, both from zero in every round, and
    m' = m / (1 - beta1^t), v' = v / (1 - beta2^t). An update is no linear combination of gradients:
    the first step of every parameter has the same size.
    """

    kind: Literal["adam"] = "adam"
    beta1: float = Field(0.9, ge=0, lt=1)
    """decay of the mean of gradients"""
    beta2: float = Field(0.999, ge=0, lt=1)
    """decay of the mean of their squares"""
    epsilon: float = Field(1e-8, ge=1e-16, le=1)
    """what is added to the root of the mean square"""

    linear = False
    reference = "Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, Algorithm 1"

    def start(self, w: FloatArray) -> list[FloatArray]:
        return [np.zeros_like(w), np.zeros_like(w)]

    def step(
        self,
        w: FloatArray,
        g: FloatArray,
        memory: list[FloatArray],
        learning_rate: float,
        t: int | IntArray,
    ) -> None:
        (m, v) = memory
        number = w.dtype.type
        size = number(learning_rate / (1.0 - self.beta1**t))
        root = number((1.0 - self.beta2**t) ** 0.5)
        m *= number(self.beta1)
        m += number(1.0 - self.beta1) * g
        v *= number(self.beta2)
        v += number(1.0 - self.beta2) * g * g
        w -= size * m / (np.sqrt(v) / root + number(self.epsilon))


OPTIMISERS = OneOf("optimiser", Sgd, Momentum, Adam)
"""The slot of a learner's local optimiser."""

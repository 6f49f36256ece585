"""Plain gradient descent on batches."""

from typing import ClassVar, Literal

from fl.optimisers.base import Optimiser
from netsim.units import FloatArray


class Sgd(Optimiser):
    """w <- w - learning_rate g."""

    kind: Literal["sgd"] = "sgd"

    reference: ClassVar = "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017, Algorithm 1"

    def step(self, w: FloatArray, g: FloatArray, memory: list[FloatArray], learning_rate: float, t: int) -> None:
        w -= w.dtype.type(learning_rate) * g

"""Yogi at the server."""

from typing import ClassVar, Literal

import numpy as np

from fl.server_optimiser.adaptive import Adaptive
from netsim.units import FloatArray


class FedYogi(Adaptive):
    """v <- v - (1 - beta2) D^2 sign(v - D^2) (see `Adaptive`).

    A large update raises v no faster than (1 - beta2) D^2, and after it v falls more slowly than that of FedAdam.
    """

    kind: Literal["fedyogi"] = "fedyogi"

    reference: ClassVar = "Reddi et al., Adaptive Federated Optimization, 2021, Algorithm 2"

    def mean_square(self, before: FloatArray, square: FloatArray) -> FloatArray:
        return before - (1.0 - self.beta2) * square * np.sign(before - square)

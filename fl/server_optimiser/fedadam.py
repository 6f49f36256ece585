"""Adam at the server."""

from typing import ClassVar, Literal

import numpy as np

from fl.server_optimiser.adaptive import Adaptive, Moments
from netsim.units import FloatArray


class FedAdam(Adaptive):
    """v <- beta2 v + (1 - beta2) D^2 (see `Adaptive`): Adam on the merged update.

    As published, moments are not corrected for their initial values. With `bias_correction` v starts at 0, and m and v
    are divided by 1 - beta1^t and 1 - beta2^t in step t: this is Adam of Kingma and Ba with epsilon = tau.
    """

    kind: Literal["fedadam"] = "fedadam"
    bias_correction: bool = False
    """divide the moments by 1 - beta^t, from zero, as Adam does on one machine"""

    reference: ClassVar = "Reddi et al., Adaptive Federated Optimization, 2021, Algorithm 2"
    example: ClassVar = {"kind": "fedadam"}

    @property
    def first_square(self) -> float:
        return 0.0 if self.bias_correction else self.tau**2

    def mean_square(self, before: FloatArray, square: FloatArray) -> FloatArray:
        return self.beta2 * before + (1.0 - self.beta2) * square

    def corrected(self, now: Moments) -> tuple[FloatArray, FloatArray]:
        if not self.bias_correction:
            return now.mean, now.square
        t = np.maximum(now.steps, 1)[:, None]
        return now.mean / (1.0 - self.beta1**t), now.square / (1.0 - self.beta2**t)

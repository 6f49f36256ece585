"""Adam at the server."""

from typing import ClassVar, Literal

from fl.server_optimiser.adaptive import Adaptive
from netsim.units import FloatArray


class FedAdam(Adaptive):
    """v <- beta2 v + (1 - beta2) D^2 (see `Adaptive`): Adam on the merged update.

    As published, moments are not corrected for their initial values.
    """

    kind: Literal["fedadam"] = "fedadam"

    reference: ClassVar = "Reddi et al., Adaptive Federated Optimization, 2021, Algorithm 2"

    def mean_square(self, before: FloatArray, square: FloatArray) -> FloatArray:
        return self.beta2 * before + (1.0 - self.beta2) * square

"""Laws of how unequal UEs are in training."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.compute_heterogeneity import ComputeSpread
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


class HalfNormal(ComputeSpread):
    r"""Slower than stated by a half-normal share: `1 + scale |N|`.

    What is stated is the speed of the fastest UEs; on average a UE takes 1 + 0.80 scale times as long. Departs from the
    paper, which draws the whole duration of a training half-normally each time: there some take no time at all,
    and durations do not depend on the amount of data.
    """

    kind: Literal["half-normal"] = "half-normal"
    scale: float = Field(default=1.0, gt=0, le=1e3)
    """scale of the half-normal share: its root mean square"""

    reference: ClassVar = (
        "Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022: half-normal durations "
        "of training"
    )
    example: ClassVar = {"kind": "half-normal"}

    @property
    def formula(self) -> str:
        return f"1 + {self.scale:g} |N|"

    def factor(self, ue: IntArray, rng: Rng) -> FloatArray:
        return 1.0 + self.scale * np.abs(rng.normal("spread", ue))


class LogNormal(ComputeSpread):
    r"""Log-normal factor `exp(sigma N)`: half of the UEs are faster than stated, half slower."""

    kind: Literal["log-normal"] = "log-normal"
    sigma: float = Field(default=0.5, gt=0, le=5)
    """standard deviation of the logarithm of the factor"""

    reference: ClassVar = "assumed: the product of many independent factors"
    example: ClassVar = {"kind": "log-normal"}

    @property
    def formula(self) -> str:
        return f"exp({self.sigma:g} N)"

    def factor(self, ue: IntArray, rng: Rng) -> FloatArray:
        return np.exp(self.sigma * rng.normal("spread", ue))

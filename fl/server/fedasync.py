"""Asynchronous federated optimisation: every update is merged when it arrives."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.server.asynchronous import Asynchronous
from netsim.units import FloatArray, IntArray


class FedAsync(Asynchronous):
    r"""Mixes the model of each UE into the global one as soon as it arrives.

    A UE that began from the model w_t0 and changed it by D brings w_t0 + D. With tau changes of the global model since
    then, and the aggregation's weight p of the update (1 unless weights are fixed)::

        w <- (1 - alpha_tau) w + alpha_tau (w_t0 + p D),    alpha_tau = alpha (1 + tau)^-a

    Only the paper's polynomial staleness is offered; a = 0 is its constant one.
    """

    kind: Literal["fedasync"] = "fedasync"
    mixing: float = Field(default=0.6, gt=0, le=1)
    """alpha: share of a fresh update's model in the next global one"""
    staleness_exponent: float = Field(default=0.5, ge=0, le=10)
    """exponent a of the weight of stale updates; 0: staleness does not count"""

    reference: ClassVar = "Xie et al., Asynchronous Federated Optimization, OPT 2020, Algorithm 1 and Section 5.2"
    mixes_models: ClassVar = True

    @property
    def waits_for(self) -> int:
        return 1

    def staleness_weight(self, staleness: IntArray) -> FloatArray:
        return np.asarray(self.mixing * (1.0 + staleness) ** -self.staleness_exponent)

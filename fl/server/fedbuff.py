"""Buffered asynchronous aggregation."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.server.asynchronous import Asynchronous
from netsim.units import FloatArray, IntArray


class FedBuff(Asynchronous):
    r"""Merges as soon as the updates of `buffer` UEs have arrived, whatever model each of them began from.

    An update D_k that began from a model which has changed tau_k times since then weighs less::

        w <- w + eta_g sum_k p_k s(tau_k) D_k,    s(tau) = 1 / (1 + tau)^a

    p_k are the weights of the aggregation within the buffer (the paper: 1 / buffer, aggregation uniform with as many
    clients), eta_g is the learning rate of the server optimiser, a is staleness_exponent (the paper: 1/2). The weights
    s are not renormalised. Departs from the paper: a UE is asked again only after its update has been merged, so a sum
    holds at most one update of each UE.
    """

    kind: Literal["fedbuff"] = "fedbuff"
    buffer: int = Field(default=10, ge=1, le=1_000_000)
    """number K of UEs whose updates are merged at a time"""
    staleness_exponent: float = Field(default=0.5, ge=0, le=10)
    """exponent a of the weight of stale updates; 0: staleness does not count"""

    reference: ClassVar = (
        "Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022, Algorithms 1 and 2"
    )
    example: ClassVar = {"kind": "fedbuff", "buffer": 2}

    @property
    def waits_for(self) -> int:
        return self.buffer

    def staleness_weight(self, staleness: IntArray) -> FloatArray:
        return np.asarray((1.0 + staleness) ** -self.staleness_exponent)

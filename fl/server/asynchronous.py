"""Servers without rounds: updates are merged as they arrive, whatever model each of them began from."""

from math import inf
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.server import Server
from fl.server_optimiser import MODEL_CHANGES
from netsim.units import FloatArray, IntArray


class Asynchronous(Server):
    """At the end of each window of round_s the server asks UEs that are free, up to `concurrency` under way at a time.

    An update is merged with others that have arrived; then the model has a new version, which the UE that is asked next
    begins from. The staleness of an update is the number of versions since the one that it began from.
    """

    in_rounds: ClassVar = False
    needs: ClassVar = {
        MODEL_CHANGES: "it merges updates that began from different models, and those of this learner are no changes "
        "of a model; take server: {kind: synchronous}",
        "single upload a round": "it asks each UE for one update at a time, and this learner has several phases; take "
        "server: {kind: synchronous}",
    }

    concurrency: int | None = Field(default=None, ge=1, le=1_000_000)
    """UEs that may be under way at a time; none: all"""
    deadline_s: float | None = Field(default=None, gt=0, le=1e9)
    """time from the request after which an update is late and its UE free again, s; none: that of the uplink alone"""

    @property
    def room(self) -> float:
        return inf if self.concurrency is None else self.concurrency

    def limit_s(self, round_s: float) -> float:
        return inf if self.deadline_s is None else self.deadline_s


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

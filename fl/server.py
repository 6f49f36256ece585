"""The server slot: when the server asks for updates, when it merges them, and what late ones are
worth.
"""

from math import inf
from typing import ClassVar

import numpy as np
from pydantic import Field

from fl.server_optimiser import MODEL_CHANGES
from netsim.part import Amount, Count, OneOf, Part, Share
from netsim.units import FloatArray, IntArray


class Server(Part):
    """A policy by which the server asks for updates and merges them.

    In rounds : every UE that is asked gets the same model, and the next model is made of their
    updates. Without rounds the server asks UEs whenever it has room for more, and merges updates
    that began from different models.
    """

    kind: str = ""
    in_rounds: ClassVar = True
    """whether all UEs are asked at once, and all updates of a round are merged together"""
    mixes_models: ClassVar = False
    """whether an update counts as the model that a UE has arrived at, not as the way to it"""

    @property
    def waits_for(self) -> int | None:
        """Number of UEs whose updates are merged at a time; None for all that come."""
        return None

    @property
    def room(self) -> float:
        """Number of UEs that may be under way at a time."""
        return inf

    @property
    def has_deadline(self) -> bool:
        """Whether a round may last longer than its window, up to a deadline."""
        return False

    def get_limit_s(self, round_s: float) -> float:
        """Seconds that an update may take, from the request."""
        return inf

    def weigh_staleness(self, staleness: IntArray) -> FloatArray:
        """Factor (n,) of updates whose models are staleness (n,) versions old."""
        return np.ones(len(staleness))


class Synchronous(Server, kind="synchronous"):
    """Asks UEs at the end of each window of round_s, waits until all have answered, and merges what
    has come in time.

    A deadline longer than round_s makes rounds as long as they need: windows that end while one is
    under way pass by, and the next round learns from all that was measured since. With
    `merge_after_updates` m the server merges as soon as the updates of m UEs have arrived, and the
    others stop (over-selection: ask more than are needed, and leave out the slowest). Beside noise
    at the server each round lasts until its deadline, whichever UEs have arrived, and
    `merge_after_updates` is refused.
    """

    deadline_s: Amount | None = None
    """time from the request after which an update is late, s; none: until the next window ends"""
    merge_after_updates: Count | None = None
    """number of UEs after whose updates the server merges; none: all that come before the
    deadline"""
    reference = (
        "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017, "
        "Algorithm 1; over-selection: "
        "Bonawitz et al., Towards Federated Learning at Scale: System Design, 2019, Section 3"
    )

    @property
    def waits_for(self) -> int | None:
        return self.merge_after_updates

    @property
    def has_deadline(self) -> bool:
        return self.deadline_s is not None

    def get_limit_s(self, round_s: float) -> float:
        return self.deadline_s or round_s


class Asynchronous(Server):
    """At the end of each window of round_s the server asks UEs that are free, up to `concurrency`
    under way at a time.

    An update is merged with others that have arrived; then the model has a new version, which the
    UE that is asked next begins from. The staleness of an update is the number of versions since
    the one that it began from.
    """

    in_rounds = False
    needs = {
        MODEL_CHANGES: (
            "it merges updates that began from different models, and those of this learner are "
            "no changes of a model; take server: {kind: synchronous}"
        ),
        "single upload a round": (
            "it asks each UE for one update at a time, and this learner has several phases; take "
            "server: {kind: synchronous}"
        ),
    }

    concurrency: Count | None = None
    """UEs that may be under way at a time; none: all"""
    deadline_s: Amount | None = None
    """time from the request after which an update is late and its UE free again, s; none: that of
    the uplink alone"""

    @property
    def room(self) -> float:
        return self.concurrency or inf

    def get_limit_s(self, round_s: float) -> float:
        return self.deadline_s or inf


class FedBuff(Asynchronous, kind="fedbuff"):
    r"""Merges as soon as the updates of `buffer` UEs have arrived, whatever model each of them
    began from.

    An update D_k that began from a model which has changed tau_k times since then weighs less::

        w <- w + eta_g sum_k p_k s(tau_k) D_k,    s(tau) = 1 / (1 + tau)^a

    p_k are the weights of the aggregation within the buffer (the paper: 1 / buffer, aggregation
    uniform with as many clients), eta_g is the learning rate of the server optimiser, a is
    staleness_exponent (the paper: 1/2). The weights s are not renormalised. Departs from the paper:
    a UE is asked again only after its update has been merged, so a sum holds at most one update of
    each UE.
    """

    buffer: Count = 10
    """number K of UEs whose updates are merged at a time"""
    staleness_exponent: float = Field(0.5, ge=0, le=10)
    """exponent a of the weight of stale updates; 0: staleness does not count"""

    reference = (
        "Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS "
        "2022, Algorithms 1 and 2"
    )
    example = {"kind": "fedbuff", "buffer": 2}

    @property
    def waits_for(self) -> int:
        return self.buffer

    def weigh_staleness(self, staleness: IntArray) -> FloatArray:
        return np.asarray((1.0 + staleness) ** -self.staleness_exponent)


class FedAsync(Asynchronous, kind="fedasync"):
    r"""Mixes the model of each UE into the global one as soon as it arrives.

    A UE that began from the model w_t0 and changed it by D brings w_t0 + D. With tau changes of the
    global model since then, and the aggregation's weight p of the update (1 unless weights are
    fixed)::

        w <- (1 - alpha_tau) w + alpha_tau (w_t0 + p D),    alpha_tau = alpha (1 + tau)^-a

    Only the paper's polynomial staleness is offered; a = 0 is its constant one.
    """

    mixing: Share = 0.6
    """alpha: share of a fresh update's model in the next global one"""
    staleness_exponent: float = Field(0.5, ge=0, le=10)
    """exponent a of the weight of stale updates; 0: staleness does not count"""

    reference = (
        "Xie et al., Asynchronous Federated Optimization, OPT 2020, Algorithm 1 and Section 5.2"
    )
    mixes_models = True

    @property
    def waits_for(self) -> int:
        return 1

    def weigh_staleness(self, staleness: IntArray) -> FloatArray:
        return np.asarray(self.mixing * (1.0 + staleness) ** -self.staleness_exponent)


SERVERS = OneOf("server", Synchronous, FedBuff, FedAsync)

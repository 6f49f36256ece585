"""The server slot: when the server asks for updates, when it merges them, and what late ones are worth."""

from math import inf
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.part import OneOf, Part
from netsim.units import FloatArray, IntArray


class Server(Part):
    """A policy by which the server asks for updates and merges them.

    In rounds : every UE that is asked gets the same model, and the next model is made of their updates. Without rounds
    the server asks UEs whenever it has room for more, and merges updates that began from different models.
    """

    kind: str
    in_rounds: ClassVar[bool] = True
    """whether all UEs are asked at once, and all updates of a round are merged together"""
    mixes_models: ClassVar[bool] = False
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

    def limit_s(self, round_s: float) -> float:
        """Seconds that an update may take, from the request."""
        return inf

    def staleness_weight(self, staleness: IntArray) -> FloatArray:
        """Factor (n,) of updates whose models are staleness (n,) versions old."""
        return np.ones(len(staleness))


class Synchronous(Server):
    """Asks UEs at the end of each window of round_s, waits until all have answered, and merges what has come in time.

    A deadline longer than round_s makes rounds as long as they need: windows that end while one is under way pass by,
    and the next round learns from all that was measured since. With `merge_after_updates` m the server merges as soon
    as the updates of m UEs have arrived, and the others stop (over-selection: ask more than are needed, and leave out
    the slowest). Beside noise at the server each round lasts until its deadline, whichever UEs have arrived, and
    `merge_after_updates` is refused.
    """

    kind: Literal["synchronous"] = "synchronous"
    deadline_s: float | None = Field(default=None, gt=0, le=1e9)
    """time from the request after which an update is late, s; none: until the next window ends"""
    merge_after_updates: int | None = Field(default=None, ge=1, le=1_000_000)
    """number of UEs after whose updates the server merges; none: all that come before the deadline"""
    renamed: ClassVar = {"first": "merge_after_updates"}
    reference: ClassVar = (
        "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017, Algorithm 1; over-selection: "
        "Bonawitz et al., Towards Federated Learning at Scale: System Design, 2019, Section 3"
    )

    @property
    def waits_for(self) -> int | None:
        return self.merge_after_updates

    @property
    def has_deadline(self) -> bool:
        return self.deadline_s is not None

    def limit_s(self, round_s: float) -> float:
        return round_s if self.deadline_s is None else self.deadline_s


SERVERS = OneOf(
    "server",
    Synchronous,
    places={
        "fedbuff": "fl.server.asynchronous:FedBuff",
        "fedasync": "fl.server.asynchronous:FedAsync",
    },
)

"""Base class of policies without rounds."""

from math import inf
from typing import ClassVar

from pydantic import Field

from fl.server.base import Server
from fl.server_optimiser.base import MODEL_CHANGES


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

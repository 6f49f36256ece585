"""Rounds: all UEs are asked at once, and their updates are merged together."""

from typing import ClassVar, Literal

from pydantic import Field

from fl.server.base import Server


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

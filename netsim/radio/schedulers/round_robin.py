"""Everybody in turn."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.multiples import last_multiple
from netsim.radio.schedulers.base import Grants, Queue, Scheduler, State
from netsim.radio.schedulers.places import held_or_next
from netsim.units import FloatArray


@dataclass(frozen=True)
class Turns:
    """served_s (n_ue,): when each UE was last given a slot; until_s: end of the current slot."""

    served_s: FloatArray
    until_s: float


class RoundRobin(Scheduler):
    """One UE of a cell at a time in each resource block, for a slot; then the one that was served longest ago.

    A UE that has sent all its bits leaves the rest of its slot to the next.
    """

    kind: Literal["round-robin"] = "round-robin"
    slot_s: float = Field(default=0.01, ge=1e-6, le=1e6)
    """length of a slot, s"""
    reference: ClassVar[str] = "Kleinrock, Queueing Systems, Volume 2, 1976, Section 4.3"
    example: ClassVar[dict[str, Any]] = {"kind": "round-robin"}

    def start(self, n_ue: int) -> Turns:
        return Turns(np.full(n_ue, -inf), -inf)

    def grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        new_slot = time_s >= state.until_s
        until_s = slot_end_s(time_s, self.slot_s) if new_slot else state.until_s
        holds = (queue.resource >= 0) & (not new_slot)
        keys = state.served_s[queue.ue], queue.ready_s
        resource = held_or_next(queue.serving, queue.resource, holds, self.resource_blocks, *keys)
        served_s = state.served_s.copy()
        served_s[queue.ue[(resource >= 0) & ~holds]] = time_s
        return Grants(resource, until_s, Turns(served_s, until_s))


def slot_end_s(time_s: float, slot_s: float) -> float:
    """The end of the slot that a time is in: slots begin at multiples of slot_s."""
    return (last_multiple(time_s, slot_s) + 1) * slot_s

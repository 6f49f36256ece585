"""Round-robin scheduling."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.radio.schedulers.base import Grants, Queue, Scheduler, State
from netsim.radio.schedulers.places import held_or_next
from netsim.radio.schedulers.slots import Slot, last_start_s
from netsim.units import FloatArray


@dataclass(frozen=True, eq=False)
class Turns:
    """served_s (n_ue,): start of the last slot in which each UE sent, or its end if it stopped unasked."""

    served_s: FloatArray
    slot: Slot


class RoundRobin(Scheduler):
    """One UE of a cell at a time in each resource block, for a slot; then the one that was served longest ago.

    A UE that has sent all its bits leaves the rest of its slot to the next.
    """

    kind: Literal["round-robin"] = "round-robin"
    slot_s: float = Field(default=0.01, ge=1e-6, le=1e6)
    """length of a slot, s"""
    reference: ClassVar = "Kleinrock, Queueing Systems, Volume 2, 1976, Chapter 4"
    example: ClassVar = {"kind": "round-robin"}

    def start(self, n_ue: int) -> Turns:
        return Turns(np.full(n_ue, -inf), Slot())

    def grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        served_s, (ue, _, until_s) = state.served_s.copy(), queue.senders
        served_s[ue] = np.maximum(served_s[ue], np.minimum(until_s, last_start_s(time_s, self.slot_s)))
        holds = (queue.resource >= 0) & (not state.slot.over(time_s, self.slot_s))
        keys = served_s[queue.ue], queue.ready_s
        resource = held_or_next(queue.serving, queue.resource, holds, self.resource_blocks, *keys)
        served_s[queue.ue[(resource >= 0) & ~holds]] = time_s
        slot = Slot.after(time_s, self.slot_s, resource)
        return Grants(resource, slot.until_s, Turns(served_s, slot))

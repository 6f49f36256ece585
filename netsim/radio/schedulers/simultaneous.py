"""Simultaneous transmission of all UEs."""

from typing import ClassVar, Literal

import numpy as np

from netsim.radio.schedulers.base import Grants, Queue, Scheduler, State
from netsim.radio.schedulers.places import ranks


class Simultaneous(Scheduler):
    """Every UE sends as soon as it is ready; the UEs of a cell are spread over the resource blocks."""

    kind: Literal["simultaneous"] = "simultaneous"
    reference: ClassVar = "grant-free access; the assumption of LAPA, Eqs. 4-6"
    example: ClassVar = {"kind": "simultaneous"}

    def grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        if self.resource_blocks == 1:
            return Grants(np.zeros(len(queue.ue), dtype=np.int64))
        rank, number = ranks(queue.serving, -queue.received_w)
        return Grants(rank // -(-number // self.resource_blocks))

"""Groups one after the other."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.radio.schedulers.base import Grants, Queue, Scheduler, State
from netsim.radio.schedulers.places import free_blocks, placed, ranks


class Groups(Scheduler):
    """At most `size` UEs of a cell send together in a resource block, by decreasing received power.

    The next group starts when all UEs of the one before have sent, those apart whose signal is not decoded.
    """

    kind: Literal["groups"] = "groups"
    size: int = Field(default=2, ge=1, le=10_000)
    """largest number of UEs that send together in a resource block"""
    reference: ClassVar = "Ding, Fan and Poor, Impact of user pairing on 5G NOMA, 2016 (UEs of similar power)"
    example: ClassVar = {"kind": "groups", "size": 2}

    def grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        sends = queue.resource >= 0
        waits = np.flatnonzero(~sends)
        rank, _ = ranks(queue.serving[waits], -queue.received_w[waits])
        free = free_blocks(queue.serving, queue.resource, sends & queue.decoded, self.resource_blocks)
        resource = queue.resource.copy()
        resource[waits] = placed(queue.serving[waits], rank // self.size, free)
        return Grants(resource)

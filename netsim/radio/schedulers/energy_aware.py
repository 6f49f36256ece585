"""The cheapest transmission first."""

from typing import ClassVar, Literal

import numpy as np

from netsim.radio.schedulers.base import Grants, Queue, Scheduler, State
from netsim.radio.schedulers.places import held_or_next


class EnergyAware(Scheduler):
    """One UE of a cell at a time in each resource block, fewest joules a bit first; it sends all its bits.

    Joules a bit are power over the rate of the whole band without interference.
    """

    kind: Literal["energy-aware"] = "energy-aware"
    reference: ClassVar = "greedy rule: least transmit energy a bit"
    example: ClassVar = {"kind": "energy-aware"}

    def grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        able = queue.alone_bps > 0
        joules_a_bit = np.where(able, queue.power_w / np.where(able, queue.alone_bps, 1.0), np.inf)
        holds = queue.resource >= 0
        return Grants(held_or_next(queue.serving, queue.resource, holds, self.resource_blocks, joules_a_bit))

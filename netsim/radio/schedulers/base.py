"""The scheduler slot: which UEs of a cell send, and in which resource blocks."""

from abc import abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from pydantic import Field

from netsim.columns import no_floats, no_ints
from netsim.part import Part
from netsim.units import BoolArray, FloatArray, IntArray

State = Any
"""State of a scheduler: None, or a frozen dataclass of the scheduler (see `netsim.tree`)."""


class Senders(NamedTuple):
    """The UEs that sent since the scheduler was asked last, one entry each (k,), whether they still do or not.

    ue: indices; rate_bps: rate, 0 while silent; until_s: up to when, the time of the question at the latest.
    """

    ue: IntArray
    rate_bps: FloatArray
    until_s: FloatArray


NO_SENDERS = Senders(no_ints(), no_floats(), no_floats())


@dataclass(frozen=True, eq=False)
class Queue:
    """The UEs that have bits to send, one entry each (m,), by increasing ue; none when the last one has ended.

    ue: indices; serving: base station; power_w; received_w: power at that base station; alone_bps: rate in the whole
    band without interference; resource: the resource block that a UE sends in, -1 for one that waits; decoded: whether
    what a UE sends now is decoded; ready_s: time since which it has bits to send; senders: the UEs that sent up to now.
    """

    ue: IntArray
    serving: IntArray
    power_w: FloatArray
    received_w: FloatArray
    alone_bps: FloatArray
    resource: IntArray
    decoded: BoolArray
    ready_s: FloatArray
    senders: Senders


class Grants(NamedTuple):
    """resource (m,): the resource block of each UE of a queue, -1 for one that waits; until_s: when the scheduler wants
    to be asked again at the latest, while a UE waits; state: its next state.
    """

    resource: IntArray
    until_s: float = inf
    state: State = None


class Scheduler(Part):
    """Chooses the UEs that send. It is asked when a UE comes, ends or changes its cell, at ends of blocks, and when it
    wants.

    UEs of a cell in the same resource block send on the same frequencies at the same time.
    """

    kind: str
    resource_blocks: int = Field(default=1, ge=1, le=1000)
    """number of equal parts that the band of a cell is cut into, the noise with it"""

    def start(self, n_ue: int) -> State:
        """The initial state in a world of n_ue UEs; None for a scheduler without state."""
        return None

    @abstractmethod
    def grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        """The resource block of each UE from time_s on."""

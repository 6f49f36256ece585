"""Schedulers: which UEs of a cell send, in which resource blocks, and settings of transmissions that take time."""

from abc import abstractmethod
from dataclasses import dataclass
from math import exp, inf
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.clock import first_multiple, last_multiple, slack_s
from netsim.columns import no_floats, no_ints
from netsim.part import OneOf, Part
from netsim.units import BoolArray, FloatArray, IntArray

State = Any
"""State of a scheduler: None, or a frozen dataclass of the scheduler (see `netsim.checkpoint`)."""


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


def ranks(serving: IntArray, *keys: FloatArray) -> tuple[IntArray, IntArray]:
    """Rank (n,) of each UE among those of its cell, by increasing keys (n,), the first the foremost, then by order of
    entry; and the number (n,) of UEs in its cell.
    """
    order = np.lexsort((*keys[::-1], serving))
    cell = serving[order]
    first = np.flatnonzero(np.concatenate([[True], cell[1:] != cell[:-1]])[: len(cell)])
    many = np.diff(np.append(first, len(cell)))
    rank, number = np.empty(len(cell), dtype=np.int64), np.empty(len(cell), dtype=np.int64)
    rank[order] = np.arange(len(cell)) - np.repeat(first, many)
    number[order] = np.repeat(many, many)
    return rank, number


def free_blocks(serving: IntArray, resource: IntArray, holds: BoolArray, resource_blocks: int) -> BoolArray:
    """Which resource blocks (n_cells, resource_blocks) are free; holds (n,): whether a UE holds its resource (n,)."""
    free = np.ones((int(serving.max(initial=-1)) + 1, resource_blocks), dtype=np.bool_)
    free[serving[holds], resource[holds]] = False
    return free


def placed(serving: IntArray, group: IntArray, free: BoolArray) -> IntArray:
    """The resource block (n,) of each UE: that of its group, the groups of a cell taking its free blocks in order; -1
    for groups beyond their number.
    """
    blocks = np.argsort(~free, axis=1, kind="stable")  # (n_cells, resource_blocks), the free ones first
    fits = group < free.sum(axis=1)[serving]
    return np.where(fits, blocks[serving, np.where(fits, group, 0)], -1)


def held_or_next(
    serving: IntArray, resource: IntArray, holds: BoolArray, resource_blocks: int, *keys: FloatArray
) -> IntArray:
    """The resource block (n,) of each UE, one UE a block: holders keep theirs, the next by `keys` take the others."""
    result = np.where(holds, resource, -1)
    others = np.flatnonzero(~holds)
    rank, _ = ranks(serving[others], *(key[others] for key in keys))
    free = free_blocks(serving, resource, holds, resource_blocks)
    result[others] = placed(serving[others], rank, free)
    return result


@dataclass(frozen=True)
class Slot:
    """until_s: end of the slot in which a scheduler was asked last; waits: whether a UE waited after it."""

    until_s: float = -inf
    waits: bool = False

    def over(self, time_s: float, slot_s: float) -> bool:
        """Whether a new slot begins at time_s.

        While no UE waits the scheduler is not asked, and UEs that send hold slot after slot.
        """
        if self.waits:
            return time_s >= self.until_s - slack_s(slot_s, time_s)
        return first_multiple(time_s, slot_s) == last_multiple(time_s, slot_s)

    @staticmethod
    def after(time_s: float, slot_s: float, resource: IntArray) -> "Slot":
        """The slot of time_s, with the resource blocks (n,) given, -1 for a UE that waits."""
        return Slot((last_multiple(time_s, slot_s) + 1) * slot_s, bool(np.any(resource < 0)))


def last_start_s(time_s: float, slot_s: float) -> float:
    """The latest start of a slot before time_s."""
    return (first_multiple(time_s, slot_s) - 1) * slot_s


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


@dataclass(frozen=True, eq=False)
class MeanRates:
    """mean_bps (n_ue,): averaged rate of each UE, up to asked_s."""

    mean_bps: FloatArray
    asked_s: float
    slot: Slot


class ProportionalFair(Scheduler):
    """In each slot and resource block the UE of a cell whose rate is the highest multiple of its averaged rate.

    rate: that of the whole band without interference. The average R of the rate r that a UE sends at is exponential::

        dR/dt = (r - R) / T,    T = time_constant_s

    It goes on for every UE of the world, with r = 0 while it does not send: also for one whose upload has ended, that
    was handed over or is absent. A UE that has never sent is served first.
    """

    kind: Literal["proportional-fair"] = "proportional-fair"
    slot_s: float = Field(default=0.01, ge=1e-6, le=1e6)
    """length of a slot, s"""
    time_constant_s: float = Field(default=1.0, gt=0, le=1e9)
    """time constant T of the averaged rate, s"""
    reference: ClassVar = "Tse and Viswanath, Fundamentals of Wireless Communication, 2005, Section 6.7.1"
    example: ClassVar = {"kind": "proportional-fair"}

    def start(self, n_ue: int) -> MeanRates:
        return MeanRates(np.zeros(n_ue), 0.0, Slot())

    def grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        kept = exp(-(time_s - state.asked_s) / self.time_constant_s)
        mean_bps, sent = state.mean_bps * kept, queue.senders
        mean_bps[sent.ue] += sent.rate_bps * (np.exp(-(time_s - sent.until_s) / self.time_constant_s) - kept)
        mean = mean_bps[queue.ue]
        served = mean > 0
        with np.errstate(over="ignore"):  # an average that has all but faded is as good as none
            multiple = np.where(served, queue.alone_bps / np.where(served, mean, 1.0), inf)
        holds = (queue.resource >= 0) & (not state.slot.over(time_s, self.slot_s))
        resource = held_or_next(queue.serving, queue.resource, holds, self.resource_blocks, -multiple)
        slot = Slot.after(time_s, self.slot_s, resource)
        return Grants(resource, slot.until_s, MeanRates(mean_bps, time_s, slot))


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


SCHEDULERS = OneOf(
    "scheduler",
    Simultaneous,
    Groups,
    RoundRobin,
    ProportionalFair,
    EnergyAware,
    renamed={"all-at-once": "simultaneous"},
)


class AirInterface(Part):
    """Sharing of the band over time.

    link_adaptation: rates follow every coming and going of a transmitter (change), or are held until the next grant or
    block (grant), as if UEs that have sent went on with padding.
    """

    scheduler: Annotated[Scheduler, SCHEDULERS] = Simultaneous()
    """rule by which UEs of a cell may send"""
    link_adaptation: Literal["change", "grant"] = "change"
    """when rates follow the interference: with each coming and going, or only with grants and blocks"""
    block_s: float | None = Field(default=None, ge=1e-3, le=1e6)
    """length of a block, after which links are looked at again, s; none: links stay as they were at the request"""
    step_s: float | None = Field(default=None, ge=1e-6, le=1e6)
    """grants and changes of interference happen at multiples of it, s; none: at any time"""
    retransmissions: int = Field(default=0, ge=0, le=1000)
    """how often a block that was not decoded is sent again, without combining; then the update is lost"""
    client_dropout_per_s: float = Field(default=0.0, ge=0, le=1e3)
    """rate at which UEs leave for good between request and last bit, 1/s"""

    renamed: ClassVar = {"adapt": "link_adaptation", "dropout_per_s": "client_dropout_per_s"}

    @model_validator(mode="after")
    def _whole_steps(self) -> Self:
        if self.block_s is not None and self.step_s is not None:
            steps = self.block_s / self.step_s
            if steps < 1 or abs(steps - round(steps)) > 1e-9 * steps:
                raise ValueError(f"block_s {self.block_s:g} must be a multiple of step_s {self.step_s:g}")
        return self

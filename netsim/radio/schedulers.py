"""Schedulers: which UEs of a cell send at a time, and settings of transmissions that take time."""

from abc import abstractmethod
from dataclasses import dataclass
from math import exp, inf
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.clock import compute_rounding_s, find_first_multiple, find_last_multiple
from netsim.columns import frozen, no_floats, no_ints
from netsim.part import Amount, OneOf, Part
from netsim.units import BoolArray, FloatArray, IntArray

State = Any
"""State of a scheduler: None, or a frozen dataclass of the scheduler (see `netsim.checkpoint`)."""


class Senders(NamedTuple):
    """The UEs that sent since the scheduler was asked last, one entry each (k,), whether they still
    do or not.

    ue: indices; rate_bps: rate; until_s: up to when, the time of the question at the latest.
    """

    ue: IntArray
    rate_bps: FloatArray
    until_s: FloatArray


NO_SENDERS = Senders(no_ints(), no_floats(), no_floats())


@frozen
class Queue:
    """The UEs that have bits to send, one entry each (m,), by increasing ue; none when the last one
    has ended.

    ue: indices; serving: base station; power_w; received_w: power at that base station; alone_bps:
    rate in the whole band without interference, 0 for a UE that the base station has refused just
    now; sends: whether a UE has a place on the air, or waits for one; rate_bps: rate at which it
    sends, 0 for a UE that waits or is refused; decoded: whether what it sends now is decoded;
    ready_s: time since which it has bits to send; senders: the UEs that sent up to now.
    """

    ue: IntArray
    serving: IntArray
    power_w: FloatArray
    received_w: FloatArray
    alone_bps: FloatArray
    sends: BoolArray
    rate_bps: FloatArray
    decoded: BoolArray
    ready_s: FloatArray
    senders: Senders


class Grants(NamedTuple):
    """sends (m,): which UEs of a queue send, the others wait; until_s: when the scheduler wants to
    be asked again at the latest, while a UE waits; state: its next state.
    """

    sends: BoolArray
    until_s: float = inf
    state: State = None


class Scheduler(Part):
    """Chooses the UEs that send. It is asked when a UE comes, ends or changes its cell, at ends of
    blocks, and when it wants; and again at that time if UEs that it has chosen would get no rate,
    which then have `alone_bps` 0.
    """

    kind: str = ""
    one_at_a_time: ClassVar = False
    """whether each UE of a cell has the whole band to itself"""

    def start(self, n_ue: int) -> State:
        """The initial state in a world of n_ue UEs; None for a scheduler without state."""
        return None

    @abstractmethod
    def choose_grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        """The UEs that send from time_s on."""


def rank_in_cells(serving: IntArray, *keys: FloatArray | BoolArray) -> IntArray:
    """Rank (n,) of each UE among those of its cell, by increasing keys (n,), the first the
    foremost, then by order of entry.
    """
    order = np.lexsort((*keys[::-1], serving))
    first = np.flatnonzero(np.diff(serving[order], prepend=-2))
    rank = np.empty(len(order), int)
    sizes = np.diff(first, append=len(order))
    rank[order] = np.arange(len(order)) - np.repeat(first, sizes)
    return rank


def pick_one_per_cell(queue: Queue, holds: BoolArray, *keys: FloatArray) -> BoolArray:
    """One UE (m,) of each cell: the one that holds its place, else the next by `keys`; one that
    gets no rate only if no other does.
    """
    return rank_in_cells(queue.serving, ~holds, queue.alone_bps == 0, *keys) == 0


@dataclass(frozen=True)
class Slot:
    """until_s: end of the slot in which a scheduler was asked last; waits: whether a UE waited
    after it.
    """

    until_s: float = -inf
    waits: bool = False

    def is_over(self, time_s: float, slot_s: float) -> bool:
        """Whether a new slot begins at time_s.

        While no UE waits the scheduler is not asked, and UEs that send hold slot after slot.
        """
        if self.waits:
            return time_s >= self.until_s - compute_rounding_s(slot_s, time_s)
        return find_first_multiple(time_s, slot_s) == find_last_multiple(time_s, slot_s)


class Simultaneous(Scheduler, kind="simultaneous"):
    """Every UE sends as soon as it is ready."""

    reference = "grant-free access; the assumption of LAPA, Eqs. 4-6"

    def choose_grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        return Grants(np.ones(len(queue.ue), bool))


class Groups(Scheduler, kind="groups"):
    """At most `size` UEs of a cell send together, by decreasing received power.

    The next group starts when all UEs of the one before have sent, those apart whose signal is not
    decoded or that got no rate: these may be of the next one, behind UEs that get a rate.
    """

    size: int = Field(2, ge=1, le=10_000)
    """largest number of UEs of a cell that send together"""
    reference = "Ding, Fan and Poor, Impact of user pairing on 5G NOMA, 2016 (UEs of similar power)"
    example = {"kind": "groups", "size": 2}

    def choose_grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        on_air = queue.rate_bps > 0
        busy = np.isin(queue.serving, queue.serving[on_air & queue.decoded])
        rank = rank_in_cells(queue.serving, on_air, queue.alone_bps == 0, -queue.received_w)
        return Grants(np.where(busy, queue.sends, on_air | (rank < self.size)))


@frozen
class Turns:
    """served_s (n_ue,): start of the last slot in which each UE sent, or its end if it stopped
    unasked.
    """

    served_s: FloatArray
    slot: Slot


class _Slotted(Scheduler):
    """One UE of a cell at a time, for a slot."""

    one_at_a_time = True
    slot_s: float = Field(0.01, ge=1e-6, le=1e6)
    """length of a slot, s"""

    def pick_turn(
        self, queue: Queue, time_s: float, slot: Slot, *keys: FloatArray
    ) -> tuple[BoolArray, BoolArray, Slot]:
        """UEs (m,) that hold the present slot; one of each cell that sends: that or the next by
        `keys`; the slot.
        """
        holds = (queue.rate_bps > 0) & (not slot.is_over(time_s, self.slot_s))
        sends = pick_one_per_cell(queue, holds, *keys)
        until_s = (find_last_multiple(time_s, self.slot_s) + 1) * self.slot_s
        return holds, sends, Slot(until_s, not sends.all())


class RoundRobin(_Slotted, kind="round-robin"):
    """One UE of a cell at a time, for a slot; then the one that was served longest ago.

    A UE that has sent all its bits leaves the rest of its slot to the next.
    """

    reference = "Kleinrock, Queueing Systems, Volume 2, 1976, Chapter 4"

    def start(self, n_ue: int) -> Turns:
        return Turns(np.full(n_ue, -inf), Slot())

    def choose_grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        served_s = state.served_s.copy()
        (ue, _, until_s) = queue.senders
        last_start_s = (find_first_multiple(time_s, self.slot_s) - 1) * self.slot_s
        served_s[ue] = np.maximum(served_s[ue], np.minimum(until_s, last_start_s))
        keys = (served_s[queue.ue], queue.ready_s)
        holds, sends, slot = self.pick_turn(queue, time_s, state.slot, *keys)
        served_s[queue.ue[sends & ~holds & (queue.alone_bps > 0)]] = time_s
        return Grants(sends, slot.until_s, Turns(served_s, slot))


@frozen
class MeanRates:
    """mean_bps (n_ue,): averaged rate of each UE, up to asked_s."""

    mean_bps: FloatArray
    asked_s: float
    slot: Slot


class ProportionalFair(_Slotted, kind="proportional-fair"):
    """In each slot the UE of a cell whose rate is the highest multiple of its averaged rate.

    rate: that of the whole band without interference. The average R of the rate r that a UE sends
    at is exponential::

        dR/dt = (r - R) / T,    T = time_constant_s

    It goes on for every UE of the world, with r = 0 while it does not send: also for one whose
    upload has ended, that was handed over or is absent. A UE that has never sent is served first,
    one that gets no rate last.
    """

    time_constant_s: Amount = 1.0
    """time constant T of the averaged rate, s"""
    reference = "Tse and Viswanath, Fundamentals of Wireless Communication, 2005, Section 6.7.1"

    def start(self, n_ue: int) -> MeanRates:
        return MeanRates(np.zeros(n_ue), 0.0, Slot())

    def choose_grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        kept = exp(-(time_s - state.asked_s) / self.time_constant_s)
        mean_bps = state.mean_bps * kept
        sent = queue.senders
        faded = np.exp(-(time_s - sent.until_s) / self.time_constant_s)
        mean_bps[sent.ue] += sent.rate_bps * (faded - kept)
        with np.errstate(all="ignore"):  # an average that has all but faded is as good as none
            multiple = queue.alone_bps / mean_bps[queue.ue]
        multiple = np.where(queue.alone_bps > 0, multiple, 0.0)
        _, sends, slot = self.pick_turn(queue, time_s, state.slot, -multiple)
        return Grants(sends, slot.until_s, MeanRates(mean_bps, time_s, slot))


class EnergyAware(Scheduler, kind="energy-aware"):
    """One UE of a cell at a time, fewest joules a bit first; it sends all its bits.

    Joules a bit are power over the rate of the whole band without interference.
    """

    one_at_a_time = True
    reference = "netsim: greedy rule, least transmit energy a bit"

    def choose_grants(self, queue: Queue, time_s: float, state: State) -> Grants:
        with np.errstate(divide="ignore", invalid="ignore"):
            joules_a_bit = queue.power_w / queue.alone_bps
        return Grants(pick_one_per_cell(queue, queue.rate_bps > 0, joules_a_bit))


SCHEDULERS = OneOf(
    "scheduler",
    Simultaneous,
    Groups,
    RoundRobin,
    ProportionalFair,
    EnergyAware,
)


class AirInterface(Part):
    """Sharing of the band over time.

    link_adaptation: rates follow every coming and going of a transmitter (change), or are held
    until the next grant or block (grant), as if UEs that have sent went on with padding; they stop
    it for a UE that gets a rate by this.
    """

    scheduler: Annotated[Scheduler, SCHEDULERS] = Simultaneous()
    """rule by which UEs of a cell may send"""
    link_adaptation: Literal["change", "grant"] = "change"
    """when rates follow the interference: with each coming and going, or only with grants and
    blocks"""
    block_s: float | None = Field(None, ge=1e-3, le=1e6)
    """length of a block, after which links are looked at again, s; none: links stay as they were at
    the request"""
    step_s: float | None = Field(None, ge=1e-6, le=1e6)
    """grants and changes of interference happen at multiples of it, s; none: at any time"""
    retransmissions: int = Field(0, ge=0, le=1000)
    """how often a block that was not decoded is sent again, without combining; then the update is
    lost"""
    client_dropout_per_s: float = Field(0.0, ge=0, le=1e3)
    """rate at which UEs leave for good between request and last bit, 1/s"""

    @model_validator(mode="after")
    def _check_steps(self) -> Self:
        if self.block_s is not None and self.step_s is not None:
            steps = self.block_s / self.step_s
            if steps < 1 or abs(steps - round(steps)) > 1e-9 * steps:
                raise ValueError(
                    f"block_s {self.block_s:g} must be a multiple of step_s {self.step_s:g}"
                )
        return self

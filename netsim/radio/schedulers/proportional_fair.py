"""Proportional fair scheduling."""

from dataclasses import dataclass
from math import exp, inf
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.radio.schedulers.base import Grants, Queue, Scheduler, State
from netsim.radio.schedulers.places import held_or_next
from netsim.radio.schedulers.slots import Slot
from netsim.units import FloatArray


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

"""Availability that rises and falls with the time of day."""

from math import cos, pi
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.availability.base import Availability, Conditions
from fl.types import State
from netsim.clock import DAY_S, last_multiples
from netsim.rng import Rng
from netsim.units import BoolArray

_GOLDEN = (5**0.5 - 1) / 2  # its multiples modulo 1 fill the unit interval evenly, however many there are


class Diurnal(Availability):
    r"""At time of day t each UE is available with a probability that is highest at `peak_hour`::

        p(t) = share (1 + depth cos(2 pi (t - peak) / 24 h))

    UE u is available while U < p(t). U is uniform on (0, 1), drawn for each of its blocks of `block_s`, so the
    share of available UEs is p(t) at any time. Blocks of different UEs begin at different times. Devices idle and
    charge at night: Bonawitz et al. saw four times as many at the best hour as at the worst, which is
    (1 + depth) / (1 - depth) at a depth of 0.6.
    """

    kind: Literal["diurnal"] = "diurnal"
    share: float = Field(default=0.5, gt=0, le=1)
    """share of UEs that are available, mean over a day"""
    depth: float = Field(default=0.6, ge=0, le=1)
    """by how much of its mean the share rises and falls"""
    peak_hour: float = Field(default=2.0, ge=0, lt=24)
    """time of day at which most UEs are available, hours after midnight"""
    block_s: float = Field(default=3600.0, ge=1, le=1e7)
    """time after which a UE's state is drawn again, s"""

    reference: ClassVar = (
        "Yang et al., Applied Federated Learning: Improving Google Keyboard Query Suggestions, 2018; Bonawitz et al., "
        "Towards Federated Learning at Scale: System Design, 2019; the cosine, its hour and the mean share are assumed"
    )

    @model_validator(mode="after")
    def _is_a_share(self) -> Self:
        most = self.share * (1 + self.depth)
        if most > 1:
            raise ValueError(f"share (1 + depth) is {most:g}, at most 1 is possible: it is the share at the peak")
        return self

    def available(self, now: Conditions, state: State, rng: Rng) -> tuple[BoolArray, State]:
        ue = np.arange(len(now.position_m))
        shifted_s = np.asarray(now.time_s + _GOLDEN * ue % 1.0 * self.block_s)
        block = last_multiples(shifted_s, self.block_s).astype(np.int64)
        share = self.share * (1 + self.depth * cos(2 * pi * (now.wall_s / DAY_S - self.peak_hour / 24.0)))
        return rng.uniform("block", ue, item=block) < share, state

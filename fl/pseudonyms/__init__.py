"""The pseudonym slot: for how long an update's sender keeps the name under which the attacker sees it."""

from abc import abstractmethod
from math import inf
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.part import OneOf, Part
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


class Pseudonyms(Part):
    """A rule that cuts the time of each UE into periods; in each of them it has one name, which never comes back."""

    kind: str
    changes: ClassVar[bool] = True
    """whether names ever change; where they do not, a UE's name is its number"""

    def lasts_until_s(self, asked_s: float) -> float:
        """Time of the last request under the names of a request at asked_s, where all UEs change at once; else inf."""
        return inf

    @abstractmethod
    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        """The number of the period (n,) of UEs (n,) that were asked for an update at asked_s (n,), for merge round_.

        rng : one stream for the whole run.
        """


class Permanent(Pseudonyms):
    """Every UE keeps its name for the whole run."""

    kind: Literal["permanent"] = "permanent"
    changes: ClassVar = False

    reference: ClassVar = "McMahan et al., Algorithm 1: the server knows its clients"

    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        return np.zeros(len(ue), dtype=np.int64)


class PerRound(Pseudonyms):
    """A new name for every round; of a server without rounds, for every update."""

    kind: Literal["per-round"] = "per-round"

    reference: ClassVar = "Pfitzmann and Hansen 2010: transaction pseudonyms"

    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        return np.full(len(ue), round_)


_ROUNDING = 1e-9  # of a period; times of requests are sums


class Every(Pseudonyms):
    """A new name every period_s, from the beginning of the run; an update that is asked for when a period ends, of what
    was measured in it, still has the name of that period.

    All UEs change at once, so that a new name may belong to any UE; or each at times of its own (stagger),
    shifted by a draw from 0 to period_s: then only few others change with it, and they are the ones to confuse it with.
    """

    kind: Literal["every"] = "every"
    period_s: float = Field(gt=0, le=1e9)
    """how long a name lasts, s"""
    stagger: bool = False
    """whether each UE changes at times of its own"""

    reference: ClassVar = "Bluetooth Core Specification 5.4, Vol 3, Part C, Appendix A: private addresses, 15 min"
    example: ClassVar = {"kind": "every", "period_s": 900}

    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, rng: Rng) -> IntArray:
        shift = rng.uniform("stagger", ue) if self.stagger else np.zeros(len(ue))
        return np.ceil(asked_s / self.period_s + shift - _ROUNDING).astype(np.int64) - 1

    def lasts_until_s(self, asked_s: float) -> float:
        return inf if self.stagger else float(np.ceil(asked_s / self.period_s - _ROUNDING)) * self.period_s


PSEUDONYMS = OneOf(
    "pseudonyms",
    Permanent,
    PerRound,
    Every,
)

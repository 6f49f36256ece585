"""Names that change by the clock."""

from math import inf
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.pseudonyms.base import Pseudonyms
from fl.types import State
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

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

    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, state: State, rng: Rng) -> IntArray:
        shift = rng.uniform("stagger", ue) if self.stagger else np.zeros(len(ue))
        return np.ceil(asked_s / self.period_s + shift - _ROUNDING).astype(np.int64) - 1

    def lasts_until_s(self, asked_s: float) -> float:
        return inf if self.stagger else float(np.ceil(asked_s / self.period_s - _ROUNDING)) * self.period_s

"""Power policies that do not learn: who sends with how many watts."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np

from netsim.part import Part
from netsim.radio.links import Links
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

State = dict[str, Any]


class Power(Part):
    """Chooses transmit power for the UEs of a round."""

    kind: str

    @abstractmethod
    def power_w(
        self, links: Links, ue: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        """Power (n,) of the UEs `ue` (n,), in watts, never above max_power_w; and the next state."""


class Full(Power):
    """Every UE sends at its maximum."""

    kind: Literal["full"] = "full"
    reference: ClassVar[str] = "baseline"
    example: ClassVar[dict[str, Any]] = {"kind": "full"}

    def power_w(
        self, links: Links, ue: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        return np.full(len(ue), max_power_w), state

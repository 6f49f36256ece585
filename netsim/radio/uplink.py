"""The uplink slot: what a transmission meets on its way to the base station.

An uplink plans; it does not touch the payload. What the channel does to an update (loss, noise) is applied
where updates are known, in `fl.transmit`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from netsim.part import Part
from netsim.radio.links import Links
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Payload:
    """What every UE wants to send: size in bits, real numbers, and the bound of their L2 norm if there is one."""

    n_bits: float
    n_numbers: int
    norm_bound: float | None


@dataclass(frozen=True)
class Channel:
    """The uplink of one round, one entry a transmitting row.

    power_w, sinr (linear), noise_std (standard deviation added to each number of the update after decoding,
    in the update's own unit), delay_s, energy_j, decoded (heard, and in time).
    """

    power_w: FloatArray
    sinr: FloatArray
    noise_std: FloatArray
    delay_s: FloatArray
    energy_j: FloatArray
    decoded: BoolArray


class Uplink(Part):
    """How transmissions share the radio."""

    kind: str

    @abstractmethod
    def plan(self, links: Links, ue: IntArray, power_w: FloatArray, payload: Payload, rng: Rng) -> Channel:
        """The channel of rows that belong to UEs `ue` (n,), sent with power_w (n,)."""


class Ideal(Uplink):
    """Everybody is heard at once, without noise, delay or energy: learning without a radio."""

    kind: Literal["ideal"] = "ideal"
    reference: ClassVar[str] = "the usual assumption of federated learning papers"
    example: ClassVar[dict[str, Any]] = {"kind": "ideal"}

    def plan(self, links: Links, ue: IntArray, power_w: FloatArray, payload: Payload, rng: Rng) -> Channel:
        n, zero = len(ue), np.zeros(len(ue))
        return Channel(power_w, np.full(n, np.inf), zero, zero, zero, np.ones(n, dtype=bool))

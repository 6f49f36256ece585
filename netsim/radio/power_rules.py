"""Power policies without learning, other than full power."""

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.radio.power import Power, State
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray, db_from_ratio, w_from_dbm


class Fixed(Power):
    """Every UE sends at the same power, or at its maximum if that is less."""

    kind: Literal["fixed"] = "fixed"
    power_dbm: float = Field(ge=-60, le=60)
    """transmit power, dBm"""
    reference: ClassVar = "baseline"
    example: ClassVar = {"kind": "fixed", "power_dbm": 10}

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        return np.full(len(gain), min(float(w_from_dbm(self.power_dbm)), max_power_w)), state


class Average(Power):
    """An equal share of the mean of the smallest and largest total power: (total_min_w + total_max_w) / (2 n) each."""

    kind: Literal["average"] = "average"
    total_min_w: float = Field(default=0.15, ge=0)
    """smallest total power of all UEs, W"""
    total_max_w: float = Field(default=1.5, gt=0)
    """largest total power of all UEs, W"""
    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, benchmark"
    example: ClassVar = {"kind": "average"}

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.total_min_w > self.total_max_w:
            raise ValueError(
                f"total_min_w {self.total_min_w:g} is above total_max_w {self.total_max_w:g}; exchange them"
            )
        return self

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        share = (self.total_min_w + self.total_max_w) / 2 / max(len(gain), 1)
        return np.full(len(gain), min(share, max_power_w)), state


class Listed(Power):
    """Every UE sends at its own power, or at its maximum if that is less."""

    kind: Literal["listed"] = "listed"
    each_w: tuple[Annotated[float, Field(gt=0, le=1000)], ...] = Field(min_length=1)
    """transmit power of each UE, W; UE u takes entry u mod length"""
    reference: ClassVar = "baseline"
    example: ClassVar = {"kind": "listed", "each_w": [0.1, 0.2]}

    def of(self, ue: IntArray) -> "Power":
        return self.model_copy(update={"each_w": tuple(self.each_w[k % len(self.each_w)] for k in ue.tolist())})

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        own = np.resize(np.array(self.each_w), len(gain))
        return np.minimum(own, max_power_w), state


class Fractional(Power):
    """Open-loop power control: P = min(P_max, P0 + alpha * PL) in dB, which compensates a share alpha of the path loss.

    PL is the loss to the serving base station, shadowing and antenna gains included. A UE without one sends at its
    maximum. Where links are looked at again while UEs send (`radio.dynamic_uplink` with `block_s`), the power follows
    the loss.
    """

    follows_links: ClassVar[bool] = True

    kind: Literal["fractional"] = "fractional"
    p0_dbm: float = Field(default=-85.0, ge=-202, le=24)
    """P0, target received power at alpha 1 over the whole band, dBm"""
    alpha: float = Field(default=0.8, ge=0, le=1)
    """share of the path loss that is compensated"""
    reference: ClassVar = "3GPP TS 38.213, Section 7.1.1 (open-loop part)"
    example: ClassVar = {"kind": "fractional"}

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        if gain.shape[1] == 0:
            return np.full(len(gain), max_power_w), state
        own = gain[np.arange(len(gain)), np.maximum(serving, 0)]
        loss_db = -db_from_ratio(own)
        wanted = w_from_dbm(self.p0_dbm + self.alpha * loss_db)
        known = (serving >= 0) & np.isfinite(wanted)
        return np.where(known, np.minimum(wanted, max_power_w), max_power_w), state

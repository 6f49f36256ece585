"""Power policies that do not learn: who sends with how many watts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.part import Part
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray, db_from_ratio, w_from_dbm

State = Any
"""What a policy remembers, as a value: None, or a frozen dataclass that it names itself (see `netsim.tree`)."""


@dataclass(frozen=True)
class PowerContext:
    """What a policy may know besides the links when it sets the powers of a round: one entry a UE of the world (K,).

    sends (n,) the UEs that transmit; snr_per_w SNR of a UE's own uplink at 1 W without interference, 0 for one that is
    away; scale: noise on each number of an update has std scale / sqrt(snr_per_w power_w), 0 without channel noise;
    required_std noise that budgets asked for in the UE's last round, drawn_std what was drawn of it, 0 before the
    first; budget_left share of the budget that is left (1 without one); progress share of the rounds that are over.
    """

    sends: IntArray
    snr_per_w: FloatArray
    scale: float
    required_std: FloatArray
    drawn_std: FloatArray
    budget_left: float
    progress: float


class Power(Part):
    """Chooses transmit power for the UEs of a round.

    gain (n, n_bs) is the power gain of each link, serving (n,) the base station or -1.
    """

    kind: str
    wants_context: ClassVar[bool] = False
    """whether it is given the context before every choice"""
    needs_channel_noise: ClassVar[bool] = False
    """whether it only makes sense where channel noise stays on the updates"""

    def start(self, n_ue: int) -> State:
        """The first state, in a world of so many UEs; None for a policy without memory."""
        return None

    def update_context(self, context: PowerContext, state: State) -> State:
        """The next state, once it knows the context of the round."""
        return state

    def check_files(self) -> None:
        """Raise ValueError where a file that it names cannot be used."""

    def check(self, n_ue: int) -> None:
        """Raise ValueError where it cannot serve a world of so many UEs."""

    def of(self, ue: IntArray) -> Power:
        """The policy for the UEs with these indices, one entry each; the same for all unless it names them."""
        return self

    @abstractmethod
    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        """Power (n,) in watts, never above max_power_w; and the next state."""


class Full(Power):
    """Every UE sends at its maximum."""

    kind: Literal["full"] = "full"
    reference: ClassVar[str] = "baseline"
    example: ClassVar[dict[str, Any]] = {"kind": "full"}

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        return np.full(len(gain), max_power_w), state


class Fixed(Power):
    """Every UE sends at the same power, or at its maximum if that is less."""

    kind: Literal["fixed"] = "fixed"
    power_dbm: float = Field(ge=-60, le=60)
    """transmit power"""
    reference: ClassVar[str] = "baseline"
    example: ClassVar[dict[str, Any]] = {"kind": "fixed", "power_dbm": 10}

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        return np.full(len(gain), min(float(w_from_dbm(self.power_dbm)), max_power_w)), state


class Average(Power):
    """An equal split of the middle of the allowed total: (total_min_w + total_max_w) / (2 n) each."""

    kind: Literal["average"] = "average"
    total_min_w: float = Field(default=0.15, ge=0)
    """least power of all UEs together"""
    total_max_w: float = Field(default=1.5, gt=0)
    """most power of all UEs together"""
    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, benchmark"
    example: ClassVar[dict[str, Any]] = {"kind": "average"}

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
    """watts of the first, the second, ... UE; gone round where there are more UEs"""
    reference: ClassVar[str] = "baseline"
    example: ClassVar[dict[str, Any]] = {"kind": "listed", "each_w": [0.1, 0.2]}

    def of(self, ue: IntArray) -> Power:
        return self.model_copy(update={"each_w": tuple(self.each_w[k % len(self.each_w)] for k in ue.tolist())})

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        own = np.resize(np.array(self.each_w), len(gain))
        return np.minimum(own, max_power_w), state


class Fractional(Power):
    """Open loop: P = min(P_max, P0 + alpha * PL) in dB, which makes up for a share alpha of the path loss.

    PL is the loss to the serving base station, shadowing and antenna gains included. A UE without one sends at its
    maximum.
    """

    kind: Literal["fractional"] = "fractional"
    p0_dbm: float = Field(default=-85.0, ge=-202, le=24)
    """power that would arrive at alpha 1, over the whole band"""
    alpha: float = Field(default=0.8, ge=0, le=1)
    """share of the path loss that is made up for"""
    reference: ClassVar[str] = "3GPP TS 38.213, Section 7.1.1 (open-loop part)"
    example: ClassVar[dict[str, Any]] = {"kind": "fractional"}

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

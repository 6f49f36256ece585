"""The power slot: transmit powers of UEs."""

from abc import abstractmethod
from dataclasses import field
from math import inf
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveFloat

from netsim.columns import frozen, no_floats, no_ints
from netsim.part import Fraction, Part
from netsim.radio.uplink import Cohort, Uplink
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray, db_from_ratio, w_from_dbm

State = Any
"""State of a policy: None, or a frozen dataclass of the policy (see `netsim.checkpoint`)."""


@frozen
class PowerContext:
    """Inputs of a policy besides the links when it sets the powers of a round; arrays (K,) with an
    entry for each UE.

    sends (n,): indices of the UEs that transmit; snr_per_w: SNR of a UE's uplink at 1 W without
    interference, 0 for an absent UE; scale: noise on each number of an update has std scale /
    sqrt(snr_per_w power_w), 0 without channel noise; required_std: noise that the budgets required
    in the UE's last round, and drawn_std: the part of it that was drawn, both 0 before its first
    round; budget_left: remaining share of the budget (1 without one); progress: share of the rounds
    completed.

    row_ue, row_required_std (R,): the same requirement for each row that was sent last, for a UE
    may send several; cohort: links of all UEs to all base stations; overheard: their links to an
    eavesdropper's antenna, None without one; n_bits: size of a row; uplink: how they share the
    band; max_power_w: largest power of a UE.
    """

    sends: IntArray
    snr_per_w: FloatArray
    scale: float
    required_std: FloatArray
    drawn_std: FloatArray
    budget_left: float
    progress: float
    row_ue: IntArray = field(default_factory=no_ints)
    row_required_std: FloatArray = field(default_factory=no_floats)
    cohort: Cohort | None = None
    overheard: Cohort | None = None
    n_bits: float = 0.0
    uplink: Uplink | None = None
    max_power_w: float = inf


class Power(Part):
    """Chooses transmit power for the UEs of a round.

    gain (n, n_bs) is the power gain of each link, serving (n,) the base station or -1.
    """

    kind: str = ""
    wants_context: ClassVar = False
    """whether `update_context` is called before every choice"""
    needs_channel_noise: ClassVar = False
    """whether the policy requires an uplink whose decoded updates carry channel noise"""
    follows_links: ClassVar = False
    """whether the power of a UE is a function of its own link, so that it changes with the link
    while the UE sends; a policy without it chooses once a round"""

    def start(self, n_ue: int) -> State:
        """The initial state in a world of n_ue UEs; None for a policy without state."""
        return None

    def update_context(self, context: PowerContext, state: State) -> State:
        """The next state after the context of the round is known."""
        return state

    def check_files(self) -> None:
        """Raises ValueError if a file of the policy cannot be used."""

    def check(self, n_ue: int) -> None:
        """Raises ValueError if the policy does not support a world of n_ue UEs."""

    def select_ues(self, ue: IntArray) -> "Power":
        """The policy for the UEs with these indices; the policy itself unless it has settings for
        each UE.
        """
        return self

    @abstractmethod
    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        """Power (n,) in W, at most max_power_w, and the next state."""


class Law(Power):
    """A policy whose powers follow from the links alone."""

    @abstractmethod
    def watts(self, gain: FloatArray, serving: IntArray, max_power_w: float) -> FloatArray:
        """Power (n,) in W, at most max_power_w."""

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        return self.watts(gain, serving, max_power_w), state


class Full(Law, kind="full"):
    """Every UE sends at its maximum power."""

    reference = "netsim: baseline"

    def watts(self, gain: FloatArray, serving: IntArray, max_power_w: float) -> FloatArray:
        return np.full(len(gain), max_power_w)


class Fixed(Law, kind="fixed"):
    """Every UE sends at the same power, or at its maximum if that is less."""

    power_dbm: float = Field(ge=-60, le=60)
    """transmit power, dBm"""
    reference = "netsim: baseline"
    example = {"kind": "fixed", "power_dbm": 10}

    def watts(self, gain: FloatArray, serving: IntArray, max_power_w: float) -> FloatArray:
        return np.full(len(gain), min(w_from_dbm(self.power_dbm), max_power_w))


class Average(Law, kind="average"):
    """An equal share of the mean of the smallest and largest total power: (total_min_w +
    total_max_w) / (2 n) each.
    """

    total_min_w: float = Field(0.15, ge=0)
    """smallest total power of all UEs, W"""
    total_max_w: PositiveFloat = 1.5
    """largest total power of all UEs, W"""
    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, benchmark"

    def watts(self, gain: FloatArray, serving: IntArray, max_power_w: float) -> FloatArray:
        share = (self.total_min_w + self.total_max_w) / 2 / max(len(gain), 1)
        return np.full(len(gain), min(share, max_power_w))


class Listed(Law, kind="listed"):
    """Every UE sends at its own power, or at its maximum if that is less."""

    each_w: tuple[Annotated[float, Field(gt=0, le=1000)], ...] = Field(min_length=1)
    """transmit power of each UE, W; UE u takes entry u mod length"""
    reference = "netsim: baseline"
    example = {"kind": "listed", "each_w": [0.1, 0.2]}

    def select_ues(self, ue: IntArray) -> "Power":
        powers_w = tuple(self.each_w[k % len(self.each_w)] for k in ue.tolist())
        return self.change("each_w", powers_w)

    def watts(self, gain: FloatArray, serving: IntArray, max_power_w: float) -> FloatArray:
        return np.minimum(np.resize(np.array(self.each_w), len(gain)), max_power_w)


class Fractional(Law, kind="fractional"):
    """Open-loop power control: P = min(P_max, P0 + alpha * PL) in dB, which compensates a share
    alpha of the path loss.

    PL is the loss to the serving base station, shadowing and antenna gains included. A UE without
    one sends at its maximum. Where links are looked at again while UEs send (`radio.dynamic_uplink`
    with `block_s`), the power follows the loss.
    """

    follows_links = True

    p0_dbm: float = Field(-85.0, ge=-202, le=24)
    """P0, target received power at alpha 1 over the whole band, dBm"""
    alpha: Fraction = 0.8
    """share of the path loss that is compensated"""
    reference = "3GPP TS 38.213, Section 7.1.1 (open-loop part)"

    def watts(self, gain: FloatArray, serving: IntArray, max_power_w: float) -> FloatArray:
        if gain.shape[1] == 0:
            return np.full(len(gain), max_power_w)
        loss_db = -db_from_ratio(gain[np.arange(len(gain)), np.maximum(serving, 0)])
        target_w = w_from_dbm(self.p0_dbm + self.alpha * loss_db)
        # fmin: not NaN, of an absent UE
        return np.where(serving >= 0, np.fmin(target_w, max_power_w), max_power_w)

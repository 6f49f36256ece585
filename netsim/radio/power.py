"""The power slot: transmit powers of UEs. Full power, which most scenarios have, stands here."""

from abc import abstractmethod
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np

from netsim.columns import no_floats, no_ints
from netsim.part import Part
from netsim.radio.uplink import Cohort, Uplink
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

State = Any
"""State of a policy: None, or a frozen dataclass of the policy (see `netsim.tree`)."""


@dataclass(frozen=True, eq=False)
class PowerContext:
    """Inputs of a policy besides the links when it sets the powers of a round; arrays (K,) with an entry for each UE.

    sends (n,): indices of the UEs that transmit; snr_per_w: SNR of a UE's uplink at 1 W without interference, 0 for an
    absent UE; scale: noise on each number of an update has std scale / sqrt(snr_per_w power_w), 0 without channel
    noise; required_std: noise that the budgets required in the UE's last round, and drawn_std: the part of it that was
    drawn, both 0 before its first round; budget_left: remaining share of the budget (1 without one); progress: share of
    the rounds completed.

    row_ue, row_required_std (R,): the same requirement for each row that was sent last, for a UE may send several;
    cohort: links of all UEs to all base stations; overheard: their links to an eavesdropper's antenna, None without
    one; n_bits: size of a row; uplink: how they share the band; max_power_w: largest power of a UE.
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

    kind: str
    wants_context: ClassVar[bool] = False
    """whether `update_context` is called before every choice"""
    needs_channel_noise: ClassVar[bool] = False
    """whether the policy requires an uplink whose decoded updates carry channel noise"""
    follows_links: ClassVar[bool] = False
    """whether the power of a UE is a function of its own link, so that it changes with the link while the UE sends; a
    policy without it chooses once a round"""

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

    def of(self, ue: IntArray) -> "Power":
        """The policy for the UEs with these indices; the policy itself unless it has settings for each UE."""
        return self

    @abstractmethod
    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        """Power (n,) in W, at most max_power_w, and the next state."""


class Full(Power):
    """Every UE sends at its maximum power."""

    kind: Literal["full"] = "full"
    reference: ClassVar = "baseline"
    example: ClassVar = {"kind": "full"}

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        return np.full(len(gain), max_power_w), state

"""The uplink slot: what a transmission meets on its way to the base station.

An uplink plans; it does not touch the payload. What the channel does to an update (loss, noise) is applied
where updates are known, in `fl.round.transmit`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from netsim.part import Part
from netsim.units import BoolArray, FloatArray, IntArray

ComplexArray = npt.NDArray[np.complex128]


@dataclass(frozen=True)
class Payload:
    """What a row of the round is: size in bits, real numbers, and the bound of their L2 norm if there is one."""

    n_bits: float
    n_numbers: int
    norm_bound: float | None


@dataclass(frozen=True)
class Cohort:
    """The UEs that transmit in a round, one entry each.

    ue (n,) their indices; serving (n,) base station, -1 for none; gain (n, n_bs) power gain of path loss,
    shadowing and antennas, linear; fading (n, n_bs, antennas) small-scale amplitude of unit mean power
    an antenna, None for one antenna without fading;
    power_w (n,); rows (n,) how many rows of the round each sends; downlink_sinr (n,) of its cell, linear;
    compute_s, compute_j (n,) local training before it can send; limit_s when the next round begins: nobody waits for
    what comes later.
    """

    ue: IntArray
    serving: IntArray
    gain: FloatArray
    fading: ComplexArray | None
    power_w: FloatArray
    rows: IntArray
    downlink_sinr: FloatArray
    compute_s: FloatArray
    compute_j: FloatArray
    limit_s: float = inf

    def at_power(self, power_w: FloatArray) -> Cohort:
        """The same UEs with other powers (n,)."""
        return Cohort(
            self.ue, self.serving, self.gain, self.fading, power_w, self.rows,
            self.downlink_sinr, self.compute_s, self.compute_j, self.limit_s,
        )  # fmt: skip

    @property
    def strength(self) -> FloatArray:
        """gain times |fading|^2 summed over antennas: (n, n_bs)."""
        if self.fading is None:
            return self.gain
        return np.asarray(self.gain * (self.fading.real**2 + self.fading.imag**2).sum(axis=-1))


@dataclass(frozen=True)
class Channel:
    """The uplink of one round, one entry a transmitting UE (or row, see `rows`).

    power_w; sinr (linear); rate_bps; noise_std (standard deviation added to each number of the update after
    decoding, in the update's own unit); thermal_std, the part of it that is the receiver's thermal noise; airtime_s;
    delay_s from the server's request to the last bit; energy_j of transmission and training; decoded: heard well
    enough, and in time; late: heard, but after the deadline.

    noise_std is what a model that is learnt from the update suffers. Only thermal_std may be counted as privacy: a
    receiver that decodes the others' signals subtracts them, so they hide nobody. It is 0 for a UE without a base
    station, which has no receiver whose noise could be counted.
    """

    power_w: FloatArray
    sinr: FloatArray
    rate_bps: FloatArray
    noise_std: FloatArray
    thermal_std: FloatArray
    airtime_s: FloatArray
    delay_s: FloatArray
    energy_j: FloatArray
    decoded: BoolArray
    late: BoolArray

    def within(self, limit_s: float) -> Self:
        """The same, with turns longer than limit_s late."""
        late = self.late | (self.decoded & (self.delay_s > limit_s))
        return replace(self, decoded=self.decoded & ~late, late=late)

    def rows(self, index: IntArray) -> Self:
        """Entries repeated for the rows that a UE sends."""
        return type(self)(*(getattr(self, f.name)[index] for f in fields(self)))


class Uplink(Part):
    """How transmissions share the radio."""

    kind: str

    @property
    def needs_bound(self) -> bool:
        """Whether a payload without a promised norm bound cannot be sent."""
        return False

    @property
    def shares_band(self) -> bool:
        """Whether one UE that sends can make the updates of others late, lost or noisier."""
        return False

    @property
    def adds_noise(self) -> bool:
        """Whether channel noise stays on the updates that are decoded."""
        return False

    @property
    def isolates_ues(self) -> bool:
        """Whether the noise on an update depends on its own UE's power alone."""
        return False

    @abstractmethod
    def plan(self, cohort: Cohort, payload: Payload) -> Channel:
        """The channel of every UE of the cohort."""

    def described(self, training: str) -> dict[str, str]:
        """Aspect -> how it is modelled, for the channel card; training: what a sample of it costs, in words."""
        return {"noise": "not modelled", "uplink interference": "not modelled", "delay and energy": "training only"}

    def snr_per_w(self, cohort: Cohort) -> FloatArray:
        """SNR at 1 W (n,) of each UE at its own base station without interference; 0 where nothing is on the air."""
        return np.zeros(len(cohort.ue))

    def noise_scale(self, payload: Payload) -> float:
        """Decoder noise on each number of an update has std noise_scale / sqrt(SINR); 0 without such noise."""
        return 0.0

    def band_noise_w(self) -> float:
        """Thermal noise power in the whole band; 0 where nothing is on the air."""
        return 0.0

    def eavesdropped(self, cohort: Cohort, payload: Payload, sent: Channel) -> Channel:
        """The channel (n,) of the same transmissions at somebody else's antenna, for whom no deadline counts.

        cohort: the same UEs with their links to that antenna alone; sent: their channel at the base station. Raises
        TypeError where nothing is on the air.
        """
        raise TypeError(f"{self.kind_name()}: nothing is on the air")


class Ideal(Uplink):
    """Everybody is heard at once, without noise, airtime or transmit energy: learning without a radio."""

    kind: Literal["ideal"] = "ideal"
    reference: ClassVar[str] = "the usual assumption of federated learning papers"
    example: ClassVar[dict[str, Any]] = {"kind": "ideal"}

    def plan(self, cohort: Cohort, payload: Payload) -> Channel:
        n, zero = len(cohort.ue), np.zeros(len(cohort.ue))
        endless, never = np.full(n, np.inf), np.zeros(n, dtype=bool)
        return Channel(
            cohort.power_w, endless, endless, zero, zero, zero, cohort.compute_s, cohort.compute_j, ~never, never
        )

r"""Common base of NOMA and OMA: band, noise, deadline, selection of UEs, and noise on decoded updates.

Analog transmission of an update: numbers s = u / rho with the fixed, data-independent rho = C / sqrt(q) (C the bound of
the update's norm, q its length) have mean square at most 1, so after decoding with SINR gamma each number of the
update carries independent noise of

    sigma_ch = rho / sqrt(gamma) = C / sqrt(q gamma)        [LAPA, Eqs. 4-5; normalisation resolved]

(two reals travel on one complex symbol, and taking real parts halves signal and noise alike). Of that noise

    sigma_thermal = rho / sqrt(snr),    snr = x ||h||^2 / N

is the thermal noise of the receiver; the rest is interference from other UEs, which a receiver that decodes their
signals can subtract.
"""

from dataclasses import replace
from math import inf, sqrt
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from netsim.altered import altered
from netsim.later import Later
from netsim.radio.noise import noise_w, threshold
from netsim.radio.rate import RATES, LinkAdaptation, RateLaw, Shannon
from netsim.radio.uplink import Channel, Cohort, Payload, Uplink
from netsim.units import BoolArray, FloatArray

if TYPE_CHECKING:
    from netsim.radio import airtime
else:
    airtime = Later("netsim.radio.airtime")

_ROUNDING = 1e-9  # relative, of bits that are computed from airtime and rate


class SharedBand(Uplink):
    """Fields and laws of an uplink over a band that cells share."""

    bandwidth_hz: float = Field(default=20e6, ge=1.0, le=1e11)
    """bandwidth of a cell, Hz"""
    noise_figure_db: float = Field(default=6.0, ge=0, le=40)
    """noise figure of the base station's receiver, dB"""
    noise_w: float | None = Field(default=None, gt=0, le=1e6)
    """noise power in the band, W; none: thermal noise (290 K) times the noise figure"""
    interference: Literal["none", "intra", "all"] = "all"
    """source of interference: none, UEs of the same cell (intra), or UEs of all cells (all)"""
    decoding: Literal["noisy", "error-free"] = "noisy"
    """noisy: analog, decoded updates carry channel noise; error-free: digital, updates received in time are exact"""
    norm_bound: float | None = Field(default=None, ge=1e-12, le=1e12)
    """largest L2 norm of a payload, for learning without a clip (required by noisy decoding)"""
    deadline_s: float | None = Field(default=None, gt=0, le=1e9)
    """longest latency from the server's request to the last bit, s; later updates are lost; none: the round length"""
    max_ser: float | None = Field(default=None, gt=0, lt=0.75)
    """largest symbol error rate (QPSK) at which a UE is selected, and its signal cancelled; none: no limit"""
    rate: Annotated[RateLaw, RATES] = LinkAdaptation()
    """law of the rate: link-adaptation (attenuated, capped, none below an SINR) or shannon"""

    @property
    def shares_band(self) -> bool:
        return True

    @property
    def adds_noise(self) -> bool:
        return self.decoding == "noisy"

    @property
    def isolates_ues(self) -> bool:
        return self.interference == "none"

    @property
    def needs_bound(self) -> bool:
        return self.adds_noise and self.norm_bound is None

    def described(self, training: str) -> dict[str, str]:
        return {
            "noise": f"{self.band_noise_w():.3g} W in {self.bandwidth_hz / 1e6:g} MHz",
            "rate": f"{self.rate.law.words}; of the broadcast {self.rate.of_broadcast.words}",
            "training": training,
            "downlink": "broadcast at the rate of the downlink SINR at full load; its energy is not modelled",
        }

    def band_noise_w(self) -> float:
        """Noise power in the whole band."""
        return self.noise_w if self.noise_w is not None else noise_w(self.bandwidth_hz, self.noise_figure_db)

    def limit_s(self) -> float:
        return inf if self.deadline_s is None else self.deadline_s

    def floor_sinr(self) -> float:
        return self.rate.law.min_sinr

    def deaf(self, cohort: Cohort) -> BoolArray:
        return cohort.downlink_sinr < self.rate.of_broadcast.min_sinr

    def min_sinr(self) -> float:
        """SINR below which a UE has no rate, or a symbol error rate above max_ser; 0 without such limits."""
        return max(self.floor_sinr(), 0.0 if self.max_ser is None else threshold(self.max_ser))

    def outcome(
        self,
        cohort: Cohort,
        payload: Payload,
        sinr: FloatArray,
        snr: FloatArray,
        rate_bps: FloatArray,
        wait_s: FloatArray | None = None,
    ) -> Channel:
        """The channel of the cohort from SINR, SNR and rate (n,), and time to wait for others (n,), None: no waiting.

        The downlink broadcasts the same number of bits over the same bandwidth.
        """
        n = len(sinr)
        numbers, ends = np.empty((5, n)), np.empty((2, n), dtype=np.bool_)
        airtime.transmissions(
            sinr,
            snr,
            rate_bps,
            self.downlink_bps(cohort),
            cohort.rows,
            np.zeros(n) if wait_s is None else wait_s,
            cohort.compute_s,
            cohort.compute_j,
            cohort.power_w,
            payload.n_bits,
            min(self.limit_s(), cohort.limit_s),
            self.min_sinr(),
            self.noise_scale(payload),
            numbers,
            ends,
        )
        return Channel(cohort.power_w, sinr, rate_bps, *numbers, *ends)

    def downlink_bps(self, cohort: Cohort) -> FloatArray:
        return airtime.rates(cohort.downlink_sinr, self.bandwidth_hz, self.rate.of_broadcast)

    def alone_bps(self, received_w: FloatArray) -> FloatArray:
        return self.rate_bps(received_w / self.band_noise_w())

    def rate_bps(self, sinr: FloatArray, bandwidth_hz: float | None = None) -> FloatArray:
        """Bandwidth, None: the whole band, times the bit/s/Hz of `rate`, of several SINR (n,)."""
        return airtime.rates(sinr, self.bandwidth_hz if bandwidth_hz is None else bandwidth_hz, self.rate.law)

    def snr_per_w(self, cohort: Cohort) -> FloatArray:
        """SNR at 1 W (n,) of each UE at its own base station without interference; 0 without one."""
        return own_signal_w(cohort.at_power(np.ones(len(cohort.serving)))) / self.band_noise_w()

    def eavesdropped(self, cohort: Cohort, payload: Payload, sent: Channel) -> Channel:
        """As `Uplink.eavesdropped`.

        The eavesdropper cancels interference like a base station and receives all cells at once. With error-free
        decoding it decodes the UEs whose rate by its SINR is at least that by the base station's; with noisy
        decoding all UEs at any SINR, with its own channel noise. UEs that get no rate are silent, and those that stop
        at a deadline have sent no whole update. Signals that it cannot cancel interfere as at a base station; an
        eavesdropper that decodes all cells jointly would decode more.
        """
        limits = {"deadline_s": None, "max_ser": None, "rate": Shannon()}
        on_air = altered(cohort, serving=np.where(sent.rate_bps > 0, cohort.serving, -1))
        at_antenna = self.model_copy(update=limits).plan(on_air, payload)
        with np.errstate(invalid="ignore"):  # no rate for an infinite time
            whole = sent.airtime_s * sent.rate_bps >= payload.bits(cohort.rows) * (1.0 - _ROUNDING)
        fast = (self.rate_bps(at_antenna.sinr) >= self.rate_bps(sent.sinr)) | (self.decoding == "noisy")
        return replace(at_antenna, decoded=at_antenna.decoded & whole & fast)

    def noise_scale(self, payload: Payload) -> float:
        """rho, the scale of the numbers sent; 0 if decoded updates carry no channel noise."""
        if self.decoding == "error-free":
            return 0.0
        bound = payload.norm_bound if payload.norm_bound is not None else self.norm_bound
        if bound is None:
            raise ValueError("noisy decoding needs the bound of the payload's norm")
        return float(bound / sqrt(payload.n_numbers))


def own_signal_w(cohort: Cohort, unit_w: float = 1.0) -> FloatArray:
    """Power (n,) of each UE at its own base station after combining its antennas, in units of unit_w; 0 without one."""
    if not cohort.gain.shape[1]:
        return np.zeros(len(cohort.serving))
    signal_w = cohort.power_w * cohort.own_strength
    return np.where((cohort.serving >= 0) & np.isfinite(signal_w), signal_w / unit_w, 0.0)

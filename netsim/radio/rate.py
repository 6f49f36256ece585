r"""Rate laws: bits per second and hertz that modulation and coding carry at an SINR."""

from abc import abstractmethod
from math import log10
from typing import NamedTuple

import numpy as np
from pydantic import Field

from netsim.part import OneOf, Part, Share
from netsim.units import BOLTZMANN_J_K, FloatArray, find_ratio

_TEMPERATURE_K = 290.0


def compute_thermal_noise_w(bandwidth_hz: float, noise_figure_db: float) -> float:
    """Thermal noise k T B at 290 K times the noise figure, in watts."""
    return BOLTZMANN_J_K * _TEMPERATURE_K * bandwidth_hz * 10.0 ** (noise_figure_db / 10.0)


def compute_min_snr(error_rate: float) -> float:
    """The symbol SNR (linear) at which the SER is error_rate (exact inverse); 0 for a rate above
    the largest SER.
    """
    from scipy.special import ndtri

    q = 1.0 - np.sqrt(1.0 - error_rate)
    return min(ndtri(q), 0.0) ** 2  # Q(x) above 1/2 would be a negative x


class Adaptation(NamedTuple):
    """A rate law in numbers: min(attenuation log2(1 + SINR), max_bps_per_hz), 0 below min_sinr."""

    attenuation: float
    max_bps_per_hz: float
    min_sinr: float

    def rate_bps(self, sinr: FloatArray, bandwidth_hz: float | FloatArray) -> FloatArray:
        """Bandwidth times the bit/s/Hz at SINR (...), linear; NaN for a NaN."""
        efficiency = np.minimum(self.attenuation * np.log2(1.0 + sinr), self.max_bps_per_hz)
        return np.where(sinr < self.min_sinr, 0.0, bandwidth_hz * efficiency)

    @property
    def words(self) -> str:
        """The law as the channel card prints it."""
        factor = "" if self.attenuation == 1 else f"{self.attenuation:g} "
        floor_db = f", none below {10 * log10(self.min_sinr):.6g} dB" if self.min_sinr > 0 else ""
        return f"min({factor}log2(1 + SINR), {self.max_bps_per_hz:g}) bit/s/Hz{floor_db}"


DOWNLINK = Adaptation(0.6, 4.4, 0.1)
"""The downlink of TR 36.942, Annex A, Table A.2: nothing below -10 dB"""


class AdaptedRate(Part):
    r"""Shannon's bound, attenuated and capped, down to the SINR of the most robust modulation and
    coding.

    rate = B min(a log2(1 + SINR), m)        for SINR >= min_sinr_db, else 0
    """

    attenuation: Share = 0.4
    """ratio a of the rate to Shannon's bound"""
    max_bps_per_hz: float = Field(2.0, gt=0, le=20)
    """largest spectral efficiency m, bit/s/Hz"""
    min_sinr_db: float = Field(-10.0, ge=-100, le=100)
    """SINR below which nothing is decoded, dB"""

    @property
    def law(self) -> Adaptation:
        """The law in numbers."""
        return Adaptation(self.attenuation, self.max_bps_per_hz, find_ratio(self.min_sinr_db))


class RateLaw(Part):
    """From the SINR of an uplink to its rate, and from that of the broadcast before it to the rate
    of that.
    """

    kind: str = ""

    @property
    @abstractmethod
    def law(self) -> Adaptation:
        """The law of uploads."""

    @property
    @abstractmethod
    def broadcast_law(self) -> Adaptation:
        """The law of the downlink on which UEs receive the model."""


class LinkAdaptation(AdaptedRate, RateLaw, kind="link-adaptation"):
    r"""Link adaptation: rate B min(a log2(1 + SINR), m), and none below min_sinr_db, of the uplink.

    The model is broadcast at a = 0.6 and m = 4.4 bit/s/Hz, none below -10 dB (TR 36.942, downlink).
    """

    reference = "3GPP TR 36.942, Annex A, Table A.2 (uplink; downlink of the broadcast)"

    @property
    def broadcast_law(self) -> Adaptation:
        return DOWNLINK


class Shannon(RateLaw, kind="shannon"):
    """Perfect link adaptation: Shannon's log2(1 + SINR) at any SINR up to a cap, of uploads and
    broadcast alike.
    """

    max_bps_per_hz: float = Field(8.0, gt=0, le=20)
    """largest spectral efficiency, bit/s/Hz"""
    reference = "Shannon, A Mathematical Theory of Communication, 1948"

    @property
    def law(self) -> Adaptation:
        return Adaptation(1.0, self.max_bps_per_hz, 0.0)

    @property
    def broadcast_law(self) -> Adaptation:
        return self.law


RATES = OneOf("rate", LinkAdaptation, Shannon, default="link-adaptation")

r"""Common base of NOMA and OMA: band, noise, deadline, selection of UEs, and noise on decoded
updates.

Analog transmission of an update: numbers s = u / rho with the fixed, data-independent rho = C /
sqrt(q) (C the bound of the update's norm, q its length) have mean square at most 1, so after
decoding with SINR gamma each number of the update carries independent noise of

    sigma_ch = rho / sqrt(gamma) = C / sqrt(q gamma)        [LAPA, Eqs. 4-5; normalisation resolved]

(two reals travel on one complex symbol, and taking real parts halves signal and noise alike). Of
that noise

    sigma_thermal = rho / sqrt(snr),    snr = x ||h||^2 / N

is the thermal noise of the receiver; the rest is interference from other UEs, which a receiver that
decodes their signals can subtract.
"""

from abc import abstractmethod
from dataclasses import replace
from functools import partial
from math import inf, sqrt
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netsim.part import Amount, Fraction, Positive, Share
from netsim.radio import reception
from netsim.radio.rate import (
    RATES,
    LinkAdaptation,
    RateLaw,
    Shannon,
    compute_min_snr,
    compute_thermal_noise_w,
)
from netsim.radio.uplink import Channel, Cohort, Decoded, Payload, Uplink, compute_noise_std
from netsim.units import BoolArray, FloatArray, IntArray, find_ratio

_ROUNDING = 1e-9  # relative, of bits that are computed from airtime and rate


class SharedBand(Uplink):
    """Fields and laws of an uplink over a band that cells share."""

    bandwidth_hz: float = Field(20e6, ge=1.0, le=1e11)
    """bandwidth of a cell, Hz"""
    noise_figure_db: float = Field(6.0, ge=0, le=40)
    """noise figure of the base station's receiver, dB"""
    noise_w: Positive | None = None
    """noise power in the band, W; none: thermal noise (290 K) times the noise figure"""
    interference: Literal["none", "intra", "all"] = "all"
    """source of interference: none, UEs of the same cell (intra), or UEs of all cells (all)"""
    decoding: Literal["noisy", "error-free"] = "noisy"
    """noisy: analog, decoded updates carry channel noise; error-free: digital, updates received in
    time are exact"""
    norm_bound: float | None = Field(None, ge=1e-12, le=1e12)
    """largest L2 norm of a payload, for learning without a clip (required by noisy decoding)"""
    deadline_s: Amount | None = None
    """longest latency from the server's request to the last bit, s; later updates are lost; none:
    the round length"""
    interference_over_thermal_db: float = Field(0.0, ge=0, le=60)
    """interference from outside the world and thermal noise, over thermal noise alone (IoT), at
    base stations, dB: it raises their noise floor, counts as no privacy, and does not reach an
    eavesdropper's antenna"""
    uplink_share: Share = 1.0
    """share of the time in which UEs may send (TDD): it multiplies rates, so airtime and delay
    grow, and a UE spends its transmit power in this share of its airtime only; the broadcast keeps
    its rate"""
    max_ser: float | None = Field(None, gt=0, lt=0.75)
    """largest symbol error rate (QPSK) at which a UE is selected, and its signal cancelled; none:
    no limit"""
    rate: Annotated[RateLaw, RATES] = LinkAdaptation()
    """law of the rate: link-adaptation (attenuated, capped, none below an SINR) or shannon"""

    shares_band = True

    @property
    def adds_noise(self) -> bool:  # type: ignore[override]
        return self.decoding == "noisy"

    @property
    def isolates_ues(self) -> bool:  # type: ignore[override]
        return self.interference == "none" and self.interference_over_thermal_db == 0

    @property
    def needs_bound(self) -> bool:  # type: ignore[override]
        return self.adds_noise and self.norm_bound is None

    def describe(self, training: str) -> dict[str, str]:
        return {
            "noise": f"{self.band_noise_w():.3g} W in {self.bandwidth_hz / 1e6:g} MHz",
            "rate": f"{self.rate.law.words}; of the broadcast {self.rate.broadcast_law.words}",
            "training": training,
            "downlink": (
                "broadcast at the rate of the downlink SINR at full load; its energy is not "
                "modelled"
            ),
        }

    def band_noise_w(self) -> float:
        """Thermal noise power in the whole band."""
        if self.noise_w is not None:
            return self.noise_w
        return compute_thermal_noise_w(self.bandwidth_hz, self.noise_figure_db)

    def compute_noise_rise(self) -> float:
        return find_ratio(self.interference_over_thermal_db)

    def share_of_time(self) -> float:
        return self.uplink_share

    def compute_noise_floor_w(self) -> float:
        """Noise floor of a base station in the whole band: thermal noise and interference from
        outside.
        """
        return self.band_noise_w() * self.compute_noise_rise()

    def limit_s(self) -> float:
        if self.deadline_s is None:
            return inf
        return self.deadline_s

    def floor_sinr(self) -> float:
        return self.rate.law.min_sinr

    def min_sinr(self) -> float:
        """SINR below which a UE has no rate, or a symbol error rate above max_ser; 0 without such
        limits.
        """
        return max(
            self.floor_sinr(), 0.0 if self.max_ser is None else compute_min_snr(self.max_ser)
        )

    def plan(self, cohort: Cohort, payload: Payload) -> Channel:
        group_of = self.group_ues(cohort) if self.groups_ues else None
        hear = partial(self.receive, group_of=group_of)
        cannot_receive = cohort.downlink_sinr < self.rate.broadcast_law.min_sinr
        heard = self.receive_granted(cohort, cohort.serving >= 0, hear, cannot_receive)
        return self.compute_channel(cohort, payload, heard, group_of)

    @abstractmethod
    def receive(self, cohort: Cohort, on: BoolArray, group_of: IntArray | None = None) -> Decoded:
        """As `Uplink.receive`; of UEs that send in groups (n,), None: all at once."""

    def compute_channel(
        self, cohort: Cohort, payload: Payload, heard: Decoded, group_of: IntArray | None = None
    ) -> Channel:
        """The channel of the cohort from its reception; group_of (n,): UEs wait for earlier groups,
        None: for no one.

        The downlink broadcasts the same number of bits over the same bandwidth.
        """
        limit_s = min(self.limit_s(), cohort.limit_s)
        rho = self.noise_scale(payload)
        bits = payload.count_bits(cohort.rows)
        demands = reception.Demands(
            bits,
            self.downlink_bps(cohort),
            heard.rate_bps,
            cohort.compute_s,
            cohort.compute_j,
            cohort.power_w * self.uplink_share,
        )
        received = reception.is_received(heard.sinr, self.min_sinr())
        wait_s = np.zeros(len(bits))
        if group_of is not None:
            alone = reception.compute_ends(demands, received, wait_s, inf)
            wait_s = reception.compute_waits_s(alone, cohort.serving, group_of, limit_s)
        ends = reception.compute_ends(demands, received, wait_s, limit_s)
        noise_std = compute_noise_std(rho, heard.sinr)
        thermal_std = compute_noise_std(rho, heard.snr)
        thermal_std[~(heard.snr > 0)] = 0.0
        return Channel(
            cohort.power_w, heard.sinr, heard.rate_bps, noise_std, thermal_std, *ends[1:]
        )

    def downlink_bps(self, cohort: Cohort) -> FloatArray:
        return self.rate.broadcast_law.rate_bps(cohort.downlink_sinr, self.bandwidth_hz)

    def alone_bps(self, received_w: FloatArray) -> FloatArray:
        return self.rate_bps(received_w / self.compute_noise_floor_w())

    def rate_bps(
        self, sinr: FloatArray, bandwidth_hz: float | FloatArray | None = None
    ) -> FloatArray:
        """Bandwidth, None: the whole band, times `uplink_share` and the bit/s/Hz of `rate`, of
        several SINR (n,).
        """
        whole_hz = self.bandwidth_hz if bandwidth_hz is None else bandwidth_hz
        return self.rate.law.rate_bps(sinr, whole_hz * self.uplink_share)

    def snr_per_w(self, cohort: Cohort) -> FloatArray:
        """SNR at 1 W (n,) of each UE at its own base station over thermal noise; 0 without one."""
        at_1_w = cohort.with_power_w(np.ones(len(cohort.serving)))
        return at_1_w.signal_w / self.band_noise_w()

    def eavesdrop(
        self, cohort: Cohort, payload: Payload, sent: Channel, group_of: IntArray | None = None
    ) -> Channel:
        """As `Uplink.eavesdrop`.

        Over thermal noise alone. With error-free decoding it decodes the UEs whose rate by its SINR
        is at least that by the base station's; with noisy decoding all UEs at any SINR, with its
        own channel noise. UEs that get no rate are silent, and those that stop at a deadline have
        sent no whole update.
        """
        limits = {
            "deadline_s": None,
            "max_ser": None,
            "rate": Shannon(),
            "interference_over_thermal_db": 0.0,
        }
        receiver = self.model_copy(update=limits)
        on_air = replace(cohort, serving=np.where(sent.rate_bps > 0, cohort.serving, -1))
        at_antenna = receiver.compute_channel(
            on_air, payload, receiver.receive_overheard(on_air, group_of)
        )
        with np.errstate(invalid="ignore"):  # no rate for an infinite time
            sent_bits = sent.airtime_s * sent.rate_bps
        whole = sent_bits >= payload.count_bits(cohort.rows) * (1.0 - _ROUNDING)
        is_faster = self.rate_bps(at_antenna.sinr) >= self.rate_bps(sent.sinr)
        fast = is_faster | (self.decoding == "noisy")
        return replace(at_antenna, decoded=at_antenna.decoded & whole & fast)

    @abstractmethod
    def receive_overheard(self, cohort: Cohort, group_of: IntArray | None) -> Decoded:
        """Reception at an eavesdropper's antenna of the UEs on the air; arguments as those of
        `eavesdrop`.
        """

    def noise_scale(self, payload: Payload) -> float:
        """rho, the scale of the numbers sent; 0 if decoded updates carry no channel noise."""
        if self.decoding == "error-free":
            return 0.0
        bound = payload.norm_bound if payload.norm_bound is not None else self.norm_bound
        if bound is None:
            raise ValueError("noisy decoding needs the bound of the payload's norm")
        return float(bound / sqrt(payload.n_numbers))


class Oma(SharedBand, kind="oma"):
    r"""The band of a cell divided equally among its m UEs, all at once (FDMA), maximum-ratio
    combining.

        gamma_k = x_k ||h_k||^2 / (N / m + I),    rate_k = (B / m) e(gamma_k)

    with N the noise of the whole band and e the bit/s/Hz of `rate`. UEs of the same cell do not
    interfere. With `interference: all`, I is the interference of UEs of other cells in the UE's
    share: their mean received power per antenna, spread evenly over the band. The band is divided
    among those that get a rate. At an eavesdropper's antenna a UE has the same share, with m of its
    own cell, and UEs of other cells interfere alike.
    """

    reference = "Tse and Viswanath, Fundamentals of Wireless Communication, 2005, Section 6.1"
    example = {"kind": "oma", "norm_bound": 1.0}

    def receive(self, cohort: Cohort, on: BoolArray, group_of: IntArray | None = None) -> Decoded:
        cell = np.maximum(cohort.serving, 0)
        n_bs = cohort.gain.shape[1]
        sharing = np.maximum(np.bincount(cell[on], minlength=n_bs), 1)[cell]
        signal = cohort.signal_w
        thermal = self.band_noise_w() / sharing
        noise = thermal * self.compute_noise_rise()
        if self.interference == "all":
            antennas = 1 if cohort.fading is None else cohort.fading.shape[2]
            arrives = cohort.power_w[:, None] * cohort.strength / antennas
            is_other = np.arange(n_bs) != cohort.serving[:, None]
            # of an absent UE the gain is NaN
            arrives = np.where(on[:, None] & is_other, arrives, 0.0)
            noise += arrives.sum(axis=0)[cell] / sharing
        sinr = signal / noise
        sinr = np.where(np.isfinite(sinr), sinr, 0.0)
        return Decoded(sinr, signal / thermal, self.rate_bps(sinr, self.bandwidth_hz / sharing))

    def receive_overheard(self, cohort: Cohort, group_of: IntArray | None) -> Decoded:
        n_cells = cohort.serving.max(initial=0) + 1
        fading = None if cohort.fading is None else np.repeat(cohort.fading, n_cells, axis=1)
        # the antenna in the place of every base station
        gain = np.repeat(cohort.gain, n_cells, axis=1)
        return self.receive(replace(cohort, gain=gain, fading=fading), cohort.serving >= 0)


class Noma(SharedBand, kind="noma"):
    r"""Uplinks of a cell superposed on one band; maximum-ratio combining, then successive
    interference cancellation.

    The channel of UE k at base station b with N_a antennas is h_k = sqrt(gain_kb) z_kb. Decoding
    goes from the strongest received power x_k ||h_k||^2 to the weakest; of signals decoded earlier
    a share r remains::

        gamma_k = x_k ||h_k||^4 / ( sum_later x_j |h_k^H h_j|^2 + r sum_earlier x_j |h_k^H h_j|^2
                                    + sum_other-cells x_j |h_k^H h_jb|^2 + ||h_k||^2 N )

    with r = `sic_residual` (0: complete cancellation, 1: none). `interference: none` keeps only N
    (perfect SIC), `intra` omits other cells. For r = 0, one antenna and one cell the sum of log2(1
    + gamma) is log2(1 + sum x g / N). A signal that is not decoded is not cancelled: r is 1 for a
    UE whose symbol error rate is above `max_ser`. A cell with more UEs than `group_size` serves
    groups one after the other, in order of received power; UEs in the group of the same index in
    other cells interfere. A group starts when the decodable UEs of the groups before it have sent,
    unless these would end after the deadline.

    An eavesdropper receives the UEs of all cells that send together as a base station those of one,
    and cancels among them; with `intra` those of each cell apart, for others do not interfere.
    """

    divides_band = False

    sic_residual: Fraction = 0.0
    """share r of the power of a decoded signal that remains after cancellation"""
    group_size: int | None = Field(None, ge=1)
    """largest number of UEs superposed at a time; none: all of the cell"""

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 4-6"
    example = {"kind": "noma", "norm_bound": 1.0}

    @property
    def groups_ues(self) -> bool:  # type: ignore[override]
        return self.group_size is not None

    def receive(self, cohort: Cohort, on: BoolArray, group_of: IntArray | None = None) -> Decoded:
        together = super().group_ues(cohort) if group_of is None else group_of
        sinr = self.compute_sinr(cohort, self.compute_noise_floor_w(), together, on)
        return Decoded(sinr, cohort.signal_w / self.band_noise_w(), self.rate_bps(sinr))

    def receive_overheard(self, cohort: Cohort, group_of: IntArray | None) -> Decoded:
        together = super().group_ues(cohort) if group_of is None else group_of
        if self.interference == "intra":
            together = together + (together.max(initial=0) + 1) * np.maximum(cohort.serving, 0)
        at_antenna = replace(cohort, serving=np.minimum(cohort.serving, 0))
        return self.receive(at_antenna, cohort.serving >= 0, together)

    def group_ues(self, cohort: Cohort) -> IntArray:
        """As `Uplink.group_ues`: `group_size` of a cell, by received power."""
        if self.group_size is None:
            return super().group_ues(cohort)
        return reception.group_by_power(cohort.signal_w, cohort.serving, self.group_size)

    def compute_sinr(
        self, cohort: Cohort, noise_w: float, group_of: IntArray, on: BoolArray
    ) -> FloatArray:
        """SINR (n,) of the UEs on (n,), which have a cell."""
        if self.interference == "none":
            return cohort.signal_w / noise_w
        receiver = reception.Cancellation(
            noise_w, self.sic_residual, self.interference == "all", self.min_sinr()
        )
        order = cohort.decoding_order
        return reception.compute_noma_sinr(
            order[on[order]], cohort.power_w, cohort.outer, cohort.serving, group_of, receiver
        )

r"""Non-orthogonal multiple access: simultaneous uplinks, separated by successive interference cancellation."""

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.columns import no_ints
from netsim.later import Later
from netsim.radio.shared_band import SharedBand, own_signal_w
from netsim.radio.uplink import Channel, Cohort, Decoded, Payload
from netsim.units import FloatArray, IntArray

if TYPE_CHECKING:
    from netsim.radio import airtime, sic
else:
    airtime, sic = Later("netsim.radio.airtime"), Later("netsim.radio.sic")


class Noma(SharedBand):
    r"""Uplinks of a cell superposed on one band; maximum-ratio combining, then successive interference cancellation.

    The channel of UE k at base station b with N_a antennas is h_k = sqrt(gain_kb) z_kb. Decoding goes from the
    strongest received power x_k ||h_k||^2 to the weakest; of signals decoded earlier a share r remains::

        gamma_k = x_k ||h_k||^4 / ( sum_later x_j |h_k^H h_j|^2 + r sum_earlier x_j |h_k^H h_j|^2
                                    + sum_other-cells x_j |h_k^H h_jb|^2 + ||h_k||^2 N )

    with r = `sic_residual` (0: complete cancellation, 1: none). `interference: none` keeps only N (perfect SIC),
    `intra` omits other cells. For r = 0, one antenna and one cell the sum of log2(1 + gamma) is
    log2(1 + sum x g / N). A signal that is not decoded is not cancelled: r is 1 for a UE whose symbol error rate is
    above `max_ser`. A cell with more UEs than `group_size` serves groups one after the other, in order of received
    power; UEs in the group of the same index in other cells interfere. A group starts when the decodable UEs of the
    groups before it have sent, unless these would end after the deadline.
    """

    kind: Literal["noma"] = "noma"
    sic_residual: float = Field(default=0.0, ge=0, le=1)
    """share r of the power of a decoded signal that remains after cancellation"""
    group_size: int | None = Field(default=None, ge=1)
    """largest number of UEs superposed at a time; none: all of the cell"""

    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 4-6"
    example: ClassVar = {"kind": "noma", "norm_bound": 1.0}

    @property
    def groups_ues(self) -> bool:
        return self.group_size is not None

    def plan(self, cohort: Cohort, payload: Payload) -> Channel:
        noise = self.band_noise_w()
        sinr, group_of = self.sinr(cohort, noise)
        first, deaf = Decoded(sinr, sinr, sinr), self.deaf(cohort)
        sinr = self.granted(cohort, first, lambda some: Decoded(*[self.sinr(some, noise, group_of)[0]] * 3), deaf).sinr
        rate_bps, wait_s = self.rate_bps(sinr), None
        if self.groups_ues:
            wait_s = airtime.waits(
                sinr, rate_bps, self.downlink_bps(cohort), cohort.rows, cohort.compute_s, cohort.serving, group_of,
                payload.n_bits, min(cohort.limit_s, self.limit_s()), self.min_sinr(),
            )  # fmt: skip
        return self.outcome(cohort, payload, sinr, own_signal_w(cohort, noise), rate_bps, wait_s)

    def heard(self, cohort: Cohort, resource: IntArray, resource_blocks: int = 1) -> Decoded:
        noise = self.band_noise_w() / resource_blocks
        sinr, _ = self.sinr(cohort, noise, resource)
        rate = self.rate_bps(sinr, self.bandwidth_hz / resource_blocks)
        return Decoded(sinr, own_signal_w(cohort, noise), rate)

    def sinr(self, cohort: Cohort, noise_w: float, group_of: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """SINR (n,) of every UE, 0 without a cell, and the index (n,) of its group, within which UEs send together.

        group_of : None: groups of `group_size` in each cell, by received power.
        """
        n, n_bs = cohort.gain.shape
        if not n:
            return np.zeros(0), no_ints()
        size, others, least = self.group_size or n, self.interference == "all", self.min_sinr()
        if group_of is None and size >= n:
            group_of = np.zeros(n, dtype=np.int64)
        if cohort.fading is None or cohort.fading.shape[2] == 1 or self.interference == "none":
            strength = cohort.strength
            if group_of is None:
                group_of = sic.groups(
                    sic.own_powers(cohort.power_w, strength, cohort.serving), cohort.serving, n_bs, size
                )
            if self.interference == "none":
                return own_signal_w(cohort, noise_w), group_of
            sinr = sic.one_antenna(
                cohort.power_w, strength, cohort.serving, group_of, noise_w, self.sic_residual, others, least
            )
            return sinr, group_of
        h = np.sqrt(cohort.gain)[:, :, None] * cohort.fading
        own, strength = sic.own_amplitudes(h, cohort.serving)
        if group_of is None:
            group_of = sic.groups(cohort.power_w * strength, cohort.serving, n_bs, size)
        sinr = sic.many_antennas(
            cohort.power_w, h, own, strength, cohort.serving, group_of, noise_w, self.sic_residual, others, least
        )
        return sinr, group_of

"""Orthogonal multiple access: every UE of a cell has its own part of the band."""

from typing import ClassVar, Literal

import numpy as np

from netsim.radio.shared_band import SharedBand, own_signal_w
from netsim.radio.uplink import Channel, Cohort, Decoded, Payload
from netsim.units import IntArray


class Oma(SharedBand):
    r"""The band of a cell divided equally among its m UEs, all at once (FDMA), maximum-ratio combining.

        gamma_k = x_k ||h_k||^2 / (N / m + I),    rate_k = (B / m) e(gamma_k)

    with N the noise of the whole band and e the bit/s/Hz of `rate`. UEs of the same cell do not interfere. With
    `interference: all`, I is the interference of UEs of other cells in the UE's share: their mean received power per
    antenna, spread evenly over the band. The band is divided among those that get a rate.
    """

    kind: Literal["oma"] = "oma"
    reference: ClassVar = "Tse and Viswanath, Fundamentals of Wireless Communication, 2005, Section 6.1"
    example: ClassVar = {"kind": "oma", "norm_bound": 1.0}

    def plan(self, cohort: Cohort, payload: Payload) -> Channel:
        resource = np.zeros(len(cohort.ue), dtype=np.int64)
        heard = self.heard(cohort, resource)
        deaf = self.deaf(cohort)
        heard = self.granted(cohort, heard, lambda some: self.heard(some, resource), deaf)
        return self.outcome(cohort, payload, *heard)

    def heard(self, cohort: Cohort, resource: IntArray, resource_blocks: int = 1) -> Decoded:
        n, own = len(cohort.ue), np.maximum(cohort.serving, 0)
        has = cohort.serving >= 0
        n_bs = cohort.gain.shape[1]
        cell = own * resource_blocks + resource  # one resource block of one cell
        sharing = np.maximum(np.bincount(cell[has], minlength=n_bs * resource_blocks), 1)[cell]
        signal = own_signal_w(cohort)
        thermal = noise = self.band_noise_w() / resource_blocks / sharing
        if self.interference == "all":
            antennas = 1 if cohort.fading is None else cohort.fading.shape[2]
            arrives = cohort.power_w[:, None] * cohort.strength / antennas * has[:, None]
            arrives = arrives * (np.arange(n_bs) != cohort.serving[:, None])
            disturbance = np.zeros(n)
            for block in range(resource_blocks):
                here = np.flatnonzero(resource == block)
                disturbance[here] = arrives[here].sum(axis=0)[own[here]]
            noise = noise + disturbance / sharing
        sinr = signal / noise
        sinr = np.where(np.isfinite(sinr), sinr, 0.0)
        rate = self.rate_bps(sinr, 1.0) * (self.bandwidth_hz / resource_blocks / sharing)
        return Decoded(sinr, signal / thermal, rate)

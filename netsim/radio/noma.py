r"""Non-orthogonal multiple access: everybody of a group at once, told apart by successive cancellation."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.radio.shared_band import SharedBand, own_signal_w
from netsim.radio.uplink import Channel, Cohort, Payload
from netsim.units import FloatArray, IntArray


class Noma(SharedBand):
    r"""Uplinks of a cell superposed on one band; maximum-ratio combining, then successive cancellation (SIC).

    At base station b with N_a antennas UE k arrives as h_k = sqrt(gain_kb) z_kb. Decoding goes from the strongest
    received power x_k ||h_k||^2 to the weakest; those decoded earlier are subtracted but for a share r::

        gamma_k = x_k ||h_k||^4 / ( sum_later x_j |h_k^H h_j|^2 + r sum_earlier x_j |h_k^H h_j|^2
                                    + sum_other-cells x_j |h_k^H h_jb|^2 + ||h_k||^2 N )

    with r = `sic_residual` (0 cancels wholly, 1 not at all). `interference: none` leaves only N (the literature's
    perfect SIC), `intra` leaves out other cells. For r = 0, one antenna and one cell the sum of log2(1 + gamma)
    is log2(1 + sum x g / N). What was not decoded cannot be cancelled: r is 1 for a UE whose symbol error rate is above
    `max_ser`. A cell with more UEs than `group_size` serves groups one after the other, in order of received power; UEs
    of the same turn in other cells interfere. A group waits for those of the groups before it who are heard in time.
    """

    kind: Literal["noma"] = "noma"
    sic_residual: float = Field(default=0.0, ge=0, le=1)
    """share of a decoded signal's power that cancellation leaves"""
    group_size: int | None = Field(default=None, ge=1)
    """most UEs superposed at a time; none: all of the cell"""

    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 4-6"
    example: ClassVar[dict[str, Any]] = {"kind": "noma", "norm_bound": 1.0}

    def plan(self, cohort: Cohort, payload: Payload) -> Channel:
        noise = self.band_noise_w()
        sinr, turn = self.sinr(cohort, noise)
        rate = self.bandwidth_hz * self.efficiency(sinr)
        waits = self._waits(cohort, payload, sinr, rate, turn)
        return self.outcome(cohort, payload, sinr, own_signal_w(cohort) / noise, rate, waits)

    def sinr(self, cohort: Cohort, noise_w: float) -> tuple[FloatArray, IntArray]:
        """SINR (n,) of every UE, 0 without a cell, and its turn (n,) in the cell."""
        from netsim.radio.sic import many_antennas, one_antenna  # compiled: the import is dear

        n = len(cohort.ue)
        group, others, least = self.group_size or max(n, 1), self.interference == "all", self.least_sinr()
        if cohort.fading is None or cohort.fading.shape[2] == 1 or self.interference == "none":
            received_w = cohort.power_w[:, None] * cohort.strength
            sinr, turn = one_antenna(received_w, cohort.serving, group, noise_w, self.sic_residual, others, least)
            if self.interference == "none" and n:
                sinr = own_signal_w(cohort) / noise_w
            return sinr, turn
        h = np.sqrt(cohort.gain)[:, :, None] * cohort.fading
        sinr, turn = many_antennas(cohort.power_w, h, cohort.serving, group, noise_w, self.sic_residual, others, least)
        return sinr, turn

    def _waits(
        self, cohort: Cohort, payload: Payload, sinr: FloatArray, rate: FloatArray, turn: IntArray
    ) -> FloatArray:
        """Time (n,) until a UE's group may send."""
        if self.group_size is None:
            return np.zeros(len(turn))
        from netsim.radio.airtime import waits  # compiled: the import is dear

        wait_s: FloatArray = waits(
            sinr,
            rate,
            self.bandwidth_hz * self.efficiency(cohort.downlink_sinr),
            cohort.rows,
            cohort.compute_s,
            cohort.serving,
            turn,
            payload.n_bits,
            min(cohort.limit_s, np.inf if self.deadline_s is None else self.deadline_s),
            self.least_sinr(),
        )
        return wait_s

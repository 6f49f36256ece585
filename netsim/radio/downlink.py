"""The downlink at full load: coupling gain, geometry factor, SINR and rate of every UE."""

from dataclasses import replace
from math import inf, nan

import numpy as np
from pydantic import Field

from netsim.clock import compute_rounding_s
from netsim.columns import frozen
from netsim.part import Part, Share
from netsim.radio.link_budget import RadioLinks
from netsim.radio.rate import DOWNLINK, AdaptedRate
from netsim.units import BoolArray, FloatArray, IntArray, db_from_ratio, ratio_from_db

# k T B at 290 K in one subcarrier of 15 kHz, the bandwidth of RSRP, to 0.1 dB
_THERMAL_DBM = -132.2


class Downlink(AdaptedRate):
    r"""Receiver noise of a UE, and the rate that a downlink SINR gives at full load.

    Noise in one resource element of 15 kHz is -132.2 dBm plus the noise figure. A UE that is given
    the whole band of its cell receives

        rate = B min(a log2(1 + SINR), m)        for SINR >= min_sinr_db, else 0

    with the attenuation a and the limit m of a link adaptation (see `netsim.radio.rate`).
    """

    bandwidth_hz: float = Field(20e6, ge=1e3, le=1e11)
    """bandwidth of a cell, Hz; of a study without learning"""
    noise_figure_db: float = Field(9.0, ge=0, le=40)
    """noise figure of a UE's receiver, dB"""
    attenuation: Share = DOWNLINK.attenuation
    """ratio of the rate to Shannon's bound; of a study without learning"""
    max_bps_per_hz: float = Field(DOWNLINK.max_bps_per_hz, gt=0, le=20)
    """largest spectral efficiency, bit/s/Hz; of a study without learning"""
    min_sinr_db: float = Field(-10.0, ge=-100, le=100)
    """SINR below which nothing is received, dB; of a study without learning"""
    reference = (
        "3GPP TR 36.942, Annex A, Table A.2 (downlink); TR 38.901, Table 7.8-1 (noise figure)"
    )

    @property
    def sets_rates(self) -> bool:
        """Whether anything besides the noise figure is set."""
        return self != Downlink(noise_figure_db=self.noise_figure_db)

    @property
    def noise_dbm(self) -> float:
        """Noise in the bandwidth of RSRP (one resource element of 15 kHz), dBm."""
        return round(_THERMAL_DBM + self.noise_figure_db, 9)

    def rate_bps(self, sinr_db: FloatArray) -> FloatArray:
        """Rate (n,) of a UE that is given the whole band, bit/s, by its SINR (n,) in dB; NaN for an
        absent UE.
        """
        return self.law.rate_bps(ratio_from_db(sinr_db), self.bandwidth_hz)


@frozen
class Reception:
    """Reception of UEs from their serving cells, one entry a UE (n,); NaN for a UE that is absent
    or has no cell.

    rsrp_dbm; gain_db : antenna gain minus path loss plus shadowing and, indoors, minus penetration
    loss; geometry_db : received power over the sum of all other cells', infinite for a single cell;
    sinr_db : the same with noise; rate_bps; los : whether the link is in line of sight.
    """

    rsrp_dbm: FloatArray
    gain_db: FloatArray
    geometry_db: FloatArray
    sinr_db: FloatArray
    rate_bps: FloatArray
    los: BoolArray


def receive_broadcast(links: RadioLinks, serving: IntArray, downlink: Downlink) -> Reception:
    r"""Reception of every UE from the cell serving (n,), -1 for none, while all cells send at full
    power::

        gain = G_s,   geometry = P_s / sum_{j != s} P_j,   SINR = P_s / (sum_{j != s} P_j + N)

    as in the calibration of 3GPP TR 38.901, Section 7.8.1: G_s is the gain of path loss, shadowing,
    penetration and antennas of the serving cell, P_j the received power of cell j and N the noise,
    both in the bandwidth of RSRP.
    """
    has = serving >= 0
    serving_pair = (np.arange(len(serving)), np.maximum(serving, 0))

    def pick_serving(values: FloatArray) -> FloatArray:
        return np.where(has, values[serving_pair], nan)

    geometry, sinr = (
        np.where(has, links.compute_sinr(noise_dbm, serving_pair), nan)
        for noise_dbm in (-inf, downlink.noise_dbm)
    )
    sinr_db = db_from_ratio(sinr)
    return Reception(
        rsrp_dbm=pick_serving(links.rsrp_dbm),
        gain_db=db_from_ratio(pick_serving(links.gain)),
        geometry_db=db_from_ratio(geometry),
        sinr_db=sinr_db,
        rate_bps=downlink.rate_bps(sinr_db),
        los=has & links.los[serving_pair],
    )


@frozen
class Attachment:
    """serving (n_ue,): cell of each UE, -1 for none; since_s (n_ue, n_bs): time since which each
    cell has been stronger than the serving one by the margin, infinite if it is not.
    """

    serving: IntArray
    since_s: FloatArray


class Handover(Part):
    """A UE is handed over when a neighbour cell has been stronger by a margin for some time (event
    A3).

    RSRP_neighbour > RSRP_serving + hysteresis_db must hold throughout time_to_trigger_s, with a
    separate timer for each neighbour. Of the neighbours whose timer has expired the strongest is
    taken. The condition is evaluated once a tick, so a time to trigger below the tick length means
    the next tick. A UE that appears, or that no longer receives its cell, attaches to the strongest
    cell at once. Source: 3GPP TS 38.331, Sections 5.5.4.1 and 5.5.4.4, without layer-3 filtering
    and offsets.
    """

    hysteresis_db: float = Field(3.0, ge=0, le=30)
    """margin by which the neighbour cell must be stronger, dB"""
    time_to_trigger_s: float = Field(0.16, ge=0, le=1e5)
    """time for which the neighbour cell must be stronger, s"""

    @staticmethod
    def start(n_ue: int, n_bs: int) -> Attachment:
        """No UE is attached."""
        return Attachment(np.full(n_ue, -1), np.full((n_ue, n_bs), inf))

    @staticmethod
    def attach(state: Attachment, ue: IntArray, rsrp_dbm: FloatArray) -> Attachment:
        """The next state: UEs (n,) without a cell attach to the strongest by rsrp_dbm (n, n_bs)."""
        new = state.serving[ue] < 0
        serving = state.serving.copy()
        serving[ue[new]] = np.argmax(rsrp_dbm[new], axis=1)
        return replace(state, serving=serving)

    def step(
        self, state: Attachment, rsrp_dbm: FloatArray, time_s: float
    ) -> tuple[Attachment, BoolArray]:
        """The next state from the current RSRP (n_ue, n_bs), and which UEs were handed over
        (n_ue,).

        First attachments and detachments do not count as handovers.
        """
        present = np.all(np.isfinite(rsrp_dbm), axis=1)
        rsrp = np.where(present[:, None], rsrp_dbm, -inf)
        serving = state.serving
        attached = present & (serving >= 0)
        serving_dbm = np.where(attached, rsrp[np.arange(len(rsrp)), np.maximum(serving, 0)], inf)
        is_stronger = rsrp > serving_dbm[:, None] + self.hysteresis_db
        since = np.where(is_stronger, np.minimum(state.since_s, time_s), inf)
        span_s = self.time_to_trigger_s
        ready = since <= time_s - span_s + compute_rounding_s(span_s, time_s)
        moved = np.any(ready, axis=1)
        target = np.argmax(np.where(ready, rsrp, -inf), axis=1)
        serving = np.where(moved, target, np.where(serving < 0, np.argmax(rsrp, axis=1), serving))
        since[moved] = inf  # after a handover all timers of the UE restart
        return Attachment(np.where(present, serving, -1), since), moved

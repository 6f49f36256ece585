"""What a UE receives of its serving cell: coupling gain, geometry factor and downlink SINR at full load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.radio.links import Links
from netsim.units import FloatArray, IntArray, db_from_ratio, w_from_dbm


@dataclass(frozen=True, eq=False)
class ServingCell:
    """gain_db, geometry_db, sinr_db (n,); NaN for a UE that is absent or has no cell."""

    gain_db: FloatArray
    geometry_db: FloatArray
    sinr_db: FloatArray


def serving_cell(links: Links, noise_dbm: float, serving: IntArray | None = None) -> ServingCell:
    r"""Gain, geometry and SINR of the serving cell, as in the calibration of 3GPP TR 38.901, Section 7.8.1::

        gain = G_s,   geometry = P_s / (sum_j P_j - P_s),   SINR = P_s / (sum_j P_j - P_s + N)

    G_s is the gain of path loss, shadowing, penetration and antennas of the serving cell, P_j the received power of
    cell j and N the noise, both in the bandwidth of RSRP (one resource element). With one cell geometry is infinite.
    serving (n,) is -1 for a UE without a cell; None: every UE is served by its strongest cell.
    """
    if not links.gain.shape[1]:
        nothing = np.full(len(links.gain), np.nan)
        return ServingCell(nothing, nothing, nothing)
    serving = links.serving if serving is None else serving
    row, column = np.arange(len(links.gain)), np.maximum(serving, 0)
    own = np.where(serving >= 0, links.received_w[row, column], np.nan)
    others = links.received_w.copy()
    others[row, column] = 0.0  # a difference of sums would lose weak interference
    rest = others.sum(axis=1)
    with np.errstate(divide="ignore"):
        geometry = own / rest
    gain_db = db_from_ratio(np.where(serving >= 0, links.gain[row, column], np.nan))
    return ServingCell(gain_db, db_from_ratio(geometry), db_from_ratio(own / (rest + w_from_dbm(noise_dbm))))

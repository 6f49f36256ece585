"""The link budget: received power of every base station at any place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.radio.base import PathLoss, ShadowField
from netsim.radio.links import Links
from netsim.units import FloatArray, ratio_from_db

RSRP_RANGE_DBM = (-140.0, -44.0)  # what a UE reports, 3GPP TS 36.133 Table 9.1.4-1


@dataclass(frozen=True)
class Budget:
    """Law of place: at_m (n_bs, 2), height_m, power_dbm (n_bs,), and the laws of loss."""

    at_m: FloatArray
    height_m: FloatArray
    power_dbm: FloatArray
    ue_height_m: float
    carrier_hz: float
    path_loss: PathLoss
    shadow: ShadowField

    def distance_m(self, position_m: FloatArray) -> FloatArray:
        """Three-dimensional distance (n, n_bs) from positions (n, 2)."""
        flat = position_m[:, None, :] - self.at_m[None]
        return np.asarray(np.sqrt((flat**2).sum(axis=-1) + (self.height_m - self.ue_height_m) ** 2))

    def rsrp_dbm(self, position_m: FloatArray) -> FloatArray:
        """Mean received reference-signal power (n, n_bs), without small-scale fading or clipping."""
        loss = self.path_loss.loss_db(self.distance_m(position_m), self.carrier_hz)
        return np.asarray(self.power_dbm - loss + self.shadow(position_m))

    def links(self, time_s: float, position_m: FloatArray) -> Links:
        """The snapshot of all pairs."""
        rsrp = self.rsrp_dbm(position_m)
        gain = ratio_from_db(rsrp - self.power_dbm)
        return Links(time_s, self.distance_m(position_m), gain, rsrp)

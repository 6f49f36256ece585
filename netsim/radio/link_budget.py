"""The link budget: received power of every base station at any place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from netsim.radio.antenna import sector_gain_db
from netsim.radio.base import Pairs, PathLoss, ShadowField
from netsim.radio.line_of_sight import SightLaw
from netsim.radio.links import Links
from netsim.units import BoolArray, FloatArray, ratio_from_db, w_from_dbm

RSRP_RANGE_DBM = (-140.0, -44.0)  # what a UE reports, 3GPP TS 36.133 Table 9.1.4-1


@dataclass(frozen=True)
class Budget:
    """Base stations at_m (n_bs, 2), height_m, power_dbm, azimuth_deg (n_bs,) (NaN: no sector), and the laws of loss.

    nlos_factor, far_factor: ratio of the deviation of shadowing to that of the drawn field, without line of sight, and
    in line of sight where the law's `is_far`.
    """

    at_m: FloatArray
    height_m: FloatArray
    power_dbm: FloatArray
    azimuth_deg: FloatArray
    ue_height_m: float
    carrier_hz: float
    path_loss: PathLoss
    sight: SightLaw
    shadow: ShadowField
    nlos_factor: float = 1.0
    far_factor: float = 1.0

    def pairs(self, position_m: FloatArray) -> Pairs:
        """The geometry of all links from positions (n, 2), line of sight included."""
        pairs = self._distances(position_m)
        los = self.sight(pairs, position_m)
        return Pairs(pairs.distance_2d_m, pairs.distance_3d_m, pairs.ue_height_m, pairs.bs_height_m, los)

    def _distances(self, position_m: FloatArray) -> Pairs:
        """The geometry of all links without line of sight."""
        square = position_m[:, 0, None] - self.at_m[:, 0]
        north = position_m[:, 1, None] - self.at_m[:, 1]
        square *= square  # in place: new arrays of this size are what a tick spends its time on
        north *= north
        square += north
        flat = np.sqrt(square, out=north)
        rise = self.height_m - self.ue_height_m
        square += rise * rise
        return Pairs(flat, np.sqrt(square, out=square), self.ue_height_m, self.height_m)

    @cached_property
    def _sectors(self) -> bool:
        return not np.isnan(self.azimuth_deg).all()

    def gain_db(self, position_m: FloatArray, pairs: Pairs) -> FloatArray:
        """Power gain of all links (n, n_bs) in dB: antenna, path loss and shadowing; no small-scale fading."""
        shadow, loss = self.shadow(position_m), self.path_loss.loss_db(pairs, self.carrier_hz)
        if self._varies and pairs.los is not None:
            gain = self._deviation(pairs, pairs.los)
            gain *= shadow
            gain -= loss
        else:
            gain = shadow - loss
        if self._sectors:
            offset = position_m[:, None, :] - self.at_m[None]
            gain = gain + sector_gain_db(offset, self.height_m - self.ue_height_m, self.azimuth_deg)
        return np.asarray(gain)

    @property
    def _varies(self) -> bool:
        return self.nlos_factor != 1.0 or self.far_factor != 1.0

    def _deviation(self, pairs: Pairs, los: BoolArray) -> FloatArray:
        """Ratio of the deviation of shadowing (n, n_bs) to that of the drawn field."""
        if self.far_factor == 1.0:
            return np.where(los, 1.0, self.nlos_factor)
        seen = np.where(self.path_loss.is_far(pairs, self.carrier_hz), self.far_factor, 1.0)
        return np.where(los, seen, self.nlos_factor)

    def rsrp_dbm(self, position_m: FloatArray) -> FloatArray:
        """Mean received reference-signal power (n, n_bs), without small-scale fading or clipping."""
        # rays past buildings are expensive: they are left out where no law asks for them
        looks = self.path_loss.needs_sight or self._varies
        pairs = self.pairs(position_m) if looks else self._distances(position_m)
        return self.power_dbm + self.gain_db(position_m, pairs)

    def links(self, time_s: float, position_m: FloatArray) -> Links:
        """The `Links` of all pairs at a time."""
        pairs = self.pairs(position_m)
        gain_db = self.gain_db(position_m, pairs)
        los = pairs.los if pairs.los is not None else np.ones(gain_db.shape, dtype=bool)
        gain = ratio_from_db(gain_db)
        received_w = gain * w_from_dbm(self.power_dbm)
        return Links(time_s, pairs.distance_3d_m, gain, self.power_dbm + gain_db, los, received_w)

r"""The antenna slot: patterns of base station antennas with an azimuth, after 3GPP TR 38.901,
Section 7.3.

One element [Table 7.3-1], with theta the zenith angle (90 deg at the horizon) and phi the azimuth
from the boresight::

    A_v = -min(12 ((theta - theta_tilt) / 65 deg)^2, 30),   A_h = -min(12 (phi / 65 deg)^2, 30),
    gain = 8 dBi - min(-(A_v + A_h), 30)
"""

from abc import abstractmethod

import numpy as np
from numpy.linalg import norm
from pydantic import Field

from netsim.columns import divide_or
from netsim.part import OneOf, Part
from netsim.units import FloatArray

MAX_GAIN_DB = 8.0
BEAMWIDTH_DEG = 65.0
FLOOR_DB = 30.0
DOWNTILT_DEG = 10.0
_BELOW_M = 1e-6  # from a mast: what is nearer is a rounding
_MIN = 1e-10  # of the array factor in its nulls, -200 dB


def compute_sector_gain_db(
    offset_m: FloatArray,
    drop_m: FloatArray,
    azimuth_deg: FloatArray,
    downtilt_deg: float = DOWNTILT_DEG,
) -> FloatArray:
    """Gain in dBi (n, n_bs) towards UEs at offset_m (n, n_bs, 2) east and north, drop_m below the
    antenna.

    drop_m (n_bs,) or (n, n_bs). azimuth_deg (n_bs,) is clockwise from north; NaN is an isotropic
    antenna, 0 dB. The element points downtilt_deg below the horizon. Directly below an antenna,
    where there is no bearing, phi is 0: all sectors of a mast are equal.
    """
    flat_m = norm(offset_m, axis=-1)
    bearing = np.degrees(np.arctan2(offset_m[..., 0], offset_m[..., 1]))
    phi = (bearing - azimuth_deg + 180.0) % 360.0 - 180.0
    below = np.degrees(np.arctan2(drop_m, flat_m))
    vertical = np.minimum(12.0 * ((below - downtilt_deg) / BEAMWIDTH_DEG) ** 2, FLOOR_DB)
    horizontal = np.minimum(12.0 * (phi / BEAMWIDTH_DEG) ** 2, FLOOR_DB)
    horizontal[flat_m < _BELOW_M] = 0.0
    gain = MAX_GAIN_DB - np.minimum(vertical + horizontal, FLOOR_DB)
    return np.where(np.isnan(azimuth_deg), 0.0, gain)


class Antenna(Part):
    """The pattern of an antenna with an azimuth; an antenna without one is isotropic."""

    kind: str = ""

    @abstractmethod
    def gain_db(
        self, offset_m: FloatArray, drop_m: FloatArray, azimuth_deg: FloatArray
    ) -> FloatArray:
        """Gain in dBi (n, k) of k antennas; arguments as those of `compute_sector_gain_db`."""


class Sector(Antenna, kind="sector"):
    """One element whose pattern points below the horizon, 8 dBi.

    The tilt is electrical: it shifts the pattern along the zenith angle at all azimuths alike, and
    does not turn the antenna. An antenna that is turned by its mount differs by some dB beside and
    behind it.
    """

    tilt_deg: float = Field(DOWNTILT_DEG, ge=-45, le=45)
    """electrical tilt below the horizon, degrees"""
    reference = "3GPP TR 38.901 V17.0.0, Table 7.3-1 (one element)"

    def gain_db(
        self, offset_m: FloatArray, drop_m: FloatArray, azimuth_deg: FloatArray
    ) -> FloatArray:
        return compute_sector_gain_db(offset_m, drop_m, azimuth_deg, self.tilt_deg)


class ColumnAntenna(Antenna, kind="column"):
    r"""A vertical column of M elements that look at the horizon, with electrical tilt by array
    weights::

        gain = A(theta, phi) + 20 log10 |M^-1/2 sum_{m<M} exp(j 2 pi m s (cos theta - cos theta_t))|

    A is the gain of an element at downtilt 0, s the spacing in wavelengths, theta_t = 90 deg +
    tilt_deg.
    """

    elements: int = Field(10, ge=1, le=64)
    """number of elements M"""
    spacing: float = Field(0.5, gt=0, le=2)
    """distance between elements, wavelengths"""
    tilt_deg: float = Field(12.0, ge=-45, le=45)
    """electrical tilt below the horizon, degrees"""
    reference = "3GPP TR 38.901 V17.0.0, Section 7.3 and Table 7.8-1 (10 elements, 102 deg zenith)"

    def gain_db(
        self, offset_m: FloatArray, drop_m: FloatArray, azimuth_deg: FloatArray
    ) -> FloatArray:
        element_db = compute_sector_gain_db(offset_m, drop_m, azimuth_deg, 0.0)
        away_m = np.hypot(norm(offset_m, axis=-1), drop_m)
        cosine = -divide_or(drop_m, away_m, 0.0)
        tilt = np.sin(np.radians(self.tilt_deg))
        phase = 2.0 * np.pi * self.spacing * (cosine + tilt)
        array_db = 20.0 * np.log10(np.maximum(self._compute_array_factor(phase), _MIN))
        return np.where(np.isnan(azimuth_deg), 0.0, element_db + array_db)

    def _compute_array_factor(self, phase: FloatArray) -> FloatArray:
        """|M^-1/2 sum_{m<M} exp(j m phase)| = |sin(M phase / 2) / sin(phase / 2)| / sqrt(M)."""
        half = np.sin(phase / 2.0)
        peak = np.abs(half) < 1e-9
        whole = np.sin(self.elements * phase / 2.0)
        ratio = whole / np.where(peak, 1.0, half)
        amplitude = np.where(peak, self.elements, np.abs(ratio))
        return amplitude / np.sqrt(self.elements)


ANTENNAS = OneOf("antenna", Sector, ColumnAntenna)

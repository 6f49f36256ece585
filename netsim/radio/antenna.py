r"""The sector antenna of 3GPP TR 38.901, Table 7.3-1 (one element): pattern of a three-sector site.

    A_v = -min(12 ((theta - theta_tilt) / 65 deg)^2, 30),   A_h = -min(12 (phi / 65 deg)^2, 30),
    gain = 8 dBi - min(-(A_v + A_h), 30)

theta is the zenith angle (90 deg at the horizon), phi the azimuth from the boresight.
"""

from __future__ import annotations

import numpy as np

from netsim.units import FloatArray

MAX_GAIN_DB = 8.0
BEAMWIDTH_DEG = 65.0
FLOOR_DB = 30.0
DOWNTILT_DEG = 10.0


def sector_gain_db(offset_m: FloatArray, drop_m: FloatArray, azimuth_deg: FloatArray) -> FloatArray:
    """Gain in dBi (n, n_bs) towards UEs at offset_m (n, n_bs, 2) east and north, drop_m (n_bs,) below the antenna.

    azimuth_deg (n_bs,) is clockwise from north; NaN is an isotropic antenna, 0 dB. The beam points 10 degrees below
    the horizon.
    """
    bearing = np.degrees(np.arctan2(offset_m[..., 0], offset_m[..., 1]))
    phi = (bearing - azimuth_deg + 180.0) % 360.0 - 180.0
    below = np.degrees(np.arctan2(drop_m, np.linalg.norm(offset_m, axis=-1)))
    vertical = np.minimum(12.0 * ((below - DOWNTILT_DEG) / BEAMWIDTH_DEG) ** 2, FLOOR_DB)
    horizontal = np.minimum(12.0 * (phi / BEAMWIDTH_DEG) ** 2, FLOOR_DB)
    gain = MAX_GAIN_DB - np.minimum(vertical + horizontal, FLOOR_DB)
    return np.where(np.isnan(azimuth_deg), 0.0, gain)

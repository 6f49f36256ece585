"""Positions and links of UEs when they are asked."""

from __future__ import annotations

from netsim.columns import Columns, frozen
from netsim.radio.uplink import Cohort
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class UploadContext(Columns):
    """Positions and links of UEs (n,) when they were asked: position_m (n, 2), serving (-1: none), distance_m and
    rsrp_dbm of their base stations, NaN without one.
    """

    position_m: FloatArray
    serving: IntArray
    distance_m: FloatArray
    rsrp_dbm: FloatArray


@frozen
class Overheard:
    """The links of UEs to an eavesdropper's antenna when they were asked: its cohort; distance_m, los (one a UE)."""

    cohort: Cohort
    distance_m: FloatArray
    los: BoolArray

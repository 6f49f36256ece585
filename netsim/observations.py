"""Measurements of UEs: fixes (place and time), and observations (RSRP of a cell at a fix)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from netsim.columns import Columns, no_ints, no_places
from netsim.units import FloatArray, IntArray


class _OfUes(Columns):
    """Columns with the UE of each row."""

    ue: IntArray

    def __len__(self) -> int:
        return len(self.ue)


@dataclass(frozen=True, eq=False)
class Fixes(_OfUes):
    """Places and times at which UEs measure.

    ue (n,), time_s (n,), position_m (n, 2) is the position as the UE knows it (GPS noise included). A
    replayed trace may bring its own rsrp_dbm (n,) and cell (n,); otherwise they are None and the radio
    supplies them.
    """

    ue: IntArray
    time_s: FloatArray
    position_m: FloatArray
    rsrp_dbm: FloatArray | None = None
    cell: IntArray | None = None

    @staticmethod
    @cache
    def none() -> Fixes:
        """No fix."""
        return Fixes(no_ints(), np.zeros(0), no_places())


@dataclass(frozen=True, eq=False)
class Observations(_OfUes):
    """One row a measured signal: ue (n,), time_s (n,), position_m (n, 2), cell (n,), rsrp_dbm (n,)."""

    ue: IntArray
    time_s: FloatArray
    position_m: FloatArray
    cell: IntArray
    rsrp_dbm: FloatArray

    @classmethod
    def none(cls) -> Observations:
        """No observation."""
        return cls(no_ints(), np.zeros(0), no_places(), no_ints(), np.zeros(0))

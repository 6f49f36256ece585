"""Places and times as whole numbers, small enough for a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from netsim.units import FloatArray, IntArray

Numbers = NDArray[Any]
"""integers without a sign"""
NOWHERE = 65_535
"""in place of a coordinate or an index that does not exist"""
FAR = 0.5  # what lies farther outside than this share of the area's longer side is not drawn
BEYOND_M = 1e9  # beyond every map: numbers of damaged tables are cut off here before they are multiplied


@dataclass(frozen=True)
class Grid:
    """A square raster over the area and a margin around it; step_m is the side of its cells."""

    west_m: float
    south_m: float
    step_m: float

    @classmethod
    def of(cls, area_m: tuple[float, float, float, float], finest_m: float) -> Self:
        """As fine as 16 bits allow, but not finer than finest_m."""
        west, south, east, north = area_m
        longer_m = max(east - west, north - south, 1.0)
        margin_m = FAR * longer_m
        return cls(west - margin_m, south - margin_m, max(finest_m, (1.0 + 2.0 * FAR) * longer_m / (NOWHERE - 1)))

    def cells(self, at_m: FloatArray) -> tuple[Numbers, Numbers]:
        """Columns and rows (n,) of places (n, 2): NOWHERE for one that is unknown or beyond the raster."""
        number = self._number(at_m)
        inside = np.asarray(((number >= 0) & (number < NOWHERE)).all(axis=1))
        kept = np.where(inside[:, None], number, NOWHERE).astype(np.uint16)
        return kept[:, 0], kept[:, 1]

    def clipped(self, at_m: FloatArray) -> tuple[Numbers, Numbers]:
        """The same for corners of shapes; one beyond the raster moves to its edge."""
        kept = np.clip(np.nan_to_num(self._number(at_m)), 0, NOWHERE - 1).astype(np.uint16)
        return kept[:, 0], kept[:, 1]

    def _number(self, at_m: FloatArray) -> FloatArray:
        """Columns and rows (n, 2), whole; of a place at any distance, without an overflow."""
        return np.round(np.clip(at_m - (self.west_m, self.south_m), -BEYOND_M, BEYOND_M) / self.step_m)

    def said(self) -> dict[str, float]:
        """How the page turns cells into metres."""
        return {"west_m": self.west_m, "south_m": self.south_m, "step_m": self.step_m}


def steps(values: Numbers) -> Numbers:
    """Differences between neighbours, modulo the range of the type: the page adds them up again, exactly."""
    return np.diff(values, prepend=values.dtype.type(0))


def pointers(owner: IntArray, n: int) -> Numbers:
    """Where the rows of each of n owners begin (n + 1,), for sorted owners (k,)."""
    return np.searchsorted(owner, np.arange(n + 1)).astype(np.uint32)

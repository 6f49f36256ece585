"""Rectangles in a local plane: x east, y north, metres."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.linalg import norm

from netsim.errors import BadInput
from netsim.units import BoolArray, FloatArray, FloatPair

if TYPE_CHECKING:
    from shapely import Polygon

_MAX_OUTSIDE_M = 100e3  # an antenna outside of the area


@dataclass(frozen=True)
class Area:
    """An axis-aligned rectangle, in metres."""

    x_min_m: float
    y_min_m: float
    x_max_m: float
    y_max_m: float

    @classmethod
    def from_points(cls, position_m: FloatArray) -> Area:
        """The bounding box of points (n, 2)."""
        return cls(*position_m.min(axis=0).tolist(), *position_m.max(axis=0).tolist())

    def __str__(self) -> str:
        return f"x {self.x_min_m:g} to {self.x_max_m:g} m, y {self.y_min_m:g} to {self.y_max_m:g} m"

    @property
    def low_m(self) -> FloatArray:
        """South-west corner (2,)."""
        return np.array([self.x_min_m, self.y_min_m])

    @property
    def high_m(self) -> FloatArray:
        """North-east corner (2,)."""
        return np.array([self.x_max_m, self.y_max_m])

    @property
    def centre_m(self) -> FloatArray:
        """Centre (2,)."""
        return (self.low_m + self.high_m) / 2

    @property
    def side_m(self) -> FloatArray:
        """Width and height (2,)."""
        return self.high_m - self.low_m

    def to_polygon(self) -> Polygon:
        """The rectangle as a shape."""
        from shapely import box

        return box(*self.low_m, *self.high_m)

    def contains(self, position_m: FloatArray) -> BoolArray:
        """Which of the points (..., 2) lie inside; a NaN lies outside."""
        return np.all((position_m >= self.low_m) & (position_m <= self.high_m), axis=-1)

    def grow(self, by_m: float) -> Area:
        """The area with a margin on every side."""
        return Area(
            self.x_min_m - by_m, self.y_min_m - by_m, self.x_max_m + by_m, self.y_max_m + by_m
        )

    def measure_farthest_corner_m(self, points_m: FloatArray) -> FloatArray:
        """Distance from points (n, 2) to the corner of the area that is farthest from each (n,)."""
        reach = np.maximum(np.abs(points_m - self.low_m), np.abs(points_m - self.high_m))
        return norm(reach, axis=1)

    def sample(self, unit: FloatArray) -> FloatArray:
        """Map uniform numbers (..., 2) in (0, 1) onto the area."""
        return self.low_m + unit * self.side_m


def measure_lengths(vectors: FloatArray) -> FloatArray:
    """Lengths (n,) of vectors (n, 2); (k, n) of (n, k, 2)."""
    return np.hypot(*vectors.T)


def compute_ways(angle_rad: FloatArray) -> FloatArray:
    """Unit vectors (..., 2) at angles (...) from the east, counter-clockwise."""
    return np.stack([np.cos(angle_rad), np.sin(angle_rad)], axis=-1)


def check_near(area: Area, at_m: FloatPair, owner: str) -> None:
    """Raises BadInput where an antenna stands implausibly far from the area."""
    away_m = area.measure_farthest_corner_m(np.array([at_m]))[0]
    max_m = norm(area.side_m) + _MAX_OUTSIDE_M
    if away_m > max_m:
        raise BadInput(
            f"{owner} stands {away_m / 1e3:g} km from the far corner of the area, at most "
            f"{max_m / 1e3:g} km are plausible; give metres in the plane of the area"
        )

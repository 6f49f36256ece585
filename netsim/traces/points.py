"""Places of rows, in the coordinates of their file: degrees on the globe, or metres on a plane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.errors import BadInput
from netsim.traces.order import taken
from netsim.units import BoolArray, FloatArray, IntArray

Box = tuple[float, float, float, float]
_ON_A_SIDE = 33  # points of an outline; straight sides in degrees are curves in the plane
_AT_ONCE = 500_000  # points projected together; bounds the memory, not the result


@dataclass(frozen=True, eq=False)
class Plane:
    """Points (n, 2) in metres east and north, and latitude and longitude of (0, 0), NaN for a local plane."""

    xy_m: FloatArray
    lat_deg: float
    lon_deg: float


class Points(ABC):
    """Rows' places in two columns."""

    names: ClassVar[tuple[str, str]]

    @property
    @abstractmethod
    def columns(self) -> tuple[FloatArray, FloatArray]:
        """The two coordinates (n,), in the order of a box's corners."""

    @abstractmethod
    def at(self, rows: IntArray) -> Points:
        """Some of the points."""

    @abstractmethod
    def plane(self, centre: Plane | None = None) -> Plane:
        """The points in local metres of the plane of others, `centre`; None: of their own, around their median."""

    def outline(self, box: Box) -> Points:
        """Points along the border of a box (low, low, high, high), in the same coordinates and alike on all sides."""
        along = np.linspace(0.0, 1.0, _ON_A_SIDE)
        first = np.concatenate([along, along, 0 * along, 0 * along + 1])
        second = np.concatenate([0 * along, 0 * along + 1, along, along])
        return self._alike(box[0] + first * (box[2] - box[0]), box[1] + second * (box[3] - box[1]))

    @abstractmethod
    def _alike(self, first: FloatArray, second: FloatArray) -> Points:
        """Points in the same coordinates."""

    @abstractmethod
    def extent(self) -> str:
        """The bounding box, for people."""

    def inside(self, box: Box) -> BoolArray:
        """Which points (n,) lie in the box (low, low, high, high)."""
        first, second = self.columns
        return (first >= box[0]) & (first <= box[2]) & (second >= box[1]) & (second <= box[3])

    def _ends(self) -> list[float]:
        return [float(f(column)) for column in self.columns for f in (np.min, np.max)]


@dataclass(frozen=True, eq=False)
class Degrees(Points):
    """Latitude and longitude (n,) on WGS84."""

    lat_deg: FloatArray
    lon_deg: FloatArray

    names: ClassVar[tuple[str, str]] = ("lat", "lon")

    @property
    def columns(self) -> tuple[FloatArray, FloatArray]:
        return self.lat_deg, self.lon_deg

    def at(self, rows: IntArray) -> Degrees:
        return Degrees(taken(self.lat_deg, rows), taken(self.lon_deg, rows))

    def _alike(self, first: FloatArray, second: FloatArray) -> Degrees:
        return Degrees(first, second)

    def plane(self, centre: Plane | None = None) -> Plane:
        """Azimuthal equidistant projection on WGS84 around the centre."""
        from pyproj import Proj  # here, because it is slow to import and seldom needed

        lat_deg, lon_deg = self.lat_deg, self.lon_deg
        if np.ptp(lon_deg) > 180.0:  # the rows straddle the antimeridian
            lon_deg = lon_deg % 360.0
        lat_0, lon_0 = float(np.median(lat_deg)), float(np.median(lon_deg))
        if centre is not None:
            lat_0, lon_0 = centre.lat_deg, centre.lon_deg
        project = Proj(proj="aeqd", lat_0=lat_0, lon_0=lon_0, ellps="WGS84")
        xy_m = np.empty((len(lat_deg), 2))
        for first in range(0, len(xy_m), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            xy_m[some, 0], xy_m[some, 1] = project(lon_deg[some], lat_deg[some])
        return Plane(xy_m, lat_0, (lon_0 + 180.0) % 360.0 - 180.0)

    def extent(self) -> str:
        south, north, west, east = self._ends()
        return f"lat {south:.5f} to {north:.5f}, lon {west:.5f} to {east:.5f}"


@dataclass(frozen=True, eq=False)
class Metres(Points):
    """Metres east and north (n,): of a local plane, or of the projected system `crs` (EPSG:25832)."""

    x_m: FloatArray
    y_m: FloatArray
    crs: str | None = None

    names: ClassVar[tuple[str, str]] = ("x_m", "y_m")

    @property
    def columns(self) -> tuple[FloatArray, FloatArray]:
        return self.x_m, self.y_m

    def at(self, rows: IntArray) -> Metres:
        return Metres(taken(self.x_m, rows), taken(self.y_m, rows), self.crs)

    def _alike(self, first: FloatArray, second: FloatArray) -> Metres:
        return Metres(first, second, self.crs)

    def plane(self, centre: Plane | None = None) -> Plane:
        """Unchanged; those of a projected system go by way of the globe, so that (0, 0) has a place on it."""
        if self.crs is None:
            return Plane(np.column_stack([self.x_m, self.y_m]), float("nan"), float("nan"))
        return self._on_the_globe(self.crs).plane(centre)

    def extent(self) -> str:
        west, east, south, north = self._ends()
        return f"x {west:.1f} to {east:.1f} m, y {south:.1f} to {north:.1f} m"

    def _on_the_globe(self, crs: str) -> Degrees:
        from pyproj import Transformer

        transformer = Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
        lon_deg, lat_deg = np.empty_like(self.x_m), np.empty_like(self.y_m)
        for first in range(0, len(lon_deg), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            lon_deg[some], lat_deg[some] = transformer.transform(self.x_m[some], self.y_m[some])
        if not (np.isfinite(lon_deg).all() and np.isfinite(lat_deg).all()):
            raise BadInput(f"crs: {crs} does not reach all points ({self.extent()}); is it the system of this file?")
        return Degrees(lat_deg, lon_deg)

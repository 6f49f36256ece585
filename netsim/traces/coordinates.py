"""Coordinates of a trace: degrees on the globe, metres of a projected system, or metres of a plane of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.errors import BadInput
from netsim.units import FloatArray

AUTO, LOCAL, GLOBE = "auto", "local", "EPSG:4326"
DEGREES, METRES = ("lat", "lon"), ("x_m", "y_m")
Box = tuple[float, float, float, float]
_ON_A_SIDE = 33  # points of an outline; straight sides in degrees are curves in the plane
_AT_ONCE = 500_000  # points projected together; bounds the memory, not the result


@dataclass(frozen=True, eq=False)
class Plane:
    """Points (n, 2) in metres east and north, and latitude and longitude of (0, 0), NaN for a local plane."""

    xy_m: FloatArray
    lat_deg: float
    lon_deg: float


@dataclass(frozen=True)
class Coordinates:
    """System of places (n, 2): latitude and longitude on WGS84 (`EPSG:4326`), or metres east and north of the projected
    system `crs` (``EPSG:25832``), or of a plane without a place on the globe (None).
    """

    crs: str | None

    @classmethod
    def of(cls, path: str, names: tuple[str, str], crs: str) -> Coordinates:
        """The coordinates of a file that has degrees or metres, where a user asks for `crs`. Raises `BadInput`."""
        if names == DEGREES:
            if crs not in (AUTO, GLOBE):
                raise BadInput(f"{path}: crs: {crs} is metres, but the file has latitude and longitude; use auto")
            return cls(GLOBE)
        if crs == GLOBE:
            raise BadInput(f"{path}: crs: {crs} is degrees, but the file has metres; use local, or a system in metres")
        return cls(None if crs in (AUTO, LOCAL) else crs)

    @property
    def names(self) -> tuple[str, str]:
        """Our names of the two columns, in the order of a box's corners."""
        return DEGREES if self.crs == GLOBE else METRES

    def plane(self, place: FloatArray, centre: Plane | None = None) -> Plane:
        """The places in local metres: an azimuthal equidistant projection on WGS84 around their median, or around the
        centre of another plane. Metres of a local plane are not changed.
        """
        from pyproj import Proj  # here, because it is slow to import and seldom needed

        if self.crs is None:
            return Plane(place, float("nan"), float("nan"))
        lat_deg, lon_deg = self._degrees(place)
        if np.ptp(lon_deg) > 180.0:  # the rows straddle the antimeridian
            lon_deg = lon_deg % 360.0
        if centre is None:
            centre = Plane(place, float(np.median(lat_deg)), float(np.median(lon_deg)))
        project = Proj(proj="aeqd", lat_0=centre.lat_deg, lon_0=centre.lon_deg, ellps="WGS84")
        xy_m = np.empty((len(lat_deg), 2))
        for first in range(0, len(xy_m), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            xy_m[some, 0], xy_m[some, 1] = project(lon_deg[some], lat_deg[some])
        return Plane(xy_m, centre.lat_deg, (centre.lon_deg + 180.0) % 360.0 - 180.0)

    def extent(self, place: FloatArray) -> str:
        """The bounding box, for people."""
        (first, second), (first_end, second_end) = place.min(axis=0), place.max(axis=0)
        if self.crs == GLOBE:
            return f"lat {first:.5f} to {first_end:.5f}, lon {second:.5f} to {second_end:.5f}"
        return f"x {first:.1f} to {first_end:.1f} m, y {second:.1f} to {second_end:.1f} m"

    def _degrees(self, place: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Latitude and longitude (n,)."""
        from pyproj import Transformer

        if self.crs == GLOBE:
            return place[:, 0], place[:, 1]
        transformer = Transformer.from_crs(self.crs, GLOBE, always_xy=True)
        lon_deg, lat_deg = np.empty(len(place)), np.empty(len(place))
        for first in range(0, len(place), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            lon_deg[some], lat_deg[some] = transformer.transform(place[some, 0], place[some, 1])
        if not (np.isfinite(lon_deg).all() and np.isfinite(lat_deg).all()):
            reach = self.extent(place)
            raise BadInput(f"crs: {self.crs} does not reach all points ({reach}); is it the system of this file?")
        return lat_deg, lon_deg


def check_crs(path: str, crs: str) -> None:
    """Raises `BadInput` unless `crs` is auto, local, EPSG:4326 or the code of a projected system in metres."""
    if crs in (AUTO, LOCAL, GLOBE):
        return
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    remedy = "use auto, local, EPSG:4326 for degrees, or a projected system in metres such as EPSG:25832"
    word, _, code = crs.partition(":")
    try:
        system = CRS.from_epsg(int(code) if word.upper() == "EPSG" else -1)
    except (CRSError, ValueError):
        raise BadInput(f"{path}: crs: {crs!r} is no known EPSG code; {remedy}") from None
    if not system.is_projected or any(axis.unit_name != "metre" for axis in system.axis_info):
        raise BadInput(f"{path}: crs: {crs!r} is {system.name}, not a projected system in metres; {remedy}")


def outline(box: Box) -> FloatArray:
    """Points (132, 2) along the border of a box (low, low, high, high), alike on all sides."""
    low, high = np.array(box[:2]), np.array(box[2:])
    along = np.linspace(0.0, 1.0, _ON_A_SIDE)
    first = np.concatenate([along, along, 0 * along, 0 * along + 1])
    second = np.concatenate([0 * along, 0 * along + 1, along, along])
    return np.asarray(low + np.column_stack([first, second]) * (high - low))


def look_like_degrees(x: FloatArray, y: FloatArray) -> bool:
    """Whether x and y may be longitude and latitude."""
    return bool(np.all(np.abs(x) <= 180.0) and np.all(np.abs(y) <= 90.0))

"""A real city: footprints and heights from a GeoJSON file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, Strict

from netsim.city.base import City
from netsim.city.buildings import Buildings
from netsim.city.geojson import Plane, on_plane, read_outlines
from netsim.geometry import Area
from netsim.rng import Streams

Latitude = Annotated[float, Field(ge=-90, le=90)]
Longitude = Annotated[float, Field(ge=-180, le=180)]


class Footprints(City):
    """Buildings from a FeatureCollection of Polygons and MultiPolygons, holes being courtyards.

    Local metres are taken as they are. Longitude and latitude (WGS84) are projected, azimuthal equidistant
    about the middle of the footprints, which becomes (0, 0); `origin_deg` moves it, say to that of a trace.
    `auto` takes coordinates that span less than one unit both ways for degrees: no city is so wide, and none so
    small in metres. The area is the bounding box of the footprints, grown by `margin_m`.
    """

    reference: ClassVar[str] = "GeoJSON, RFC 7946"
    example: ClassVar[dict[str, Any]] = {"kind": "footprints", "file": "city.geojson"}
    offers: ClassVar[frozenset[str]] = frozenset({"buildings"})

    kind: Literal["footprints"] = "footprints"
    file: str = Field(min_length=1)
    """path of a GeoJSON file, at most 50 MB"""
    crs: Plane = "auto"
    """what its coordinates are: metres on a local plane, or longitude and latitude in degrees"""
    height_property: str = Field(default="height_m", min_length=1)
    """the property that holds a building's height above ground in m"""
    default_height_m: float | None = Field(default=None, ge=0, le=10_000)
    """height of buildings without one; none: they are refused"""
    margin_m: float = Field(default=10.0, ge=0, le=1e5)
    """width of the open ground around the footprints"""
    origin_deg: Annotated[tuple[Latitude, Longitude], Strict(False)] | None = None
    """latitude and longitude of (0, 0), for a file in degrees; none: the middle of the footprints"""
    repair: bool = False
    """mend polygons that cross themselves or whose holes lie outside, instead of refusing them"""

    def area(self, trace_area: Area | None) -> Area:
        area = self._read()[1]
        return Area(
            area.x_min_m - self.margin_m,
            area.y_min_m - self.margin_m,
            area.x_max_m + self.margin_m,
            area.y_max_m + self.margin_m,
        )

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        return self._read()[0]

    def origin(self) -> tuple[float, float] | None:
        """Latitude and longitude of (0, 0); None for a file in local metres, which does not say."""
        return self._read()[2]

    def _read(self) -> _City:
        """Buildings, their bounding box, and the origin; the latest are kept until the file changes."""
        try:
            stat = Path(self.file).stat()
            version = (stat.st_mtime_ns, stat.st_size)
        except OSError:
            version = (0, 0)  # reading it will say what is wrong
        key = f"{self.model_dump_json()} {version}"
        if _latest.get("city", ("", None))[0] != key:
            outlines = read_outlines(self.file, self.height_property, self.default_height_m, self.repair)
            footprint, origin_deg = on_plane(self.file, outlines, self.crs, self.origin_deg)
            from shapely import bounds

            corner_m = bounds(footprint).reshape(-1, 2)
            city = Buildings(footprint, np.asarray(outlines.height_m)), Area.around(corner_m), origin_deg
            _latest["city"] = (key, city)
        return _latest["city"][1]


_City = tuple[Buildings, Area, tuple[float, float] | None]
_latest: dict[str, tuple[str, _City]] = {}  # one city, so that area and buildings read a file once

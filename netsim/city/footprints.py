"""A real city: footprints and heights from a GeoJSON file."""

from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from pydantic import Field, Strict, field_validator

from netsim.city.base import City
from netsim.city.buildings import Buildings
from netsim.city.outlines import Outlines, read_outlines
from netsim.geometry import Area
from netsim.maps.plane import SYSTEMS, known_crs
from netsim.part import FILE_NAME
from netsim.rng import Streams
from netsim.safe import file_version
from netsim.streets.files import Streets, read_streets
from netsim.streets.graph import StreetGraph

Latitude = Annotated[float, Field(ge=-90, le=90)]
Longitude = Annotated[float, Field(ge=-180, le=180)]


class Footprints(City):
    """Buildings from a FeatureCollection of Polygons and MultiPolygons, holes being courtyards.

    Local metres are used unchanged. Longitude and latitude (WGS84) are projected with the azimuthal equidistant
    projection about the centre of the footprints, which becomes (0, 0); `origin_deg` sets another origin, such as that
    of a trace. Other systems, such as UTM, are first converted to longitude and latitude. With `auto` the file's member
    `crs` decides; without one, coordinates that span less than one unit on both axes are taken as degrees, because a
    city is neither that wide in degrees nor that small in metres, and so are those of which most sides are shorter
    than 0.01 units. The area is the bounding box of the footprints,
    extended by `margin_m`.

    Exports of OpenStreetMap can be read unchanged: heights in m or feet, with or without a unit; 3 m per level where
    there is no height. Points, lines, features without a geometry and features that are not buildings are left out and
    counted in a note.

    With `streets` the city has a street graph. Streets are projected around the same origin as the footprints and cut
    at the border of the area.
    """

    reference: ClassVar = "GeoJSON, RFC 7946"
    example: ClassVar = {"kind": "footprints", "file": "city.geojson"}
    kind: Literal["footprints"] = "footprints"
    file: Annotated[str, FILE_NAME] = Field(min_length=1)
    """path of a GeoJSON file, at most 50 MB"""
    crs: str = "auto"
    """coordinate system: local-metres, lonlat (degrees), or a name such as EPSG:32632; auto: as the file states"""
    height_property: str = Field(default="height_m", min_length=1)
    """property that holds a building's height above ground in m; if it is missing, the properties height,
    building:height, building:levels and levels are used"""
    default_height_m: float | None = Field(default=None, ge=0, le=10_000)
    """height of buildings with none of these above 0, m; their number is said; none: such a file is refused"""
    margin_m: float = Field(default=10.0, ge=0, le=1e5)
    """width of the open ground around the footprints, m"""
    origin_deg: Annotated[tuple[Latitude, Longitude], Strict(False)] | None = None
    """latitude and longitude of (0, 0), for a file in degrees; none: the centre of the footprints"""
    repair: bool = False
    """repair polygons that cross themselves or have holes outside their outline, instead of refusing them"""

    streets: Annotated[str, FILE_NAME] | None = Field(default=None, min_length=1)
    """path of a file of streets: GeoJSON lines with OpenStreetMap's property highway, at most 50 MB (it may be the same
    file), or a SUMO network (.net.xml, .net.xml.gz); none: the city has no streets"""

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """Buildings, and streets where a file of them is given."""
        return frozenset({"buildings"} if self.streets is None else {"buildings", "streets"})

    @field_validator("crs")
    @classmethod
    def _known(cls, text: str) -> str:
        known = known_crs(text)
        if known is None:
            raise ValueError(f"{text[:40]!r} is none of auto, {SYSTEMS}")
        return known

    def area(self, trace_area: Area | None) -> Area:
        area = self._read()[1]
        return Area(
            area.x_min_m - self.margin_m,
            area.y_min_m - self.margin_m,
            area.x_max_m + self.margin_m,
            area.y_max_m + self.margin_m,
        )

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        return self._read()[2]

    def origin(self) -> tuple[float, float] | None:
        return self._read()[0].origin_deg

    def street_graph(self, area: Area, streams: Streams) -> StreetGraph | None:
        streets = self._read_streets()
        return None if streets is None else streets.graph

    def notes(self) -> tuple[str, ...]:
        streets = self._read_streets()
        lines_are_streets = streets is not None and self.streets == self.file
        notes = self._read()[0].notes(self.file, lines_are_streets)
        return notes if streets is None else (*notes, *streets.notes)

    def _read(self) -> "_City":
        """Outlines, bounding box and buildings of the file; the latest result is cached until the file changes."""
        how = (self.height_property, self.default_height_m, self.crs, self.origin_deg, self.repair)
        return _read_version(self.file, *how, file_version(self.file))

    def _read_streets(self) -> Streets | None:
        """The streets in the area; the latest result is cached until the file changes."""
        if self.streets is None:
            return None
        return _read_streets_version(self.streets, self.crs, self.origin(), self.area(None), file_version(self.streets))


_City = tuple[Outlines, Area, Buildings]


@lru_cache(maxsize=1)  # one city, so that area and buildings read a file once
def _read_version(
    file: str,
    height_property: str,
    default_height_m: float,
    crs: str,
    origin_deg: tuple[float, float] | None,
    repair: bool,
    version: tuple[int, int],
) -> "_City":
    """The city of a file; `version` distinguishes a changed file from the cached one."""
    from shapely import bounds

    outlines = read_outlines(file, height_property, default_height_m, crs, origin_deg, repair)
    corner_m = bounds(outlines.footprint).reshape(-1, 2)
    return outlines, Area.around(corner_m), Buildings(outlines.footprint, outlines.height_m)


@lru_cache(maxsize=1)
def _read_streets_version(
    file: str, crs: str, origin_deg: tuple[float, float] | None, area: Area, version: tuple[int, int]
) -> Streets:
    """The streets of a file in an area; `version` distinguishes a changed file from the cached one."""
    return read_streets(file, crs, origin_deg, area)

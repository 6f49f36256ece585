"""A real city: footprints and heights from a GeoJSON file."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from netsim.city.base import City, OriginDeg
from netsim.city.buildings import Buildings
from netsim.city.overlaps import separate_footprints
from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.maps import (
    SYSTEMS,
    Features,
    Shapes,
    is_absent,
    normalise_crs,
    project_corners,
    read_features,
    shorten_value,
)
from netsim.notice import Notice, Notices, notice
from netsim.part import FileName
from netsim.rng import Streams
from netsim.safe import read_file_version
from netsim.streets.assembly import SNAP_M, assemble_streets
from netsim.streets.graph import StreetGraph
from netsim.streets.osm import read_osm
from netsim.streets.sumo import NetLocation, read_sumo
from netsim.ues import STOREY_M
from netsim.units import FloatArray, IntArray, IntPair, LatLon

_HIGHEST_M = 1e4
_FOOT_M = 0.3048
_MAX_LENGTH = 30  # characters of a height
_NETWORKS = (".xml", ".xml.gz")
_TALLEST_M = 1e3  # of all that was built
_UNTAGGED = "without a tag building"
_GONE = "demolished, in ruins, or not yet built"
_STATES = frozenset(
    (
        "demolished",
        "razed",
        "removed",
        "destroyed",
        "dismantled",
        "ruins",
        "abandoned",
        "proposed",
        "planned",
        "construction",
    )
)
_OPEN_BELOW = frozenset(("roof", "bridge", "carport", "canopy"))
_BASES = {"min_height": 1.0, "building:min_height": 1.0, "building:min_level": STOREY_M}
_LEVELS = ("building:levels", "levels")
_NUMBER = r"(\d+(?:[.,]\d+)?)"
_AMBIGUOUS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}(?!\d)")  # 1,250: a decimal comma, or thousands
_METRES = re.compile(rf"([+-]?{_NUMBER})\s*(?:m|met(?:er|re)s?)?", re.IGNORECASE)
_FEET = re.compile(
    rf"{_NUMBER}\s*(?:'|′|ft\.?|feet|foot)\s*(?:{_NUMBER}\s*(?:\"|''|″|in\.?|inch(?:es)?))?",
    re.IGNORECASE,
)


class Footprints(City, kind="footprints"):
    """Buildings from a FeatureCollection of Polygons and MultiPolygons, holes being courtyards.

    Local metres are used unchanged. Longitude and latitude (WGS84) are projected with the azimuthal
    equidistant projection about the centre of the footprints, which becomes (0, 0); `origin_deg`
    sets another origin, such as that of a trace. Other systems, such as UTM, are first converted to
    longitude and latitude. With `auto` the file's member `crs` decides; without one, coordinates
    that span less than one unit on both axes are taken as degrees, because a city is neither that
    wide in degrees nor that small in metres, and so are those of which most sides are shorter than
    0.01 units. The area is the bounding box of the footprints, or of a replayed trace, extended by
    `margin_m`; buildings outside of it are left out and counted.

    Exports of OpenStreetMap can be read unchanged: heights in m or feet, with or without a unit; 3
    m per level where there is no height. Points, lines, features without a geometry, features that
    are not buildings, and buildings that are underground, gone, not yet built or over open ground
    are left out and counted in a note. Buildings that overlap are taken apart: a `building:part`
    replaces its outline, else the higher one counts.

    With `streets` the city has a street graph. Streets are projected around the same origin as the
    footprints and cut at the border of the area.
    """

    reference = "GeoJSON, RFC 7946"
    example = {"kind": "footprints", "file": "city.geojson"}
    is_made_up = False
    file: FileName
    """path of a GeoJSON file, at most 50 MB"""
    crs: str = "auto"
    """coordinate system: local-metres, lonlat (degrees), or a name such as EPSG:32632; auto: as the
    file states"""
    height_property: str = Field("height_m", min_length=1)
    """property that holds a building's height above ground in m; if it is missing, the properties
    height, building:height, building:levels and levels are used"""
    default_height_m: float | None = Field(None, ge=0, le=10_000)
    """height of buildings with none of these above 0, m; their number is said; none: such a file is
    refused"""
    margin_m: float = Field(10.0, ge=0, le=1e5)
    """width of the open ground around the footprints, or around a replayed trace, m"""
    origin_deg: OriginDeg | None = None
    """latitude and longitude of (0, 0), for a file in degrees; none: the centre of the
    footprints"""
    repair: bool = False
    """repair polygons that cross themselves or have holes outside their outline, instead of
    refusing them"""

    streets: FileName | None = None
    """path of a file of streets: GeoJSON lines with OpenStreetMap's property highway, at most 50 MB
    (it may be the same file), or a SUMO network (.net.xml, .net.xml.gz); none: the city has no
    streets"""

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({"buildings"} if self.streets is None else {"buildings", "streets"})

    @field_validator("crs")
    @classmethod
    def _check_crs(cls, text: str) -> str:
        if text in ("auto", "local-metres"):
            return text
        system = normalise_crs(text)
        if system is None:
            raise ValueError(f"{text[:40]!r} is none of auto, {SYSTEMS}")
        return system

    def area(self, trace_area: Area | None) -> Area:
        return (trace_area or self._load_city().area).grow(self.margin_m)

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        import shapely

        buildings = self._load_city().buildings
        inside = shapely.intersects(buildings.footprint, area.to_polygon())
        if inside.all():
            return buildings
        if not inside.any():
            raise BadInput(
                f"{self.file}: no building of it lies in the area of the trace, {area}; take the "
                "city that it was recorded in"
            )
        return buildings.select(inside)

    def origin(self) -> LatLon | None:
        return self._load_city().origin_deg

    def street_graph(self, area: Area, streams: Streams) -> StreetGraph | None:
        if self.streets is None:
            return None
        return self._load_streets().graph

    def network(self) -> NetLocation | None:
        if self.streets is None:
            return None
        return self._load_streets().location

    def notices(self, built: Any) -> Notices:
        city = self._load_city()
        skipped = city.skipped.copy()
        if built:
            skipped["outside of the area of the trace"] = len(city.buildings) - built.n_buildings
            skipped = +skipped
        if self.streets == self.file:
            del skipped["LineString"]
        if kinds := ", ".join(f"{count:,} {kind}" for kind, count in skipped.items()):
            yield notice(
                "city-shapes-left-out", file=self.file, number=skipped.total(), kinds=kinds
            )
        yield from city.notices
        if self.streets is not None:
            yield from self._load_streets().notices

    def _load_city(self) -> "FileCity":
        return _read_city(self, read_file_version(self.file))

    def _load_streets(self) -> "StreetFile":
        file = str(self.streets)
        return read_street_file(
            file, self.crs, self.origin(), self.area(None), read_file_version(file)
        )


@frozen
class FileCity:
    """The buildings of a file, in their bounding box; origin_deg is None for local metres.

    skipped : number of shapes that are not buildings, by type; notices : on heights and overlaps.
    """

    buildings: Buildings
    area: Area
    origin_deg: LatLon | None
    skipped: Counter[str]
    notices: tuple[Notice, ...]


@frozen
class StreetFile:
    """The street graph of a file, notices on what is not in it, and where it lies if it is
    SUMO's.
    """

    graph: StreetGraph
    notices: tuple[Notice, ...]
    location: NetLocation | None


@lru_cache(maxsize=1)
def _read_city(part: Footprints, version: IntPair) -> FileCity:
    """All buildings of a file, on a local plane; `version` distinguishes a changed file from the
    cached one.

    Points, lines and features without a geometry are counted and left out. If some features have
    the property `building`, as in OpenStreetMap, polygons without it are left out too. The file's
    `crs` member is used where `crs` is auto. Raises BadInput with one line.
    """
    import shapely

    file = part.file
    features = read_features(file)
    shape, feature = features.list_parts()
    kind = np.array([polygon.geom_type for polygon in shape], object)
    skipped = Counter(kind[kind != "Polygon"].tolist())
    skipped["without a geometry"] = len(features.shape) - len(np.unique(feature))
    why_not = np.array([_explain_omission(tags) for tags in features.tags], object)[feature]
    if (why_not != _UNTAGGED).any() or not all(
        is_absent(tags.get("building")) for tags in features.tags
    ):
        skipped.update(why_not[(kind == "Polygon") & (why_not != "")].tolist())
        kind[why_not != ""] = ""
    is_polygon = kind == "Polygon"
    skipped = +skipped
    shape = shape[is_polygon]
    feature = feature[is_polygon]
    if not len(shape):
        had = ", ".join(f"{count} {kind}" for kind, count in skipped.items())
        raise BadInput(
            f"{file}: features: there is no building in "
            f"it{f' ({had})' if had else ''}; give at least one Polygon"
        )
    height_m, notices = _read_heights(part, features, feature)
    corner, owner = shapely.get_coordinates(shape, return_index=True)
    crs = features.crs if part.crs == "auto" and features.crs else part.crs
    corner_m, origin_deg = project_corners(file, corner, feature[owner], crs, part.origin_deg)
    footprint, polygon = _repair_polygons(
        part, features, shapely.set_coordinates(shape, corner_m), feature
    )
    height_m = height_m[polygon]
    tags = [features.tags[i] for i in feature[polygon].tolist()]
    is_part = np.array([_is_part(building) for building in tags])
    is_raised = np.array([_find_base_m(building) > 0 for building in tags])
    apart = separate_footprints(file, footprint, height_m, is_part, is_raised)
    skipped += Counter({"over open ground": apart.n_raised})
    if not len(apart.shape):
        raise BadInput(
            f"{file}: features: no building in it stands on the ground; correct min_height"
        )
    if apart.n_overlapping:
        notices += (
            notice("city-outlines-overlap", file=file, number=apart.n_overlapping, total=len(tags)),
        )
    area = Area.from_points(shapely.bounds(apart.footprint).reshape(-1, 2))
    buildings = Buildings(apart.footprint, height_m[apart.shape], apart.house)
    return FileCity(buildings, area, origin_deg, skipped, notices)


def _read_word(tags: Mapping[str, object], key: str) -> str:
    """The value of a tag in small letters, yes for true; empty where it has none, or says no."""
    value = tags.get(key)
    word = "" if is_absent(value) else str(value).strip().lower()
    return {"no": "", "false": "", "0": "", "true": "yes"}.get(word, word)


def _is_part(tags: Mapping[str, object]) -> bool:
    """Whether tags of OpenStreetMap describe a part of a building alone."""
    return not _read_word(tags, "building") and _read_word(tags, "building:part") != ""


def _explain_omission(tags: Mapping[str, object]) -> str:
    """Why tags of OpenStreetMap describe no building that is there above ground; empty if they do.

    Sources: OpenStreetMap wiki, pages `Key:building`, `Lifecycle prefix`, `Key:location`,
    `Key:layer`.
    """
    building = _read_word(tags, "building")
    kinds = {building, _read_word(tags, "building:part")} - {""}
    if not kinds:
        if any(_read_word(tags, f"{state}:building") for state in _STATES):
            return _GONE
        return _UNTAGGED
    marks = {key.removeprefix("building:") for key in tags if _read_word(tags, key) == "yes"} - {
        "abandoned"
    }
    if (kinds | marks) & _STATES:
        return _GONE
    if (
        "underground" in (building, _read_word(tags, "location"))
        or "tunnel" in marks
        or _read_word(tags, "layer").startswith("-")
    ):
        return "underground"
    if _find_base_m(tags):
        open_below = {building}
    else:
        open_below = kinds  # a part may be on top of others
    is_bridge = _read_word(tags, "man_made") == "bridge" or _read_word(tags, "bridge") != ""
    if is_bridge or open_below & _OPEN_BELOW:
        return "roofs and bridges"
    return ""


def _find_base_m(tags: Mapping[str, object]) -> float:
    """The height above ground at which a building begins; 0 where its tags state none."""
    return max(
        0.0,
        *(unit_m * (parse_metres(_read_word(tags, key)) or 0.0) for key, unit_m in _BASES.items()),
    )


def _repair_polygons(
    part: Footprints, features: Features, shape: Shapes, feature: IntArray
) -> tuple[Shapes, IntArray]:
    """Valid or repaired polygons (m,), and the polygon of the file that each is part of (m,)."""
    import shapely

    bad = np.flatnonzero(~shapely.is_valid(shape))
    if bad.size and not part.repair:
        reason = shapely.is_valid_reason(shape[bad[0]])
        features.refuse(
            feature[bad[0]],
            f"geometry: not a valid polygon: {reason}",
            "mend it, or set repair: true",
        )
    shape[bad] = shapely.make_valid(shape[bad], method="structure", keep_collapsed=False)
    piece, source = shapely.get_parts(shape, return_index=True)
    solid = shapely.get_type_id(piece) == shapely.GeometryType.POLYGON
    solid &= shapely.area(piece) > 0
    if not solid.any():
        raise BadInput(
            f"{part.file}: no polygon is left after repair; give footprints that have an area"
        )
    return piece[solid], source[solid]


def _read_heights(
    part: Footprints, features: Features, feature: IntArray
) -> tuple[FloatArray, tuple[Notice, ...]]:
    """Heights (n,) in m of polygons of features (n,), and a note on those that are assumed or
    cannot be read.

    A height is the first of `height_property` and OpenStreetMap's height that is above 0, or else
    levels times 3 m, or else the default.
    """
    names = {part.height_property: 1.0, "height": 1.0, "building:height": 1.0} | dict.fromkeys(
        _LEVELS, STOREY_M
    )
    height_m = np.full(len(feature), np.nan)
    by_levels = 0
    unread: dict[int, tuple[str, object]] = {}
    for k, i in enumerate(feature.tolist()):
        for name, unit_m in names.items():
            value = features.tags[i].get(name)
            if is_absent(value):
                continue
            if unit_m == 1.0:
                text = value
            else:
                text = f"{value} m"  # levels have no unit
            number: Any = parse_metres(text) if isinstance(value, str) else value
            is_number = isinstance(number, int | float) and number is not True
            found_m = number * unit_m if is_number else np.nan
            if unit_m == 1.0 and number is not None and not found_m <= _HIGHEST_M:
                features.refuse(
                    i,
                    f"properties.{name}: {shorten_value(value)} is not a height",
                    f"give metres up to {_HIGHEST_M:g}",
                )
            if 0 < found_m <= _TALLEST_M:
                height_m[k] = found_m
                by_levels += unit_m != 1.0
                break
            unread.setdefault(k, (name, value))
    unknown = np.flatnonzero(np.isnan(height_m))
    if unknown.size and part.default_height_m is None:
        first = unknown[0]
        name, value = unread.get(first, (part.height_property, None))
        if first in unread:
            problem = f"{shorten_value(value)} is not a height"
        else:
            problem = "it has no height"
        if unknown.size > 1:
            rest = f", nor have {unknown.size - 1:,} others of {len(height_m):,}"
        else:
            rest = ""
        features.refuse(
            feature[first],
            f"properties.{name}: {problem}{rest}",
            "give one in m, or set default_height_m",
        )
    height_m[unknown] = part.default_height_m
    example = shorten_value(next(iter(unread.values()))[1]) if unread else ""
    counts = (
        (by_levels, f"by their levels of {STOREY_M:g} m"),
        (unknown.size, "by default_height_m"),
        (len(unread), f"values are no height, such as {example}"),
    )
    texts = ", ".join(f"{n:,} {problem}" for n, problem in counts if n)
    return height_m, (
        notice("city-heights-assumed", file=part.file, counts=texts),
    ) if texts else ()


def parse_metres(text: str) -> float | None:
    """A length as OpenStreetMap's `height` writes it, in m: "12", "12.5 m", "40 ft", 6'4"; None if
    it is none.
    """
    text = text.strip()
    if len(text) > _MAX_LENGTH or _AMBIGUOUS.match(text):
        return None
    text = text.replace(",", ".")
    if match := _METRES.fullmatch(text):
        return float(match[1])
    if match := _FEET.fullmatch(text):
        return (float(match[1]) + float(match[2] or 0) / 12.0) * _FOOT_M
    return None


@lru_cache(maxsize=1)
def read_street_file(
    file: str, crs: str, origin_deg: LatLon | None, area: Area, version: IntPair
) -> StreetFile:
    """The streets of a file on the plane of the buildings, cut at the border of the area.

    Files named .xml or .xml.gz are SUMO networks, others GeoJSON. `version` distinguishes a changed
    file from the cached one. Raises BadInput with one line.
    """
    is_network = file.lower().endswith(_NETWORKS)
    if is_network:
        lines, notices, location = read_sumo(file, origin_deg)
    else:
        location = None
        lines, notices = read_osm(file, crs, origin_deg)
    inside = lines.clip_to(area)
    if not len(inside.path):
        away_m = np.linalg.norm(np.median(lines.path.vertex_m, axis=0) - area.centre_m)
        if origin_deg:
            them = "give those of the same place"
        else:
            them = "give both in the same local metres"
        raise BadInput(
            f"{file}: none of its streets lies in the area of the buildings, their middles are "
            f"{away_m:,.0f} m apart; {them}, or set margin_m if they are near"
        )
    # edges of a network meet at junctions only
    assembled = assemble_streets(inside, 0.0 if is_network else SNAP_M)
    assembled.check(file)
    return StreetFile(assembled.graph, (*notices, *assembled.notices(file)), location)

"""Footprints from GeoJSON. Features that are not buildings are counted; errors name file, feature and remedy."""

from __future__ import annotations

import errno
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from netsim.city.heights import HIGHEST_M, LEVEL_M, Height, height_of
from netsim.errors import BadInput
from netsim.safe import content, what_is
from netsim.units import FloatArray, IntArray

_LARGEST_FILE_MB = 50
_FURTHEST_M = 1e6  # of a coordinate from the origin of a local plane
_LARGEST = 1e8  # coordinate of any system
_WIDEST_M = 1e5  # no city is wider
_WIDEST_DEG = 1.0  # nor any city in degrees; and none is so small in metres
_LONGEST = 60  # characters of a value in a message
_DEEPEST = 8  # collections inside collections
_NO_AREA = frozenset(("Point", "MultiPoint", "LineString", "MultiLineString"))
_TAGS = ("building", "building:part")
_CRS = re.compile(
    r"(?:urn:(?:x-)?ogc:def:crs:|https?://www\.opengis\.net/def/crs/)?(EPSG|OGC)[:/](?:[\d.]*[:/])?(\w{1,9})",
    re.IGNORECASE,
)
_OLD_CODES = {"900913": "3857"}  # what web maps were called before they had a number


@dataclass(frozen=True, eq=False)
class Outlines:
    """The buildings of a file: `footprint` (n,) valid polygons in local metres and `height_m` (n,).

    origin_deg : latitude and longitude of (0, 0), None for local metres.
    skipped : number of features, and of parts of features, that are not buildings, by type.
    by_levels, by_default : number of heights taken as levels times 3 m, and as the default. unread : the first text
    that could not be read as a height, and the number of such texts.
    """

    footprint: npt.NDArray[Any]
    height_m: FloatArray
    origin_deg: tuple[float, float] | None
    skipped: dict[str, int]
    by_levels: int
    by_default: int
    unread: tuple[str, int]

    def notes(self, file: str) -> tuple[str, ...]:
        """Notes for the user on skipped features and assumed heights."""
        notes = []
        if n := sum(self.skipped.values()):
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.skipped.items())
            notes.append(f"city: {file}: {n:,} of its shapes are left out: {kinds}")
        if self.by_levels or self.unread[1]:
            odd = (
                f"; {self.unread[1]:,} texts are no height, such as {_short(self.unread[0])}" if self.unread[1] else ""
            )
            by = f"{self.by_levels:,} by their levels of {LEVEL_M:g} m, {self.by_default:,} by default_height_m"
            notes.append(f"city: {file}: heights of buildings: {by}{odd}")
        return tuple(notes)


@dataclass(frozen=True)
class _Flat:
    """Polygons as flat lists."""

    corner: list[tuple[float, float]] = field(default_factory=list)
    ring_of: list[int] = field(default_factory=list)
    """the ring of each corner"""
    part_of: list[int] = field(default_factory=list)
    """the polygon of each ring"""
    feature: list[int] = field(default_factory=list)
    """the feature of each polygon"""
    height: list[Height] = field(default_factory=list)
    """of each polygon"""

    def add(self, polygon: Any, feature: int, height: Height, refuse: _Refusal) -> None:
        for ring in _listed(polygon, refuse, "a polygon is a list of rings"):
            corners = [_position(p, refuse) for p in _listed(ring, refuse, "a ring is a list of positions")]
            if len(corners) < 4 or corners[0] != corners[-1]:
                refuse(f"a ring of {len(corners)} positions is not closed", "end each ring where it begins")
            self.ring_of.extend([len(self.part_of)] * len(corners))
            self.part_of.append(len(self.feature))
            self.corner.extend(corners)
        self.feature.append(feature)
        self.height.append(height)


def read_outlines(
    file: str,
    height_property: str,
    default_height_m: float | None,
    crs: str = "auto",
    origin_deg: tuple[float, float] | None = None,
    repair: bool = False,
) -> Outlines:
    """All buildings of a GeoJSON FeatureCollection, on a local plane. Raises BadInput with one line.

    Points, lines and features without a geometry are counted and left out. If some features have the property
    `building`, as in OpenStreetMap, polygons without it are left out too. The file's `crs` member is used where `crs`
    is auto.
    """
    features, stated = _features(file)
    skipped: Counter[str] = Counter()
    flat = _Flat()
    tagged = any(_tagged(_tags(each)) for each in features)
    for i, each in enumerate(features):
        refuse = _Refusal(file, f"features[{i}]")
        if not isinstance(each, dict) or each.get("type") != "Feature":
            refuse(f"{_short(each)} is not a Feature", "give Features with a Polygon each")
        properties = each.get("properties") or {}
        if not isinstance(properties, dict):
            refuse(f"properties: {_short(properties)} is not an object", f'give {{"{height_property}": metres}}')
        polygons = _polygons(each.get("geometry"), refuse, skipped, 0)
        if polygons and tagged and not _tagged(_tags(each)):
            skipped["without a tag building"] += 1
            continue
        for polygon in polygons:
            flat.add(polygon, i, _height(_tags(each), height_property, refuse), refuse)
    if not flat.feature:
        had = ", ".join(f"{count} {kind}" for kind, count in skipped.items())
        raise BadInput(
            f"{file}: features: there is no building in it{f' ({had})' if had else ''}; give at least one Polygon"
        )
    height_m = _heights_m(file, flat, height_property, default_height_m)
    corner_m, origin = _on_plane(file, flat, crs if crs != "auto" else stated or crs, origin_deg)
    footprint, polygon = _shapes(file, corner_m, flat, repair)
    unread = [h.unread for h in flat.height if h.unread is not None]
    return Outlines(
        footprint=footprint,
        height_m=height_m[polygon],
        origin_deg=origin,
        skipped=dict(skipped),
        by_levels=sum("levels" in h.source and "height" not in h.source for h in flat.height),
        by_default=sum(not h.source for h in flat.height),
        unread=(unread[0] if unread else "", len(unread)),
    )


def known_crs(crs: str) -> str | None:
    """The normalised name of a coordinate system, such as EPSG:32632; None if the text names no known system."""
    if crs in ("auto", "local-metres", "lonlat"):
        return crs
    match = _CRS.fullmatch(crs.strip())
    if match is None:
        return None
    authority, code = match[1].upper(), match[2]
    if authority == "OGC":
        return "lonlat" if code.upper() == "CRS84" else None
    return f"EPSG:{_OLD_CODES.get(code, code)}" if code.isdecimal() else None


# --- where the corners are -------------------------------------------------------------------------------------


def _on_plane(
    file: str, flat: _Flat, crs: str, origin_deg: tuple[float, float] | None
) -> tuple[FloatArray, tuple[float, float] | None]:
    """Corners (n, 2) in local metres, and latitude and longitude of (0, 0), None for a file in local metres."""
    corner = np.array(flat.corner)
    if crs not in ("auto", "local-metres", "lonlat"):
        corner, crs = _in_degrees(file, corner, crs), "lonlat"
    around = _unwrapped(corner)
    degrees = crs == "lonlat" or (crs == "auto" and bool((np.ptp(around, axis=0) < _WIDEST_DEG).all()))
    furthest = np.array([180.0, 90.0]) if degrees else np.full(2, _FURTHEST_M)
    beyond = np.flatnonzero((np.abs(corner) > furthest).any(axis=1))
    if beyond.size:
        values = ", ".join(f"{v:.10g}" for v in corner[beyond[0]])
        what = "longitude and latitude, at most 180 and 90" if degrees else f"local metres, at most {_FURTHEST_M:g}"
        refuse = _Refusal(file, f"features[{flat.feature[flat.part_of[flat.ring_of[beyond[0]]]]}]")
        refuse(f"coordinates out of range: {values} are no {what}", "correct them, or set crs, such as EPSG:32632")
    if not degrees:
        if origin_deg is not None:
            raise BadInput(f"{file}: its coordinates are local metres, origin_deg means nothing there; leave it out")
        corner_m, origin = corner, None
    else:
        middle = (around.min(axis=0) + around.max(axis=0)) / 2
        lon = float(middle[0]) - (360.0 if middle[0] > 180.0 else 0.0)
        origin = origin_deg or (float(middle[1]), lon)
        corner_m = _projected(around, origin)
    wide_m, long_m = np.ptp(corner_m, axis=0)
    if not max(wide_m, long_m) <= _WIDEST_M:
        raise BadInput(
            f"{file}: footprints over {wide_m:.6g} x {long_m:.6g} m are no city (at most {_WIDEST_M:g} m); "
            "cut a part out, or set crs"
        )
    return corner_m, origin


def _unwrapped(lon_lat: FloatArray) -> FloatArray:
    """Corners with longitudes from 0 to 360 where they lie on both sides of the date line."""
    lon = lon_lat[:, 0]
    if np.ptp(lon) <= 180.0 or np.abs(lon).max() > 180.0:
        return lon_lat
    return np.column_stack([lon % 360.0, lon_lat[:, 1]])


def _in_degrees(file: str, corner: FloatArray, crs: str) -> FloatArray:
    """Longitude and latitude (n, 2) of corners in a system of EPSG."""
    from pyproj import CRS, Transformer
    from pyproj.exceptions import CRSError

    remedy = "give longitude and latitude, or set crs to what the coordinates are"
    try:
        system = CRS.from_epsg(int(crs.removeprefix("EPSG:")))
    except CRSError:
        raise BadInput(f"{file}: crs: {crs} is no system that is known; {remedy}") from None
    if not (system.is_projected or system.is_geographic):
        raise BadInput(f"{file}: crs: {crs} ({system.name}) is no system of a map; {remedy}")
    lon, lat = Transformer.from_crs(system, "EPSG:4326", always_xy=True).transform(corner[:, 0], corner[:, 1])
    lon_lat = np.column_stack([lon, lat])
    if not np.isfinite(lon_lat).all():
        raise BadInput(f"{file}: crs: {crs} ({system.name}) does not reach all of the coordinates; {remedy}")
    return lon_lat


def _projected(lon_lat: FloatArray, origin_deg: tuple[float, float]) -> FloatArray:
    """Azimuthal equidistant on WGS84, metres east and north of the origin."""
    from pyproj import Proj

    lat_0, lon_0 = origin_deg
    plane = Proj(proj="aeqd", lat_0=lat_0, lon_0=lon_0, ellps="WGS84")
    return np.column_stack(plane(*lon_lat.T))


# --- reading ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Refusal:
    """Raises BadInput with the place of an error in the file."""

    file: str
    place: str

    def __call__(self, what: str, remedy: str) -> NoReturn:
        raise BadInput(f"{self.file}: {self.place}: {what}; {remedy}")


def _short(value: Any) -> str:
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):
        return "a value too large to print"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _text(file: str) -> str:
    """The text of a file of limited size."""
    if not what_is(file):
        raise BadInput(f"{file}: no such file; give the path of a GeoJSON file")
    try:
        return content(file, _LARGEST_FILE_MB * 10**6).decode("utf-8-sig")
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise BadInput(f"{file}: has more than {_LARGEST_FILE_MB} MB; cut a part of the city out") from None
        raise BadInput(f"{file}: {error.strerror or error}; give the path of a GeoJSON file") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: not JSON in UTF-8 ({error.reason}); give a GeoJSON file") from None


def _features(file: str) -> tuple[list[Any], str | None]:
    """All features of a file, unchecked, and the coordinate system that it states."""
    text = _text(file)
    try:
        data = json.loads(text)
    except RecursionError:
        raise BadInput(f"{file}: nested too deeply for GeoJSON; give a FeatureCollection of Polygons") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{file}: not JSON ({error}); give a GeoJSON file in UTF-8") from None
    except ValueError:
        raise BadInput(f"{file}: not JSON (a number of thousands of digits); give a GeoJSON file") from None
    if not isinstance(data, dict) or data.get("type") != "FeatureCollection":
        kind = data.get("type") if isinstance(data, dict) else data
        raise BadInput(f"{file}: type: {_short(kind)} is not 'FeatureCollection'; give a GeoJSON FeatureCollection")
    features = data.get("features")
    if not isinstance(features, list):
        raise BadInput(f"{file}: features: {_short(features)} is not a list; give a list of Features")
    return features, _stated(file, data.get("crs"))


def _stated(file: str, crs: Any) -> str | None:
    """The coordinate system that the member `crs` names."""
    if crs is None:
        return None
    properties = crs.get("properties") if isinstance(crs, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    known = known_crs(name) if isinstance(name, str) else None
    if known is None or known in ("auto", "local-metres"):
        raise BadInput(
            f"{file}: crs: {_short(crs)} names no system that is known; name one as EPSG:32632, or remove it"
        )
    return known


def _tags(feature: Any) -> dict[str, Any]:
    """Properties of a feature, with OpenStreetMap tags, which are properties or an object of their own."""
    properties = feature.get("properties") if isinstance(feature, dict) else None
    if not isinstance(properties, dict):
        return {}
    tags = properties.get("tags")
    return {**tags, **properties} if isinstance(tags, dict) else properties


def _tagged(tags: dict[str, Any]) -> bool:
    """Whether the tags mark a building or a part of a building."""
    return any(tags.get(key) not in (None, "", "no", False) for key in _TAGS)


def _height(tags: dict[str, Any], key: str, refuse: _Refusal) -> Height:
    try:
        return height_of(tags, key)
    except ValueError as error:
        name = str(error)
        refuse(f"properties.{name}: {_short(tags[name])} is not a height", f"give metres from 0 to {HIGHEST_M:g}")


def _heights_m(file: str, flat: _Flat, key: str, default_m: float | None) -> FloatArray:
    """Height of each polygon (n,); the default for those that have none."""
    height_m = np.array([h.value_m for h in flat.height])
    none = np.flatnonzero(np.isnan(height_m))
    if none.size and default_m is None:
        first = flat.height[none[0]]
        texts = "it has no height" if first.unread is None else f"{_short(first.unread)} is not a height"
        others = f", nor have {none.size - 1:,} others of {len(height_m):,}" if none.size > 1 else ""
        refuse = _Refusal(file, f"features[{flat.feature[none[0]]}]")
        refuse(f"properties.{key}: {texts}{others}", "give one in m, or set default_height_m")
    return np.where(np.isnan(height_m), np.nan if default_m is None else default_m, height_m)


def _polygons(geometry: Any, refuse: _Refusal, skipped: Counter[str], depth: int) -> list[Any]:
    """The polygons of a geometry; its other parts are counted."""
    if geometry is None:
        skipped["without a geometry"] += 1
        return []
    if not isinstance(geometry, dict):
        refuse(f"geometry: {_short(geometry)} is not a geometry", "give a Polygon or MultiPolygon")
    kind, coordinates = geometry.get("type"), geometry.get("coordinates")
    if kind == "GeometryCollection":
        parts = geometry.get("geometries")
        if not isinstance(parts, list) or depth >= _DEEPEST:
            refuse(
                f"geometry.geometries: {_short(parts)} will not do", f"a list of geometries, {_DEEPEST} deep at most"
            )
        return [polygon for part in parts for polygon in _polygons(part, refuse, skipped, depth + 1)]
    if kind in _NO_AREA:
        skipped[str(kind)] += 1
        return []
    if kind not in ("Polygon", "MultiPolygon"):
        refuse(f"geometry.type: {_short(kind)} is not a footprint", "give Polygon or MultiPolygon")
    if coordinates == []:  # what has been cut away
        skipped["without a geometry"] += 1
        return []
    if kind == "Polygon":
        return [coordinates]
    return _listed(coordinates, refuse, "a MultiPolygon is a list of polygons")


def _listed(value: Any, refuse: _Refusal, claim: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        refuse(f"geometry.coordinates: {_short(value)} will not do", claim)
    return value


def _position(value: Any, refuse: _Refusal) -> tuple[float, float]:
    """East and north; a third coordinate (altitude) is ignored."""
    if not isinstance(value, list) or len(value) < 2:
        refuse(f"geometry.coordinates: {_short(value)} is not a position", "a position is two numbers")
    x, y = value[:2]
    for number in (x, y):
        if type(number) not in (int, float) or not abs(number) <= _LARGEST:
            remedy = f"give finite numbers up to {_LARGEST:g}: degrees, or metres"
            refuse(f"geometry.coordinates: coordinates out of range: {_short(value)}", remedy)
    return float(x), float(y)


def _shapes(file: str, corner_m: FloatArray, flat: _Flat, repair: bool) -> tuple[npt.NDArray[Any], IntArray]:
    """Valid or repaired polygons (m,), and the index of the polygon of the file that each belongs to (m,)."""
    import shapely

    ring = shapely.linearrings(corner_m, indices=flat.ring_of)
    footprint = shapely.polygons(ring, indices=flat.part_of)
    bad = np.flatnonzero(~shapely.is_valid(footprint))
    if bad.size and not repair:
        reason = shapely.is_valid_reason(footprint[bad[0]])
        refuse = _Refusal(file, f"features[{flat.feature[bad[0]]}]")
        refuse(f"geometry: not a valid polygon: {reason}", "mend it, or set repair: true")
    footprint[bad] = shapely.make_valid(footprint[bad], method="structure", keep_collapsed=False)
    part, of = shapely.get_parts(footprint, return_index=True)
    solid = (shapely.get_type_id(part) == shapely.GeometryType.POLYGON) & (shapely.area(part) > 0)
    if not solid.any():
        raise BadInput(f"{file}: no polygon is left after repair; give footprints that have an area")
    return part[solid], np.asarray(of[solid])

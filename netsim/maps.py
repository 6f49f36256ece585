"""Map files: GeoJSON features, coordinate systems, and the local plane: x east, y north, metres."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from netsim.columns import frozen
from netsim.errors import LONGEST, BadInput, cut_text
from netsim.geometry import measure_lengths
from netsim.safe import describe_file_kind, read_content
from netsim.units import FloatArray, IntArray, LatLon

if TYPE_CHECKING:
    from pyproj import Proj
    from shapely import Geometry

_MAX_FILE_MB = 50
_MAX_NEST = 8  # collections inside collections
_ABSENT = frozenset(("", "nan", "NaN", "None", "null", "NULL", "<NA>", "N/A", "n/a", "-"))
_OF_TAGS = frozenset(("tags", "all_tags", "other_tags"))  # properties that hold further tags
_HSTORE = re.compile(r'"(?:[^"\\]|\\.)*+"|=>|NULL', re.DOTALL)
_AS_JSON = {"=>": ":", "NULL": "null"}

Shapes = npt.NDArray[np.object_]
"""Shapely geometries."""


@frozen
class Features:
    """The features of a file: tags of each, and shape (f,), None for a feature without one.

    Tags are properties, and those that a property `tags`, `all_tags` or `other_tags` holds: an
    object, JSON as text, or hstore ("key"=>"value", as GDAL writes it). A property with a value
    counts before them. crs : the coordinate system that the file states.
    """

    file: str
    tags: list[dict[str, object]]
    shape: Shapes
    crs: str | None

    def refuse(self, feature: int, reason: str, remedy: str) -> NoReturn:
        """Raises BadInput with the place of a feature."""
        raise BadInput(f"{self.file}: features[{feature}]: {reason}; {remedy}")

    def list_parts(self) -> tuple[Shapes, IntArray]:
        """Points, lines and polygons (p,) of all features, and the feature (p,) that each is part
        of.
        """
        import shapely

        part = self.shape
        feature = np.arange(len(self.shape))
        for _ in range(_MAX_NEST):
            part, row = shapely.get_parts(part, return_index=True)
            feature = feature[row]
        is_filled = ~shapely.is_empty(part)
        return part[is_filled], feature[is_filled]


def read_features(file: str) -> Features:
    """All features of a FeatureCollection. Raises BadInput with one line."""
    if not describe_file_kind(file):
        raise BadInput(f"{file}: no such file; give the path of a GeoJSON file")
    try:
        data = json.loads(
            read_content(file, _MAX_FILE_MB * 10**6).decode("utf-8-sig"), parse_constant=_to_none
        )
    except OSError as error:
        raise BadInput(
            f"{file}: {error.strerror or error}; give a GeoJSON file of at most {_MAX_FILE_MB} MB"
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file}: not JSON in UTF-8 ({error}); give a GeoJSON file") from None
    features = data.get("features") if isinstance(data, dict) else None
    if not isinstance(features, list):
        raise BadInput(
            f"{file}: features: {shorten_value(features)} is not a list; give a GeoJSON "
            "FeatureCollection"
        )
    tags: list[dict[str, object]] = []
    shape = np.empty(len(features), object)
    for i, feature in enumerate(features):
        try:
            tags.append(_collect_tags(feature))
            shape[i] = _to_shape(feature.get("geometry"))
        except ValueError as error:
            raise BadInput(f"{file}: features[{i}]: {error}; give GeoJSON Features") from None
    return Features(file, tags, shape, _read_crs(file, data.get("crs")))


def _to_none(_: str) -> None:
    """The value of NaN and Infinity, which are no JSON."""


def _collect_tags(feature: object) -> dict[str, object]:
    """Properties of a feature, with its OpenStreetMap tags. Raises ValueError."""
    if not isinstance(feature, dict) or feature.get("type") != "Feature":
        raise ValueError(f"{shorten_value(feature)} is not a Feature")
    properties = feature.get("properties") or {}
    if not isinstance(properties, dict):
        raise ValueError(f"properties: {shorten_value(properties)} is not an object")
    tags = properties
    for name in _OF_TAGS & properties.keys():
        values = {key: value for key, value in tags.items() if not is_absent(value)}
        tags = {**properties, **_read_tags(name, properties[name]), **values}
    return tags


def _read_tags(name: str, value: object) -> dict[str, object]:
    """The tags that a property holds: an object, JSON, or hstore. Raises ValueError."""
    if not value or is_absent(value):
        return {}
    tags = value
    if isinstance(value, str):
        text = value.strip()
        if text[0] != "{":
            text = "{" + _HSTORE.sub(lambda match: _AS_JSON.get(match[0], match[0]), text) + "}"
        try:
            tags = json.loads(text, parse_constant=_to_none, strict=False)
        except (ValueError, RecursionError):
            tags = None
    if not isinstance(tags, dict):
        raise ValueError(
            f'properties.{name}: {shorten_value(value)} is no object, JSON or "key"=>"value"; '
            f"mend or remove it"
        )
    return tags


def _to_shape(geometry: object) -> Geometry | None:
    """The shape of a geometry; None without one. Raises ValueError."""
    import shapely

    if geometry is None:
        return None
    try:
        return shapely.force_2d(shapely.from_geojson(json.dumps(geometry)))
    except (shapely.GEOSException, RecursionError) as error:
        reason = re.sub(r".*(Exception: |\.\d+\] )", "", str(error)).strip("'\n")
        raise ValueError(f"geometry: {shorten_value(geometry)}: {reason[:LONGEST]}") from None


def _read_crs(file: str, crs: object) -> str | None:
    """The coordinate system that the member `crs` names."""
    if crs is None:
        return None
    properties = crs.get("properties", crs) if isinstance(crs, dict) else crs
    name = properties.get("name", crs) if isinstance(properties, dict) else crs
    crs_name = normalise_crs(name) if isinstance(name, str) else None
    if crs_name is None:
        raise BadInput(
            f"{file}: crs: {shorten_value(name)} names no system that is known; name one as "
            f"EPSG:32632, or remove it"
        )
    return crs_name


def shorten_value(value: object) -> str:
    """A value of a file in a message, at most 60 characters."""
    try:
        return cut_text(json.dumps(value))
    except (RecursionError, ValueError):
        return "a value too large to print"


def is_absent(value: object) -> bool:
    """Whether a property has no value: null, or a text that tools write for it."""
    return value is None or (isinstance(value, str) and value.strip() in _ABSENT)


_MAX_ABS_M = 1e6  # of a coordinate from the origin of a local plane
_MAX_SIDE_M = 1e5  # no city is wider
_MIN_SIDE_M = 1.0  # nor narrower than this both ways
_MIN_STEP_M = 0.01  # most sides of buildings and streets are longer
_OPPOSITE_M = 2.0003e7  # from the origin, half way round the globe
_MAX_SIDE_DEG = 1.0  # nor any city in degrees; and none is so small in metres
_CRS = re.compile(
    r"(?:urn:(?:x-)?ogc:def:crs:|https?://www\.opengis\.net/(?:def/crs|gml/srs)/)?"
    r"(EPSG|OGC|CRS)(?:[:/]|\.XML#)(?:[\d.]*[:/])?(\w{1,9})",
    re.IGNORECASE,
)
# longitude first; H: a height, ignored
_WGS84 = frozenset(("LONLAT", "84", "CRS84", "CRS84H", "WGS84", "WGS 84"))
SAME_ORIGIN_M = 10.0  # between two origins that are one
SYSTEMS = "local-metres, lonlat, or a code such as EPSG:32632"


def normalise_crs(crs: str) -> str | None:
    """The normalised name of a coordinate system, lonlat or as EPSG:32632; None if the text names
    no known system.
    """
    name = crs.strip().upper()
    match = _CRS.fullmatch(name)
    authority, code = match.groups() if match else ("", name)
    if authority == "EPSG":
        return f"EPSG:{code}" if code.isdecimal() else None
    return "lonlat" if code in _WGS84 else None


def project_corners(
    file: str, corner: FloatArray, feature: IntArray, crs: str, origin_deg: LatLon | None
) -> tuple[FloatArray, LatLon | None]:
    """Corners (n, 2) of a city in local metres, and latitude and longitude of (0, 0), None for
    local metres.

    Degrees are projected around origin_deg, by default around the middle of the corners. feature
    (n,) : the feature of the file that each corner is part of. Raises BadInput for coordinates that
    are none, and for a city of more than 100 km.
    """
    lon_lat = convert_to_degrees(file, corner, feature, crs)
    if lon_lat is None:
        if origin_deg is not None:
            raise BadInput(
                f"{file}: its coordinates are local metres, origin_deg means nothing "
                f"there; leave it out"
            )
        corner_m = corner
        origin = None
    else:
        lon, lat = ((lon_lat.min(axis=0) + lon_lat.max(axis=0)) / 2).tolist()
        origin = origin_deg or (lat, lon - 360.0 if lon > 180.0 else lon)
        corner_m = project_lon_lat(lon_lat, origin)
        away_m = np.linalg.norm(corner_m.mean(axis=0))
        if origin_deg is not None and away_m > _MAX_SIDE_M:
            raise BadInput(
                f"{file}: origin_deg is {away_m / 1e3:,.0f} km from this map, at most "
                f"{_MAX_SIDE_M / 1e3:g} are "
                "plausible; give latitude and longitude, in this order, of a place on it"
            )
    wide_m, long_m = np.ptp(corner_m, axis=0)
    too_small = max(wide_m, long_m) < _MIN_SIDE_M and np.ptp(corner, axis=0).any()
    if too_small or not max(wide_m, long_m) <= _MAX_SIDE_M:
        taken = (
            "local metres" if lon_lat is None else "degrees" if crs in ("auto", "lonlat") else crs
        )
        raise BadInput(
            f"{file}: footprints of {wide_m:.6g} x {long_m:.6g} m are no city ({_MIN_SIDE_M:g} to "
            f"{_MAX_SIDE_M:g} m), their coordinates taken as {taken}; cut a part out, or set crs "
            f"to what they are: {SYSTEMS}"
        )
    return corner_m, origin


def measure_distance_m(a_deg: LatLon, b_deg: LatLon) -> float:
    """Distance of two places, latitude and longitude, on WGS84."""
    from pyproj import Geod

    return float(Geod(ellps="WGS84").inv(a_deg[1], a_deg[0], b_deg[1], b_deg[0])[2])


def convert_to_degrees(
    file: str, corner: FloatArray, feature: IntArray, crs: str
) -> FloatArray | None:
    """Longitude and latitude (n, 2) of corners, None where they are local metres.

    Longitudes are 0 to 360 where corners lie on both sides of the date line.

    crs : auto, local-metres, lonlat, or a code of EPSG; `auto` takes for degrees what
    `spans_degrees` does.
    """
    if crs.startswith("EPSG:"):
        corner = convert_to_lon_lat(f"{file}: crs", crs, corner)
        crs = "lonlat"
    around = corner
    lon = corner[:, 0]
    if np.ptp(lon) > 180.0 and np.abs(lon).max() <= 180.0:
        around = np.column_stack([lon % 360.0, corner[:, 1]])
    degrees = crs == "lonlat" or (crs == "auto" and spans_degrees(around))
    furthest = np.array([180.0, 90.0]) if degrees else np.full(2, _MAX_ABS_M)
    beyond = np.flatnonzero((np.abs(corner) > furthest).any(axis=1))
    if beyond.size:
        x, y = corner[beyond[0]]
        axes = (
            "longitude and latitude, at most 180 and 90"
            if degrees
            else f"local metres, at most {_MAX_ABS_M:g}"
        )
        raise BadInput(
            f"{file}: features[{feature[beyond[0]]}]: coordinates out of range: "
            f"{x:.10g}, {y:.10g} are no {axes}; "
            "correct them or the file's member crs, or set crs, such as EPSG:32632"
        )
    return around if degrees else None


def spans_degrees(corner: FloatArray) -> bool:
    """Whether lines through corners (n, 2) are in degrees: less than one unit on both axes, or most
    steps below 0.01.

    No city is so small in metres, and no map so fine.
    """
    if (np.ptp(corner, axis=0) < _MAX_SIDE_DEG).all():
        return True
    step = measure_lengths(np.diff(corner, axis=0))
    return bool(np.median(step[step > 0]) < _MIN_STEP_M)


def convert_to_lon_lat(place: str, system: str, position: FloatArray) -> FloatArray:
    """Longitude and latitude (n, 2) of positions (n, 2) in a system: a code of EPSG, or parameters
    of PROJ.

    place : file and key of the system, named in errors. Raises BadInput with one line.
    """
    from pyproj import CRS, Transformer
    from pyproj.exceptions import ProjError

    remedy = "give longitude and latitude, or state the system that the coordinates are in"
    try:
        crs = CRS(system)
        lon, lat = Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(*position.T)
    except ProjError:
        raise BadInput(f"{place}: {system[:60]} is no system that is known; {remedy}") from None
    if not (crs.is_projected or crs.is_geographic):
        raise BadInput(f"{place}: {system} ({crs.name}) is no system of a map; {remedy}")
    lon_lat = np.column_stack([lon, lat])
    if not np.isfinite(lon_lat).all():
        raise BadInput(
            f"{place}: {system[:60]} ({crs.name}) does not reach all of the coordinates; {remedy}"
        )
    return lon_lat


def project_lon_lat(lon_lat: FloatArray, origin_deg: LatLon) -> FloatArray:
    """Azimuthal equidistant on WGS84, metres east and north of the origin."""
    return np.column_stack(_build_projection(origin_deg)(*lon_lat.T))


def unproject_m(position_m: FloatArray, origin_deg: LatLon) -> FloatArray:
    """Longitude and latitude (n, 2) of positions (n, 2): the inverse of `project_lon_lat`; NaN
    beyond half way round.
    """
    reached = measure_lengths(position_m) <= _OPPOSITE_M
    x_m, y_m = np.where(reached, position_m.T, 0.0)
    degrees = np.column_stack(_build_projection(origin_deg)(x_m, y_m, inverse=True))
    return np.where(reached[:, None], degrees, np.nan)


def _build_projection(origin_deg: LatLon) -> Proj:
    from pyproj import Proj

    lat_0, lon_0 = origin_deg
    return Proj(proj="aeqd", lat_0=lat_0, lon_0=lon_0, ellps="WGS84")

"""Footprints from GeoJSON: read strictly, refused with file, feature, value and remedy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from netsim.errors import BadInput
from netsim.units import FloatArray, IntArray

Plane = Literal["auto", "local-metres", "lonlat"]

_HIGHEST_M = 1e4
_LARGEST_FILE_MB = 50
_FURTHEST_M = 1e6  # of a coordinate from the origin
_WIDEST_M = 1e5  # no city is wider
_WIDEST_DEG = 1.0  # nor any city in degrees; and none is so small in metres
_LONGEST = 60  # characters of a value in a message


@dataclass(frozen=True, eq=False)
class Outlines:
    """What a file holds: `footprint` (n,) valid polygons in degrees or metres, the number of the `feature` (n,)
    that each is part of, and `height_m` (n,).
    """

    footprint: npt.NDArray[Any]
    feature: IntArray
    height_m: FloatArray


def read_outlines(file: str, height_property: str, default_height_m: float | None, repair: bool) -> Outlines:
    """All polygons of a GeoJSON FeatureCollection, as they stand there. Raises BadInput with one line."""
    corner: list[tuple[float, float]] = []
    ring_of: list[int] = []  # the ring of each corner
    part_of: list[int] = []  # the polygon of each ring
    feature: list[int] = []  # the feature of each polygon
    height_m: list[float] = []
    for i, each in enumerate(_features(file)):
        refuse = _Refusal(file, f"features[{i}]")
        here_m = _height_m(each, height_property, default_height_m, refuse)
        for part in _parts(each, refuse):
            for ring in _listed(part, refuse, "a polygon is a list of rings"):
                corners = [_position(p, refuse) for p in _listed(ring, refuse, "a ring is a list of positions")]
                if len(corners) < 4 or corners[0] != corners[-1]:
                    refuse(f"a ring of {len(corners)} positions is not closed", "end each ring where it begins")
                ring_of += [len(part_of)] * len(corners)
                part_of.append(len(feature))
                corner += corners
            feature.append(i)
            height_m.append(here_m)
    if not feature:
        raise BadInput(f"{file}: features: there is no building in it; give at least one Polygon")
    return _outlines(file, corner, ring_of, part_of, np.array(feature), np.array(height_m), repair)


def on_plane(
    file: str, outlines: Outlines, crs: Plane, origin_deg: tuple[float, float] | None
) -> tuple[npt.NDArray[Any], tuple[float, float] | None]:
    """Footprints (n,) in local metres, and latitude and longitude of (0, 0) if the file has degrees."""
    import shapely

    bounds = shapely.bounds(outlines.footprint)
    low, high = bounds[:, :2].min(axis=0), bounds[:, 2:].max(axis=0)
    degrees = crs == "lonlat" or (crs == "auto" and bool((high - low < _WIDEST_DEG).all()))
    furthest = np.array([180.0, 90.0]) if degrees else np.full(2, _FURTHEST_M)
    beyond = np.flatnonzero((np.maximum(-bounds[:, :2], bounds[:, 2:]) > furthest).any(axis=1))
    if beyond.size:
        values = ", ".join(f"{v:.10g}" for v in bounds[beyond[0]])
        what = "longitude and latitude, at most 180 and 90" if degrees else f"metres, at most {_FURTHEST_M:g}"
        refuse = _Refusal(file, f"features[{outlines.feature[beyond[0]]}]")
        refuse(f"coordinates out of range: {values} are no {what}", "correct them, or set crs")
    if not degrees:
        if origin_deg is not None:
            raise BadInput(f"{file}: its coordinates are local metres, origin_deg means nothing there; leave it out")
        footprint, origin = outlines.footprint, None
    else:
        middle = (low + high) / 2
        origin = origin_deg or (float(middle[1]), float(middle[0]))
        footprint = _projected(outlines.footprint, origin)
    low_m, high_m = np.split(shapely.total_bounds(footprint), 2)
    if not (high_m - low_m <= _WIDEST_M).all():
        wide_m, long_m = high_m - low_m
        raise BadInput(
            f"{file}: footprints over {wide_m:.6g} x {long_m:.6g} m are no city (at most {_WIDEST_M:g} m); "
            "cut a part out, or set crs"
        )
    return footprint, origin


def _projected(footprint: npt.NDArray[Any], origin_deg: tuple[float, float]) -> npt.NDArray[Any]:
    """Azimuthal equidistant on WGS84, metres east and north of the origin."""
    import shapely
    from pyproj import Proj

    lat_0, lon_0 = origin_deg
    plane = Proj(proj="aeqd", lat_0=lat_0, lon_0=lon_0, ellps="WGS84")
    return np.asarray(shapely.transform(footprint, lambda lon_lat: np.column_stack(plane(*lon_lat.T))))


@dataclass(frozen=True)
class _Refusal:
    """Says where in a file something is wrong."""

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
    """What stands in a file that is not too large."""
    path = Path(file)
    if path.is_dir():
        raise BadInput(f"{file}: is a folder; give the path of a GeoJSON file")
    if not path.is_file():
        raise BadInput(f"{file}: no such file; give the path of a GeoJSON file")
    try:
        size_mb = path.stat().st_size / 1e6
        if size_mb > _LARGEST_FILE_MB:
            raise BadInput(f"{file}: {size_mb:.0f} MB are more than {_LARGEST_FILE_MB} MB; cut a part of the city out")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}; make the file readable") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: not JSON in UTF-8 ({error.reason}); give a GeoJSON file") from None


def _features(file: str) -> list[Any]:
    """The features of a file, whatever they are."""
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
        found = data.get("type") if isinstance(data, dict) else data
        raise BadInput(f"{file}: type: {_short(found)} is not 'FeatureCollection'; give a GeoJSON FeatureCollection")
    features = data.get("features")
    if not isinstance(features, list):
        raise BadInput(f"{file}: features: {_short(features)} is not a list; give a list of Features")
    return features


def _height_m(feature: Any, key: str, default_m: float | None, refuse: _Refusal) -> float:
    """The height of a feature, or the default where it has none."""
    if not isinstance(feature, dict) or feature.get("type") != "Feature":
        refuse(f"{_short(feature)} is not a Feature", "give Features with a Polygon each")
    properties = feature.get("properties") or {}
    if not isinstance(properties, dict):
        refuse(f"properties: {_short(properties)} is not an object", f'give {{"{key}": metres}}')
    height = properties.get(key)
    if height is None:
        if default_m is None:
            refuse(f"properties.{key}: it has no height", "give one in m, or set default_height_m")
        return default_m
    if type(height) not in (int, float) or not 0 <= height <= _HIGHEST_M:
        refuse(f"properties.{key}: {_short(height)} is not a height", f"give metres from 0 to {_HIGHEST_M:g}")
    return float(height)


def _parts(feature: dict[str, Any], refuse: _Refusal) -> list[Any]:
    """The polygons of a feature."""
    geometry = feature.get("geometry")
    if not isinstance(geometry, dict):
        refuse(f"geometry: {_short(geometry)} is not a geometry", "give a Polygon or MultiPolygon")
    kind, coordinates = geometry.get("type"), geometry.get("coordinates")
    if kind == "Polygon":
        return [coordinates]
    if kind == "MultiPolygon":
        return _listed(coordinates, refuse, "a MultiPolygon is a list of polygons")
    refuse(f"geometry.type: {_short(kind)} is not a footprint", "give Polygon or MultiPolygon, leave others out")


def _listed(value: Any, refuse: _Refusal, claim: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        refuse(f"geometry.coordinates: {_short(value)} will not do", claim)
    return value


def _position(value: Any, refuse: _Refusal) -> tuple[float, float]:
    """East and north; a height above the sea is left out."""
    if not isinstance(value, list) or len(value) < 2:
        refuse(f"geometry.coordinates: {_short(value)} is not a position", "a position is two numbers")
    x, y = value[:2]
    for number in (x, y):
        if type(number) not in (int, float) or not abs(number) <= _FURTHEST_M:
            remedy = f"give finite numbers up to {_FURTHEST_M:g}: degrees, or metres from an origin nearby"
            refuse(f"geometry.coordinates: coordinates out of range: {_short(value)}", remedy)
    return float(x), float(y)


def _outlines(
    file: str,
    corner: list[tuple[float, float]],
    ring_of: list[int],
    part_of: list[int],
    feature: IntArray,
    height_m: FloatArray,
    repair: bool,
) -> Outlines:
    """Polygons from flat lists, valid or mended."""
    import shapely

    ring = shapely.linearrings(np.array(corner), indices=ring_of)
    footprint = shapely.polygons(ring, indices=part_of)
    bad = np.flatnonzero(~shapely.is_valid(footprint))
    if bad.size and not repair:
        reason = shapely.is_valid_reason(footprint[bad[0]])
        refuse = _Refusal(file, f"features[{feature[bad[0]]}]")
        refuse(f"geometry: not a valid polygon: {reason}", "mend it, or set repair: true")
    footprint[bad] = shapely.make_valid(footprint[bad], method="structure", keep_collapsed=False)
    part, of = shapely.get_parts(footprint, return_index=True)
    solid = (shapely.get_type_id(part) == shapely.GeometryType.POLYGON) & (shapely.area(part) > 0)
    if not solid.any():
        raise BadInput(f"{file}: no polygon is left after repair; give footprints that have an area")
    return Outlines(part[solid], feature[of[solid]], height_m[of[solid]])

"""GeoJSON files as features: read safely, with errors that name file, feature and remedy."""

from __future__ import annotations

import errno
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from netsim.errors import BadInput
from netsim.maps.plane import known_crs
from netsim.safe import content, what_is

_MAX_FILE_MB = 50
_MAX_ABS = 1e8  # coordinate of any system
_MAX_LENGTH = 60  # characters of a value in a message
_MAX_NEST = 8  # collections inside collections
_POINTS = ("Point", "MultiPoint")
LINES = ("LineString", "MultiLineString")
_OTHERS = {
    "Polygon": (*_POINTS, *LINES),
    "LineString": (*_POINTS, "Polygon", "MultiPolygon"),
}
_ABSENT = frozenset(("", "nan", "NaN", "None", "null", "NULL", "<NA>", "N/A", "n/a", "-"))
_LINES = "a MultiLineString is a list of lines"

Wanted = Literal["Polygon", "LineString"]


@dataclass(frozen=True)
class Refusal:
    """Raises BadInput with the place of an error in the file."""

    file: str
    place: str

    def __call__(self, what: str, remedy: str) -> NoReturn:
        raise BadInput(f"{self.file}: {self.place}: {what}; {remedy}")


def short(value: Any) -> str:
    """A value of a file in a message, at most 60 characters."""
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):
        return "a value too large to print"
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 3] + "..."


def _text(file: str) -> str:
    """The text of a file of limited size."""
    if not what_is(file):
        raise BadInput(f"{file}: no such file; give the path of a GeoJSON file")
    try:
        return content(file, _MAX_FILE_MB * 10**6).decode("utf-8-sig")
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise BadInput(f"{file}: has more than {_MAX_FILE_MB} MB; cut a part of the city out") from None
        raise BadInput(f"{file}: {error.strerror or error}; give the path of a GeoJSON file") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: not JSON in UTF-8 ({error.reason}); give a GeoJSON file") from None


def features_of(file: str) -> tuple[list[Any], str | None]:
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
        raise BadInput(f"{file}: type: {short(kind)} is not 'FeatureCollection'; give a GeoJSON FeatureCollection")
    features = data.get("features")
    if not isinstance(features, list):
        raise BadInput(f"{file}: features: {short(features)} is not a list; give a list of Features")
    return features, _stated(file, data.get("crs"))


def _stated(file: str, crs: Any) -> str | None:
    """The coordinate system that the member `crs` names."""
    if crs is None:
        return None
    properties = crs.get("properties") if isinstance(crs, dict) else None
    of = properties if isinstance(properties, dict) else {}
    name = of.get("name", f"{crs['type']}:{of['code']}" if "code" in of and "type" in crs else None)
    known = known_crs(name) if isinstance(name, str) else None
    if known is None or known in ("auto", "local-metres"):
        what = short(crs if name is None else name)
        raise BadInput(f"{file}: crs: {what} names no system that is known; name one as EPSG:32632, or remove it")
    return known


def absent(value: Any) -> bool:
    """Whether a property has no value: null, NaN, or a text that tools write for them."""
    return value is None or value != value or (isinstance(value, str) and value.strip() in _ABSENT)


def tags_of(feature: Any) -> dict[str, Any]:
    """Properties of a feature, with OpenStreetMap tags, which are properties or an object of their own."""
    properties = feature.get("properties") if isinstance(feature, dict) else None
    if not isinstance(properties, dict):
        return {}
    tags = properties.get("tags")
    return {**tags, **properties} if isinstance(tags, dict) else properties


def parts_of(geometry: Any, wanted: Wanted, refuse: Refusal, skipped: Counter[str], depth: int = 0) -> list[Any]:
    """Coordinates of the polygons or lines of a geometry; its parts of other types are counted in `skipped`."""
    if geometry is None:
        skipped["without a geometry"] += 1
        return []
    if not isinstance(geometry, dict):
        refuse(f"geometry: {short(geometry)} is not a geometry", f"give a {wanted} or Multi{wanted}")
    kind, coordinates = geometry.get("type"), geometry.get("coordinates")
    if kind == "GeometryCollection":
        parts = geometry.get("geometries")
        if not isinstance(parts, list) or depth >= _MAX_NEST:
            refuse(
                f"geometry.geometries: {short(parts)} will not do", f"a list of geometries, {_MAX_NEST} deep at most"
            )
        return [each for part in parts for each in parts_of(part, wanted, refuse, skipped, depth + 1)]
    if kind in _OTHERS[wanted]:
        skipped[str(kind)] += 1
        return []
    if kind not in (wanted, f"Multi{wanted}"):
        what = {"Polygon": "footprint", "LineString": "street"}[wanted]
        refuse(f"geometry.type: {short(kind)} is not a {what}", f"give {wanted} or Multi{wanted}")
    if coordinates == []:  # what has been cut away
        skipped["without a geometry"] += 1
        return []
    if kind == wanted:
        return [coordinates]
    return listed(coordinates, refuse, {"Polygon": "a MultiPolygon is a list of polygons"}.get(wanted, _LINES))


def listed(value: Any, refuse: Refusal, claim: str) -> list[Any]:
    """A value that must be a list with something in it; else it is refused with the claim."""
    if not isinstance(value, list) or not value:
        refuse(f"geometry.coordinates: {short(value)} will not do", claim)
    return value


def position(value: Any, refuse: Refusal) -> tuple[float, float]:
    """East and north; a third coordinate (altitude) is ignored."""
    if not isinstance(value, list) or len(value) < 2:
        refuse(f"geometry.coordinates: {short(value)} is not a position", "a position is two numbers")
    x, y = value[:2]
    for number in (x, y):
        if type(number) not in (int, float) or not abs(number) <= _MAX_ABS:
            remedy = f"give finite numbers up to {_MAX_ABS:g}: degrees, or metres"
            refuse(f"geometry.coordinates: coordinates out of range: {short(value)}", remedy)
    return float(x), float(y)

"""GeoJSON files: shapes and tags of their features, with errors that name file, feature and remedy."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.maps.plane import known_crs
from netsim.safe import content, what_is
from netsim.units import IntArray

_MAX_FILE_MB = 50
_MAX_LENGTH = 60  # characters of a value in a message
_MAX_NEST = 8  # collections inside collections
_ABSENT = frozenset(("", "nan", "NaN", "None", "null", "NULL", "<NA>", "N/A", "n/a", "-"))

Shapes = npt.NDArray[Any]
"""Shapely geometries."""


@frozen
class Features:
    """The features of a file: tags of each, and shape (f,), None for a feature without one.

    Tags are properties, or the object `tags` among them. crs : the coordinate system that the file states.
    """

    file: str
    tags: list[dict[str, Any]]
    shape: Shapes
    crs: str | None

    def refuse(self, feature: int, what: str, remedy: str) -> NoReturn:
        """Raises BadInput with the place of a feature."""
        raise BadInput(f"{self.file}: features[{feature}]: {what}; {remedy}")

    def parts(self) -> tuple[Shapes, IntArray]:
        """Points, lines and polygons (p,) of all features, and the feature (p,) that each is part of."""
        import shapely

        part = self.shape
        feature = np.arange(len(self.shape))
        for _ in range(_MAX_NEST):
            part, row = shapely.get_parts(part, return_index=True)
            feature = feature[row]
        some = ~shapely.is_empty(part)
        return part[some], feature[some]


def read_features(file: str) -> Features:
    """All features of a FeatureCollection. Raises BadInput with one line."""
    if not what_is(file):
        raise BadInput(f"{file}: no such file; give the path of a GeoJSON file")
    try:
        text = content(file, _MAX_FILE_MB * 10**6).decode("utf-8-sig")
        data = json.loads(text, parse_constant=_nothing)
    except OSError as error:
        reason = error.strerror or error
        raise BadInput(f"{file}: {reason}; give a GeoJSON file of at most {_MAX_FILE_MB} MB") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file}: not JSON in UTF-8 ({error}); give a GeoJSON file") from None
    features = data.get("features") if isinstance(data, dict) else None
    if not isinstance(features, list):
        raise BadInput(f"{file}: features: {short(features)} is not a list; give a GeoJSON FeatureCollection")
    tags: list[dict[str, Any]] = []
    shape = np.empty(len(features), dtype=object)
    for i, feature in enumerate(features):
        try:
            tags.append(_tags(feature))
            shape[i] = _shape(feature.get("geometry"))
        except ValueError as error:
            raise BadInput(f"{file}: features[{i}]: {error}; give GeoJSON Features") from None
    return Features(file, tags, shape, _stated(file, data.get("crs")))


def _nothing(_: str) -> None:
    """The value of NaN and Infinity, which are no JSON."""


def _tags(feature: Any) -> dict[str, Any]:
    """Properties of a feature, with its OpenStreetMap tags. Raises ValueError."""
    if not isinstance(feature, dict) or feature.get("type") != "Feature":
        raise ValueError(f"{short(feature)} is not a Feature")
    properties = feature.get("properties") or {}
    if not isinstance(properties, dict):
        raise ValueError(f"properties: {short(properties)} is not an object")
    tags = properties.get("tags")
    return {**tags, **properties} if isinstance(tags, dict) else properties


def _shape(geometry: Any) -> Any:
    """The shape of a geometry; None without one. Raises ValueError."""
    import shapely

    if geometry is None:
        return None
    try:
        return shapely.force_2d(shapely.from_geojson(json.dumps(geometry)))
    except (shapely.GEOSException, RecursionError) as error:
        reason = re.sub(r".*(Exception: |\.\d+\] )", "", str(error)).strip("'\n")
        raise ValueError(f"geometry: {short(geometry)}: {reason[:_MAX_LENGTH]}") from None


def _stated(file: str, crs: Any) -> str | None:
    """The coordinate system that the member `crs` names."""
    if crs is None:
        return None
    try:
        name = crs["properties"]["name"]
    except (TypeError, KeyError):
        name = crs
    known = known_crs(name) if isinstance(name, str) else None
    if known is None:
        raise BadInput(
            f"{file}: crs: {short(name)} names no system that is known; name one as EPSG:32632, or remove it"
        )
    return known


def short(value: Any) -> str:
    """A value of a file in a message, at most 60 characters."""
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):
        return "a value too large to print"
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 3] + "..."


def absent(value: Any) -> bool:
    """Whether a property has no value: null, or a text that tools write for it."""
    return value is None or (isinstance(value, str) and value.strip() in _ABSENT)

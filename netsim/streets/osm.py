"""Streets of OpenStreetMap from GeoJSON: lines with a tag highway."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from netsim.errors import BadInput
from netsim.maps.geojson import Refusal, features_of, listed, parts_of, position, short, tags_of
from netsim.maps.plane import in_degrees, projected, spans_degrees
from netsim.streets.lines import StreetLines
from netsim.streets.tags import NO_HIGHWAY, Street, street_of, with_other_tags
from netsim.units import FloatArray

_MAX_KINDS = 6  # named in a note


@dataclass(frozen=True)
class _FlatStreets:
    """Streets as flat lists."""

    vertex: list[tuple[float, float]] = field(default_factory=list)
    first: list[int] = field(default_factory=lambda: [0])
    street: list[Street] = field(default_factory=list)
    """of each line"""
    feature: list[int] = field(default_factory=list)
    """of each line"""


def read_osm(
    file: str, crs: str = "auto", origin_deg: tuple[float, float] | None = None
) -> tuple[StreetLines, tuple[str, ...]]:
    """The streets of a GeoJSON FeatureCollection, and notes on what is left out. Raises BadInput with one line.

    Features are LineStrings and MultiLineStrings with tags of OpenStreetMap, as exports of Overpass and osmnx hold
    them; see `tags.street_of`.

    crs : system of coordinates that neither look like degrees nor have a system stated in the file.
    origin_deg : latitude and longitude of (0, 0), None for local metres. A file in degrees needs it.
    """
    features, stated = features_of(file)
    flat, skipped = _FlatStreets(), Counter[str]()
    for i, each in enumerate(features):
        refuse = Refusal(file, f"features[{i}]")
        if not isinstance(each, dict) or each.get("type") != "Feature":
            refuse(f"{short(each)} is not a Feature", "give Features with a LineString each")
        street, others = street_of(with_other_tags(tags_of(each))), Counter[str]()
        some = parts_of(each.get("geometry"), "LineString", refuse, others)
        if street != NO_HIGHWAY:  # what has no tag highway is no street, whatever its geometry
            skipped.update(others)
        if isinstance(street, str):
            skipped[street] += len(some)
            continue
        for line in some:
            vertices = [position(p, refuse) for p in listed(line, refuse, "a line is a list of positions")]
            if len(vertices) < 2:
                refuse("a line of one position", "give two at least")
            flat.vertex.extend(vertices)
            flat.first.append(len(flat.vertex))
            flat.street.append(street)
            flat.feature.append(i)
    if not flat.street:
        raise BadInput(
            f"{file}: features: there is no street in it{_had(skipped)}; give LineStrings with a tag highway"
        )
    return _lines(flat, _plane_m(file, flat, crs, stated, origin_deg)), _notes(file, skipped)


def _lines(flat: _FlatStreets, vertex_m: FloatArray) -> StreetLines:
    return StreetLines(
        vertex_m=vertex_m,
        first=np.array(flat.first),
        street_class=np.array([s.street_class for s in flat.street]),
        forward_m_s=np.array([s.forward_m_s for s in flat.street]),
        backward_m_s=np.array([s.backward_m_s for s in flat.street]),
        layer=np.array([s.layer for s in flat.street]),
    )


def _plane_m(
    file: str, flat: _FlatStreets, crs: str, stated: str | None, origin_deg: tuple[float, float] | None
) -> FloatArray:
    """Vertices (v, 2) on the plane of the buildings."""
    vertex = np.array(flat.vertex)
    crs = stated or ("lonlat" if spans_degrees(vertex) else crs)
    line_of = np.repeat(np.arange(len(flat.street)), np.diff(flat.first))
    lon_lat = in_degrees(file, vertex, crs, lambda k: f"features[{flat.feature[line_of[k]]}]")
    if (lon_lat is None) == (origin_deg is None):
        return vertex if lon_lat is None or origin_deg is None else projected(lon_lat, origin_deg)
    says, remedy = (
        ("local metres and the buildings in degrees", "state the streets' system in the file's member crs")
        if lon_lat is None
        else ("degrees and the buildings in local metres", "set crs to the system of the buildings, such as EPSG:32632")
    )
    raise BadInput(f"{file}: the streets are in {says}, so they share no origin; {remedy}, or give both in one system")


def _had(skipped: Counter[str]) -> str:
    """The shapes that were found instead, the most frequent first."""
    kinds = [f"{count:,} {kind}" for kind, count in skipped.most_common() if count]
    more = [f"{len(kinds) - _MAX_KINDS} more kinds"] if len(kinds) > _MAX_KINDS else []
    return f" ({', '.join(kinds[:_MAX_KINDS] + more)})" if kinds else ""


def _notes(file: str, skipped: Counter[str]) -> tuple[str, ...]:
    n = sum(skipped.values())
    return (f"city: {file}: {n:,} of its shapes are no streets{_had(skipped)}",) if n else ()

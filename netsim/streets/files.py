"""Streets from a file: OpenStreetMap lines in GeoJSON, or a SUMO network."""

from __future__ import annotations

from collections import Counter

import numpy as np

from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.maps.geojson import read_features
from netsim.maps.plane import in_degrees, projected, spans_degrees
from netsim.streets.assembly import SNAP_M, StreetLines, assemble
from netsim.streets.graph import WALK, StreetGraph
from netsim.streets.paths import Paths
from netsim.streets.sumo import read_sumo
from netsim.streets.tags import NO_HIGHWAY, street_of

_NETWORKS = (".xml", ".xml.gz")
_MAX_KINDS = 6  # named in a note

Origin = tuple[float, float] | None
"""Latitude and longitude of (0, 0), None for local metres."""


@frozen
class Streets:
    """The street graph of a file, and notes for the user on what is not in it."""

    graph: StreetGraph
    notes: tuple[str, ...]


def read_streets(file: str, crs: str, origin_deg: Origin, area: Area) -> Streets:
    """The streets of a file on the plane of the buildings, cut at the border of the area.

    Files named .xml or .xml.gz are SUMO networks, others GeoJSON. Raises BadInput with one line.
    """
    is_network = file.lower().endswith(_NETWORKS)
    lines, notes = read_sumo(file, origin_deg) if is_network else read_osm(file, crs, origin_deg)
    inside = lines.clipped(area)
    if not len(inside.path):
        away_m = np.linalg.norm(np.median(lines.path.vertex_m, axis=0) - area.centre_m)
        them = "give those of the same place" if origin_deg else "give both in the same local metres"
        raise BadInput(
            f"{file}: none of its streets lies in the area of the buildings, their middles are {away_m:,.0f} m apart; "
            f"{them}, or set margin_m if they are near"
        )
    made = assemble(inside, 0.0 if is_network else SNAP_M)  # edges of a network meet at junctions only
    if not (made.graph.speed_m_s[..., WALK] > 0).any():
        raise BadInput(f"{file}: no street in the area is open to pedestrians; give one with footways or side streets")
    return Streets(made.graph, (*notes, *made.notes(f"city: {file}")))


def read_osm(file: str, crs: str = "auto", origin_deg: Origin = None) -> tuple[StreetLines, tuple[str, ...]]:
    """The streets of a GeoJSON FeatureCollection, and notes on what is left out. Raises BadInput with one line.

    Features are LineStrings and MultiLineStrings with tags of OpenStreetMap, as exports of Overpass and osmnx hold
    them; see `tags.street_of`.

    crs : system of coordinates that neither look like degrees nor have a system stated in the file.
    origin_deg : a file in degrees needs it.
    """
    import shapely

    features = read_features(file)
    street = [street_of(tags) for tags in features.tags]
    line, feature = features.parts()
    skipped = Counter[str]()
    kept = np.zeros(len(line), dtype=np.bool_)
    for k, i in enumerate(feature.tolist()):
        found, kind = street[i], line[k].geom_type
        kept[k] = kind == "LineString" and not isinstance(found, str)
        if kind == "LineString" and isinstance(found, str):
            skipped[found] += 1
        elif kind != "LineString" and found != NO_HIGHWAY:
            skipped[kind] += 1
    line, feature = line[kept], feature[kept]
    streets = [found for i in feature if not isinstance(found := street[i], str)]
    if not streets:
        raise BadInput(
            f"{file}: features: there is no street in it{_had(skipped)}; give LineStrings with a tag highway"
        )
    vertex, owner = shapely.get_coordinates(line, return_index=True)
    crs = features.crs or ("lonlat" if spans_degrees(vertex) else crs)
    lon_lat = in_degrees(file, vertex, feature[owner], crs)
    if (lon_lat is None) != (origin_deg is None):
        says, remedy = (
            ("local metres and the buildings in degrees", "state the streets' system in the file's member crs")
            if lon_lat is None
            else ("degrees and the buildings in local metres", "set crs to that of the buildings, such as EPSG:32632")
        )
        raise BadInput(
            f"{file}: the streets are in {says}, so they share no origin; {remedy}, or give both in one system"
        )
    vertex_m = vertex if lon_lat is None or origin_deg is None else projected(lon_lat, origin_deg)
    lines = StreetLines(
        path=Paths.measured(vertex_m, np.bincount(owner)),
        street_class=np.array([each.street_class for each in streets]),
        speed_m_s=np.array([(each.forward_m_s, each.backward_m_s) for each in streets]),
        layer=np.array([each.layer for each in streets]),
    )
    n = skipped.total()
    return lines, (f"city: {file}: {n:,} of its shapes are no streets{_had(skipped)}",) if n else ()


def _had(skipped: Counter[str]) -> str:
    """The shapes that were found instead, the most frequent first."""
    kinds = [f"{count:,} {kind}" for kind, count in skipped.most_common()]
    if len(kinds) > _MAX_KINDS:
        kinds[_MAX_KINDS:] = [f"{len(kinds) - _MAX_KINDS} more kinds"]
    return f" ({', '.join(kinds)})" if kinds else ""

"""Footprints from GeoJSON features; those that are not buildings are counted."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.city.heights import HIGHEST_M, LEVEL_M, Height, height_of
from netsim.errors import BadInput
from netsim.maps.geojson import LINES, Refusal, absent, features_of, listed, parts_of, position, short, tags_of
from netsim.maps.plane import on_plane
from netsim.units import FloatArray, IntArray

_TAGS = ("building", "building:part")


@dataclass(frozen=True, eq=False)
class Outlines:
    """The buildings of a file: `footprint` (n,) valid polygons in local metres and `height_m` (n,).

    origin_deg : latitude and longitude of (0, 0), None for local metres.
    skipped : number of features, and of parts of features, that are not buildings, by type.
    by_levels, by_default : number of heights taken as levels times 3 m, and as the default. unread : the first value
    that is no height, as it is said, and the number of such values.
    """

    footprint: npt.NDArray[Any]
    height_m: FloatArray
    origin_deg: tuple[float, float] | None
    skipped: dict[str, int]
    by_levels: int
    by_default: int
    unread: tuple[str, int]

    def notes(self, file: str, lines_are_streets: bool = False) -> tuple[str, ...]:
        """Notes for the user on skipped features, other than lines that are streets, and on assumed heights."""
        notes = []
        skipped = {k: n for k, n in self.skipped.items() if not (lines_are_streets and k in LINES)}
        if n := sum(skipped.values()):
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in skipped.items())
            notes.append(f"city: {file}: {n:,} of its shapes are left out: {kinds}")
        example, odd = self.unread
        counts = (
            (self.by_levels, f"by their levels of {LEVEL_M:g} m"),
            (self.by_default, "by default_height_m"),
            (odd, f"values are no height, such as {example}"),
        )
        if said := ", ".join(f"{n:,} {what}" for n, what in counts if n):
            notes.append(f"city: {file}: heights of buildings: {said}")
        return tuple(notes)


@dataclass(frozen=True)
class _FlatPolygons:
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

    def add(self, polygon: Any, feature: int, height: Height, refuse: Refusal) -> None:
        for ring in listed(polygon, refuse, "a polygon is a list of rings"):
            corners = [position(p, refuse) for p in listed(ring, refuse, "a ring is a list of positions")]
            if len(corners) < 4 or corners[0] != corners[-1]:
                refuse(f"a ring of {len(corners)} positions is not closed", "end each ring where it begins")
            self.ring_of.extend([len(self.part_of)] * len(corners))
            self.part_of.append(len(self.feature))
            self.corner.extend(corners)
        self.feature.append(feature)
        self.height.append(height)

    def place(self, corner: int) -> str:
        """The feature that a corner belongs to, for messages."""
        return f"features[{self.feature[self.part_of[self.ring_of[corner]]]}]"


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
    features, stated = features_of(file)
    skipped: Counter[str] = Counter()
    flat = _FlatPolygons()
    tagged = any(_tagged(tags_of(each)) for each in features)
    for i, each in enumerate(features):
        refuse = Refusal(file, f"features[{i}]")
        if not isinstance(each, dict) or each.get("type") != "Feature":
            refuse(f"{short(each)} is not a Feature", "give Features with a Polygon each")
        properties = each.get("properties") or {}
        if not isinstance(properties, dict):
            refuse(f"properties: {short(properties)} is not an object", f'give {{"{height_property}": metres}}')
        polygons = parts_of(each.get("geometry"), "Polygon", refuse, skipped)
        if polygons and tagged and not _tagged(tags_of(each)):
            skipped["without a tag building"] += 1
            continue
        for polygon in polygons:
            flat.add(polygon, i, _height(tags_of(each), height_property, refuse), refuse)
    if not flat.feature:
        had = ", ".join(f"{count} {kind}" for kind, count in skipped.items())
        raise BadInput(
            f"{file}: features: there is no building in it{f' ({had})' if had else ''}; give at least one Polygon"
        )
    height_m = _heights_m(file, flat, height_property, default_height_m)
    crs = crs if crs != "auto" else stated or crs
    corner_m, origin = on_plane(file, np.array(flat.corner), crs, origin_deg, flat.place)
    footprint, polygon = _shapes(file, corner_m, flat, repair)
    unread = [h.unread for h in flat.height if h.unread is not None]
    return Outlines(
        footprint=footprint,
        height_m=height_m[polygon],
        origin_deg=origin,
        skipped=dict(skipped),
        by_levels=sum(h.by_levels for h in flat.height),
        by_default=sum(math.isnan(h.value_m) for h in flat.height),
        unread=(short(unread[0]) if unread else "", len(unread)),
    )


def _tagged(tags: dict[str, Any]) -> bool:
    """Whether the tags mark a building or a part of a building."""
    return any(not absent(value := tags.get(key)) and value not in ("no", False) for key in _TAGS)


def _height(tags: dict[str, Any], key: str, refuse: Refusal) -> Height:
    try:
        return height_of(tags, key)
    except ValueError as error:
        name = str(error)
        refuse(f"properties.{name}: {short(tags[name])} is not a height", f"give metres up to {HIGHEST_M:g}")


def _heights_m(file: str, flat: _FlatPolygons, key: str, default_m: float | None) -> FloatArray:
    """Height of each polygon (n,); the default for those that have none."""
    height_m = np.array([h.value_m for h in flat.height])
    none = np.flatnonzero(np.isnan(height_m))
    if none.size and default_m is None:
        first = flat.height[none[0]]
        what = "it has no height" if first.unread is None else f"{short(first.unread)} is not a height"
        others = f", nor have {none.size - 1:,} others of {len(height_m):,}" if none.size > 1 else ""
        refuse = Refusal(file, f"features[{flat.feature[none[0]]}]")
        refuse(f"properties.{first.source or key}: {what}{others}", "give one in m, or set default_height_m")
    return np.where(np.isnan(height_m), np.nan if default_m is None else default_m, height_m)


def _shapes(file: str, corner_m: FloatArray, flat: _FlatPolygons, repair: bool) -> tuple[npt.NDArray[Any], IntArray]:
    """Valid or repaired polygons (m,), and the index of the polygon of the file that each belongs to (m,)."""
    import shapely

    ring = shapely.linearrings(corner_m, indices=flat.ring_of)
    footprint = shapely.polygons(ring, indices=flat.part_of)
    bad = np.flatnonzero(~shapely.is_valid(footprint))
    if bad.size and not repair:
        reason = shapely.is_valid_reason(footprint[bad[0]])
        refuse = Refusal(file, f"features[{flat.feature[bad[0]]}]")
        refuse(f"geometry: not a valid polygon: {reason}", "mend it, or set repair: true")
    footprint[bad] = shapely.make_valid(footprint[bad], method="structure", keep_collapsed=False)
    part, of = shapely.get_parts(footprint, return_index=True)
    solid = (shapely.get_type_id(part) == shapely.GeometryType.POLYGON) & (shapely.area(part) > 0)
    if not solid.any():
        raise BadInput(f"{file}: no polygon is left after repair; give footprints that have an area")
    return part[solid], np.asarray(of[solid])

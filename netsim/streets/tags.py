"""Class, speeds and directions of a street from the tags of OpenStreetMap."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from netsim.maps.geojson import absent
from netsim.streets.graph import CLASSES, MODES
from netsim.streets.speeds import CYCLE_M_S, KM_H, WALK_M_S

Words = tuple[str, ...]
Tags = Mapping[str, Words]

_MILE_H = 1.609344 * KM_H
_KNOT = 1.852 * KM_H
_MAX_M_S = 300 * KM_H
_MAX_LENGTH = 10_000  # characters of a text of tags


@dataclass(frozen=True)
class StreetKind:
    """Meaning of a value of `highway`: class, speed of cars without a limit, and allowed modes."""

    street_class: str
    drive_km_h: float
    walk: bool = True
    cycle: bool = True


KINDS = {
    "motorway": StreetKind("primary", 100, walk=False, cycle=False),
    "motorway_link": StreetKind("primary", 60, walk=False, cycle=False),
    "trunk": StreetKind("primary", 70),
    "trunk_link": StreetKind("primary", 50),
    "primary": StreetKind("primary", 50),
    "primary_link": StreetKind("primary", 40),
    "secondary": StreetKind("secondary", 50),
    "secondary_link": StreetKind("secondary", 40),
    "tertiary": StreetKind("tertiary", 40),
    "tertiary_link": StreetKind("tertiary", 30),
    "unclassified": StreetKind("residential", 30),
    "residential": StreetKind("residential", 30),
    "road": StreetKind("residential", 30),
    "living_street": StreetKind("residential", 10),
    "service": StreetKind("service", 15),
    "track": StreetKind("path", 0),
    "pedestrian": StreetKind("pedestrian", 0, cycle=False),
    "footway": StreetKind("path", 0, cycle=False),
    "steps": StreetKind("path", 0, cycle=False),
    "path": StreetKind("path", 0),
    "bridleway": StreetKind("path", 0, cycle=False),
    "cycleway": StreetKind("path", 0),
}
"""Values of `highway` that are read as streets; others are left out and counted."""

NO_HIGHWAY = "without a tag highway"
_KEYS = (
    "highway", "area", "access", "foot", "bicycle", "vehicle", "motor_vehicle", "motorcar", "motorroad", "junction",
    "oneway", "oneway:bicycle", "maxspeed", "maxspeed:forward", "maxspeed:backward", "layer", "bridge", "tunnel",
)  # fmt: skip
_MAX_VALUES = 20  # of a tag
_MAX_LIST_LENGTH = 1000  # characters of a text with them
_LISTED = re.compile(r"(?:^\(\d+:)?([^][(){}'\",;]+)")
_CLOSED = frozenset(("no", "private", "agricultural", "forestry", "military", "emergency", "use_sidepath", "dismount"))
_OPEN = frozenset(("yes", "designated", "permissive", "destination", "customers", "official", "public"))
_OWN_KEYS = {"walk": ("foot",), "cycle": ("bicycle",), "drive": ("motorcar", "motor_vehicle")}  # may open a street
_GROUPS = {"walk": (), "cycle": ("vehicle",), "drive": ("vehicle",)}  # may close it
_SMALL_DRIVE_KM_H = 15  # where the tags let cars onto a street that is not made for them
_WORDS_M_S = {"walk": 7 * KM_H, "none": 130 * KM_H}
_LIMIT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*(km/?h|kph|mph|knots)?")
_UNITS = {"mph": _MILE_H, "knots": _KNOT}
_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"=>"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Street:
    """Index of the class, speeds of `MODES` along the line and against it in m/s, and the layer."""

    street_class: int
    forward_m_s: tuple[float, ...]
    backward_m_s: tuple[float, ...]
    layer: int


def street_of(tags: Mapping[str, Any]) -> Street | str:
    """The street that the tags describe, or why it is left out.

    Values may be lists, of which the first that is known counts, as in exports of simplified networks; also as text.

    Sources: OpenStreetMap wiki, pages `Key:highway`, `Key:access` (the more specific key counts), `Key:oneway`,
    `Key:maxspeed`, `Key:layer`. Speeds without a limit are judgement.
    """
    return _street_of(tuple(_words(tags.get(key)) for key in _KEYS))


@lru_cache(maxsize=10_000)  # most streets of a city have the same few tags
def _street_of(values: tuple[Words, ...]) -> Street | str:
    """`street_of` of the values of `_KEYS`."""
    tags = dict(zip(_KEYS, values, strict=True))
    highway = tags["highway"]
    if not highway:
        return NO_HIGHWAY
    kind = next((KINDS[value] for value in highway if value in KINDS), None)
    if kind is None:
        return f"highway={highway[0][:20]}"
    if "yes" in tags["area"]:
        return "areas"
    open_to = [_is_open(tags, mode, usually) for mode, usually in zip(MODES, _usual(tags, kind), strict=True)]
    if not any(open_to):
        return "closed to all modes"
    drive = (kind.drive_km_h or _SMALL_DRIVE_KM_H) * KM_H
    limit, there, back = (_limit_m_s(tags[f"maxspeed{way}"]) for way in ("", ":forward", ":backward"))
    along, against = _directions(tags)
    forward = WALK_M_S, CYCLE_M_S, there or limit or drive
    backward = WALK_M_S, CYCLE_M_S, back or limit or drive
    return Street(
        street_class=CLASSES.index(kind.street_class),
        forward_m_s=tuple(v if o and a else 0.0 for v, o, a in zip(forward, open_to, along, strict=True)),
        backward_m_s=tuple(v if o and a else 0.0 for v, o, a in zip(backward, open_to, against, strict=True)),
        layer=_layer(tags),
    )


def with_other_tags(tags: Mapping[str, Any]) -> Mapping[str, Any]:
    r"""Tags with those that GDAL packs into one text, `other_tags`: "oneway"=>"yes","layer"=>"1"."""
    packed = tags.get("other_tags")
    if not isinstance(packed, str) or len(packed) > _MAX_LENGTH:
        return tags
    return {**dict(_PAIR.findall(packed)), **tags}


def _usual(tags: Tags, kind: StreetKind) -> tuple[bool, bool, bool]:
    """Which modes may use a street where no tag says otherwise."""
    motorroad = "yes" in tags["motorroad"]
    return kind.walk and not motorroad, kind.cycle and not motorroad, kind.drive_km_h > 0


def _is_open(tags: Tags, mode: str, usually: bool) -> bool:
    """Whether a mode may use the street: the most specific key with a known value decides."""
    for key in _OWN_KEYS[mode]:
        value = _first(tags[key])
        if value in _OPEN:
            return True
        if value in _CLOSED:
            return False
    for key in (*_GROUPS[mode], "access"):
        value = _first(tags[key])
        if value in _CLOSED:
            return False
        if value in _OPEN:
            return usually
    return usually


def _directions(tags: Tags) -> tuple[tuple[bool, bool, bool], tuple[bool, bool, bool]]:
    """Which modes may go along the line, and which against it; pedestrians always may."""
    one_way = _first(tags["oneway"])
    if one_way in ("yes", "true", "1"):
        along, against = True, False
    elif one_way in ("-1", "reverse"):
        along, against = False, True
    elif one_way in ("no", "false", "0"):
        along, against = True, True
    else:
        round_ = _first(tags["junction"]) in ("roundabout", "circular")
        along, against = True, not (round_ or "motorway" in tags["highway"])
    both = _first(tags["oneway:bicycle"]) in ("no", "false", "0")
    return (True, along or both, along), (True, against or both, against)


def _limit_m_s(values: Words) -> float | None:
    """A speed limit: km/h, "30 mph", "walk", "none"; the first that can be read. None where there is none."""
    for word in values:
        if word in _WORDS_M_S:
            return _WORDS_M_S[word]
        match = _LIMIT.fullmatch(word)
        if match:
            speed_m_s = float(match[1]) * _UNITS.get(match[2] or "", KM_H)
            if 0 < speed_m_s <= _MAX_M_S:
                return speed_m_s
    return None


def _layer(tags: Tags) -> int:
    """The tag layer, else 1 for a bridge and -1 for a tunnel."""
    for value in tags["layer"]:
        if re.fullmatch(r"[+-]?\d", value):
            return int(value)
    if _first(tags["bridge"]) not in ("", "no", "false"):
        return 1
    return -1 if _first(tags["tunnel"]) in ("yes", "true", "culvert") else 0


def _words(value: Any) -> Words:
    """The values of a tag in lower case: of a list, or of one text that may hold several.

    A text has them with semicolons, or as tools print a list: ['30', '50'] or (2:30,50).
    """
    if value is None or absent(value) or isinstance(value, dict):
        return ()
    if isinstance(value, list):
        return tuple(word for each in value[:_MAX_VALUES] if not isinstance(each, list) for word in _words(each))
    if isinstance(value, bool):
        return ("yes",) if value else ("no",)
    text = str(value).strip()[:_MAX_LIST_LENGTH]
    words = _LISTED.findall(text) if text[:1] in ("[", "(", "{") else text.split(";")
    return tuple(word.strip().lower().removesuffix(".0") for word in words[:_MAX_VALUES] if not absent(word))


def _first(values: Words) -> str:
    return values[0] if values else ""

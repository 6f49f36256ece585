"""Streets of OpenStreetMap from GeoJSON: class, speeds and directions by the tags of a line."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.fit import read_toml
from netsim.maps import convert_to_degrees, is_absent, project_lon_lat, read_features, spans_degrees
from netsim.notice import Notice, notice
from netsim.streets.assembly import StreetLines
from netsim.streets.graph import CLASSES, CYCLE_M_S, KM_H, MODES, WALK_M_S, Paths
from netsim.units import FloatArray, LatLon, Texts

Words = Texts

_MAX_M_S = 300 * KM_H
_MAX_VALUES = 20  # of a tag
_MAX_KINDS = 6  # named in a note
_MAX_LENGTH = 1000  # characters of a text with them


@dataclass(frozen=True)
class StreetKind:
    """Meaning of a value of `highway`: class, speed of cars without a limit, and allowed modes."""

    street_class: str
    drive_km_h: float
    walk: bool = True
    cycle: bool = True


KINDS = {name: StreetKind(**kind) for name, kind in read_toml(__package__, "highways.toml").items()}
"""Values of `highway` that are read as streets; others are left out and counted."""

_NO_HIGHWAY = "without a tag highway"
_LISTED = re.compile(r"(?:^\(\d+:)?([^][(){}'\",;]+)")
_CLOSED = frozenset(
    (
        "no",
        "private",
        "agricultural",
        "forestry",
        "military",
        "emergency",
        "use_sidepath",
        "dismount",
    )
)
_OPEN = frozenset(
    ("yes", "designated", "permissive", "destination", "customers", "official", "public")
)
_ACCESS = {
    "walk": ("foot", "access"),
    "cycle": ("bicycle", "vehicle", "access"),
    "drive": ("motorcar", "motor_vehicle", "vehicle", "access"),
}
"""Keys of a mode, the most specific first."""
_GROUPS = (
    "vehicle",
    "access",
)  # may close a street, but not open it to a mode that usually may not use it
_ONE_WAY = (
    dict.fromkeys(("yes", "true", "1"), (True, False))
    | dict.fromkeys(("-1", "reverse"), (False, True))
    | dict.fromkeys(("no", "false", "0"), (True, True))
)
"""Values of `oneway` -> whether the street is open along the line, and against it."""
_SMALL_DRIVE_KM_H = 15  # where the tags let cars onto a street that is not made for them
_WORDS_M_S = {"walk": 7 * KM_H, "none": 130 * KM_H}
_LIMIT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*(km/h|kmh|kph|mph)?")
_MILE_H = 1.609344 * KM_H


@frozen
class StreetTags:
    """What tags say of a street: index of the class, speeds (2, 3) of `MODES` along the line and
    against it in m/s, and the layer.
    """

    street_class: int
    speed_m_s: FloatArray
    layer: int


def parse_street(tags: Mapping[str, object]) -> StreetTags | str:
    """What the tags say of a street, or why it is left out.

    Values may be lists, of which the first that is known counts, as in exports of simplified
    networks; also as text.

    Sources: OpenStreetMap wiki, pages `Key:highway`, `Key:access` (the more specific key counts),
    `Key:oneway`, `Key:maxspeed`, `Key:layer`. Speeds without a limit are judgement.
    """
    words = defaultdict(tuple, {key: _split_words(value) for key, value in tags.items()})
    highway = words["highway"]
    if not highway:
        return _NO_HIGHWAY
    kind = next((KINDS[value] for value in highway if value in KINDS), None)
    if kind is None:
        return f"highway={highway[0][:20]}"
    if "yes" in words["area"]:
        return "areas"
    usual = (kind.walk, kind.cycle, kind.drive_km_h > 0)
    open_to = np.array(
        [_is_open(words, mode, usually) for mode, usually in zip(MODES, usual, strict=True)]
    )
    if not open_to.any():
        return "closed to all modes"
    limit_m_s = _parse_limit_m_s(words["maxspeed"]) or (kind.drive_km_h or _SMALL_DRIVE_KM_H) * KM_H
    drive_m_s = [
        _parse_limit_m_s(words[f"maxspeed:{way}"]) or limit_m_s for way in ("forward", "backward")
    ]
    fastest_m_s = np.array([[WALK_M_S, CYCLE_M_S, speed] for speed in drive_m_s])
    return StreetTags(
        CLASSES.index(kind.street_class),
        open_to * _read_open_directions(words) * fastest_m_s,
        _infer_layer(words),
    )


def _is_open(words: Mapping[str, Words], mode: str, usually: bool) -> bool:
    """Whether a mode may use the street: the most specific key with a known value decides."""
    for key in _ACCESS[mode]:
        value = _pick_first(words[key])
        if value in _CLOSED:
            return False
        if value in _OPEN:
            return usually or key not in _GROUPS
    return usually


def _read_open_directions(words: Mapping[str, Words]) -> FloatArray:
    """Whether each mode may go along the line, and against it (2, 3), 0 or 1; pedestrians always
    may.
    """
    round_ = (
        _pick_first(words["junction"]) in ("roundabout", "circular")
        or "motorway" in words["highway"]
    )
    ways = np.array(_ONE_WAY.get(_pick_first(words["oneway"]), (True, not round_)))
    both = _pick_first(words["oneway:bicycle"]) in ("no", "false", "0")
    return np.stack([np.ones(2), ways | both, ways], axis=1)


def _parse_limit_m_s(values: Words) -> float | None:
    """A speed limit: km/h, "30 mph", "walk", "none"; the first that can be read. None where there
    is none.
    """
    for word in values:
        if word in _WORDS_M_S:
            return _WORDS_M_S[word]
        if match := _LIMIT.fullmatch(word):
            speed_m_s = float(match[1]) * (_MILE_H if match[2] == "mph" else KM_H)
            if 0 < speed_m_s <= _MAX_M_S:
                return speed_m_s
    return None


def _infer_layer(words: Mapping[str, Words]) -> int:
    for value in words["layer"]:
        if re.fullmatch(r"[+-]?\d", value):
            return int(value)
    if _pick_first(words["bridge"]) not in ("", "no", "false"):
        return 1
    if _pick_first(words["tunnel"]) in ("yes", "true", "culvert"):
        return -1
    return 0


def _split_words(value: object) -> Words:
    """The values of a tag in lower case: of a list, or of one text that may hold several.

    A text has them with semicolons, or as tools print a list: ['30', '50'] or (2:30,50).
    """
    if isinstance(value, list):
        return tuple(
            word
            for item in value[:_MAX_VALUES]
            if not isinstance(item, list)
            for word in _split_words(item)
        )
    if is_absent(value) or isinstance(value, dict):
        return ()
    if isinstance(value, bool):
        if value:
            return ("yes",)
        return ("no",)
    text = str(value).strip()[:_MAX_LENGTH]
    words = _LISTED.findall(text) if text[:1] in ("[", "(", "{") else text.split(";")
    return tuple(
        word.strip().lower().removesuffix(".0")
        for word in words[:_MAX_VALUES]
        if not is_absent(word)
    )


def _pick_first(values: Words) -> str:
    if values:
        return values[0]
    return ""


def read_osm(
    file: str, fallback_crs: str = "auto", origin_deg: LatLon | None = None
) -> tuple[StreetLines, tuple[Notice, ...]]:
    """The streets of a GeoJSON FeatureCollection, and notices on what is left out. Raises BadInput
    with one line.

    Features are LineStrings and MultiLineStrings with tags of OpenStreetMap, as exports of Overpass
    and osmnx hold them; see `parse_street`.

    fallback_crs : system of coordinates that neither look like degrees nor have a system stated in
    the file. origin_deg : latitude and longitude of (0, 0), None for local metres. A file in
    degrees needs it.
    """
    import shapely

    features = read_features(file)
    street = [parse_street(tags) for tags in features.tags]
    line, feature = features.list_parts()
    skipped = Counter[str]()
    streets = []
    kept = []
    for k, (shape, i) in enumerate(zip(line, feature.tolist(), strict=True)):
        if shape.geom_type == "LineString" or street[i] == _NO_HIGHWAY:
            reason = street[i]
        else:
            reason = shape.geom_type
        if isinstance(reason, StreetTags):
            streets.append(reason)
            kept.append(k)
        elif reason != _NO_HIGHWAY or shape.geom_type == "LineString":
            skipped[reason] += 1
    line = line[kept]
    feature = feature[kept]
    if not streets:
        raise BadInput(
            f"{file}: features: there is no street in it{_format_skipped(skipped)}; give "
            f"LineStrings with a tag highway"
        )
    vertex, owner = shapely.get_coordinates(line, return_index=True)
    crs = features.crs or ("lonlat" if spans_degrees(vertex) else fallback_crs)
    lon_lat = convert_to_degrees(file, vertex, feature[owner], crs)
    if (lon_lat is None) != (origin_deg is None):
        says = "degrees and the buildings in local metres"
        remedy = "set crs to that of the buildings, such as EPSG:32632"
        if lon_lat is None:
            says = "local metres and the buildings in degrees"
            remedy = "state the streets' system in the file's member crs"
        raise BadInput(
            f"{file}: the streets are in {says}, so they share no origin; {remedy}, or "
            f"give both in one system"
        )
    if lon_lat is None or origin_deg is None:
        vertex_m = vertex
    else:
        vertex_m = project_lon_lat(lon_lat, origin_deg)
    lines = StreetLines(
        path=Paths.from_vertices(vertex_m, np.bincount(owner)),
        street_class=np.array([piece.street_class for piece in streets]),
        speed_m_s=np.array([piece.speed_m_s for piece in streets]),
        layer=np.array([piece.layer for piece in streets]),
    )
    n = skipped.total()
    return lines, (
        notice("streets-shapes-left-out", file=file, number=n, found=_format_skipped(skipped)),
    ) if n else ()


def _format_skipped(skipped: Counter[str]) -> str:
    """The shapes that were found instead, the most frequent first."""
    kinds = [f"{count:,} {kind}" for kind, count in skipped.most_common()]
    if len(kinds) > _MAX_KINDS:
        kinds[_MAX_KINDS:] = [f"{len(kinds) - _MAX_KINDS} more kinds"]
    if kinds:
        return f" ({', '.join(kinds)})"
    return ""

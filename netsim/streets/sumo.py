"""Streets of a SUMO network, ``<edge from to><lane speed shape/></edge>``, streamed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from netsim.errors import BadInput
from netsim.maps import convert_to_lon_lat, project_lon_lat
from netsim.notice import Notice, notice
from netsim.streets.assembly import StreetLines
from netsim.streets.graph import CLASSES, CYCLE_M_S, DRIVE, KM_H, WALK_M_S, Paths
from netsim.streets.osm import KINDS
from netsim.traces.source import Attributes, XmlFile
from netsim.traces.values import quote_text, to_number
from netsim.units import FloatArray, FloatPair, LatLon

_VEHICLES = ("pedestrian", "bicycle", "passenger")  # SUMO's words for `MODES`
_MAX_EDGES = 1_000_000
_MAX_VERTICES = 10_000_000
_MAX_ABS = 1e8  # coordinate
_MAX_M_S = 300 * KM_H
_APART_M = 0.01  # of the first vertex of an edge from its junction
_CLASS_FROM_M_S = (
    (70 * KM_H, "primary"),
    (40 * KM_H, "secondary"),
    (0.0, "residential"),
)  # of edges without a type
_MAX_PROJECTION = 500  # characters
_PARAMETER = re.compile(
    r"\+?(?:proj=(?:utm|e?tmerc|(?:web)?merc|lcc|laea|aea|aeqd|sterea?|somerc|eqc|cass)|(?:ellps|datum)=\w{1,20}"
    r"|(?:lat_[012]|lon_0|lat_ts|k|k_0|x_0|y_0|a|b|rf|R|zone|towgs84)=[\d.eE+,-]{1,99}"
    r"|south|no_defs|wktext|over|units=m|type=crs|nadgrids=@null)"
)
"""Parameters of PROJ that name no file and no chain of operations."""

Place = FloatPair


@dataclass
class _SumoEdge:
    """An edge as the file has it; `speed_m_s` (3,) is the highest of the lanes that are open to a
    mode, 0 for none.
    """

    tail: str
    head: str
    kind: str
    shape: list[Place]
    lanes: list[list[Place]] = field(default_factory=list)
    speed_m_s: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])


def read_sumo(
    file: str, origin_deg: LatLon | None = None
) -> tuple[StreetLines, tuple[Notice, ...], NetLocation]:
    """The streets of a SUMO network, notices on what is left out, and where it lies. Raises
    BadInput with one line.

    An edge runs from the centre of one junction to that of the next, along its shape, or the mean
    shape of its lanes. Pedestrians, bicycles and passenger cars may use it where one of its lanes
    is open to them, cars at the lane's speed, pedestrians in both directions. The class is that of
    the edge's type (``highway.residential``), or else by speed: primary from 70 km/h, secondary
    from 40 km/h, residential below. Edges with a `function` (inside junctions, crossings) are left
    out. Edges meet at junctions only.

    origin_deg : latitude and longitude of (0, 0), None for local metres: the coordinates that the
    network was made
        from, without its `netOffset`. A network with a projection needs an origin, one without
        needs none.
    """
    net = _SumoNet(file, origin_deg)
    return _build_lines(net), net.notices(), net.location


@dataclass(frozen=True)
class NetLocation:
    """Where a network lies: its file, its `netOffset`, the parameters of its projection for PROJ,
    empty for none, and latitude and longitude of (0, 0) of the plane.
    """

    file: str
    offset_m: Place = (0.0, 0.0)
    projection: str = ""
    origin_deg: LatLon | None = None

    def to_plane_m(self, position_m: FloatArray) -> FloatArray:
        """Positions (n, 2) of the network, as SUMO's output has them, on the plane."""
        if bool(self.projection) != (self.origin_deg is not None):
            says = "a projection and the buildings have none"
            remedy = "set crs to that of the buildings, or make it without"
            if not self.projection:
                says = "no projection and the city an origin in degrees"
                remedy = (
                    "make the network with one (netconvert --proj.utm), or leave origin_deg out"
                )
            raise BadInput(
                f"{self.file}: location: the network has {says}, so they share no origin; {remedy}"
            )
        if self.origin_deg is None:
            return position_m - self.offset_m
        return project_lon_lat(self.to_lon_lat(position_m), self.origin_deg)

    def to_lon_lat(self, position_m: FloatArray) -> FloatArray:
        """Longitude and latitude (n, 2) of positions in a network with a projection."""
        place = f"{self.file}: projParameter"
        words = self.projection
        if len(words) > _MAX_PROJECTION or not all(map(_PARAMETER.fullmatch, words.split())):
            raise BadInput(
                f"{place}: {quote_text(words)} is no projection in m that is read; "
                "give one such as "
                "+proj=utm +zone=32 +ellps=WGS84 +units=m"
            )
        return convert_to_lon_lat(place, words, position_m - self.offset_m)


class _SumoNet(XmlFile):
    def __init__(self, path: str, origin_deg: LatLon | None) -> None:
        super().__init__(path, "SUMO network")
        self.edges: list[_SumoEdge] = []
        self.junction: dict[str, Place] = {}
        self.location = NetLocation(path, origin_deg=origin_deg)
        self.closed = self.inner = 0
        self._edge: _SumoEdge | None = None
        self._vertices = 0
        self._root = ""
        self.read(self._begin, self._end)
        if not self.edges:
            raise BadInput(
                f"{path}: there is no edge in it that pedestrians, bicycles or cars may "
                f"use; give a SUMO net.xml"
            )

    def _begin(self, name: str, attributes: Attributes) -> None:
        if not self._root:
            self._root = name
            if name != "net":
                self.refuse(
                    f"<{quote_text(name, quote=False)}> is not a SUMO network; give a file "
                    f"that netconvert wrote"
                )
        elif name == "location":
            offset_m = self._parse_places(attributes.get("netOffset", "0,0"))[0]
            projection = attributes.get("projParameter", "").strip().removeprefix("!")
            self.location = NetLocation(
                self.source.path, offset_m, projection, self.location.origin_deg
            )
        elif name == "edge":
            self._begin_edge(attributes)
        elif name == "lane":
            self._add_lane(attributes)
        elif name == "junction" and attributes.get("type") != "internal":
            place = f"{attributes.get('x', '')},{attributes.get('y', '')}"
            self.junction[attributes.get("id", "")] = self._parse_places(place)[0]

    def _end(self, name: str, text: str) -> None:
        if name == "edge" and self._edge is not None:
            if any(self._edge.speed_m_s):
                self.edges.append(self._edge)
            else:
                self.closed += 1
            self._edge = None

    def notices(self) -> tuple[Notice, ...]:
        counts = (
            (self.closed, f"are open to none of {', '.join(_VEHICLES)}"),
            (self.inner, "are inside junctions, or crossings"),
        )
        return tuple(
            notice("streets-edges-left-out", file=self.source.path, number=n, why=reason)
            for n, reason in counts
            if n
        )

    def _begin_edge(self, attributes: Attributes) -> None:
        self._edge = None
        if attributes.get("function", "normal") != "normal":
            self.inner += 1
            return
        if len(self.edges) >= _MAX_EDGES:
            self.refuse(f"more than {_MAX_EDGES:,} edges; cut a part out")
        try:
            tail = attributes["from"]
            head = attributes["to"]
        except KeyError:
            self.refuse(
                f"edge {quote_text(attributes.get('id', ''))} without from or to; "
                f"give both junctions"
            )
        shape = attributes.get("shape", "")
        self._edge = _SumoEdge(
            tail,
            head,
            attributes.get("type", ""),
            self._parse_places(shape) if shape.strip() else [],
        )

    def _add_lane(self, attributes: Attributes) -> None:
        edge = self._edge
        if edge is None:
            return
        speed_m_s = to_number(attributes.get("speed", ""))
        if not 0 < speed_m_s < math.inf:
            self.refuse(
                f"speed {quote_text(attributes.get('speed', ''))} of a lane is not a number "
                f"above 0; give m/s"
            )
        fastest = WALK_M_S, CYCLE_M_S, min(speed_m_s, _MAX_M_S)
        for mode, open_to in enumerate(_find_open_modes(attributes)):
            edge.speed_m_s[mode] = max(edge.speed_m_s[mode], open_to * fastest[mode])
        if not edge.shape and attributes.get("shape", "").strip():
            edge.lanes.append(self._parse_places(attributes["shape"]))

    def _parse_places(self, text: str) -> list[Place]:
        """Positions of a text such as ``0.00,5.50 20.10,5.50``; heights are ignored."""
        places = []
        for word in text.split():
            values = [to_number(value) for value in word.split(",")]
            if len(values) not in (2, 3) or not all(abs(value) <= _MAX_ABS for value in values):
                self.refuse(
                    f"{quote_text(word)} is not a position x,y of finite metres; correct it"
                )
            places.append((values[0], values[1]))
        if not places:
            self.refuse(f"{quote_text(text)} is no position; give x,y in m")
        self._vertices += len(places)
        if self._vertices > _MAX_VERTICES:
            self.refuse(f"more than {_MAX_VERTICES:,} positions; cut a part out")
        return places


def _find_open_modes(lane: Attributes) -> list[bool]:
    """Which of `MODES` a lane is open to: SUMO's `allow`, else all that `disallow` does not
    name.
    """
    allows = "allow" in lane
    words = lane.get("allow" if allows else "disallow", "").split()
    return [(vehicle in words or "all" in words) == allows for vehicle in _VEHICLES]


def _build_lines(net: _SumoNet) -> StreetLines:
    """All edges as lines; those between the same two junctions share a layer, because others never
    meet them.
    """
    vertices = [_build_line(net, edge) for edge in net.edges]
    layers: dict[frozenset[str], int] = {}
    vertex_m = net.location.to_plane_m(np.array(list(chain.from_iterable(vertices))))
    count = np.array([len(line) for line in vertices])
    street_class = np.array([CLASSES.index(_find_class(edge)) for edge in net.edges])
    speed_m_s = np.array([edge.speed_m_s for edge in net.edges])[:, None]
    return StreetLines(
        path=Paths.from_vertices(vertex_m, count),
        street_class=street_class,
        speed_m_s=speed_m_s * [[1, 1, 1], [1, 0, 0]],
        layer=np.array(
            [layers.setdefault(frozenset((e.tail, e.head)), len(layers)) for e in net.edges]
        ),
    )


def _build_line(net: _SumoNet, edge: _SumoEdge) -> list[Place]:
    for junction in (edge.tail, edge.head):
        if junction not in net.junction:
            raise BadInput(
                f"{net.source.path}: junction {quote_text(junction)} of an edge is not in the "
                f"file; give the whole network"
            )
    start = net.junction[edge.tail]
    end = net.junction[edge.head]
    shape = edge.shape or _average_lanes(edge.lanes)
    inner = [
        place for place in shape if min(math.dist(place, start), math.dist(place, end)) > _APART_M
    ]
    return [start, *inner, end]


def _average_lanes(lanes: list[list[Place]]) -> list[Place]:
    """The mean shape of lanes that bend; nothing for straight ones, which run beside the line
    between the junctions.
    """
    alike = [lane for lane in lanes if len(lane) == len(lanes[0]) > 2]
    if alike:
        mean_m = np.mean(alike, axis=0)[1:-1]
        return [(x, y) for x, y in mean_m.tolist()]
    return []


def _find_class(edge: _SumoEdge) -> str:
    for word in edge.kind.split("|"):
        if kind := KINDS.get(word.removeprefix("highway.")):
            return kind.street_class
    if not edge.speed_m_s[DRIVE]:
        return "path"
    return next(name for min_m_s, name in _CLASS_FROM_M_S if edge.speed_m_s[DRIVE] >= min_m_s)

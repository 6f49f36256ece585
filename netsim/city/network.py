"""A city from a street network alone: its streets, and buildings that are generated along them."""

from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from netsim.city.base import City, OriginDeg
from netsim.city.buildings import Buildings
from netsim.city.town import Roads, TownPlan, buildings_of, faces
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.maps import check_origin
from netsim.notice import Notice
from netsim.part import FILE_NAME
from netsim.rng import Streams
from netsim.safe import file_version
from netsim.streets.assembly import assemble
from netsim.streets.graph import StreetGraph
from netsim.streets.sumo import NetLocation, read_sumo
from netsim.units import LatLon

_DEPTH_M = 60.0  # of the ground along a street on which buildings stand
_MAX_SIDE_M = 20e3


class SumoCity(City):
    """The streets of a SUMO network, and buildings along them that are drawn as those of `town`.

    A network with a projection is placed by it, with the middle of its junctions as (0, 0) unless `origin_deg` sets
    another origin; one without has the
    coordinates before netconvert moved it by `netOffset`. A replayed trace that SUMO wrote (FCD) in metres is in the
    coordinates of the network, and is moved with it. The area is the bounding box of the streets, extended by
    `margin_m`. Ground within 60 m of a street, but for the streets, is divided into lots with buildings of one to eight
    floors, by the seed; the network says nothing of real ones, whose footprints the city `footprints` takes.
    """

    reference = "SUMO networks, sumo.dlr.de/docs/Networks/SUMO_Road_Networks.html; buildings as city town"
    example = {"kind": "sumo", "file": "town.net.xml"}
    offers = frozenset({"buildings", "streets"})

    is_made_up = False
    kind: Literal["sumo"] = "sumo"
    file: Annotated[str, FILE_NAME] = Field(min_length=1)
    """path of a SUMO network (.net.xml, .net.xml.gz)"""
    margin_m: float = Field(50.0, ge=1, le=1e4)
    """width of the ground around the streets, m"""
    origin_deg: OriginDeg | None = None
    """latitude and longitude of (0, 0), for a network with a projection; none: the middle of its junctions"""

    def area(self, trace_area: Area | None) -> Area:
        return Area.around(self._read().graph.path.vertex_m).grown(self.margin_m)

    def origin(self) -> LatLon | None:
        return self._read().location.origin_deg

    def network(self) -> NetLocation:
        return self._read().location

    def notices(self, known: Any) -> tuple[Notice, ...]:
        return self._read().notices

    def street_graph(self, area: Area, streams: Streams) -> StreetGraph:
        return self._read().graph

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        return _drawn(self, streams.seed, file_version(self.file))

    def _read(self) -> "_Network":
        return _read(self.file, self.origin_deg, file_version(self.file))


class _Network(NamedTuple):
    """The streets of a file, notices on them, and where they lie."""

    graph: StreetGraph
    notices: tuple[Notice, ...]
    location: NetLocation


@lru_cache(maxsize=1)
def _read(file: str, origin_deg: LatLon | None, version: tuple[int, int]) -> _Network:
    """Streets, notices and location of a file; `version` tells a changed file from the one in memory."""
    lines, notices, location = read_sumo(file, origin_deg, is_alone=True)
    if origin_deg is not None:
        check_origin(file, lines.path.vertex_m)
    side_m = np.ptp(lines.path.vertex_m, axis=0)
    if side_m.max() > _MAX_SIDE_M:
        raise BadInput(
            f"{file}: {side_m[0]:.0f} x {side_m[1]:.0f} m, at most {_MAX_SIDE_M:g} m are drawn; cut a part out"
        )
    made = assemble(lines, 0.0)
    made.check(file)
    return _Network(made.graph, (*notices, *made.notices(file)), location)


@lru_cache(maxsize=1)
def _drawn(city: SumoCity, seed: int, version: tuple[int, int]) -> Buildings:
    """The buildings of a seed, drawn once."""
    import shapely

    streams = Streams(seed)
    area = city.area(None)
    graph = city.street_graph(area, streams)
    roads = Roads(graph.path.lines(), graph.street_class)
    border = shapely.boundary(shapely.box(*area.low_m, *area.high_m))
    ground = shapely.union_all(shapely.buffer(roads.line, _DEPTH_M))
    blocks = shapely.get_parts(shapely.intersection(faces(np.append(roads.line, border), []), ground))
    return buildings_of(TownPlan(roads, blocks, None, None), area, streams.at("city.sumo"))

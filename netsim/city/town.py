"""A generated town: irregular blocks, main and side streets, buildings with floors, a park, a river or railway."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.city.base import City
from netsim.city.buildings import Buildings
from netsim.city.town_plan import WIDTH_M, Shapes, TownPlan, lots, planned
from netsim.geometry import Area
from netsim.rng import Rng, Streams
from netsim.streets.assembly import StreetLines, assemble
from netsim.streets.graph import StreetGraph
from netsim.streets.paths import Paths
from netsim.ues import STOREY_M
from netsim.units import FloatArray, IntArray

_LOT_M2, _LOT_SPREAD = 700.0, (0.7, 1.6)
_BUILT = 0.85  # share of lots with a building
_INSET_M = (2.0, 4.5)  # between a building and the border of its lot
_MIN_AREA_M2 = 60.0  # of a building
_FLOORS_CENTRE, _FLOORS_FALL, _FLOORS_STD = 6.0, 3.5, 1.2
_MAX_FLOORS = 8  # [TR 38.901, Section 7.2]: UEs at most 22.5 m high, up to which its laws were published
_BRIDGE_EVERY_M = 100.0


class Town(City):
    r"""A town drawn from the seed, on streets that are no grid.

    The steps, with g = 145 m::

        junctions   a square grid of side g, each moved by N(0, (0.18 g)^2) per axis, cut at 0.35 g;
                    the border stays straight
        streets     every fourth line is a main street (18 to 22 m wide); 18 % of the other segments are left out;
                    blocks above 14,000 m^2 are split across their longer side at U(0.4, 0.6) by side streets (14 m),
                    which are pedestrian streets (10 m) in the centre
        barrier     a river (60 m) or railway (24 m) with streets along both sides and `crossings` bridges
        park        four cells of the grid with footpaths
        lots        blocks without the streets, split in the same way to 700 U(0.7, 1.6) m^2
        buildings   on 85 % of the lots, U(2, 4.5) m from their borders, at least 60 m^2
        floors      round(N(6 - 3.5 r / (L / 2), 1.2^2)) within 1 to 8, 3 m each; r is the distance from the centre,
                    L the shorter side

    The south-west corner is (0, 0). The same seed gives the same town.
    """

    reference: ClassVar = (
        "own generator; jittered grid and recursive lots after Parish and Mueller, 'Procedural modeling of cities', "
        "SIGGRAPH 2001, and Vanegas et al., 'Procedural generation of parcels', Eurographics 2012"
    )
    example: ClassVar = {"kind": "town", "width_m": 400, "height_m": 400}
    offers: ClassVar = frozenset({"buildings", "streets"})

    kind: Literal["town"] = "town"
    width_m: float = Field(default=2000.0, ge=300, le=6000)
    """east-west side of the area, m"""
    height_m: float = Field(default=2000.0, ge=300, le=6000)
    """north-south side of the area, m"""
    barrier: Literal["river", "railway", "none"] = "river"
    """what divides the town and is crossed by bridges only"""
    crossings: int = Field(default=3, ge=1, le=20)
    """number of bridges over the barrier, at about equal distances; at most one for 100 m of the shorter side"""
    park: bool = True
    """whether there is a park of about 290 x 290 m; a town below 800 m may have no room for one"""

    @model_validator(mode="after")
    def _spaced(self) -> Self:
        most = int(min(self.width_m, self.height_m) // _BRIDGE_EVERY_M)
        if self.barrier != "none" and self.crossings > most:
            raise ValueError(f"crossings: {self.crossings} bridges are too close in this area; give at most {most}")
        return self

    def area(self, trace_area: Area | None) -> Area:
        return Area(0.0, 0.0, self.width_m, self.height_m)

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        return drawn(self, streams.seed).buildings

    def street_graph(self, area: Area, streams: Streams) -> StreetGraph:
        return drawn(self, streams.seed).graph

    def scenery(self, area: Area, streams: Streams) -> tuple[tuple[str, FloatArray], ...]:
        return drawn(self, streams.seed).scenery


@dataclass(frozen=True, eq=False)
class DrawnTown:
    """A drawn town."""

    buildings: Buildings
    graph: StreetGraph
    scenery: tuple[tuple[str, FloatArray], ...]


@lru_cache(maxsize=4)  # buildings, streets and scenery of one town are asked for one after another
def drawn(town: Town, seed: int) -> DrawnTown:
    """The town of a seed, drawn once."""
    rng = Streams(seed).at("city.town")
    area = town.area(None)
    plan = planned(area, town.barrier, town.crossings, town.park, rng)
    return DrawnTown(_buildings(plan, area, rng), _graph(plan), _scenery(plan, town.barrier))


def _buildings(plan: TownPlan, area: Area, rng: Rng) -> Buildings:
    import shapely

    def target_m2(number: IntArray) -> FloatArray:
        return _LOT_M2 * _between(_LOT_SPREAD, rng.uniform("size", number))

    lot = lots(_open_ground(plan), target_m2, rng)
    which = np.arange(len(lot))
    unit = rng.uniform("building", which, (2,))
    inset_m = _between(_INSET_M, unit[:, 1])
    shape = _largest(shapely.buffer(lot, -inset_m, join_style="mitre"))
    stands = (unit[:, 0] < _BUILT) & (shapely.area(shape) >= _MIN_AREA_M2)
    shape, which = shape[stands], which[stands]
    away_m = np.linalg.norm(shapely.get_coordinates(shapely.centroid(shape)) - area.centre_m, axis=1)
    mean = _FLOORS_CENTRE - _FLOORS_FALL * away_m / (float(area.side_m.min()) / 2)
    floors = np.clip(np.round(mean + _FLOORS_STD * rng.normal("floors", which)), 1, _MAX_FLOORS)
    return Buildings(shape, STOREY_M * floors)


def _open_ground(plan: TownPlan) -> Shapes:
    """The blocks without the streets, whose widths go by class."""
    import shapely

    width_m = np.array([WIDTH_M[c] for c in plan.street_class.tolist()])
    street = shapely.buffer(plan.lines, width_m / 2, quad_segs=2, cap_style="square")
    block, over = shapely.STRtree(street).query(plan.blocks, predicate="intersects")
    order = np.lexsort((over, block))
    block, over = block[order], over[order]
    first = np.searchsorted(block, np.arange(len(plan.blocks) + 1))
    taken = np.array([shapely.union_all(street[over[a:b]]) for a, b in pairwise(first)], dtype=object)
    left = shapely.get_parts(shapely.difference(plan.blocks, taken))
    return np.asarray(left[shapely.area(left) >= _MIN_AREA_M2])


def _largest(shape: Shapes) -> Shapes:
    """The largest part of each polygon, which may be empty."""
    import shapely

    part, of = shapely.get_parts(shape, return_index=True)
    order = np.lexsort((-shapely.area(part), of))
    owner, first = np.unique(of[order], return_index=True)
    largest = np.full(len(shape), shapely.Polygon(), dtype=object)
    largest[owner] = part[order][first]
    return largest


def _scenery(plan: TownPlan, barrier: str) -> tuple[tuple[str, FloatArray], ...]:
    kinds = {"river": "water", "railway": "railway"}
    shapes = [(kinds.get(barrier, ""), plan.barrier), ("green", plan.park)]
    return tuple((kind, np.asarray(each.exterior.coords)) for kind, each in shapes if each is not None)


def _between(span: tuple[float, float], unit: FloatArray) -> FloatArray:
    return span[0] + (span[1] - span[0]) * unit


def _graph(plan: TownPlan) -> StreetGraph:
    return assemble(StreetLines.two_way(Paths.of(plan.lines), plan.street_class)).graph

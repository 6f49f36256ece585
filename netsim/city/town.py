"""A generated town: irregular blocks, main and side streets, buildings with floors, a park and a
river.

All steps work on arrays of shapely geometries. Lines are noded once at the end, so that streets
meet in shared vertices.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from math import inf, pi
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.linalg import norm
from pydantic import Field

from netsim.city.base import SizedCity, map_to_span
from netsim.city.buildings import Buildings
from netsim.columns import Columns, frozen
from netsim.geometry import Area
from netsim.maps import Shapes
from netsim.rng import Rng, Streams
from netsim.streets.assembly import StreetLines, assemble_streets
from netsim.streets.graph import CLASSES, Paths, StreetGraph
from netsim.ues import STOREY_M
from netsim.units import ArrayPair, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from shapely import Geometry, Polygon

WIDTH_M = np.array([22.0, 18.0, 16.0, 14.0, 8.0, 10.0, 4.0])
"""Width of a street from wall to wall, by class."""
_PRIMARY, _SECONDARY, _, _RESIDENTIAL, _, _PEDESTRIAN, _PATH = range(len(CLASSES))

_GRID_M = 145.0
_JITTER = 0.18  # of the grid: standard deviation
_JITTER_CUT = 0.35  # of the grid: beyond this it is cut
_MAIN_EVERY = 4  # lines of the grid
_DROPPED = 0.18  # share of side streets of the grid that are left out
_BLOCK_M2 = 14_000.0  # blocks larger than this
_BLOCK_SIDE_M = 90.0  # and longer than this are split by another street
_CUT = (0.4, 0.6)  # where a block or lot is split, as a share of its longer side
_OLD_TOWN = 0.12  # radius of the pedestrian centre as a share of the shorter side
_RIVER_M = 60.0
_BRIDGES = 3
# cuts reach beyond the streets that they end at, so that noding finds the crossing
_EXTENSION_M = 0.05
_INNER = 0.08  # of the axis of the river, outside of which no street becomes a bridge
_LEVELS = 40  # of splitting

_LOT_M2 = 700.0
_LOT_SPREAD = (0.7, 1.6)
_BUILT = 0.85  # share of lots with a building
_INSET_M = (2.0, 4.5)  # between a building and the border of its lot
_MIN_AREA_M2 = 60.0  # of a building
_FLOORS_CENTRE = 6.0
_FLOORS_FALL = 3.5
_FLOORS_STD = 1.2
# [TR 38.901, Section 7.2]: UEs at most 22.5 m high, up to which its laws were published
_MAX_FLOORS = 8


class Town(SizedCity, kind="town"):
    r"""A town drawn from the seed, on streets that are no grid.

    The steps, with g = 145 m::

        junctions   a square grid of side g, each moved by N(0, (0.18 g)^2) per axis, cut at 0.35 g;
                    the border stays straight
        streets     every fourth line is a main street (18 to 22 m wide); 18 % of the other segments
        are left out;
                    blocks above 14,000 m^2 are split across their longer side at U(0.4, 0.6) by
                    side streets (14 m), which are pedestrian streets (10 m) in the centre
        river       60 m wide, with streets along both banks and three bridges
        park        four cells of the grid with footpaths, where there is room
        lots        blocks without the streets, split in the same way to 700 U(0.7, 1.6) m^2
        buildings   on 85 % of the lots, U(2, 4.5) m from their borders, at least 60 m^2
        floors      round(N(6 - 3.5 r / (L / 2), 1.2^2)) within 1 to 8, 3 m each; r is the distance
        from the centre,
                    L the shorter side

    The south-west corner is (0, 0). The same seed gives the same town.
    """

    reference = (
        "own generator; jittered grid and recursive lots after Parish and Mueller, "
        "'Procedural modeling of cities', "
        "SIGGRAPH 2001, and Vanegas et al., 'Procedural generation of parcels', Eurographics 2012"
    )
    example = {"kind": "town", "width_m": 400, "height_m": 400}
    offers = frozenset({"buildings", "streets"})

    width_m: float = Field(2000.0, ge=300, le=6000)
    """east-west side of the area, m"""
    height_m: float = Field(2000.0, ge=300, le=6000)
    """north-south side of the area, m"""

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        return draw_town(self, streams.seed).buildings

    def street_graph(self, area: Area, streams: Streams) -> StreetGraph:
        return draw_town(self, streams.seed).graph

    def scenery(self, area: Area, streams: Streams) -> tuple[tuple[str, FloatArray], ...]:
        plan = draw_town(self, streams.seed).plan
        shapes = [("water", plan.river), ("green", plan.park)]
        return tuple(
            (kind, np.asarray(shape.exterior.coords)) for kind, shape in shapes if shape is not None
        )


@frozen
class Roads(Columns):
    """Centre lines (k,) of streets, and their class (k,)."""

    line: Shapes
    street_class: IntArray

    @classmethod
    def from_lines(cls, line: Shapes | list["Geometry"], street_class: int) -> "Roads":
        return cls(np.array(line, object), np.full(len(line), street_class))


@frozen
class TownPlan:
    """Streets between junctions; blocks (b,), the areas between them; river; park, None where there
    is no room.
    """

    roads: Roads
    blocks: Shapes
    river: Any
    park: Any


@frozen
class DrawnTown:
    """A drawn town."""

    plan: TownPlan
    buildings: Buildings
    graph: StreetGraph


@lru_cache(maxsize=4)  # buildings, streets and scenery of one town are asked for one after another
def draw_town(town: Town, seed: int) -> DrawnTown:
    """The town of a seed, drawn once."""
    rng = Streams(seed).derive_rng("city.town")
    area = town.area(None)
    plan = plan_town(area, rng)
    lines = StreetLines.from_two_way_paths(
        Paths.from_lines(plan.roads.line), plan.roads.street_class
    )
    return DrawnTown(plan, draw_buildings(plan, area, rng), assemble_streets(lines).graph)


def plan_town(area: Area, rng: Rng) -> TownPlan:
    """The plan of a town in an area."""
    import shapely

    node_m = _draw_nodes(area, rng)
    roads, is_main = _build_grid(node_m)
    is_kept = is_main | (rng.uniform("dropped", np.arange(len(is_main))) >= _DROPPED)
    river, banks, axis = _draw_river(area, rng)
    park = _place_park(node_m, river, rng)
    if park is not None:
        middle = shapely.line_interpolate_point(roads.line, 0.5, normalized=True)
        is_kept |= shapely.dwithin(park, middle, _EXTENSION_M)  # also the streets around it
        roads.street_class[
            shapely.contains_properly(shapely.buffer(park, -_EXTENSION_M), middle)
        ] = _PATH
    roads = Roads.join(
        [_cut_at_river(roads.select(is_kept), river, axis), Roads.from_lines(banks, _RESIDENTIAL)]
    )
    closed = [river] if park is None else [river, park]
    return TownPlan(*_add_side_streets(roads, closed, area, rng), river, park)


def _draw_nodes(area: Area, rng: Rng) -> FloatArray:
    """Junctions (nx, ny, 2) of a jittered grid; those on the border stay on it."""
    count = np.maximum(np.round(area.side_m / _GRID_M).astype(int), 2) + 1
    step_m = area.side_m / (count - 1)
    index = np.moveaxis(np.indices(tuple(count)), 0, -1)
    number = index[..., 0] * 100_003 + index[..., 1]
    jitter = np.clip(
        _JITTER * rng.normal("jitter", number.ravel(), (2,)), -_JITTER_CUT, _JITTER_CUT
    )
    jitter = jitter.reshape(*count, 2)
    jitter[[0, -1], :, 0] = 0.0
    jitter[:, [0, -1], 1] = 0.0
    return area.low_m + (index + jitter) * step_m


def _build_grid(node_m: FloatArray) -> tuple[Roads, BoolArray]:
    """All segments of the grid of junctions (nx, ny, 2), and which are of main streets or the
    border.
    """
    import shapely

    nx, ny = node_m.shape[:2]
    i, j = np.indices((nx, ny))
    east_pairs_m = np.stack([node_m[:-1], node_m[1:]], axis=2)
    east_m = east_pairs_m.reshape(-1, 2, 2)
    north_pairs_m = np.stack([node_m[:, :-1], node_m[:, 1:]], axis=2)
    north_m = north_pairs_m.reshape(-1, 2, 2)
    line = np.concatenate([j[1:].ravel(), i[:, 1:].ravel()])  # of the grid
    last = np.repeat([ny - 1, nx - 1], [len(east_m), len(north_m)])
    edge = (line == 0) | (line == last)
    main = (line % _MAIN_EVERY == _MAIN_EVERY // 2) & ~edge
    main |= (last < _MAIN_EVERY) & (line == last // 2)  # a small town has one main street each way
    street_class = np.where(main | edge, _SECONDARY, _RESIDENTIAL)
    street_class[main & (line % (2 * _MAIN_EVERY) == 3 * _MAIN_EVERY // 2)] = _PRIMARY
    return Roads(shapely.linestrings(np.concatenate([east_m, north_m])), street_class), main | edge


def _draw_river(area: Area, rng: Rng) -> tuple["Polygon", Shapes, "Geometry"]:
    """Polygon, banks and axis of the river, from west to east or from south to north."""
    import shapely

    unit = rng.uniform("corridor", [0], (5,))[0]
    share = np.linspace(-0.05, 1.05, 61)
    slant = 0.16 * (unit[1] - 0.5) * (2 * share - 1)
    across = 0.3 + 0.4 * unit[0] + slant
    phase = (0.7 + 0.8 * unit[2]) * share + unit[3]
    across += 0.07 * np.sin(2 * pi * phase)
    place = np.stack([share, across], axis=1)
    axis = shapely.linestrings(
        area.low_m + (place if unit[4] < 0.5 else place[:, ::-1]) * area.side_m
    )
    whole = shapely.buffer(axis, min(_RIVER_M, area.side_m.min() / 8) / 2)
    banks = shapely.intersection(shapely.boundary(whole), area.grow(_EXTENSION_M).to_polygon())
    return shapely.intersection(whole, area.to_polygon()), shapely.get_parts(banks), axis


def _place_park(node_m: FloatArray, river: "Polygon", rng: Rng) -> "Polygon | None":
    """A park of 2 x 2 cells of the grid, off the river and off main streets if possible; None where
    none fits.
    """
    import shapely

    nx, ny = np.array(node_m.shape[:2]) - 3
    if nx < 1 or ny < 1:
        return None
    column, row = np.indices((nx, ny)).reshape(2, -1)
    corner = np.array([[0, 0], [1, 0], [2, 0], [2, 1], [2, 2], [1, 2], [0, 2], [0, 1]])
    corner_m = node_m[column[:, None] + corner[:, 0], row[:, None] + corner[:, 1]]
    shape = shapely.polygons(corner_m)
    crosses = ((column + 1) % _MAIN_EVERY) == _MAIN_EVERY // 2
    crosses |= ((row + 1) % _MAIN_EVERY) == _MAIN_EVERY // 2
    cost = rng.uniform("park", np.arange(len(shape))) + crosses
    cost[shapely.distance(shape, river) < 1.0] = inf
    best = np.argmin(cost)
    if np.isfinite(cost[best]):
        return shape[best]
    return None


def _cut_at_river(roads: Roads, river: "Polygon", axis: "Geometry") -> Roads:
    """Streets cut at the banks of the river, but for bridges at equal distances.

    A bridge is part of a street from bank to bank, of a main street where there is one, else a new
    street.
    """
    import shapely

    line = roads.line
    ends = np.stack([shapely.get_point(line, 0), shapely.get_point(line, -1)])
    meets = shapely.get_num_geometries(shapely.intersection(line, [[axis], [river]]))
    once = (meets == 1).all(axis=0)  # from bank to bank, not along a bend
    whole = once & shapely.crosses(line, axis)
    whole &= ~shapely.intersects(ends, river).any(axis=0)
    where_share = shapely.line_locate_point(
        axis, shapely.centroid(shapely.intersection(line, axis)), normalized=True
    )
    # none along the border of the area
    whole &= (where_share > _INNER) & (where_share < 1.0 - _INNER)
    is_bridge = np.zeros(len(line), bool)
    new_bridges = []
    for share in (np.arange(_BRIDGES) + 0.5) / _BRIDGES:
        away = np.abs(where_share - share)
        near = whole & ~is_bridge
        near &= away < 0.45 / _BRIDGES
        if near.any():
            is_bridge[np.argmin(np.where(near, roads.street_class + 2.0 * away, inf))] = True
        else:
            new_bridges.append(_build_bridge(axis, share, river))
    cut = shapely.difference(line, shapely.buffer(river, -_EXTENSION_M))
    piece, source = shapely.get_parts(np.where(is_bridge, line, cut), return_index=True)
    real = shapely.length(piece) > 1.0
    cut_roads = Roads(piece[real], roads.street_class[source[real]])
    return Roads.join([cut_roads, Roads.from_lines(new_bridges, _RESIDENTIAL)])


def _build_bridge(axis: "Geometry", share: float, river: "Polygon") -> "Geometry":
    """A line across the river at a share of its length."""
    import shapely

    at_m, next_m = shapely.get_coordinates(
        shapely.line_interpolate_point(axis, [share, share + 1e-3], normalized=True)
    )
    way = (next_m - at_m) / norm(next_m - at_m)
    reach_m = _RIVER_M * np.array([-way[1], way[0]])
    across = shapely.linestrings([at_m - reach_m, at_m + reach_m])
    part = shapely.get_parts(shapely.intersection(across, shapely.buffer(river, _EXTENSION_M)))
    # in a bend the line may cross twice
    return part[np.argmin(shapely.distance(part, shapely.points(at_m)))]


def _add_side_streets(
    roads: Roads, closed: "list[Polygon]", area: Area, rng: Rng
) -> tuple[Roads, Shapes]:
    """Noded streets, large blocks split by side streets, and the blocks without `closed` areas."""
    import shapely

    def large(shape: Shapes, number: IntArray) -> BoolArray:
        long_side_m = _measure_sides(shape)[1].max(axis=1, initial=0.0)
        return (shapely.area(shape) > _BLOCK_M2) & (long_side_m >= _BLOCK_SIDE_M)

    blocks, split = _split_shapes(find_faces(roads.line, closed), large, "cut", 2, rng)
    cut = np.concatenate(
        [np.array([], object), *(_find_cut_lines(*cut_shapes) for cut_shapes in split)]
    )
    near = shapely.distance(cut, shapely.points(area.centre_m)) < _OLD_TOWN * area.side_m.min()
    return _node_roads(
        Roads.join([roads, Roads(cut, np.where(near, _PEDESTRIAN, _RESIDENTIAL))])
    ), blocks


def find_faces(line: Shapes, closed: "list[Polygon]") -> Shapes:
    """Areas between the streets, in the order of their places, without those in a closed area."""
    import shapely

    faces = shapely.get_parts(shapely.polygonize([shapely.union_all(line)]))
    for area in closed:
        faces = faces[~shapely.contains_properly(area, shapely.point_on_surface(faces))]
    return faces[np.lexsort(np.round(shapely.get_coordinates(shapely.centroid(faces)), 3).T)]


def _node_roads(roads: Roads) -> Roads:
    """Streets between junctions; of two at one place the more important."""
    import shapely

    whole = shapely.get_parts(shapely.union_all(roads.line))
    whole = whole[shapely.length(whole) > 2 * _EXTENSION_M]
    middle = shapely.line_interpolate_point(whole, 0.5, normalized=True)
    piece, source = shapely.STRtree(roads.line).query(middle, predicate="dwithin", distance=1e-3)
    street_class = np.full(len(whole), len(CLASSES))
    np.minimum.at(street_class, piece, roads.street_class[source])
    return Roads(whole, street_class)


# --- blocks and lots
# ----------------------------------------------------------------------------------------


def _split_shapes(
    shape: Shapes, large: Callable[[Shapes, IntArray], BoolArray], name: str, base: int, rng: Rng
) -> tuple[Shapes, list[tuple[Shapes, FloatArray]]]:
    """Shapes split across their longer side until none is large, and those that are split, with
    numbers for their cuts.

    large : which shapes (n,) are, with numbers (n,) by which they are drawn. Parts of shape k have
    the numbers base k, base k + 1, ...
    """
    number = np.arange(len(shape)) + 1
    done = [shape[:0]]
    cuts = []
    for level in range(_LEVELS):
        split = large(shape, number)
        done.append(shape[~split])
        shape = shape[split]
        number = number[split]
        if not len(shape):
            break
        unit = rng.uniform(name, number, item=level)
        cuts.append((shape, unit))
        shape, parent = _cut_in_halves(shape, unit)
        rank = np.arange(len(shape)) - np.searchsorted(parent, parent)
        number = (number[parent] * base + np.minimum(rank, base - 1)) % 2**61
    return np.concatenate(done), cuts


def _measure_sides(shape: Shapes) -> ArrayPair:
    """Corners (n, 4, 2) of the smallest enclosing rectangles, and the lengths of two sides (n,
    2).
    """
    import shapely

    ring = shapely.get_exterior_ring(shapely.oriented_envelope(shape))
    corner_m = shapely.get_coordinates(ring).reshape(len(shape), 5, 2)[:, :4]
    return corner_m, norm(np.diff(corner_m[:, :3], axis=1), axis=2)


def _place_cuts(shape: Shapes, unit: FloatArray) -> ArrayPair:
    """Lines (n, 2, 2) across the longer sides of shapes, and vectors (n, 2) along these; longer
    than the shapes.
    """
    corner_m, length_m = _measure_sides(shape)
    longer = length_m.argmax(axis=1)
    a_m, b_m = (corner_m[np.arange(len(shape)), longer + k] for k in range(2))
    long_m = b_m - a_m
    other_m = np.where(
        longer[:, None], corner_m[:, 0] - corner_m[:, 1], corner_m[:, 2] - corner_m[:, 1]
    )
    way = long_m / norm(long_m, axis=1, keepdims=True)
    offset_m = map_to_span(_CUT, unit)[:, None] * long_m
    at_m = a_m + offset_m + other_m / 2
    reach_m = 2 * length_m.max(axis=1)[:, None] + 10.0
    along_m = reach_m * np.stack([-way[:, 1], way[:, 0]], axis=1)
    return np.stack([at_m - along_m, at_m + along_m], axis=1), reach_m * way


def _cut_in_halves(shape: Shapes, unit: FloatArray) -> tuple[Shapes, IntArray]:
    """The parts on either side of a cut, and the shape that each came from, ascending."""
    import shapely

    line_m, way_m = _place_cuts(shape, unit)
    shift_m = np.stack([-way_m, way_m])[:, :, None]
    beyond_m = line_m[:, ::-1] + shift_m  # (2, n, 2, 2)
    side = shapely.polygons(
        np.concatenate([np.broadcast_to(line_m, beyond_m.shape), beyond_m], axis=2)
    )
    part, source = shapely.get_parts(shapely.intersection(shape, side).T.ravel(), return_index=True)
    solid = shapely.get_type_id(part) == shapely.GeometryType.POLYGON
    solid &= shapely.area(part) > 1.0
    return part[solid], (source[solid] // 2)


def _find_cut_lines(shape: Shapes, unit: FloatArray) -> Shapes:
    """Lines that split shapes, a little longer than the shape is wide."""
    import shapely

    part = shapely.get_parts(
        shapely.intersection(shapely.linestrings(_place_cuts(shape, unit)[0]), shape)
    )
    is_line = shapely.get_type_id(part) == shapely.GeometryType.LINESTRING
    part = part[is_line & (shapely.length(part) > 1.0)]
    ends_m = shapely.get_coordinates(part).reshape(len(part), -1, 2)[:, [0, -1]]
    way = ends_m[:, 1] - ends_m[:, 0]
    way *= _EXTENSION_M / norm(way, axis=1, keepdims=True)
    return shapely.linestrings(ends_m + np.stack([-way, way], axis=1))


def draw_buildings(plan: TownPlan, area: Area, rng: Rng) -> Buildings:
    """Buildings on most lots, which are drawn by their numbers."""
    import shapely

    def large(shape: Shapes, number: IntArray) -> BoolArray:
        return shapely.area(shape) > _LOT_M2 * map_to_span(_LOT_SPREAD, rng.uniform("size", number))

    lot, _ = _split_shapes(_find_open_ground(plan), large, "lot", 8, rng)
    unit = rng.uniform("building", np.arange(len(lot)), (2,))
    inner = shapely.buffer(lot, -map_to_span(_INSET_M, unit[:, 1]), join_style="mitre")
    part, lot_of_part = shapely.get_parts(inner, return_index=True)
    order = np.lexsort((-shapely.area(part), lot_of_part))
    built_lot, first = np.unique(lot_of_part[order], return_index=True)
    shape = part[order[first]]  # the largest part of each lot
    stands = unit[built_lot, 0] < _BUILT
    stands &= shapely.area(shape) >= _MIN_AREA_M2
    shape = shape[stands]
    built_lot = built_lot[stands]
    away_m = norm(shapely.get_coordinates(shapely.centroid(shape)) - area.centre_m, axis=1)
    mean = _FLOORS_CENTRE - _FLOORS_FALL * away_m / (area.side_m.min() / 2)
    drawn_floors = mean + _FLOORS_STD * rng.normal("floors", built_lot)
    return Buildings(shape, STOREY_M * np.clip(np.round(drawn_floors), 1, _MAX_FLOORS))


def _find_open_ground(plan: TownPlan) -> Shapes:
    """The blocks without the streets, whose widths go by class."""
    import shapely

    half_width_m = WIDTH_M[plan.roads.street_class] / 2
    street = shapely.buffer(plan.roads.line, half_width_m, quad_segs=2, cap_style="square")
    block, over = shapely.STRtree(street).query(plan.blocks, predicate="intersects")
    order = np.lexsort((over, block))
    first = np.searchsorted(block[order], np.arange(len(plan.blocks) + 1))
    taken = np.array(
        [shapely.union_all(street[over[order[a:b]]]) for a, b in pairwise(first)], dtype=object
    )
    left = shapely.get_parts(shapely.difference(plan.blocks, taken))
    return left[shapely.area(left) >= _MIN_AREA_M2]

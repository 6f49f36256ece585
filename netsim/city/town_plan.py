"""The plan of a generated town: street centre lines with their class, blocks, lots, a park, and a river or railway.

All steps work on arrays of shapely geometries. Lines are noded once at the end, so that streets meet in shared
vertices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.geometry import Area
from netsim.rng import Rng
from netsim.streets.graph import CLASSES
from netsim.units import BoolArray, FloatArray, IntArray

Shapes = npt.NDArray[Any]

PRIMARY, SECONDARY, RESIDENTIAL = (CLASSES.index(name) for name in ("primary", "secondary", "residential"))
PEDESTRIAN, PATH = CLASSES.index("pedestrian"), CLASSES.index("path")
WIDTH_M = {PRIMARY: 22.0, SECONDARY: 18.0, RESIDENTIAL: 14.0, PEDESTRIAN: 10.0, PATH: 4.0}
"""Width of a street from wall to wall, by class."""

GRID_M = 145.0
_JITTER, _JITTER_CUT = 0.18, 0.35  # of the grid: standard deviation, and where it is cut
_MAIN_EVERY = 4  # lines of the grid
_DROPPED = 0.18  # share of side streets of the grid that are left out
_BLOCK_M2, _BLOCK_SIDE_M = 14_000.0, 90.0  # larger and longer blocks are split by another street
_CUT = (0.4, 0.6)  # where a block or lot is split, as a share of its longer side
_OLD_TOWN = 0.12  # radius of the pedestrian centre as a share of the shorter side
_CORRIDOR_M = {"river": 60.0, "railway": 24.0}
_EXTENSION_M = 0.05  # cuts reach beyond the streets that they end at, so that noding finds the crossing
_OUTSIDE = 0.05  # of the axis of a corridor, at either end: what reaches beyond the area
_INNER = 0.08  # of the axis, outside of which no street becomes a bridge
_LEVELS = 40


@dataclass(frozen=True, eq=False)
class TownPlan:
    """lines (k,) are centre lines between junctions, with street_class (k,); blocks (b,) are the areas between them.

    barrier : polygon of the river or railway, None without one; park : polygon, None where there is no room for one.
    """

    lines: Shapes
    street_class: IntArray
    blocks: Shapes
    barrier: Any
    park: Any


def planned(area: Area, barrier: str, crossings: int, park: bool, rng: Rng) -> TownPlan:
    """The plan of a town in `area` with a `barrier` of river, railway or none, crossed by `crossings` bridges."""
    import shapely

    node_m = _nodes(area, rng)
    ends, main, edge, cell = _grid_lines(node_m.shape[:2])
    line = shapely.linestrings(node_m.reshape(-1, 2)[ends])
    kept = main | edge | (rng.uniform("dropped", np.arange(len(line))) >= _DROPPED)
    street_class = np.where(main | edge, SECONDARY, RESIDENTIAL)
    street_class[main & (cell % (2 * _MAIN_EVERY) == 3 * _MAIN_EVERY // 2)] = PRIMARY
    corridor, banks, axis = _corridor(area, barrier, rng)
    green = _park(node_m, corridor, rng) if park else None
    if green is not None:
        middle = shapely.line_interpolate_point(line, 0.5, normalized=True)
        kept |= shapely.dwithin(green, middle, _EXTENSION_M)  # also the streets around it
        street_class[shapely.contains_properly(shapely.buffer(green, -_EXTENSION_M), middle)] = PATH
    line, street_class = line[kept], street_class[kept]
    if corridor is not None:
        line, street_class = _crossed(line, street_class, corridor, axis, crossings)
        line = np.concatenate([line, banks])
        street_class = np.concatenate([street_class, np.full(len(banks), RESIDENTIAL)])
    closed = [each for each in (corridor, green) if each is not None]
    line, street_class, blocks = _with_side_streets(line, street_class, closed, area, rng)
    return TownPlan(line, street_class, blocks, corridor, green)


def lots(blocks: Shapes, target_m2: Callable[[IntArray], FloatArray], rng: Rng) -> Shapes:
    """Blocks split across their longer side until every lot is smaller than its target, drawn by its number."""
    import shapely

    number = np.arange(len(blocks)) + 1
    done: list[Any] = []
    for level in range(_LEVELS):
        large = shapely.area(blocks) > target_m2(number)
        done.extend(blocks[~large])
        blocks, number = blocks[large], number[large]
        if not len(blocks):
            break
        halves, parent = _halves(blocks, rng.uniform("lot", number, item=level))
        order = np.arange(len(halves)) - np.searchsorted(parent, parent)  # place among the parts of its parent
        blocks, number = halves, number[parent] * 8 + order
        number = number % (2**61)
    return np.array(done, dtype=object)


# --- the grid ---------------------------------------------------------------------------------------------------


def _nodes(area: Area, rng: Rng) -> FloatArray:
    """Junctions (nx, ny, 2) of a jittered grid; those on the border stay on it."""
    count = np.maximum(np.round(area.side_m / GRID_M).astype(np.int64), 2) + 1
    step_m = area.side_m / (count - 1)
    i, j = np.indices(tuple(count))
    which = i * 100_003 + j
    jitter = np.clip(_JITTER * rng.normal("jitter", which.ravel(), (2,)), -_JITTER_CUT, _JITTER_CUT)
    jitter = jitter.reshape(*count, 2)
    jitter[[0, -1], :, 0] = 0.0
    jitter[:, [0, -1], 1] = 0.0
    return np.asarray(area.low_m + (np.stack([i, j], axis=-1) + jitter) * step_m)


def _grid_lines(shape: tuple[int, int]) -> tuple[IntArray, BoolArray, BoolArray, IntArray]:
    """All segments of the grid: ends (k, 2) as flat nodes; whether on a main street or the border; line (k,)."""
    nx, ny = shape
    node = np.arange(nx * ny).reshape(nx, ny)
    i, j = np.indices(shape)
    east = np.stack([node[:-1].ravel(), node[1:].ravel()], axis=1)  # along y = const: line j
    north = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()], axis=1)  # along x = const: line i
    line = np.concatenate([j[:-1].ravel(), i[:, :-1].ravel()])
    last = np.concatenate([np.full(len(east), ny - 1), np.full(len(north), nx - 1)])
    edge = (line == 0) | (line == last)
    main = (line % _MAIN_EVERY == _MAIN_EVERY // 2) & ~edge
    main |= (last < _MAIN_EVERY) & (line == last // 2)  # a small town has one main street each way
    return np.concatenate([east, north]), main, edge, line


# --- river, railway, park ---------------------------------------------------------------------------------------


def _corridor(area: Area, barrier: str, rng: Rng) -> tuple[Any, Shapes, Any]:
    """Polygon, banks and axis of the river or railway, from west to east or from south to north; None without one."""
    import shapely

    if barrier == "none":
        return None, np.array([], dtype=object), None
    unit = rng.uniform("corridor", [0], (5,))[0]
    share = np.linspace(-0.05, 1.05, 61)
    bend = 0.07 if barrier == "river" else 0.02
    across = 0.3 + 0.4 * unit[0] + 0.16 * (unit[1] - 0.5) * (2 * share - 1)
    across += bend * np.sin(2 * np.pi * ((0.7 + 0.8 * unit[2]) * share + unit[3]))
    at = np.stack([share, across], axis=1)
    axis = shapely.linestrings(area.low_m + (at if unit[4] < 0.5 else at[:, ::-1]) * area.side_m)
    box, beyond = _box(area), _box(area.grown(_EXTENSION_M))
    width_m = min(_CORRIDOR_M[barrier], float(area.side_m.min()) / 8)
    whole = shapely.buffer(axis, width_m / 2)
    banks = shapely.get_parts(shapely.intersection(shapely.boundary(whole), beyond))
    return shapely.intersection(whole, box), banks, axis


def _box(area: Area) -> Any:
    import shapely

    return shapely.box(area.x_min_m, area.y_min_m, area.x_max_m, area.y_max_m)


def _park(node_m: FloatArray, corridor: Any, rng: Rng) -> Any:
    """A park of 2 x 2 cells of the grid, off the corridor and off main streets if possible; None where none fits."""
    import shapely

    nx, ny = np.array(node_m.shape[:2]) - 3
    if nx < 1 or ny < 1:
        return None
    i, j = (k.ravel() for k in np.indices((nx, ny)))
    corner = np.array([[0, 0], [1, 0], [2, 0], [2, 1], [2, 2], [1, 2], [0, 2], [0, 1]])
    ring = node_m[i[:, None] + corner[:, 0], j[:, None] + corner[:, 1]]
    shape = shapely.polygons(ring)
    crosses = (((i + 1) % _MAIN_EVERY) == _MAIN_EVERY // 2) | (((j + 1) % _MAIN_EVERY) == _MAIN_EVERY // 2)
    cost = rng.uniform("park", np.arange(len(shape))) + crosses
    if corridor is not None:
        cost[shapely.distance(shape, corridor) < 1.0] = np.inf
    best = int(np.argmin(cost))
    return shape[best] if np.isfinite(cost[best]) else None


def _crossed(line: Shapes, street_class: IntArray, corridor: Any, axis: Any, crossings: int) -> tuple[Shapes, IntArray]:
    """Streets cut at the banks of the corridor, but for `crossings` bridges at equal distances.

    A bridge is part of a street from bank to bank, of a main street where there is one, else a new street.
    """
    import shapely

    ends = np.stack([shapely.get_point(line, 0), shapely.get_point(line, -1)])
    meets = shapely.get_num_geometries(shapely.intersection(line, [[axis], [corridor]]))
    once = (meets == 1).all(axis=0)  # from bank to bank, not along a bend
    whole = once & shapely.crosses(line, axis) & ~shapely.intersects(ends, corridor).any(axis=0)
    where = shapely.line_locate_point(axis, shapely.centroid(shapely.intersection(line, axis)), normalized=True)
    is_bridge = np.zeros(len(line), dtype=np.bool_)
    own: list[Any] = []
    whole &= (where > _INNER) & (where < 1.0 - _INNER)  # none along the border of the area
    share = (np.arange(crossings) + 0.5) / crossings
    if share[0] < _OUTSIDE:  # the first and the last would stand outside of the area
        share = _OUTSIDE + (1.0 - 2.0 * _OUTSIDE) * share
    for wanted in share:
        near = whole & ~is_bridge & (np.abs(where - wanted) < 0.45 / crossings)
        if near.any():
            is_bridge[np.argmin(np.where(near, street_class + 2.0 * np.abs(where - wanted), np.inf))] = True
        else:
            own.append(_bridge(axis, float(wanted), corridor))
    cut = shapely.difference(line, shapely.buffer(corridor, -_EXTENSION_M))
    kept, of = shapely.get_parts(np.where(is_bridge, line, cut), return_index=True)
    real = shapely.length(kept) > 1.0
    new_class = np.full(len(own), RESIDENTIAL)
    return np.append(kept[real], np.array(own, dtype=object)), np.append(street_class[of[real]], new_class)


def _bridge(axis: Any, share: float, corridor: Any) -> Any:
    """A line across the corridor at a share of its length."""
    import shapely

    at_m, next_m = shapely.get_coordinates(shapely.line_interpolate_point(axis, [share, share + 1e-3], normalized=True))
    way = (next_m - at_m) / np.linalg.norm(next_m - at_m)
    reach_m = max(_CORRIDOR_M.values()) * np.array([-way[1], way[0]])
    across = shapely.linestrings([at_m - reach_m, at_m + reach_m])
    part = shapely.get_parts(shapely.intersection(across, shapely.buffer(corridor, _EXTENSION_M)))
    return part[np.argmin(shapely.distance(part, shapely.points(at_m)))]  # in a bend the line may cross twice


# --- blocks -----------------------------------------------------------------------------------------------------


def _with_side_streets(
    line: Shapes, street_class: IntArray, closed: list[Any], area: Area, rng: Rng
) -> tuple[Shapes, IntArray, Shapes]:
    """Noded streets with their class, large blocks split by side streets, and the blocks without `closed` areas."""
    import shapely

    faces = _faces(line, closed)
    number = np.arange(len(faces)) + 1
    cuts: list[Any] = []
    blocks: list[Any] = []
    for level in range(_LEVELS):
        large = (shapely.area(faces) > _BLOCK_M2) & (_long_side_m(faces) >= _BLOCK_SIDE_M)
        blocks.extend(faces[~large])
        faces, number = faces[large], number[large]
        if not len(faces):
            break
        unit = rng.uniform("cut", number, item=level)
        cuts.extend(_cut_lines(faces, unit))
        faces, parent = _halves(faces, unit)
        number = number[parent] * 2 + np.append(0, parent[1:] == parent[:-1])
    cut = np.array(cuts, dtype=object)
    centre = shapely.points(area.centre_m)
    near = shapely.distance(cut, centre) < _OLD_TOWN * float(area.side_m.min())
    line = np.concatenate([line, cut])
    street_class = np.concatenate([street_class, np.where(near, PEDESTRIAN, RESIDENTIAL)])
    noded, of = _noded(line, street_class)
    return noded, street_class[of], np.array(blocks, dtype=object)


def _faces(line: Shapes, closed: list[Any]) -> Shapes:
    """Areas between the streets, in the order of their places, without those in a closed area."""
    import shapely

    faces = shapely.get_parts(shapely.polygonize([shapely.union_all(line)]))
    inner = shapely.point_on_surface(faces)
    for area in closed:
        faces, inner = (each[~shapely.contains_properly(area, inner)] for each in (faces, inner))
    at_m = np.round(shapely.get_coordinates(shapely.centroid(faces)), 3)
    return np.asarray(faces[np.lexsort(at_m.T)])


def _noded(line: Shapes, street_class: IntArray) -> tuple[Shapes, IntArray]:
    """Streets between junctions, and the line (k,) that each is part of; of two at one place the more important."""
    import shapely

    whole = shapely.get_parts(shapely.union_all(line))
    dangling = shapely.length(whole) <= 2 * _EXTENSION_M
    whole = whole[~dangling]
    middle = shapely.line_interpolate_point(whole, 0.5, normalized=True)
    tree = shapely.STRtree(line)
    piece, source = tree.query(middle, predicate="dwithin", distance=1e-3)
    order = np.lexsort((street_class[source], piece))
    piece, first = np.unique(piece[order], return_index=True)
    of = np.full(len(whole), 0)
    of[piece] = source[order][first]
    return whole, of


def _long_side_m(shape: Shapes) -> FloatArray:
    """Longer side of the smallest enclosing rectangle (n,)."""
    corner_m = _rectangles(shape)
    side_m = np.linalg.norm(corner_m[:, 1:3] - corner_m[:, :2], axis=2)
    return np.asarray(side_m.max(axis=1, initial=0.0))


def _rectangles(shape: Shapes) -> FloatArray:
    """Corners (n, 4, 2) of the smallest enclosing rectangles."""
    import shapely

    if not len(shape):
        return np.zeros((0, 4, 2))
    ring = shapely.get_exterior_ring(shapely.oriented_envelope(shape))
    return np.asarray(shapely.get_coordinates(ring).reshape(len(shape), 5, 2)[:, :4])


def _frames(shape: Shapes, unit: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The cut of a shape across its longer side: a point (n, 2), unit vectors along the cut and across it (n, 2)."""
    corner_m = _rectangles(shape)
    first, second = corner_m[:, 1] - corner_m[:, 0], corner_m[:, 2] - corner_m[:, 1]
    long_is_first = (np.linalg.norm(first, axis=1) >= np.linalg.norm(second, axis=1))[:, None]
    long_m = np.where(long_is_first, first, second)
    start_m = np.where(long_is_first, corner_m[:, 0], corner_m[:, 1])
    other_m = np.where(long_is_first, second, -first)
    share = _CUT[0] + (_CUT[1] - _CUT[0]) * unit
    across = long_m / np.linalg.norm(long_m, axis=1, keepdims=True)
    at_m = start_m + share[:, None] * long_m + other_m / 2
    return at_m, np.stack([-across[:, 1], across[:, 0]], axis=1), across


def _halves(shape: Shapes, unit: FloatArray) -> tuple[Shapes, IntArray]:
    """The parts on either side of a cut, and the shape that each came from, ascending."""
    import shapely

    at_m, along, across = _frames(shape, unit)
    reach_m = 2 * _long_side_m(shape)[:, None] + 10.0
    halves = []
    for sign in (-1.0, 1.0):
        ring = np.stack(
            [
                at_m - reach_m * along,
                at_m + reach_m * along,
                at_m + reach_m * along + sign * reach_m * across,
                at_m - reach_m * along + sign * reach_m * across,
            ],
            axis=1,
        )
        halves.append(shapely.intersection(shape, shapely.polygons(ring)))
    both = np.stack(halves, axis=1).ravel()
    part, of = shapely.get_parts(both, return_index=True)
    solid = (shapely.get_type_id(part) == shapely.GeometryType.POLYGON) & (shapely.area(part) > 1.0)
    return part[solid], np.asarray(of[solid] // 2)


def _cut_lines(shape: Shapes, unit: FloatArray) -> list[Any]:
    """Centre lines of the streets that split shapes, a little longer than the shape is wide."""
    import shapely

    at_m, along, _ = _frames(shape, unit)
    reach_m = 2 * _long_side_m(shape)[:, None] + 10.0
    whole = shapely.linestrings(np.stack([at_m - reach_m * along, at_m + reach_m * along], axis=1))
    part, of = shapely.get_parts(shapely.intersection(whole, shape), return_index=True)
    real = (shapely.get_type_id(part) == shapely.GeometryType.LINESTRING) & (shapely.length(part) > 1.0)
    part, of = part[real], of[real]
    ends_m = shapely.get_coordinates(part).reshape(len(part), -1, 2)[:, [0, -1]]
    way = ends_m[:, 1] - ends_m[:, 0]
    way *= _EXTENSION_M / np.linalg.norm(way, axis=1, keepdims=True)
    ends_m[:, 0] -= way
    ends_m[:, 1] += way
    return list(shapely.linestrings(ends_m))

"""Intersections of straight lines with footprints, used for line of sight, clear paths and walls.

Each line has its own frame: `along` is the distance from its start, `side` the distance to its left, in metres. A line
crosses a wall where `side` changes sign. A vertex that lies on the line is evaluated twice, moved to the left and
moved to the right. Only stretches that are inside in both cases count as inside, so touching a corner or a wall is not
a crossing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.units import BoolArray, FloatArray, IntArray

TOUCH_M = 1e-9  # nearer than this, or for a shorter way than this, is touching
_TABLE = 100_000  # pairs of a link and a building weighed at once, to bound memory


@dataclass(frozen=True, eq=False)
class Walls:
    """The rings of n polygons, one after another.

    vertex_m (v, 2), relative to `origin_m` (2,); `last` (v,) marks those that close a ring; polygon k has the
    vertices first[k] to first[k + 1] and lies within `radius_m` (n,) of `centre_m` (n, 2).
    """

    origin_m: FloatArray
    vertex_m: FloatArray
    last: BoolArray
    first: IntArray
    centre_m: FloatArray
    radius_m: FloatArray

    @classmethod
    def of(cls, footprint: npt.NDArray[Any]) -> Walls:
        """The walls of polygons (n,)."""
        import shapely

        ring, owner = shapely.get_rings(footprint, return_index=True)
        vertex_m, row = shapely.get_coordinates(ring, return_index=True)
        low_m, high_m = np.split(shapely.bounds(footprint).reshape(-1, 4), 2, axis=1)
        origin_m = low_m.min(axis=0) if len(low_m) else np.zeros(2)
        return cls(
            origin_m=origin_m,
            vertex_m=np.asfortranarray(vertex_m - origin_m),  # x apart from y: they are gathered separately
            last=np.append(row[1:] != row[:-1], True)[: len(row)],
            first=np.searchsorted(owner[row], np.arange(len(footprint) + 1)),
            centre_m=(low_m + high_m) / 2 - origin_m,
            radius_m=np.linalg.norm(high_m - low_m, axis=1) / 2 + TOUCH_M,
        )


@dataclass(frozen=True, eq=False)
class Lines:
    """Straight lines on the ground: start_m (k, 2), unit vector way (k, 2) (0 for a point), length_m (k,)."""

    start_m: FloatArray
    way: FloatArray
    length_m: FloatArray

    @classmethod
    def between(cls, a_m: FloatArray, b_m: FloatArray, walls: Walls) -> Lines:
        """From a_m (k, 2) to b_m (k, 2)."""
        to_m = b_m - a_m
        length_m = np.hypot(to_m[:, 0], to_m[:, 1])
        way = np.divide(to_m, length_m[:, None], out=np.zeros_like(to_m), where=length_m[:, None] > TOUCH_M)
        return cls(a_m - walls.origin_m, way, length_m)

    def framed(self, row: IntArray, count: IntArray, point_m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`along` and `side` (p,) of points (p, 2), the first count[0] of them in the frame of line row[0], ..."""
        (x_m, y_m), (way_x, way_y) = self.start_m[row].T, self.way[row].T
        start_along, start_side = x_m * way_x + y_m * way_y, y_m * way_x - x_m * way_y
        way_x, way_y = np.repeat(way_x, count), np.repeat(way_y, count)
        x_m, y_m = point_m.T
        along = x_m * way_x + y_m * way_y - np.repeat(start_along, count)
        return along, y_m * way_x - x_m * way_y - np.repeat(start_side, count)


@dataclass(frozen=True, eq=False)
class Stretches:
    """Parts of lines that lie inside a footprint: from_m to until_m (s,) along the line.

    line, building (s,) are indices; `wall` (s,) is the index of the vertex at which the first wall crossed begins.
    """

    line: IntArray
    building: IntArray
    from_m: FloatArray
    until_m: FloatArray
    wall: IntArray


def stretches(lines: Lines, walls: Walls, ends_m: FloatArray, height_m: FloatArray) -> Iterator[Stretches]:
    """Every part of a line inside the footprint of a building that may reach the line; one block of lines at a time.

    ends_m (k, 2) are the heights of a line at its start and end, height_m (n,) those of the buildings.
    """
    if not len(height_m):
        return
    block = max(1, _TABLE // len(height_m))
    for at in range(0, len(lines.length_m), block):
        some = slice(at, at + block)
        part = Lines(lines.start_m[some], lines.way[some], lines.length_m[some])
        line, building = _candidates(part, walls, ends_m[some], height_m)
        inside = _inside(part, walls, line, building)
        yield Stretches(inside.line + at, inside.building, inside.from_m, inside.until_m, inside.wall)


def _candidates(lines: Lines, walls: Walls, ends_m: FloatArray, height_m: FloatArray) -> tuple[IntArray, IntArray]:
    """Candidate pairs (p,) of line and building: the line passes within the building's radius, not above its roof."""
    low_m = ends_m.min(axis=1)
    (x, y), (way_x, way_y) = lines.start_m.T, lines.way.T
    # (lines, buildings)
    along = lines.way @ walls.centre_m.T - (x * way_x + y * way_y)[:, None]
    side = np.stack([-way_y, way_x], axis=1) @ walls.centre_m.T - (y * way_x - x * way_y)[:, None]
    near = np.abs(side, out=side) <= walls.radius_m
    near &= along >= -walls.radius_m
    near &= along - lines.length_m[:, None] <= walls.radius_m
    near &= low_m[:, None] < height_m
    line, building = np.nonzero(near)
    with np.errstate(divide="ignore", invalid="ignore"):  # a point has no slope; the lower end decides
        slope = np.where(lines.length_m > TOUCH_M, (ends_m[:, 1] - ends_m[:, 0]) / lines.length_m, 0.0)[line]
    middle_m = ends_m[line, 0] + slope * along[line, building]
    min_height_m = middle_m - np.abs(slope) * walls.radius_m[building]
    below = np.flatnonzero(np.maximum(min_height_m, low_m[line]) < height_m[building])
    return line[below], building[below]


def _inside(lines: Lines, walls: Walls, line: IntArray, building: IntArray) -> Stretches:
    """The parts of lines (p,) inside buildings (p,), in order."""
    count = np.diff(walls.first)[building]
    pair = np.repeat(np.arange(len(line)), count)
    vertex = np.arange(len(pair)) + np.repeat(walls.first[building] - np.cumsum(count) + count, count)
    along, side = lines.framed(line, count, walls.vertex_m.T[:, vertex].T)
    side[np.abs(side) <= TOUCH_M] = 0.0
    wall = ~walls.last[vertex[:-1]]
    left, right = side >= 0, side > 0  # the vertices on the line pushed to the left, to the right
    left, right = (left[:-1] != left[1:]) & wall, (right[:-1] != right[1:]) & wall
    met = np.flatnonzero(left | right)
    at_m = (along[met] * side[met + 1] - along[met + 1] * side[met]) / (side[met + 1] - side[met])
    order = np.lexsort((at_m, pair[met]))
    met, at_m = met[order], at_m[order]
    # rings are closed, so that every line meets each building an even number of times
    inside = np.flatnonzero((np.cumsum(left[met]) & 1) & (np.cumsum(right[met]) & 1))
    of = line[pair[met[inside]]]
    from_m = np.maximum(at_m[inside], 0.0)
    until_m = np.minimum(at_m[inside + 1], lines.length_m[of]) if len(inside) else from_m
    long = until_m - from_m > TOUCH_M
    row = met[inside[long]]
    return Stretches(of[long], building[pair[row]], from_m[long], until_m[long], vertex[row])

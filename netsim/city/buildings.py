"""Buildings as prisms: line of sight, clear paths, and outdoor places.

Each line has its own frame: `along` is the distance from its start, `side` the distance to its
left, in metres. A line crosses a wall where `side` changes sign. A vertex that lies on the line is
evaluated twice, moved to the left and moved to the right. Only stretches that are inside in both
cases count as inside, so touching a corner or a wall is not a crossing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from netsim.columns import Columns, copy_with, frozen, select_groups, split_blocks
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.maps import Shapes
from netsim.rng import Rng
from netsim.ues import STOREY_M
from netsim.units import ArrayPair, BoolArray, ComplexArray, FloatArray, IntArray, IntArrayPair

if TYPE_CHECKING:
    from shapely import STRtree

_DRAWS = 1000  # of a place out of doors, before a city counts as full
TOUCH_M = 1e-9  # nearer than this, or for a shorter way than this, is touching
_TABLE = 100_000  # pairs of a link and a building, or points, weighed at once, to bound memory


@frozen
class Buildings(Columns):
    """Buildings as prisms: `footprint` (n,) valid shapely polygons, holes are courtyards;
    `height_m` (n,) above ground.

    A wall belongs to the outside: a point on a wall is outdoors, and a link that touches a wall is
    not blocked. `house` (n,) : number of the house that each is a part of; None: each is one.
    """

    footprint: Shapes
    height_m: FloatArray
    house: IntArray | None = None

    @classmethod
    def none(cls) -> Buildings:
        return cls(np.empty(0, object), np.empty(0))

    def __len__(self) -> int:
        return len(self.height_m)

    def list_rings(self) -> tuple[tuple[FloatArray, ...], ...]:
        """Outlines of each building (k, 2): its walls anticlockwise, then those of its courtyards
        clockwise.
        """
        from shapely.geometry.polygon import orient

        return tuple(
            tuple(np.asarray(ring.coords) for ring in (shape.exterior, *shape.interiors))
            for shape in map(orient, self.footprint)
        )

    def measure_middles_and_floor_areas(self) -> FloatArray:
        """Middle (x, y) and floor area in m2 of every building (n, 3)."""
        import shapely

        floors = np.maximum(self.height_m // STOREY_M, 1.0)
        middle_m = shapely.get_coordinates(shapely.centroid(self.footprint))
        return np.column_stack([middle_m, shapely.area(self.footprint) * floors])

    def is_indoors(self, position_m: FloatArray) -> BoolArray:
        """Which points (n, 2) are indoors; (n,)."""
        indoors = np.zeros(len(position_m), bool)
        for rows in split_blocks(len(position_m), _TABLE):
            indoors[rows][self._pair_points_with_buildings(position_m[rows])[0]] = True
        return indoors

    def find_height_m(
        self, position_m: FloatArray, ignored_building: IntArray | None = None
    ) -> FloatArray:
        """Height of the tallest building over each point (n, 2), 0 outdoors; (n,).

        ignored_building (n,) is a building whose house does not count for each point, -1 for none.
        """
        height_m = np.zeros(len(position_m))
        point, building = self._pair_points_with_buildings(position_m)
        counted_m = self.height_m[building]
        if ignored_building is not None:
            is_other = self._is_other_house(building, ignored_building[point])
            counted_m = np.where(is_other, counted_m, 0.0)
        np.maximum.at(height_m, point, counted_m)
        return height_m

    def has_line_of_sight(
        self, ue_m: FloatArray, bs_m: FloatArray, own_building: IntArray | None = None
    ) -> BoolArray:
        r"""Which links from ue_m (n, 3) to bs_m (m, 3) are in line of sight; (n, m).

        Link z(s), 0 <= s <= 1, is blocked iff it is lower than a building somewhere over its
        footprint::

            min over s in I of z(s) < h,    I the parts of the link inside the footprint

        Both directions of a link give the same result, bit for bit. An absent UE (NaN) has no line
        of sight. own_building (n,) is a building whose house does not block the links of each UE,
        -1 for none.
        """
        shape = len(ue_m), len(bs_m)
        ue, bs = (index.ravel() for index in np.indices(shape))
        a_m, b_m = _order_ends(ue_m[ue], bs_m[bs])
        present = np.isfinite(a_m + b_m).all(axis=1)
        ignored_building = np.full(len(ue), -1) if own_building is None else own_building[ue]
        return (present & ~self._is_blocked(a_m, b_m, ignored_building)).reshape(shape)

    def has_clear_path(self, a_m: FloatArray, b_m: FloatArray) -> BoolArray:
        """Which straight paths on the ground from a_m (n, 2) to b_m (n, 2) avoid all buildings;
        (n,).
        """
        return np.isinf(self.find_wall_distance_and_direction(a_m, b_m)[0])

    def find_wall_distance_and_direction(self, a_m: FloatArray, b_m: FloatArray) -> ArrayPair:
        """Distance at which each path from a_m to b_m (n, 2) first enters a building, and the
        direction of that wall.

        Distances (n,) in metres, infinite for a clear path, and directions (n,) in radians. A path
        that begins indoors has distance 0.
        """
        walls = self._walls
        far_m = np.full(len(a_m), np.inf)
        towards_rad = np.zeros(len(a_m))
        unlimited_m = np.full(len(self), np.inf)
        for part in find_stretches(Lines.from_ends(a_m, b_m, walls), walls, unlimited_m):
            # the nearest is written last, and stays
            order = np.argsort(-part.from_m, kind="stable")
            row = part.line[order]
            wall = part.wall[order]
            far_m[row] = part.from_m[order]
            wall_m = walls.vertex[wall + 1] - walls.vertex[wall]
            towards_rad[row] = np.angle(wall_m)
        return far_m, towards_rad

    def draw_outdoor_m(self, area: Area, rng: Rng, name: str, owner: IntArray) -> FloatArray:
        """A uniform outdoor place (n, 2) for each owner (n,), drawn independently of the other
        owners.
        """
        position_m = np.empty((len(owner), 2))
        left = np.arange(len(owner))
        for draw in range(_DRAWS):
            position_m[left] = area.sample(rng.uniform(name, owner[left], (2,), item=draw))
            left = left[self.is_indoors(position_m[left])]
            if not left.size:
                return position_m
        raise BadInput(
            f"world.city: {_DRAWS} random places were all indoors; leave room between the "
            "buildings, or around them (margin_m of footprints)"
        )

    def _is_blocked(
        self, a_m: FloatArray, b_m: FloatArray, ignored_building: IntArray
    ) -> BoolArray:
        """Which links between points (k, 3), in the order of `_order_ends`, are blocked; (k,).

        ignored_building (k,) is a building whose house does not block each link, -1 for none.
        """
        blocked = np.zeros(len(a_m), bool)
        lines = Lines.from_ends(a_m, b_m, self._walls)
        for part in find_stretches(lines, self._walls, self.height_m):
            low_m, high_m = lines.ends_m[part.line].T
            share = np.stack([part.from_m, part.until_m]) / lines.length_m[part.line]
            min_height_m = (low_m + (high_m - low_m) * share).min(axis=0)
            lower = min_height_m < self.height_m[part.building]
            lower &= self._is_other_house(part.building, ignored_building[part.line])
            blocked[part.line[lower]] = True
        upright = np.flatnonzero(lines.length_m <= TOUCH_M)
        roof_m = self.find_height_m(a_m[upright, :2], ignored_building[upright])
        blocked[upright] = lines.ends_m[upright].min(axis=1) < roof_m
        return blocked

    def _is_other_house(self, building: IntArray, ignored_building: IntArray) -> BoolArray:
        """Which buildings (k,) are not of the house of another one (k,), -1 for none."""
        house = np.arange(len(self)) if self.house is None else self.house
        return (ignored_building < 0) | (house[building] != house[ignored_building])

    def _pair_points_with_buildings(self, position_m: FloatArray) -> IntArrayPair:
        """Every pair of a point and a building over it."""
        present = np.flatnonzero(np.isfinite(position_m).all(axis=1))
        if not (len(self) and present.size):
            return present[:0], present[:0]
        import shapely

        point, building = self._tree.query(shapely.points(position_m[present]), predicate="within")
        return present[point], building

    @cached_property
    def _tree(self) -> STRtree:
        from shapely import STRtree

        return STRtree(self.footprint)

    @cached_property
    def _walls(self) -> Walls:
        return Walls.from_footprints(self.footprint)


def _order_ends(a_m: FloatArray, b_m: FloatArray) -> ArrayPair:
    """The ends (k, 3) of links with the western one first, then the southern one."""
    east = a_m[:, 0] - b_m[:, 0]
    is_north = a_m[:, 1] > b_m[:, 1]
    swap = ((east > 0) | ((east == 0) & is_north))[:, None]
    return np.where(swap, b_m, a_m), np.where(swap, a_m, b_m)


# --- lines and walls
# ----------------------------------------------------------------------------------------


def _to_complex(position_m: FloatArray) -> ComplexArray:
    """Points (..., 2) as x + i y: a turn is a product."""
    return position_m[..., 0] + 1j * position_m[..., 1]


@frozen
class Walls:
    """The rings of n polygons, one after another.

    vertex (v,), relative to `origin_m` (2,), as x + i y; `last` (v,) marks those that close a ring;
    polygon k has the vertices first[k] to first[k + 1] and lies within `radius_m` (n,) of `centre`
    (n,).
    """

    origin_m: FloatArray
    vertex: ComplexArray
    last: BoolArray
    first: IntArray
    centre: ComplexArray
    radius_m: FloatArray

    @classmethod
    def from_footprints(cls, footprint: Shapes) -> Walls:
        """The walls of polygons (n,)."""
        import shapely

        ring, owner = shapely.get_rings(footprint, return_index=True)
        vertex_m, row = shapely.get_coordinates(ring, return_index=True)
        low_m, high_m = np.split(shapely.bounds(footprint).reshape(-1, 4), 2, axis=1)
        origin_m = low_m.min(axis=0) if len(low_m) else np.zeros(2)
        last = np.append(row[1:] != row[:-1], True)[: len(row)]
        first = np.searchsorted(owner[row], np.arange(len(footprint) + 1))
        middle_m = (low_m + high_m) / 2
        radius_m = np.linalg.norm(high_m - low_m, axis=1) / 2
        return cls(
            origin_m=origin_m,
            vertex=_to_complex(vertex_m - origin_m),
            last=last,
            first=first,
            centre=_to_complex(middle_m - origin_m),
            radius_m=radius_m + TOUCH_M,
        )


@frozen
class Lines(Columns):
    """Straight lines: on the ground from start (k,) along the unit vector way (k,), both as x + i
    y, for length_m (k,).

    way is 0 for a point. ends_m (k, 2) : heights of the ends.
    """

    start: ComplexArray
    way: ComplexArray
    length_m: FloatArray
    ends_m: FloatArray

    @classmethod
    def from_ends(cls, a_m: FloatArray, b_m: FloatArray, walls: Walls) -> Lines:
        """From a_m to b_m (k, 3), or (k, 2) for lines at height 0."""
        start = _to_complex(a_m[:, :2] - walls.origin_m)
        vector_m = _to_complex(b_m[:, :2] - a_m[:, :2])
        length_m = np.abs(vector_m)
        way = np.divide(vector_m, length_m, out=np.zeros_like(vector_m), where=length_m > TOUCH_M)
        heights_m = np.stack([a_m[:, 2:], b_m[:, 2:]], axis=1)
        ends_m = heights_m.reshape(len(vector_m), -1)
        return cls(start, way, length_m, ends_m if ends_m.size else np.zeros((len(vector_m), 2)))


@frozen
class Stretches:
    """Parts of lines that lie inside a footprint: from_m to until_m (s,) along the line.

    line, building (s,) are indices; `wall` (s,) is the index of the vertex at which the first wall
    crossed begins.
    """

    line: IntArray
    building: IntArray
    from_m: FloatArray
    until_m: FloatArray
    wall: IntArray


def find_stretches(lines: Lines, walls: Walls, height_m: FloatArray) -> Iterator[Stretches]:
    """Every part of a line inside the footprint of a building that may reach the line; one block of
    lines at a time.

    height_m (n,) : of the buildings.
    """
    if not len(height_m):
        return
    block = max(1, _TABLE // len(height_m))
    for start in range(0, len(lines.length_m), block):
        part = lines.select(slice(start, start + block))
        inside = _find_inside(part, walls, *_find_candidates(part, walls, height_m))
        yield copy_with(inside, line=inside.line + start)


def _find_candidates(lines: Lines, walls: Walls, height_m: FloatArray) -> IntArrayPair:
    """Candidate pairs (p,) of line and building: the line passes within the building's radius, not
    above its roof.
    """
    low_m = lines.ends_m.min(axis=1)
    # (lines, buildings); products of matrices are far faster than those of complex numbers
    back = lines.way.conj()
    start = lines.start * back
    centre = np.stack([walls.centre.real, walls.centre.imag])
    axis_along = np.stack([back.real, -back.imag], axis=1)
    along = axis_along @ centre - start.real[:, None]
    axis_side = np.stack([back.imag, back.real], axis=1)
    side = axis_side @ centre - start.imag[:, None]
    near = np.abs(side, out=side) <= walls.radius_m
    near &= along >= -walls.radius_m
    near &= along - lines.length_m[:, None] <= walls.radius_m
    near &= low_m[:, None] < height_m
    line, building = np.nonzero(near)
    rise_m = np.diff(lines.ends_m)[:, 0]
    # a point has no slope; the lower end decides
    is_sloped = lines.length_m > TOUCH_M
    slope = np.divide(rise_m, lines.length_m, out=np.zeros_like(rise_m), where=is_sloped)[line]
    centre_height_m = lines.ends_m[line, 0] + slope * along[line, building]
    min_height_m = centre_height_m - np.abs(slope) * walls.radius_m[building]
    below = np.maximum(min_height_m, low_m[line]) < height_m[building]
    return line[below], building[below]


def _find_inside(lines: Lines, walls: Walls, line: IntArray, building: IntArray) -> Stretches:
    """The parts of lines (p,) inside buildings (p,), in order."""
    count = np.diff(walls.first)[building]
    pair = np.repeat(np.arange(len(line)), count)
    _, vertex = select_groups(walls.first, building)
    turn = np.repeat(lines.way[line].conj(), count)
    framed = (walls.vertex[vertex] - np.repeat(lines.start[line], count)) * turn
    along = framed.real.copy()
    side = framed.imag.copy()
    side[np.abs(side) <= TOUCH_M] = 0.0
    wall = ~walls.last[vertex[:-1]]
    left = side >= 0  # the vertices on the line pushed to the left
    right = side > 0  # to the right
    left = (left[:-1] != left[1:]) & wall
    right = (right[:-1] != right[1:]) & wall
    met = np.flatnonzero(left | right)
    following = met + 1
    side_m = side[met]
    next_side_m = side[following]
    at_m = (along[met] * next_side_m - along[following] * side_m) / (next_side_m - side_m)
    order = np.lexsort((at_m, pair[met]))
    met = met[order]
    at_m = at_m[order]
    # rings are closed, so that every line meets each building an even number of times
    is_left_inside = np.cumsum(left[met]) & 1
    inside = np.flatnonzero(is_left_inside & (np.cumsum(right[met]) & 1))
    inside_line = line[pair[met[inside]]]
    from_m = np.maximum(at_m[inside], 0.0)
    until_m = np.minimum(at_m[inside + 1], lines.length_m[inside_line]) if len(inside) else from_m
    is_long = until_m - from_m > TOUCH_M
    row = met[inside[is_long]]
    return Stretches(
        inside_line[is_long], building[pair[row]], from_m[is_long], until_m[is_long], vertex[row]
    )

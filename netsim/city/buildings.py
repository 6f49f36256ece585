"""Buildings as prisms: line of sight, clear paths, and outdoor places."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from netsim.city.crossings import TOUCH_M, Lines, Walls, stretches
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from shapely import STRtree

_DRAWS = 1000  # of a place out of doors, before a city counts as full


_FLOOR_M = 3.0  # height of a storey


@dataclass(frozen=True, eq=False)
class Buildings:
    """Buildings as prisms: `footprint` (n,) valid shapely polygons, holes are courtyards; `height_m` (n,) above ground.

    A wall belongs to the outside: a point on a wall is outdoors, and a link that touches a wall is not blocked.
    """

    footprint: npt.NDArray[Any]
    height_m: FloatArray

    def __post_init__(self) -> None:
        if len(self.footprint) != len(self.height_m):
            raise ValueError(f"{len(self.footprint)} footprints have {len(self.height_m)} heights")

    @classmethod
    def none(cls) -> Buildings:
        """An empty city."""
        return cls(np.empty(0, dtype=object), np.empty(0))

    def __len__(self) -> int:
        return len(self.height_m)

    def rings(self) -> tuple[tuple[FloatArray, ...], ...]:
        """Outlines of each building (k, 2): its walls anticlockwise, then those of its courtyards clockwise."""
        from shapely.geometry.polygon import orient

        return tuple(
            tuple(np.asarray(ring.coords) for ring in (shape.exterior, *shape.interiors))
            for shape in map(orient, self.footprint)
        )

    def floor_area(self) -> FloatArray:
        """Middle (x, y) and floor area in m2 of every building (n, 3)."""
        floors = np.maximum(self.height_m // _FLOOR_M, 1.0)
        rows = [
            (shape.centroid.x, shape.centroid.y, shape.area * n)
            for shape, n in zip(self.footprint, floors, strict=True)
        ]
        return np.array(rows).reshape(-1, 3)

    def inside(self, position_m: FloatArray) -> BoolArray:
        """Which points (n, 2) are indoors; (n,)."""
        indoors = np.zeros(len(position_m), dtype=np.bool_)
        indoors[self._over(position_m)[0]] = True
        return indoors

    def height_at(self, position_m: FloatArray) -> FloatArray:
        """Height of the tallest building over each point (n, 2), 0 outdoors; (n,)."""
        return self._roof_m(position_m, None)

    def _roof_m(self, position_m: FloatArray, passed: IntArray | None) -> FloatArray:
        """`height_at` without the building passed (n,) of each point."""
        height_m = np.zeros(len(position_m))
        point, building = self._over(position_m)
        if passed is not None:
            other = building != passed[point]
            point, building = point[other], building[other]
        np.maximum.at(height_m, point, self.height_m[building])
        return height_m

    def line_of_sight(self, ue_m: FloatArray, bs_m: FloatArray, own: IntArray | None = None) -> BoolArray:
        r"""Which links from ue_m (n, 3) to bs_m (m, 3) are in line of sight; (n, m).

        Link z(s), 0 <= s <= 1, is blocked iff it is lower than a building somewhere over its footprint::

            min over s in I of z(s) < h,    I the parts of the link inside the footprint

        Both directions of a link give the same result, bit for bit. An absent UE (NaN) has no line of sight.
        own (n,) is a building that does not block the links of each UE, -1 for none.
        """
        shape = len(ue_m), len(bs_m)
        ue, bs = (index.ravel() for index in np.indices(shape))
        a_m, b_m = _in_order(ue_m[ue], bs_m[bs])
        present = np.isfinite(a_m).all(axis=1) & np.isfinite(b_m).all(axis=1)
        passed = None if own is None else own[ue]
        return (present & ~self._blocked(a_m, b_m, passed)).reshape(shape)

    def clear(self, a_m: FloatArray, b_m: FloatArray) -> BoolArray:
        """Which straight paths on the ground from a_m (n, 2) to b_m (n, 2) avoid all buildings; (n,)."""
        if not len(self):
            return np.ones(len(a_m), dtype=np.bool_)
        return np.isinf(self.first_wall(a_m, b_m)[0])

    def first_wall(self, a_m: FloatArray, b_m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distance at which each path from a_m to b_m (n, 2) first enters a building, and the direction of that wall.

        Distances (n,) in metres, infinite for a clear path, and directions (n,) in radians. A path that begins indoors
        has distance 0.
        """
        walls = self._walls
        lines = Lines.between(a_m, b_m, walls)
        far_m, towards_rad = np.full(len(a_m), np.inf), np.zeros(len(a_m))
        still = np.flatnonzero(lines.length_m <= TOUCH_M)
        if len(self) and still.size:
            far_m[still[self.inside(a_m[still])]] = 0.0
        for some in stretches(lines, walls, np.zeros((len(a_m), 2)), np.full(len(self), np.inf)):
            # the nearest is written last, and stays
            order = np.argsort(-some.from_m, kind="stable")
            row = some.line[order]
            along_m = (walls.vertex_m[some.wall + 1] - walls.vertex_m[some.wall])[order]
            far_m[row], towards_rad[row] = some.from_m[order], np.arctan2(along_m[:, 1], along_m[:, 0])
        return far_m, towards_rad

    def outdoor(self, area: Area, rng: Rng, what: str, owner: IntArray) -> FloatArray:
        """A uniform outdoor place (n, 2) for each owner (n,), drawn independently of the other owners."""
        position_m = area.sample(rng.uniform(what, owner, (2,)))
        left = np.flatnonzero(self.inside(position_m))
        for draw in range(1, _DRAWS):
            if not left.size:
                return position_m
            position_m[left] = area.sample(rng.uniform(what, owner[left], (2,), item=draw))
            left = left[self.inside(position_m[left])]
        raise BadInput(
            f"world.city: {_DRAWS} random places were all indoors; leave room between the buildings, or around them "
            "(margin_m of footprints)"
        )

    def _blocked(self, a_m: FloatArray, b_m: FloatArray, passed: IntArray | None = None) -> BoolArray:
        """Which links between points (k, 3), in the order of `_in_order`, are blocked; (k,).

        passed (k,) is a building that does not block each link, -1 for none.
        """
        blocked = np.zeros(len(a_m), dtype=np.bool_)
        if not len(self):
            return blocked
        lines = Lines.between(a_m[:, :2], b_m[:, :2], self._walls)
        ends_m = np.stack([a_m[:, 2], b_m[:, 2]], axis=1)
        for some in stretches(lines, self._walls, ends_m, self.height_m):
            low_m, high_m = ends_m[some.line].T
            share = np.stack([some.from_m, some.until_m]) / lines.length_m[some.line]
            min_height_m = (low_m + (high_m - low_m) * share).min(axis=0)
            lower = min_height_m < self.height_m[some.building]
            if passed is not None:
                lower &= some.building != passed[some.line]
            blocked[some.line[lower]] = True
        upright = np.flatnonzero(lines.length_m <= TOUCH_M)
        roof_m = self._roof_m(a_m[upright, :2], None if passed is None else passed[upright])
        blocked[upright] = ends_m[upright].min(axis=1) < roof_m
        return blocked

    def _over(self, position_m: FloatArray) -> tuple[IntArray, IntArray]:
        """Every pair of a point and a building over it."""
        there = np.flatnonzero(np.isfinite(position_m).all(axis=1))
        if not (len(self) and there.size):
            return there[:0], there[:0]
        import shapely

        point, building = self._tree.query(shapely.points(position_m[there]), predicate="within")
        return there[point], building

    @cached_property
    def _tree(self) -> STRtree:
        from shapely import STRtree

        return STRtree(self.footprint)

    @cached_property
    def _walls(self) -> Walls:
        return Walls.of(self.footprint)


def _in_order(a_m: FloatArray, b_m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ends (k, 3) of links with the western one first, then the southern one."""
    east = a_m[:, 0] - b_m[:, 0]
    swap = ((east > 0) | ((east == 0) & (a_m[:, 1] > b_m[:, 1])))[:, None]
    return np.where(swap, b_m, a_m), np.where(swap, a_m, b_m)

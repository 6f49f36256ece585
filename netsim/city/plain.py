"""Cities of a few numbers: an open field, a grid of equal blocks, and random shapes."""

from math import floor, pi, sqrt
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from netsim.city.base import City, SizedCity, Span, map_to_span
from netsim.city.buildings import Buildings
from netsim.errors import BadInput
from netsim.geometry import Area, compute_ways, measure_lengths
from netsim.part import Positive
from netsim.rng import Streams
from netsim.streets.assembly import StreetLines, assemble_streets
from netsim.streets.graph import CLASSES, Paths, StreetGraph
from netsim.units import ArrayPair, IntPair

_MIN_M = 1.0  # longer side of a trace's area


class OpenField(City, kind="open-field"):
    """An empty rectangle from (0, 0) to (width_m, height_m).

    Without a size it is the bounding box of the replayed trace, extended by `margin` on every side.
    The area is public, so its border must not coincide with the extreme positions of the users.
    """

    width_m: Positive | None = None
    """east-west side, m; none: from the replayed trace"""
    height_m: Positive | None = None
    """north-south side, m; none: from the replayed trace"""
    margin: float = Field(0.1, ge=0, le=10)
    """extension at each end of a side of the bounding box of a replayed trace, as a share of that
    side"""

    reference = "netsim: no obstacle, every link is in line of sight"
    example = {"kind": "open-field", "width_m": 500, "height_m": 400}

    @property
    def has_size(self) -> bool:  # type: ignore[override]
        return self.width_m is not None

    def area(self, trace_area: Area | None) -> Area:
        if self.width_m is not None and self.height_m is not None:
            return Area(0.0, 0.0, self.width_m, self.height_m)
        if trace_area is None:
            raise BadInput("world.city: open-field has no size; give width_m and height_m")
        if max(trace_area.side_m) < _MIN_M:
            raise BadInput(
                f"world.city: the trace covers {trace_area.side_m[0]:g} x "
                f"{trace_area.side_m[1]:g} m: too small "
                "for any location to leak; take a trace that moves, or give width_m and height_m"
            )
        grow_m = self.margin * trace_area.side_m
        return Area.from_points(np.array([trace_area.low_m - grow_m, trace_area.high_m + grow_m]))


_MAX_BLOCKS = 100_000


class GridCity(SizedCity, kind="grid"):
    """Square blocks with streets between them; each block is one building.

    Columns i and rows j are counted from the south-west corner (0, 0)::

        west wall of block (i, j) = street_m + i (block_m + street_m),  south wall likewise from j
        height ~ U(building_height_m), by block

    Streets run between the blocks and around them. Only blocks that fit completely, with their
    street, are placed; open ground may remain in the north and in the east.
    """

    reference = "Manhattan grid, ETSI TR 101 112 (UMTS 30.03), B.1.4.1.2: blocks and streets"
    example = {"kind": "grid", "width_m": 520, "height_m": 320}
    offers = frozenset({"buildings", "street grid", "streets"})

    block_m: float = Field(80.0, gt=0, le=1e5)
    """side of a block, m"""
    street_m: float = Field(20.0, gt=0, le=1e4)
    """width of a street, from wall to wall, m"""
    building_height_m: Span = (10.0, 30.0)
    """lowest and highest height of a building, m"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        columns, rows = self._blocks
        needed_m = self.block_m + 2 * self.street_m
        if not columns * rows:
            raise ValueError(
                f"no block fits: a block of {self.block_m:g} m between two streets of "
                f"{self.street_m:g} m needs "
                f"{needed_m:g} m, the area is {self.width_m:g} x {self.height_m:g} m"
            )
        if columns * rows > _MAX_BLOCKS:
            raise ValueError(
                f"{columns} x {rows} blocks are more than {_MAX_BLOCKS}: make block_m "
                f"larger or the area smaller"
            )
        return self

    @property
    def _period_m(self) -> float:
        return self.block_m + self.street_m

    @property
    def _blocks(self) -> IntPair:
        n_columns, n_rows = (
            (side_m - self.street_m) / self._period_m for side_m in (self.width_m, self.height_m)
        )
        return max(0, floor(n_columns + 1e-9)), max(0, floor(n_rows + 1e-9))

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        from shapely import box

        column, row = (index.ravel() for index in np.indices(self._blocks))
        west_m = self.street_m + column * self._period_m
        south_m = self.street_m + row * self._period_m
        # a block keeps its height when the city grows
        unit = streams.derive_rng("city.grid").uniform("height", column, item=row)
        footprint = box(west_m, south_m, west_m + self.block_m, south_m + self.block_m)
        return Buildings(footprint, map_to_span(self.building_height_m, unit))

    def street_graph(self, area: Area, streams: Streams) -> StreetGraph:
        """The centre lines of the streets, residential ones, with a node at every crossing of three
        or four.
        """
        x_m, y_m = self.street_grid()
        column, row = np.indices((len(x_m), len(y_m)))
        crossing_m = np.stack([x_m[column], y_m[row]], axis=-1)
        north = crossing_m.reshape(-1, 2)
        east = crossing_m.transpose(1, 0, 2).reshape(-1, 2)
        count = np.repeat([len(y_m), len(x_m)], [len(x_m), len(y_m)])
        residential = np.full(len(count), CLASSES.index("residential"))
        return assemble_streets(
            StreetLines.from_two_way_paths(
                Paths.from_vertices(np.concatenate([north, east]), count), residential
            )
        ).graph

    def street_grid(self) -> ArrayPair:
        return tuple(self.street_m / 2 + self._period_m * np.arange(n + 1) for n in self._blocks)  # type: ignore[return-value]


_DISC_CORNERS = 32
_STAR_CORNERS = 8
_MIN_RADIUS = 0.4  # radius of a corner of a star at least, as a share of the largest


class Generated(SizedCity, kind="generated"):
    r"""Discs, rotated rectangles and stars at random places, a third each.

    The south-west corner of the area is (0, 0). Each building is drawn independently::

        disc       32 corners, diameter ~ U(size_m)
        rectangle  both sides ~ U(size_m), rotated by U(0, 2 pi)
        star       8 corners at equal angles, rotated, radii ~ U(0.4, 1) U(size_m) / 2
        height ~ U(building_height_m),  centre uniform where the whole building stays inside the
        area

    Buildings may overlap; the taller one counts. Building k depends on (seed, k) only.
    """

    reference = "netsim: test cities for building maps from lines of sight"
    example = {"kind": "generated", "width_m": 300, "height_m": 300}
    offers = frozenset({"buildings"})

    count: int = Field(20, ge=0, le=100_000)
    """number of buildings"""
    size_m: Span = (10.0, 32.0)
    """smallest and largest diameter of a disc or star, or side of a rectangle, m"""
    building_height_m: Span = (10.0, 130.0)
    """lowest and highest height of a building, m"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        across_m = sqrt(2) * self.size_m[1]
        if self.count and across_m > min(self.width_m, self.height_m):
            raise ValueError(
                f"size_m: a rectangle of {self.size_m[1]:g} m is up to {across_m:.4g} m "
                f"across and does not fit in "
                f"{self.width_m:g} x {self.height_m:g} m; give smaller buildings or a larger area"
            )
        return self

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        if not self.count:
            return Buildings.none()
        import shapely

        number = np.arange(self.count)
        rng = streams.derive_rng("city.generated")
        unit = rng.uniform("building", number, (6,))
        share = _MIN_RADIUS + (1 - _MIN_RADIUS) * rng.uniform("star", number, (_STAR_CORNERS,))
        size_m = map_to_span(self.size_m, unit[:, :2])
        half_rad = np.arctan2(size_m[:, 1:], size_m[:, :1])
        discs, stars = (
            np.full((self.count, 1), 2 * pi / n) * np.arange(n)
            for n in (_DISC_CORNERS, _STAR_CORNERS)
        )
        # corners in polar form, angles and distances from the centre (n, corners or 1), of every
        # building in each shape
        corners_rad = half_rad * [-1, 1, -1, 1] + [0, 0, pi, pi]
        half_diagonal_m = measure_lengths(size_m)[:, None] / 2
        half_m = size_m[:, :1] / 2
        shapes = (
            (discs, half_m),
            (corners_rad, half_diagonal_m),
            (stars, half_m * share),
        )
        footprint = np.empty(self.count, object)
        for k, (angle_rad, from_centre_m) in enumerate(shapes):
            rows = number[k::3]
            radius_m = from_centre_m[rows]
            turn_rad = 2 * pi * unit[rows, 2:3]
            angle_rad = angle_rad[rows] + turn_rad
            reach_m = radius_m.max(axis=1, keepdims=True)
            centre_m = area.low_m + reach_m + unit[rows, 3:5] * (area.side_m - 2 * reach_m)
            corner_m = centre_m[:, None] + radius_m[:, :, None] * compute_ways(angle_rad)
            # against rounding
            footprint[rows] = shapely.polygons(np.clip(corner_m, area.low_m, area.high_m))
        return Buildings(footprint, map_to_span(self.building_height_m, unit[:, 5]))

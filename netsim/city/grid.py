"""A city of equal blocks with streets between them."""

from math import floor
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.city.base import City, Span, between
from netsim.city.buildings import Buildings
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.streets.assembly import StreetLines, assemble
from netsim.streets.graph import CLASSES, StreetGraph
from netsim.streets.paths import Paths
from netsim.units import FloatArray

_MAX_BLOCKS = 100_000


class GridCity(City):
    """Square blocks with streets between them; each block is one building.

    Columns i and rows j are counted from the south-west corner (0, 0)::

        west wall of block (i, j) = street_m + i (block_m + street_m),  south wall likewise from j
        height ~ U(building_height_m), by block

    Streets run between the blocks and around them. Only blocks that fit completely, with their street, are placed;
    open ground may remain in the north and in the east.
    """

    reference: ClassVar = "Manhattan grid, ETSI TR 101 112 (UMTS 30.03), B.1.4.1.2: blocks and streets"
    example: ClassVar = {"kind": "grid", "width_m": 520, "height_m": 320}
    offers: ClassVar = frozenset({"buildings", "street grid", "streets"})

    kind: Literal["grid"] = "grid"
    width_m: float = Field(gt=0, le=1e6)
    """east-west side of the area, m"""
    height_m: float = Field(gt=0, le=1e6)
    """north-south side of the area, m"""
    block_m: float = Field(default=80.0, gt=0, le=1e5)
    """side of a block, m"""
    street_m: float = Field(default=20.0, gt=0, le=1e4)
    """width of a street, from wall to wall, m"""
    building_height_m: Span = (10.0, 30.0)
    """lowest and highest height of a building, m"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        columns, rows = self._blocks
        needed_m = self.block_m + 2 * self.street_m
        if not columns * rows:
            raise ValueError(
                f"no block fits: a block of {self.block_m:g} m between two streets of {self.street_m:g} m needs "
                f"{needed_m:g} m, the area is {self.width_m:g} x {self.height_m:g} m"
            )
        if columns * rows > _MAX_BLOCKS:
            raise ValueError(
                f"{columns} x {rows} blocks are more than {_MAX_BLOCKS}: make block_m larger or the area smaller"
            )
        return self

    @property
    def _blocks(self) -> tuple[int, int]:
        """Number of columns and rows of blocks."""
        period_m = self.block_m + self.street_m
        columns, rows = ((side_m - self.street_m) / period_m for side_m in (self.width_m, self.height_m))
        return max(0, floor(columns + 1e-9)), max(0, floor(rows + 1e-9))

    def area(self, trace_area: Area | None) -> Area:
        return Area(0.0, 0.0, self.width_m, self.height_m)

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        from shapely import box

        columns, rows = self._blocks
        column, row = (index.ravel() for index in np.indices((columns, rows)))
        period_m = self.block_m + self.street_m
        west_m = self.street_m + column * period_m
        south_m = self.street_m + row * period_m
        # a block keeps its height when the city grows
        unit = streams.at("city.grid").uniform("height", column, item=row)
        footprint = box(west_m, south_m, west_m + self.block_m, south_m + self.block_m)
        return Buildings(footprint, between(self.building_height_m, unit))

    def street_graph(self, area: Area, streams: Streams) -> StreetGraph:
        """The centre lines of the streets, residential ones, with a node at every crossing of three or four."""
        x_m, y_m = self.street_grid()
        column, row = np.indices((len(x_m), len(y_m)))
        crossing_m = np.stack([x_m[column], y_m[row]], axis=-1)
        north = crossing_m.reshape(-1, 2)
        east = crossing_m.transpose(1, 0, 2).reshape(-1, 2)
        count = np.repeat([len(y_m), len(x_m)], [len(x_m), len(y_m)])
        residential = np.full(len(count), CLASSES.index("residential"))
        return assemble(StreetLines.two_way(Paths.measured(np.concatenate([north, east]), count), residential)).graph

    def street_grid(self) -> tuple[FloatArray, FloatArray]:
        columns, rows = self._blocks
        period_m = self.block_m + self.street_m
        return tuple(self.street_m / 2 + period_m * np.arange(n + 1) for n in (columns, rows))  # type: ignore[return-value]

"""A synthetic city: discs, rectangles and stars at random places."""

from math import sqrt
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.city.base import City, Span, between
from netsim.city.buildings import Buildings
from netsim.geometry import Area
from netsim.rng import Streams

_DISC_CORNERS = 32
_STAR_CORNERS = 8
_MIN_RADIUS = 0.4  # radius of a corner of a star at least, as a share of the largest


class Generated(City):
    r"""Discs, rotated rectangles and stars at random places, a third each.

    The south-west corner of the area is (0, 0). Each building is drawn independently::

        disc       32 corners, diameter ~ U(size_m)
        rectangle  both sides ~ U(size_m), rotated by U(0, 2 pi)
        star       8 corners at equal angles, rotated, radii ~ U(0.4, 1) U(size_m) / 2
        height ~ U(building_height_m),  centre uniform where the whole building stays inside the area

    Buildings may overlap; the taller one counts. Building k depends on (seed, k) only.
    """

    reference: ClassVar = "own generator of test cities for building maps from lines of sight"
    example: ClassVar = {"kind": "generated", "width_m": 300, "height_m": 300}
    offers: ClassVar = frozenset({"buildings"})

    kind: Literal["generated"] = "generated"
    width_m: float = Field(gt=0, le=1e6)
    """east-west side of the area, m"""
    height_m: float = Field(gt=0, le=1e6)
    """north-south side of the area, m"""
    count: int = Field(default=20, ge=0, le=100_000)
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
                f"size_m: a rectangle of {self.size_m[1]:g} m is up to {across_m:.4g} m across and does not fit in "
                f"{self.width_m:g} x {self.height_m:g} m; give smaller buildings or a larger area"
            )
        return self

    def area(self, trace_area: Area | None) -> Area:
        return Area(0.0, 0.0, self.width_m, self.height_m)

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        if not self.count:
            return Buildings.none()
        import shapely

        which = np.arange(self.count)
        rng = streams.at("city.generated")
        unit = rng.uniform("building", which, (6,))
        share = _MIN_RADIUS + (1 - _MIN_RADIUS) * rng.uniform("star", which, (_STAR_CORNERS,))
        size_m = between(self.size_m, unit[:, :2])
        half_rad = np.arctan2(size_m[:, 1], size_m[:, 0])
        discs, stars = (np.tile(2 * np.pi * np.arange(n) / n, (self.count, 1)) for n in (_DISC_CORNERS, _STAR_CORNERS))
        diagonal_m = np.tile(np.hypot(*size_m.T)[:, None] / 2, 4)
        # corners in polar form, angles and distances from the centre (n, corners), of every building in each shape
        shapes = (
            (discs, size_m[:, :1] / 2 + 0 * discs),
            (np.stack([-half_rad, half_rad, np.pi - half_rad, np.pi + half_rad], axis=1), diagonal_m),
            (stars, size_m[:, :1] / 2 * share),
        )
        footprint = np.empty(self.count, dtype=object)
        for k, (angle_rad, from_centre_m) in enumerate(shapes):
            own = which[k::3]
            from_centre_m = from_centre_m[own]
            angle_rad = angle_rad[own] + 2 * np.pi * unit[own, 2:3]
            reach_m = from_centre_m.max(axis=1, keepdims=True)
            centre_m = area.low_m + reach_m + unit[own, 3:5] * (area.side_m - 2 * reach_m)
            way = np.stack([np.cos(angle_rad), np.sin(angle_rad)], axis=2)
            corner_m = centre_m[:, None] + from_centre_m[:, :, None] * way
            footprint[own] = shapely.polygons(np.clip(corner_m, area.low_m, area.high_m))  # against rounding
        return Buildings(footprint, between(self.building_height_m, unit[:, 5]))

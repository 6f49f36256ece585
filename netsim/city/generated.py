"""A synthetic city: discs, rectangles and stars at random places."""

from math import sqrt
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.city.base import City, Span, between
from netsim.city.buildings import Buildings
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.units import FloatArray

_DISC, _RECTANGLE, _SHAPES = 0, 1, 3  # shape of building k is k mod 3; the third is a star
_DISC_CORNERS, _STAR_CORNERS = 32, 8
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
        outlines = [_outline(k % _SHAPES, size_m[k], share[k]) for k in range(self.count)]
        owner = np.repeat(which, [len(angle_rad) for angle_rad, _ in outlines])
        angle_rad = np.concatenate([angle_rad for angle_rad, _ in outlines]) + 2 * np.pi * unit[owner, 2]
        from_centre_m = np.concatenate([distance_m for _, distance_m in outlines])
        reach_m = np.maximum.reduceat(from_centre_m, np.searchsorted(owner, which))[:, None]
        centre_m = area.low_m + reach_m + unit[:, 3:5] * (area.side_m - 2 * reach_m)
        way = np.stack([np.cos(angle_rad), np.sin(angle_rad)], axis=1)
        corner_m = centre_m[owner] + from_centre_m[:, None] * way
        corner_m = np.clip(corner_m, area.low_m, area.high_m)  # against rounding
        footprint = shapely.polygons(shapely.linearrings(corner_m, indices=owner))
        return Buildings(footprint, between(self.building_height_m, unit[:, 5]))


def _outline(shape: int, size_m: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Corners of one building in polar form: angles in rad and distances from its centre in m, both (c,)."""
    if shape == _RECTANGLE:
        half = float(np.arctan2(size_m[1], size_m[0]))
        return np.array([-half, half, np.pi - half, np.pi + half]), np.full(4, np.hypot(*size_m) / 2)
    corners = _DISC_CORNERS if shape == _DISC else _STAR_CORNERS
    angle_rad = 2 * np.pi * np.arange(corners) / corners
    return angle_rad, size_m[0] / 2 * (np.ones(corners) if shape == _DISC else share)

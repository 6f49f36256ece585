"""Venues: the buildings that people visit, how attractive they are, when they are open, and the rooms inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from netsim.columns import Columns
from netsim.rng import Rng
from netsim.streets.doors import Premises
from netsim.units import BoolArray, FloatArray, IntArray

_PARETO = 1.2  # exponent of the distribution of attractiveness per floor area
_OPENS_H = np.array([8.0, 10.0, 17.0])  # shops and services, restaurants and shopping, evening venues
_CLOSES_H = np.array([18.0, 20.0, 24.0])
WORK_OPENS_H, WORK_CLOSES_H = 7.0, 19.0
_TRIES = 16  # points of the bounding box that are tried for a room


@dataclass(frozen=True, eq=False)
class Venues:
    """k places, one for each of the premises.

    weight (k,) : attractiveness, Pareto(1.2) times floor area; opens_h, closes_h (k,) : opening hours, every day.
    footprint (k,) : shapely polygons.
    """

    premises: Premises
    footprint: npt.NDArray[np.object_]
    weight: FloatArray
    opens_h: FloatArray
    closes_h: FloatArray

    @classmethod
    def drawn(cls, premises: Premises, footprint: npt.NDArray[np.object_], rng: Rng) -> Venues:
        """Attractiveness and opening hours; those of a building depend on its index only."""
        unit = rng.uniform("venue", premises.building, (2,))
        hours = (unit[:, 1] * len(_OPENS_H)).astype(np.int64)
        weight = premises.floor_area_m2 * unit[:, 0] ** (-1.0 / _PARETO)
        return cls(premises, footprint[premises.building], weight, _OPENS_H[hours], _CLOSES_H[hours])

    def is_open(self, place: IntArray, hour: FloatArray) -> BoolArray:
        """Whether places are open at an hour of the day; the shapes broadcast."""
        return (self.opens_h[place] <= hour) & (hour < self.closes_h[place])


@dataclass(frozen=True, eq=False)
class Rooms(Columns):
    """Rooms (n,) in buildings: room_m (n, 2), floor (n,) above the ground floor, and depth_m (n,) from the facade."""

    room_m: FloatArray
    floor: IntArray
    depth_m: FloatArray

    def where(self, mask: BoolArray, other: Rooms) -> Rooms:
        """These rooms where mask (n,) is set, the others elsewhere."""
        return Rooms(
            np.where(mask[:, None], self.room_m, other.room_m),
            np.where(mask, self.floor, other.floor),
            np.where(mask, self.depth_m, other.depth_m),
        )


def rooms(venues: Venues, place: IntArray, rng: Rng, what: str, ue: IntArray, item: npt.ArrayLike = 0) -> Rooms:
    """A random room in each of the places (n,): uniform in the footprint, on a uniform floor.

    A place of which 16 random points of the bounding box all lie outside has its room at an interior point.
    """
    import shapely

    unit = rng.uniform(what, ue, (2 * _TRIES + 1,), item=item)
    shape = venues.footprint[place]
    low_x, low_y, high_x, high_y = shapely.bounds(shape).reshape(-1, 4).T
    x = low_x[:, None] + (high_x - low_x)[:, None] * unit[:, 1 : _TRIES + 1]
    y = low_y[:, None] + (high_y - low_y)[:, None] * unit[:, _TRIES + 1 :]
    inside = shapely.contains_xy(shape[:, None], x, y)
    row, first = np.arange(len(place)), inside.argmax(axis=1)
    room_m = np.stack([x[row, first], y[row, first]], axis=1)
    if (lost := np.flatnonzero(~inside.any(axis=1))).size:
        room_m[lost] = shapely.get_coordinates(shapely.point_on_surface(shape[lost]))
    floor = (unit[:, 0] * venues.premises.floors[place]).astype(np.int64)
    depth_m = shapely.distance(shapely.boundary(shape), shapely.points(room_m))
    return Rooms(room_m, floor, np.asarray(depth_m, dtype=np.float64))

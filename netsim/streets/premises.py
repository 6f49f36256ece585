"""Doors of buildings: the facade point nearest to a street, and the way from there to each mode of travel."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from netsim.streets.doors import Premises
from netsim.streets.graph import CYCLE, DRIVE, WALK, StreetGraph
from netsim.streets.nearest import Nearest
from netsim.ues import STOREY_M
from netsim.units import FloatArray

MAX_DOOR_DISTANCE_M = 150.0
MIN_AREA_M2 = 20.0


class Prisms(Protocol):
    """Buildings: footprints (n,), polygons, and heights above ground (n,)."""

    @property
    def footprint(self) -> npt.NDArray[Any]:
        """Valid polygons (n,)."""

    @property
    def height_m(self) -> FloatArray:
        """Heights (n,), m."""


def doors(buildings: Prisms, graph: StreetGraph) -> Premises:
    """Buildings that can be entered: at least 20 m2 large, at most 150 m from a street that is open to pedestrians.

    The door is the point of the facade, courtyards included, that is nearest to such a street. From the door, a cyclist
    or driver walks straight to the nearest street that is open to the vehicle.

    Storeys are the height divided by 3 m and rounded, at least 1.
    """
    import shapely

    area_m2 = shapely.area(buildings.footprint)
    large = np.flatnonzero(area_m2 >= MIN_AREA_M2)
    wall = shapely.boundary(buildings.footprint[large])
    walk = Nearest(graph, WALK)
    row, line = walk.pairs(wall, MAX_DOOR_DISTANCE_M)
    building = large[row]
    way = shapely.shortest_line(wall[row], walk.line[line])
    door_m = shapely.get_coordinates(way)[::2]
    floors = np.maximum(1, np.floor(buildings.height_m / STOREY_M + 0.5)).astype(np.int64)
    return Premises(
        building=building,
        door_m=door_m,
        access=(
            walk.access(door_m),
            Nearest(graph, CYCLE).access(door_m),
            Nearest(graph, DRIVE).access(door_m),
        ),
        floors=floors[building],
        floor_area_m2=area_m2[building] * floors[building],
    )


def without_door(count: int, premises: Premises) -> tuple[str, ...]:
    """A note for the user on buildings that cannot be entered, of `count` buildings."""
    closed = count - len(premises)
    if not closed:
        return ()
    return (
        f"city: {closed:,} of {count:,} buildings have no door: they are smaller than {MIN_AREA_M2:g} m2 or farther "
        f"than {MAX_DOOR_DISTANCE_M:g} m from a street",
    )

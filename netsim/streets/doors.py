"""Doors: where a building is entered, and the nearest street for every mode of travel."""

from __future__ import annotations

import numpy as np

from netsim.columns import Columns, frozen, no_floats, no_ints, no_places
from netsim.maps import Shapes
from netsim.notice import Notices, notice
from netsim.streets.graph import MODES, WALK, StreetGraph
from netsim.ues import STOREY_M
from netsim.units import FloatArray, IntArray

_MAX_DOOR_DISTANCE_M = 150.0
_MIN_AREA_M2 = 20.0


@frozen
class Access(Columns):
    """Points on streets: street (k,), distance along_m (k,) from its beginning, and position at_m
    (k, 2).

    street is -1 where none is open to the mode of travel.
    """

    street: IntArray
    along_m: FloatArray
    at_m: FloatArray


@frozen
class Premises:
    """Buildings that can be entered from a street, k of them.

    building (k,) : index into the buildings of the city.
    door_m (k, 2) : point of the facade that is nearest to a street that is open to pedestrians.
    access : nearest point of a street to the door, one row for each of `graph.MODES`: (3, k).
    floors (k,) : number of storeys.
    floor_area_m2 (k,) : area of the footprint times storeys.
    """

    building: IntArray
    door_m: FloatArray
    access: Access
    floors: IntArray
    floor_area_m2: FloatArray

    def __len__(self) -> int:
        return len(self.building)

    def select_access(self, mode: IntArray, building: IntArray) -> Access:
        """Points at which some of the premises (m,) meet the streets, for a mode of travel each
        (m,).
        """
        return self.access.select((mode, building))  # type: ignore[arg-type]  # as numpy has it

    @classmethod
    def none(cls) -> Premises:
        """No building has a door."""
        return cls(
            no_ints(),
            no_places(),
            Access(no_ints(), no_floats(), no_places()),
            no_ints(),
            no_floats(),
        )


def find_doors(footprint: Shapes, height_m: FloatArray, graph: StreetGraph) -> Premises:
    """Buildings that can be entered: at least 20 m2 large, at most 150 m from a street that is open
    to pedestrians.

    footprint, height_m (n,) : polygons and heights of all buildings.

    The door is the point of the facade, courtyards included, that is nearest to such a street. From
    the door, a cyclist or driver walks straight to the nearest street that is open to the vehicle.

    Storeys are the height divided by 3 m and rounded, at least 1.
    """
    import shapely

    area_m2 = shapely.area(footprint)
    large = np.flatnonzero(area_m2 >= _MIN_AREA_M2)
    wall = shapely.boundary(footprint[large])
    line = graph.path.to_lines()[(graph.speed_m_s[:, :, WALK] > 0).any(axis=1)]
    row, nearest = shapely.STRtree(line).query_nearest(
        wall, max_distance=_MAX_DOOR_DISTANCE_M, all_matches=False
    )
    building = large[row]
    door_m = shapely.get_coordinates(shapely.shortest_line(wall[row], line[nearest]))[::2]
    floors = np.maximum(1, np.floor(height_m[building] / STOREY_M + 0.5)).astype(int)
    by_mode = [find_access(graph, door_m, mode) for mode in range(len(MODES))]
    columns = (
        np.stack([getattr(a, name) for a in by_mode]) for name in ("street", "along_m", "at_m")
    )
    return Premises(building, door_m, Access(*columns), floors, area_m2[building] * floors)


def find_access(graph: StreetGraph, position_m: FloatArray, mode: int) -> Access:
    """The point of a street open to a mode that is nearest to each position (k, 2); street -1 and
    NaN without one.
    """
    import shapely

    open_to = np.flatnonzero((graph.speed_m_s[:, :, mode] > 0).any(axis=1))
    if not len(open_to):
        nan = np.full((len(position_m), 2), np.nan)
        return Access(np.full(len(position_m), -1), nan[:, 0], nan)
    line = graph.path.to_lines()[open_to]
    point = shapely.points(position_m)
    _, nearest = shapely.STRtree(line).query_nearest(point, all_matches=False)
    place_m = shapely.line_locate_point(line[nearest], point)
    along_m = np.minimum(place_m, graph.length_m[open_to[nearest]])
    at_m = shapely.get_coordinates(shapely.line_interpolate_point(line[nearest], along_m))
    return Access(open_to[nearest], along_m, at_m)


def report_doorless(count: int, premises: Premises) -> Notices:
    """Buildings that cannot be entered, of `count` buildings."""
    if closed := count - len(premises):
        yield notice(
            "buildings-without-door",
            number=closed,
            total=count,
            area_m2=_MIN_AREA_M2,
            distance_m=_MAX_DOOR_DISTANCE_M,
        )

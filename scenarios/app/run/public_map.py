"""What a public map says of a city: streets and floors."""

from __future__ import annotations

import numpy as np

from netsim.city.base import City
from netsim.units import FloatArray
from netsim.world import World

_FLOOR_M = 3.0


def streets(city: City, world: World) -> FloatArray | None:
    """Straight pieces of all streets (k, 2, 2), one of two directions once; None where the city has none."""
    graph = world.ground.graph
    graph = city.street_graph(world.area, world.ground.streams) if graph is None else graph
    if graph is None:
        return None
    pieces = np.stack([graph.vertex_m[:-1], graph.vertex_m[1:]], axis=1)
    edge = np.repeat(np.arange(len(graph)), np.diff(graph.first))
    once = (graph.twin < 0) | (np.arange(len(graph)) < graph.twin)
    return np.asarray(pieces[(edge[:-1] == edge[1:]) & once[edge[:-1]]])


def floor_area(world: World) -> FloatArray:
    """Middle (x, y) and floor area in m2 of every building (n, 3)."""
    shapes, floors = world.buildings.footprint, np.maximum(world.buildings.height_m // _FLOOR_M, 1.0)
    rows = [(shape.centroid.x, shape.centroid.y, shape.area * n) for shape, n in zip(shapes, floors, strict=True)]
    return np.array(rows).reshape(-1, 3)

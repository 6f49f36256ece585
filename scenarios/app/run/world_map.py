"""map.npz: what stands in the world, and the radio at a sample of places: what maps on pages are drawn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from netsim.city.base import City
from netsim.columns import no_places
from netsim.safe import replacing
from netsim.streets.graph import StreetGraph
from netsim.world import World
from scenarios.app.results.folder import MAP, SCENERY

MAP_PLACES = 500  # outdoor places of the radio map


def write_map(folder: Path, world: World, city: City) -> None:
    """Write map.npz: buildings, base stations, streets, and the radio at a sample of outdoor places.

    footprint_m (k, 2) rings of walls, anticlockwise, and of courtyards, clockwise, with footprint_ptr (r + 1,) and
    footprint_building (r,), the building of each; building_height_m (n,); station_m (n_bs, 2), station_azimuth_deg
    (n_bs,), NaN for an antenna without a sector; place_m (m, 2), and for each place and base station distance_m,
    rsrp_dbm, los (m, n_bs).

    Where there are some: street_m (v, 2), street_ptr (s + 1,), street_class (s,), a street of two directions once;
    door_m (k, 2); scenery_m (v, 2), scenery_ptr (a + 1,), scenery_kind (a,), index into SCENERY.
    """
    rng, owner = world.ground.streams.at("report.map"), np.arange(MAP_PLACES)
    place = world.buildings.outdoor(world.area, rng, "place", owner)
    rings = world.buildings.rings()
    shapes = [ring for own in rings for ring in own]
    arrays: dict[str, np.ndarray] = {
        "footprint_m": np.concatenate(shapes) if shapes else no_places(),
        "footprint_ptr": np.cumsum([0, *(len(s) for s in shapes)]),
        "footprint_building": np.repeat(np.arange(len(rings)), [len(own) for own in rings]),
        "building_height_m": world.buildings.height_m,
        "station_m": np.array([b.at_m for b in world.stations]).reshape(-1, 2),
        "station_azimuth_deg": np.array([np.nan if b.azimuth_deg is None else b.azimuth_deg for b in world.stations]),
        "place_m": place,
    }
    if world.stations:
        links = world.budget.links(0.0, place)
        arrays |= {"distance_m": links.distance_m, "rsrp_dbm": links.rsrp_dbm, "los": links.los}
    graph = world.ground.graph  # or else the streets of a city in which no UE needs them
    graph = city.street_graph(world.area, world.ground.streams) if graph is None else graph
    if graph is not None:
        arrays |= _streets(graph)
    if len(world.ground.premises):
        arrays["door_m"] = world.ground.premises.door_m
    scenery = city.scenery(world.area, world.ground.streams)
    if scenery:
        arrays["scenery_m"] = np.concatenate([ring for _, ring in scenery])
        arrays["scenery_ptr"] = np.cumsum([0, *(len(ring) for _, ring in scenery)])
        arrays["scenery_kind"] = np.array([SCENERY.index(kind) for kind, _ in scenery])
    with replacing(folder / MAP) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _streets(graph: StreetGraph) -> dict[str, Any]:
    """Centre lines; of the two directions of a street the first."""
    drawn = np.flatnonzero((graph.twin < 0) | (graph.twin > np.arange(len(graph))))
    lines = [graph.line_m(int(k)) for k in drawn]
    return {
        "street_m": np.concatenate(lines) if lines else no_places(),
        "street_ptr": np.cumsum([0, *map(len, lines)]),
        "street_class": graph.street_class[drawn],
    }

"""What a run writes besides the tables of its rounds: tracks, maps, coverage; warnings of deltas."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from fl.round.setup import Setup
from fl.round.state import RoundState
from fl.types import LOCATION
from netsim.city.base import City
from netsim.columns import no_places
from netsim.radio.downlink import Downlink, reception
from netsim.record import Recorder
from netsim.safe import replacing
from netsim.trail import Looks, TrackRows
from netsim.units import FloatArray
from netsim.world import World
from scenarios.app.results.folder import (
    MAP,
    POINTS,
    SCENERY,
    read_table,
)
from scenarios.app.results.statistics import too_large
from scenarios.app.run.setup import street_graph

MOST_CELLS = 100  # of the grid along the longer side
_MOST_LINKS = 200_000  # that are computed at once


def coverage_grid(world: World) -> FloatArray:
    """Centres (n, 2) of square cells over the area, 100 along its longer side; those in buildings are left out."""
    area = world.area
    side_m = float(area.side_m.max()) / MOST_CELLS
    x_m, y_m = (
        low + (np.arange(max(1, ceil(length / side_m - 1e-9))) + 0.5) * side_m
        for low, length in zip(area.low_m, area.side_m, strict=True)
    )
    place_m = np.stack(np.meshgrid(x_m, y_m), axis=-1).reshape(-1, 2)
    return place_m[~world.buildings.inside(place_m)]


def coverage(world: World, downlink: Downlink, place_m: FloatArray, learnt_dbm: FloatArray | None) -> dict[str, Any]:
    """Rows of the table `coverage` at places (n, 2): the radio where it is modelled, and what was learnt of it (n,)."""
    modelled = bool(world.stations) and (world.trace is None or world.trace.rsrp_dbm is None)
    if not modelled and learnt_dbm is None:
        place_m = place_m[:0]
    truth = _truth(world, place_m, downlink) if modelled else _unknown(len(place_m))
    learnt_dbm = np.full(len(place_m), np.nan) if learnt_dbm is None else learnt_dbm
    return {"x_m": place_m[:, 0], "y_m": place_m[:, 1], **truth, "learnt_dbm": learnt_dbm}


def _truth(world: World, place_m: FloatArray, downlink: Downlink) -> dict[str, Any]:
    """The strongest base station at each place (n, 2), and how it is received."""
    names = [b.name for b in world.stations]
    size = max(1, _MOST_LINKS // len(names))
    cells: list[str] = []
    columns: list[FloatArray] = [np.zeros((0, 3))]
    for first in range(0, len(place_m), size):
        links = world.budget.links(0.0, place_m[first : first + size])
        got = reception(links, links.serving, downlink)
        columns.append(np.column_stack([got.rsrp_dbm, got.sinr_db, got.los]))
        cells += [names[c] for c in links.serving]
    rsrp_dbm, sinr_db, los = np.concatenate(columns).T
    return {"cell": cells, "rsrp_dbm": rsrp_dbm, "sinr_db": sinr_db, "los": los.astype(np.int64)}


def _unknown(n: int) -> dict[str, Any]:
    """Where a trace brings what was measured."""
    return {"cell": [""] * n, **{name: np.full(n, np.nan) for name in ("rsrp_dbm", "sinr_db", "los")}}


def follow_ues(world: World) -> dict[str, Any]:
    """Take the tracks of a world that has not moved yet; what the manifest says of them."""
    looks = Looks.of(len(world.ues), world.duration_s, world.tick_s)
    world.follow(looks)
    return {"every_s": looks.every_s, "ues": looks.ues}


def write_tracks(recorder: Recorder, world: World) -> None:
    """Append the rows of tracks since the last call, up to now."""
    world.catch_up()
    rows = [] if world.tracks is None else world.tracks.drain()
    if world.tracks is not None and rows:
        names = np.array([*(station.name for station in world.stations), ""], dtype=object)  # the last one for -1
        pieces = [_columns(each, world.tracks.looks.every_s, names) for each in rows]
        recorder.write("tracks", {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]})


def _columns(rows: TrackRows, every_s: float, names: np.ndarray) -> dict[str, np.ndarray]:
    """Rows of one look as columns; of an absent UE only index and time."""
    seen, absent = rows.seen, rows.seen.absent
    return {
        "ue": rows.ue,
        "time_s": np.full(len(rows.ue), rows.look * every_s),
        "x_m": seen.at_m[:, 0],
        "y_m": seen.at_m[:, 1],
        "indoor": np.where(absent, np.nan, seen.inside),
        "cell": names[np.where(absent, -1, seen.cell)],
    }


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
    graph = street_graph(world, city)
    if graph is not None:
        street_m, street_ptr, edge = graph.centre_lines()
        arrays |= {"street_m": street_m, "street_ptr": street_ptr, "street_class": graph.street_class[edge]}
    if len(world.ground.premises):
        arrays["door_m"] = world.ground.premises.door_m
    scenery = city.scenery(world.area, world.ground.streams)
    if scenery:
        arrays["scenery_m"] = np.concatenate([ring for _, ring in scenery])
        arrays["scenery_ptr"] = np.cumsum([0, *(len(ring) for _, ring in scenery)])
        arrays["scenery_kind"] = np.array([SCENERY.index(kind) for kind, _ in scenery])
    with replacing(folder / MAP) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def write_points(folder: Path, state: RoundState) -> None:
    """True points of every track, thinned: what the report's map draws."""
    tracks = [(ue, track.points) for (ue, _), track in state.leakage.items()]
    ue = np.concatenate([np.full(len(points), ue) for ue, points in tracks] or [np.zeros(0)])
    points = np.concatenate([points for _, points in tracks] or [no_places()])
    with replacing(folder / POINTS) as file:
        np.savez_compressed(file, ue=ue.astype(np.int64), position_m=points)


def delta_warnings(setup: Setup, state: RoundState) -> list[str]:
    """Deltas of 1/n and more, n being the UEs, or the records that a round learns from, of which one is hidden."""
    records = int(read_table(setup.recorder.folder, "rounds")["selected"].max(initial=0))
    of, budget = {"user": (state.ledger.n_ue, "UE"), LOCATION: (0, "")}, setup.learning.privacy_budget
    stated = {(a.mechanism, a.unit, a.delta) for a in state.ledger.sums}
    stated |= {("privacy_budget", a.unit, budget.delta) for a in state.ledger.sums if budget and budget.delta}
    said = ((name, too_large(delta, *of.get(unit, (records, "record")))) for name, unit, delta in sorted(stated))
    return [f"{name}: {text}" for name, text in said if text]

"""What a run writes besides the rounds: tracks, maps, coverage, whole-run tables, warnings of figures."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any, cast

import numpy as np

from fl.leakage import leakage
from fl.leakage.linking import Linking, observe
from fl.leakage.lists import most_named, scores
from fl.leakage.tracking import belief_rows, compared
from fl.leakage.unicity import unicity
from fl.learners.base import SurfaceLearner
from fl.privacy.final import final_account
from fl.round import records
from fl.round.leaked import retold_of
from fl.round.learnt_map import learnt_map
from fl.round.setup import Setup
from fl.round.state import RoundState
from fl.round.streams import RoundStreams
from fl.tracking.belief import Belief
from fl.types import LOCATION, Facts, Local
from netsim.city.base import City
from netsim.columns import no_places
from netsim.radio.downlink import Downlink, reception
from netsim.record import Recorder
from netsim.safe import replacing
from netsim.streets.graph import StreetGraph
from netsim.trail import Looks, TrackRows
from netsim.units import FloatArray
from netsim.world import World
from scenarios.app.results.folder import (
    MAP,
    POINTS,
    SCENERY,
    SURFACES,
    read_table,
)
from scenarios.app.results.statistics import too_large
from scenarios.app.run.setup import floor_area

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


def write_points(folder: Path, state: RoundState) -> None:
    """True points of every track, thinned: what the report's map draws."""
    tracks = [(ue, track.points) for (ue, _), track in state.leakage.items()]
    ue = np.concatenate([np.full(len(points), ue) for ue, points in tracks] or [np.zeros(0)])
    points = np.concatenate([points for _, points in tracks] or [no_places()])
    with replacing(folder / POINTS) as file:
        np.savez_compressed(file, ue=ue.astype(np.int64), position_m=points)


def write_surfaces(folder: Path, setup: Setup, state: RoundState, world: World) -> None:
    """Of the first model at the first bandwidth; nothing for a learner without surfaces, or where nobody was heard."""
    model = state.model
    if "surfaces" not in setup.learning.learner.offers or not len(state.held_out) or not model.parameters[0].any():
        return
    learner = cast(SurfaceLearner, setup.learning.learner)
    grid = learner.grid_m(model)
    arrays: dict[str, FloatArray] = {
        "x_m": model.constants["x_m"],
        "y_m": model.constants["y_m"],
        "estimate": learner.surfaces(model, model.parameters[:1])[0, 0],
        "exact": learner.reference_map(model, state.held_out.usual),
    }
    law = world.mobility.density(grid.reshape(-1, 2))
    if law is not None:
        arrays["law"] = law.reshape(grid.shape[:2])
    if not setup.learning.curation:  # which would have changed what the UE answered about
        arrays |= _answer(setup, state, learner)
    with replacing(folder / SURFACES) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _answer(setup: Setup, state: RoundState, learner: SurfaceLearner) -> dict[str, FloatArray]:
    """What the UE nearest to the middle of the area answered in the last round, before any defense, made again."""
    held_out = state.held_out
    away = np.linalg.norm(held_out.x - setup.public.area.centre_m, axis=1)
    i = int(np.argmin(away))
    ue, zero, phase = held_out.ue[i : i + 1], np.zeros(1, dtype=np.int64), learner.phases[0]
    place = held_out.x[i : i + 1]
    data = Local(ue, zero, np.array([0, 1]), place, None, np.zeros(1))
    made = learner.local(state.model, phase, data, RoundStreams(setup.streams, state.round).learner(phase))
    return {"answer": learner.surfaces(state.model, made.rows(slice(None)))[0, 0], "answer_at_m": place[0]}


def delta_warnings(setup: Setup, state: RoundState) -> list[str]:
    """Deltas of 1/n and more, n being the UEs, or the records that a round learns from, of which one is hidden."""
    records = int(read_table(setup.recorder.folder, "rounds")["selected"].max(initial=0))
    of, budget = {"user": (state.ledger.n_ue, "UE"), LOCATION: (0, "")}, setup.learning.privacy_budget
    stated = {(a.mechanism, a.unit, a.delta) for a in state.ledger.sums}
    stated |= {("privacy_budget", a.unit, budget.delta) for a in state.ledger.sums if budget and budget.delta}
    said = ((name, too_large(delta, *of.get(unit, (records, "record")))) for name, unit, delta in sorted(stated))
    return [f"{name}: {text}" for name, text in said if text]


def scoring_warnings(setup: Setup, state: RoundState) -> list[str]:
    """Compared rounds in which no UE was heard, where not all are compared, and names that were young at the end."""
    learning, folder, found = setup.learning, setup.recorder.folder, list[str]()
    uplink = read_table(folder, "updates" if learning.threat.at_m is None else "eavesdropper")
    compared = np.unique(read_table(folder, "leakage")["round"])
    silent = np.setdiff1d(compared, uplink["round"][uplink["decoded"] == 1])
    if len(silent) and learning.leakage.every_rounds > 1:
        found.append(
            f"leakage: no UE was heard in {len(silent)} of the {len(compared)} compared rounds (the last: "
            f"{silent[-1]:g}); what is named of UEs there was named before. learning.leakage.every_rounds: 1 compares "
            f"all rounds (here {learning.leakage.every_rounds})"
        )
    young = state.parts.names.young() if learning.threat.renames else None
    if len(compared) and young is not None:
        found.append(
            f"leakage: at the end names had been heard in {young[0]:g} rounds, earlier ones in {young[1]:g} (medians), "
            "and what is named of UEs at the end is named under them; end the run shortly before names change "
            "(world.duration_s, learning.rounds)"
        )
    return found


def write_whole_run(setup: Setup, state: RoundState, world: World, downlink: Downlink) -> None:
    """Exact Wasserstein distances, distances between UEs, privacy, hindsight, maps."""
    final = records.last_utility(setup.learning, state, world) | records.references(setup, state)
    setup.recorder.write("final", {"name": list(final), "value": list(final.values())})
    spends = read_table(setup.recorder.folder, "spends")
    for row in final_account(spends):
        setup.recorder.row("privacy", **row)
    for (ue, model, attack), distances in leakage.exact(state.leakage).items():
        setup.recorder.row("wasserstein", ue=ue, model=model, attack=attack, **distances)
    how = setup.learning.leakage
    named = leakage.named_at_end(how, state.leakage, world.area, world.places)
    for row in named:
        setup.recorder.row("named", **row)
    _write_lists(setup, state, world, named)
    facts = Facts(
        state.round, float(world.env.now), setup.public, round_s=setup.learning.round_s,
        week_s=world.clock.week_s(float(world.env.now)),
    )  # fmt: skip
    for label, belief in _in_hindsight(setup, state, facts):
        tracked = compared(belief, state.whereabouts.at(belief.round), None, how.near_m, hindsight=True)
        cells = belief_rows(belief, how.belief_ues, hindsight=True)
        records.write_tracked(setup.recorder, {label: tracked}, {label: cells})
    for rows in _linked_again(setup, state, facts) if setup.learning.threat.renames else ():
        setup.recorder.write("linking", rows)
    for row in unicity(state.whereabouts, setup.streams.at("unicity")) if setup.learning.threat.renames else ():
        setup.recorder.row("unicity", **row)
    for ue, other, sw1_m in leakage.pairs(state.leakage, how.directions):
        setup.recorder.row("user_distances", ue=ue, other=other, sw1_m=sw1_m, sqrt_sw1=float(np.sqrt(sw1_m)))
    place_m = coverage_grid(world)
    setup.recorder.write("coverage", coverage(world, downlink, place_m, learnt_map(setup, state, place_m)))


def _write_lists(setup: Setup, state: RoundState, world: World, named: list[dict[str, Any]]) -> None:
    """Lists of places that attacks make of what is not one UE's, and how good they are; no score without a place.

    named : what attacks name of each UE, of which a list is made where they make none.
    """
    learning, n = setup.learning, len(world.ues)
    if learning.threat.sees == "rows" and not learning.threat.renames:
        return
    listed_m = dict[str, FloatArray]()
    for one in learning.attacks:
        at = one.listed(state.parts.attacks[one.label], setup.public, learning.leakage.list_places)
        listed_m[one.label] = most_named(named, one.label, world.area, learning.leakage) if at is None else at
        for rank, (x, y) in enumerate(listed_m[one.label].tolist(), start=1):
            setup.recorder.row("listed", attack=one.label, rank=rank, x_m=x, y_m=y)
    aside = world.mobility.residents(np.arange(n, 2 * n), world.ground)
    town = {"participants": world.places, "aside": aside}
    found = any(map(len, listed_m.values()))
    for row in scores(listed_m, town, world.area, floor_area(world), learning.leakage) if found else ():
        setup.recorder.row("list_scores", **row)


def _in_hindsight(setup: Setup, state: RoundState, facts: Facts) -> Iterator[tuple[str, Belief]]:
    """What attacks believe of each round, now that they know all of them; by attack."""
    for attack in setup.learning.attacks:
        for belief in attack.hindsight(state.parts.attacks[attack.label], facts):
            yield attack.label, state.parts.names.of_ues(belief)


def _linked_again(setup: Setup, state: RoundState, facts: Facts) -> Iterator[dict[str, Any]]:
    """Columns of the table `linking` of attacks that link names anew, now that they know all rounds."""
    for label, retold in retold_of(setup, state.parts, facts).items():
        linking = Linking()
        for time_s, links in retold.links:
            linking, rows = observe(linking, {label: links}, state.parts.names, time_s)
            yield rows | {"round": [links.round]}

"""Run a study: build the world, play the rounds, write the run folder; resume what was interrupted."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from fl import leakage, report_rows
from fl.caveats import caveats
from fl.grid import CELLS
from fl.learners.base import SurfaceLearner
from fl.privacy.final import final_account
from fl.round import Carry, Setup, begin, first_asked, rounds
from fl.tables import TABLES
from fl.types import Antennas, DatasetStatistics, HeldOut, Model, Public
from netsim import __version__
from netsim.card import channel_card
from netsim.checkpoint import load_tree, save_tree
from netsim.errors import BadInput
from netsim.mobility.replay import Replay
from netsim.observe import Observations
from netsim.radio.shared_band import SharedBand
from netsim.record import Recorder, write_json, write_text
from netsim.rng import Streams
from netsim.safe import replacing, what_is
from netsim.stations import MOST_STATIONS
from netsim.units import IntArray
from netsim.world import World, build_world, check_near
from scenarios.folder import (
    CHECKPOINT,
    MANIFEST,
    MAP,
    PLAN,
    POINTS,
    STUDY,
    SUMMARY,
    admit,
    clear,
    read_json,
    read_table,
)
from scenarios.marker import held
from scenarios.plan import planned
from scenarios.replay import hold_out_notes
from scenarios.resolved import study_yaml
from scenarios.study import SCHEMA_VERSION, Study
from scenarios.summary import summarise
from scenarios.surfaces import write_surfaces
from scenarios.trajectory import cache_folder

MOST_ROUNDS = 1_000_000
MOST_TICKS = 1e8
MOST_SAMPLES = 5e7  # measurements of a round, which are kept until it ends
WORLDS_KEPT = 4  # rehearsals in memory,
MOST_KEPT = 1_000_000  # each of at most so many measurements
MOST_WRITTEN = 5e8  # numbers of surfaces that an attacker holds at once: 4 GB
MAP_PLACES = 500  # outdoor places of the radio map
CHECKPOINT_EVERY_S = 10.0  # of wall time; when it is written changes no result


@dataclass(frozen=True)
class Progress:
    """What a round looked like, for whoever watches."""

    round: int
    rounds: int
    time_s: float
    clock: str
    figures: dict[str, Any]
    last: bool


Watch = Callable[[Progress], None]


def run(
    study: Study, out: str | Path, watch: Watch | None = None, command: str = "", replace: bool = False
) -> dict[str, Any]:
    """Run a study into the folder `out`; returns the summary.

    An unfinished run of the very same study in that folder is resumed from its last checkpoint and ends in the
    same bytes; a finished one is played again. The run of another study stays, and is refused, unless `replace`;
    then a checkpoint that cannot be used is forgotten as well. Everything runs on one thread, so results do not
    depend on the number of cores; sweeps use several processes instead.
    """
    began = time.perf_counter()
    folder = Path(out)
    with one_thread():
        found = planned(study, cache_folder())
        world, setup = ready(found.study, folder)  # before anything is written: files may be refused,
        first = begin(setup, len(world.ues))  # and data
        text = study_yaml(study)
        with held(folder, "run", lambda: admit(folder, text, replace)):
            tree = _unfinished(setup.recorder, text, replace)
            if tree is None:
                clear(folder)
            write_text(folder / STUDY, text)
            if found.said:
                write_json(folder / PLAN, found.said)
            _run(study, world, setup, first, tree, watch, command, began)
    return read_json(folder / SUMMARY)


def ready(study: Study, folder: Path, rehearsed: bool = True) -> tuple[World, Setup]:
    """The world of a study and its rounds: all files are read, and what cannot be played is refused."""
    streams = Streams(study.seed)
    world = build_world(study.world, streams, study.learning.every_s)
    return world, set_up(study, world, streams, folder, rehearsed)


def check(study: Study, thorough: bool = False) -> None:
    """Refuse what `run` would refuse before its first round, by what it does itself; reference runs are left out.

    Unless thorough, what takes time and hardly ever refuses anything is left out too: movement that is played
    beforehand, and first models of anything but images.
    """
    with one_thread() if thorough else nullcontext():
        world, setup = ready(study, Path(), thorough)
        if thorough or setup.public.images is not None:
            begin(setup, len(world.ues))


def _run(
    study: Study, world: World, setup: Setup, first: Carry, tree: Any, watch: Watch | None, command: str, began: float
) -> None:
    """Everything that writes into the folder; `tree`: the checkpoint to go on from, or None."""
    folder, text = setup.recorder.folder, study_yaml(study)
    carry, empty = _open(setup, world, first, tree)
    manifest = _manifest(study, world, setup, command)
    write_json(folder / MANIFEST, {**manifest, "finished": False, "empty_rounds": empty})
    keeper = _Keeper(folder, world, setup, watch, empty, text)
    world.env.process(rounds(world, setup, carry, keeper.after))
    try:
        world.env.run(until=world.duration_s + 1.0)
    except KeyboardInterrupt:
        keeper.save()
        raise
    _whole_run(setup, keeper.carry or carry, world)
    _points(folder, keeper.carry or carry)
    write_map(folder, world)
    stopped = (keeper.carry or carry).stopped
    write_surfaces(folder, setup, keeper.carry or carry, world)
    timing = {"wall_s": time.perf_counter() - began, "resumed_from_round": carry.round or None}
    write_json(
        folder / MANIFEST,
        {**manifest, "finished": True, "empty_rounds": keeper.empty, "stopped_by_budget": stopped, "timing": timing},
    )
    write_json(folder / SUMMARY, summarise(folder, study))
    (folder / CHECKPOINT).unlink(missing_ok=True)


@contextmanager
def one_thread() -> Generator[None, None, None]:
    """Linear algebra on one thread: sums keep their order, results their bits."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


class _Keeper:
    """After each round: remembers the carry, shows progress, writes a checkpoint now and then."""

    def __init__(self, folder: Path, world: World, setup: Setup, watch: Watch | None, empty: int, text: str) -> None:
        self.folder, self.world, self.setup, self.watch, self.empty = folder, world, setup, watch, empty
        self.text = text
        self.carry: Carry | None = None
        self.tree: dict[str, Any] | None = None
        self.saved = time.perf_counter()
        self.rounds = world.clock.rounds(world.duration_s, setup.learning.every_s)
        self.most = setup.learning.rounds

    def after(self, carry: Carry, figures: dict[str, Any]) -> None:
        self.carry = carry
        self.empty += not figures and not carry.stopped
        self.tree = self._snapshot(carry)
        if self.watch is not None:
            now = float(self.world.env.now)
            last = carry.round >= self.rounds or carry.played == self.most or carry.stopped
            self.watch(Progress(carry.round, self._last(carry), now, self.world.clock.text(now), figures, last))
        if time.perf_counter() - self.saved >= CHECKPOINT_EVERY_S:
            self.save()

    def _last(self, carry: Carry) -> int:
        """The last round, if those that are still to be played follow one another and the world lasts."""
        return self.rounds if self.most is None else min(self.rounds, carry.round + max(self.most - carry.played, 0))

    def save(self) -> None:
        """Write the state after the last whole round, if there was one."""
        if self.tree is not None:
            save_tree(self.folder / CHECKPOINT, self.tree)
        self.saved = time.perf_counter()

    def _snapshot(self, carry: Carry) -> dict[str, Any]:
        """Everything a resumed run needs. Cheap: states are values, so this only points at them."""
        return {
            "study": self.text,
            "program": __version__,
            "time_s": float(self.world.env.now),
            "world": self.world.memory(),
            "carry": {f.name: getattr(carry, f.name) for f in fields(carry)}
            | {"model": vars(carry.model), "held_out": vars(carry.held_out)},
            "tables": self.setup.recorder.marks(),
            "empty": self.empty,
        }


def _unfinished(recorder: Recorder, text: str, replace: bool) -> Any:
    """The checkpoint of an interrupted run of the same study, or None.

    Raises BadInput for one that cannot be used, which `replace` forgets.
    """
    path = recorder.folder / CHECKPOINT
    if not what_is(path):
        return None
    try:
        tree = load_tree(path)
        if not isinstance(tree, dict) or tree.get("study") != text or tree.get("program") != __version__:
            return None
        recorder.resume(tree.get("tables"))
    except ValueError as error:
        if replace:
            return None
        raise BadInput(f"{error}; it cannot go on: add --replace to start again") from None
    return tree


def _open(setup: Setup, world: World, first: Carry, tree: Any) -> tuple[Carry, int]:
    """The first carry for a new run, or the one to go on from; tables created, or cut back to it."""
    if tree is None:
        setup.recorder.open()
        home, work = world.places.home_m, world.places.work_m
        setup.recorder.write(
            "ues",
            {
                "ue": np.arange(len(world.ues)), "name": world.ues,
                "home_x_m": home[:, 0], "home_y_m": home[:, 1],
                "work_x_m": work[:, 0], "work_y_m": work[:, 1],
            },
        )  # fmt: skip
        return first, 0
    try:
        world.resume(tree["world"], tree["time_s"])
        carry = tree["carry"]
        carry |= {"model": Model(**carry["model"]), "held_out": HeldOut(**carry["held_out"])}
        resumed, empty = Carry(**carry), int(tree["empty"])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        path, said = setup.recorder.folder / CHECKPOINT, " ".join(str(error).split())[:120]
        raise BadInput(f"{path}: cannot be gone on with ({said}); delete it to start again") from None
    try:
        setup.recorder.cut()
    except OSError as error:
        raise BadInput(f"{error.filename}: {error.strerror}, and the run goes on") from None
    return resumed, empty


def set_up(study: Study, world: World, streams: Streams, folder: Path, rehearsed: bool = True) -> Setup:
    """The rounds of a study in a world of its; their records go into the folder.

    Not rehearsed: for a check alone, without what is known only once all movement has been played.
    """
    learning = study.learning
    if CELLS in learning.learner.offers:
        _above_roofs(world)
    if world.duration_s / learning.every_s > MOST_ROUNDS:
        raise BadInput(
            f"learning.every_s: {learning.every_s:g} s cuts {world.duration_s:g} s into more than {MOST_ROUNDS:,} "
            "rounds; take longer rounds"
        )
    _affordable(study, world)
    try:
        study.power.check(len(world.ues))
    except ValueError as error:
        raise BadInput(str(error)) from None
    if learning.threat.at_m is not None:
        check_near(world.area, learning.threat.at_m, "learning.threat.at_m: the eavesdropper")
    seen = None
    wanted = learning.learner.wants_dataset_statistics or learning.data.wants_counts
    if wanted and rehearsed:
        seen = _rehearse(study, streams)
    target = learning.leakage.target
    if target not in ("all", "most-data", *world.ues):
        near = ", ".join(get_close_matches(target, world.ues, 1, 0.0))
        raise BadInput(f"learning.leakage.target: no UE is called {target!r}; say all, most-data, or a name: {near}?")
    counts = None if seen is None else np.bincount(seen.cell, minlength=len(world.cells))
    if wanted and not rehearsed:
        counts = np.ones(len(world.cells), dtype=np.int64)  # any cell will do to look at
    models = learning.data.models(world.cells, counts)
    if len(models) > MOST_STATIONS:
        raise BadInput(
            f"learning.data.cell: {len(models)} cells make as many models, at most {MOST_STATIONS} are possible; name "
            "one cell, say busiest, or take a smaller area"
        )
    model_of_cell = learning.data.model_of_cell(world.cells, models)
    dataset = None
    if seen is not None and learning.learner.wants_dataset_statistics:
        dataset = _statistics(seen, model_of_cell, len(models))
    asked_m = None
    if learning.learner.wants_asked_places and rehearsed:
        rehearsal = build_world(study.world, streams, learning.every_s)
        asked_m = first_asked(rehearsal, learning, model_of_cell, streams)
    public = Public(
        world.area, len(models), dataset, _antennas(world), world.budget.ue_height_m, learning.data.image_format(),
        asked_m,
    )  # fmt: skip
    if rehearsed or not (wanted or learning.learner.wants_asked_places):
        _readable(study, public, streams, len(world.ues))
    return Setup(
        learning=learning,
        power=study.power,
        uplink=study.world.radio.uplink,
        public=public,
        models=models,
        model_of_cell=model_of_cell,
        streams=streams,
        recorder=Recorder(folder, TABLES),
    )


def _above_roofs(world: World) -> None:
    """Refuse base stations inside buildings: a map of obstacles has no link that begins in one."""
    if not world.stations:
        return
    roof_m = world.buildings.height_at(np.array([b.at_m for b in world.stations]))
    for i, station in enumerate(world.stations):
        if station.height_m <= 0:
            raise BadInput(
                f"world.base_stations[{i}].height_m: {station.name} is at {station.height_m:g} m and must be above 0 m"
            )
    for k in np.flatnonzero(roof_m >= np.array([b.height_m for b in world.stations])):
        raise BadInput(
            f"world.base_stations[{k}].height_m: {world.stations[k].name} at {world.stations[k].height_m:g} m is below "
            f"the roof over it ({roof_m[k]:g} m); raise it above, or move it"
        )


def _antennas(world: World) -> Antennas | None:
    """The base stations of all cells; None where a trace brings what was measured."""
    if not world.stations or len(world.stations) != len(world.cells):
        return None
    at_m = np.array([(*b.at_m, b.height_m) for b in world.stations])
    return Antennas(at_m, np.array([b.power_dbm for b in world.stations]))


def _affordable(study: Study, world: World) -> None:
    """Refuse what would fill the memory, or never end."""
    ues, every_s = study.world.ues, study.learning.every_s
    if ues.measure_every_s is not None:
        samples = min(every_s, world.duration_s) / ues.measure_every_s * len(world.ues)
        if samples > MOST_SAMPLES:
            raise BadInput(
                f"world.ues.measure_every_s: {ues.measure_every_s:g} s makes {samples:.3g} measurements a round, "
                f"at most {MOST_SAMPLES:g} are possible; measure less often, or take shorter rounds or fewer UEs"
            )
    ticks = world.duration_s / world.tick_s
    if ticks > MOST_TICKS:
        raise BadInput(
            f"world.tick_s: {world.tick_s:g} s cuts {world.duration_s:g} s into {ticks:.3g} ticks, at most "
            f"{MOST_TICKS:g} are possible; take a longer tick"
        )


def _readable(study: Study, public: Public, streams: Streams, n_ue: int) -> None:
    """Refuse surfaces of so many UEs that writing them out would fill the memory."""
    learner, threat = study.learning.learner, study.learning.threat
    if not isinstance(learner, SurfaceLearner) or not study.learning.attacks or threat.sees != "rows":
        return
    size = learner.init(public, streams.at("learner.init")).parameters.size
    after = min(threat.targets or n_ue, n_ue)
    if after * size > MOST_WRITTEN:
        raise BadInput(
            f"learning.threat.targets: the surfaces of {after:,} UEs are {after * size:.3g} numbers, an attacker holds "
            f"at most {MOST_WRITTEN:g}; set it to {max(int(MOST_WRITTEN // size), 1)} or fewer, or take a coarser grid"
        )


_rehearsed: dict[str, Observations] = {}


def _rehearse(study: Study, streams: Streams) -> Observations:
    """Everything that will be measured: the same world once, without learning.

    Streams depend on names and rounds alone, so the rehearsal measures exactly what the run will. The variants of a
    sweep share their world: the last few rehearsals of generated worlds are kept (a trace's file may change).
    """
    key = f"{study.seed} {study.learning.every_s} {study.world.model_dump_json()}"
    if key in _rehearsed:
        return _rehearsed[key]
    world = build_world(study.world, streams, study.learning.every_s)
    world.env.run(until=world.duration_s)
    seen = world.observations()
    if world.trace is None and len(seen) <= MOST_KEPT:
        if len(_rehearsed) >= WORLDS_KEPT:
            _rehearsed.pop(next(iter(_rehearsed)))
        _rehearsed[key] = seen
    return seen


def _statistics(seen: Observations, model_of_cell: IntArray, n_model: int) -> DatasetStatistics:
    """Mean and deviation of the positions measured in each cell."""
    model = model_of_cell[seen.cell]
    mean, std = np.zeros((n_model, 2)), np.ones((n_model, 2))
    for m in range(n_model):
        mine = model == m
        if mine.any():
            mean[m], std[m] = seen.position_m[mine].mean(axis=0), seen.position_m[mine].std(axis=0)
    return DatasetStatistics(mean, np.maximum(std, 1e-3))


def _whole_run(setup: Setup, carry: Carry, world: World) -> None:
    """Tables of what is calculated once, at the end: exact transport of every track, and how alike the UEs are."""
    scores = report_rows.utility(setup.learning, carry, carry.held_out, world)
    setup.recorder.write("final", {"name": list(scores), "value": list(scores.values())})
    spends = read_table(setup.recorder.folder, "spends")
    for row in final_account(spends):
        setup.recorder.row("privacy", **row)
    for (ue, model, attack), found in leakage.exact(carry.leakage).items():
        setup.recorder.row("transport", ue=ue, model=model, attack=attack, **found)
    for ue, other, sw1_m in leakage.pairs(carry.leakage, setup.learning.leakage.directions):
        setup.recorder.row("pairs", ue=ue, other=other, sw1_m=sw1_m, emd_sqrt_m=float(np.sqrt(sw1_m)))


def _points(folder: Path, carry: Carry) -> None:
    """True points of every track, thinned: what the report's map draws."""
    tracks = {k: v["points"] for k, v in carry.leakage.items()}
    ue = np.concatenate([np.full(len(p), int(k.split(".")[0])) for k, p in tracks.items()] or [np.zeros(0)])
    points = np.concatenate(list(tracks.values()) or [np.zeros((0, 2))])
    with replacing(folder / POINTS) as file:
        np.savez_compressed(file, ue=ue.astype(np.int64), position_m=points)


def write_map(folder: Path, world: World) -> None:
    """map.npz: buildings, base stations, and the radio at a sample of outdoor places: what the report draws.

    footprint_m (k, 2) rings of walls, anticlockwise, and of courtyards, clockwise, with footprint_ptr (r + 1,) and
    footprint_building (r,), the building of each; building_height_m (n,); station_m (n_bs, 2);
    place_m (m, 2), and for each place and base station distance_m, rsrp_dbm, los (m, n_bs).
    """
    rng, owner = world.ground.streams.at("report.map"), np.arange(MAP_PLACES)
    place = world.buildings.outdoor(world.area, rng, "place", owner)
    rings = world.buildings.rings()
    shapes = [ring for own in rings for ring in own]
    found: dict[str, np.ndarray] = {
        "footprint_m": np.concatenate(shapes) if shapes else np.zeros((0, 2)),
        "footprint_ptr": np.cumsum([0, *(len(s) for s in shapes)]),
        "footprint_building": np.repeat(np.arange(len(rings)), [len(own) for own in rings]),
        "building_height_m": world.buildings.height_m,
        "station_m": np.array([b.at_m for b in world.stations]).reshape(-1, 2),
        "place_m": place,
    }
    if world.stations:
        links = world.budget.links(0.0, place)
        found |= {"distance_m": links.distance_m, "rsrp_dbm": links.rsrp_dbm, "los": links.los}
    with replacing(folder / MAP) as file:
        np.savez_compressed(file, **found)  # type: ignore[arg-type]


def _manifest(study: Study, world: World, setup: Setup, command: str) -> dict[str, Any]:
    trace = world.trace
    area = world.area
    return {
        "title": study.title,
        "schema": SCHEMA_VERSION,
        "seed": study.seed,
        "command": command,
        "cells": list(world.cells),
        "models": list(setup.models),
        "channel_card": channel_card(
            study.world, world.stations, trace is not None and trace.rsrp_dbm is not None, _presence(world)
        ),
        "first_day": str(world.clock.first_day),
        "clock_changes": [list(change) for change in world.clock.changes],
        "round_s": study.learning.every_s,
        "duration_s": world.duration_s,
        "area_m": [area.x_min_m, area.y_min_m, area.x_max_m, area.y_max_m],
        "trace": None
        if trace is None
        else {
            "counts": trace.counts,
            "notes": [*trace.notes, *hold_out_notes(study)],
            "timezone": trace.timezone,
            "origin_lat": trace.origin_lat,
            "origin_lon": trace.origin_lon,
        },
        "warnings": [*world.warnings, *_disclosed(study)],
        "versions": {"python": platform.python_version(), "netsim": __version__} | _versions(),
    }


def _presence(world: World) -> str | None:
    """When a replayed UE is absent."""
    if world.trace is None or not isinstance(world.mobility, Replay):
        return None
    return world.mobility.presence(world.trace).words()


def _disclosed(study: Study) -> list[str]:
    """What devices tell besides their updates, which no noise hides and no ledger counts, and what parts admit."""
    learning = study.learning
    aggregation, learner = learning.aggregation, learning.learner
    counted = any({"spend", "location spend"} & part.offers for part in (*learning.curation, *learning.defenses))
    told = [f"aggregation {aggregation.kind_name()}: devices tell the server {aggregation.discloses}"]
    published = [f"learner {learner.kind_name()}: everybody is told {learner.discloses}, which no epsilon here covers"]
    return [
        *(told if aggregation.discloses else []),
        *(published if learner.discloses and counted else []),
        *caveats(learning, isinstance(study.world.radio.uplink, SharedBand)),
    ]


def _versions() -> dict[str, str]:
    found = {}
    for name in ("numpy", "scipy", "torch", "simpy", "scikit-learn", "pyproj"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

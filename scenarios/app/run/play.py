"""One run while it is played: its world and tables, progress, a checkpoint now and then, and its
manifest.

Learning and radio studies are plays: each says what it remembers, how it goes on, and what it
writes at the end.
"""

import platform
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, replace
from importlib.metadata import version
from math import ceil
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fl.round.assembly import find_origin_deg, find_street_graph
from fl.round.records import tabulate_handovers
from fl.round.setup import Setup
from fl.round.state import RoundState
from fl.types import LOCATION
from netsim import __version__
from netsim.checkpoint import from_tree, save_tree, to_tree
from netsim.city.base import City
from netsim.columns import no_places
from netsim.errors import BadInput
from netsim.notice import Notices, sort_by_severity
from netsim.radio.downlink import Downlink, receive_broadcast
from netsim.record import Recorder, write_json
from netsim.safe import open_replacement
from netsim.ues import Looks
from netsim.units import Arrays, FloatArray
from netsim.world.base_stations import collect_positions_m
from netsim.world.channel_card import describe_channel, describe_downlink
from netsim.world.world import World, WorldMemory
from scenarios.app.results.folder import (
    CHECKPOINT,
    MANIFEST,
    MAP,
    POINTS,
    SCENERY,
    SUMMARY,
    read_json,
)
from scenarios.app.results.read import Manifest, Run, RunTables
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.how import measure_peak_since_limit_gb
from scenarios.app.run.job import UNFIT, Job
from scenarios.app.run.notices import find_summary_notices
from scenarios.app.study import SCHEMA_VERSION, Fields, Record
from scenarios.app.study.notice import find_delta_notices
from scenarios.app.study.study import Study

LIBRARIES = ("numpy", "scipy", "torch", "simpy", "scikit-learn", "pyproj")
"""libraries whose versions a manifest has"""


def build_manifest(job: Job, study: Study, world: World) -> Fields:
    """Return the manifest of a run, but for what only its end, or its kind, knows."""
    trace = world.trace
    area = world.area
    told = None
    if trace is not None:
        lat, lon = trace.origin_deg or (float("nan"), float("nan"))
        told = {
            "counts": trace.counts,
            "timezone": trace.local.name,
            "origin_lat": lat,
            "origin_lon": lon,
        }
    return {
        "title": study.title,
        "schema": SCHEMA_VERSION,
        "seed": study.seed,
        "command": job.options.get("command", ""),
        "cells": world.cells,
        "models": [],
        "channel_card": _build_channel_card(study, world),
        "first_day": str(world.clock.first_day),
        "clock_changes": world.clock.changes,
        "round_s": study.round_s,
        "duration_s": world.duration_s,
        "area_m": [area.x_min_m, area.y_min_m, area.x_max_m, area.y_max_m],
        "origin_deg": find_origin_deg(world),
        "start_unix_s": None if trace is None else trace.local.midnight_s,
        "trace": told,
        "files": job.inputs,
        "study": job.key,
        "versions": {
            "python": platform.python_version(),
            "netsim": __version__,
            **{name: version(name) for name in LIBRARIES},
        },
    }


def _build_channel_card(study: Study, world: World) -> dict[str, str]:
    trace = world.trace
    presence = None if trace is None else world.mobility.presence(trace)
    absent = None if presence is None else presence.to_words()
    if study.learning is None:
        return describe_downlink(study.world, world.stations, absent)
    replayed = trace is not None and trace.rsrp_dbm is not None
    return describe_channel(study.world, world.stations, replayed, absent)


CHECKPOINT_EVERY_S = 10.0  # of wall time, or twenty times as long as the last one took to write
# times its duration that a world may go on for, until its last round is off the air
_MAX_LONGER = 100.0


class Play(ABC):
    """A run that is played into the folder of a job. began_s : by the clock of `time.perf_counter`.

    memory : what must be remembered to go on, besides the world and the tables; a dataclass that
    changes no more. When checkpoints are written changes no result.
    """

    unit: Literal["round", "window"]
    memory: Any

    def __init__(
        self, job: Job, study: Study, world: World, recorder: Recorder, watch: Watch, began_s: float
    ) -> None:
        self.job = job
        self.study = study
        self.world = world
        self.recorder = recorder
        self.watch = watch
        self.began_s = self.saved_s = began_s
        self.every_s = CHECKPOINT_EVERY_S
        self.checkpoint: Fields = {}
        self.tracks = follow_ues(world)

    @property
    @abstractmethod
    def done(self) -> int:
        """Steps that are played."""

    @abstractmethod
    def play_steps(self) -> None:
        """Play what is left, and call `rest` between two steps."""

    @abstractmethod
    def finish(self) -> Fields:
        """Write the tables that are known at the end only; what the manifest says besides, or in
        place of that.
        """

    @abstractmethod
    def find_notices(self) -> Notices:
        """Return what is known once the tables are written."""

    @abstractmethod
    def summarise(self, run: Run) -> Fields:
        """Return the figures of all tables."""

    def build_manifest_fields(self) -> Fields:
        """Return what the manifest says of this kind of run from its beginning on."""
        return {}

    def play(self) -> Run:
        """Everything that writes into the folder; returns the finished run."""
        job = self.job
        first = None
        with job.hold():
            going = job.resume(self._restore)
            if going is None:
                job.clear()
                self.recorder.written.clear()  # of a checkpoint that does not fit, and is replaced
                self._write_ues()
            else:
                world, time_s, self.memory = going
                self.world.resume(world, time_s)
                try:
                    self.recorder.cut()
                except OSError as error:
                    raise BadInput(
                        f"{error.filename}: {error.strerror}, and the run goes on"
                    ) from None
                first = self.done
            manifest = build_manifest(job, self.study, self.world) | {
                "tracks": self.tracks,
                **self.build_manifest_fields(),
            }
            if going is None:
                write_json(job.folder / MANIFEST, {**manifest, "finished": False})
            try:
                self.play_steps()
                run = self._finish(manifest, first)
            except (
                KeyboardInterrupt,
                SystemExit,
                MemoryError,
            ):  # SystemExit: a batch system takes the machine away
                self.save_checkpoint()
                raise
            except UNFIT as error:
                if going is None or isinstance(error, BadInput):
                    raise
                raise job.explain_unfit(
                    f"the run cannot go on from it, {type(error).__name__}", error
                ) from error
            job.settle()
        return run

    def _finish(self, manifest: Fields, first: int | None) -> Run:
        folder = self.job.folder
        fields = self.finish()
        write_map(folder, self.world, self.study.world.city)
        timing = {
            "wall_s": time.perf_counter() - self.began_s,
            "peak_memory_gb": measure_peak_since_limit_gb(),
            f"resumed_from_{self.unit}": first,
        }
        manifest = {**manifest, **fields, "tables": self.recorder.count_rows(), "timing": timing}
        # the summary reads counts of it
        write_json(folder / MANIFEST, manifest | {"notices": [], "finished": False})
        tables = {name: self.recorder.read_columns(name) for name in self.recorder.schemas}
        run = Run(
            Manifest.from_folder(folder), {}, RunTables(folder, manifest["tables"], tables), folder
        )
        summary = self.summarise(run)
        notices = sort_by_severity(
            [*self.world.notices, *self.find_notices(), *find_summary_notices(summary)]
        )
        severities = [notice.severity for notice in notices]
        summary |= {
            f"notices.{severity}": severities.count(severity) for severity in ("doubt", "void")
        }
        write_json(
            folder / MANIFEST, manifest | {"notices": [*map(asdict, notices)], "finished": True}
        )
        write_json(folder / SUMMARY, summary)
        return replace(
            run,
            manifest=run.manifest.model_copy(update={"notices": notices}),
            summary=read_json(folder / SUMMARY),
        )

    def remember(self, world: WorldMemory, time_s: float) -> None:
        """A run can go on from here, this world and time: write that down now and then."""
        self.checkpoint = {
            "time_s": time_s,
            "world": world,
            "now": self.memory,
            "tables": self.recorder.compute_marks(),
        }
        if time.perf_counter() - self.saved_s >= self.every_s:
            self.save_checkpoint()

    def write_moves(self) -> None:
        """Append the handovers and tracks since the last call."""
        self.recorder.write("handovers", tabulate_handovers(self.world))
        write_tracks(self.recorder, self.world)

    def save_checkpoint(self) -> None:
        """Write what is remembered, if anything is."""
        began_s = time.perf_counter()
        if self.checkpoint:
            save_tree(
                self.job.folder / CHECKPOINT, self.job.to_checkpoint(**to_tree(self.checkpoint))
            )
        self.saved_s = time.perf_counter()
        self.every_s = max(CHECKPOINT_EVERY_S, 20.0 * (self.saved_s - began_s))

    def make_event(self, total: int, now_s: float, last: bool, values: Record) -> Event:
        """Return a step that ended at a time of the world."""
        figures = {"time_s": now_s, "clock": self.world.clock.to_text(now_s), **values}
        return Event(self.unit, self.done, total, last, figures)

    def _restore(self, tree: Fields) -> tuple[Any, float, Any]:
        """Return world, time and `now` of the tree of a checkpoint."""
        self.recorder.resume(tree.get("tables"))
        time_s = float(tree["time_s"])
        most_s = _MAX_LONGER * self.world.duration_s
        if not 0 <= time_s <= most_s:
            raise ValueError(f"time_s is {time_s:g}, and this study holds 0 to {most_s:g}")
        world = from_tree(tree["world"], self.world.take_memory())
        return world, time_s, from_tree(tree["now"], self.memory)

    def _write_ues(self) -> None:
        places = self.world.places
        n = len(self.world.ues)
        at_m = {"home": places.home_m, "work": places.work_m, "densest": places.densest()}
        columns = {
            f"{place}_{axis}_m": xy[:, k]
            for place, xy in at_m.items()
            for k, axis in enumerate("xy")
        }
        nights = np.full(n, np.nan) if places.nights is None else places.nights.astype(float)
        self.recorder.write(
            "ues", {"ue": np.arange(n), "name": self.world.ues, **columns, "nights": nights}
        )


MAX_CELLS = 100  # of the grid along the longer side
_MAX_LINKS = 200_000  # that are computed at once


def lay_coverage_grid(world: World) -> FloatArray:
    """Return centres (n, 2) of square cells over the area, 100 along its longer side; those in
    buildings are left out.
    """
    area = world.area
    side_m = area.side_m.max() / MAX_CELLS
    x_m, y_m = (
        low + (np.arange(max(1, ceil(length / side_m - 1e-9))) + 0.5) * side_m
        for low, length in zip(area.low_m, area.side_m, strict=True)
    )
    place_m = np.stack(np.meshgrid(x_m, y_m), axis=-1).reshape(-1, 2)
    return place_m[~world.buildings.is_indoors(place_m)]


def tabulate_coverage(
    world: World, downlink: Downlink, place_m: FloatArray, learnt_dbm: FloatArray | None
) -> Fields:
    """Return the table `tabulate_coverage` at places (n, 2): the radio where it is modelled, and
    what was learnt of it (n,).

    Of the radio the strongest base station, and how it is received; nothing where a trace brings
    measurements.
    """
    is_simulated = world.trace is None or world.trace.rsrp_dbm is None
    modelled = bool(world.stations) and is_simulated
    place_m = place_m if modelled or learnt_dbm is not None else place_m[:0]
    n = len(place_m)
    names = np.array([station.name for station in world.stations], dtype=object)
    unknown = np.full(n, np.nan)
    rows: Fields = {
        "x_m": place_m[:, 0],
        "y_m": place_m[:, 1],
        "cell": np.full(n, "", dtype=object),
    }
    received = ("rsrp_dbm", "sinr_db", "los")
    rows |= {name: unknown.copy() for name in received}
    if modelled:
        rows["los"] = np.zeros(n, dtype=int)
        size = max(1, _MAX_LINKS // len(names))
        for first in range(0, n, size):
            part = slice(first, first + size)
            links = world.budget.compute_links(0.0, place_m[part])
            got = receive_broadcast(links, links.serving, downlink)
            rows["cell"][part] = names[links.serving]
            for name in received:
                rows[name][part] = getattr(got, name)
        if not world.setting.radio.sight_is_modelled:
            rows["los"] = unknown
    return {**rows, "learnt_dbm": unknown if learnt_dbm is None else learnt_dbm}


def follow_ues(world: World) -> Fields:
    """Take the tracks of a world that has not moved yet; what the manifest says of them."""
    looks = Looks.choose_interval(len(world.ues), world.duration_s, world.tick_s)
    world.follow(looks)
    return {"every_s": looks.every_s, "ues": looks.ues}


def write_tracks(recorder: Recorder, world: World) -> None:
    """Append the rows of tracks since the last call, up to now; of an absent UE only index and
    time.
    """
    world.catch_up()
    if world.tracks is None:
        return
    # the last one for -1
    names = np.array([*(station.name for station in world.stations), ""], dtype=object)
    for rows in world.tracks.drain():
        seen = rows.seen
        absent = seen.absent
        columns = {
            "ue": rows.ue,
            "time_s": np.full(len(rows.ue), rows.look * world.tracks.looks.every_s),
            "x_m": seen.at_m[:, 0],
            "y_m": seen.at_m[:, 1],
            "indoor": np.where(absent, np.nan, seen.inside),
            "cell": names[np.where(absent, -1, seen.cell)],
        }
        recorder.write("tracks", columns)


MAP_PLACES = 500  # outdoor places of the radio map


def write_map(folder: Path, world: World, city: City) -> None:
    """Write map.npz: buildings, base stations, streets, and the radio at a sample of outdoor
    places.

    footprint_m (k, 2) rings of walls, anticlockwise, and of courtyards, clockwise, with
    footprint_ptr (r + 1,) and footprint_building (r,), the building of each; building_height_m
    (n,); station_m (n_bs, 2), station_azimuth_deg (n_bs,), NaN for an antenna without a sector;
    place_m (m, 2), and for each place and base station distance_m, rsrp_dbm, los (m, n_bs).

    Where there are some: street_m (v, 2), street_ptr (s + 1,), street_class (s,);
    door_m (k, 2); scenery_m (v, 2), scenery_ptr (a + 1,), scenery_kind (a,), index into SCENERY;
    of a trace with RSRP drive (d, 3), place and level of evenly spaced rows.
    """
    rng = world.ground.streams.derive_rng("report.map")
    place = world.buildings.draw_outdoor_m(world.area, rng, "place", np.arange(MAP_PLACES))
    rings = world.buildings.list_rings()
    shapes = [ring for shape in rings for ring in shape]
    arrays: dict[str, np.ndarray] = {
        "footprint_m": np.concatenate([no_places(), *shapes]),
        "footprint_ptr": np.cumsum([0, *map(len, shapes)]),
        "footprint_building": np.repeat(np.arange(len(rings)), [*map(len, rings)]),
        "building_height_m": world.buildings.height_m,
        "station_m": collect_positions_m(world.stations),
        # NaN for None
        "station_azimuth_deg": np.array([b.azimuth_deg for b in world.stations], dtype=float),
        "place_m": place,
    }
    if world.stations:
        links = world.budget.compute_links(0.0, place)
        los = (
            links.los if world.setting.radio.sight_is_modelled else np.full(links.los.shape, np.nan)
        )
        arrays |= {"distance_m": links.distance_m, "rsrp_dbm": links.rsrp_dbm, "los": los}
    graph = find_street_graph(world, city)
    if graph is not None:
        path = graph.path
        arrays |= {
            "street_m": path.vertex_m,
            "street_ptr": path.first,
            "street_class": graph.street_class,
        }
    if len(world.ground.premises):
        arrays["door_m"] = world.ground.premises.door_m
    if scenery := city.scenery(world.area, world.ground.streams):
        kinds, outlines = zip(*scenery, strict=True)
        arrays["scenery_m"] = np.concatenate(outlines)
        arrays["scenery_ptr"] = np.cumsum([0, *map(len, outlines)])
        arrays["scenery_kind"] = np.array([*map(SCENERY.index, kinds)])
    trace = world.trace
    if trace is not None and trace.rsrp_dbm is not None:
        arrays["drive"] = np.column_stack([trace.position_m, trace.rsrp_dbm])[
            :: 1 + len(trace.user) // 4000
        ]
    write_arrays(folder / MAP, arrays)


def write_points(folder: Path, state: RoundState) -> None:
    """True points of every track, thinned: what the report's map draws."""
    points = [track.points for track in state.leakage.values()]
    ue = np.repeat([ue for ue, _ in state.leakage], [*map(len, points)]).astype(int)
    write_arrays(folder / POINTS, {"ue": ue, "position_m": np.concatenate([no_places(), *points])})


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write a compressed .npz."""
    with open_replacement(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def find_spent_delta_notices(setup: Setup, state: RoundState) -> Notices:
    """Yield deltas of 1/n and more, n being the UEs, or the records that a round learns from, of
    which one is hidden.
    """
    max_records = int(setup.recorder.read_columns("rounds")["selected"].max(initial=0))
    protected = {"user": (state.ledger.n_ue, "UE"), LOCATION: (0, "")}
    budget = setup.learning.privacy_budget
    stated = {(a.mechanism, a.unit, a.delta) for a in state.ledger.sums}
    stated |= {
        ("privacy_budget", a.unit, budget.delta)
        for a in state.ledger.sums
        if budget and budget.delta
    }
    for name, unit, delta in sorted(stated):
        yield from find_delta_notices(name, delta, *protected.get(unit, (max_records, "record")))

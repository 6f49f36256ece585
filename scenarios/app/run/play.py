"""One run while it is played: its world and tables, progress, a checkpoint now and then, and its manifest.

Learning and radio studies are plays: each says what it remembers, how it goes on, and what it writes at the end.
"""

from __future__ import annotations

import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fl.round.caveats import disclosed
from fl.round.records import handover_rows
from netsim import __version__
from netsim.channel_card import channel_card, downlink_card
from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from netsim.record import Recorder, write_json
from netsim.traces.home_work import FEWEST_NIGHTS
from netsim.tree import from_tree, to_tree
from netsim.world import World
from scenarios.app.results.folder import CHECKPOINT, MANIFEST, RESULTS, STUDY, SUMMARY, read_json
from scenarios.app.results.statistics import hold_out_notes
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.how import USUAL, How, peak_gb
from scenarios.app.run.job import UNFIT, Job, JobKind, input_digests
from scenarios.app.run.records import follow_ues, write_map, write_tracks
from scenarios.app.run.setup import origin_deg
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.schema import SCHEMA_VERSION
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import one_line


def manifest_of(job: Job, study: Study, world: World) -> dict[str, Any]:
    """The manifest of a run, but for what only its end, or its kind, knows."""
    warned = [] if study.learning is None else disclosed(study.learning, study.world, world)
    trace, area, at_deg = world.trace, world.area, origin_deg(study, world)
    of_trace = trace and {
        "counts": trace.counts, "notes": [*trace.notes, *hold_out_notes(study), *_without_home(world)],
        "timezone": trace.timezone, "origin_lat": trace.origin_lat, "origin_lon": trace.origin_lon,
    }  # fmt: skip
    return {
        "title": study.title,
        "schema": SCHEMA_VERSION,
        "seed": study.seed,
        "command": job.options["command"],
        "cells": world.cells,
        "models": [],
        "channel_card": _card(study, world),
        "first_day": str(world.clock.first_day),
        "clock_changes": world.clock.changes,
        "round_s": study.round_s,
        "duration_s": world.duration_s,
        "area_m": [area.x_min_m, area.y_min_m, area.x_max_m, area.y_max_m],
        "origin_deg": at_deg,
        "start_unix_s": trace and trace.midnight_s,
        "trace": of_trace,
        "files": job.inputs,
        "study": job.key,
        "warnings": [*world.warnings, *warned],
        "versions": {"python": platform.python_version(), "netsim": __version__} | _versions(),
    }


def _without_home(world: World) -> list[str]:
    """How many UEs of a trace have no home, and how many of these too few nights; nothing where all have one."""
    none, nights = np.isnan(world.places.home_m[:, 0]), world.places.nights
    if nights is None or not none.any():
        return []
    few = int((none & (nights < FEWEST_NIGHTS)).sum())
    return [
        f"{none.sum():,} of {len(none):,} UEs have no home, that is no one place for most of at least {FEWEST_NIGHTS} "
        f"nights; {few:,} of them have fixes on fewer nights"
    ]


def _card(study: Study, world: World) -> dict[str, str]:
    """The channel card of a study."""
    if study.learning is None:
        return downlink_card(study.world, world.stations, _presence(world))
    trace = world.trace
    replayed = trace is not None and trace.rsrp_dbm is not None
    return channel_card(study.world, world.stations, replayed, _presence(world))


def _presence(world: World) -> str | None:
    """When a replayed UE is absent."""
    presence = None if world.trace is None else world.mobility.presence(world.trace)
    return None if presence is None else presence.words()


def _versions() -> dict[str, str]:
    versions = {}
    for name in ("numpy", "scipy", "torch", "simpy", "scikit-learn", "pyproj"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


CHECKPOINT_EVERY_S = 10.0  # of wall time, or twenty times as long as the last one took to write
_MOST_LONGER = 100.0  # times its duration that a world may go on for, until its last round is off the air


class Play(ABC):
    """A run that is played into the folder of a job. began_s : by the clock of `time.perf_counter`.

    now : what must be remembered to go on, besides the world and the tables; a dataclass that changes no more. When
    checkpoints are written changes no result.
    """

    unit: Literal["round", "window"]
    now: Any

    def __init__(self, job: Job, study: Study, world: World, recorder: Recorder, watch: Watch, began_s: float) -> None:
        self.job, self.study, self.world, self.recorder, self.watch = job, study, world, recorder, watch
        self.began_s = self.saved_s = began_s
        self.every_s, self.moves = CHECKPOINT_EVERY_S, 0
        self.kept: dict[str, Any] = {}
        self.tracks = follow_ues(world)

    @property
    @abstractmethod
    def done(self) -> int:
        """Steps that are played."""

    @abstractmethod
    def steps(self) -> None:
        """Play what is left, and call `rest` between two steps."""

    @abstractmethod
    def finish(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Write the tables that are known at the end only; what the manifest says besides, or in place of that."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """The figures of all tables."""

    def manifest(self) -> dict[str, Any]:
        """What the manifest says of this kind of run from its beginning on."""
        return {}

    def play(self) -> dict[str, Any]:
        """Everything that writes into the folder; returns the summary."""
        job, folder, first = self.job, self.job.folder, None
        with job.hold():
            going = job.resume(self._restored)
            if going is None:
                job.clear()
                self.recorder.open()
                self._write_ues()
            else:
                self._go_on(*going)
                first = self.done
            manifest = manifest_of(job, self.study, self.world) | {"tracks": self.tracks, **self.manifest()}
            if going is None:
                write_json(folder / MANIFEST, {**manifest, "finished": False})
            try:
                self.steps()
                summary = self._finish(manifest, first)
            except (KeyboardInterrupt, SystemExit):  # the latter where a batch system takes the machine away
                self.save()
                raise
            except UNFIT as error:
                if going is None or isinstance(error, BadInput):
                    raise
                said = one_line(" ".join(str(error).split()))[:120]
                path, kind = folder / CHECKPOINT, type(error).__name__
                raise BadInput(
                    f"{path}: the run cannot go on from it ({kind}: {said}); delete it to start again"
                ) from error
            job.settle()
        return summary

    def _finish(self, manifest: dict[str, Any], first: int | None) -> dict[str, Any]:
        folder = self.job.folder
        write_tracks(self.recorder, self.world)
        said = self.finish(manifest)
        write_map(folder, self.world, self.study.world.city)
        self.job.options["how"].keep(folder, self.recorder.schemas)
        wall_s = time.perf_counter() - self.began_s
        timing = {"wall_s": wall_s, "peak_memory_gb": peak_gb(), f"resumed_from_{self.unit}": first}
        write_json(folder / MANIFEST, {**manifest, **said, "finished": True, "timing": timing})
        write_json(folder / SUMMARY, self.summary())
        return read_json(folder / SUMMARY)

    def rest(self) -> None:
        """A run can go on from here: write where UEs were, remember it, and write that down now and then."""
        self.write_moves()
        kept = {"time_s": float(self.world.env.now), "world": self.world.memory(), "now": self.now}
        self.kept = {**kept, "tables": self.recorder.marks()}
        if time.perf_counter() - self.saved_s >= self.every_s:
            self.save()

    def write_moves(self) -> None:
        """Append the handovers and tracks since the last call."""
        handovers = handover_rows(self.world)
        self.moves += len(handovers["ue"])
        self.recorder.write("handovers", handovers)
        write_tracks(self.recorder, self.world)

    def save(self) -> None:
        """Write what is remembered, if anything is."""
        began_s = time.perf_counter()
        if self.kept:
            save_tree(self.job.folder / CHECKPOINT, self.job.checkpoint(**to_tree(self.kept)))
        self.saved_s = time.perf_counter()
        self.every_s = max(CHECKPOINT_EVERY_S, 20.0 * (self.saved_s - began_s))

    def event(self, of: int, now_s: float, last: bool, values: Mapping[str, Any]) -> Event:
        """A step that ended at a time of the world."""
        clock = {"time_s": now_s, "clock": self.world.clock.text(now_s)}
        return Event(self.unit, self.done, of, last, {**clock, **values})

    def _restored(self, tree: Any) -> tuple[Any, float, Any]:
        """World, time and `now` of the tree of a checkpoint."""
        try:
            self.recorder.resume(tree.get("tables"))
        except ValueError as error:
            raise BadInput(f"{error}; it cannot go on: add --replace to start again") from None
        time_s, most_s = float(tree["time_s"]), _MOST_LONGER * self.world.duration_s
        if not 0 <= time_s <= most_s:
            raise ValueError(f"time_s is {time_s:g}, and this study holds 0 to {most_s:g}")
        return from_tree(tree["world"], self.world.memory()), time_s, from_tree(tree["now"], self.now)

    def _go_on(self, world: Any, time_s: float, now: Any) -> None:
        """Go on from there; all tables are cut back to the checkpoint."""
        self.world.resume(world, time_s)
        self.now = now
        try:
            self.recorder.cut()
        except OSError as error:
            raise BadInput(f"{error.filename}: {error.strerror}, and the run goes on") from None

    def _write_ues(self) -> None:
        places, n = self.world.places, len(self.world.ues)
        at_m = {"home": places.home_m, "work": places.work_m, "densest": places.densest()}
        columns = {f"{of}_{axis}_m": xy[:, k] for of, xy in at_m.items() for k, axis in enumerate("xy")}
        nights = np.full(n, np.nan) if places.nights is None else places.nights.astype(float)
        self.recorder.write("ues", {"ue": np.arange(n), "name": self.world.ues, **columns, "nights": nights})


def run_job(
    study: Study, folder: str | Path, label: str = "", command: str = "", replace: bool = False, how: How = USUAL
) -> Job:
    """A run as a job; command : what its manifest says that made it."""
    options = {"command": command, "how": how}
    return Job(RUN, study_yaml(study), study.seed, input_digests(study), Path(folder), label, replace, (), options)


def _play_run(job: Job, watch: Watch) -> Any:
    """Play a run by `runner`, which imports this module: plans play reference runs too."""
    return import_module("scenarios.app.run.runner").play_job(job, watch)


RUN = JobKind("run", (STUDY, *RESULTS), MANIFEST, _play_run)

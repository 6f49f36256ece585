"""Play a radio study: UEs move and are served, nothing is learnt; the result is what they receive."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fl.round.records import handover_rows
from netsim import __version__
from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from netsim.radio.downlink import Downlink, Reception, reception
from netsim.record import Recorder, write_json, write_text
from netsim.tree import from_tree, to_tree
from netsim.units import BoolArray, FloatArray
from netsim.world import World, WorldMemory
from scenarios.app.results.folder import CHECKPOINT, MANIFEST, STUDY, SUMMARY, admit, clear, read_json, settle
from scenarios.app.results.marker import held
from scenarios.app.results.summary_radio import radio_summary
from scenarios.app.results.tables import QUANTITIES, RADIO, RADIO_STUDY, SELECTIONS
from scenarios.app.run.checkpoints import (
    UNFIT,
    Progress,
    Watch,
    cut_tables,
    open_tables,
    played_anew,
    unfinished,
    unplayable,
    within,
)
from scenarios.app.run.coverage import coverage, coverage_grid
from scenarios.app.run.how import How
from scenarios.app.run.inputs import admit_inputs, input_digests, same_inputs
from scenarios.app.run.manifest import manifest_of
from scenarios.app.run.memory import peak_gb
from scenarios.app.run.radio_plan import Plan, radio_world
from scenarios.app.run.samples import Sampled, Samples
from scenarios.app.run.tracks import follow_ues, write_tracks
from scenarios.app.run.world_map import write_map
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.study import Study

CHECKPOINT_EVERY_S = 10.0  # of wall time; when it is written changes no result


def play_radio(
    study: Study, out: str | Path, watch: Watch | None, command: str, replace: bool, how: How
) -> dict[str, Any]:
    """Play a study without learning into the folder `out`; returns the summary. Resumes an interrupted run."""
    folder = Path(out)
    return played_anew(lambda: _play_radio(study, folder, watch, command, replace, how), folder, replace)


def _play_radio(
    study: Study, folder: Path, watch: Watch | None, command: str, replace: bool, how: How
) -> dict[str, Any]:
    began = time.perf_counter()
    text = study_yaml(study)
    with threadpool_limits(limits=1):
        world, plan = radio_world(study)  # before anything is written: files may be refused
        recorder, files = Recorder(folder, RADIO), input_digests(study)

        def admitted() -> None:
            admit(folder, text, replace)
            admit_inputs(folder, files, replace)

        with held(folder, "run", admitted):
            run = _Run(study, world, plan, recorder, watch, text)
            going = unfinished(recorder, text, replace, run.restored) if same_inputs(folder, files) else None
            if going is None:
                clear(folder)
            write_text(folder / STUDY, text)
            first = run.open(going)
            cells = [b.name for b in world.stations]
            said = {"kind": RADIO_STUDY, "cells": cells, "tracks": run.tracks}
            manifest = manifest_of(study, world, (), command) | said
            if going is None:
                write_json(folder / MANIFEST, {**manifest, "finished": False})
            run.play(first)
            how.keep(folder, RADIO)
            timing = {
                "wall_s": time.perf_counter() - began,
                "peak_memory_gb": peak_gb(),
                "resumed_from_window": first or None,
            }
            end = {"finished": True, "quantiles": run.accuracy, "timing": timing}
            write_json(folder / MANIFEST, {**manifest, **end})
            write_json(folder / SUMMARY, radio_summary(folder, study.world.radio.handover is not None))
            settle(folder)
    return read_json(folder / SUMMARY)


@dataclass(frozen=True)
class _Going:
    """What a run goes on from: the world and its time, samples, how many handovers there were, the window to play
    next, and the marks of the tables.
    """

    world: WorldMemory
    time_s: float
    sampled: Sampled
    moves: int
    window: int
    tables: Any


class _Run:
    """One run: the world, its samples so far, and its tables."""

    def __init__(
        self, study: Study, world: World, plan: Plan, recorder: Recorder, watch: Watch | None, text: str
    ) -> None:
        self.study, self.world, self.plan, self.recorder, self.watch = study, world, plan, recorder, watch
        self.text, self.downlink = text, study.world.radio.downlink
        self.samples = Samples(highest_of(self.downlink), Sampled.none(len(QUANTITIES)))
        self.saved, self.wrote = time.perf_counter(), False
        self.moves = 0
        self.going: _Going | None = None
        self.tracks = follow_ues(world)

    def restored(self, tree: Any) -> _Going:
        """What the tree of a checkpoint says. Raises one of UNFIT where it does not fit this study."""
        memory = from_tree(tree["world"], self.world.memory())
        sampled = from_tree(tree["samples"], self.samples.sampled)
        self.samples.check(sampled)
        time_s = within("time_s", float(tree["time_s"]), self.world.duration_s)
        window, moves = within("window", int(tree["window"]), self.plan.windows), within("moves", tree["moves"], np.inf)
        return _Going(memory, time_s, sampled, int(moves), int(window), tree["tables"])

    def open(self, going: _Going | None) -> int:
        """Create the tables, or go on; the number of the first window to play."""
        if going is None:
            open_tables(self.recorder, self.world)
            return 0
        self.going = going
        self.world.resume(going.world, going.time_s)
        self.samples.sampled, self.moves = going.sampled, going.moves
        cut_tables(self.recorder)
        return going.window

    def play(self, first: int) -> None:
        """All windows from the first on, and the end; a checkpoint now and then, and where the run is interrupted."""
        snapshot: dict[str, Any] | None = None
        try:
            for window in range(first, self.plan.windows):
                seen = self._window(window)
                snapshot = self._snapshot(window + 1)
                self._show(window + 1, seen)
                if time.perf_counter() - self.saved >= CHECKPOINT_EVERY_S:
                    self._save(snapshot)
            self._finish()
        except (KeyboardInterrupt, SystemExit):  # the latter where a batch system takes the machine away
            if snapshot is not None:
                self._save(snapshot)
            raise
        except UNFIT as error:
            if self.going is None or isinstance(error, BadInput):
                raise
            raise unplayable(self.recorder, None if self.wrote else self.going.tables, error) from error

    def _window(self, window: int) -> FloatArray:
        """Play one window and write its rows; the SINR of its samples in dB (m,)."""
        plan, sinr = self.plan, []
        for k in range(window * plan.window, min((window + 1) * plan.window, plan.instants)):
            now_s = k * plan.every_s
            if now_s > self.world.env.now:
                self.world.env.run(until=now_s)
            sinr.append(self._sample())
        self.world.observations()  # of models that measure at times of their own: not needed here
        self._write()
        return np.concatenate(sinr)

    def _sample(self) -> FloatArray:
        """Add the present moment to the samples; the SINR of everybody who is present in dB (m,)."""
        world = self.world
        links = world.links()
        if world.handover is not None and world.attached is not None:  # a UE attaches at its first sample
            there = np.flatnonzero(links.serving >= 0)
            world.attached = world.handover.attach(world.attached, there, links.rsrp_dbm[there])
        serving = world.serving(links)
        got, inside = reception(links, serving, self.downlink), _inside(world)
        present = np.flatnonzero(np.isfinite(got.rsrp_dbm))
        values = stacked(got)[present]
        self.samples.add(values, inside[present], got.los[present])
        return values[:, list(QUANTITIES).index("sinr_db")]

    def _write(self) -> None:
        """Append the rows of a window."""
        handovers = handover_rows(self.world)
        self.moves += len(handovers["ue"])
        self.recorder.write("handovers", handovers)
        write_tracks(self.recorder, self.world)

    def _show(self, done: int, sinr_db: FloatArray) -> None:
        if self.watch is None:
            return
        now_s, of = float(self.world.env.now), self.plan.windows
        figures = {
            "sinr_db": float(np.median(sinr_db)) if len(sinr_db) else float("nan"),
            "handovers": None if self.study.world.radio.handover is None else self.moves,
        }
        self.watch(Progress(done, of, now_s, self.world.clock.text(now_s), figures, done == of, "window"))

    def _snapshot(self, window: int) -> dict[str, Any]:
        """Everything a resumed run needs; states are values."""
        return {
            "study": self.text, "program": __version__, "time_s": float(self.world.env.now), "window": window,
            "world": to_tree(self.world.memory()), "samples": self.samples.copy(), "moves": self.moves,
            "tables": self.recorder.marks(),
        }  # fmt: skip

    def _save(self, snapshot: dict[str, Any]) -> None:
        samples = to_tree(snapshot["samples"].memory())
        save_tree(self.recorder.folder / CHECKPOINT, {**snapshot, "samples": samples})
        self.wrote = True
        self.saved = time.perf_counter()

    def _finish(self) -> None:
        """Play to the end of the world, and write what is known only then."""
        if self.world.duration_s > self.world.env.now:
            self.world.env.run(until=self.world.duration_s)
            self.world.catch_up()
        self._write()
        for rows in self._distributions():
            self.recorder.write("radio_cdf", rows)
        sampled = self.samples.memory()
        for selection, kinds in (("all", [0, 1]), ("indoor", [1]), ("outdoor", [0])):
            count, los = int(sampled.count[kinds].sum()), int(sampled.los[kinds].sum())
            share = 100.0 * los / count if count else float("nan")
            hours = count * self.plan.every_s / 3600.0
            self.recorder.row("radio_samples", selection=selection, count=count, ue_hours=hours, los_percent=share)
        self.recorder.write("coverage", coverage(self.world, self.downlink, coverage_grid(self.world), None))
        write_map(self.recorder.folder, self.world, self.study.world.city)

    def _distributions(self) -> Sequence[dict[str, Any]]:
        """Rows of radio_cdf; of indoor and outdoor samples where there are both."""
        percent = np.arange(101.0)
        some = SELECTIONS if self.samples.sampled.count.min() > 0 else ("all",)
        at = {selection: self.samples.quantiles(selection, percent / 100.0) for selection in some}
        return [
            {"quantity": [name] * 101, "selection": [selection] * 101, "percent": percent, "value": values[:, k]}
            for k, name in enumerate(QUANTITIES)
            for selection, values in at.items()
        ]

    @property
    def accuracy(self) -> str:
        """How quantiles were taken, for the manifest."""
        if self.samples.sampled.exact:
            return "exact"
        return f"bins of 0.05 dB, of rates {self.downlink.max_rate_bps / 12_000:.4g} bit/s"


def highest_of(downlink: Downlink) -> FloatArray:
    """Largest value of each of QUANTITIES; NaN for decibels."""
    return np.array([downlink.max_rate_bps if name == "rate_bps" else np.nan for name in QUANTITIES])


def stacked(got: Reception) -> FloatArray:
    """QUANTITIES as columns (n, q)."""
    return np.column_stack([getattr(got, name) for name in QUANTITIES])


def _inside(world: World) -> BoolArray:
    """Which UEs are in a building (n_ue,)."""
    indoors = world.indoors()
    return np.zeros(len(world.ues), dtype=np.bool_) if indoors is None else indoors.inside

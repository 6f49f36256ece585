"""Play a radio study: UEs move and are served, nothing is learnt; the result is what they receive."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import ceil

import numpy as np

from netsim.radio.downlink import reception
from netsim.record import Recorder
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from scenarios.app.results.folder import QUANTITIES, RADIO, RADIO_STUDY, SELECTIONS
from scenarios.app.results.summary import radio_summary
from scenarios.app.run.events import Watch
from scenarios.app.run.job import Job
from scenarios.app.run.play import Play, coverage, coverage_grid
from scenarios.app.run.setup import radio_world
from scenarios.app.study import Fields
from scenarios.app.study.study import Study

MOST_SAMPLES = 500_000  # that are kept: 20 MB


@dataclass(frozen=True, eq=False)
class RadioSamples:
    """Samples of q quantities in bounded memory: all of them up to a number, beyond it a random share.

    count (2,) : samples outdoors and indoors. kept (m, q + 3) : values, whether the cell was in line of sight, whether
    the UE was indoors, and a random number below `share`.
    """

    count: IntArray
    kept: FloatArray
    share: float = 1.0

    def more(self, rows: FloatArray, rng: Rng) -> RadioSamples:
        """These and others (m, q + 2)."""
        share = self.share
        count = self.count + np.bincount(rows[:, -1].astype(np.int64), minlength=2)
        drawn = rng.uniform("kept", np.arange(len(rows)))
        kept = np.concatenate([self.kept, np.column_stack([rows, drawn])[drawn < share]])
        while len(kept) > MOST_SAMPLES:
            share /= 2.0
            kept = kept[kept[:, -1] < share]
        return RadioSamples(count, kept, share)

    def of(self, selection: str) -> FloatArray:
        """All, indoor or outdoor samples that are kept (m, q + 3)."""
        some: FloatArray = self.kept[(self.kept[:, -2] == (selection == "indoor")) | (selection == "all")]
        return some

    def quantiles(self, selection: str, share: FloatArray) -> FloatArray:
        """Quantiles (p, q) at shares (p,) in [0, 1], of finite values; NaN where there are none."""
        finite = [column[np.isfinite(column)] for column in self.of(selection)[:, :-3].T]
        return np.stack([np.quantile(of, share) if len(of) else np.nan * share for of in finite], axis=1)


@dataclass(frozen=True)
class RadioMemory:
    """Windows that were played, handovers in them, and their samples."""

    samples: RadioSamples
    window: int = 0
    moves: int = 0


class RadioPlay(Play):
    """Windows of time in which all UEs are sampled."""

    unit = "window"
    now: RadioMemory

    def __init__(self, job: Job, study: Study, watch: Watch) -> None:
        began_s = time.perf_counter()
        world, self.plan = radio_world(study)
        super().__init__(job, study, world, Recorder(job.folder, RADIO), watch, began_s)
        self.downlink = study.world.radio.downlink
        self.now = RadioMemory(RadioSamples(np.zeros(2, np.int64), np.zeros((0, len(QUANTITIES) + 3))))

    @property
    def done(self) -> int:
        return self.now.window

    def manifest(self) -> Fields:
        return {"kind": RADIO_STUDY, "cells": [b.name for b in self.world.stations]}

    def steps(self) -> None:
        self.moves = self.now.moves
        of = ceil(self.plan.instants / self.plan.window)
        for window in range(self.now.window, of):
            instants = range(window * self.plan.window, min((window + 1) * self.plan.window, self.plan.instants))
            rows = np.concatenate([self._sample(k * self.plan.every_s) for k in instants])
            self.world.observations()  # of models that set their own measurement times: not needed here
            self.write_moves()
            samples = self.now.samples.more(rows, self.world.ground.streams.at("radio", window))
            self.now = RadioMemory(samples, window + 1, self.moves)
            self.rest()
            sinr_db = rows[:, list(QUANTITIES).index("sinr_db")]
            figures = {
                "sinr_db": float(np.median(sinr_db)) if len(sinr_db) else float("nan"),
                "handovers": None if self.study.world.radio.handover is None else self.moves,
            }
            self.watch(self.event(of, float(self.world.env.now), window + 1 == of, figures))
        if self.world.duration_s > self.world.env.now:
            self.world.env.run(until=self.world.duration_s)
            self.world.catch_up()
        self.write_moves()

    def _sample(self, time_s: float) -> FloatArray:
        """What every UE that is there receives at a time, and whether in line of sight, and indoors (m, q + 2)."""
        world = self.world
        if time_s > world.env.now:
            world.env.run(until=time_s)
        links = world.links()
        if world.handover is not None and world.attached is not None:  # a UE attaches at its first sample
            there = np.flatnonzero(links.serving >= 0)
            world.attached = world.handover.attach(world.attached, there, links.rsrp_dbm[there])
        got = reception(links, world.serving(links), self.downlink)
        indoors = world.indoors()
        inside = np.zeros(len(world.ues)) if indoors is None else indoors.inside
        rows = np.column_stack([*(getattr(got, name) for name in QUANTITIES), got.los, inside])
        return rows[np.isfinite(got.rsrp_dbm)]

    def finish(self, manifest: Fields) -> Fields:
        samples = self.now.samples
        percent = np.arange(101.0)
        outdoor, indoor = samples.count.tolist()
        some = SELECTIONS if outdoor and indoor else ("all",)
        at = {selection: samples.quantiles(selection, percent / 100.0) for selection in some}
        for k, name in enumerate(QUANTITIES):
            for selection, values in at.items():
                names = {"quantity": [name] * 101, "selection": [selection] * 101}
                self.recorder.write("radio_cdf", {**names, "percent": percent, "value": values[:, k]})
        for selection, count in (("all", outdoor + indoor), ("indoor", indoor), ("outdoor", outdoor)):
            los = samples.of(selection)[:, -3]
            share = 100.0 * float(los.mean()) if len(los) else float("nan")
            hours = count * self.plan.every_s / 3600.0
            self.recorder.row("radio_samples", selection=selection, count=count, ue_hours=hours, los_percent=share)
        self.recorder.write("coverage", coverage(self.world, self.downlink, coverage_grid(self.world), None))
        part = f"of a random part of the samples, 1 in {1.0 / samples.share:g}"
        return {"quantiles": "exact" if samples.share == 1.0 else part}

    def summary(self) -> Fields:
        return radio_summary(self.job.folder, self.study.world.radio.handover is not None)

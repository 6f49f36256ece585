"""Play a radio study: UEs move and are served, nothing is learnt; the result is what they receive."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from netsim.build import build_world
from netsim.errors import BadInput
from netsim.multiples import first_multiple
from netsim.radio.downlink import Downlink, Reception, reception
from netsim.record import Recorder
from netsim.rng import Streams
from netsim.tree import REBUILT
from netsim.units import BoolArray, FloatArray, IntArray
from netsim.world import World
from scenarios.app.results.folder import QUANTITIES, RADIO, RADIO_STUDY, SELECTIONS
from scenarios.app.results.summary import radio_summary
from scenarios.app.run.events import Watch
from scenarios.app.run.job import Job
from scenarios.app.run.play import Play
from scenarios.app.run.records import coverage, coverage_grid
from scenarios.app.run.setup import check_count, check_ticks
from scenarios.app.study.study import Study

MOST_EXACT = 500_000  # samples that are kept one by one: 20 MB
BINS = 12_000
_LOWEST_DB, _STEP_DB = -300.0, 0.05  # of bins of decibels


@dataclass(frozen=True, eq=False)
class RadioSamples:
    """Samples of q quantities in bounded memory: exact up to a number, counted in narrow bins beyond it.

    A quantile from bins is off by half a bin at most. low, step (q,) : of the bins. counted (2, 2) : samples, and those
    of them in line of sight; outdoors and indoors. kept (m, q + 1) : values, and whether they are indoors. binned
    (2, q, BINS) : number in each bin, outdoors and indoors.
    """

    low: FloatArray = field(metadata=REBUILT)
    step: FloatArray = field(metadata=REBUILT)
    counted: IntArray
    kept: FloatArray
    binned: IntArray

    @classmethod
    def start(cls, highest: FloatArray) -> RadioSamples:
        """No samples. highest (q,) : NaN for decibels, whose bins are 0.05 dB wide from -300 to 300 dB; else values lie
        between 0 and `highest`, which 12,000 bins divide.
        """
        decibels, q = np.isnan(highest), len(highest)
        low, step = np.where(decibels, _LOWEST_DB, 0.0), np.where(decibels, _STEP_DB, highest / BINS)
        return cls(low, step, np.zeros((2, 2), np.int64), np.zeros((0, q + 1)), np.zeros((2, q, BINS), np.int64))

    def more(self, values: FloatArray, inside: BoolArray, los: BoolArray) -> RadioSamples:
        """These and others (m, q), with whether each was indoors and whether its cell was in line of sight (m,)."""
        kind = inside.astype(np.int64)
        counted = self.counted + np.array([np.bincount(of, minlength=2) for of in (kind, kind[los])])
        kept, binned = np.concatenate([self.kept, np.column_stack([values, inside])]), self.binned
        if counted[0].sum() > MOST_EXACT:
            kept, binned = kept[:0], binned + self._bins(kept)
        return replace(self, counted=counted, kept=kept, binned=binned)

    def _bins(self, rows: FloatArray) -> IntArray:
        """Number of values in each bin (2, q, BINS)."""
        counts = np.zeros_like(self.binned)
        at = np.clip(np.floor((rows[:, :-1] - self.low) / self.step), 0, BINS - 1)
        for kind, k in np.ndindex(counts.shape[:2]):
            good = np.isfinite(rows[:, k]) & (rows[:, -1] == kind)
            counts[kind, k] = np.bincount(at[good, k].astype(np.int64), minlength=BINS)
        return counts

    def quantiles(self, selection: str, share: FloatArray) -> FloatArray:
        """Quantiles (p, q) at shares (p,) in [0, 1] of all, indoor or outdoor samples; NaN where there are none.

        Values that are not finite are left out. Of bins the middle of the one that holds the quantile.
        """
        mine = {"all": [0, 1], "outdoor": [0], "indoor": [1]}[selection]
        if self.binned.any():
            counts = self.binned[mine].sum(axis=0).cumsum(axis=1)
            at = [
                np.searchsorted(of, share * (of[-1] - 1), side="right") if of[-1] else np.nan * share for of in counts
            ]
            return self.low + (np.stack(at, axis=1) + 0.5) * self.step
        rows = self.kept[np.isin(self.kept[:, -1], mine), :-1]
        finite = [column[np.isfinite(column)] for column in rows.T]
        return np.stack([np.quantile(of, share) if len(of) else np.nan * share for of in finite], axis=1)


MOST_WINDOWS = 200  # after each progress is shown, and a run can be interrupted without losing it
LONGEST_WINDOW_S = 3600.0
MOST_INSTANTS = 1e8  # at which UEs are sampled
SLOW_LOOK_S = 10.0  # between two looks at handover, beyond which moving UEs keep cells that they have left behind


@dataclass(frozen=True)
class Windows:
    """When UEs are sampled: `instants` times, every_s apart from 0 on, in windows of `window` instants."""

    every_s: float
    instants: int
    window: int

    @classmethod
    def of(cls, study: Study, world: World) -> Windows:
        """Every measure_every_s; once a tick where the mobility model says itself when UEs measure."""
        every_s = study.world.ues.measure_every_s or study.world.tick_s
        check_count(
            "world.ues.measure_every_s", every_s, world.duration_s / every_s, "samples of every UE", MOST_INSTANTS
        )
        instants = max(first_multiple(world.duration_s, every_s), 1)
        longest = max(int(LONGEST_WINDOW_S / every_s), ceil(instants / MOST_WINDOWS))
        return cls(every_s, instants, max(1, min(longest, ceil(instants / 20))))

    @property
    def windows(self) -> int:
        """Number of windows."""
        return ceil(self.instants / self.window)


def radio_world(study: Study) -> tuple[World, Windows]:
    """The world of a study and when it is sampled: all files are read, and what cannot be played is refused."""
    world = build_world(study.world, Streams(study.seed), study.round_s)
    if not world.stations:
        raise BadInput(
            "world.base_stations: a study without `learning:` records what base stations are received with, and there "
            "is none; list some, or take a layout"
        )
    check_ticks(world)
    world.measure_every_s = None  # the samples are taken here
    plan = Windows.of(study, world)
    look_s = min(world.tick_s, plan.every_s)
    if world.handover is not None and look_s > SLOW_LOOK_S:
        world.warnings += (
            f"handover is looked at every {look_s:g} s only: UEs that move keep cells that they have left behind; take "
            "a shorter world.tick_s",
        )
    return world, plan


def play_radio(job: Job, study: Study, watch: Watch) -> dict[str, Any]:
    """Play a study without learning into the folder of the job; returns the summary."""
    with threadpool_limits(limits=1):
        return RadioPlay(job, study, watch).play()


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
        self.now = RadioMemory(RadioSamples.start(highest_of(self.downlink)))

    @property
    def done(self) -> int:
        return self.now.window

    def manifest(self) -> dict[str, Any]:
        return {"kind": RADIO_STUDY, "cells": [b.name for b in self.world.stations]}

    def steps(self) -> None:
        self.moves, of = self.now.moves, self.plan.windows
        for window in range(self.now.window, of):
            values, inside, los = map(np.concatenate, zip(*self._samples(window), strict=True))
            self.world.observations()  # of models that measure at times of their own: not needed here
            self.write_moves()
            self.now = RadioMemory(self.now.samples.more(values, inside, los), window + 1, self.moves)
            self.rest()
            sinr_db = values[:, list(QUANTITIES).index("sinr_db")]
            figures = {
                "sinr_db": float(np.median(sinr_db)) if len(sinr_db) else float("nan"),
                "handovers": None if self.study.world.radio.handover is None else self.moves,
            }
            self.watch(self.event(of, float(self.world.env.now), window + 1 == of, figures))
        if self.world.duration_s > self.world.env.now:
            self.world.env.run(until=self.world.duration_s)
            self.world.catch_up()
        self.write_moves()

    def _samples(self, window: int) -> Iterator[tuple[FloatArray, BoolArray, BoolArray]]:
        """Play a window: per instant what UEs receive (m, q), and whether indoors, and in line of sight."""
        plan, world = self.plan, self.world
        for k in range(window * plan.window, min((window + 1) * plan.window, plan.instants)):
            if k * plan.every_s > world.env.now:
                world.env.run(until=k * plan.every_s)
            links = world.links()
            if world.handover is not None and world.attached is not None:  # a UE attaches at its first sample
                there = np.flatnonzero(links.serving >= 0)
                world.attached = world.handover.attach(world.attached, there, links.rsrp_dbm[there])
            got, inside = reception(links, world.serving(links), self.downlink), _inside(world)
            present = np.flatnonzero(np.isfinite(got.rsrp_dbm))
            yield stacked(got)[present], inside[present], got.los[present]

    def finish(self, manifest: dict[str, Any]) -> dict[str, Any]:
        for rows in self._distributions():
            self.recorder.write("radio_cdf", rows)
        counted = self.now.samples.counted
        for selection, kinds in (("all", [0, 1]), ("indoor", [1]), ("outdoor", [0])):
            count, los = counted[:, kinds].sum(axis=1).tolist()
            share = 100.0 * los / count if count else float("nan")
            hours = count * self.plan.every_s / 3600.0
            self.recorder.row("radio_samples", selection=selection, count=count, ue_hours=hours, los_percent=share)
        self.recorder.write("coverage", coverage(self.world, self.downlink, coverage_grid(self.world), None))
        bins = f"bins of 0.05 dB, of rates {self.downlink.max_rate_bps / 12_000:.4g} bit/s"
        return {"quantiles": bins if self.now.samples.binned.any() else "exact"}

    def summary(self) -> dict[str, Any]:
        return radio_summary(self.job.folder, self.study.world.radio.handover is not None)

    def _distributions(self) -> Sequence[dict[str, Any]]:
        """Rows of radio_cdf; of indoor and outdoor samples where there are both."""
        percent = np.arange(101.0)
        some = SELECTIONS if self.now.samples.counted[0].min() > 0 else ("all",)
        at = {selection: self.now.samples.quantiles(selection, percent / 100.0) for selection in some}
        return [
            {"quantity": [name] * 101, "selection": [selection] * 101, "percent": percent, "value": values[:, k]}
            for k, name in enumerate(QUANTITIES)
            for selection, values in at.items()
        ]


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

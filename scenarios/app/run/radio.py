"""Play a radio study: UEs move and are served, nothing is learnt; the result is what they receive."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
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
from netsim.units import BoolArray, FloatArray, IntArray
from netsim.world import World
from scenarios.app.results.summary import radio_summary
from scenarios.app.results.tables import QUANTITIES, RADIO, RADIO_STUDY, SELECTIONS
from scenarios.app.run.events import Watch
from scenarios.app.run.job import Job
from scenarios.app.run.play import Play, within
from scenarios.app.run.records import coverage, coverage_grid
from scenarios.app.run.setup import check_ticks
from scenarios.app.study.study import Study

MOST_EXACT = 500_000  # samples that are kept one by one: 20 MB
BINS = 12_000
_LOWEST_DB, _STEP_DB = -300.0, 0.05  # of bins of decibels


class RadioSamples:
    """Samples of q quantities in bounded memory: exact up to a number, counted in narrow bins beyond it.

    highest (q,) : NaN for decibels, whose bins are 0.05 dB wide from -300 to 300 dB; else values lie between 0 and
    `highest`, which 12,000 bins divide. A quantile from bins is off by half a bin at most.
    counted (2, 2) : samples, and those of them in line of sight; outdoors and indoors. kept : pieces (m, q + 1) of
    values and whether they are indoors. binned (2, q, BINS) : number in each bin, outdoors and indoors; None while all
    samples are kept.
    """

    def __init__(self, highest: FloatArray) -> None:
        self.low = np.where(np.isnan(highest), _LOWEST_DB, 0.0)
        self.step = np.where(np.isnan(highest), _STEP_DB, highest / BINS)
        self.counted: IntArray = np.zeros((2, 2), dtype=np.int64)
        self.kept = [np.zeros((0, len(highest) + 1))]
        self.binned: IntArray | None = None

    def memory(self) -> dict[str, Any]:
        """All samples so far, as values."""
        self.kept = [np.concatenate(self.kept)]
        return {"kept": self.kept[0], "counted": self.counted, "binned": self.binned}

    def restored(self, memory: Any) -> dict[str, Any]:
        """The same of the tree of a checkpoint. Raises ValueError for arrays of other shapes."""
        kept, counted = np.asarray(memory["kept"], dtype=float), np.asarray(memory["counted"], dtype=np.int64)
        binned = None if memory["binned"] is None else np.asarray(memory["binned"], dtype=np.int64)
        good = kept.shape[1:] == (len(self.low) + 1,) and counted.shape == (2, 2)
        if not good or (binned is not None and binned.shape != (2, len(self.low), BINS)):
            raise ValueError("samples: arrays of other shapes")
        return {"kept": kept, "counted": counted, "binned": binned}

    def resume(self, memory: dict[str, Any]) -> None:
        """Go on from these."""
        self.kept, self.counted, self.binned = [memory["kept"]], memory["counted"], memory["binned"]

    def add(self, values: FloatArray, inside: BoolArray, los: BoolArray) -> None:
        """Add samples (m, q), with whether each was indoors and whether its cell was in line of sight (m,)."""
        kind = inside.astype(np.int64)
        self.counted = self.counted + np.array([np.bincount(of, minlength=2) for of in (kind, kind[los])])
        self.kept.append(np.column_stack([values, inside]))
        if self.counted[0].sum() > MOST_EXACT:
            rows = np.concatenate(self.kept)
            self.binned = (0 if self.binned is None else self.binned) + self._bins(rows)
            self.kept = [rows[:0]]

    def _bins(self, rows: FloatArray) -> IntArray:
        """Number of values in each bin (2, q, BINS)."""
        counts = np.zeros((2, len(self.low), BINS), dtype=np.int64)
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
        rows = np.concatenate(self.kept)
        rows = rows[np.isin(rows[:, -1], mine)]
        found = np.full((len(share), len(self.low)), np.nan)
        for k in range(len(self.low)):
            of = rows[np.isfinite(rows[:, k]), k]
            if self.binned is not None:
                counts = np.cumsum(self.binned[mine, k].sum(axis=0))
                at = np.searchsorted(counts, share * (counts[-1] - 1), side="right")
                found[:, k] = self.low[k] + (at + 0.5) * self.step[k] if counts[-1] else np.nan
            elif len(of):
                found[:, k] = np.quantile(of, share)
        return found


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
        if world.duration_s / every_s > MOST_INSTANTS:
            raise BadInput(
                f"world.ues.measure_every_s: {every_s:g} s makes {world.duration_s / every_s:.3g} samples of every UE, "
                f"at most {MOST_INSTANTS:g} are possible; measure less often"
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


class RadioPlay(Play):
    """Windows of time in which all UEs are sampled."""

    unit = "window"

    def __init__(self, job: Job, study: Study, watch: Watch) -> None:
        began_s = time.perf_counter()
        world, self.plan = radio_world(study)
        super().__init__(job, study, world, Recorder(job.folder, RADIO), watch, began_s)
        self.downlink = study.world.radio.downlink
        self.samples = RadioSamples(highest_of(self.downlink))
        self.window = 0
        self.sinr_db = np.zeros(0)

    def state(self) -> dict[str, Any]:
        return {"window": self.window, "samples": self.samples.memory(), "moves": self.moves}

    def restored(self, tree: Any) -> dict[str, Any]:
        window, moves = within("window", int(tree["window"]), self.plan.windows), within("moves", tree["moves"], np.inf)
        return {"samples": self.samples.restored(tree["samples"]), "window": int(window), "moves": int(moves)}

    def resume(self, state: dict[str, Any]) -> int:
        self.samples.resume(state["samples"])
        self.moves, self.window = state["moves"], state["window"]
        return self.window

    def manifest(self) -> dict[str, Any]:
        return {"kind": RADIO_STUDY, "cells": [b.name for b in self.world.stations]}

    def steps(self) -> None:
        for window in range(self.window, self.plan.windows):
            self.sinr_db = self._window(window)
            self.window = window + 1
            self.rest()
        if self.world.duration_s > self.world.env.now:
            self.world.env.run(until=self.world.duration_s)
            self.world.catch_up()
        self.write_moves()

    def tell(self) -> None:
        figures = {
            "sinr_db": float(np.median(self.sinr_db)) if len(self.sinr_db) else float("nan"),
            "handovers": None if self.study.world.radio.handover is None else self.moves,
        }
        done, of = self.window, self.plan.windows
        self.watch(self.event(done, of, float(self.world.env.now), done == of, figures))

    def _window(self, window: int) -> FloatArray:
        """Play one window; the SINR of its samples in dB (m,)."""
        plan, sinr = self.plan, []
        for k in range(window * plan.window, min((window + 1) * plan.window, plan.instants)):
            now_s = k * plan.every_s
            if now_s > self.world.env.now:
                self.world.env.run(until=now_s)
            sinr.append(self._sample())
        self.world.observations()  # of models that measure at times of their own: not needed here
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

    def finish(self, manifest: dict[str, Any]) -> dict[str, Any]:
        for rows in self._distributions():
            self.recorder.write("radio_cdf", rows)
        counted = self.samples.counted
        for selection, kinds in (("all", [0, 1]), ("indoor", [1]), ("outdoor", [0])):
            count, los = counted[:, kinds].sum(axis=1).tolist()
            share = 100.0 * los / count if count else float("nan")
            hours = count * self.plan.every_s / 3600.0
            self.recorder.row("radio_samples", selection=selection, count=count, ue_hours=hours, los_percent=share)
        self.recorder.write("coverage", coverage(self.world, self.downlink, coverage_grid(self.world), None))
        bins = f"bins of 0.05 dB, of rates {self.downlink.max_rate_bps / 12_000:.4g} bit/s"
        return {"quantiles": "exact" if self.samples.binned is None else bins}

    def summary(self) -> dict[str, Any]:
        return radio_summary(self.job.folder, self.study.world.radio.handover is not None)

    def _distributions(self) -> Sequence[dict[str, Any]]:
        """Rows of radio_cdf; of indoor and outdoor samples where there are both."""
        percent = np.arange(101.0)
        some = SELECTIONS if self.samples.counted[0].min() > 0 else ("all",)
        at = {selection: self.samples.quantiles(selection, percent / 100.0) for selection in some}
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

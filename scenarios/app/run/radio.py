"""Play a radio study: UEs move and are served, nothing is learnt; the result is what they receive."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
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
from netsim.tree import from_tree
from netsim.units import BoolArray, FloatArray, IntArray
from netsim.world import World
from scenarios.app.results.summary_radio import radio_summary
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


@dataclass(frozen=True, eq=False)
class Sampled:
    """What has been sampled so far, of q quantities.

    count, los (2,) : samples outdoors and indoors, and those of them in line of sight.
    values (n, q), inside (n,) : samples one by one; none once they are in bins.
    binned (2, q, BINS) : number of samples in each bin, outdoors and indoors; (2, q, 0) while samples are kept.
    """

    count: IntArray
    los: IntArray
    values: FloatArray
    inside: BoolArray
    binned: IntArray

    @classmethod
    def none(cls, quantities: int) -> Sampled:
        """Nothing yet."""
        zero = np.zeros(2, dtype=np.int64)
        return cls(
            zero, zero, np.zeros((0, quantities)), np.zeros(0, dtype=np.bool_),
            np.zeros((2, quantities, 0), dtype=np.int64),
        )  # fmt: skip

    @property
    def exact(self) -> bool:
        """Whether all samples are kept."""
        return not self.binned.size


@dataclass(eq=False)
class Samples:
    """Collects samples (m, q) of q quantities in bounded memory.

    highest (q,) : NaN for decibels, whose bins are 0.05 dB wide from -300 to 300 dB; else values lie between 0 and
    `highest`, which 12,000 bins divide. A quantile from bins is off by half a bin at most.
    """

    highest: FloatArray
    sampled: Sampled
    _pieces: list[tuple[FloatArray, BoolArray]] = field(default_factory=list)

    def check(self, sampled: Sampled) -> None:
        """Raise ValueError where what was sampled before has arrays of other shapes."""
        nothing, n = Sampled.none(len(self.highest)), len(sampled.values)
        shapes = {"count": (2,), "los": (2,), "values": (n, *nothing.values.shape[1:]), "inside": (n,)}
        for name, shape in shapes.items():
            if (has := getattr(sampled, name).shape) != shape:
                raise ValueError(f"samples: {name} of shape {has}, expected {shape}")
        if sampled.binned.size and sampled.binned.shape != (2, len(self.highest), BINS):
            raise ValueError(f"samples: binned of shape {sampled.binned.shape}")

    def add(self, values: FloatArray, inside: BoolArray, los: BoolArray) -> None:
        """Add samples (m, q), with whether each was indoors and whether its cell was in line of sight (m,)."""
        now = self.sampled
        kinds = inside.astype(np.int64)
        count, seen = np.bincount(kinds, minlength=2), np.bincount(kinds[los], minlength=2)
        binned = now.binned
        if now.exact:
            self._pieces.append((values, inside))
        else:
            binned = binned + self._binned(values, inside)
        self.sampled = Sampled(now.count + count, now.los + seen, now.values, now.inside, binned)
        if now.exact and self.sampled.count.sum() > MOST_EXACT:
            whole = self.memory()
            nothing = Sampled.none(len(self.highest))
            self.sampled = Sampled(
                whole.count, whole.los, nothing.values, nothing.inside, self._binned(whole.values, whole.inside)
            )

    def memory(self) -> Sampled:
        """All samples so far, as a value."""
        now = self.sampled
        if self._pieces:
            values = np.concatenate([now.values, *(v for v, _ in self._pieces)])
            inside = np.concatenate([now.inside, *(i for _, i in self._pieces)])
            self.sampled = now = Sampled(now.count, now.los, values, inside, now.binned)
            self._pieces.clear()
        return now

    def quantiles(self, selection: str, share: FloatArray) -> FloatArray:
        """Quantiles (p, q) at shares (p,) in [0, 1] of all, indoor or outdoor samples; NaN where there are none.

        Values that are not finite are left out.
        """
        now, n = self.memory(), len(self.highest)
        result = np.full((len(share), n), np.nan)
        mine = {"all": [0, 1], "outdoor": [0], "indoor": [1]}[selection]
        for k in range(n):
            if now.exact:
                of = now.values[np.isin(now.inside.astype(np.int64), mine), k]
                of = of[np.isfinite(of)]
                if len(of):
                    result[:, k] = np.quantile(of, share)
            else:
                result[:, k] = self._from_bins(now.binned[mine, k].sum(axis=0), k, share)
        return result

    def _low_step(self) -> tuple[FloatArray, FloatArray]:
        """Lower end and width of the bins of each quantity (q,)."""
        decibels = np.isnan(self.highest)
        return np.where(decibels, _LOWEST_DB, 0.0), np.where(decibels, _STEP_DB, self.highest / BINS)

    def _binned(self, values: FloatArray, inside: BoolArray) -> IntArray:
        """Samples in each bin (2, q, BINS)."""
        low, step = self._low_step()
        n = len(self.highest)
        counts = np.zeros((2, n, BINS), dtype=np.int64)
        for k in range(n):
            good = np.isfinite(values[:, k])
            at = np.clip(np.floor((values[good, k] - low[k]) / step[k]), 0, BINS - 1).astype(np.int64)
            for kind in range(2):
                counts[kind, k] = np.bincount(at[inside[good] == bool(kind)], minlength=BINS)
        return counts

    def _from_bins(self, counts: IntArray, k: int, share: FloatArray) -> FloatArray:
        """Quantiles (p,) of quantity k: middles of the bins that hold them."""
        total = int(counts.sum())
        if not total:
            return np.full(len(share), np.nan)
        low, step = self._low_step()
        at = np.searchsorted(np.cumsum(counts), share * (total - 1), side="right")
        return np.asarray(low[k] + (at + 0.5) * step[k])


MOST_WINDOWS = 200  # after each progress is shown, and a run can be interrupted without losing it
LONGEST_WINDOW_S = 3600.0
MOST_INSTANTS = 1e8  # at which UEs are sampled
SLOW_LOOK_S = 10.0  # between two looks at handover, beyond which moving UEs keep cells that they have left behind


@dataclass(frozen=True)
class Plan:
    """When UEs are sampled: `instants` times, every_s apart from 0 on, in windows of `window` instants."""

    every_s: float
    instants: int
    window: int

    @classmethod
    def of(cls, study: Study, world: World) -> Plan:
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


def radio_world(study: Study) -> tuple[World, Plan]:
    """The world of a study and when it is sampled: all files are read, and what cannot be played is refused."""
    world = build_world(study.world, Streams(study.seed), study.round_s)
    if not world.stations:
        raise BadInput(
            "world.base_stations: a study without `learning:` records what base stations are received with, and there "
            "is none; list some, or take a layout"
        )
    check_ticks(world)
    world.measure_every_s = None  # the samples are taken here
    plan = Plan.of(study, world)
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
        self.samples = Samples(highest_of(self.downlink), Sampled.none(len(QUANTITIES)))
        self.window = 0
        self.sinr_db = np.zeros(0)

    def state(self) -> dict[str, Any]:
        return {"window": self.window, "samples": self.samples.memory(), "moves": self.moves}

    def restored(self, tree: Any) -> dict[str, Any]:
        sampled = from_tree(tree["samples"], self.samples.sampled)
        self.samples.check(sampled)
        window, moves = within("window", int(tree["window"]), self.plan.windows), within("moves", tree["moves"], np.inf)
        return {"samples": sampled, "window": int(window), "moves": int(moves)}

    def resume(self, state: dict[str, Any]) -> int:
        self.samples.sampled, self.moves, self.window = state["samples"], state["moves"], state["window"]
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
        sampled = self.samples.memory()
        for selection, kinds in (("all", [0, 1]), ("indoor", [1]), ("outdoor", [0])):
            count, los = int(sampled.count[kinds].sum()), int(sampled.los[kinds].sum())
            share = 100.0 * los / count if count else float("nan")
            hours = count * self.plan.every_s / 3600.0
            self.recorder.row("radio_samples", selection=selection, count=count, ue_hours=hours, los_percent=share)
        self.recorder.write("coverage", coverage(self.world, self.downlink, coverage_grid(self.world), None))
        bins = f"bins of 0.05 dB, of rates {self.downlink.max_rate_bps / 12_000:.4g} bit/s"
        return {"quantiles": "exact" if sampled.exact else bins}

    def summary(self) -> dict[str, Any]:
        return radio_summary(self.job.folder, self.study.world.radio.handover is not None)

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

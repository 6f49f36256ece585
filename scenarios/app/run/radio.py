"""Play a radio study: UEs move and are served, nothing is learnt; the result is what they receive."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from netsim.radio.downlink import Downlink, Reception, reception
from netsim.record import Recorder
from netsim.tree import from_tree
from netsim.units import BoolArray, FloatArray
from netsim.world import World
from scenarios.app.results.summary_radio import radio_summary
from scenarios.app.results.tables import QUANTITIES, RADIO, RADIO_STUDY, SELECTIONS
from scenarios.app.run.coverage import coverage, coverage_grid
from scenarios.app.run.events import Watch
from scenarios.app.run.job import Job
from scenarios.app.run.play import Play, within
from scenarios.app.run.radio_plan import radio_world
from scenarios.app.run.samples import Sampled, Samples
from scenarios.app.study.study import Study


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

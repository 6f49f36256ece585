"""What a run plays: rounds of learning, or windows of a radio study."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from fl.round.final import (
    exploded,
    learnt_map,
    notices_at_end,
    surfaces,
    write_final,
)
from fl.round.server import LearningServer
from fl.round.state import RoundState, begin
from netsim.notice import Notice
from netsim.radio.downlink import reception
from netsim.record import Recorder, write_json
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from scenarios.app.results.folder import PLAN, QUANTITIES, RADIO, RADIO_STUDY, SELECTIONS, SURFACES
from scenarios.app.results.read import Run
from scenarios.app.results.summary import radio_summary, summarise
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.job import Job
from scenarios.app.run.measured import DriveSamples, read_measured
from scenarios.app.run.play import (
    Play,
    coverage,
    coverage_grid,
    delta_notices,
    write_arrays,
    write_points,
)
from scenarios.app.run.setup import radio_world, ready
from scenarios.app.study import Fields, Record
from scenarios.app.study.notice import notice
from scenarios.app.study.study import Study

NO_SERVICE_DBM = -140.0  # the least RSRP that a UE reports in LTE (3GPP TS 36.133, Table 9.1.4-1)
MOST_SAMPLES = 500_000  # that are kept: 20 MB


@dataclass(frozen=True, eq=False)
class RadioSamples:
    """Samples of q quantities in bounded memory: all of them up to a number, beyond it a random
    share.

    count (2,) : samples outdoors and indoors. kept (m, q + 3) : values, whether the cell was in
    line of sight, whether the UE was indoors, and a random number below `share`.
    """

    count: IntArray
    kept: FloatArray
    share: float = 1.0

    def more(self, rows: FloatArray, rng: Rng) -> RadioSamples:
        """These and others (m, q + 2)."""
        share = self.share
        count = self.count + np.bincount(rows[:, -1].astype(int), minlength=2)
        drawn = rng.uniform("kept", np.arange(len(rows)))
        kept = np.concatenate([self.kept, np.column_stack([rows, drawn])[drawn < share]])
        while len(kept) > MOST_SAMPLES:
            share /= 2.0
            kept = kept[kept[:, -1] < share]
        return RadioSamples(count, kept, share)

    def of(self, selection: str) -> FloatArray:
        """All, indoor or outdoor samples that are kept (m, q + 3)."""
        return self.kept[(self.kept[:, -2] == (selection == "indoor")) | (selection == "all")]

    def quantiles(self, selection: str, share: FloatArray) -> FloatArray:
        """Quantiles (p, q) at shares (p,) in [0, 1], of finite values; NaN where there are none."""
        finite = [column[np.isfinite(column)] for column in self.of(selection)[:, :-3].T]
        return np.stack(
            [np.quantile(of, share) if len(of) else np.nan * share for of in finite], axis=1
        )


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
        self.measured = read_measured(study.measured) if study.measured else DriveSamples()
        self.now = RadioMemory(
            RadioSamples(np.zeros(2, np.int64), np.zeros((0, len(QUANTITIES) + 3)))
        )

    @property
    def done(self) -> int:
        return self.now.window

    def manifest(self) -> Fields:
        return {"kind": RADIO_STUDY, "cells": [b.name for b in self.world.stations]}

    def steps(self) -> None:
        self.moves = self.now.moves
        of = ceil(self.plan.instants / self.plan.window)
        for window in range(self.now.window, of):
            instants = range(
                window * self.plan.window, min((window + 1) * self.plan.window, self.plan.instants)
            )
            rows = np.concatenate([self._sample(k * self.plan.every_s) for k in instants])
            # of models that set their own measurement times: not needed here
            self.world.observations()
            self.write_moves()
            samples = self.now.samples.more(rows, self.world.ground.streams.at("radio", window))
            self.now = RadioMemory(samples, window + 1, self.moves)
            self.rest()
            sinr_db = rows[:, QUANTITIES.index("sinr_db")]
            figures = {
                "sinr_db": float(np.median(sinr_db)) if len(sinr_db) else float("nan"),
                "handovers": None if self.study.world.radio.handover is None else self.moves,
            }
            self.watch(self.event(of, self.world.env.now, window + 1 == of, figures))
        if self.world.duration_s > self.world.env.now:
            self.world.env.run(until=self.world.duration_s)
            self.world.catch_up()
        self.write_moves()

    def _sample(self, time_s: float) -> FloatArray:
        """What every UE that is there receives at a time, and whether in line of sight, and indoors
        (m, q + 2).
        """
        world = self.world
        if time_s > world.env.now:
            world.env.run(until=time_s)
        links = world.links()
        if (
            world.handover is not None and world.attached is not None
        ):  # a UE attaches at its first sample
            there = np.flatnonzero(links.serving >= 0)
            world.attached = world.handover.attach(world.attached, there, links.rsrp_dbm[there])
        got = reception(links, world.serving(links), self.downlink)
        indoors = world.indoors()
        inside = np.zeros(len(world.ues)) if indoors is None else indoors.inside
        rows = np.column_stack([*(getattr(got, name) for name in QUANTITIES), got.los, inside])
        return rows[np.isfinite(got.rsrp_dbm)]

    def finish(self, manifest: Fields) -> Fields:
        from scipy.stats import ks_2samp

        samples = self.now.samples
        percent = np.arange(101.0)
        outdoor, indoor = samples.count.tolist()
        some = SELECTIONS if outdoor and indoor else ("all",)
        at = {selection: samples.quantiles(selection, percent / 100.0) for selection in some}
        theirs = self.measured.samples
        counted = self.measured.counted
        own = "outdoor" if outdoor and indoor else "all"
        if theirs:
            columns = [
                np.quantile(theirs.get(name, [np.nan]), percent / 100.0) for name in QUANTITIES
            ]
            at["measured"] = np.stack(columns, axis=1)
        for k, name in enumerate(QUANTITIES):
            for selection, values in at.items():
                names = {"quantity": [name] * 101, "selection": [selection] * 101}
                self.recorder.write(
                    "radio_cdf", {**names, "percent": percent, "value": values[:, k]}
                )
        for k, name in enumerate(QUANTITIES):
            if name in theirs and outdoor + indoor:
                ks = ks_2samp(samples.of(own)[:, k], theirs[name], method="asymp").statistic
                difference_db = at[own][50, k] - at["measured"][50, k]
                count = len(theirs[name]) if counted else None
                self.recorder.row(
                    "radio_measured", quantity=name, count=count, ks=ks, difference_db=difference_db
                )
        for selection, count in (
            ("all", outdoor + indoor),
            ("indoor", indoor),
            ("outdoor", outdoor),
        ):
            los = samples.of(selection)[:, -3]
            if len(los) and self.study.world.radio.knows_sight:
                share = 100.0 * los.mean()
            else:
                share = float("nan")
            hours = count * self.plan.every_s / 3600.0
            self.recorder.row(
                "radio_samples", selection=selection, count=count, ue_hours=hours, los_percent=share
            )
        self.recorder.write(
            "coverage", coverage(self.world, self.downlink, coverage_grid(self.world), None)
        )
        part = f"of a random part of the samples, 1 in {1.0 / samples.share:g}"
        return {"quantiles": "exact" if samples.share == 1.0 else part}

    def notices(self) -> Iterator[Notice]:
        samples = self.now.samples
        outdoor, indoor = samples.count.tolist()
        weak = samples.of("all")[:, list(QUANTITIES).index("rsrp_dbm")] < NO_SERVICE_DBM
        if weak.any():
            yield notice(
                "samples-without-service", percent=100.0 * weak.mean(), least_dbm=NO_SERVICE_DBM
            )
        if self.measured.samples and indoor:
            own = "outdoor" if outdoor else "all"
            yield notice(
                "measured-outdoors", selection=own, percent=100.0 * indoor / (outdoor + indoor)
            )

    def summary(self, run: Run) -> Fields:
        return radio_summary(run.tables, self.study.world.radio.handover is not None)


@dataclass(frozen=True)
class Planned:
    """A study with the powers and rounds of its plan written in, and what the plan says of them;
    empty without one.
    """

    study: Study
    said: Fields


@dataclass(frozen=True)
class LearningMemory:
    """What goes from one round to the next, rounds without an update, and the round in which a
    model exploded; 0: in none.
    """

    state: RoundState
    empty: int = 0
    exploded: int = 0


class LearningPlay(Play):
    """The rounds of a server, in turn or as updates come."""

    unit = "round"
    now: LearningMemory

    def __init__(self, job: Job, study: Study, planned: Planned, watch: Watch) -> None:
        began_s = time.perf_counter()
        world, self.setup = ready(planned.study, job.folder)
        super().__init__(job, study, world, self.setup.recorder, watch, began_s)
        self.said = planned.said
        self.last = Event("round", 0, 0)
        self.unseen = list[Event]()
        self.now = LearningMemory(begin(self.setup, len(world.ues)))
        self.rounds = world.clock.rounds(world.duration_s, self.setup.learning.round_s)
        self.most = self.setup.learning.rounds
        self.in_rounds = self.setup.learning.server.in_rounds

    @property
    def done(self) -> int:
        return self.now.state.round

    def manifest(self) -> Fields:
        return {"models": list(self.setup.models), "empty_rounds": self.now.empty}

    def steps(self) -> None:
        if self.said:
            write_json(self.job.folder / PLAN, self.said)
        world = self.world
        played = world.env.process(LearningServer(world, self.setup, self.now.state).serve(self))
        if (
            world.env.now < world.duration_s + 1.0
        ):  # later than that in a run that goes on after its last round
            world.env.run(until=world.duration_s + 1.0)
        world.env.run(until=played)  # the last round may still be on the air

    def played(self, state: RoundState, figures: Fields) -> None:
        """A round was played, or passed by without figures; this is the state after it."""
        empty = self.now.empty + (not figures and not state.stopped)
        when = self.now.exploded
        if not when and exploded(state, figures):
            when = state.round if self.in_rounds else state.played
        self.now = LearningMemory(state, empty, when)
        over = self.in_rounds and (
            state.round >= self.rounds or state.stopped
        )  # without rounds others are under way
        marks = {} if self.in_rounds else {"merge": state.played}
        marks |= {"stopped": True} if state.stopped else {}
        values = {**marks, **_found(figures)}
        now_s = self.world.env.now
        self.unseen.append(
            self.event(self._of(state), now_s, over or state.played == self.most, values)
        )

    def rested(self, state: RoundState) -> None:
        """A run can go on from this state, at this time."""
        self.now = replace(self.now, state=state)
        self.rest()
        self._show()

    def _show(self) -> None:
        for event in self.unseen:
            self.watch(event)
            self.last = event
        self.unseen = []

    def _of(self, state: RoundState) -> int:
        """The last round, if those that are still to be played follow one another and the world
        lasts.
        """
        if self.most is None or not self.in_rounds:
            return self.rounds
        return min(self.rounds, state.round + max(self.most - state.played, 0))

    def finish(self, manifest: Fields) -> Fields:
        setup = self.setup
        last = self.now.state
        folder = self.job.folder
        columns = setup.recorder.columns
        self._show()
        if self.last.done and not self.last.last:  # windows passed by without a merge
            now_s = max(self.world.duration_s, self.last.values["time_s"])
            self.watch(self.event(self.rounds, now_s, True, _found({}))._replace(done=self.rounds))
        write_final(setup, last, self.world, columns("spends"))
        place_m = coverage_grid(self.world)
        learnt_dbm = learnt_map(setup, last, place_m)
        setup.recorder.write(
            "coverage", coverage(self.world, self.study.world.radio.downlink, place_m, learnt_dbm)
        )
        write_points(folder, last)
        if maps := surfaces(setup, last, self.world):
            write_arrays(folder / SURFACES, maps)
        return {"empty_rounds": self.now.empty, "stopped_by_budget": last.stopped}

    def notices(self) -> Iterator[Notice]:
        learning = self.setup.learning
        heard = "updates" if learning.threat.receiver is None else "eavesdropper"
        tables = map(self.recorder.columns, ("leakage", heard, "sums"))
        yield from delta_notices(self.setup, self.now.state)
        yield from notices_at_end(learning, self.now.exploded, *tables)

    def summary(self, run: Run) -> Fields:
        return summarise(run, self.study)


def _found(figures: Record) -> Fields:
    """What a round found: the model's scores, its updates, leakage by attack, and epsilon where
    noise was drawn.
    """
    if not figures:
        return {"updates": 0, "decoded": 0}
    attacks = {
        name: {
            "centroid_error_m": error_m,
            "homes_named_percent": figures["homes_named_percent"][name],
        }
        for name, error_m in figures["leakage"].items()
    }
    spent = {} if figures["epsilon_max"] is None else {"epsilon": figures["epsilon_max"]}
    return {
        **figures["scores"],
        "updates": figures["sent"],
        "decoded": figures["decoded"],
        "attacks": attacks,
        **spent,
    }

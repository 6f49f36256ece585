"""What a run plays: rounds of learning, or windows of a radio study."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from fl.round.final import (
    build_surfaces,
    collect_final_notices,
    has_exploded,
    predict_map,
    write_final,
)
from fl.round.server import LearningServer
from fl.round.state import RoundState, start_state
from netsim.columns import frozen
from netsim.mobility.people import PeopledTown
from netsim.notice import Notices
from netsim.radio.downlink import receive_broadcast
from netsim.record import Recorder, write_json
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from netsim.workers import count_workers
from netsim.world.world import WorldMemory
from scenarios.app.results.folder import (
    PLAN,
    QUANTITIES,
    RADIO,
    RADIO_STUDY,
    SELECTIONS,
    SURFACES,
    VIEWS,
)
from scenarios.app.results.read import Run
from scenarios.app.results.summary import summarise_radio, summarise_run
from scenarios.app.run.ahead import play_ahead
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.job import KEEPS_VIEWS, Job
from scenarios.app.run.measured import DriveSamples, read_measured
from scenarios.app.run.play import (
    Play,
    find_spent_delta_notices,
    lay_coverage_grid,
    tabulate_coverage,
    write_arrays,
    write_points,
    write_tracks,
)
from scenarios.app.run.setup import build_radio_world, prepare_run
from scenarios.app.study import Fields, Record
from scenarios.app.study.notice import notice
from scenarios.app.study.study import Study

NO_SERVICE_DBM = -140.0  # the least RSRP that a UE reports in LTE (3GPP TS 36.133, Table 9.1.4-1)
MAX_KEPT_SAMPLES = 500_000  # that are kept: 20 MB


@frozen
class RadioSamples:
    """Samples of q quantities in bounded memory: all of them up to a number, beyond it a random
    share.

    count (2,) : samples outdoors and indoors. kept (m, q + 3) : values, whether the cell was in
    line of sight, whether the UE was indoors, and a random number below `share`.
    """

    count: IntArray
    kept: FloatArray
    share: float = 1.0

    def add(self, rows: FloatArray, rng: Rng) -> RadioSamples:
        """Return these and others (m, q + 2)."""
        share = self.share
        count = self.count + np.bincount(rows[:, -1].astype(int), minlength=2)
        drawn = rng.uniform("kept", np.arange(len(rows)))
        kept = np.concatenate([self.kept, np.column_stack([rows, drawn])[drawn < share]])
        while len(kept) > MAX_KEPT_SAMPLES:
            share /= 2.0
            kept = kept[kept[:, -1] < share]
        return RadioSamples(count, kept, share)

    def select(self, selection: str) -> FloatArray:
        """Return all, indoor or outdoor samples that are kept (m, q + 3)."""
        is_selected = (self.kept[:, -2] == (selection == "indoor")) | (selection == "all")
        return self.kept[is_selected]

    def compute_quantiles(self, selection: str, share: FloatArray) -> FloatArray:
        """Return quantiles (p, q) at shares (p,) in [0, 1], of finite values; NaN where there are
        none.
        """
        finite = [column[np.isfinite(column)] for column in self.select(selection)[:, :-3].T]
        return np.stack(
            [np.quantile(column, share) if len(column) else np.nan * share for column in finite],
            axis=1,
        )


@dataclass(frozen=True)
class RadioMemory:
    """Windows that were played, and their samples."""

    samples: RadioSamples
    window: int = 0


class RadioPlay(Play):
    """Windows of time in which all UEs are sampled."""

    unit = "window"
    memory: RadioMemory

    def __init__(self, job: Job, study: Study, watch: Watch) -> None:
        began_s = time.perf_counter()
        world, self.plan = build_radio_world(study)
        super().__init__(job, study, world, Recorder(job.folder, RADIO), watch, began_s)
        self.downlink = study.world.radio.downlink
        self.measured = read_measured(study.measured) if study.measured else DriveSamples()
        self.memory = RadioMemory(
            RadioSamples(np.zeros(2, np.int64), np.zeros((0, len(QUANTITIES) + 3)))
        )

    @property
    def done(self) -> int:
        return self.memory.window

    def build_manifest_fields(self) -> Fields:
        return {"kind": RADIO_STUDY, "cells": [b.name for b in self.world.stations]}

    def play_steps(self) -> None:
        world = self.world
        total = ceil(self.plan.instants / self.plan.window)
        for window in range(self.memory.window, total):
            first = window * self.plan.window
            instants = range(self.plan.instants)[first : first + self.plan.window]
            rows = np.concatenate([self._sample(k * self.plan.every_s) for k in instants])
            # of models that set their own measurement times: not needed here
            world.drain_observations()
            self.write_moves()
            samples = self.memory.samples.add(
                rows, world.ground.streams.derive_rng("radio", window)
            )
            self.memory = RadioMemory(samples, window + 1)
            self.remember(world.take_memory(), world.env.now)
            sinr_db = rows[:, QUANTITIES.index("sinr_db")]
            moves = self.recorder.count_rows().get("handovers", 0)
            figures = {
                "sinr_db": float(np.median(sinr_db)) if len(sinr_db) else float("nan"),
                "handovers": None if self.study.world.radio.handover is None else moves,
            }
            self.watch(self.make_event(total, world.env.now, window + 1 == total, figures))
        if world.duration_s > world.env.now:
            world.env.run(until=world.duration_s)
            world.catch_up()
        self.write_moves()

    def _sample(self, time_s: float) -> FloatArray:
        """Return what every UE that is there receives at a time, and whether in line of sight, and
        indoors (m, q + 2).
        """
        world = self.world
        if time_s > world.env.now:
            world.env.run(until=time_s)
        links = world.compute_links()
        if (
            world.handover is not None and world.attached is not None
        ):  # a UE attaches at its first sample
            present = np.flatnonzero(links.serving >= 0)
            world.attached = world.handover.attach(world.attached, present, links.rsrp_dbm[present])
        got = receive_broadcast(links, world.find_serving(links), self.downlink)
        indoors = world.find_indoors()
        inside = np.zeros(len(world.ues)) if indoors is None else indoors.inside
        rows = np.column_stack([*[getattr(got, name) for name in QUANTITIES], got.los, inside])
        return rows[np.isfinite(got.rsrp_dbm)]

    def finish(self) -> Fields:
        samples = self.memory.samples
        percent = np.arange(101.0)
        outdoor, indoor = samples.count.tolist()
        selections = SELECTIONS if outdoor and indoor else ("all",)
        values_at = {
            selection: samples.compute_quantiles(selection, percent / 100.0)
            for selection in selections
        }
        measured = self.measured.samples
        counted = self.measured.is_measured
        compared = "outdoor" if outdoor and indoor else "all"
        if measured:
            columns = [
                np.quantile(measured.get(name, [np.nan]), percent / 100.0) for name in QUANTITIES
            ]
            values_at["measured"] = np.stack(columns, axis=1)
        for k, name in enumerate(QUANTITIES):
            for selection, values in values_at.items():
                names = {"quantity": [name] * 101, "selection": [selection] * 101}
                self.recorder.write(
                    "radio_cdf", {**names, "percent": percent, "value": values[:, k]}
                )
            if name in measured and outdoor + indoor:
                from scipy.stats import ks_2samp  # here, since it loads for long

                ks = ks_2samp(
                    samples.select(compared)[:, k], measured[name], method="asymp"
                ).statistic
                difference_db = values_at[compared][50, k] - values_at["measured"][50, k]
                count = len(measured[name]) if counted else None
                self.recorder.write_row(
                    "radio_measured", quantity=name, count=count, ks=ks, difference_db=difference_db
                )
        for selection, count in (
            ("all", outdoor + indoor),
            ("indoor", indoor),
            ("outdoor", outdoor),
        ):
            los = samples.select(selection)[:, -3]
            if len(los) and self.study.world.radio.sight_is_modelled:
                share = 100.0 * los.mean()
            else:
                share = float("nan")
            hours = count * self.plan.every_s / 3600.0
            self.recorder.write_row(
                "radio_samples", selection=selection, count=count, ue_hours=hours, los_percent=share
            )
        self.recorder.write(
            "coverage",
            tabulate_coverage(self.world, self.downlink, lay_coverage_grid(self.world), None),
        )
        return {
            "quantiles": "exact"
            if samples.share == 1.0
            else f"of a random part of the samples, 1 in {1.0 / samples.share:g}"
        }

    def find_notices(self) -> Notices:
        samples = self.memory.samples
        outdoor, indoor = samples.count.tolist()
        weak = samples.select("all")[:, QUANTITIES.index("rsrp_dbm")] < NO_SERVICE_DBM
        if weak.any():
            yield notice(
                "samples-without-service", percent=100.0 * weak.mean(), least_dbm=NO_SERVICE_DBM
            )
        if self.measured.samples and indoor:
            yield notice(
                "measured-outdoors",
                selection="outdoor" if outdoor else "all",
                percent=100.0 * indoor / (outdoor + indoor),
            )

    def summarise(self, run: Run) -> Fields:
        return summarise_radio(run.tables, self.study.world.radio.handover is not None)


@dataclass(frozen=True)
class PlannedStudy:
    """A study with the powers and rounds of its plan written in, and what the plan says of them;
    empty without one.
    """

    study: Study
    report: Fields


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
    memory: LearningMemory

    def __init__(self, job: Job, study: Study, planned: PlannedStudy, watch: Watch) -> None:
        began_s = time.perf_counter()
        world, setup = prepare_run(planned.study, job.folder)
        if job.notes == KEEPS_VIEWS:
            setup = replace(setup, views=job.folder / VIEWS)
        super().__init__(job, study, world, setup.recorder, watch, began_s)
        self.setup = setup
        self.report = planned.report
        self.last = Event("round", 0, 0)
        self.unseen = list[Event]()
        self.memory = LearningMemory(start_state(setup, len(world.ues)))
        self.rounds = world.clock.count_rounds(world.duration_s, setup.learning.round_s)
        self.most = setup.learning.rounds
        self.in_rounds = setup.learning.server.in_rounds

    @property
    def done(self) -> int:
        return self.memory.state.round

    def build_manifest_fields(self) -> Fields:
        return {
            "models": list(self.setup.models),
            "empty_rounds": self.memory.empty,
            "towns": {
                attack.label: attack.lessons
                for attack in self.setup.learning.attacks
                if attack.lessons
            },
        }

    def play_steps(self) -> None:
        if self.report:
            write_json(self.job.folder / PLAN, self.report)
        self.server = LearningServer(self.world, self.setup, self.memory.state, self)
        if count_workers() > 1 and sys.platform == "linux":
            done_here = self.recorder.write, self.server.record, self.keep_state, self.world.resume
            town = getattr(self.world.state, "town", None)
            towns = [town] if isinstance(town, PeopledTown) else []
            play_ahead(self._play_world, done_here, [self.setup, self.setup.public, *towns])
        else:
            self._play_world()

    def _play_world(self) -> None:
        world = self.world
        played = world.env.process(self.server.serve())
        if (
            world.env.now < world.duration_s + 1.0
        ):  # later than that in a run that goes on after its last round
            world.env.run(until=world.duration_s + 1.0)
        world.env.run(until=played)  # the last round may still be on the air
        write_tracks(self.recorder, world)
        world.resume(world.take_memory(), world.env.now)  # where the run ends

    def report_round(self, state: RoundState, figures: Fields, now_s: float) -> None:
        """A round was played, or passed by without figures; this is the state after it."""
        empty = self.memory.empty + (not figures and not state.stopped)
        exploded_in = self.memory.exploded
        if not exploded_in and has_exploded(state, figures):
            exploded_in = state.round if self.in_rounds else state.played
        self.memory = LearningMemory(state, empty, exploded_in)
        # without rounds others are under way
        over = self.in_rounds and (state.round >= self.rounds or state.stopped)
        marks = {"merge": state.played} if not self.in_rounds else {}
        if state.stopped:
            marks |= {"stopped": True}
        values = {**marks, **_collect_figures(figures)}
        self.unseen.append(
            self.make_event(
                self._find_last_round(state),
                now_s,
                over or state.played == self.most,
                values,
            )
        )

    def report_state(self, state: RoundState) -> None:
        """A run can go on from this state, at this time: write where UEs were, and keep it."""
        self.write_moves()
        self.keep_state(state, self.world.take_memory(), self.world.env.now)

    def keep_state(self, state: RoundState, world: WorldMemory, time_s: float) -> None:
        """Keep a state that a run can go on from."""
        self.server.take_over(state)
        self.memory = replace(self.memory, state=state)
        self.remember(world, time_s)
        self._show_events()

    def _show_events(self) -> None:
        for event in self.unseen:
            self.watch(event)
            self.last = event
        self.unseen = []

    def _find_last_round(self, state: RoundState) -> int:
        """Return the last round, if those that are still to be played follow one another and the
        world lasts.
        """
        if self.most is None or not self.in_rounds:
            return self.rounds
        return min(self.rounds, state.round + max(self.most - state.played, 0))

    def finish(self) -> Fields:
        setup = self.setup
        last = self.memory.state
        folder = self.job.folder
        columns = setup.recorder.read_columns
        self._show_events()
        if self.last.done and not self.last.last:  # windows passed by without a merge
            now_s = max(self.world.duration_s, self.last.values["time_s"])
            self.watch(
                self.make_event(self.rounds, now_s, True, _collect_figures({}))._replace(
                    done=self.rounds
                )
            )
        write_final(setup, last, self.world, columns("spends"))
        place_m = lay_coverage_grid(self.world)
        setup.recorder.write(
            "coverage",
            tabulate_coverage(
                self.world,
                self.study.world.radio.downlink,
                place_m,
                predict_map(setup, last, place_m),
            ),
        )
        write_points(folder, last)
        if maps := build_surfaces(setup, last, self.world):
            write_arrays(folder / SURFACES, maps)
        fields: Fields = {"empty_rounds": self.memory.empty, "stopped_by_budget": last.stopped}
        if setup.views is not None:
            fields[VIEWS] = {"round": last.round, "time_s": self.world.env.now}
        return fields

    def find_notices(self) -> Notices:
        learning = self.setup.learning
        tables = map(
            self.recorder.read_columns,
            ("leakage", "updates" if learning.threat.receiver is None else "eavesdropper", "sums"),
        )
        yield from find_spent_delta_notices(self.setup, self.memory.state)
        yield from collect_final_notices(learning, self.memory.exploded, *tables)

    def summarise(self, run: Run) -> Fields:
        return summarise_run(run, self.study)


def _collect_figures(figures: Record) -> Fields:
    """Return what a round found: the model's scores, its updates, leakage by attack, and epsilon
    where noise was drawn.
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
    spent = {"epsilon": figures["epsilon_max"]} if figures["epsilon_max"] is not None else {}
    return {
        **figures["scores"],
        "updates": figures["sent"],
        "decoded": figures["decoded"],
        "attacks": attacks,
        **spent,
    }

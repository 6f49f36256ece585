"""Play a study that learns: the world moves, rounds are played, and what leaks is measured."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from fl.round.final import exploded, explosion_warning, learnt_map, scoring_warnings, surfaces, write_final
from fl.round.server import LearningServer
from fl.round.state import RoundState, begin
from netsim.record import write_json
from scenarios.app.results.folder import PLAN, SURFACES, read_table
from scenarios.app.results.summary import summarise
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.job import Job
from scenarios.app.run.play import Play, coverage, coverage_grid, delta_warnings, write_arrays, write_points
from scenarios.app.run.setup import ready
from scenarios.app.study import Fields, Record
from scenarios.app.study.study import Study


@dataclass(frozen=True)
class Planned:
    """A study with the powers and rounds of its plan written in, and what the plan says of them; empty without one."""

    study: Study
    said: Fields


@dataclass(frozen=True)
class LearningMemory:
    """What goes from one round to the next, rounds without an update, and the round in which a model exploded; 0: in
    none.
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
        if world.env.now < world.duration_s + 1.0:  # later than that in a run that goes on after its last round
            world.env.run(until=world.duration_s + 1.0)
        world.env.run(until=played)  # the last round may still be on the air

    def played(self, state: RoundState, figures: Fields) -> None:
        """A round was played, or passed by without figures; this is the state after it."""
        empty = self.now.empty + (not figures and not state.stopped)
        when = self.now.exploded
        if not when and exploded(state, figures):
            when = state.round if self.in_rounds else state.played
        self.now = LearningMemory(state, empty, when)
        over = self.in_rounds and (state.round >= self.rounds or state.stopped)  # without rounds others are under way
        marks = {} if self.in_rounds else {"merge": state.played}
        marks |= {"stopped": True} if state.stopped else {}
        values = {**marks, **_found(figures)}
        now_s = float(self.world.env.now)
        self.unseen.append(self.event(self._of(state), now_s, over or state.played == self.most, values))

    def rested(self, state: RoundState) -> None:
        """A run can go on from this state, at this time."""
        self.now = replace(self.now, state=state)
        self.rest()
        self._show()

    def _show(self) -> None:
        """Emit the events of what was played."""
        for event in self.unseen:
            self.watch(event)
            self.last = event
        self.unseen = []

    def _of(self, state: RoundState) -> int:
        """The last round, if those that are still to be played follow one another and the world lasts."""
        if self.most is None or not self.in_rounds:
            return self.rounds
        return min(self.rounds, state.round + max(self.most - state.played, 0))

    def finish(self, manifest: Fields) -> Fields:
        setup = self.setup
        last = self.now.state
        folder = self.job.folder
        self._show()
        if self.last.done and not self.last.last:  # windows passed by without a merge
            now_s = max(self.world.duration_s, self.last.values["time_s"])
            self.watch(replace(self.event(self.rounds, now_s, True, _found({})), done=self.rounds))
        spends, scored = (read_table(folder, table) for table in ("spends", "leakage"))
        uplink = read_table(folder, "updates" if setup.learning.threat.position_m is None else "eavesdropper")
        write_final(setup, last, self.world, spends)
        place_m = coverage_grid(self.world)
        learnt_dbm = learnt_map(setup, last, place_m)
        setup.recorder.write("coverage", coverage(self.world, self.study.world.radio.downlink, place_m, learnt_dbm))
        write_points(folder, last)
        if maps := surfaces(setup, last, self.world):
            write_arrays(folder / SURFACES, maps)
        bursts = [explosion_warning(setup.learning, self.now.exploded)] if self.now.exploded else []
        warnings = [*delta_warnings(setup, last), *manifest["warnings"], *scoring_warnings(setup, last, scored, uplink)]
        counted = {"empty_rounds": self.now.empty, "stopped_by_budget": last.stopped}
        return {**counted, "warnings": [*bursts, *warnings]}

    def summary(self) -> Fields:
        return summarise(self.job.folder, self.study)


def _found(figures: Record) -> Fields:
    """What a round found: the model's scores, its updates, leakage by attack, and epsilon where noise was drawn."""
    if not figures:
        return {"updates": 0, "decoded": 0}
    attacks = {
        name: {"centroid_error_m": error_m, "homes_named_percent": figures["homes_named_percent"][name]}
        for name, error_m in figures["leakage"].items()
    }
    spent = {} if figures["epsilon_max"] is None else {"epsilon": figures["epsilon_max"]}
    return {
        **figures["scores"], "updates": figures["sent"], "decoded": figures["decoded"], "attacks": attacks, **spent,
    }  # fmt: skip

"""Play a study that learns: the world moves, rounds are played, and what leaks is measured."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any

import simpy

from fl.round.asynchronous import AsynchronousServer
from fl.round.explosion import exploded, explosion_warning
from fl.round.round import Watcher, rounds
from fl.round.setup import Setup
from fl.round.state import RoundState, begin
from netsim.record import write_json
from netsim.tree import from_tree
from netsim.world import World
from scenarios.app.results.folder import PLAN
from scenarios.app.results.summary import summarise
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.job import Job
from scenarios.app.run.play import Play, within
from scenarios.app.run.records import delta_warnings, scoring_warnings, write_points, write_surfaces, write_whole_run
from scenarios.app.run.setup import ready
from scenarios.app.study.study import Study


@dataclass(frozen=True)
class Planned:
    """A study with the powers and rounds of its plan written in, and what the plan says of them; empty without one."""

    study: Study
    said: dict[str, Any]


def simulate(job: Job, study: Study, planned: Planned, watch: Watch) -> dict[str, Any]:
    """Play `planned.study` into the folder of the job, as `study` (with its plan); returns the summary."""
    return LearningPlay(job, study, planned, watch).play()


class LearningPlay(Play):
    """The rounds of a server, in turn or as updates come."""

    unit = "round"

    def __init__(self, job: Job, study: Study, planned: Planned, watch: Watch) -> None:
        began_s = time.perf_counter()
        world, self.setup = ready(planned.study, job.folder)
        super().__init__(job, study, world, self.setup.recorder, watch, began_s)
        self.planned = planned
        self.now = begin(self.setup, len(world.ues))
        self.empty, self.exploded = 0, 0
        """rounds without an update; the first after which a model exploded, 0: none"""
        self.unseen = list[Event]()
        self.rounds = world.clock.rounds(world.duration_s, self.setup.learning.round_s)
        self.most = self.setup.learning.rounds
        self.in_rounds = self.setup.learning.server.in_rounds
        self.ended, self.told_s, self.played_any = False, 0.0, False

    def state(self) -> dict[str, Any]:
        return {"state": self.now, "empty": self.empty, "exploded": self.exploded}

    def restored(self, tree: Any) -> dict[str, Any]:
        state, most = from_tree(tree["state"], self.now), self.rounds + 1
        within("round", state.round, most)
        within("played", state.played, self.most or inf)
        counted = {name: int(within(name, int(tree[name]), most)) for name in ("empty", "exploded")}
        return {"state": state, **counted}

    def resume(self, state: dict[str, Any]) -> int:
        self.now, self.empty, self.exploded = state["state"], state["empty"], state["exploded"]
        return self.now.round

    def manifest(self) -> dict[str, Any]:
        return {"models": list(self.setup.models), "empty_rounds": self.empty}

    def steps(self) -> None:
        if self.planned.said:
            write_json(self.job.folder / PLAN, self.planned.said)
        world = self.world
        played = world.env.process(_learning(world, self.setup, self.now, self))
        if world.env.now < world.duration_s + 1.0:  # later than that in a run that goes on after its last round
            world.env.run(until=world.duration_s + 1.0)
        world.env.run(until=played)  # the last round may still be on the air

    def played(self, state: RoundState, figures: dict[str, Any]) -> None:
        """A round was played, or passed by without figures; this is the state after it."""
        self.now, self.played_any = state, True
        self.empty += not figures and not state.stopped
        if not self.exploded and exploded(state, figures):
            self.exploded = state.round if self.in_rounds else state.played
        over = self.in_rounds and (state.round >= self.rounds or state.stopped)  # without rounds others are under way
        self._round(state.round, self._last(state), _found(figures), over or state.played == self.most)

    def rested(self, state: RoundState) -> None:
        """A run can go on from this state, at this time."""
        self.now = state
        self.rest()

    def _round(self, done: int, of: int, found: dict[str, Any], last: bool, now_s: float | None = None) -> None:
        now_s = float(self.world.env.now) if now_s is None else now_s
        marks = {} if self.in_rounds else {"merge": self.now.played}
        marks |= {"stopped": True} if self.now.stopped else {}
        self.unseen.append(self.event(done, of, now_s, last, {**marks, **found}))
        self.ended, self.told_s = self.ended or last, now_s

    def tell(self) -> None:
        """Emit what was played but the last round, which waits for the summary."""
        seen, self.unseen = self.unseen, [event for event in self.unseen if event.last]
        for event in seen:
            if not event.last:
                self.watch(event)

    def _last(self, state: RoundState) -> int:
        """The last round, if those that are still to be played follow one another and the world lasts; of windows of a
        server without rounds that in which the last merge will be made, by their pace so far.
        """
        if self.most is None:
            return self.rounds
        left = max(self.most - state.played, 0)
        return min(self.rounds, state.round + (left if self.in_rounds else ceil(left * state.round / state.played)))

    def finish(self, manifest: dict[str, Any]) -> dict[str, Any]:
        setup, last, folder = self.setup, self.now, self.job.folder
        write_whole_run(setup, last, self.world, self.study.world.radio.downlink)
        write_points(folder, last)
        write_surfaces(folder, setup, last, self.world)
        bursts = [explosion_warning(setup.learning, self.exploded)] if self.exploded else []  # no page leaves it out
        warnings = [*delta_warnings(setup, last), *manifest["warnings"], *scoring_warnings(setup, last)]
        counted = {"empty_rounds": self.empty, "stopped_by_budget": last.stopped}
        return {**counted, "warnings": [*bursts, *warnings]}

    def summary(self) -> dict[str, Any]:
        """The figures; the last round is told with their scores, or that windows passed by without one after it."""
        summary = summarise(self.job.folder, self.study)
        if self.played_any and not self.ended:  # the last round may have outlasted the world
            self._round(self.rounds, self.rounds, _found({}), True, max(self.world.duration_s, self.told_s))
        if self.unseen and self.unseen[-1].last:
            last = self.unseen[-1]
            scores = {k: value for k in last.values if (value := summary.get(f"utility.{k}")) is not None}
            self.unseen[-1] = replace(last, values={**last.values, **scores})
        return summary

    def play(self) -> dict[str, Any]:
        summary = super().play()
        for event in self.unseen:
            self.watch(event)
        return summary


def _found(figures: Mapping[str, Any]) -> dict[str, Any]:
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


def _learning(
    world: World, setup: Setup, start: RoundState, watcher: Watcher
) -> Generator[simpy.Event, None, None]:  # fmt: skip
    """The process of the server's policy."""
    if setup.learning.server.in_rounds:
        return rounds(world, setup, start, watcher)
    return AsynchronousServer(world, setup, start, watcher).serve()

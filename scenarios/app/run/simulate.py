"""Play a study: build the world, play the rounds, write the run folder; resume what was interrupted."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import simpy

from fl.leakage import leakage
from fl.leakage.tracking import belief_rows, compared
from fl.leakage.unicity import unicity
from fl.privacy.final import final_account
from fl.round import records
from fl.round.asynchronous import AsynchronousServer
from fl.round.learnt_map import learnt_map
from fl.round.round import Watcher, rounds
from fl.round.setup import Setup
from fl.round.state import RoundState, begin
from fl.tracking.belief import Belief
from fl.types import Facts
from netsim import __version__
from netsim.checkpoint import save_tree
from netsim.radio.downlink import Downlink
from netsim.record import write_json, write_text
from netsim.tree import from_tree, to_tree
from netsim.world import World
from scenarios.app.results.folder import (
    CHECKPOINT,
    ERROR,
    MANIFEST,
    PLAN,
    STUDY,
    SUMMARY,
    admit,
    clear,
    read_json,
    read_table,
)
from scenarios.app.results.marker import held
from scenarios.app.results.summary import summarise
from scenarios.app.run.artifacts import write_points, write_surfaces
from scenarios.app.run.checkpoints import Progress, Watch, cut_tables, damaged, open_tables, unfinished
from scenarios.app.run.coverage import coverage, coverage_grid
from scenarios.app.run.inputs import admit_inputs, input_digests, same_inputs
from scenarios.app.run.manifest import manifest_of
from scenarios.app.run.setup import ready
from scenarios.app.run.tracks import follow_ues, write_tracks
from scenarios.app.run.world_map import write_map
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.study import Study

CHECKPOINT_EVERY_S = 10.0  # of wall time, or twenty times as long as the last one took to write
CHECKPOINT_SHORT_S = CHECKPOINT_EVERY_S / 20  # when it is written changes no result


@dataclass(frozen=True)
class Planned:
    """A study with the powers and rounds of its plan written in, and what the plan says of them; empty without one."""

    study: Study
    said: dict[str, Any]


def simulate(
    study: Study, out: str | Path, watch: Watch | None, command: str, replace: bool, planned: Planned
) -> dict[str, Any]:
    """Play `planned.study` into the folder `out`, as `study` (with its plan); returns the summary. On one thread."""
    began = time.perf_counter()
    folder = Path(out)
    world, setup = ready(planned.study, folder)  # before anything is written: files may be refused,
    first = begin(setup, len(world.ues))  # and data
    text = study_yaml(study)
    files = input_digests(study)

    def admitted() -> None:
        admit(folder, text, replace)
        admit_inputs(folder, files, replace)

    with held(folder, "run", admitted):
        tree = unfinished(setup.recorder, text, replace) if same_inputs(folder, files) else None
        if tree is None:
            clear(folder)
        write_text(folder / STUDY, text)
        if planned.said:
            write_json(folder / PLAN, planned.said)
        _run(study, world, setup, first, tree, watch, command, began)
    return read_json(folder / SUMMARY)


def _run(
    study: Study,
    world: World,
    setup: Setup,
    first: RoundState,
    tree: Any,
    watch: Watch | None,
    command: str,
    began: float,
) -> None:
    """Everything that writes into the folder; `tree`: the checkpoint to go on from, or None."""
    folder, text = setup.recorder.folder, study_yaml(study)
    tracks = follow_ues(world)
    start, empty = _open(setup, world, first, tree)
    manifest = manifest_of(study, world, setup.models, command) | {"tracks": tracks}
    write_json(folder / MANIFEST, {**manifest, "finished": False, "empty_rounds": empty})
    keeper = _Keeper(folder, world, setup, watch, empty, text)
    played = world.env.process(_learning(world, setup, start, keeper))
    try:
        if world.env.now < world.duration_s + 1.0:  # later than that in a run that goes on after its last round
            world.env.run(until=world.duration_s + 1.0)
        world.env.run(until=played)  # the last round may still be on the air
        keeper.finish()
    except (KeyboardInterrupt, SystemExit):  # the latter where a batch system takes the machine away
        keeper.save()
        raise
    last = keeper.state or start
    write_tracks(setup.recorder, world)
    _whole_run(setup, last, world, study.world.radio.downlink)
    write_points(folder, last)
    write_map(folder, world, study.world.city)
    write_surfaces(folder, setup, last, world)
    timing = {"wall_s": time.perf_counter() - began, "resumed_from_round": start.round or None}
    write_json(
        folder / MANIFEST,
        {
            **manifest,
            "finished": True,
            "empty_rounds": keeper.empty,
            "stopped_by_budget": last.stopped,
            "timing": timing,
        },
    )
    write_json(folder / SUMMARY, summarise(folder, study))
    for name in (CHECKPOINT, ERROR):  # what an attempt left that failed
        (folder / name).unlink(missing_ok=True)


def _learning(
    world: World, setup: Setup, start: RoundState, watcher: Watcher
) -> Generator[simpy.Event, None, None]:  # fmt: skip
    """The process of the server's policy."""
    if setup.learning.server.in_rounds:
        return rounds(world, setup, start, watcher)
    return AsynchronousServer(world, setup, start, watcher).serve()


@contextmanager
def one_thread() -> Generator[None, None, None]:
    """Linear algebra on one thread: sums keep their order, results their bits."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


class _Keeper:
    """After each round: remembers the state, shows progress, writes a checkpoint now and then."""

    def __init__(self, folder: Path, world: World, setup: Setup, watch: Watch | None, empty: int, text: str) -> None:
        self.folder, self.world, self.setup, self.watch, self.empty = folder, world, setup, watch, empty
        self.text = text
        self.state: RoundState | None = None
        self.kept: dict[str, Any] | None = None
        self.saved, self.every_s = time.perf_counter(), CHECKPOINT_EVERY_S
        self.unseen = list[Progress]()
        self.rounds = world.clock.rounds(world.duration_s, setup.learning.round_s)
        self.most = setup.learning.rounds
        self.in_rounds = setup.learning.server.in_rounds
        self.ended = False

    def played(self, state: RoundState, figures: dict[str, Any]) -> None:
        self.state = state
        self.empty += not figures and not state.stopped
        over = self.in_rounds and (state.round >= self.rounds or state.stopped)  # without rounds others are under way
        self._tell(state, self._last(state), figures, over or state.played == self.most, float(self.world.env.now))

    def finish(self) -> None:
        """Tell that no more follows, where nobody knew it when the last round was told."""
        if self.state is not None and not self.ended:
            self._tell(self.state, self.state.round, {}, last=True, now_s=self.world.duration_s)
            self._show()

    def rested(self, state: RoundState) -> None:
        self.state = state
        write_tracks(self.setup.recorder, self.world)
        self.setup.recorder.write("handovers", records.handover_rows(self.world))  # of a round that left no rows
        self.kept = self._snapshot(state)
        self._show()
        if time.perf_counter() - self.saved >= self.every_s:
            self.save()

    def _tell(self, state: RoundState, rounds: int, figures: dict[str, Any], last: bool, now_s: float) -> None:
        text, merge = self.world.clock.text(now_s), None if self.in_rounds else state.played
        self.unseen.append(Progress(state.round, rounds, now_s, text, figures, last, merge=merge))
        self.ended |= last

    def _show(self) -> None:
        seen, self.unseen = self.unseen, []
        for progress in seen if self.watch is not None else []:
            self.watch(progress)  # type: ignore[misc]

    def _last(self, state: RoundState) -> int:
        """The last round, if those that are still to be played follow one another and the world lasts; of windows of a
        server without rounds that in which the last merge will be made, by their pace so far.
        """
        if self.most is None:
            return self.rounds
        left = max(self.most - state.played, 0)
        return min(self.rounds, state.round + (left if self.in_rounds else ceil(left * state.round / state.played)))

    def save(self) -> None:
        """Write the state after the last whole round, if there was one."""
        began = time.perf_counter()
        if self.kept is not None:
            save_tree(self.folder / CHECKPOINT, {name: to_tree(value) for name, value in self.kept.items()})
        self.saved = time.perf_counter()
        self.every_s = CHECKPOINT_EVERY_S * max(1.0, (self.saved - began) / CHECKPOINT_SHORT_S)

    def _snapshot(self, state: RoundState) -> dict[str, Any]:
        """Everything a resumed run needs; states are values, so this only points at them."""
        return {
            "study": self.text,
            "program": __version__,
            "time_s": float(self.world.env.now),
            "world": self.world.memory(),
            "state": state,
            "tables": self.setup.recorder.marks(),
            "empty": self.empty,
        }


def _open(setup: Setup, world: World, first: RoundState, tree: Any) -> tuple[RoundState, int]:
    """The first state for a new run, or the one to go on from; tables created, or cut back to it."""
    if tree is None:
        open_tables(setup.recorder, world)
        return first, 0
    try:
        world.resume(from_tree(tree["world"], world.memory()), float(tree["time_s"]))
        resumed, empty = from_tree(tree["state"], first), int(tree["empty"])
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise damaged(setup.recorder, error) from None
    cut_tables(setup.recorder)
    return resumed, empty


def _whole_run(setup: Setup, state: RoundState, world: World, downlink: Downlink) -> None:
    """Tables that are computed once, at the end: exact Wasserstein distances, distances between UEs, privacy, maps."""
    scores = records.last_utility(setup.learning, state, world) | records.references(setup, state)
    setup.recorder.write("final", {"name": list(scores), "value": list(scores.values())})
    spends = read_table(setup.recorder.folder, "spends")
    for row in final_account(spends):
        setup.recorder.row("privacy", **row)
    for (ue, model, attack), distances in leakage.exact(state.leakage).items():
        setup.recorder.row("wasserstein", ue=ue, model=model, attack=attack, **distances)
    how = setup.learning.leakage
    for row in leakage.named_at_end(how, state.leakage, world.area, world.places):
        setup.recorder.row("named", **row)
    for label, belief in _in_hindsight(setup, state, world):
        tracked = compared(belief, state.whereabouts.at(belief.round), None, how.near_m, hindsight=True)
        cells = belief_rows(belief, how.belief_ues, hindsight=True)
        records.write_tracked(setup.recorder, {label: tracked}, {label: cells})
    for row in unicity(state.whereabouts, setup.streams.at("unicity")) if setup.learning.threat.renames else ():
        setup.recorder.row("unicity", **row)
    for ue, other, sw1_m in leakage.pairs(state.leakage, how.directions):
        setup.recorder.row("user_distances", ue=ue, other=other, sw1_m=sw1_m, sqrt_sw1=float(np.sqrt(sw1_m)))
    place_m = coverage_grid(world)
    setup.recorder.write("coverage", coverage(world, downlink, place_m, learnt_map(setup, state, place_m)))


def _in_hindsight(setup: Setup, state: RoundState, world: World) -> Iterator[tuple[str, Belief]]:
    """What attacks believe of each round, now that they know all of them; by attack."""
    facts = Facts(
        state.round, float(world.env.now), setup.public, round_s=setup.learning.round_s,
        week_s=world.clock.week_s(float(world.env.now)),
    )  # fmt: skip
    for attack in setup.learning.attacks:
        for belief in attack.hindsight(state.parts.attacks[attack.label], facts):
            yield attack.label, state.parts.names.of_ues(belief)

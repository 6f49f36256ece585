"""Play a study: build the world, play the rounds, write the run folder; resume what was interrupted."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from pathlib import Path
from typing import Any

import simpy

from fl.round import records
from fl.round.asynchronous import AsynchronousServer
from fl.round.explosion import exploded, explosion_warning
from fl.round.round import Watcher, rounds
from fl.round.setup import Setup
from fl.round.state import RoundState, begin
from fl.round.tables import TABLES
from netsim import __version__
from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from netsim.record import write_json, write_text
from netsim.tree import from_tree, to_tree
from netsim.world import World, WorldMemory
from scenarios.app.results.folder import (
    CHECKPOINT,
    MANIFEST,
    PLAN,
    STUDY,
    SUMMARY,
    admit,
    clear,
    read_json,
    settle,
)
from scenarios.app.results.marker import held
from scenarios.app.results.summary import summarise
from scenarios.app.run.artifacts import write_points, write_surfaces
from scenarios.app.run.checkpoints import (
    UNFIT,
    Progress,
    Watch,
    cut_tables,
    open_tables,
    played_anew,
    unfinished,
    unplayable,
    with_scores,
    within,
)
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.inputs import admit_inputs, input_digests, same_inputs
from scenarios.app.run.manifest import manifest_of
from scenarios.app.run.memory import peak_gb
from scenarios.app.run.scored import delta_warnings, scoring_warnings
from scenarios.app.run.setup import ready
from scenarios.app.run.tracks import follow_ues, write_tracks
from scenarios.app.run.whole_run import write_whole_run
from scenarios.app.run.world_map import write_map
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.study import Study

CHECKPOINT_EVERY_S = 10.0  # of wall time, or twenty times as long as the last one took to write
_MOST_LONGER = 100.0  # times its duration that a world may go on for, until its last round is off the air
CHECKPOINT_SHORT_S = CHECKPOINT_EVERY_S / 20  # when it is written changes no result


@dataclass(frozen=True)
class Planned:
    """A study with the powers and rounds of its plan written in, and what the plan says of them; empty without one."""

    study: Study
    said: dict[str, Any]


@dataclass(frozen=True)
class _Going:
    """What a run goes on from: the world and its time, the state after the last round, how many were empty, the one in
    which a model exploded (0: none), and the marks of the tables.
    """

    world: WorldMemory
    time_s: float
    state: RoundState
    empty: int
    exploded: int
    tables: Any


def simulate(
    study: Study,
    out: str | Path,
    watch: Watch | None,
    command: str,
    replace: bool,
    planned: Planned,
    how: How = USUAL,
) -> dict[str, Any]:
    """Play `planned.study` into the folder `out`, as `study` (with its plan); returns the summary. On one thread."""
    folder = Path(out)
    return played_anew(lambda: _simulate(study, folder, watch, command, replace, planned, how), folder, replace)


def _simulate(
    study: Study, folder: Path, watch: Watch | None, command: str, replace: bool, planned: Planned, how: How
) -> dict[str, Any]:
    began = time.perf_counter()
    world, setup = ready(planned.study, folder)  # before anything is written: files may be refused,
    first = begin(setup, len(world.ues))  # and data
    text = study_yaml(study)
    files = input_digests(study)
    tracks = follow_ues(world)

    def admitted() -> None:
        admit(folder, text, replace)
        admit_inputs(folder, files, replace)

    with held(folder, "run", admitted):
        restore = partial(_restored, world, setup, first)
        going = unfinished(setup.recorder, text, replace, restore) if same_inputs(folder, files) else None
        if going is None:
            clear(folder)
        write_text(folder / STUDY, text)
        if planned.said:
            write_json(folder / PLAN, planned.said)
        _run(study, world, setup, first, going, tracks, watch, command, began, how)
    return read_json(folder / SUMMARY)


def _run(
    study: Study,
    world: World,
    setup: Setup,
    first: RoundState,
    going: _Going | None,
    tracks: dict[str, Any],
    watch: Watch | None,
    command: str,
    began: float,
    how: How,
) -> None:
    """Everything that writes into the folder; `going`: what the run goes on from, or None."""
    folder, text = setup.recorder.folder, study_yaml(study)
    start, empty, burst = _open(setup, world, first, going)
    manifest = manifest_of(study, world, setup.models, command) | {"tracks": tracks}
    if going is None:
        write_json(folder / MANIFEST, {**manifest, "finished": False, "empty_rounds": empty})
    keeper = _Keeper(folder, world, setup, watch, empty, burst, text)
    try:
        played = world.env.process(_learning(world, setup, start, keeper))
        if world.env.now < world.duration_s + 1.0:  # later than that in a run that goes on after its last round
            world.env.run(until=world.duration_s + 1.0)
        world.env.run(until=played)  # the last round may still be on the air
        summary = _finish(study, world, setup, keeper, start, manifest, how, began)
    except (KeyboardInterrupt, SystemExit):  # the latter where a batch system takes the machine away
        keeper.save()
        raise
    except UNFIT as error:
        if going is None or isinstance(error, BadInput):
            raise
        raise unplayable(setup.recorder, None if keeper.wrote else going.tables, error) from error
    keeper.finish(summary)


def _finish(
    study: Study,
    world: World,
    setup: Setup,
    keeper: _Keeper,
    start: RoundState,
    manifest: dict[str, Any],
    how: How,
    began: float,
) -> dict[str, Any]:
    """Write what is known at the end; returns the summary."""
    folder, last = setup.recorder.folder, keeper.state or start
    write_tracks(setup.recorder, world)
    write_whole_run(setup, last, world, study.world.radio.downlink)
    write_points(folder, last)
    write_map(folder, world, study.world.city)
    write_surfaces(folder, setup, last, world)
    how.keep(folder, TABLES)
    manifest["warnings"] = [*delta_warnings(setup, last), *manifest["warnings"], *scoring_warnings(setup, last)]
    if keeper.exploded:  # first, so that no page leaves it out
        manifest["warnings"] = [explosion_warning(setup.learning, keeper.exploded), *manifest["warnings"]]
    timing = {
        "wall_s": time.perf_counter() - began,
        "peak_memory_gb": peak_gb(),
        "resumed_from_round": start.round or None,
    }
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
    summary = summarise(folder, study)
    write_json(folder / SUMMARY, summary)
    settle(folder)
    return summary


def _learning(
    world: World, setup: Setup, start: RoundState, watcher: Watcher
) -> Generator[simpy.Event, None, None]:  # fmt: skip
    """The process of the server's policy."""
    if setup.learning.server.in_rounds:
        return rounds(world, setup, start, watcher)
    return AsynchronousServer(world, setup, start, watcher).serve()


class _Keeper:
    """After each round: remembers the state, shows progress, writes a checkpoint now and then."""

    def __init__(
        self, folder: Path, world: World, setup: Setup, watch: Watch | None, empty: int, exploded: int, text: str
    ) -> None:
        self.folder, self.world, self.setup, self.watch, self.empty = folder, world, setup, watch, empty
        self.exploded, self.text = exploded, text
        self.state: RoundState | None = None
        self.kept: dict[str, Any] | None = None
        self.saved, self.every_s = time.perf_counter(), CHECKPOINT_EVERY_S
        self.unseen = list[Progress]()
        self.rounds = world.clock.rounds(world.duration_s, setup.learning.round_s)
        self.most = setup.learning.rounds
        self.in_rounds = setup.learning.server.in_rounds
        self.ended, self.told_s, self.wrote = False, 0.0, False

    def played(self, state: RoundState, figures: dict[str, Any]) -> None:
        self.state = state
        self.empty += not figures and not state.stopped
        if not self.exploded and exploded(state, figures):
            self.exploded = state.round if self.in_rounds else state.played
        over = self.in_rounds and (state.round >= self.rounds or state.stopped)  # without rounds others are under way
        self._tell(state, self._last(state), figures, over or state.played == self.most, float(self.world.env.now))

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Tell the last round, with the scores of the summary; or that the windows after it passed by without one."""
        if self.state is not None and not self.ended:
            now_s = max(self.world.duration_s, self.told_s)  # the last round may have outlasted the world
            self._tell(replace(self.state, round=self.rounds), self.rounds, {}, last=True, now_s=now_s)
        if self.unseen and self.unseen[-1].last:
            self.unseen[-1] = with_scores(self.unseen[-1], summary)
        self._show(last=True)

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
        self.unseen.append(
            Progress(state.round, rounds, now_s, text, figures, last, merge=merge, stopped=state.stopped)
        )
        self.ended, self.told_s = self.ended or last, now_s

    def _show(self, last: bool = False) -> None:
        """Tell what was played; the last round waits for the summary."""
        seen, self.unseen = self.unseen, [] if last else [progress for progress in self.unseen if progress.last]
        for progress in seen if self.watch is not None else []:
            if last or not progress.last:
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
            self.wrote = True
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
            "exploded": self.exploded,
        }


def _open(setup: Setup, world: World, first: RoundState, going: _Going | None) -> tuple[RoundState, int, int]:
    """The first state for a new run, or the one to go on from; tables created, or cut back to it."""
    if going is None:
        open_tables(setup.recorder, world)
        return first, 0, 0
    world.resume(going.world, going.time_s)
    cut_tables(setup.recorder)
    return going.state, going.empty, going.exploded


def _restored(world: World, setup: Setup, first: RoundState, tree: Any) -> _Going:
    """What the tree of a checkpoint says. Raises one of UNFIT where it does not fit this study."""
    time_s = float(tree["time_s"])
    memory, state = from_tree(tree["world"], world.memory()), from_tree(tree["state"], first)
    rounds = world.clock.rounds(world.duration_s, setup.learning.round_s) + 1
    within("time_s", time_s, _MOST_LONGER * world.duration_s)
    within("round", state.round, rounds)
    within("played", state.played, setup.learning.rounds or inf)
    empty, exploded = (int(within(name, int(tree[name]), rounds)) for name in ("empty", "exploded"))
    return _Going(memory, time_s, state, empty, exploded, tree["tables"])

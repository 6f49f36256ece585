"""An audit: a study played again without a UE, or with other updates of it, and compared before all noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fl.audit.neighbours import RELATIONS, compared, ledger_rows, moved_public
from fl.audit.noise import NoiseLog, row_of
from fl.audit.recording import Change, Recording
from fl.references import References
from fl.round.caveats import disclosed
from fl.round.server import LearningServer
from fl.round.setup import Setup
from fl.round.state import RoundState, begin
from fl.round.tables import TABLES
from fl.types import LOCATION
from netsim.build import build_world
from netsim.checkpoint import from_tree, to_tree
from netsim.compiled import cache_folder
from netsim.errors import BadInput
from netsim.record import Recorder, Row
from netsim.rng import Streams
from netsim.units import IntArray
from netsim.world import World
from scenarios.app.results.folder import read_table
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.how import one_thread, scratch
from scenarios.app.run.runner import planned
from scenarios.app.run.setup import ready
from scenarios.app.study import Fields
from scenarios.app.study.study import Study

ALL = 12  # UEs of which each is removed; of more the extremes, and as many as this at random:
DRAWN = 10


def audited(study: Study) -> Study:
    """A study without attacks and references, which change nothing that is sent.

    Raises BadInput: nothing in it has an epsilon.
    """
    learning = study.learned
    if not any("spend" in defense.offers for defense in learning.defenses):
        raise BadInput(
            "learning.defenses: nothing draws noise that has an epsilon, so there is nothing to audit; put a clip and "
            "a gaussian there, say, or audit another study"
        )
    none = References(neighbours=None, path_loss=False, kriging_samples=0, central=False)
    leakage = learning.leakage.model_copy(update={"every_rounds": 1_000_000})
    changes: Fields = {"attacks": (), "membership": None, "references": none, "leakage": leakage}
    return study.model_copy(update={"plan": study.plan, "learning": learning.model_copy(update=changes)})


class _Stop(Exception):
    """A play is interrupted between two rounds."""


@dataclass(eq=False)
class Player:
    """Plays a study again and again, with one setup; nothing is written but into a folder that goes away."""

    study: Study
    setup: Setup
    folder: Path
    watch: Callable[[], None]
    recording: Recording
    stop: int = 0

    def play(self, recording: Recording, silent: Sequence[int] = (), stop: int = 0) -> Recording:
        """Play a recording. silent : UEs that measure nothing; stop : round after which it is interrupted, and goes on
        from what was written down.
        """
        self.recording, self.stop = recording, stop
        world = self._world()
        world.silent = np.isin(np.arange(len(world.ues)), silent)
        try:
            self._serve(world, begin(self.setup, len(world.ues)))
        except _Stop as stopped:
            memory, time_s, state = stopped.args
            world, self.stop = self._world(), 0
            world.resume(from_tree(memory, world.memory()), time_s)
            self._serve(world, from_tree(state, begin(self.setup, len(world.ues))))
        self.watch()
        return recording

    def _world(self) -> World:
        return build_world(self.study.world, Streams(self.study.seed), self.study.round_s)

    def _serve(self, world: World, state: RoundState) -> None:
        recorder = Recorder(self.folder, TABLES)
        recorder.open()
        server = LearningServer(world, replace(self.setup, probe=self.recording, recorder=recorder), state)
        self.world = world
        played = world.env.process(server.serve(self))
        if world.env.now < world.duration_s + 1.0:
            world.env.run(until=world.duration_s + 1.0)
        world.env.run(until=played)

    def played(self, state: RoundState, figures: Row) -> None:
        """A round was played."""
        self.recording.ended_s[state.played] = state.ended_s

    def rested(self, state: RoundState) -> None:
        """A play can go on from here."""
        if self.stop and state.played >= self.stop:
            raise _Stop(to_tree(self.world.memory()), float(self.world.env.now), to_tree(state))


def chosen(folder: Path, world: World, most: int | None, seed: int) -> IntArray:
    """UEs to audit, of the updates of a run: all if they are few, else those with most data, farthest from the middle,
    slowest, first and last to send, and ten at random.
    """
    rows = read_table(folder, "updates")
    ue = rows["ue"].astype(np.int64)
    sent = np.unique(ue)
    if len(sent) <= (ALL if most is None else min(most, ALL)):
        return sent

    def extreme(values: np.ndarray) -> int:
        return int(ue[np.argmax(np.nan_to_num(values, nan=-np.inf))])

    away_m = np.linalg.norm(np.column_stack([rows["x_m"], rows["y_m"]]) - world.area.centre_m, axis=1)
    data = np.bincount(ue, rows["selected"])[ue]
    extremes = [extreme(of) for of in (data, away_m, rows["time_s"] % 1e9, -rows["round"], rows["round"])]
    others = np.setdiff1d(sent, extremes)
    lot = Streams(seed).at("audit").uniform("ue", others)
    picked = [*dict.fromkeys(extremes), *others[np.argsort(lot)][:DRAWN].tolist()]
    return np.array(picked[:most])


def audit(study: Study, folder: Path, most: int | None, watch: Watch) -> list[Row]:
    """Rows of the table `audit` of a study, whose run lies in the folder: neighbours, ledger and noise.

    most : UEs to audit at most. Raises BadInput where nobody sends, or nothing was drawn.
    """
    with one_thread(), scratch("audit-") as place:
        study = planned(audited(study), cache_folder()).study
        world, setup = ready(study, place)
        said = (*disclosed(setup.learning, study.world, world), *world.warnings)
        ues = chosen(folder, world, most, study.seed)
        spends, privacy = read_table(folder, "spends"), _rows_of(read_table(folder, "privacy"))
        units = {str(row["unit"]) for row in privacy} - {LOCATION}
        if not len(ues) or not units:
            raise BadInput("audit: no update was sent with noise that has an epsilon; let the world last longer")
        relations = {str(row["relation"]) for row in privacy}
        changes: list[Change] = [pair for pair, relation in RELATIONS.items() if relation in relations]
        changes = ["record"] if "user" not in units else [*changes, "plus", "minus"]
        if "replace" not in relations and "minus" in changes:
            changes.remove("minus")
        of, done = len(ues) * (1 + len(changes)) + 2, 0

        def tell() -> None:
            nonlocal done
            done += 1
            watch(Event("played", done, of, done == of, {"label": "of the audit"}))

        rows, values = list[Row](), _public_values(world, setup)
        for ue in ues.tolist():
            rows += _without(study, place, world.ues[ue], values, said)
            tell()

        def recording(audited: IntArray, **more: Any) -> Recording:
            return Recording(setup.learning, audited, Streams(study.seed), world.area.centre_m, **more)

        base, resumed = (recording(ues, log=NoiseLog()) for _ in range(2))
        player = Player(study, setup, place, tell, base)
        player.play(base)
        player.play(resumed, stop=max(len(base.ended_s) // 2, 1))
        for ue in ues.tolist():
            others = {}
            for change in changes:
                own = recording(np.array([ue]), change=change, base=base)
                others[change] = player.play(own, [ue] if change == "removed" else [])
            for one, other, pair in _pairs(base, others):
                moved, found = compared(one, other, pair, ue, world.ues[ue], said)
                rows += [*moved, *ledger_rows(found, pair, ue, world.ues[ue], privacy)]
        return rows + _of_noise(base, resumed, world.ues)


def _of_noise(base: Recording, resumed: Recording, names: tuple[str, ...]) -> list[Row]:
    """Rows on the noise of a play, and of one that was interrupted and went on."""
    if base.log is None or resumed.log is None:
        return []
    views = {draw.spend.mechanism: draw.view for draw in base.draws}
    ours, theirs = base.log.heads(), resumed.log.heads()
    differ = sum(ours.get(key) != theirs.get(key) for key in ours.keys() | theirs.keys())
    resumption = row_of(
        mechanism="all", half="noise", quantity="coins after a resume", moved=float(differ), sensitivity=0.0,
        verdict="violated" if differ else "within",
    )  # fmt: skip
    return [*base.log.findings(views, names), resumption]


def _pairs(base: Recording, others: dict[Change, Recording]) -> Iterator[tuple[Recording, Recording, str]]:
    """Pairs of plays, and the kind of each: with a UE's own updates, and with long ones in their place."""
    for change, other in others.items():
        if change in RELATIONS:
            yield base, other, change
        if change in ("removed", "zeroed") and "plus" in others:
            yield others["plus"], other, change
    if "record" in others:
        yield base, others["record"], "replaced"
    if "minus" in others:
        yield others["plus"], others["minus"], "replaced"


def _public_values(world: World, setup: Setup) -> Fields:
    """What everybody is told before the first round, as plain data."""
    public, clock, trace = setup.public, world.clock, world.trace
    dataset = public.dataset
    model = setup.learning.learner.init(public, setup.streams.at("learner.init"))
    presence = None if trace is None else world.mobility.presence(trace)
    return {
        "users": world.ues,
        "area": (*world.area.low_m.tolist(), *world.area.high_m.tolist()),
        "origin": public.origin_deg,
        "first day": str(clock.first_day),
        "windows": clock.rounds(world.duration_s, setup.learning.round_s),
        "cells": world.cells,
        "models": (setup.models, setup.model_of_cell.tolist()),
        "days": setup.days.tolist(),
        "statistics": None if dataset is None else (dataset.mean_m.tolist(), dataset.std_m.tolist()),
        "places": None if public.sampled_m is None else public.sampled_m.tolist(),
        "presence": None if presence is None else presence.absent_after_s,
        "constants": {key: value.tolist() for key, value in model.constants.items()},
    }


def _without(study: Study, place: Path, name: str, values: Fields, said: Sequence[str]) -> Iterator[Row]:
    """Rows on public values that move where a UE is left out before anything is derived from data."""
    ues = study.world.ues.model_copy(update={"without": (*study.world.ues.without, name)})
    other = study.model_copy(update={"world": study.world.model_copy(update={"ues": ues})})
    world, setup = ready(other, place)
    for quantity, value in _public_values(world, setup).items():
        if value != values[quantity]:
            yield moved_public(quantity, _away(value, values[quantity]), said, pair="removed", ue=name)


def _away(one: object, other: object) -> float:
    """Largest difference of two values of numbers; 1 of others."""
    try:
        return float(np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float)).max())
    except (TypeError, ValueError):
        return 1.0


def _rows_of(table: dict[str, np.ndarray]) -> list[Row]:
    return [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]

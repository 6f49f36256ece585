"""An audit: a study played again without a UE, or with other updates of it, and compared before all noise."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from fl.audit import PAIRS, Recording, compared, of_noise, row_of
from fl.privacy.ledger import Ledger
from fl.references import References
from fl.round.caveats import disclosed
from fl.round.server import LearningServer
from fl.round.setup import Setup
from fl.round.state import RoundState, begin
from fl.round.tables import TABLES
from fl.types import LOCATION
from netsim.build import build_world
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

DRAWN = 10  # UEs at random, beside the extremes, of more than
ALL = 12


def audited(study: Study) -> Study:
    """A study without attacks and references, which change nothing that is sent.

    Raises BadInput: nothing in it has an epsilon.
    """
    learning = study.learned
    if not any("spend" in defense.offers for defense in learning.defenses):
        raise BadInput(
            "learning.defenses: nothing draws noise that has an epsilon, so there is nothing to audit; put a clip and a "
            "gaussian there, say"
        )
    none = References(neighbours=None, path_loss=False, kriging_samples=0, central=False)
    rare = learning.leakage.model_copy(update={"every_rounds": 1_000_000})
    changes = {"attacks": (), "membership": None, "references": none, "leakage": rare}
    return study.model_copy(update={"learning": learning.model_copy(update=changes)})


class _Player:
    """Plays a study with one setup, again and again; its tables go away. ends : of rounds, so far; ledger : at the end."""

    def __init__(self, study: Study, setup: Setup) -> None:
        self.study, self.setup, self.ends = study, setup, dict[int, float]()
        self.ledger = Ledger.empty(0)

    def play(self, recording: Recording, silent: IntArray) -> Recording:
        """The recording of a play in which some UEs measure nothing."""
        world = build_world(self.study.world, Streams(self.study.seed), self.study.round_s)
        world.silent = np.isin(np.arange(len(world.ues)), silent)
        self.ends = {}
        self.setup.recorder.open()
        state = begin(self.setup, len(world.ues))
        server = LearningServer(world, replace(self.setup, probe=recording), state)
        played = world.env.process(server.serve(self))
        world.env.run(until=world.duration_s + 1.0)
        world.env.run(until=played)
        ends = np.array([*self.ends.items()]).reshape(-1)
        recording.public["which windows are played", 0, ""] = np.full(len(ends), -1), ends
        return recording

    def played(self, state: RoundState, figures: Row) -> None:
        """A round was played."""
        self.ends[state.round], self.ledger = state.ended_s, state.ledger

    def rested(self, state: RoundState) -> None:
        """A play could go on from here."""


def chosen(folder: Path, world: World, most: int | None, seed: int) -> IntArray:
    """UEs to audit, of the updates of a run: all if they are few, else those with most data, farthest from the middle,
    slowest, first and last to send, and ten at random.
    """
    rows = read_table(folder, "updates")
    ue = rows["ue"].astype(np.int64)
    away_m = np.hypot(*(np.column_stack([rows["x_m"], rows["y_m"]]) - world.area.centre_m).T)
    measures = (rows["selected"], away_m, rows["time_s"] - 1e6 * rows["round"], -rows["round"], rows["round"])
    extremes = [int(ue[np.argmax(np.nan_to_num(of, nan=-np.inf))]) for of in measures if len(ue)]
    others = np.setdiff1d(ue, extremes)
    lot = np.argsort(Streams(seed).at("audit").uniform("ue", others))
    few = len(np.unique(ue)) <= ALL
    return np.array([*dict.fromkeys(extremes), *others[lot][: None if few else DRAWN]], dtype=np.int64)[:most]


def audit(study: Study, folder: Path, most: int | None, watch: Watch) -> Iterator[Row]:
    """Rows of the table `audit` of a study, whose run lies in the folder: neighbours, ledger and noise.

    most : UEs to audit at most. Raises BadInput where nothing was drawn.
    """
    with one_thread(), scratch("audit-") as place:
        study = planned(audited(study), cache_folder()).study
        world, setup = ready(study, place)
        said = (*disclosed(setup.learning, study.world, world), *world.warnings)
        ues, streams = chosen(folder, world, most, study.seed), Streams(study.seed)
        player = _Player(study, replace(setup, recorder=Recorder(place, TABLES)))
        base = player.play(Recording(setup.learning, ues, streams), ues[:0])
        statements = [of for of in player.ledger.statements() if of.unit != LOCATION]
        if not len(ues) or not base.draws:
            raise BadInput("audit: no update was sent with noise that has an epsilon; let the world last longer")
        relations = {of.relation for of in statements}
        pairs = [pair for pair, relation in PAIRS.items() if relation in relations]
        changes = [*pairs, "plus", "minus"] if any(of.unit == "user" for of in statements) else ["record"]
        told = _told(world, setup)
        for k, ue in enumerate(ues.tolist(), 1):
            name = world.ues[ue]
            for value, content in _told(*ready(_without(study, name), place)).items():
                if content != told[value]:
                    stated = any(value in line and "no epsilon" in line for line in said)
                    more = {"moved": 1.0, "sensitivity": 0.0, "verdict": "caveat" if stated else "violated"}
                    yield row_of(mechanism=value, view="server", quantity="value", pair="removed", ue=name, **more)
            plays = {
                change: player.play(
                    Recording(setup.learning, ues[k - 1 : k], streams, change, base),
                    ues[k - 1 : k * (change == "removed")],
                )
                for change in changes
            }
            ends = [(base, plays[pair], pair) for pair in pairs if pair in plays]
            ends += [(plays["plus"], plays[pair], pair) for pair in pairs if pair in plays and pair != "replaced"]
            ends += [(plays["plus"], plays["minus"], "replaced")] if "replace" in relations and "minus" in plays else []
            ends += [(base, plays["record"], "replaced")] if "record" in plays else []
            for one, other, pair in ends:
                yield from (
                    {**row, "pair": pair, "ue": name} for row in compared(one, other, pair, ue, said, statements)
                )
            watch(Event("played", k, len(ues), k == len(ues), {"label": name}))
        yield from of_noise(base)


def _without(study: Study, name: str) -> Study:
    """The study without what a UE measures."""
    ues = study.world.ues.model_copy(update={"without": (*study.world.ues.without, name)})
    return study.model_copy(update={"world": study.world.model_copy(update={"ues": ues})})


def _told(world: World, setup: Setup) -> Fields:
    """What everybody is told before the first round, by the words of warnings, in bytes."""
    public, clock, trace = setup.public, world.clock, world.trace
    presence = None if trace is None else world.mobility.presence(trace)
    values = {
        "user": world.ues,
        "the area": public.area,
        "the middle of the plane": public.origin_deg,
        "the first day": clock.first_day,
        "the number of rounds": clock.rounds(world.duration_s, setup.learning.round_s),
        "cell": (world.cells, setup.models, setup.model_of_cell),
        "which days have rows": setup.days,
        "when a UE counts as absent": None if presence is None else presence.absent_after_s,
        setup.learning.learner.discloses or "statistics": (public.dataset, public.sampled_m),
    }
    return {name: pickle.dumps(value) for name, value in values.items()}

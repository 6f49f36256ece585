"""An audit: a study played again without a UE, or with other updates of it, and compared before all noise."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fl.audit import PAIRS, Draw, Recording, compared, cost, of_noise
from fl.privacy.ledger import Ledger
from fl.references import References
from fl.round.caveats import disclosed
from fl.round.server import LearningServer
from fl.round.setup import Setup
from fl.round.state import begin
from fl.round.tables import TABLES
from fl.types import LOCATION
from netsim.build import build_world
from netsim.compiled import cache_folder
from netsim.errors import BadInput
from netsim.record import Recorder, Row, write_text
from netsim.rng import Streams
from netsim.units import IntArray
from netsim.world import World
from scenarios.app.results.folder import read_table
from scenarios.app.results.read import where
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.how import one_thread, scratch
from scenarios.app.run.runner import planned
from scenarios.app.run.setup import ready
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
            "learning.defenses: nothing draws noise that has an epsilon, so there is nothing to audit; put a clip and "
            "a gaussian there, say"
        )
    none = References(neighbours=None, path_loss=False, kriging_samples=0, central=False)
    rare = learning.leakage.model_copy(update={"every_rounds": 1_000_000})
    changes = {"attacks": (), "membership": None, "references": none, "leakage": rare}
    return study.model_copy(update={"learning": learning.model_copy(update=changes)})


def _played(study: Study, setup: Setup, recording: Recording, silent: IntArray) -> Ledger:
    """Make the recording of a play in which some UEs measure nothing; the ledger at its end. Its tables go away."""
    world = build_world(study.world, Streams(study.seed), study.round_s)
    world.silent = np.isin(np.arange(len(world.ues)), silent)
    setup.recorder.open()
    server = LearningServer(world, replace(setup, probe=recording), begin(setup, len(world.ues)))
    unwatched: Any = SimpleNamespace(played=lambda *_: None, rested=lambda _: None)
    played = world.env.process(server.serve(unwatched))
    world.env.run(until=world.duration_s + 1.0)
    world.env.run(until=played)
    return server.state.ledger


def chosen(folder: Path, world: World, most: int | None, seed: int) -> IntArray:
    """UEs to audit, of the updates of a run: all if they are few, else those with most data, farthest from the middle,
    slowest, first and last to send, and ten at random.
    """
    rows = read_table(folder, "updates")
    ue = rows["ue"].astype(np.int64)
    away_m = np.hypot(*(np.column_stack([rows["x_m"], rows["y_m"]]) - world.area.centre_m).T)
    measures = (rows["selected"], away_m, rows["time_s"] - 1e6 * rows["round"], -rows["round"], rows["round"])
    extremes = [int(ue[np.argmax(np.nan_to_num(of, nan=-np.inf))]) for of in measures if len(ue)]
    others = np.setdiff1d(np.arange(len(world.ues)), extremes)
    lot = np.argsort(Streams(seed).at("audit").uniform("ue", others))
    few = len(world.ues) <= ALL
    return np.array([*dict.fromkeys(extremes), *others[lot][: None if few else DRAWN]], dtype=np.int64)[:most]


def audit(study: Study, folder: Path, most: int | None, watch: Watch) -> None:
    """Write the table `audit` of a study, whose run lies in the folder; its canaries stay.

    most : UEs to audit at most. Raises BadInput where nothing was drawn.
    """
    with one_thread(), scratch("audit-") as place:
        columns, kept = TABLES["audit"], read_table(folder, "audit")
        rows = [*_rows(study, folder, place, most, watch)]
        table = {c: [row.get(c, "" if of.type == "text" else np.nan) for row in rows] for c, of in columns.items()}
        recorder = Recorder(place, {"audit": columns})
        recorder.open()
        recorder.write("audit", where(kept, kept["half"] == "canaries"))
        recorder.write("audit", table)
        write_text(folder / "audit.csv", (place / "audit.csv").read_text(encoding="utf-8"))


def _rows(study: Study, folder: Path, place: Path, most: int | None, watch: Watch) -> Iterator[Row]:
    """Rows of neighbours, ledger and noise."""
    study = planned(audited(study), cache_folder()).study
    world, setup = ready(study, place)
    said = (*disclosed(setup.learning, study.world, world), *world.warnings)
    ues, streams = chosen(folder, world, most, study.seed), Streams(study.seed)
    base = Recording(setup.learning, ues, streams)
    statements = [of for of in _played(study, setup, base, ues[:0]).statements() if of.unit != LOCATION]
    if not len(ues) or not statements:
        raise BadInput("audit: no update was sent with noise that has an epsilon; let the world last longer")
    relations = {of.relation for of in statements}
    pairs = [pair for pair, relation in PAIRS.items() if relation in relations]
    changes = [*pairs, "plus", "minus"] if any(of.unit == "user" for of in statements) else ["record"]
    for k, ue in enumerate(ues.tolist(), 1):
        name, plays = world.ues[ue], {"": base}
        left_out = study.world.ues.model_copy(update={"without": (*study.world.ues.without, name)})
        other = study.model_copy(update={"world": study.world.model_copy(update={"ues": left_out})})
        told = [_told(*ready(of, place), Recording(setup.learning, ues, streams)) for of in (study, other)]
        rows = [{**row, "pair": "removed"} for row in compared(*told, "removed", ue, said)[0]]
        for change in changes:
            plays[change] = Recording(setup.learning, np.array([ue]), streams, change, base)
            _played(study, setup, plays[change], ues[:0] if change != "removed" else plays[change].ues)
        ends = [(first, pair, pair) for pair in pairs for first in ("", "plus")]
        for first, second, pair in [*ends, ("plus", "minus", "replaced"), ("", "record", "replaced")]:
            if first in plays and second in plays and pair in pairs:
                found, moved = compared(plays[first], plays[second], pair, ue, said)
                rows += [{**row, "pair": pair} for row in (*found, *cost(moved, pair, ue, statements))]
        yield from ({**row, "ue": name} for row in rows)
        watch(Event("played", k, len(ues), k == len(ues), {"label": name}))
    yield from of_noise(base)


def _told(world: World, setup: Setup, recording: Recording) -> Recording:
    """What everybody is told before the first round, by the words of warnings."""
    public, clock, trace = setup.public, world.clock, world.trace
    presence = None if trace is None else world.mobility.presence(trace)
    values = {
        "what a user is": world.ues,
        "the area": public.area,
        "the middle of the plane": public.origin_deg,
        "the first day": clock.first_day,
        "the number of rounds": clock.rounds(world.duration_s, setup.learning.round_s),
        "cell": (world.cells, setup.models, setup.model_of_cell),
        "which days are held out": setup.days if "day" in getattr(setup.learning.data, "held_out_by", ()) else (),
        "when a UE counts as absent": None if presence is None else presence.absent_after_s,
        setup.learning.learner.discloses or "statistics": (public.dataset, public.sampled_m),
    }
    for name, value in values.items():
        content = np.frombuffer(hashlib.sha256(pickle.dumps(value)).digest(), np.uint8)
        recording.draws[name, 0, "value", -1, 0] = Draw(content.astype(float))
    return recording

"""An audit: a study played again without a UE, or with other updates of it, and compared before all
noise.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fl.data import SHARED_MODEL
from fl.privacy.ledger import Ledger
from fl.round.audit import PAIRS, Recording, compared, moved_values, of_noise
from fl.round.server import LearningServer
from fl.round.setup import Setup
from fl.round.state import begin
from fl.round.tables import TABLES
from netsim.compiled import cache_folder
from netsim.errors import BadInput
from netsim.record import Recorder, Row, write_json
from netsim.rng import Streams
from netsim.world.build import build_world
from netsim.world.world import World
from scenarios.app.results.folder import MANIFEST, read_json
from scenarios.app.results.read import Run, where
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.how import one_thread, scratch
from scenarios.app.run.runner import planned
from scenarios.app.run.setup import ready
from scenarios.app.study.study import Study

# UEs of which all are audited; those at random of more
ALL = 12
DRAWN = 10
_NOTHING = (
    "audit: no UE sent an update with noise that has an epsilon; let the world last longer, or "
    "take a larger privacy_budget"
)


def audit(study: Study, run: Run, most: int | None, watch: Watch) -> None:
    """Write the table `audit` of a study without attacks into the folder of its run; rows of
    canaries stay.

    most : UEs to audit at most. Raises BadInput where nothing was drawn.
    """
    with one_thread(), scratch("audit-") as place:
        rows = [*_rows(study, run, place, most, watch)]
    kept = where(run.tables["audit"], run.tables["audit"]["half"] == "canaries")
    recorder = Recorder(run.folder, TABLES)
    recorder.write(
        "audit", {name: [*known, *(row.get(name) for row in rows)] for name, known in kept.items()}
    )
    run.tables["audit"] = recorder.columns("audit")
    manifest = read_json(run.folder / MANIFEST)
    if "tables" in manifest:  # that of an earlier version lists none
        manifest["tables"] |= recorder.counts()
        write_json(run.folder / MANIFEST, manifest)


def _rows(study: Study, run: Run, place: Path, most: int | None, watch: Watch) -> Iterator[Row]:
    plain = study.model_copy(update={"learning": study.learned.model_copy(update={"audit": None})})
    study, streams = planned(plain, cache_folder()).study, Streams(study.seed)
    world, setup = ready(study, place)
    said = [notice.line for notice in world.notices]
    ues = _chosen(study, run, len(world.ues))[:most]
    base = Recording(setup.learning, ues, streams)
    ledger = _played(study, setup, base)
    if not base.draws:
        raise BadInput(_NOTHING)
    accounts = {draw.account for draw in base.draws.values()}
    pairs = [
        pair for pair, relation in PAIRS.items() if relation in {of.relation for of in accounts}
    ]
    closer = [pair for pair in pairs if pair != "replaced"]
    if "user" in {of.unit for of in accounts}:
        changes = [*closer, "plus", "minus"]
    else:
        changes = ["record"]
    for k, ue in enumerate(ues, 1):
        name = {"ue": world.ues[ue]}
        plays = {"": base}
        silent = study.world.ues.model_copy(
            update={"without": (*study.world.ues.without, world.ues[ue])}
        )
        left_out = study.model_copy(
            update={"world": study.world.model_copy(update={"ues": silent})}
        )
        if len(world.ues) > 1:  # without its only user there is no trace
            for row in moved_values(_told(world, setup), _told(*ready(left_out, place)), ue, said):
                yield row | name | {"pair": "removed"}
        for change in changes:
            plays[change] = Recording(setup.learning, [ue], streams, change, base)
            _played(study, setup, plays[change])
        ends = [(first, pair, pair) for pair in closer for first in ("", "plus")]
        for one, other, pair in [*ends, ("plus", "minus", "replaced"), ("", "record", "replaced")]:
            if {one, other} <= plays.keys() and pair in pairs:
                for row in compared(plays[one], plays[other], pair, ue, said, ledger):
                    yield row | name | {"pair": pair}
        watch(Event("played", k, len(ues), k == len(ues), {"label": world.ues[ue]}))
    yield from of_noise(base)


def _played(study: Study, setup: Setup, recording: Recording) -> Ledger:
    """Make a recording; the ledger at its end. Tables of the play go away."""
    world = build_world(study.world, Streams(study.seed), study.round_s)
    world.silent |= np.isin(np.arange(len(world.ues)), recording.ues) & (
        recording.change == "removed"
    )
    recorder = Recorder(setup.recorder.folder, TABLES)
    server = LearningServer(
        world, replace(setup, recorder=recorder, probe=recording), begin(setup, len(world.ues))
    )
    unwatched: Any = SimpleNamespace(played=lambda *_: None, rested=lambda _: None)
    played = world.env.process(server.serve(unwatched))
    world.env.run(until=world.duration_s + 1.0)
    world.env.run(until=played)
    return server.state.ledger


def _chosen(study: Study, run: Run, n: int) -> list[int]:
    """UEs to audit, of n: all if they are few, else ten at random beside those that, by the updates
    of a run, have most data, are farthest from where most are, or slowest, and send first and last.
    """
    rows = run.tables["updates"]
    if not len(rows["ue"]):
        raise BadInput(_NOTHING)
    away_m = np.hypot(rows["x_m"] - np.median(rows["x_m"]), rows["y_m"] - np.median(rows["y_m"]))
    measures = (rows["selected"], away_m, rows["time_s"] % study.round_s)
    extremes = [int(np.argmax(np.nan_to_num(of))) for of in measures]
    ue = rows["ue"][[*extremes, 0, -1]].astype(int).tolist()
    lot = np.argsort(Streams(study.seed).at("audit").uniform("ue", np.arange(n))).tolist()
    return [*dict.fromkeys([*ue, *lot])][: n if n <= ALL else len({*ue}) + DRAWN]


def _told(world: World, setup: Setup) -> Any:
    """What everybody is told before the first round, by the words of warnings, as
    `Recording.public`.
    """
    public = setup.public
    learning = setup.learning
    trace = world.trace
    if SHARED_MODEL in learning.data.offers:
        learnt = []
    else:
        learnt = np.array(world.cells)[setup.model_of_cell >= 0].tolist()
    values = {
        "what a user is": world.ues,
        "the area": public.area,
        "the middle of the plane": public.origin_deg,
        "the first day": world.clock.first_day,
        "the number of rounds": world.clock.rounds(world.duration_s, learning.round_s),
        "cell": (setup.models, learnt),
        "which days are held out": setup.days
        if "day" in getattr(learning.data, "held_out_by", ())
        else None,
        "when a UE counts as absent": trace and world.mobility.presence(trace),
        learning.learner.discloses or "statistics": (public.dataset, public.sampled_m),
    }
    nobody = np.array([-1])
    digest = {name: hashlib.sha256(pickle.dumps(value)) for name, value in values.items()}
    return {
        (name, 0, ""): (nobody, np.array([int(of.hexdigest()[:12], 16)]))
        for name, of in digest.items()
    }

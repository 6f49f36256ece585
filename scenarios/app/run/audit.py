"""An audit: a study played again without a UE, or with other updates of it, and compared before all
noise.
"""

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
from fl.round.audit import PAIRS, Recording, check_noise, compare_plays, compare_public_values
from fl.round.server import LearningServer
from fl.round.setup import Setup
from fl.round.state import start_state
from fl.round.tables import TABLES
from netsim.compiled import find_cache_folder
from netsim.errors import BadInput
from netsim.record import Recorder, Row, write_json
from netsim.rng import Streams
from netsim.world.world import World
from scenarios.app.results.folder import MANIFEST, read_json
from scenarios.app.results.read import Run, select_rows
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.how import create_scratch_folder, use_one_thread
from scenarios.app.run.runner import plan_study
from scenarios.app.run.setup import prepare_run
from scenarios.app.study.study import Study

# UEs of which all are audited; those at random of more
MAX_AUDITED_WHOLE = 12
N_DRAWN = 10
_NOTHING = (
    "audit: no UE sent an update with noise that has an epsilon; let the world last longer, or "
    "take a larger privacy_budget"
)


def write_audit(study: Study, run: Run, max_ues: int | None, watch: Watch) -> None:
    """Write the table `audit` of a study without attacks into the folder of its run; rows of
    canaries stay.

    max_ues : UEs to audit at most. Raises BadInput where nothing was drawn.
    """
    with use_one_thread(), create_scratch_folder("audit-") as place:
        rows = [*_audit_ues(study, run, place, max_ues, watch)]
    table = run.tables["audit"]
    kept = select_rows(table, table["half"] == "canaries")
    recorder = Recorder(run.folder, TABLES)
    recorder.write(
        "audit",
        {name: [*column, *(row.get(name) for row in rows)] for name, column in kept.items()},
    )
    run.tables["audit"] = recorder.read_columns("audit")
    manifest = read_json(run.folder / MANIFEST)
    if "tables" in manifest:  # that of an earlier version lists none
        manifest["tables"] |= recorder.count_rows()
        write_json(run.folder / MANIFEST, manifest)


def _audit_ues(
    study: Study, run: Run, place: Path, max_ues: int | None, watch: Watch
) -> Iterator[Row]:
    plain = study.change_learning(audit=None)
    streams = Streams(study.seed)
    study = plan_study(plain, find_cache_folder()).study
    world, setup = prepare_run(study, place)
    lines = [notice.line for notice in world.notices]
    ues = _choose_ues(study, run, len(world.ues))[:max_ues]
    base = Recording(setup.learning, ues, streams)
    ledger = _play_recording(study, setup, base)
    if not base.draws:
        raise BadInput(_NOTHING)
    accounts = {draw.account for draw in base.draws.values()}
    relations = {account.relation for account in accounts}
    pairs = [pair for pair, relation in PAIRS.items() if relation in relations]
    closer = [pair for pair in pairs if pair != "replaced"]
    is_user = "user" in {account.unit for account in accounts}
    changes = [*closer, "plus", "minus"] if is_user else ["record"]
    for k, ue in enumerate(ues, 1):
        name = {"ue": world.ues[ue]}
        plays = {"": base}
        silent = (*study.world.ues.without, world.ues[ue])
        left_out = study.change("world.ues.without", silent)
        if len(world.ues) > 1:  # without its only user there is no trace
            for row in compare_public_values(
                _digest_public(world, setup),
                _digest_public(*prepare_run(left_out, place)),
                ue,
                lines,
            ):
                yield row | name | {"pair": "removed"}
        for change in changes:
            plays[change] = Recording(setup.learning, [ue], streams, change, base)
            _play_recording(study, setup, plays[change])
        ends = [(first, pair, pair) for pair in closer for first in ("", "plus")]
        for first, second, pair in [
            *ends,
            ("plus", "minus", "replaced"),
            ("", "record", "replaced"),
        ]:
            if {first, second} <= plays.keys() and pair in pairs:
                for row in compare_plays(plays[first], plays[second], pair, ue, lines, ledger):
                    yield row | name | {"pair": pair}
        watch(Event("played", k, len(ues), k == len(ues), {"label": world.ues[ue]}))
    yield from check_noise(base)


def _play_recording(study: Study, setup: Setup, recording: Recording) -> Ledger:
    """Make a recording; the ledger at its end. Tables of the play go away."""
    world = study.build_world()
    if recording.change == "removed":
        world.silent[recording.ues] = True
    probed = replace(setup, recorder=Recorder(setup.recorder.folder, TABLES), probe=recording)
    unwatched = SimpleNamespace(report_round=lambda *_: None, report_state=lambda _: None)
    server = LearningServer(world, probed, start_state(setup, len(world.ues)), unwatched)
    played = world.env.process(server.serve())
    world.env.run(until=world.duration_s + 1.0)
    world.env.run(until=played)
    return server.state.ledger


def _choose_ues(study: Study, run: Run, n: int) -> list[int]:
    """Return UEs to audit, of n: all if they are few, else ten at random beside those that, by the
    updates of a run, have most data, are farthest from where most are, or slowest, and send first
    and last.
    """
    rows = run.tables["updates"]
    if not len(rows["ue"]):
        raise BadInput(_NOTHING)
    away_m = np.hypot(rows["x_m"] - np.median(rows["x_m"]), rows["y_m"] - np.median(rows["y_m"]))
    measures = (rows["selected"], away_m, rows["time_s"] % study.round_s)
    extremes = [int(np.argmax(np.nan_to_num(measure))) for measure in measures]
    ue = rows["ue"][[*extremes, 0, -1]].astype(int).tolist()
    lot = np.argsort(Streams(study.seed).derive_rng("audit").uniform("ue", np.arange(n))).tolist()
    return [*dict.fromkeys([*ue, *lot])][: n if n <= MAX_AUDITED_WHOLE else len({*ue}) + N_DRAWN]


def _digest_public(world: World, setup: Setup) -> Any:
    """Return what everybody is told before the first round, by the words of warnings, as
    `Recording.public`.
    """
    public = setup.public
    learning = setup.learning
    trace = world.trace
    is_shared = SHARED_MODEL in learning.data.offers
    learnt = [] if is_shared else np.array(world.cells)[setup.model_of_cell >= 0].tolist()
    values = {
        "what a user is": world.ues,
        "the area": public.area,
        "the middle of the plane": public.origin_deg,
        "the first day": world.clock.first_day,
        "the number of rounds": world.clock.count_rounds(world.duration_s, learning.round_s),
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
        (name, 0, ""): (nobody, np.array([int(code.hexdigest()[:12], 16)]))
        for name, code in digest.items()
    }

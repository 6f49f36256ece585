"""Results known only at the end of a run: its last tables, the maps of its model, and warnings
about its scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import cast

import numpy as np

from fl.data.hold_out import blocks_of, in_new_blocks
from fl.defenses.budgeted import AS_PRINTED
from fl.leakage import leakage
from fl.leakage.chance import most_named, scores
from fl.leakage.linking import Linking, observe, unicity
from fl.learners import SurfaceLearner
from fl.notice import notice
from fl.privacy.ledger import final_account
from fl.references import (
    Law,
    Reference,
    constant,
    guessed,
    kriging_map,
    nearest_neighbours,
    path_loss_map,
    rmse,
)
from fl.round import records
from fl.round.leaked import believed, revised_of
from fl.round.learning import Learning
from fl.round.setup import RoundStreams, Setup
from fl.round.state import RoundState
from fl.types import NEW_PLACE, HeldOut, Local, Metrics, Model, RoundContext
from netsim.columns import evenly
from netsim.notice import Notice
from netsim.record import Row
from netsim.units import BoolArray, FloatArray
from netsim.world.world import World

Table = Mapping[str, np.ndarray]

KRIGED = 20_000  # samples of all models together, and places, that kriging looks at
# without a training sample, of which a map is scored by place: of fewer a room or two decide
LEAST_BLOCKS = 20
CENTRAL_MODELS = 3  # factor of samples in central training of all models together


def write_final(setup: Setup, state: RoundState, world: World, spends: Table) -> None:
    """Write the tables that are known at the end: final scores, privacy, names, hindsight.

    spends : the table of that name, as columns.
    """
    final = _last_utility(setup, state, world) | final_references(setup, state)
    setup.recorder.write("final", {"name": list(final), "value": list(final.values())})
    switching = [
        d.label for d in setup.learning.defenses if d.needs_plan and setup.uplink.adds_noise
    ]
    for row in final_account(spends, [*switching, *map(AS_PRINTED.format, switching)]):
        setup.recorder.row("privacy", **row)
    if setup.learning.audit is not None:
        from fl.round.canaries import audited  # here, since it loads for long

        for row in audited(setup, state.parts["audit"], spends, world.ues):
            setup.recorder.row("audit", **row)
    named = leakage.named_at_end(setup.learning.leakage, state.leakage, world.area, world.places)
    for row in named:
        setup.recorder.row("named", **row)
    _write_lists(setup, state, world, named)
    now_s = world.env.now
    facts = RoundContext(
        state.round,
        now_s,
        setup.public,
        round_s=setup.learning.round_s,
        week_s=world.clock.week_s(now_s),
    )
    _write_hindsight(setup, state, facts)
    for row in (
        unicity(state.whereabouts, setup.streams.at("unicity"))
        if setup.learning.threat.renames
        else ()
    ):
        setup.recorder.row("unicity", **row)


def _last_utility(setup: Setup, state: RoundState, world: World) -> Metrics:
    held_out = state.held_out.usual
    scores = records.utility(setup.learning, state, held_out, world)
    return scores | (
        state.reference.evaluate(held_out) if "signals" in setup.learning.data.offers else {}
    )


def final_references(setup: Setup, state: RoundState) -> Metrics:
    """`neighbours_rmse_db`, `path_loss_rmse_db`, `kriging_rmse_db` and `central_rmse_db`, those
    that are asked for.

    No figures where no map of signals at places is learnt. NaN where nothing was held out or
    trained on. `federated_over_central` compares both networks on the held-out samples of trained
    models; NaN where central training failed, with a map worse than a constant.

    With the suffix `.place` the same, and `rmse_db` and `constant_rmse_db`, of the samples in
    blocks without a training sample, where there are LEAST_BLOCKS of these; `place.samples` and
    `place.blocks` count all. Kriging is of what the law of path loss leaves where antennas are
    known, else of the signals.
    """
    learning = setup.learning
    reference = state.reference
    held_out = state.held_out
    how = learning.references
    block_m = learning.data.new_block_m
    if (
        not {"signals", "positions"} <= learning.data.offers
        or "signals" not in learning.learner.needs
    ):
        return {}
    new = in_new_blocks(held_out.model, held_out.x, reference.model, reference.x, block_m)
    new &= np.isin(held_out.model, reference.model)
    blocks = np.unique(
        np.column_stack([held_out.model, blocks_of(held_out.x, block_m)])[new], axis=0
    )
    figures = {"place.samples": new.sum(), "place.blocks": len(blocks)}
    parts = {"": held_out.group != NEW_PLACE}
    if len(blocks) >= LEAST_BLOCKS:
        parts[".place"] = new
        figures["rmse_db.place"] = _of_network(setup, state.model, held_out.select(new))
        figures["constant_rmse_db.place"] = _of_constant(reference, held_out.select(new))
    kriged = reference.thinned(how.kriging_samples, KRIGED)
    most = how.neighbours or 0
    every = len(held_out)
    maps: list[tuple[str, object, Reference, int, Law]] = [
        (
            "neighbours",
            most,
            reference,
            every,
            lambda _, x, y, at: nearest_neighbours(x, y, at, most),
        ),
        ("path_loss", how.path_loss, reference, every, partial(_path_loss, setup)),
        ("kriging", how.kriging_samples, kriged, KRIGED, partial(_kriging, setup)),
    ]
    for name, wanted, samples, places, law in maps:
        if wanted:
            some = evenly(len(held_out), places)
            guess = np.full(len(held_out), np.nan)
            guess[some] = guessed(samples, held_out.select(some), law)
            figures |= {
                f"{name}_rmse_db{part}": rmse(guess[rows], held_out.y[rows])
                for part, rows in parts.items()
            }
    return figures | (_central(setup, state, parts) if how.central else {})


def _central(setup: Setup, state: RoundState, parts: dict[str, BoolArray]) -> Metrics:
    how = setup.learning.references
    held_out = state.held_out
    few = state.reference.thinned(how.central_samples, CENTRAL_MODELS * how.central_samples)
    trained = setup.learning.learner.trained_centrally(
        state.model, few.samples, how.central_epochs, setup.streams.at("references")
    )
    if trained is None:
        return {}
    known = np.isin(held_out.model, few.model)
    figures = {
        f"central_rmse_db{part}": _of_network(setup, trained, held_out.select(rows & known))
        for part, rows in parts.items()
    }
    usual = held_out.select(parts[""] & known)
    central = figures["central_rmse_db"]
    fits = (
        0 < central <= _of_constant(few, usual)
    )  # worse than a constant, it has failed and measures nothing
    return figures | {
        "federated_over_central": _of_network(setup, state.model, usual) / central
        if fits
        else np.nan
    }


def _path_loss(
    setup: Setup, model: int, x: FloatArray, y: FloatArray, at: FloatArray
) -> FloatArray:
    """The law of path loss fitted to samples, at places; NaN of several cells whose places are
    unknown.
    """
    public = setup.public
    antennas_m = None
    cells = np.flatnonzero(setup.model_of_cell == model)
    if public.antennas is not None:
        antennas_m = np.unique(public.antennas.at_m[cells] - [0.0, 0.0, public.ue_height_m], axis=0)
    elif len(cells) > 1:
        return np.full(len(at), np.nan)
    return path_loss_map(x, y, at, public.area, antennas_m, public.buildings)


def _kriging(setup: Setup, model: int, x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
    """Kriging of samples, at places; of what their law leaves, added to it, where antennas are
    known.
    """
    if setup.public.antennas is None:
        return kriging_map(x, y, at)
    law = _path_loss(setup, model, x, y, np.concatenate([x, at]))
    return law[len(x) :] + kriging_map(x, y - law[: len(x)], at)


def _of_network(setup: Setup, model: Model, held_out: HeldOut) -> float:
    return setup.learning.learner.evaluate(model, held_out).get("rmse_db", np.nan)


def _of_constant(reference: Reference, held_out: HeldOut) -> float:
    return rmse(guessed(reference, held_out, constant), held_out.y)


def _write_lists(setup: Setup, state: RoundState, world: World, named: list[Row]) -> None:
    """Lists of places that attacks make of what is not one UE's, and how good they are; no score
    without a place.

    named : what attacks name of each UE, of which a list is made where they make none.
    """
    learning = setup.learning
    n = len(world.ues)
    if learning.threat.observes == "updates" and not learning.threat.renames:
        return
    listed_m = dict[str, FloatArray]()
    for one in learning.attacks:
        at = one.listed(state.parts[one.word], setup.public, learning.leakage.list_places)
        listed_m[one.label] = (
            most_named(named, one.label, world.area, learning.leakage) if at is None else at
        )
        for rank, (x, y) in enumerate(listed_m[one.label].tolist(), start=1):
            setup.recorder.row("listed", attack=one.label, rank=rank, x_m=x, y_m=y)
    aside = world.mobility.residents(np.arange(n, 2 * n), world.ground)
    town = {"participants": world.places, "aside": aside}
    found = any(map(len, listed_m.values()))
    for row in (
        scores(listed_m, town, world.area, world.buildings.floor_area(), learning.leakage)
        if found
        else ()
    ):
        setup.recorder.row("list_scores", **row)


def _write_hindsight(setup: Setup, state: RoundState, facts: RoundContext) -> None:
    names = state.parts["names"]
    for attack in setup.learning.attacks:
        for said in attack.hindsight(state.parts[attack.word], facts):
            belief = names.of_ues(said)
            there = state.whereabouts.at(belief.round)
            for table, columns in believed(setup.learning.leakage, attack.label, belief, there):
                setup.recorder.write(table, columns)
    for label, revised in (
        revised_of(setup, state.parts, facts).items() if setup.learning.threat.renames else ()
    ):
        linking = Linking()
        for time_s, links in revised.links:
            linking, row = observe(linking, label, links, names, time_s)
            setup.recorder.row("linking", **row)


def learnt_map(setup: Setup, state: RoundState, place_m: FloatArray) -> FloatArray | None:
    """RSRP (n,) in dBm that the models predict at places (n, 2), the largest over trained cells.

    NaN where no cell is trained; None for a task without signals at places.
    """
    if not {"signals", "positions"} <= setup.learning.data.offers:
        return None
    return setup.learning.learner.strongest_dbm(
        state.model, place_m, np.unique(state.reference.model)
    )


def surfaces(setup: Setup, state: RoundState, world: World) -> dict[str, FloatArray]:
    """Maps of the first model at the first bandwidth; none for a learner without surfaces, or
    without an answer.
    """
    model = state.model
    if (
        "surfaces" not in setup.learning.learner.offers
        or not len(state.held_out)
        or not model.parameters[0].any()
    ):
        return {}
    learner = cast(SurfaceLearner, setup.learning.learner)
    grid = learner.grid_m(model)
    arrays: dict[str, FloatArray] = {
        "x_m": model.constants["x_m"],
        "y_m": model.constants["y_m"],
        "estimate": learner.surfaces(model, model.parameters[:1])[0, 0],
        "exact": learner.reference_map(model, state.held_out.usual),
    }
    law = world.mobility.density(grid.reshape(-1, 2))
    if law is not None:
        arrays["law"] = law.reshape(grid.shape[:2])
    if not setup.learning.curation:  # which would have changed what the UE answered about
        arrays |= _answer(setup, state, learner)
    return arrays


def _answer(setup: Setup, state: RoundState, learner: SurfaceLearner) -> dict[str, FloatArray]:
    """Recompute the answer of the UE nearest to the middle of the area in the last round, before
    any defense.
    """
    away = np.linalg.norm(state.held_out.x - setup.public.area.centre_m, axis=1)
    one = state.held_out.select(np.array([away.argmin()]))
    phase = learner.phases[0]
    data = Local(one.ue, np.zeros(1, dtype=int), np.array([0, 1]), one.x, None, np.zeros(1))
    made = learner.local(
        state.model, phase, data, RoundStreams(setup.streams, state.round).learner(phase)
    )
    return {
        "answer": learner.surfaces(state.model, made.rows(slice(None)))[0, 0],
        "answer_at_m": one.x[0],
    }


def notices_at_end(
    learning: Learning, exploded: int, scored: Table, uplink: Table, sums: Table
) -> Iterator[Notice]:
    """A model that exploded, compared rounds in which no UE was heard where not all are compared,
    and sums of one UE.

    exploded : the round of it, 0 for none. scored, uplink, sums : the table `leakage`, that of
    updates as the attacker hears them, and `sums`, as columns.
    """
    if exploded:
        yield notice("model-exploded", round=exploded)
    compared = np.unique(scored["round"])
    silent = np.setdiff1d(compared, uplink["round"][uplink["decoded"] == 1])
    every = learning.leakage.every_rounds
    if len(silent) and every > 1:
        yield notice(
            "rounds-unheard", number=len(silent), total=len(compared), last=silent[-1], every=every
        )
    single = sums["decoded"] == 1
    if single.any():
        key = "sums-of-one" if sums["opened"][single].any() else "sums-of-one-closed"
        yield notice(key, percent=100 * single.mean())


def exploded(state: RoundState, figures: Row) -> bool:
    """Whether a model is not finite after a round, or its RMSE beyond what the held-out signals
    span.

    They span their range, or the largest of their absolute values, where that is more: a network
    that has learnt nothing may predict 0, and one that predicts a value between that and any of
    them errs by no more.
    """
    if not np.isfinite(state.model.parameters).all():
        return True
    y = state.held_out.usual.y  # what the error is of
    scores = figures.get("scores", {})
    if "rmse_db" not in scores or not len(y):
        return False
    return not scores["rmse_db"] <= y.max(initial=0.0) - y.min(initial=0.0)

"""Results known only at the end of a run: its last tables, the maps of its model, and warnings
about its scores.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from fl.attacks.network_positioning import NetworkPositioning
from fl.data.hold_out import find_blocks, is_in_new_block
from fl.defenses.budgeted import AS_PRINTED
from fl.leakage import leakage
from fl.leakage.chance import find_named_peaks, tabulate_list_scores
from fl.leakage.linking import Linking, measure_unicity, record_links
from fl.learners import SurfaceLearner
from fl.notice import notice
from fl.privacy.ledger import tabulate_account
from fl.references import (
    Reference,
    compute_rmse,
    map_kriging,
    map_path_loss,
    predict_by_neighbours,
    predict_constant,
    predict_held_out,
)
from fl.round import records
from fl.round.leaked import collect_revised, conclude_attacks, tabulate_beliefs
from fl.round.learning import Learning
from fl.round.setup import RoundStreams, Setup
from fl.round.state import RoundState
from fl.tracking.population import Everywhere, InBuildings
from fl.types import NEW_PLACE, HeldOut, Local, Metrics, Model, RoundContext
from netsim.columns import pick_even_indices
from netsim.notice import Notices
from netsim.record import Row, TableRows
from netsim.units import Arrays, BoolArray, FloatArray
from netsim.world.world import World

KRIGED = 20_000  # samples of all models together, and places, that kriging looks at
# without a training sample, of which a map is scored by place: of fewer a room or two decide
LEAST_BLOCKS = 20
_MOST_M2 = 5e9  # of the operator's maps of all cells and UEs together
CENTRAL_MODELS = 3  # factor of samples in central training of all models together


def write_final(setup: Setup, state: RoundState, world: World, spends: Arrays) -> None:
    """Write the tables that are known at the end: final scores, privacy, names, hindsight.

    spends : the table of that name, as columns.
    """
    held_out = state.held_out.usual
    final = records.measure_utility(setup.learning, state, held_out, world)
    if "signals" in setup.learning.data.offers:
        final = final | state.reference.evaluate(held_out)
    final = final | measure_references(setup, state)
    setup.recorder.write("final", {"name": list(final), "value": list(final.values())})
    switching = list[str]()
    if setup.uplink.adds_noise:
        labels = [defense.label for defense in setup.learning.defenses if defense.needs_plan]
        switching = [*labels, *map(AS_PRINTED.format, labels)]
    _write_rows(setup, "privacy", tabulate_account(spends, switching))
    if setup.learning.audit is not None:
        from fl.round.canaries import tabulate_canaries  # here, since it loads for long

        audited = tabulate_canaries(setup, state.parts["audit"], spends, world.ues)
        _write_rows(setup, "audit", audited)
    _write_operator(setup, world)
    write_final_attacks(setup, state, world, world.env.now)
    if setup.learning.threat.renames:
        rows = measure_unicity(state.whereabouts, setup.streams.derive_rng("unicity"))
        _write_rows(setup, "unicity", rows)


def write_final_attacks(setup: Setup, state: RoundState, world: World, now_s: float) -> None:
    """Write what attacks say at the end, at now_s: places of each UE, lists, hindsight."""
    facts = build_last_facts(setup, state, world, now_s)
    if not state.concluded:
        conclude_attacks(setup, world, state, facts)
    named = leakage.list_named_places(
        setup.learning.leakage, state.leakage, world.area, world.places
    )
    _write_rows(setup, "named", named)
    _write_lists(setup, state, world, named)
    _write_hindsight(setup, state, facts)
    for attack in setup.learning.attacks:
        for row in attack.tabulate_learnt():
            setup.recorder.write_row("learnt", attack=attack.label, **row)


def build_last_facts(setup: Setup, state: RoundState, world: World, now_s: float) -> RoundContext:
    """Return what attacks know at now_s, once the last round is over."""
    return RoundContext(
        state.round,
        now_s,
        setup.public,
        round_s=setup.learning.round_s,
        week_s=world.clock.week_s(now_s),
    )


def _write_rows(setup: Setup, table: str, rows: Iterable[Row]) -> None:
    for row in rows:
        setup.recorder.write_row(table, **row)


def _write_operator(setup: Setup, world: World) -> None:
    """What the operator names without learning, by one fix of each UE at home: of cell, timing
    advance and angle. Nothing where maps of all UEs are too large, as of over 1,200 in 2 km x 2 km.
    """
    public = setup.public
    home_m = world.places.home_m
    home_m = home_m[np.isfinite(home_m[:, 0])]
    # with a few more, so that the grid of one UE has no million places
    area_m2 = np.prod(public.area.side_m) * (8 + public.n_cell + len(home_m))
    if public.antennas is None or not home_m.size or area_m2 > _MOST_M2:
        return
    floor_area = world.buildings.measure_middles_and_floor_areas()
    public = replace(public, floor_area=floor_area)
    operator = NetworkPositioning(population=InBuildings() if len(floor_area) else Everywhere())
    grid = operator.build_grid(public, len(home_m))
    links = world.budget.compute_links(world.env.now, home_m)
    fixes = world.measure_network(links, home_m, links.serving, ("timing-advance", "angle"))
    mass = operator.sum_discs(operator.compute_log_laws(fixes, grid, public), grid, public)
    named_m = operator.find_best(mass, grid, 2)
    away_m = np.linalg.norm(named_m - home_m[:, None], axis=2)
    setup.recorder.write("operator", {"home_named_m": np.nanmin(away_m, axis=1)})


def measure_references(setup: Setup, state: RoundState) -> Metrics:
    """`neighbours_rmse_db`, `path_loss_rmse_db`, `kriging_rmse_db` and `central_rmse_db`, those
    that are asked for.

    No figures where no map of signals at places is learnt. NaN where nothing was held out or
    trained on. `federated_over_central` compares both networks on the held-out samples of trained
    models; NaN where central training failed, with a map worse than a constant.

    With the suffix `.place` the same, and `rmse_db` and `constant_rmse_db`, of the samples in
    blocks without a training sample, where there are LEAST_BLOCKS of these; `place.samples` and
    `place.blocks` count all, and `held_out.blocks` where blocks alone are held out. Kriging is of
    what the law of path loss leaves where antennas are known, else of the signals.
    """
    learning = setup.learning
    reference = state.reference
    held_out = state.held_out
    references = learning.references
    block_m = learning.data.new_block_m
    if not {"signals", "positions"} <= learning.data.offers:
        return {}
    if "signals" not in learning.learner.needs:
        return {}
    is_new = is_in_new_block(held_out.model, held_out.x, reference.model, reference.x, block_m)
    is_new &= np.isin(held_out.model, reference.model)
    block_of_sample = np.column_stack([held_out.model, find_blocks(held_out.x, block_m)])
    blocks = np.unique(block_of_sample[is_new], axis=0)
    figures = {"place.samples": is_new.sum(), "place.blocks": len(blocks)}
    if getattr(learning.data, "hold_out_by", "") == "block":
        figures["held_out.blocks"] = len(blocks)
    parts = {"": held_out.group != NEW_PLACE}
    if len(blocks) >= LEAST_BLOCKS:
        parts[".place"] = is_new
        new = held_out.select(is_new)
        figures["rmse_db.place"] = _measure_network_rmse(setup, state.model, new)
        figures["constant_rmse_db.place"] = _measure_constant_rmse(reference, new)
    n_held_out = len(held_out)
    maps = []
    if references.neighbours:
        neighbours = partial(predict_by_neighbours, references.neighbours)
        maps.append(("neighbours", reference, n_held_out, neighbours))
    if references.path_loss:
        maps.append(("path_loss", reference, n_held_out, partial(_map_path_loss, setup)))
    if references.kriging_samples:
        kriged = reference.thin(references.kriging_samples, KRIGED)
        maps.append(("kriging", kriged, KRIGED, partial(_map_kriging, setup)))
    for name, samples, n_places, law in maps:
        rows = pick_even_indices(n_held_out, n_places)
        guess = np.full(n_held_out, np.nan)
        guess[rows] = predict_held_out(samples, held_out.select(rows), law)
        for part, is_scored in parts.items():
            figures[f"{name}_rmse_db{part}"] = compute_rmse(guess[is_scored], held_out.y[is_scored])
    if references.central:
        figures |= _measure_central(setup, state, parts)
    return figures


def _measure_central(setup: Setup, state: RoundState, parts: dict[str, BoolArray]) -> Metrics:
    references = setup.learning.references
    held_out = state.held_out
    few = state.reference.thin(
        references.central_samples, CENTRAL_MODELS * references.central_samples
    )
    rng = setup.streams.derive_rng("references")
    trained = setup.learning.learner.train_from_scratch(
        state.model, few.samples, references.central_epochs, rng
    )
    if trained is None:
        return {}
    is_trained = np.isin(held_out.model, few.model)
    figures = Metrics()
    for part, is_scored in parts.items():
        samples = held_out.select(is_scored & is_trained)
        figures[f"central_rmse_db{part}"] = _measure_network_rmse(setup, trained, samples)
    usual = held_out.select(parts[""] & is_trained)
    central = figures["central_rmse_db"]
    ratio = np.nan  # worse than a constant, it has failed and measures nothing
    if 0 < central <= _measure_constant_rmse(few, usual):
        ratio = _measure_network_rmse(setup, state.model, usual) / central
    return figures | {"federated_over_central": ratio}


def _map_path_loss(
    setup: Setup, model: int, x: FloatArray, y: FloatArray, place_m: FloatArray
) -> FloatArray:
    """The law of path loss fitted to samples, at places; NaN of several cells whose places are
    unknown.
    """
    public = setup.public
    antennas_m = None
    cells = np.flatnonzero(setup.model_of_cell == model)
    if public.antennas is not None:
        above_ue_m = public.antennas.at_m[cells] - [0.0, 0.0, public.ue_height_m]
        antennas_m = np.unique(above_ue_m, axis=0)
    elif len(cells) > 1:
        return np.full(len(place_m), np.nan)
    return map_path_loss(x, y, place_m, public.area, antennas_m, public.buildings)


def _map_kriging(
    setup: Setup, model: int, x: FloatArray, y: FloatArray, place_m: FloatArray
) -> FloatArray:
    """Kriging of samples, at places; of what their law leaves, added to it, where antennas are
    known.
    """
    if setup.public.antennas is None:
        return map_kriging(x, y, place_m)
    law = _map_path_loss(setup, model, x, y, np.concatenate([x, place_m]))
    return law[len(x) :] + map_kriging(x, y - law[: len(x)], place_m)


def _measure_network_rmse(setup: Setup, model: Model, held_out: HeldOut) -> float:
    return setup.learning.learner.evaluate(model, held_out).get("rmse_db", np.nan)


def _measure_constant_rmse(reference: Reference, held_out: HeldOut) -> float:
    return compute_rmse(predict_held_out(reference, held_out, predict_constant), held_out.y)


def _write_lists(setup: Setup, state: RoundState, world: World, named: TableRows) -> None:
    """Lists of places that attacks make of what is not one UE's, and how good they are; no score
    without a place.

    named : what attacks name of each UE, of which a list is made where they make none.
    """
    learning = setup.learning
    settings = learning.leakage
    n = len(world.ues)
    if learning.threat.observes == "updates" and not learning.threat.renames:
        return
    listed_m = dict[str, FloatArray]()
    for attack in learning.attacks:
        label = attack.label
        place_m = attack.list_places(state.parts[attack.word], setup.public, settings.list_places)
        if place_m is None:
            place_m = find_named_peaks(named, label, world.area, settings)
        listed_m[label] = place_m
        for rank, (x, y) in enumerate(place_m.tolist(), start=1):
            setup.recorder.write_row("listed", attack=label, rank=rank, x_m=x, y_m=y)
    aside = world.mobility.residents(np.arange(n, 2 * n), world.ground)
    town = {"participants": world.places, "aside": aside}
    if not any(map(len, listed_m.values())):
        return
    floor_area = world.buildings.measure_middles_and_floor_areas()
    rows = tabulate_list_scores(listed_m, town, world.area, floor_area, settings)
    _write_rows(setup, "list_scores", rows)


def _write_hindsight(setup: Setup, state: RoundState, facts: RoundContext) -> None:
    learning = setup.learning
    names = state.parts["names"]
    for attack in learning.attacks:
        for hindsight in attack.smooth_beliefs(state.parts[attack.word], facts):
            belief = names.translate_belief(hindsight)
            whereabouts = state.whereabouts.select_round(belief.round)
            tables = tabulate_beliefs(learning.leakage, attack.label, belief, whereabouts)
            for table, columns in tables:
                setup.recorder.write(table, columns)
    if not learning.threat.renames:
        return
    for label, revised in collect_revised(setup, state.parts, facts).items():
        linking = Linking()
        for time_s, links in revised.links:
            linking, row = record_links(linking, label, links, names, time_s)
            setup.recorder.write_row("linking", **row)


def predict_map(setup: Setup, state: RoundState, place_m: FloatArray) -> FloatArray | None:
    """RSRP (n,) in dBm that the models predict at places (n, 2), the largest over trained cells.

    NaN where no cell is trained; None for a task without signals at places.
    """
    if not {"signals", "positions"} <= setup.learning.data.offers:
        return None
    trained = np.unique(state.reference.model)
    return setup.learning.learner.predict_strongest_dbm(state.model, place_m, trained)


def build_surfaces(setup: Setup, state: RoundState, world: World) -> dict[str, FloatArray]:
    """Maps of the first model at the first bandwidth; none for a learner without surfaces, or
    without an answer.
    """
    model = state.model
    if "surfaces" not in setup.learning.learner.offers:
        return {}
    if not len(state.held_out) or not model.parameters[0].any():
        return {}
    learner = cast(SurfaceLearner, setup.learning.learner)
    grid = learner.build_grid_m(model)
    arrays = {
        "x_m": model.constants["x_m"],
        "y_m": model.constants["y_m"],
        "estimate": learner.to_surfaces(model, model.parameters[:1])[0, 0],
        "exact": learner.compute_reference_map(model, state.held_out.usual),
    }
    law = world.mobility.density(grid.reshape(-1, 2))
    if law is not None:
        arrays["law"] = law.reshape(grid.shape[:2])
    if not setup.learning.curation:  # which would have changed what the UE answered about
        # the UE nearest to the middle of the area in the last round, before any defense
        away = np.linalg.norm(state.held_out.x - setup.public.area.centre_m, axis=1)
        sample = state.held_out.select(np.array([away.argmin()]))
        phase = learner.phases[0]
        first = np.zeros(1, dtype=int)
        data = Local(sample.ue, first, np.array([0, 1]), sample.x, None, np.zeros(1))
        rng = RoundStreams(setup.streams, state.round).derive_learner_rng(phase)
        update = learner.train_locally(state.model, phase, data, rng)
        answer = learner.to_surfaces(state.model, update.all_rows)
        arrays |= {"answer": answer[0, 0], "answer_at_m": sample.x[0]}
    return arrays


def collect_final_notices(
    learning: Learning, exploded: int, scored: Arrays, uplink: Arrays, sums: Arrays
) -> Notices:
    """A model that exploded, compared rounds in which no UE was heard where not all are compared,
    and sums of one UE.

    exploded : the round of it, 0 for none. scored, uplink, sums : the table `leakage`, that of
    updates as the attacker hears them, and `sums`, as columns.
    """
    if exploded:
        yield notice("model-exploded", round=exploded)
    compared = np.unique(scored["round"])
    silent = np.setdiff1d(compared, uplink["round"][uplink["decoded"] == 1])
    interval = learning.leakage.every_rounds
    if len(silent) and interval > 1:
        yield notice(
            "rounds-unheard",
            number=len(silent),
            total=len(compared),
            last=silent[-1],
            every=interval,
        )
    single = sums["decoded"] == 1
    if single.any():
        key = "sums-of-one" if sums["opened"][single].any() else "sums-of-one-closed"
        yield notice(key, percent=100 * single.mean())


def has_exploded(state: RoundState, figures: Row) -> bool:
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

"""From a round's values to rows of the record tables, and to the figures that progress shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fl.learning import Learning
from fl.privacy.ledger import Ledger
from fl.round.baselines import Baselines, FinalComparison, Reference, final_references
from fl.round.setup import Setup
from fl.round.state import Collected, CurationStep, Eavesdropped, PhaseOutcome, RoundOutcome, RoundState, Sums, Withheld
from fl.round.tables import TABLES
from fl.round.transmit import Uploads
from fl.types import LOCATION, AnySpend, Estimates, HeldOut, Local, Metrics, Model
from netsim.radio.transmissions import Fate
from netsim.record import Recorder, Row
from netsim.safe import replacing
from netsim.units import FloatArray, db_from_ratio
from netsim.world import World


def write(recorder: Recorder, world: World, learning: Learning, outcome: RoundOutcome) -> dict[str, Any]:
    """Append all rows of a round; returns the row of `rounds` with what each attack reached in it.

    What devices and links do is stamped with the server's request; an update with its own arrival; the model, and what
    is said of it, with the merge, when the last update that counts has come; an attack with when it was made.
    """
    facts, state, phases, collected, leaks = (
        outcome.facts, outcome.state, outcome.phases, outcome.collected, outcome.leaked
    )  # fmt: skip
    requested = {"round": facts.round, "time_s": facts.time_s}
    when = {**requested, "time_s": phases[-1].merged_s}
    attacked = {**requested, "time_s": max(p.attacked_s for p in phases)}
    scores = utility(learning, state, scored(learning, state.held_out), world) | state.baselines.figures
    diagnosis = learning.learner.diagnose(outcome.before, collected.local)
    figures = {
        **when,
        "requested_s": facts.time_s,
        **{name: scores.get(name, float("nan")) for name in ("rmse_db", "constant_rmse_db", "raw_upload_rmse_db")},
        **_round(learning, outcome, diagnosis),
    }
    recorder.row("rounds", **figures)
    recorder.write("metrics", _figures(when, learning, state, scores | diagnosis))
    booked = RequestTimes(facts.round, facts.time_s, when["time_s"])
    write_asked(recorder, booked, state.ledger, collected.withheld, collected.curation, outcome.spends)
    write_uploads(recorder, world, learning, facts.round, outcome.before, collected, phases)
    for phase in phases:
        for label, estimates in phase.attacks.estimates.items():
            recorder.write("estimates", _estimates(facts.round, phase, label, estimates))
        if phase.eavesdropped is not None:
            recorder.write("eavesdropper", _eavesdropped(facts.round, phase, phase.eavesdropped))
        if phase.sums is not None:
            recorder.write("sums", _sums(facts.round, phase, phase.sums))
    recorder.write("leakage", _columns("leakage", _timed(attacked, phases[-1], leaks.rows)))
    write_tracked(recorder, leaks.tracked, leaks.beliefs)
    if leaks.linked:
        recorder.write("linking", leaks.linked | {"round": [facts.round] * len(leaks.linked["attack"])})
    if leaks.identified:
        recorder.write("identities", leaks.identified)
    recorder.write("membership", _columns("membership", [{**attacked, **row} for row in outcome.audits]))
    recorder.write("handovers", handover_rows(world))
    _keep_grid(recorder.folder, world, learning, outcome)
    of_attack = {a.label: [r for r in leaks.rows if r["attack"] == a.label] for a in learning.attacks}
    figures["scores"] = scores
    figures["sent"] = sum(len(p.made.ue) for p in phases)
    figures["leakage"] = {label: _median([r["error_m"] for r in rows]) for label, rows in of_attack.items()}
    figures["homes_named_percent"] = {
        label: homes_named_percent(rows, world.places.home_m, learning.leakage.hit_radius_m)
        for label, rows in of_attack.items()
    }
    return figures


def _timed(attacked: dict[str, Any], phase: PhaseOutcome, rows: list[Row]) -> list[Row]:
    """Rows of leakage with their times: of a server without rounds, when the update of a UE came."""
    if not phase.at_arrival:
        return [{**attacked, **row} for row in rows]
    ue, model = (np.array([row[key] for row in rows], dtype=np.int64) for key in ("ue", "model"))
    known_s = phase.known_s(ue, model)
    return [{**attacked, **row, "time_s": t} for row, t in zip(rows, known_s.tolist(), strict=True)]


def write_tracked(
    recorder: Recorder, tracked: dict[str, dict[str, Any]], beliefs: dict[str, dict[str, Any]]
) -> None:  # fmt: skip
    """Append what beliefs of a round are worth, by attack, and some of them cell by cell."""
    for table, by_attack in (("tracking", tracked), ("beliefs", beliefs)):
        for label, columns in by_attack.items():
            recorder.write(table, columns | {"attack": [label] * len(columns["ue"])})


def write_uploads(
    recorder: Recorder, world: World, learning: Learning, number: int, before: Model, collected: Collected,
    phases: list[PhaseOutcome],
) -> None:  # fmt: skip
    """Append what UEs made of what they had from a model, and what became of it on its way to the server."""
    for phase in phases:
        recorder.write("updates", _updates(learning, number, before, collected, phase))
        if phase.uploads is not None:
            recorder.write("transmissions", transmission_rows(number, phase.uploads))
    recorder.write("links", _links(number, world, phases[-1]))


class RequestTimes(NamedTuple):
    """A request: the round that it belongs to, when it was made, and when its spends count as booked."""

    round: int
    time_s: float
    booked_s: float


def write_asked(
    recorder: Recorder,
    asked: RequestTimes,
    ledger: Ledger,
    withheld: list[Withheld],
    curation: list[CurationStep],
    spends: list[AnySpend],
) -> None:
    """Append what UEs held back, what they did to their data before they learnt, and the noise that was drawn."""
    for rule in withheld:
        recorder.write("withholding", _withheld({"round": asked.round, "time_s": asked.time_s}, rule))
    for step in curation:
        recorder.write("curation", _curation({"round": asked.round, "time_s": asked.time_s}, step))
    recorder.write("spends", _spends({"round": asked.round, "time_s": asked.booked_s}, ledger, spends))


def homes_named_percent(rows: list[Row], home_m: FloatArray, hit_radius_m: float) -> float:
    """Share of UEs with a home in an attack's rows of `leakage` whose home it names now; NaN where none has one."""
    away_m = {row["ue"]: row["home_named_m"] for row in rows if np.isfinite(home_m[row["ue"]]).all()}
    return 100.0 * float(np.mean([m <= hit_radius_m for m in away_m.values()])) if away_m else float("nan")


def _keep_grid(folder: Path, world: World, learning: Learning, outcome: RoundOutcome) -> None:
    """grid.npz, of the latest round: true and learnt heights, and the first row's update as made and as received.

    roof_m, height_m, made, sent (ny, nx); place_m (2,) where that row's UE was; area_m (4,). Nothing for a learner
    without a grid, or where no UE sent.
    """
    model, local = outcome.state.model, outcome.collected.local
    grid = learning.learner.update_grid(model)
    phase = next((p for p in outcome.phases if p.name == learning.learner.grid_phase), None)
    if grid is None or phase is None or not len(phase.made.ue):
        return
    first, shape, area = np.zeros(1, dtype=np.int64), (grid.ny, grid.nx), grid.area
    layers = {
        "roof_m": world.buildings.height_at(grid.centre_m),
        "height_m": model.parameters[0, : len(grid)],
        "made": phase.made.rows(first)[0],
        "sent": phase.received.updates.rows(first)[0],
    }
    maps = {name: value.reshape(shape) for name, value in layers.items()}
    frame = np.array([area.x_min_m, area.y_min_m, area.x_max_m, area.y_max_m])
    with replacing(folder / "grid.npz") as file:
        np.savez(file, place_m=local.mean_x()[0], area_m=frame, **maps)


def _round(learning: Learning, outcome: RoundOutcome, diagnosis: Metrics) -> dict[str, Any]:
    """The row of `rounds`, without its time."""
    state, phases, taken, local = outcome.state, outcome.phases, outcome.collected.taken, outcome.collected.local
    last, delay_s = phases[-1], np.concatenate([p.channel.delay_s for p in phases])
    spent = state.ledger.statements()
    epsilon = [float(s.epsilon.max()) for s in spent if s.unit != LOCATION]
    per_m = [float(s.epsilon.max()) for s in spent if s.unit == LOCATION]
    return {
        "ues": len(np.unique(local.ue)),
        "samples": len(taken.measured.x),
        "held_out": len(taken.held_out),
        "selected": len(local.x),
        "refused": outcome.collected.refused,
        "decoded": int(sum(p.received.decoded.sum() for p in phases)),
        "non_finite": sum(p.non_finite for p in phases),
        "update_norm": _median(last.made.norm()),
        "step_stability": diagnosis.get("step_stability", float("nan")),
        "rmse_round_db": learning.learner.evaluate(state.model, taken.held_out.usual).get("rmse_db", float("nan")),
        "epsilon_max": max(epsilon) if epsilon else None,
        "epsilon_per_m_max": max(per_m) if per_m else None,
        "energy_j": float(sum(_energy_j(p) for p in phases)),
        "late": int(sum(p.channel.late.sum() for p in phases)),
        "latency_s": float(delay_s[np.isfinite(delay_s)].max(initial=0.0)),
    }


def _energy_j(phase: PhaseOutcome) -> float:
    """Energy of all UEs of a phase: a UE's channel has its energy for all its rows, and stands at each of them."""
    _, first = np.unique(phase.made.ue, return_index=True)
    return float(phase.channel.energy_j[first].sum())


def scored(learning: Learning, held_out: HeldOut) -> HeldOut:
    """The held-out samples on which a round is scored: all of its own, or a bounded number of those so far."""
    some = held_out if learning.data.scores_round_alone else held_out.thinned(learning.learner.most_held_out)
    return some.usual


def baselines(
    learning: Learning, before: Baselines, reference: Reference, held_out: HeldOut
) -> Baselines:  # fmt: skip
    """Figures of maps without learning after a round, where signals are learnt."""
    if "signals" not in learning.data.offers:
        return before
    return before.after(reference, held_out, learning.learner.most_held_out)


def utility(learning: Learning, state: RoundState, held_out: HeldOut, world: World) -> Metrics:
    """Figures of the model now, and of a known law where UEs have one."""
    learner = learning.learner
    scores = learner.evaluate(state.model, held_out)
    return scores | learner.evaluate_against(state.model, held_out, world.mobility.density)


def last_utility(learning: Learning, state: RoundState, world: World) -> Metrics:
    """Figures of the last model and of maps without learning, on all held-out samples."""
    held_out, signals = state.held_out.usual, "signals" in learning.data.offers
    return utility(learning, state, held_out, world) | (state.reference.evaluate(held_out) if signals else {})


def references(setup: Setup, state: RoundState) -> Metrics:
    """RMSE of the maps that the final model is compared with, where it is one of signals at places."""
    learning = setup.learning
    if not {"signals", "positions"} <= learning.data.offers or "signals" not in learning.learner.needs:
        return {}
    cells = [np.flatnonzero(setup.model_of_cell == m) for m in range(setup.public.n_model)]
    final = FinalComparison(
        learning.references, setup.public, cells, learning.learner, state.model, learning.data.new_block_m
    )
    return final_references(state.reference, final, state.held_out, setup.streams.at("references"))


def _figures(when: dict[str, Any], learning: Learning, state: RoundState, scores: Metrics) -> dict[str, Any]:
    """One row a figure: what the learner says besides the columns of `rounds`, and what parts say of themselves."""
    parts = state.parts
    said = [("learner", name, value) for name, value in scores.items() if name not in TABLES["rounds"]]
    said += [("query", name, value) for name, value in learning.request_policy.figures(parts.query).items()]
    own = learning.aggregation.figures(parts.aggregation)
    said += [("aggregation", name, value) for name, value in own.items()]
    for defense in learning.defenses:
        own = defense.figures(parts.defenses[defense.label])
        said += [(defense.label, name, value) for name, value in own.items()]
    for attack in learning.attacks:
        own = attack.figures(parts.attacks[attack.label])
        said += [(attack.label, name, value) for name, value in own.items()]
    rows = [{**when, "part": part, "name": name, "value": value} for part, name, value in said]
    return _columns("metrics", rows)


def _median(values: Any) -> float:
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    return float(np.median(finite)) if len(finite) else float("nan")


def _columns(table: str, rows: list[Row]) -> dict[str, list[Any]]:
    return {c: [row[c] for row in rows] for c in TABLES[table]}


def _repeated(n: int, **same: Any) -> dict[str, list[Any]]:
    """Columns that say the same in all of n rows."""
    return {name: [value] * n for name, value in same.items()}


def _curation(when: dict[str, Any], step: CurationStep) -> dict[str, Any]:
    before, done = step.before, step.after
    n = len(before.ue)
    unknown = np.full(n, -1)
    return {
        **_repeated(n, **when, step=step.label),
        "ue": before.ue,
        "model": before.model,
        "before": before.count,
        "after": done.local.count,
        "clusters": unknown if done.clusters is None else done.clusters,
        "noise": unknown if done.noise is None else done.noise,
        "fallback": np.zeros(n, dtype=bool) if done.fallback is None else done.fallback,
    }


def _withheld(when: dict[str, Any], rule: Withheld) -> dict[str, Any]:
    """One row a UE and model that was asked."""
    before, n = rule.before, len(rule.before.ue)
    return {
        **_repeated(n, **when, rule=rule.label),
        "ue": before.ue,
        "model": before.model,
        "before": before.count,
        "after": before.keep(rule.kept).count,
    }


def _sums(number: int, phase: PhaseOutcome, sums: Sums) -> dict[str, Any]:
    """One row a group."""
    n = len(sums.group)
    return {
        **_repeated(n, round=number, time_s=phase.merged_s, phase=phase.name),
        "group": sums.group,
        "ues": sums.ues,
        "decoded": sums.decoded,
        "opened": sums.opened,
    }


def _updates(
    learning: Learning, number: int, before: Model, collected: Collected, phase: PhaseOutcome
) -> dict[str, Any]:
    taken, local, learner = collected.taken, collected.local, learning.learner
    made, sent = phase.made, phase.received.updates
    n = len(made.ue)
    key = {(u, m): i for i, (u, m) in enumerate(zip(*_pairs(taken.measured), strict=True))}
    row = np.array([key.get(p, -1) for p in zip(*_pairs(local), strict=True)], dtype=np.int64)
    new, selected = row >= 0, _centroids(learning, local)  # a UE without new measurements learnt from those it held
    truth, samples = selected.copy(), np.zeros(n, dtype=np.int64)
    truth[new], samples[new] = _centroids(learning, taken.measured)[row[new]], taken.measured.count[row[new]]
    return {
        **_repeated(n, round=number, phase=phase.name),
        "time_s": phase.arrived_s,
        "ue": made.ue,
        "model": made.model,
        "samples": samples,
        "selected": local.count,
        "x_m": truth[:, 0],
        "y_m": truth[:, 1],
        "selected_x_m": selected[:, 0],
        "selected_y_m": selected[:, 1],
        "norm": made.norm(),
        "sent_norm": sent.norm(),
        "bias_rms": learner.bias_rms(made),
        "bound_m": learner.centroid_bound_m(before, local) if learning.attacks else np.full(n, np.nan),
        "decoded": phase.received.decoded,
        "weight": phase.weights,
    }


def _centroids(learning: Learning, local: Local) -> FloatArray:
    """Where the samples of each row are on average (n, 2), metres; NaN for samples without a place."""
    placed = "positions" in learning.data.offers
    return local.mean_x().reshape(-1, 2) if placed else np.full((len(local.ue), 2), np.nan)


def _pairs(rows: Local) -> tuple[list[int], list[int]]:
    return rows.ue.tolist(), rows.model.tolist()


def _eavesdropped(number: int, phase: PhaseOutcome, heard: Eavesdropped) -> dict[str, Any]:
    """One row a UE that the eavesdropper could hear."""
    ue, first = np.unique(phase.made.ue, return_index=True)
    return {
        **_repeated(len(ue), round=number, phase=phase.name),
        "time_s": phase.arrived_s[first],
        "ue": ue,
        "distance_m": heard.distance_m,
        "los": heard.los,
        "sinr_db": db_from_ratio(heard.channel.sinr[first]),
        "noise_std": np.where(heard.channel.sinr[first] > 0, heard.channel.noise_std[first], np.nan),
        "decoded": heard.channel.decoded[first],
    }


def _estimates(number: int, phase: PhaseOutcome, label: str, estimates: Estimates) -> dict[str, Any]:
    n, self_test_m = len(estimates.ue), phase.attacks.self_tests.get(label)
    return {
        **_repeated(n, round=number, phase=phase.name, attack=label),
        "time_s": phase.known_s(estimates.ue, estimates.model),
        "ue": estimates.ue,
        "model": estimates.model,
        "quantity": estimates.what,
        "x_m": estimates.position_m[:, 0],
        "y_m": estimates.position_m[:, 1],
        "weight": estimates.weight,
        "loss": estimates.loss,
        "iterations": estimates.iterations,
        "evaluations": estimates.evaluations,
        "status": estimates.status,
        "self_test_m": np.full(n, np.nan if self_test_m is None else self_test_m),
    }


def _links(number: int, world: World, phase: PhaseOutcome) -> dict[str, Any]:
    """One row a transmitting UE: where it was when it was asked, and its uplink."""
    ue, first = np.unique(phase.made.ue, return_index=True)
    context, channel = phase.context, phase.channel
    return {
        "round": [number] * len(ue),
        "time_s": phase.asked_s,
        "ue": ue,
        "x_m": context.position_m[:, 0],
        "y_m": context.position_m[:, 1],
        "base_station": [world.stations[s].name if s >= 0 else "" for s in context.serving],
        "distance_m": context.distance_m,
        "rsrp_dbm": context.rsrp_dbm,
        "power_w": channel.power_w[first],
        "sinr_db": db_from_ratio(channel.sinr[first]),
        "noise_std": channel.noise_std[first],
        "rate_bps": channel.rate_bps[first],
        "airtime_s": channel.airtime_s[first],
        "latency_s": channel.delay_s[first],
        "energy_j": channel.energy_j[first],
        "decoded": channel.decoded[first],
        "late": channel.late[first],
    }


def transmission_rows(number: int, uploads: Uploads) -> dict[str, Any]:
    """One row an upload that took its time."""
    sent = uploads.sent
    return {
        "round": [number] * len(uploads.ue),
        "ue": uploads.ue,
        "requested_s": _to_the_microsecond(uploads.requested_s),
        "ready_s": _to_the_microsecond(sent.ready_s),
        "granted_s": _to_the_microsecond(sent.granted_s),
        "ended_s": _to_the_microsecond(sent.ended_s),
        "fate": [Fate(f).word for f in sent.fate.tolist()],
        "bits": uploads.bits,
        "sent_bits": sent.sent_bits,
        "lost_bits": sent.lost_bits,
        "version": uploads.version,
        "staleness": np.where(uploads.staleness >= 0, uploads.staleness, np.nan),
    }


def _to_the_microsecond(time_s: FloatArray) -> list[str]:
    """Times (n,) as cells, which after weeks need more digits than others have for durations of milliseconds."""
    return [f"{t:.6f}".rstrip("0").rstrip(".") if np.isfinite(t) else "" for t in time_s.tolist()]


def handover_rows(world: World) -> dict[str, Any]:
    """Rows of the table of handovers: those since the last call."""
    events = world.drain_handovers()
    return {
        "time_s": [e.time_s for e in events],
        "ue": [e.ue for e in events],
        "source": [world.stations[e.source].name for e in events],
        "target": [world.stations[e.target].name for e in events],
        "source_dbm": [e.source_dbm for e in events],
        "target_dbm": [e.target_dbm for e in events],
    }


def _spends(when: dict[str, Any], ledger: Ledger, spends: list[AnySpend]) -> dict[str, Any]:
    """One row a noise draw and UE, with what the UE has spent on that mechanism so far."""
    so_far = {statement.account: statement for statement in ledger.statements()}
    rows = []
    for spend in spends:
        said = so_far[spend.account]
        for i, ue in enumerate(spend.ue):
            row = {**when, "mechanism": spend.mechanism, "ue": ue, "model": spend.model[i], **spend.row(i)}
            row |= {"unit": said.unit, "relation": said.relation, "delta": said.delta}
            rows.append({**row, "epsilon": said.epsilon[ue], "epsilon_with_channel": said.with_channel[ue]})
    return _columns("spends", rows)

"""From a round's values to rows of the record tables, and to the figures that progress shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fl.learning import Learning
from fl.privacy.ledger import Ledger
from fl.references.maps import Baselines, Reference
from fl.round.state import Collected, Merged, RoundOutcome, RoundState
from fl.round.tables import TABLES
from fl.round.uploads import Uploads
from fl.types import LOCATION, AnySpend, HeldOut, Local, Metrics, Model, RoundContext
from netsim.columns import row_id
from netsim.radio.transmissions import Fate, SentUploads
from netsim.record import Recorder, Row
from netsim.safe import replacing
from netsim.units import FloatArray, db_from_ratio
from netsim.world import World

Cells = dict[str, Any]
"""column -> cells of rows of a table"""


def cells(table: str, n: int, *sources: Any, **given: Any) -> Cells:
    """Columns of n rows of a table: each is what is given, or the attribute of its name of the first source with one.

    What is neither an array nor a list is the same in all rows.
    """
    found = {}
    for name in TABLES[table]:
        if name in given:
            value = given[name]
        else:
            value = next(getattr(source, name) for source in sources if hasattr(source, name))
        found[name] = value if isinstance(value, np.ndarray | list) else [value] * n
    return found


def table_of(rows: list[Row], columns: Mapping[str, Any] | None = None) -> Cells:
    """Rows as columns: those of a table, or of the rows themselves."""
    names = columns or (rows[0] if rows else ())
    return {name: [row[name] for row in rows] for name in names}


def write(recorder: Recorder, world: World, learning: Learning, outcome: RoundOutcome) -> dict[str, Any]:
    """Append all rows of a round; returns the row of `rounds` with what each attack reached in it.

    What devices and links do is stamped with the server's request; an update with its own arrival; the model, and what
    is said of it, with the merge, when the last update that counts has come; an attack with when it was made.
    """
    facts, state, phases, collected = outcome.facts, outcome.state, outcome.phases, outcome.collected
    leaks, last, number = outcome.leaked, outcome.phases[-1], outcome.facts.round
    when = {"round": number, "time_s": last.merged_s}
    attacked = {"round": number, "time_s": max(p.attacked_s for p in phases)}
    scores = utility(learning, state, scored(learning, state.held_out), world) | state.baselines.figures
    diagnosis = learning.learner.diagnose(outcome.before, collected.local)
    figures = {**when, "requested_s": facts.time_s, **_round(learning, outcome, scores, diagnosis)}
    recorder.row("rounds", **figures)
    said = _said(learning, state, scores | diagnosis)
    recorder.write("metrics", table_of([{**when, **row} for row in said], TABLES["metrics"]))
    write_request(recorder, state.ledger, facts, when["time_s"], collected, outcome.spends)
    for phase in phases:
        write_uploads(recorder, learning, number, outcome.before, collected.taken.measured, phase.uploads, phase.phase)
        _write_attacks(recorder, number, phase)
    write_links(recorder, world, number, last.uploads)
    rows = [{**attacked, **row} for row in leaks.rows]
    recorder.write("leakage", table_of(_timed(last, rows), TABLES["leakage"]))
    for table, columns in leaks.tables:
        recorder.write(table, columns)
    recorder.write("membership", table_of([{**attacked, **row} for row in outcome.audits], TABLES["membership"]))
    recorder.write("handovers", handover_rows(world))
    _keep_grid(recorder, world, learning, outcome)
    of_attack = {a.label: [r for r in leaks.rows if r["attack"] == a.label] for a in learning.attacks}
    figures["scores"] = scores
    figures["sent"] = sum(len(p.uploads.ue) for p in phases)
    figures["leakage"] = {label: _median([r["error_m"] for r in rows]) for label, rows in of_attack.items()}
    figures["homes_named_percent"] = {
        label: homes_named_percent(rows, world.places.home_m, learning.leakage.hit_radius_m)
        for label, rows in of_attack.items()
    }
    return figures


def write_request(
    recorder: Recorder, ledger: Ledger, facts: RoundContext, booked_s: float, collected: Collected,
    spends: list[AnySpend],
) -> None:  # fmt: skip
    """Append what UEs held back, what they did to their data before they learnt, and the noise that was drawn."""
    asked = {"round": facts.round, "time_s": facts.time_s}
    for rule in collected.withheld:
        before, after = rule.rows.count, rule.rows.keep(rule.kept).count
        recorder.write(
            "withholding", cells("withholding", len(before), rule, rule.rows, **asked, before=before, after=after)
        )
    for step in collected.curation:
        before, done = step.rows.count, step.done
        unknown = np.full(len(before), -1)
        columns = cells(
            "curation", len(before), step, step.rows, **asked, before=before, after=done.local.count,
            clusters=unknown if done.clusters is None else done.clusters,
            noise=unknown if done.noise is None else done.noise,
            fallback=False if done.fallback is None else done.fallback,
        )  # fmt: skip
        recorder.write("curation", columns)
    so_far = {statement.account: statement for statement in ledger.statements()} if spends else {}
    for spend in spends:
        said = so_far[spend.account]
        columns = cells(
            "spends", len(spend.ue), spend, said, round=facts.round, time_s=booked_s, **spend.columns(),
            epsilon=said.epsilon[spend.ue], epsilon_with_channel=said.with_channel[spend.ue],
        )  # fmt: skip
        recorder.write("spends", columns)


def write_uploads(
    recorder: Recorder, learning: Learning, number: int, before: Model, measured: Local, uploads: Uploads, phase: str
) -> None:
    """Append what UEs made of their data, from the model before, and what became of it on its way to the server."""
    local, made, n = uploads.local, uploads.made, len(uploads.ue)
    _, mine, theirs = np.intersect1d(
        row_id(local.ue, local.model), row_id(measured.ue, measured.model), assume_unique=True, return_indices=True
    )
    selected = _centroids(learning, local)
    truth, samples = selected.copy(), np.zeros(n, dtype=np.int64)  # without new measurements: of those it held
    truth[mine], samples[mine] = _centroids(learning, measured)[theirs], measured.count[theirs]
    bound_m = learning.learner.centroid_bound_m(before, local) if learning.attacks else np.nan
    columns = cells(
        "updates", n, uploads, uploads.channel, made, round=number, phase=phase, time_s=uploads.arrived_s,
        samples=samples, selected=local.count, x_m=truth[:, 0], y_m=truth[:, 1],
        selected_x_m=selected[:, 0], selected_y_m=selected[:, 1], norm=made.norm(), sent_norm=uploads.updates.norm(),
        bias_rms=learning.learner.bias_rms(made), bound_m=bound_m,
    )  # fmt: skip
    recorder.write("updates", columns)
    if isinstance(uploads.sent, SentUploads):
        recorder.write("transmissions", transmission_rows(number, uploads, uploads.sent))


def _centroids(learning: Learning, local: Local) -> FloatArray:
    """Where the samples of each row are on average (n, 2), metres; NaN for samples without a place."""
    placed = "positions" in learning.data.offers
    return local.mean_x().reshape(-1, 2) if placed else np.full((len(local.ue), 2), np.nan)


def transmission_rows(number: int, uploads: Uploads, sent: SentUploads) -> Cells:
    """One row an upload that took its time."""
    first = uploads.first
    sent, staleness = sent.select(first), uploads.staleness[first].astype(np.float64)
    return cells(
        "transmissions", len(first), sent, round=number, ue=uploads.ue[first], bits=uploads.bits[first],
        requested_s=_to_the_microsecond(uploads.asked_s[first]), ready_s=_to_the_microsecond(sent.ready_s),
        granted_s=_to_the_microsecond(sent.granted_s), ended_s=_to_the_microsecond(sent.ended_s),
        fate=[Fate(f).word for f in sent.fate.tolist()], version=uploads.version[first],
        staleness=np.where(staleness >= 0, staleness, np.nan),
    )  # fmt: skip


def write_links(recorder: Recorder, world: World, number: int, uploads: Uploads) -> None:
    """Append one row per transmitting UE: where it was when it was asked, and its uplink."""
    first = uploads.first
    context, channel = uploads.context.select(first), uploads.channel.select(first)
    columns = cells(
        "links", len(first), context, channel, round=number, time_s=uploads.asked_s[first], ue=uploads.ue[first],
        x_m=context.position_m[:, 0], y_m=context.position_m[:, 1],
        base_station=[world.stations[s].name if s >= 0 else "" for s in context.serving],
        sinr_db=db_from_ratio(channel.sinr), latency_s=channel.delay_s,
    )  # fmt: skip
    recorder.write("links", columns)


def _write_attacks(recorder: Recorder, number: int, merged: Merged) -> None:
    """Append what the attacker received and said of a phase, and the sums that it saw."""
    uploads, overheard = merged.uploads, merged.uploads.overheard
    for label, some in merged.attacks.estimates.items():
        self_test_m = merged.attacks.self_tests.get(label)
        columns = cells(
            "estimates", len(some.ue), some, merged, round=number, attack=label, quantity=some.what,
            time_s=merged.known_s(some.ue, some.model), x_m=some.position_m[:, 0], y_m=some.position_m[:, 1],
            self_test_m=np.nan if self_test_m is None else self_test_m,
        )  # fmt: skip
        recorder.write("estimates", columns)
    if overheard is not None and overheard.channel is not None:
        first = uploads.first
        channel = overheard.channel.select(first)
        columns = cells(
            "eavesdropper", len(first), channel, merged, round=number, ue=uploads.ue[first],
            time_s=uploads.arrived_s[first], distance_m=overheard.distance_m[first], los=overheard.los[first],
            sinr_db=db_from_ratio(channel.sinr),
            noise_std=np.where(channel.sinr > 0, channel.noise_std, np.nan),
        )  # fmt: skip
        recorder.write("eavesdropper", columns)
    if merged.sums is not None:
        sums = merged.sums
        recorder.write("sums", cells("sums", len(sums.group), sums, merged, round=number, time_s=merged.merged_s))


def _timed(merged: Merged, rows: list[Row]) -> list[Row]:
    """Rows of leakage with their times: of a server without rounds, when the update of a UE came."""
    if not merged.at_arrival:
        return rows
    ue, model = (np.array([row[key] for row in rows], dtype=np.int64) for key in ("ue", "model"))
    known_s = merged.known_s(ue, model).tolist()
    return [{**row, "time_s": time_s} for row, time_s in zip(rows, known_s, strict=True)]


def handover_rows(world: World) -> Cells:
    """Rows of the table of handovers: those since the last call."""
    events = world.drain_handovers()
    rows = [
        {name: getattr(event, name) for name in TABLES["handovers"]}
        | {"source": world.stations[event.source].name, "target": world.stations[event.target].name}
        for event in events
    ]
    return table_of(rows, TABLES["handovers"])


def _to_the_microsecond(time_s: FloatArray) -> list[str]:
    """Times (n,) as cells, which after weeks need more digits than others have for durations of milliseconds."""
    return [f"{t:.6f}".rstrip("0").rstrip(".") if np.isfinite(t) else "" for t in time_s.tolist()]


def homes_named_percent(rows: list[Row], home_m: FloatArray, hit_radius_m: float) -> float:
    """Share of UEs with a home in an attack's rows of `leakage` whose home it names now; NaN where none has one."""
    away_m = {row["ue"]: row["home_named_m"] for row in rows if np.isfinite(home_m[row["ue"]]).all()}
    return 100.0 * float(np.mean([m <= hit_radius_m for m in away_m.values()])) if away_m else float("nan")


def _keep_grid(recorder: Recorder, world: World, learning: Learning, outcome: RoundOutcome) -> None:
    """grid.npz, of the latest round: true and learnt heights, and the first row's update as made and as received.

    roof_m, height_m, made, sent (ny, nx); place_m (2,) where that row's UE was; area_m (4,). Nothing for a learner
    without a grid, or where no UE sent.
    """
    model, local = outcome.state.model, outcome.collected.local
    grid = learning.learner.update_grid(model)
    phase = next((p for p in outcome.phases if p.phase == learning.learner.grid_phase), None)
    if grid is None or phase is None or not len(phase.uploads.ue):
        return
    first, area = np.zeros(1, dtype=np.int64), grid.area
    layers = {
        "roof_m": world.buildings.height_at(grid.centre_m),
        "height_m": model.parameters[0, : len(grid)],
        "made": phase.uploads.made.rows(first)[0],
        "sent": phase.uploads.updates.rows(first)[0],
    }
    maps = {name: value.reshape(grid.ny, grid.nx) for name, value in layers.items()}
    frame = np.array([area.x_min_m, area.y_min_m, area.x_max_m, area.y_max_m])
    with replacing(recorder.folder / "grid.npz") as file:
        np.savez(file, place_m=local.mean_x()[0], area_m=frame, **maps)


def _round(learning: Learning, outcome: RoundOutcome, scores: Metrics, diagnosis: Metrics) -> Row:
    """The row of `rounds`, without its times."""
    state, phases, taken, local = outcome.state, outcome.phases, outcome.collected.taken, outcome.collected.local
    uploads = [p.uploads for p in phases]
    delay_s = np.concatenate([sent.channel.delay_s for sent in uploads])
    nan, spent = float("nan"), state.ledger.statements()
    per_m = [float(s.epsilon.max()) for s in spent if s.unit == LOCATION]
    epsilon = [float(s.epsilon.max()) for s in spent if s.unit != LOCATION]
    return {
        "rmse_db": scores.get("rmse_db", nan),
        "constant_rmse_db": scores.get("constant_rmse_db", nan),
        "raw_upload_rmse_db": scores.get("raw_upload_rmse_db", nan),
        "ues": len(np.unique(local.ue)),
        "samples": len(taken.measured.x),
        "held_out": len(taken.held_out),
        "selected": len(local.x),
        "refused": outcome.collected.refused,
        "decoded": int(sum(sent.channel.decoded.sum() for sent in uploads)),
        "non_finite": int(sum((~sent.finite).sum() for sent in uploads)),
        "update_norm": _median(uploads[-1].made.norm()),
        "step_stability": diagnosis.get("step_stability", nan),
        "rmse_round_db": learning.learner.evaluate(state.model, taken.held_out.usual).get("rmse_db", nan),
        "epsilon_max": max(epsilon) if epsilon else None,
        "epsilon_per_m_max": max(per_m) if per_m else None,
        "energy_j": float(sum(float(sent.channel.energy_j[sent.first].sum()) for sent in uploads)),
        "late": int(sum(sent.channel.late.sum() for sent in uploads)),
        "latency_s": float(delay_s[np.isfinite(delay_s)].max(initial=0.0)),
    }


def _said(learning: Learning, state: RoundState, scores: Metrics) -> list[Row]:
    """One row a figure: what the learner says besides the columns of `rounds`, and what parts say of themselves."""
    parts = state.parts
    said = {"learner": {name: value for name, value in scores.items() if name not in TABLES["rounds"]}}
    said["query"] = learning.request_policy.figures(parts["query"])
    said["aggregation"] = learning.aggregation.figures(parts["aggregation"])
    rows = [{"part": part, "name": name, "value": value} for part, of in said.items() for name, value in of.items()]
    own = [(defense.label, defense.figures(parts[f"defense.{defense.label}"])) for defense in learning.defenses]
    own += [(attack.label, attack.figures(parts[f"attack.{attack.label}"])) for attack in learning.attacks]
    rows += [{"part": part, "name": name, "value": value} for part, of in own for name, value in of.items()]
    return rows


def _median(values: Any) -> float:
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    return float(np.median(finite)) if len(finite) else float("nan")


def scored(learning: Learning, held_out: HeldOut) -> HeldOut:
    """The held-out samples on which a round is scored: all of its own, or a bounded number of those so far."""
    some = held_out if learning.data.scores_round_alone else held_out.thinned(learning.learner.most_held_out)
    return some.usual


def baselines(learning: Learning, before: Baselines, reference: Reference, held_out: HeldOut) -> Baselines:
    """Figures of maps without learning after a round, where signals are learnt."""
    if "signals" not in learning.data.offers:
        return before
    return before.after(reference, held_out, learning.learner.most_held_out)


def utility(learning: Learning, state: RoundState, held_out: HeldOut, world: World) -> Metrics:
    """Figures of the model now, and of a known law where UEs have one."""
    learner = learning.learner
    scores = learner.evaluate(state.model, held_out)
    return scores | learner.evaluate_against(state.model, held_out, world.mobility.density)

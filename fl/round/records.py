"""From a round's values to rows of the record tables, and to the figures that progress shows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.privacy.ledger import Ledger
from fl.references import Baselines, Reference
from fl.round.learning import Learning
from fl.round.state import Collected, Merge, RoundOutcome, RoundState
from fl.round.tables import TABLES, Cells, cells, table_of, xy
from fl.round.uploads import Uploads
from fl.types import LOCATION, AnySpend, HeldOut, Local, Metrics, Model, RoundContext
from netsim.columns import row_id
from netsim.radio.transmissions import Fate, SentUploads
from netsim.record import Recorder, Row
from netsim.safe import replacing
from netsim.units import FloatArray, IntArray, db_from_ratio
from netsim.world.world import World

_FATES = np.array([fate.word for fate in sorted(Fate)])


def write(recorder: Recorder, world: World, learning: Learning, outcome: RoundOutcome) -> Row:
    """Append all rows of a round; returns the row of `rounds` with what each attack reached in it.

    What devices and links do is stamped with the server's request; an update with its own arrival;
    the model, and what is said of it, with the merge, when the last update that counts has come; an
    attack with when it was made.
    """
    state = outcome.state
    merges = outcome.merges
    collected = outcome.collected
    last = outcome.merges[-1]
    number = outcome.facts.round
    when = {"round": number, "time_s": last.merged_s}
    attacked = {"round": number, "time_s": max(merged.attacked_s for merged in merges)}
    scores = (
        utility(learning, state, scored(learning, state.held_out), world) | state.baselines.figures
    )
    diagnosis = learning.learner.diagnose(outcome.before, collected.local)
    figures = {
        **when,
        "requested_s": outcome.facts.time_s,
        **_round(learning, outcome, scores, diagnosis),
    }
    recorder.row("rounds", **figures)
    said = _said(learning, state, scores | diagnosis)
    recorder.write("metrics", table_of("metrics", [{**when, **row} for row in said]))
    write_request(recorder, state.ledger, outcome.facts, when["time_s"], collected, outcome.spends)
    for each in merges:
        write_uploads(
            recorder,
            learning,
            number,
            outcome.before,
            collected.taken.measured,
            each.uploads,
            each.phase,
        )
        _write_attacks(recorder, number, each)
    write_links(recorder, world, number, last.uploads)
    rows = [{**attacked, **row} for row in outcome.leakage]
    recorder.write("leakage", table_of("leakage", _timed(last, rows)))
    for table, columns in outcome.tables:
        recorder.write(table, columns)
    recorder.write(
        "membership", table_of("membership", [{**attacked, **row} for row in outcome.membership])
    )
    for row in outcome.membership:
        _append(recorder, "roc", len(row["true_positive_percent"]), **attacked, **row)
    recorder.write("handovers", handover_rows(world))
    _keep_grid(recorder, world, learning, outcome)
    of_attack = {
        a.label: [r for r in outcome.leakage if r["attack"] == a.label] for a in learning.attacks
    }
    figures["scores"] = scores
    figures["sent"] = sum(len(merged.uploads.ue) for merged in merges)
    figures["leakage"] = {
        label: _median([r["error_m"] for r in rows]) for label, rows in of_attack.items()
    }
    figures["homes_named_percent"] = {
        label: homes_named_percent(rows, world.places.home_m, learning.leakage.hit_radius_m)
        for label, rows in of_attack.items()
    }
    return figures


def write_request(
    recorder: Recorder,
    ledger: Ledger,
    facts: RoundContext,
    booked_s: float,
    collected: Collected,
    spends: list[AnySpend],
) -> None:
    """Append what UEs held back, what they did to their data before they learnt, and the noise that
    was drawn.
    """
    asked = {"round": facts.round, "time_s": facts.time_s}
    for rule, rows, kept in collected.withheld:
        after = rows.keep(kept).count
        _append(
            recorder,
            "withholding",
            len(after),
            rows,
            **asked,
            rule=rule,
            before=rows.count,
            after=after,
        )
    for step, rows, done in collected.curation:
        after = done.local.count
        _append(
            recorder,
            "curation",
            len(after),
            rows,
            done,
            **asked,
            step=step,
            before=rows.count,
            after=after,
        )
    so_far = {statement.account: statement for statement in ledger.statements()} if spends else {}
    for spend in spends:
        said = so_far[spend.account]
        _append(
            recorder,
            "spends",
            len(spend.ue),
            spend,
            said,
            round=facts.round,
            time_s=booked_s,
            epsilon=said.epsilon[spend.ue],
            epsilon_with_channel=said.with_channel[spend.ue],
        )


def _append(
    recorder: Recorder, table: str, rows: int | IntArray, *sources: object, **given: object
) -> None:
    recorder.write(table, cells(table, rows, *sources, **given))


def write_uploads(
    recorder: Recorder,
    learning: Learning,
    number: int,
    before: Model,
    measured: Local,
    uploads: Uploads,
    phase: str,
) -> None:
    """Append what UEs made of their data, from the model before, and what became of it on its way
    to the server.
    """
    local = uploads.local
    made = uploads.made
    n = len(uploads.ue)
    _, mine, theirs = np.intersect1d(
        local.row, measured.row, assume_unique=True, return_indices=True
    )
    selected = _centroids(learning, local)
    truth = selected.copy()  # without new measurements: of those it held
    samples = np.zeros(n, dtype=int)
    truth[mine] = _centroids(learning, measured)[theirs]
    samples[mine] = measured.count[theirs]
    bound_m = learning.learner.centroid_bound_m(before, local) if learning.attacks else np.nan
    _append(
        recorder,
        "updates",
        n,
        uploads,
        uploads.channel,
        made,
        round=number,
        phase=phase,
        time_s=uploads.arrived_s,
        samples=samples,
        selected=local.count,
        **xy(truth),
        **xy(selected, "selected_"),
        norm=made.norm(),
        sent_norm=uploads.received().updates.norm(),
        bias_rms=learning.learner.bias_rms(made),
        bound_m=bound_m,
    )
    channel = uploads.uplink
    if isinstance(channel, SentUploads):
        staleness = np.where(uploads.staleness >= 0, uploads.staleness, np.nan)
        seconds = {
            name: _to_the_microsecond(getattr(channel, name))
            for name in ("ready_s", "granted_s", "ended_s")
        }
        _append(
            recorder,
            "transmissions",
            uploads.first,
            uploads,
            channel,
            round=number,
            staleness=staleness,
            **seconds,
            requested_s=_to_the_microsecond(uploads.asked_s),
            fate=_FATES[channel.fate],
        )


def _centroids(learning: Learning, local: Local) -> FloatArray:
    """Where the samples of each row are on average (n, 2), metres; NaN for samples without a
    place.
    """
    placed = "positions" in learning.data.offers
    if placed:
        return local.mean_x().reshape(-1, 2)
    return np.full((len(local.ue), 2), np.nan)


def write_links(recorder: Recorder, world: World, number: int, uploads: Uploads) -> None:
    """Append one row per transmitting UE: where it was when it was asked, and its uplink."""
    channel = uploads.channel
    _append(
        recorder,
        "links",
        uploads.first,
        uploads,
        channel,
        round=number,
        time_s=uploads.asked_s,
        **xy(uploads.position_m),
        sinr_db=db_from_ratio(channel.sinr),
        latency_s=channel.delay_s,
        base_station=np.array([*(station.name for station in world.stations), ""])[
            uploads.serving
        ],  # -1: none
    )


def _write_attacks(recorder: Recorder, number: int, merged: Merge) -> None:
    uploads = merged.uploads
    channel = uploads.overheard
    for label, some in merged.estimates.items():
        self_test_m = merged.self_tests.get(label)
        _append(
            recorder,
            "estimates",
            len(some.ue),
            some,
            merged,
            round=number,
            attack=label,
            quantity=some.what,
            time_s=merged.known_s(some.ue, some.model),
            **xy(some.position_m),
            self_test_m=np.nan if self_test_m is None else self_test_m,
        )
    if channel is not None:
        _append(
            recorder,
            "eavesdropper",
            uploads.first,
            channel,
            uploads,
            merged,
            round=number,
            time_s=uploads.arrived_s,
            distance_m=uploads.antenna_m,
            sinr_db=db_from_ratio(channel.sinr),
            noise_std=np.where(channel.sinr > 0, channel.noise_std, np.nan),
        )
    if uploads.group is not None:
        group_and_model = row_id(uploads.group, uploads.made.model)
        _, first, of_sum, ues = np.unique(
            group_and_model, return_index=True, return_inverse=True, return_counts=True
        )
        _append(
            recorder,
            "sums",
            first,
            uploads,
            merged,
            round=number,
            time_s=merged.merged_s,
            ues=ues[of_sum],
            decoded=uploads.company,
        )


def _timed(merged: Merge, rows: list[Row]) -> list[Row]:
    """Rows of leakage with their times: of a server without rounds, when the update of a UE
    came.
    """
    if not merged.at_arrival:
        return rows
    ue, model = (np.array([row[key] for row in rows], dtype=int) for key in ("ue", "model"))
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
    return table_of("handovers", rows)


def _to_the_microsecond(time_s: FloatArray) -> NDArray[np.str_]:
    """Times (n,) as cells, which after weeks need more digits than others have for durations of
    milliseconds.
    """
    return np.array(
        [f"{t:.6f}".rstrip("0").rstrip(".") if np.isfinite(t) else "" for t in time_s.tolist()],
        dtype=str,
    )


def homes_named_percent(rows: list[Row], home_m: FloatArray, hit_radius_m: float) -> float:
    """Share of UEs with a home in an attack's rows of `leakage` whose home it names now; NaN where
    none has one.
    """
    away_m = {
        row["ue"]: row["home_named_m"] for row in rows if np.isfinite(home_m[row["ue"]]).all()
    }
    if away_m:
        return 100.0 * np.mean([m <= hit_radius_m for m in away_m.values()])
    return float("nan")


def _keep_grid(recorder: Recorder, world: World, learning: Learning, outcome: RoundOutcome) -> None:
    """grid.npz, of the latest round: true and learnt heights, and the first row's update as made
    and as received.

    roof_m, height_m, made, sent (ny, nx); place_m (2,) where that row's UE was; area_m (4,).
    Nothing for a learner without a grid, or where no UE sent.
    """
    model = outcome.state.model
    grid = learning.learner.update_grid(model)
    merged = next(
        (each for each in outcome.merges if each.phase == learning.learner.grid_phase), None
    )
    if grid is None or merged is None or not len(merged.uploads.ue):
        return
    first = np.zeros(1, dtype=int)
    layers = {
        "roof_m": world.buildings.height_at(grid.place_m),
        "height_m": model.parameters[0, : len(grid)],
        "made": merged.uploads.made.rows(first)[0],
        "sent": merged.uploads.received().updates.rows(first)[0],
    }
    maps = {name: value.reshape(grid.ny, grid.nx) for name, value in layers.items()}
    frame = np.concatenate([grid.area.low_m, grid.area.high_m])
    with replacing(recorder.folder / "grid.npz") as file:
        np.savez(file, place_m=outcome.collected.local.mean_x()[0], area_m=frame, **maps)


def _round(learning: Learning, outcome: RoundOutcome, scores: Metrics, diagnosis: Metrics) -> Row:
    taken = outcome.collected.taken
    local = outcome.collected.local
    uploads = [merged.uploads for merged in outcome.merges]
    channel = uploads[0].channel.join([each.channel for each in uploads])
    nan = float("nan")
    spent = outcome.state.ledger.statements()
    per_m = [s.epsilon.max() for s in spent if s.unit == LOCATION]
    epsilon = [s.epsilon.max() for s in spent if s.unit != LOCATION]
    return {
        "rmse_db": scores.get("rmse_db", nan),
        "constant_rmse_db": scores.get("constant_rmse_db", nan),
        "raw_upload_rmse_db": scores.get("raw_upload_rmse_db", nan),
        "ues": len(np.unique(local.ue)),
        "samples": len(taken.measured.x),
        "held_out": len(taken.held_out),
        "selected": len(local.x),
        "refused": outcome.collected.refused,
        "decoded": channel.decoded.sum(),
        "non_finite": sum((~each.finite).sum() for each in uploads),
        "update_norm": _median(uploads[-1].made.norm()),
        "step_stability": diagnosis.get("step_stability", nan),
        "rmse_round_db": learning.learner.evaluate(outcome.state.model, taken.held_out.usual).get(
            "rmse_db", nan
        ),
        "epsilon_max": max(epsilon) if epsilon else None,
        "epsilon_per_m_max": max(per_m) if per_m else None,
        "energy_j": sum(float(each.channel.energy_j[each.first].sum()) for each in uploads),
        "late": channel.late.sum(),
        "latency_s": channel.delay_s[np.isfinite(channel.delay_s)].max(initial=0.0),
    }


def _said(learning: Learning, state: RoundState, scores: Metrics) -> list[Row]:
    """One row a figure: what the learner says besides the columns of `rounds`, and what parts say
    of themselves.
    """
    parts = state.parts
    own = [
        (
            "learner",
            {name: value for name, value in scores.items() if name not in TABLES["rounds"]},
        ),
        ("query", learning.request_policy.figures(parts["query"])),
        ("aggregation", learning.aggregation.figures(parts["aggregation"])),
        *((defense.label, defense.figures(parts[defense.word])) for defense in learning.defenses),
        *((attack.label, attack.figures(parts[attack.word])) for attack in learning.attacks),
    ]
    return [
        {"part": part, "name": name, "value": value}
        for part, of in own
        for name, value in of.items()
    ]


def _median(values: ArrayLike) -> float:
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    if len(finite):
        return np.median(finite)
    return float("nan")


def scored(learning: Learning, held_out: HeldOut) -> HeldOut:
    """The held-out samples on which a round is scored: all of its own, or a bounded number of those
    so far.
    """
    some = (
        held_out
        if learning.data.scores_round_alone
        else held_out.thinned(learning.learner.most_held_out)
    )
    return some.usual


def baselines(
    learning: Learning, before: Baselines, reference: Reference, held_out: HeldOut
) -> Baselines:
    """Figures of maps without learning after a round, where signals are learnt."""
    if "signals" not in learning.data.offers:
        return before
    return before.after(reference, held_out, learning.learner.most_held_out)


def utility(learning: Learning, state: RoundState, held_out: HeldOut, world: World) -> Metrics:
    """Figures of the model now, and of a known law where UEs have one."""
    scores = learning.learner.evaluate(state.model, held_out)
    return scores | learning.learner.evaluate_against(state.model, held_out, world.mobility.density)

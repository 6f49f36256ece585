"""From a round's values to rows of the record tables, and to the figures that progress shows."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.privacy.ledger import Ledger
from fl.round.learning import Learning
from fl.round.state import Collected, Merge, RoundOutcome, RoundState
from fl.round.tables import TABLES, Cells, build_columns, to_columns, to_xy_columns
from fl.round.uploads import Uploads
from fl.types import LOCATION, AnySpend, HeldOut, Local, Metrics, Model, RoundContext
from netsim.columns import match_rows, number_row
from netsim.radio.transmissions import Fate, SentUploads
from netsim.record import Recorder, Row, TableRows
from netsim.safe import open_replacement
from netsim.units import FloatArray, IntArray, db_from_ratio
from netsim.world.world import World

_FATES = np.array([fate.word for fate in sorted(Fate)])


def write_round(recorder: Recorder, world: World, learning: Learning, outcome: RoundOutcome) -> Row:
    """Append all rows of a round; returns the row of `rounds` with what each attack reached in it.

    What devices and links do is stamped with the server's request; an update with its own arrival;
    the model, and what is said of it, with the merge, when the last update that counts has come; an
    attack with when it was made.
    """
    state = outcome.state
    merges = outcome.merges
    collected = outcome.collected
    last = merges[-1]
    number = outcome.facts.round
    asked_s = merges[0].uploads.asked_s.min(initial=outcome.facts.time_s)
    merged = {"round": number, "time_s": last.merged_s}
    held_out = state.held_out
    if not learning.data.scores_round_alone:
        held_out = held_out.thin(learning.learner.most_held_out)
    scores = measure_utility(learning, state, held_out.usual, world) | state.baselines.figures
    diagnosis = learning.learner.diagnose(outcome.before, collected.local)
    figures = {
        **merged,
        "requested_s": asked_s,
        **_summarise_round(learning, outcome, scores, diagnosis),
    }
    recorder.write_row("rounds", **figures)
    metrics = _list_metrics(learning, state, scores | diagnosis)
    if learning.malicious is not None:
        reached = learning.malicious.score(
            learning.learner, state.model, held_out.usual, outcome.facts.public
        )
        metrics += _list_figures([("malicious", reached)])
        sent = last.uploads
        malicious = np.flatnonzero(state.parts["malicious"][sent.ue])
        made = sent.made
        time_s = sent.arrived_s
        _append_rows(recorder, "malicious", malicious, made, sent, round=number, time_s=time_s)
    recorder.write("metrics", to_columns("metrics", [{**merged, **row} for row in metrics]))
    write_request(
        recorder,
        state.ledger,
        replace(outcome.facts, time_s=asked_s),
        last.merged_s,
        collected,
        outcome.spends,
    )
    measured = collected.taken.measured
    for merge in merges:
        write_uploads(
            recorder, learning, number, outcome.before, measured, merge.uploads, merge.phase
        )
    write_links(recorder, world, number, last.uploads)
    attacked = write_attacks(recorder, outcome)
    membership = [{**attacked, **row} for row in outcome.membership]
    recorder.write("membership", to_columns("membership", membership))
    for row in membership:
        _append_rows(recorder, "roc", len(row["true_positive_percent"]), **row)
    _write_grid(recorder, world, learning, outcome)
    figures["scores"] = scores
    figures["sent"] = sum(len(merge.uploads.ue) for merge in merges)
    figures["leakage"] = {}
    figures["homes_named_percent"] = {}
    for attack in learning.attacks:
        label = attack.label
        rows = [row for row in outcome.leakage if row["attack"] == label]
        figures["leakage"][label] = _compute_median([row["error_m"] for row in rows])
        percent = compute_homes_named_percent(
            rows, world.places.home_m, learning.leakage.hit_radius_m
        )
        figures["homes_named_percent"][label] = percent
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
    requested = {"round": facts.round, "time_s": facts.time_s}
    for rule, rows, kept in collected.withheld:
        after = rows.keep(kept).count
        _append_rows(
            recorder,
            "withholding",
            len(after),
            rows,
            **requested,
            rule=rule,
            before=rows.count,
            after=after,
        )
    for step, rows, done in collected.curation:
        after = done.local.count
        _append_rows(
            recorder,
            "curation",
            len(after),
            rows,
            done,
            **requested,
            step=step,
            before=rows.count,
            after=after,
        )
    so_far = (
        {statement.account: statement for statement in ledger.list_statements()} if spends else {}
    )
    for spend in spends:
        statement = so_far[spend.account]
        _append_rows(
            recorder,
            "spends",
            len(spend.ue),
            spend,
            statement,
            round=facts.round,
            time_s=booked_s,
            epsilon=statement.epsilon[spend.ue],
            epsilon_with_channel=statement.with_channel[spend.ue],
        )


def _append_rows(
    recorder: Recorder, table: str, rows: int | IntArray, *sources: object, **values: object
) -> None:
    recorder.write(table, build_columns(table, rows, *sources, **values))


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
    learnt = uploads.made
    n = len(uploads.ue)
    rows, measured_rows = match_rows(local.row, measured.row)
    selected = _compute_centroids(learning, local)
    truth = selected.copy()  # without new measurements: of those it held
    samples = np.zeros(n, dtype=int)
    truth[rows] = _compute_centroids(learning, measured)[measured_rows]
    samples[rows] = measured.count[measured_rows]
    bound_m: FloatArray | float = np.nan
    if learning.attacks:
        bound_m = learning.learner.compute_centroid_bound_m(before, local)
    _append_rows(
        recorder,
        "updates",
        n,
        uploads,
        uploads.channel,
        learnt,
        round=number,
        phase=phase,
        time_s=uploads.arrived_s,
        samples=samples,
        selected=local.count,
        **to_xy_columns(truth),
        **to_xy_columns(selected, "selected_"),
        norm=learnt.norm(),
        sent_norm=uploads.to_received().updates.norm(),
        bias_rms=learning.learner.compute_bias_rms(learnt),
        bound_m=bound_m,
    )
    channel = uploads.uplink
    if isinstance(channel, SentUploads):
        _append_rows(
            recorder,
            "transmissions",
            uploads.first_rows,
            uploads,
            channel,
            round=number,
            staleness=np.where(uploads.staleness >= 0, uploads.staleness, np.nan),
            ready_s=_format_microseconds(channel.ready_s),
            granted_s=_format_microseconds(channel.granted_s),
            ended_s=_format_microseconds(channel.ended_s),
            requested_s=_format_microseconds(uploads.asked_s),
            fate=_FATES[channel.fate],
        )


def _compute_centroids(learning: Learning, local: Local) -> FloatArray:
    """Where the samples of each row are on average (n, 2), metres; NaN for samples without a
    place.
    """
    if "positions" in learning.data.offers:
        return local.average_x().reshape(-1, 2)
    return np.full((len(local.ue), 2), np.nan)


def write_links(recorder: Recorder, world: World, number: int, uploads: Uploads) -> None:
    """Append one row per transmitting UE: where it was when it was asked, and its uplink."""
    channel = uploads.channel
    names = np.array([*(station.name for station in world.stations), ""])  # the last: none, -1
    _append_rows(
        recorder,
        "links",
        uploads.first_rows,
        uploads,
        channel,
        round=number,
        time_s=uploads.asked_s,
        **to_xy_columns(uploads.position_m),
        sinr_db=db_from_ratio(channel.sinr),
        latency_s=channel.delay_s,
        base_station=names[uploads.serving],
    )


def write_attacks(recorder: Recorder, outcome: RoundOutcome) -> Row:
    """Append what attacks of a round heard and said, and how far off they were; returns its number
    and when they were made.
    """
    merges = outcome.merges
    number = outcome.facts.round
    attacked = {"round": number, "time_s": max(merged.attacked_s for merged in merges)}
    for merged in merges:
        _write_estimates(recorder, number, merged)
    rows = [{**attacked, **row} for row in outcome.leakage]
    recorder.write("leakage", to_columns("leakage", _add_times(merges[-1], rows)))
    for table, columns in outcome.tables:
        recorder.write(table, columns)
    return attacked


def _write_estimates(recorder: Recorder, number: int, merged: Merge) -> None:
    uploads = merged.uploads
    channel = uploads.overheard
    for label, estimates in merged.estimates.items():
        self_test_m = merged.self_tests.get(label)
        _append_rows(
            recorder,
            "estimates",
            len(estimates.ue),
            estimates,
            merged,
            round=number,
            attack=label,
            quantity=estimates.what,
            time_s=merged.find_known_s(estimates.ue, estimates.model),
            **to_xy_columns(estimates.position_m),
            self_test_m=np.nan if self_test_m is None else self_test_m,
        )
    if channel is not None:
        _append_rows(
            recorder,
            "eavesdropper",
            uploads.first_rows,
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
        group_and_model = number_row(uploads.group, uploads.made.model)
        _, first, of_sum, ues = np.unique(
            group_and_model, return_index=True, return_inverse=True, return_counts=True
        )
        _append_rows(
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


def _add_times(merged: Merge, rows: TableRows) -> TableRows:
    """Rows of leakage with their times: of a server without rounds, when the update of a UE
    came.
    """
    if not merged.at_arrival:
        return rows
    ue = np.array([row["ue"] for row in rows], dtype=int)
    known_s = merged.find_known_s(ue, np.array([row["model"] for row in rows], dtype=int)).tolist()
    return [{**row, "time_s": time_s} for row, time_s in zip(rows, known_s, strict=True)]


def tabulate_handovers(world: World) -> Cells:
    """Rows of the table of handovers: those since the last call."""
    names = [station.name for station in world.stations]
    rows = [
        event._asdict() | {"source": names[event.source], "target": names[event.target]}
        for event in world.drain_handovers()
    ]
    return to_columns("handovers", rows)


def _format_microseconds(time_s: FloatArray) -> NDArray[np.str_]:
    """Times (n,) as cells, which after weeks need more digits than others have for durations of
    milliseconds.
    """
    texts = [f"{t:.6f}" if np.isfinite(t) else "" for t in time_s.tolist()]
    return np.array([text.rstrip("0").rstrip(".") for text in texts], dtype=str)


def compute_homes_named_percent(rows: TableRows, home_m: FloatArray, hit_radius_m: float) -> float:
    """Share of UEs with a home in an attack's rows of `leakage` whose home it names now; NaN where
    none has one.
    """
    away_m = {
        row["ue"]: row["home_named_m"] for row in rows if np.isfinite(home_m[row["ue"]]).all()
    }
    if away_m:
        return 100.0 * np.mean([m <= hit_radius_m for m in away_m.values()])
    return float("nan")


def _write_grid(
    recorder: Recorder, world: World, learning: Learning, outcome: RoundOutcome
) -> None:
    """grid.npz, of the latest round: true and learnt heights, and the first row's update as made
    and as received.

    roof_m, height_m, made, sent (ny, nx); place_m (2,) where that row's UE was; area_m (4,).
    Nothing for a learner without a grid, or where no UE sent.
    """
    model = outcome.state.model
    grid = learning.learner.get_update_grid(model)
    merges = [merge for merge in outcome.merges if merge.phase == learning.learner.grid_phase]
    if grid is None or not merges or not len(merges[0].uploads.ue):
        return
    uploads = merges[0].uploads
    first = np.zeros(1, dtype=int)
    layers = {
        "roof_m": world.buildings.find_height_m(grid.place_m),
        "height_m": model.parameters[0, : len(grid)],
        "made": uploads.made.rows(first)[0],
        "sent": uploads.to_received().updates.rows(first)[0],
    }
    maps = {name: value.reshape(grid.ny, grid.nx) for name, value in layers.items()}
    frame = np.concatenate([grid.area.low_m, grid.area.high_m])
    with open_replacement(recorder.folder / "grid.npz") as file:
        np.savez(file, place_m=outcome.collected.local.average_x()[0], area_m=frame, **maps)


def _summarise_round(
    learning: Learning, outcome: RoundOutcome, scores: Metrics, diagnosis: Metrics
) -> Row:
    taken = outcome.collected.taken
    local = outcome.collected.local
    uploads = [merged.uploads for merged in outcome.merges]
    channel = uploads[0].channel.join([upload.channel for upload in uploads])
    nan = float("nan")
    statements = outcome.state.ledger.list_statements()
    per_m = [s.epsilon.max() for s in statements if s.unit == LOCATION]
    epsilon = [s.epsilon.max() for s in statements if s.unit != LOCATION]
    energy_j = [float(upload.channel.energy_j[upload.first_rows].sum()) for upload in uploads]
    round_scores = learning.learner.evaluate(outcome.state.model, taken.held_out.usual)
    arrival_s = channel.delay_s[np.isfinite(channel.delay_s)]
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
        "non_finite": sum((~upload.finite).sum() for upload in uploads),
        "update_norm": _compute_median(uploads[-1].made.norm()),
        "step_stability": diagnosis.get("step_stability", nan),
        "rmse_round_db": round_scores.get("rmse_db", nan),
        "epsilon_max": max(epsilon) if epsilon else None,
        "epsilon_per_m_max": max(per_m) if per_m else None,
        "energy_j": sum(energy_j),
        "late": channel.late.sum(),
        "latency_s": arrival_s.max(initial=0.0),
    }


def _list_metrics(learning: Learning, state: RoundState, scores: Metrics) -> TableRows:
    """One row a figure: what the learner says besides the columns of `rounds`, and what parts say
    of themselves.
    """
    parts = state.parts
    others = {name: value for name, value in scores.items() if name not in TABLES["rounds"]}
    figures = [
        ("learner", others),
        ("query", learning.request_policy.figures(parts["query"])),
        ("aggregation", learning.aggregation.figures(parts["aggregation"])),
        *((d.label, d.collect_figures(parts[d.word])) for d in learning.defenses),
    ]
    return _list_figures(figures) + list_attack_metrics(learning, state)


def list_attack_metrics(learning: Learning, state: RoundState) -> TableRows:
    """One row a figure that attacks say of themselves."""
    attacks = learning.attacks
    return _list_figures([(a.label, a.figures(state.parts[a.word])) for a in attacks])


def _list_figures(figures: list[tuple[str, Metrics]]) -> TableRows:
    return [
        {"part": label, "name": name, "value": value}
        for label, values in figures
        for name, value in values.items()
    ]


def _compute_median(values: ArrayLike) -> float:
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    if len(finite):
        return np.median(finite)
    return float("nan")


def measure_utility(
    learning: Learning, state: RoundState, held_out: HeldOut, world: World
) -> Metrics:
    """Figures of the model now, and of a known law where UEs have one."""
    scores = learning.learner.evaluate(state.model, held_out)
    return scores | learning.learner.evaluate_against(state.model, held_out, world.mobility.density)

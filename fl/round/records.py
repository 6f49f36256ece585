"""From a round's values to rows of the record tables, and to the figures that progress shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fl.data.base import Taken
from fl.learners.base import FirstLayerLearner, GridLearner, SurfaceLearner
from fl.learning import Learning
from fl.privacy import ledger
from fl.round.baselines import Reference
from fl.round.tables import TABLES
from fl.types import AnySpend, Curated, Estimates, Facts, HeldOut, Local, MetricSpend, Model, Updates
from netsim.record import Recorder
from netsim.safe import replacing
from netsim.units import FloatArray, db_from_ratio
from netsim.world import World

if TYPE_CHECKING:
    from fl.round.state import Carry, Phase


def write(
    recorder: Recorder,
    world: World,
    learning: Learning,
    carry: Carry,
    taken: Taken,
    local: Local,
    curated: dict[str, tuple[Local, Curated]],
    phases: list[Phase],
    spends: list[AnySpend],
    leaks: list[dict[str, Any]],
    audited: list[dict[str, Any]],
    facts: Facts,
    *,
    refused: int,
    before: Model,
) -> dict[str, Any]:
    """Append all rows of a round; returns the row of `rounds` with the round's median leakage per attack.

    What devices and links do is stamped with the server's request; an update with its own arrival; the model, and what
    is said of it, with the merge, when the last update that counts has come; an attack with when it was made.
    """
    asked = {"round": facts.round, "time_s": facts.time_s}
    when = {**asked, "time_s": phases[-1].merged_s}
    attacked = {**asked, "time_s": max(p.attacked_s for p in phases)}
    scores = utility(learning, carry, carry.held_out.thinned(learning.learner.most_held_out), world)
    diagnosis = learning.learner.diagnose(before, local)
    figures = {
        **when,
        "requested_s": facts.time_s,
        **{name: scores.get(name, float("nan")) for name in ("rmse_db", "constant_rmse_db", "raw_upload_rmse_db")},
        **_round(learning, carry, taken, local, phases, refused, diagnosis),
    }
    recorder.row("rounds", **figures)
    recorder.write("figures", _figures(when, learning, carry, scores | diagnosis))
    for step, (before_step, done) in curated.items():
        recorder.write("curation", _curation(asked, step, before_step, done))
    for phase in phases:
        recorder.write("updates", _updates(facts.round, taken, local, phase, learning, before))
        for label, estimates in phase.estimates.items():
            recorder.write("estimates", _estimates(facts.round, phase, label, estimates))
        if phase.overheard is not None:
            recorder.write("overheard", _overheard(facts.round, phase))
    recorder.write("links", _links(asked, world, phases[-1]))
    recorder.write("leakage", _columns("leakage", [{**attacked, **row} for row in leaks]))
    recorder.write("membership", _columns("membership", [{**attacked, **row} for row in audited]))
    recorder.write("handovers", _handovers(world))
    if isinstance(learning.learner, GridLearner):
        _keep_grid(recorder.folder, world, learning.learner, carry.model, local, phases)
    recorder.write("spends", _spends(when, carry, spends))
    figures["scores"] = scores
    figures["leakage"] = {
        a.label: _median([r["error_m"] for r in leaks if r["attack"] == a.label]) for a in learning.attacks
    }
    return figures


def _keep_grid(
    folder: Path, world: World, learner: GridLearner, model: Model, local: Local, phases: list[Phase]
) -> None:
    """grid.npz, of the latest round: true and learnt heights, and the first row's update as made and as received.

    roof_m, height_m, made, sent (ny, nx); place_m (2,) where that row's UE was; area_m (4,).
    """
    grid = learner.grid(model)
    phase = next(p for p in phases if p.name == learner.grid_phase)
    if not len(phase.made.ue):
        return
    first, shape, area = np.zeros(1, dtype=np.int64), (grid.ny, grid.nx), grid.area
    found = {
        "roof_m": world.buildings.height_at(grid.centre_m),
        "height_m": model.parameters[0, : len(grid)],
        "made": phase.made.rows(first)[0],
        "sent": phase.received.updates.rows(first)[0],
    }
    maps = {name: value.reshape(shape) for name, value in found.items()}
    frame = np.array([area.x_min_m, area.y_min_m, area.x_max_m, area.y_max_m])
    with replacing(folder / "grid.npz") as file:
        np.savez(file, place_m=local.mean_x()[0], area_m=frame, **maps)


def _round(
    learning: Learning,
    carry: Carry,
    taken: Taken,
    local: Local,
    phases: list[Phase],
    refused: int,
    diagnosis: dict[str, float],
) -> dict[str, Any]:
    """The row of `rounds`, without its time."""
    last = phases[-1]
    spent = ledger.statements(carry.ledger)
    epsilon = [float(s.epsilon.max()) for s in spent if s.unit != ledger.LOCATION]
    per_m = [float(s.epsilon.max()) for s in spent if s.unit == ledger.LOCATION]
    return {
        "ues": len(np.unique(local.ue)),
        "samples": len(taken.measured.x),
        "selected": len(local.x),
        "refused": refused,
        "decoded": int(sum(p.received.decoded.sum() for p in phases)),
        "non_finite": sum(p.non_finite for p in phases),
        "update_norm": _median(last.made.norm()),
        "step_stability": diagnosis.get("step_stability", float("nan")),
        "rmse_round_db": learning.learner.evaluate(carry.model, taken.held_out).get("rmse_db", float("nan")),
        "epsilon_max": max(epsilon) if epsilon else None,
        "epsilon_per_m_max": max(per_m) if per_m else None,
        "energy_j": float(sum(_energy_j(p) for p in phases)),
        "late": int(sum(p.channel.late.sum() for p in phases)),
        "delay_s": _longest(np.concatenate([p.channel.delay_s for p in phases])),
    }


def _energy_j(phase: Phase) -> float:
    """What all UEs of a phase spent: a UE's channel has its energy for all its rows, and stands at each of them."""
    _, first = np.unique(phase.made.ue, return_index=True)
    return float(phase.channel.energy_j[first].sum())


def utility(learning: Learning, carry: Carry, held_out: HeldOut, world: World) -> dict[str, float]:
    """Figures of the model now, of its references where signals are learnt, and of a known law where UEs have one."""
    learner = learning.learner
    found = learner.evaluate(carry.model, held_out)
    if isinstance(learner, SurfaceLearner):
        grid = learner.grid_m(carry.model)
        law = world.mobility.density(grid.reshape(-1, 2))
        if law is not None:
            found |= learner.compare(carry.model, held_out, law.reshape(grid.shape[:2]))
    return found | (Reference.evaluate(carry.reference, held_out) if "signals" in learning.data.offers else {})


def _figures(when: dict[str, Any], learning: Learning, carry: Carry, scores: dict[str, float]) -> dict[str, Any]:
    """One row a figure: what the learner says besides the columns of `rounds`, and what parts say of themselves."""
    said = [("learner", name, value) for name, value in scores.items() if name not in TABLES["rounds"]]
    said += [("query", name, value) for name, value in learning.query.figures(carry.parts["query"]).items()]
    own = learning.aggregation.figures(carry.parts["aggregation"])
    said += [("aggregation", name, value) for name, value in own.items()]
    for slot, parts in (("defense", learning.defenses), ("attack", learning.attacks)):
        for part in parts:
            own = part.figures(carry.parts[f"{slot}.{part.label}"])
            said += [(part.label, name, value) for name, value in own.items()]
    rows = [{**when, "part": part, "name": name, "value": value} for part, name, value in said]
    return _columns("figures", rows)


def _longest(delay_s: FloatArray) -> float:
    """The longest finite turn."""
    return float(delay_s[np.isfinite(delay_s)].max(initial=0.0))


def _median(values: Any) -> float:
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    return float(np.median(finite)) if len(finite) else float("nan")


def _columns(table: str, rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {c: [row[c] for row in rows] for c in TABLES[table]}


def _curation(when: dict[str, Any], step: str, before: Local, done: Curated) -> dict[str, Any]:
    n = len(before.ue)
    unknown = np.full(n, -1)
    return {
        "round": [when["round"]] * n,
        "time_s": [when["time_s"]] * n,
        "step": [step] * n,
        "ue": before.ue,
        "model": before.model,
        "before": before.count,
        "after": done.local.count,
        "clusters": unknown if done.clusters is None else done.clusters,
        "noise": unknown if done.noise is None else done.noise,
        "fallback": np.zeros(n, dtype=bool) if done.fallback is None else done.fallback,
    }


def _updates(
    number: int, taken: Taken, local: Local, phase: Phase, learning: Learning, before: Model
) -> dict[str, Any]:
    made, sent = phase.made, phase.received.updates
    n = len(made.ue)
    key = {(u, m): i for i, (u, m) in enumerate(zip(*_pairs(taken.measured), strict=True))}
    row = np.array([key[p] for p in zip(*_pairs(local), strict=True)], dtype=np.int64)
    truth, selected = _centroids(learning, taken.measured)[row], _centroids(learning, local)
    return {
        "round": [number] * n,
        "time_s": phase.arrived_s,
        "phase": [phase.name] * n,
        "ue": made.ue,
        "model": made.model,
        "samples": taken.measured.count[row],
        "selected": local.count,
        "x_m": truth[:, 0],
        "y_m": truth[:, 1],
        "selected_x_m": selected[:, 0],
        "selected_y_m": selected[:, 1],
        "norm": made.norm(),
        "sent_norm": sent.norm(),
        "bias_rms": _bias_rms(learning, made),
        "bound_m": _bound_m(learning, before, local),
        "decoded": phase.received.decoded,
        "weight": phase.weights,
    }


def _centroids(learning: Learning, local: Local) -> FloatArray:
    """Where the samples of each row are on average (n, 2), metres; NaN for samples without a place."""
    placed = "positions" in learning.data.offers
    return local.mean_x().reshape(-1, 2) if placed else np.full((len(local.ue), 2), np.nan)


def _pairs(rows: Local) -> tuple[list[int], list[int]]:
    return rows.ue.tolist(), rows.model.tolist()


def _bound_m(learning: Learning, before: Model, local: Local) -> FloatArray:
    """Theorem 1's bound, where the learner has one."""
    learner = learning.learner
    if not isinstance(learner, FirstLayerLearner) or not learning.attacks:
        return np.full(len(local.ue), np.nan)
    return learner.centroid_bound_m(before, local)


def _bias_rms(learning: Learning, made: Updates) -> FloatArray:
    """How strong the first layer's bias gradient is: what the closed-form attack divides by."""
    learner = learning.learner
    if not isinstance(learner, FirstLayerLearner):
        return np.full(len(made.ue), np.nan)
    rows = made.rows(slice(None))
    step = getattr(learner, "learning_rate", 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.sqrt((learner.first_layer(rows)[1] ** 2).mean(axis=1)) / step)


def _overheard(number: int, phase: Phase) -> dict[str, Any]:
    """One row a UE that the eavesdropper could hear."""
    spied = phase.overheard
    if spied is None:
        raise ValueError("nobody overheard")
    ue, first = np.unique(phase.made.ue, return_index=True)
    return {
        "round": [number] * len(ue),
        "time_s": phase.arrived_s[first],
        "phase": [phase.name] * len(ue),
        "ue": ue,
        "distance_m": spied.distance_m,
        "los": spied.los,
        "sinr_db": db_from_ratio(spied.channel.sinr[first]),
        "noise_std": spied.channel.noise_std[first],
        "decoded": spied.channel.decoded[first],
    }


def _estimates(number: int, phase: Phase, label: str, found: Estimates) -> dict[str, Any]:
    n, self_test_m = len(found.ue), phase.self_tests.get(label)
    return {
        "round": [number] * n,
        "time_s": [phase.attacked_s] * n,
        "phase": [phase.name] * n,
        "attack": [label] * n,
        "ue": found.ue,
        "model": found.model,
        "what": found.what,
        "x_m": found.position_m[:, 0],
        "y_m": found.position_m[:, 1],
        "weight": found.weight,
        "loss": found.loss,
        "iterations": found.iterations,
        "evaluations": found.evaluations,
        "status": found.status,
        "self_test_m": np.full(n, np.nan if self_test_m is None else self_test_m),
    }


def _links(when: dict[str, Any], world: World, phase: Phase) -> dict[str, Any]:
    """One row a transmitting UE: where it was at the deadline, and its uplink."""
    ue, first = np.unique(phase.made.ue, return_index=True)
    links, position, channel = world.links(), world.position_m()[ue], phase.channel
    serving = world.serving(links)[ue]
    has = serving >= 0
    pick = np.where(has, serving, 0)

    def of_serving(values: FloatArray) -> FloatArray:
        return np.where(has, values[ue, pick], np.nan) if values.shape[1] else np.full(len(ue), np.nan)

    return {
        "round": [when["round"]] * len(ue),
        "time_s": [when["time_s"]] * len(ue),
        "ue": ue,
        "x_m": position[:, 0],
        "y_m": position[:, 1],
        "base_station": [world.stations[s].name if h else "" for s, h in zip(serving, has, strict=True)],
        "distance_m": of_serving(links.distance_m),
        "rsrp_dbm": of_serving(links.rsrp_dbm),
        "power_w": channel.power_w[first],
        "sinr_db": db_from_ratio(channel.sinr[first]),
        "noise_std": channel.noise_std[first],
        "rate_bps": channel.rate_bps[first],
        "airtime_s": channel.airtime_s[first],
        "delay_s": channel.delay_s[first],
        "energy_j": channel.energy_j[first],
        "decoded": channel.decoded[first],
        "late": channel.late[first],
    }


def _handovers(world: World) -> dict[str, Any]:
    """The handovers since the last round."""
    events = world.drain_handovers()
    return {
        "time_s": [e.time_s for e in events],
        "ue": [e.ue for e in events],
        "source": [world.stations[e.source].name for e in events],
        "target": [world.stations[e.target].name for e in events],
        "source_dbm": [e.source_dbm for e in events],
        "target_dbm": [e.target_dbm for e in events],
    }


def _spends(when: dict[str, Any], carry: Carry, spends: list[AnySpend]) -> dict[str, Any]:
    """One row a noise draw and UE, with what the UE has spent on that mechanism so far."""
    so_far = {(s.mechanism, s.unit, s.relation, s.delta): s for s in ledger.statements(carry.ledger)}
    rows = []
    for s in spends:
        account = ledger.account(s)
        said = so_far[account]
        _, unit, relation, delta = account
        for i, ue in enumerate(s.ue):
            row = {**when, "mechanism": s.mechanism, "ue": ue, "model": s.model[i], **_drawn(s, i)}
            row |= {"unit": unit, "relation": relation, "delta": delta}
            rows.append({**row, "epsilon": said.epsilon[ue], "epsilon_with_channel": said.with_channel[ue]})
    return _columns("spends", rows)


def _drawn(spend: AnySpend, i: int) -> dict[str, Any]:
    """What was drawn, in the words of its mechanism."""
    unsaid = ("std", "sensitivity", "noise_multiplier", "sampling_rate", "channel_std", "epsilon_per_m")
    columns = dict.fromkeys(unsaid, float("nan"))
    if isinstance(spend, MetricSpend):
        return {**columns, "points": spend.points[i], "epsilon_per_m": spend.epsilon_per_m[i]}
    std, sensitivity = spend.std[i], spend.sensitivity[i]
    return {
        **columns,
        "points": 0,
        "std": std,
        "sensitivity": sensitivity,
        "noise_multiplier": std / sensitivity,
        "sampling_rate": spend.sampling_rate,
        "channel_std": 0.0 if spend.channel_std is None else spend.channel_std[i],
    }

"""The summary: one flat object of stable dotted names, computed from a run folder's tables alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fl.learners.density import Density
from netsim.safe import what_is
from scenarios.app.results.folder import MANIFEST, PLAN, read_json, read_table
from scenarios.app.results.run import Table
from scenarios.app.results.statistics import mean_of, median_of, quantile_of
from scenarios.app.results.summary_keys import OF_PLACES
from scenarios.app.results.summary_leakage import (
    anywhere_m,
    attack_keys,
    baseline_keys,
    effort_keys,
    heard_keys,
    last_of,
    on_grid_m,
    reached_keys,
)
from scenarios.app.study.study import Study

USELESS_ABOVE_DB = 2.0  # a map this much worse than a constant says nothing about privacy either
USEFUL_RANKS = 0.2  # nor does a density whose order of places is hardly better than chance


def summarise(folder: Path, study: Study) -> dict[str, Any]:
    """All figures of a run (see KEYS)."""
    rounds, updates = read_table(folder, "rounds"), read_table(folder, "updates")
    leakage, estimates = read_table(folder, "leakage"), read_table(folder, "estimates")
    transport, all_updates = read_table(folder, "transport"), updates
    ues = read_table(folder, "ues")
    targets = _targets(study, ues, updates)
    leakage, estimates, updates, transport = (_of(t, targets) for t in (leakage, estimates, updates, transport))
    manifest = read_json(folder / MANIFEST)
    found: dict[str, Any] = {
        "ues.count": len(ues["ue"]),
        "rounds.played": len(rounds["round"]),
        "rounds.empty": manifest["empty_rounds"],
        "rounds.stopped_by_budget": manifest["stopped_by_budget"],
        "samples.count": int(rounds["samples"][: 1 if study.learning.data.surveys_once else None].sum()),
        "samples.selected": int(rounds["selected"].sum()),
        "updates.sent": len(all_updates["ue"]),
        "updates.decoded_percent": mean_of(100.0 * all_updates["decoded"]),
        "updates.late_percent": _share(rounds["late"].sum(), len(all_updates["ue"])),
        "updates.non_finite": int(rounds["non_finite"].sum()),
    }
    found |= _refused(rounds, read_table(folder, "figures"))
    modelled = study.world.radio.handover is not None
    found |= _uplink(read_table(folder, "links"), rounds)
    found |= _planned(folder / PLAN)
    found["uplink.handovers"] = len(read_table(folder, "handovers")["ue"]) if modelled else None
    found |= _utility(read_table(folder, "final"), rounds) | _figures(read_table(folder, "figures"))
    found |= _users(read_table(folder, "pairs")) | _overheard(read_table(folder, "overheard"))
    found |= _fallbacks(read_table(folder, "curation"))
    found["theorem.bound_m.median"] = median_of(updates["bound_m"])
    x0, y0, x1, y1 = manifest["area_m"]
    middle = np.hypot(updates["x_m"] - (x0 + x1) / 2, updates["y_m"] - (y0 + y1) / 2)
    found["baseline.area_centre.error_m"] = median_of(middle)
    learner = study.learning.learner
    if isinstance(learner, Density) and len(leakage["ue"]):
        found["baseline.anywhere.error_m"] = on_grid_m(heard_keys(updates, leakage), learner, (x0, y0, x1, y1))
    else:
        found["baseline.anywhere.error_m"] = anywhere_m(updates, (x0, y0, x1, y1))
    if study.learning.attacks:
        found |= baseline_keys(leakage, study.learning.attacks[0].label)
    near, homes = study.learning.leakage.near_m, with_home(ues)
    for attack in study.learning.attacks:
        mine = {k: v[leakage["attack"] == attack.label] for k, v in leakage.items()}
        effort = {k: v[estimates["attack"] == attack.label] for k, v in estimates.items()}
        values = attack_keys(mine) | _homes(mine, homes, near) | effort_keys(effort)
        exact = {k: v[transport["attack"] == attack.label] for k, v in transport.items()}
        values |= {k: mean_of(exact[k]) for k in ("w1_m", "centroid_w1_m")}
        for key, gated in (("centroid_error_m.median", "centroid_error_m"), ("emd_sqrt_m", "emd_sqrt_m")):
            values[f"gated_{gated}"] = float("nan") if found["utility.useful"] is False else values[key]
        found |= {f"attack.{attack.label}.{k}": v for k, v in values.items()}
    found |= (
        _membership(read_table(folder, "membership"))
        | _privacy(read_table(folder, "privacy"))
        | _moved(read_table(folder, "spends"))
    )
    if "positions" in study.learning.data.offers:
        return found
    return {key: value for key, value in found.items() if not key.startswith(OF_PLACES)}


def _targets(study: Study, ues: Table, updates: Table) -> np.ndarray | None:
    """Indices of the UEs that the summary's leakage speaks of, None for all."""
    target = study.learning.leakage.target
    if target == "all":
        return None
    if target == "most-data":
        ue, at = np.unique(updates["ue"], return_inverse=True)
        return ue[[np.argmax(np.bincount(at, weights=updates["samples"]))]] if len(ue) else np.zeros(0)
    return np.asarray(ues["ue"][ues["name"] == target])


def _of(table: Table, ues: np.ndarray | None) -> Table:
    """Rows of some UEs."""
    if ues is None:
        return table
    mine = np.isin(table["ue"], ues)
    return {k: v[mine] for k, v in table.items()}


def _refused(rounds: Table, figures: Table) -> dict[str, Any]:
    """What the UEs' own policies refused, and for which reasons."""
    refused, asked = rounds["refused"], rounds["refused"] + rounds["ues"]
    found = {
        "refused.count": int(refused.sum()),
        "refused.asked": int(asked.sum()),
        "refused.rounds": int((refused > 0).sum()),
        "refused.everybody_rounds": int(((refused > 0) & (refused == asked)).sum()),
        "refused.most": int(refused.max(initial=0)),
    }
    for name in dict.fromkeys(figures["name"][figures["part"] == "query"].tolist()):
        count = figures["value"][(figures["part"] == "query") & (figures["name"] == name)].sum()
        if name.startswith("refused_") and count > 0:
            found[f"refused.reason.{name.removeprefix('refused_')}"] = int(count)
    return found


def _fallbacks(curation: Table) -> dict[str, Any]:
    """How often steps of curation could not do what they are for: all together, and each by itself."""
    found = {"curation.fallback_percent": mean_of(100.0 * curation["fallback"])}
    for step in dict.fromkeys(curation["step"].tolist()):
        found[f"curation.{step}.fallback_percent"] = mean_of(100.0 * curation["fallback"][curation["step"] == step])
    return found


def _users(pairs: Table) -> dict[str, Any]:
    away = pairs["emd_sqrt_m"]
    return {
        "users.pair_emd_sqrt_m.median": median_of(away),
        "users.pair_emd_sqrt_m.min": quantile_of(away, 0.0),
        "users.pair_emd_sqrt_m.max": quantile_of(away, 1.0),
    }


def _planned(path: Path) -> dict[str, Any]:
    """What the study's plan found, if it has one."""
    said = read_json(path) if what_is(path) else {}
    return {f"plan.{key}": value for key, value in said.items() if not isinstance(value, str | list)}


def _overheard(rows: Table) -> dict[str, Any]:
    return {
        "overheard.decoded_percent": mean_of(100.0 * rows["decoded"]),
        "overheard.sinr_db.median": median_of(rows["sinr_db"]),
    }


def _uplink(links: Table, rounds: Table) -> dict[str, Any]:
    return {
        "uplink.sinr_db.median": median_of(links["sinr_db"]),
        "uplink.delay_s.median": median_of(links["delay_s"]),
        "uplink.energy_j": float(rounds["energy_j"].sum()),
        "uplink.noise_std.median": median_of(links["noise_std"]),
    }


def _share(part: float, whole: float) -> float:
    """Percent; NaN of nothing."""
    return 100.0 * float(part) / whole if whole else float("nan")


def _utility(final: Table, rounds: Table) -> dict[str, Any]:
    last = dict(zip(final["name"].tolist(), final["value"].tolist(), strict=True))
    reference = last.get("constant_rmse_db", float("nan"))
    useful = last.get("rmse_db", float("nan")) <= reference + USELESS_ABOVE_DB if np.isfinite(reference) else None
    if "rank_correlation" in last:
        useful = bool(last["rank_correlation"] >= USEFUL_RANKS)
    if "accuracy_percent" in last:
        useful = bool(last["accuracy_percent"] > last["constant_accuracy_percent"])
    this_round = float(rounds["rmse_round_db"][-1]) if len(rounds["round"]) else float("nan")
    first = np.flatnonzero(rounds["rmse_db"] <= rounds["constant_rmse_db"] + USELESS_ABOVE_DB)
    found: dict[str, Any] = {f"utility.{n}": v for n, v in last.items()}
    return found | {
        "utility.useful": useful,
        "utility.useful_round": int(rounds["round"][first[0]]) if len(first) else None,
        "utility.round_rmse_db": this_round,
    }


def _figures(figures: Table) -> dict[str, Any]:
    """Last value of every figure, and its mean and deviation over the last 20 rounds that have it."""
    found = {}
    for part, name in dict.fromkeys(zip(figures["part"].tolist(), figures["name"].tolist(), strict=True)):
        value = figures["value"][(figures["part"] == part) & (figures["name"] == name)]
        late = value[-20:]
        found[f"figure.{part}.{name}.last"] = float(value[-1])
        with np.errstate(over="ignore"):  # a model that has diverged
            found[f"figure.{part}.{name}.last20_mean"] = float(np.mean(late))
            found[f"figure.{part}.{name}.last20_std"] = float(np.std(late))
    return found


def with_home(ues: Table) -> np.ndarray:
    """Indices of the UEs that have a home."""
    return np.asarray(ues["ue"][np.isfinite(ues["home_x_m"])])


def _homes(rows: Table, homes: np.ndarray, near_m: float) -> dict[str, Any]:
    """How near home and work an attack comes, over the UEs that have a home and that it was after.

    All rows of a UE in a round say the same: they are of all its models together.
    """
    rows = {k: v[np.isin(rows["ue"], homes)] for k, v in rows.items()}
    last = last_of(rows, np.zeros(len(rows["ue"])))
    found: dict[str, Any] = {}
    for name in ("home_m", "work_m", "home_named_m", "work_named_m"):
        away = np.where(np.isnan(last[name]), np.inf, last[name])
        found[name] = quantile_of(away, 0.5)
        if name.startswith("home"):
            found[name.replace("_m", "_worst_m")] = quantile_of(away, 0.0)
    found["guess_home_m"] = median_of(last["guess_home_m"])
    for column, what in (("home_m", "within"), ("home_named_m", "named")):
        found |= reached_keys(rows, column, near_m, f"home_{what}_{near_m:g}m")
    return found


def _membership(table: Table) -> dict[str, Any]:
    """The last audit of each attack, and the largest area of all."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(table["attack"].tolist()):
        mine = {k: v[table["attack"] == name] for k, v in table.items()}
        said = {key: float(mine[key][-1]) for key in ("auc", "auc_low", "auc_high", "tpr_percent")}
        said["auc_largest"] = quantile_of(mine["auc"][np.isfinite(mine["auc"])], 1.0)
        found |= {f"membership.{name}.{key}": value for key, value in said.items()}
    return found


def _privacy(account: Table) -> dict[str, Any]:
    """The worst UE of each account; of one name the one that spent most."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(account["mechanism"].tolist()):
        mine = {k: v[account["mechanism"] == name] for k, v in account.items()}
        for key in ("epsilon", "naive", "zcdp", "rdp"):  # an empty cell is no finite epsilon
            mine[key] = np.nan_to_num(mine[key], nan=np.inf)
        mine["with_channel"] = _believed(mine)
        worst = int(np.argmax(mine["epsilon"]))
        accountants = ("epsilon", "naive", "zcdp", "rdp", "with_channel")
        said = {f"{key}_max": quantile_of(mine[key][~np.isnan(mine[key])], 1.0) for key in accountants}
        said["delta"] = float(mine["delta"][worst])
        found |= {f"privacy.{name}.{key}": value for key, value in said.items()}
    return found


def _believed(rows: Table) -> np.ndarray:
    """Epsilon with the channel of each row (n,) of one mechanism; NaN in all where no channel adds any noise.

    In an account that has the figure an empty cell is an infinite one; in one that has none the channel changes
    nothing, and it is the epsilon.
    """
    found = rows["with_channel"]
    if not np.isfinite(found).any():
        return found
    who = list(zip(*(rows[k].tolist() for k in ("unit", "relation", "delta")), strict=True))
    counted = {w for w, value in zip(who, found, strict=True) if np.isfinite(value)}
    own = np.where([w in counted for w in who], np.inf, rows["epsilon"])
    return np.where(np.isfinite(found), found, own)


def _moved(spends: Table) -> dict[str, Any]:
    """Largest epsilon per metre of each mechanism that moved locations."""
    moved = spends["unit"] == "location"
    names = dict.fromkeys(spends["mechanism"][moved].tolist())
    worst = {n: np.max(spends["epsilon"][moved & (spends["mechanism"] == n)]) for n in names}
    return {f"privacy.{name}.epsilon_per_m_max": float(value) for name, value in worst.items()}

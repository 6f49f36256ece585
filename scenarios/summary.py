"""The summary: one flat object of stable dotted names, computed from a run folder's tables alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fl.learners.density import Density
from netsim.safe import what_is
from scenarios.folder import MANIFEST, PLAN, read_json, read_table
from scenarios.study import Study

Table = dict[str, np.ndarray]

USELESS_ABOVE_DB = 2.0  # a map this much worse than a constant says nothing about privacy either
_TOGETHER = 2_000_000  # distances held at once
USEFUL_RANKS = 0.2  # nor does a density whose order of places is hardly better than chance

_OF_PLACES = (  # keys that say nothing where samples have no place
    "users.", "baseline.", "theorem.", "utility.round_rmse_db", "utility.useful_round",
)  # fmt: skip

KEYS: dict[str, str] = {
    "ues.count": "UEs in the world",
    "rounds.played": "rounds that were played: somebody had data, or the server adds noise in every round",
    "rounds.empty": "rounds that were not played, for nobody had data",
    "rounds.stopped_by_budget": "whether learning ended because the next round would have exceeded learning.stop_at",
    "samples.count": "measurements of all played rounds; those of a survey that is learnt from for ever count once",
    "samples.selected": "samples learnt from",
    "refused.count": "requests that UEs' own policies refused, all rounds",
    "refused.asked": "requests that they judged",
    "refused.rounds": "rounds in which some UE refused",
    "refused.everybody_rounds": "rounds in which every UE that was asked refused",
    "refused.most": "UEs that refused in the round in which most did",
    "refused.reason.NAME": "requests refused for this reason; one may be refused for several",
    "updates.sent": "updates that devices sent",
    "updates.decoded_percent": "share of them that the server heard in time",
    "updates.late_percent": "share of updates that came after the deadline and are lost",
    "updates.non_finite": "updates that overflowed and were replaced by zero",
    "uplink.sinr_db.median": "median uplink SINR over UEs and rounds, dB; null for an ideal uplink",
    "uplink.delay_s.median": "median turn from the server's request to the last bit, seconds",
    "uplink.energy_j": "energy of all uplinks and all training, joules",
    "uplink.noise_std.median": "median noise that decoding added to each number of an update",
    "uplink.handovers": "handovers of all UEs; null where handover is not modelled (every UE hears its strongest cell)",
    "plan.switch_round": "rounds after which the plan has the channel's noise take over (T_th)",
    "plan.objective": "the bound at the planned powers",
    "plan.total_w": "planned power of all UEs together, watts",
    "plan.noise_w": "noise power of the receiver, watts",
    "plan.own_switch_round": "the switch at the power of the reference run",
    "plan.own_objective": "the bound there",
    "plan.own_total_w": "that power of all UEs together, watts",
    "plan.evaluations": "evaluations of the bound that finding the plan took",
    "utility.rmse_db": "error of the final model on all held-out samples, dB",
    "utility.constant_rmse_db": "error of the mean of the training labels, dB",
    "utility.raw_upload_rmse_db": "error of a nearest-neighbour map of raw uploads, dB",
    "utility.mape_percent": "mean size of error over label on them, percent, of labels in dBm",
    "utility.constant_mape_percent": "the same of the mean of the training labels",
    "utility.useful_round": "first round whose model was useful on its samples so far; null for none",
    "utility.useful": "whether the model is at most 2 dB worse than a constant, a density's rank correlation at least "
    "0.2, or classes are told better than by naming the commonest; if not, low leakage proves nothing and high leakage "
    "is still real",
    "utility.rank_correlation": "Spearman's rank correlation of the density, over the grid, with the exact kernel "
    "density of all places of the last round",
    "utility.truth_rank_correlation": "the same with the law by which UEs are where they are, where there is one",
    "utility.kde_truth_rank_correlation": "what the exact kernel density of all places reaches against that law",
    "utility.kde_rmse": "root mean square difference to the exact kernel density; the kernel's top is 1",
    "utility.accuracy_percent": "held-out images whose class the final model gets right",
    "utility.constant_accuracy_percent": "held-out images that naming their commonest class gets right",
    "utility.cross_entropy_nats": "mean loss of the final model on held-out images, nats",
    "utility.round_rmse_db": "error of the final model on the last round's held-out samples alone, dB",
    "users.pair_emd_sqrt_m.median": "how alike users are: square root of SW1 between two users' points, median over "
    "pairs; null for one user",
    "users.pair_emd_sqrt_m.min": "the most alike pair",
    "users.pair_emd_sqrt_m.max": "the least alike pair",
    "overheard.decoded_percent": "share of updates that the eavesdropper decoded; null without one",
    "overheard.sinr_db.median": "median uplink SINR at the eavesdropper, dB; null without one",
    "curation.fallback_percent": "share of a device's rounds in which a step of curation took its fallback",
    "curation.NAME.fallback_percent": "the same of one step",
    "theorem.bound_m.median": "Theorem 1's bound of the closed form (samples learnt from), metres; null unless FedSGD",
    "baseline.random_guess.sw1_m": "SW1 of as many random guesses as the first attack named centroids, mean over "
    "draws, UEs and models, metres",
    "baseline.random_guess.sw1_low_m": "its 5 % quantile over draws, mean over UEs and models: an attack above it may "
    "have guessed",
    "baseline.random_guess.sw1_high_m": "its 95 % quantile over draws, mean over UEs and models",
    "baseline.random_guess.emd_sqrt_m": "square root of sw1_m, the unit of the published figures",
    "baseline.area_centre.error_m": "centroid error of always naming the middle of the area, median over UEs, rounds",
    "baseline.anywhere.error_m": "distance from the centroid to a uniformly random place in the area, mean over UEs "
    "and rounds; of a density that is attacked, to the grid points in the area: what a constant answer leaves",
    "baseline.floor.sw1_m": "SW1 of a perfect attacker (the true batch centroids), mean over UEs and models",
    "attack.NAME.centroid_error_m.median": "centroid error over all UEs and rounds; a diverged one counts as infinite",
    "attack.NAME.centroid_error_m.q25": "its lower quartile",
    "attack.NAME.centroid_error_m.q75": "its upper quartile",
    "attack.NAME.centroid_error_m.mean_inside": "mean over the estimates inside the area",
    "attack.NAME.centroid_error_m.rms_inside": "root of the mean square of the same",
    "attack.NAME.centroid_error_m.last_round": "mean over the estimates inside the area of the last round",
    "attack.NAME.centroid_error_m.first_round": "median over UEs and models of the first estimate's error",
    "attack.NAME.place_error_m": "mean distance of the places that it names, by its own weights, mean over UEs and "
    "rounds (Z of the density paper)",
    "attack.NAME.places_mean": "places that it names of a UE and round",
    "attack.NAME.step_error_m": "error of a displacement between two answers, along the direction that it names, mean",
    "attack.NAME.step_still_m": "the same of saying that nobody moved",
    "attack.NAME.step_exact_percent": "share of these displacements that are right to within a metre",
    "attack.NAME.walk_error_m": "error of a UE's whole displacement since its first answer, along that direction, mean "
    "over UEs",
    "attack.NAME.walk_still_m": "the same of saying that nobody moved",
    "attack.NAME.selected_error_m.median": "error against the mean of the samples learnt from",
    "attack.NAME.diverged_percent": "share of estimates that are not finite or outside the area",
    "attack.NAME.sw1_m": "SW1 between all points and all estimates, mean over UEs and models, metres",
    "attack.NAME.emd_sqrt_m": "its square root, mean over UEs and models",
    "attack.NAME.w1_m": "exact Wasserstein distance between points and estimates at the end, mean over UEs and "
    "models, metres",
    "attack.NAME.centroid_w1_m": "the same between true batch centroids and estimates",
    "attack.NAME.gated_centroid_error_m": "median centroid error if the model is useful; null if it is not",
    "attack.NAME.gated_emd_sqrt_m": "emd_sqrt_m if the model is useful; null if it is not",
    "attack.NAME.self_test_m": "median error on updates that the attacker made itself; null if it cannot or all failed",
    "attack.NAME.failed_percent": "share of estimates with a status other than ok",
    "attack.NAME.centroid_sw1_m": "SW1 between true batch centroids and estimates, mean over UEs and models",
    "attack.NAME.smoothed_error_m": "error of the median of all estimates, median over UEs and models",
    "attack.NAME.track_error_m": "mean error of the last standing estimate, median over UEs and models",
    "attack.NAME.home_m": "distance from home to the nearest estimate of the UE in any of its models, median over the "
    "UEs that have a home; a UE of which nothing was said counts as infinitely far",
    "attack.NAME.home_worst_m": "the same of the UE that is exposed most",
    "attack.NAME.guess_home_m": "home_m expected of as many random guesses as the attack has named places of each UE",
    "attack.NAME.work_m": "distance from work to the nearest estimate, median over these UEs",
    "attack.NAME.home_named_m": "distance from home to the nearer of the two density peaks, median over these UEs",
    "attack.NAME.home_named_worst_m": "the same of the UE that is exposed most",
    "attack.NAME.work_named_m": "distance from work to the nearer of the two density peaks, median over these UEs",
    "attack.NAME.home_within_100m_round": "median over these UEs of the first round with an estimate within 100 m of "
    "home; null if it is reached for fewer than half of them",
    "attack.NAME.home_within_100m_probability": "share of these UEs for which it is ever reached",
    "attack.NAME.home_named_100m_round": "the same for the two highest density peaks",
    "attack.NAME.home_named_100m_probability": "share of these UEs for which it is ever reached",
    "attack.NAME.iterations_mean": "iterations an estimate",
    "attack.NAME.evaluations_mean": "gradient evaluations an estimate",
    "membership.NAME.auc": "area under the ROC curve of the last audit: members against held-out records",
    "membership.NAME.auc_low": "lower end of its 95 % interval",
    "membership.NAME.auc_high": "upper end",
    "membership.NAME.auc_largest": "the largest of all audits",
    "membership.NAME.tpr_percent": "members found at 1 % false positives, last audit",
    "figure.NAME.last": "figure PART.NAME of the table figures (whose, and what), in the last round that has it",
    "figure.NAME.last20_mean": "its mean over the last 20 of them",
    "figure.NAME.last20_std": "its standard deviation over the last 20",
    "privacy.NAME.epsilon_max": "largest epsilon that a UE has spent on this mechanism, all rounds composed; NAME all: "
    "on all mechanisms of one unit and relation",
    "privacy.NAME.delta": "delta of it",
    "privacy.NAME.naive_max": "the same added up round by round",
    "privacy.NAME.zcdp_max": "the same by zCDP",
    "privacy.NAME.rdp_max": "the same by RDP",
    "privacy.NAME.with_channel_max": "the same if the channel's noise counted; null without any, or where it is "
    "infinite",
    "privacy.NAME.epsilon_per_m_max": "largest epsilon per metre of a UE's moved locations, all rounds summed",
}
"""key -> what it says; NAME stands for an attack, a mechanism or a step of curation."""


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
        "updates.decoded_percent": _mean(100.0 * all_updates["decoded"]),
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
    found["theorem.bound_m.median"] = _median(updates["bound_m"])
    x0, y0, x1, y1 = manifest["area_m"]
    middle = np.hypot(updates["x_m"] - (x0 + x1) / 2, updates["y_m"] - (y0 + y1) / 2)
    found["baseline.area_centre.error_m"] = _median(middle)
    learner = study.learning.learner
    if isinstance(learner, Density) and len(leakage["ue"]):
        found["baseline.anywhere.error_m"] = _on_grid_m(_heard(updates, leakage), learner, (x0, y0, x1, y1))
    else:
        found["baseline.anywhere.error_m"] = _anywhere_m(updates, (x0, y0, x1, y1))
    if study.learning.attacks:
        found |= _baselines(leakage, study.learning.attacks[0].label)
    near, homes = study.learning.leakage.near_m, with_home(ues)
    for attack in study.learning.attacks:
        mine = {k: v[leakage["attack"] == attack.label] for k, v in leakage.items()}
        effort = {k: v[estimates["attack"] == attack.label] for k, v in estimates.items()}
        values = _attack(mine) | _homes(mine, homes, near) | _effort(effort)
        exact = {k: v[transport["attack"] == attack.label] for k, v in transport.items()}
        values |= {k: _mean(exact[k]) for k in ("w1_m", "centroid_w1_m")}
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
    return {key: value for key, value in found.items() if not key.startswith(_OF_PLACES)}


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
    found = {"curation.fallback_percent": _mean(100.0 * curation["fallback"])}
    for step in dict.fromkeys(curation["step"].tolist()):
        found[f"curation.{step}.fallback_percent"] = _mean(100.0 * curation["fallback"][curation["step"] == step])
    return found


def _users(pairs: Table) -> dict[str, Any]:
    away = pairs["emd_sqrt_m"]
    return {
        "users.pair_emd_sqrt_m.median": _median(away),
        "users.pair_emd_sqrt_m.min": _quantile(away, 0.0),
        "users.pair_emd_sqrt_m.max": _quantile(away, 1.0),
    }


def _planned(path: Path) -> dict[str, Any]:
    """What the study's plan found, if it has one."""
    said = read_json(path) if what_is(path) else {}
    return {f"plan.{key}": value for key, value in said.items() if not isinstance(value, str | list)}


def _overheard(rows: Table) -> dict[str, Any]:
    return {
        "overheard.decoded_percent": _mean(100.0 * rows["decoded"]),
        "overheard.sinr_db.median": _median(rows["sinr_db"]),
    }


def _uplink(links: Table, rounds: Table) -> dict[str, Any]:
    return {
        "uplink.sinr_db.median": _median(links["sinr_db"]),
        "uplink.delay_s.median": _median(links["delay_s"]),
        "uplink.energy_j": float(rounds["energy_j"].sum()),
        "uplink.noise_std.median": _median(links["noise_std"]),
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


def _last(table: Table, model: np.ndarray | None = None) -> Table:
    """The last row of each track (UE, model); or, with one number for all models, of each UE."""
    if not len(table["ue"]):
        return table
    track = table["ue"] * 4096 + (table["model"] if model is None else model)
    _, reverse = np.unique(track[::-1], return_index=True)
    rows = np.sort(len(track) - 1 - reverse)
    return {k: v[rows] for k, v in table.items()}


def _anywhere_m(updates: Table, area_m: tuple[float, float, float, float]) -> float:
    """Mean distance from true centroids (2,000 of them, evenly taken) to places spread evenly over the area."""
    unit = (np.arange(40) + 0.5) / 40
    x, y = (low + unit * (high - low) for low, high in zip(area_m[:2], area_m[2:], strict=True))
    return _mean_away_m(updates, x, y)


def _on_grid_m(updates: Table, learner: Density, area_m: tuple[float, float, float, float]) -> float:
    """The same to the points of a grid that lie in the area: its places are what a constant answer names."""
    low, high = np.array(learner.area_m or area_m).reshape(2, 2)
    x, y = (np.linspace(low[k], high[k], n) for k, n in enumerate((*learner.grid, 0)[:2]))
    y = y if len(y) else (low[1:] + high[1:]) / 2
    x, y = (v[(v >= area_m[k]) & (v <= area_m[k + 2])] for k, v in enumerate((x, y)))
    x, y = (v[_evenly(len(v), 100)] for v in (x, y))
    return _mean_away_m(updates, x, y)


def _mean_away_m(updates: Table, x: np.ndarray, y: np.ndarray) -> float:
    """Mean distance from true centroids (2,000 of them, evenly taken) to all points of x (p,) and y (q,)."""
    known = np.flatnonzero(np.isfinite(updates["x_m"]))
    known = known[_evenly(len(known), 2000)]
    blocks = np.array_split(known, max(1, len(known) * len(x) * len(y) // _TOGETHER))
    away = [
        np.hypot(updates["x_m"][some, None, None] - x[:, None], updates["y_m"][some, None, None] - y).mean(axis=(1, 2))
        for some in blocks
        if len(some) and len(x) and len(y)
    ]
    return _mean(np.concatenate(away)) if away else float("nan")


def _evenly(n: int, most: int) -> np.ndarray:
    """At most so many of n indices, evenly taken."""
    return np.linspace(0, n - 1, min(n, most)).astype(int) if n else np.zeros(0, dtype=int)


def _heard(updates: Table, leakage: Table) -> Table:
    """The updates of rounds, UEs and models of which an attack said something."""
    said = leakage["heard"] == 1
    theirs, every = (row_numbers(leakage)[said], row_numbers(updates))
    return {k: v[np.isin(every, theirs)] for k, v in updates.items()}


def row_numbers(table: Table) -> np.ndarray:
    """Round, UE and model of each row as one number."""
    round_, ue, model = (table[name].astype(np.int64) for name in ("round", "ue", "model"))
    # whole numbers below 2^63: a million rounds, 2^31 UEs and 4,096 models; as floats they would be rounded
    return np.asarray((round_ * 2**31 + ue) * 4096 + model)


def _baselines(leakage: Table, label: str) -> dict[str, Any]:
    last = _last({k: v[leakage["attack"] == label] for k, v in leakage.items()})
    return {
        "baseline.random_guess.sw1_m": _mean(last["guess_sw1_m"]),
        "baseline.random_guess.sw1_low_m": _mean(last["guess_sw1_low_m"]),
        "baseline.random_guess.sw1_high_m": _mean(last["guess_sw1_high_m"]),
        "baseline.random_guess.emd_sqrt_m": _mean(np.sqrt(last["guess_sw1_m"])),
        "baseline.floor.sw1_m": _mean(last["floor_sw1_m"]),
    }


def _attack(rows: Table) -> dict[str, Any]:
    heard = {k: v[rows["heard"] == 1] for k, v in rows.items()}
    error = np.where(heard["diverged"] == 1, np.inf, heard["error_m"])
    selected = np.where(heard["diverged"] == 1, np.inf, heard["selected_error_m"])
    last, first = _last(rows), _first_error(heard, error)
    return {
        "centroid_error_m.median": _quantile(error, 0.5),
        "centroid_error_m.q25": _quantile(error, 0.25),
        "centroid_error_m.q75": _quantile(error, 0.75),
        "centroid_error_m.mean_inside": _mean(error[np.isfinite(error)]),
        "centroid_error_m.rms_inside": float(np.sqrt(_mean(error**2))),
        "centroid_error_m.last_round": _mean(error[heard["round"] == heard["round"][-1]])
        if len(error)
        else float("nan"),
        "centroid_error_m.first_round": first,
        "selected_error_m.median": _quantile(selected, 0.5),
        **_places(heard),
        **_walks(heard),
        "diverged_percent": _mean(100.0 * heard["diverged"]),
        "sw1_m": _mean(last["sw1_m"]),
        "emd_sqrt_m": _mean(last["emd_sqrt_m"]),
        "centroid_sw1_m": _mean(last["centroid_sw1_m"]),
        "smoothed_error_m": _median(last["smoothed_error_m"]),
        "track_error_m": _median(last["track_error_m"]),
    }


def _places(rows: Table) -> dict[str, Any]:
    """How far the places are that an attack names; nothing for one that names none."""
    if not (rows["places"] > 0).any():
        return {}
    return {"place_error_m": _mean(rows["place_error_m"]), "places_mean": _mean(rows["places"])}


def _walks(rows: Table) -> dict[str, Any]:
    """Displacements, for an attack that says any; of the walk since the first answer, at its end."""
    some = {k: v[np.isfinite(rows["step_error_m"])] for k, v in rows.items()}
    if not len(some["ue"]):
        return {}
    end = _last(some)
    return {
        "step_error_m": _mean(some["step_error_m"]),
        "step_still_m": _mean(some["step_still_m"]),
        "step_exact_percent": _mean(100.0 * (some["step_error_m"] <= 1.0)),
        "walk_error_m": _mean(end["walk_error_m"]),
        "walk_still_m": _mean(end["walk_still_m"]),
    }


def _first_error(rows: Table, error: np.ndarray) -> float:
    """Median over tracks of the first estimate's error."""
    if not len(error):
        return float("nan")
    _, first = np.unique(rows["ue"] * 4096 + rows["model"], return_index=True)
    return _quantile(error[first], 0.5)


def with_home(ues: Table) -> np.ndarray:
    """Indices of the UEs that have a home."""
    return np.asarray(ues["ue"][np.isfinite(ues["home_x_m"])])


def _homes(rows: Table, homes: np.ndarray, near_m: float) -> dict[str, Any]:
    """How near home and work an attack comes, over the UEs that have a home and that it was after.

    All rows of a UE in a round say the same: they are of all its models together.
    """
    rows = {k: v[np.isin(rows["ue"], homes)] for k, v in rows.items()}
    last = _last(rows, np.zeros(len(rows["ue"])))
    found: dict[str, Any] = {}
    for name in ("home_m", "work_m", "home_named_m", "work_named_m"):
        away = np.where(np.isnan(last[name]), np.inf, last[name])
        found[name] = _quantile(away, 0.5)
        if name.startswith("home"):
            found[name.replace("_m", "_worst_m")] = _quantile(away, 0.0)
    found["guess_home_m"] = _median(last["guess_home_m"])
    for column, what in (("home_m", "within"), ("home_named_m", "named")):
        found |= _reached(rows, column, near_m, f"home_{what}_{near_m:g}m")
    return found


def _reached(rows: Table, column: str, near_m: float, name: str) -> dict[str, Any]:
    """First round within near_m of such a place (median over UEs), and for how many it comes."""
    ues, of_row = np.unique(rows["ue"], return_inverse=True)
    if not len(ues):
        return {f"{name}_round": None, f"{name}_probability": None}
    first = np.full(len(ues), np.inf)
    np.minimum.at(first, of_row, np.where(rows[column] <= near_m, rows["round"], np.inf))
    return {f"{name}_round": _quantile(first, 0.5), f"{name}_probability": float(np.mean(np.isfinite(first)))}


def _effort(estimates: Table) -> dict[str, Any]:
    mine = estimates["what"] == "centroid"
    return {
        "iterations_mean": _mean(estimates["iterations"][mine]),
        "evaluations_mean": _mean(estimates["evaluations"][mine]),
        "self_test_m": _median(estimates["self_test_m"][mine]),
        "failed_percent": _mean(100.0 * (estimates["status"][mine] != "ok")),
    }


def _membership(table: Table) -> dict[str, Any]:
    """The last audit of each attack, and the largest area of all."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(table["attack"].tolist()):
        mine = {k: v[table["attack"] == name] for k, v in table.items()}
        said = {key: float(mine[key][-1]) for key in ("auc", "auc_low", "auc_high", "tpr_percent")}
        said["auc_largest"] = _quantile(mine["auc"][np.isfinite(mine["auc"])], 1.0)
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
        said = {f"{key}_max": _quantile(mine[key][~np.isnan(mine[key])], 1.0) for key in accountants}
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


def _quantile(values: np.ndarray, q: float) -> float:
    """Quantile in which infinities take part: NaN (null in JSON) when it falls among them."""
    if not len(values):
        return float("nan")
    ordered = np.sort(values)
    at = q * (len(ordered) - 1)
    low, high = ordered[int(np.floor(at))], ordered[int(np.ceil(at))]
    return float(low + (at - np.floor(at)) * (high - low)) if np.isfinite(high) else float("nan")


def _finite(values: np.ndarray) -> np.ndarray:
    return np.asarray(values[np.isfinite(values)])


def _mean(values: np.ndarray) -> float:
    return float(np.mean(_finite(values))) if len(_finite(values)) else float("nan")


def _median(values: np.ndarray) -> float:
    return float(np.median(_finite(values))) if len(_finite(values)) else float("nan")

"""The few lines that a person reads first after a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from fl.defenses.budgeted import PRINTED

USELESS = "low leakage proves nothing here, high leakage is still real"
"""what privacy figures of a model say that has not learnt what it should"""
_ROUNDING_M = 1e-9  # shorter lengths are rounding errors


def headline(summary: Mapping[str, Any], account: Mapping[str, np.ndarray] | None = None) -> list[str]:
    """Utility, then one line an attack, then privacy spent; `-` where there is no figure.

    account is the table `privacy`; None where nobody drew noise.
    """
    get = summary.get
    ues, samples = get("ues.count"), "samples" if classifies(summary) else "measurements"
    lines = [
        f"{get('rounds.played')} rounds ({get('rounds.empty')} empty), {get('samples.count'):,} {samples} of "
        f"{ues} UE{'s' if ues != 1 else ''}, {_text(get('updates.decoded_percent'))} % of updates decoded",
        _worth(summary),
    ]
    if get("samples.count") == 0:
        lines.append(
            "WARNING: nobody measured anything: nothing was learnt and nothing can leak; let the world last longer, or "
            "measure more often"
        )
    for step in (key.split(".")[1] for key in summary if key.startswith("curation.") and key.count(".") == 2):
        if get(f"curation.{step}.fallback_percent") == 100:
            lines.append(
                f"WARNING: curation {step} never found a cluster and kept one random sample instead; raise eps_m, "
                "lower min_samples, or give rounds more samples"
            )
    if get("updates.non_finite"):
        lines.append(
            f"WARNING: {get('updates.non_finite')} of {get('updates.sent')} updates overflowed on the device and were "
            "replaced by zero; take a smaller learning_rate, or less noise"
        )
    lines += _refusals(summary)
    if get("updates.sent") and get("updates.decoded_percent") == 0:
        lines.append("WARNING: no update was ever decoded: the model was not trained, and no attack heard anything")
    if get("uplink.sinr_db.median") is not None:
        lines.append(
            f"uplink: SINR {_text(get('uplink.sinr_db.median'))} dB, turn {_text(get('uplink.delay_s.median'))} s "
            f"(medians), {_text(get('updates.late_percent'))} % late, {_text(get('uplink.energy_j'))} J in all, "
            + ("handover not modelled" if get("uplink.handovers") is None else f"{get('uplink.handovers')} handovers")
        )
    for name in attacks(summary):
        lines.append(_attack(summary, name))
    if "baseline.floor.sw1_m" in summary:
        lines.append(
            "references: centroid error of naming the middle of the area "
            f"{_length(get('baseline.area_centre.error_m'))} m; SW1 of a perfect attacker "
            f"{_length(get('baseline.floor.sw1_m'))} m, of random guesses "
            f"{_text(get('baseline.random_guess.sw1_m'))} m "
            f"(5 % of them below {_text(get('baseline.random_guess.sw1_low_m'))}; square root "
            f"{_text(get('baseline.random_guess.emd_sqrt_m'))})"
        )
    if get("users.pair_emd_sqrt_m.median") is not None:
        lines.append(
            "users: square root of SW1 between two of them "
            f"{_text(get('users.pair_emd_sqrt_m.median'))} (median), {_text(get('users.pair_emd_sqrt_m.min'))} to "
            f"{_text(get('users.pair_emd_sqrt_m.max'))} (see pairs.csv)"
        )
    if get("overheard.decoded_percent") is not None:
        lines.append(
            f"eavesdropper: decoded {_text(get('overheard.decoded_percent'))} % of updates, SINR "
            f"{_text(get('overheard.sinr_db.median'))} dB (median)"
        )
    if get("rounds.stopped_by_budget"):
        lines.append("stopped: the next round would have exceeded the privacy budget (learning.privacy_budget)")
    lines += [line for key in summary if (line := _account(summary, key))]
    return lines + ([] if account is None else spent_words(account, classifies(summary)))


def _refusals(summary: Mapping[str, Any]) -> list[str]:
    """How many requests the UEs' own policy refused, and why; nothing where it refused none."""
    refused, asked = summary.get("refused.count", 0), summary.get("refused.asked", 0)
    if not refused:
        return []
    rounds, everybody = summary["refused.rounds"], summary["refused.everybody_rounds"]
    played, prefix = summary["rounds.played"], "refused.reason."
    reasons = ", ".join(key.removeprefix(prefix) for key in summary if key.startswith(prefix))
    why = f" ({reasons})" if reasons else ""
    most, lines = summary["refused.most"], list[str]()
    if everybody:
        lines.append(f"WARNING: {most} of {most} UEs refused to answer in {everybody} of {played} rounds{why}")
    if rounds > everybody:
        share = _text(100.0 * refused / asked)
        lines.append(f"refused: {share} % of all requests, in {rounds} of {played} rounds{why}")
    return lines


def _account(summary: Mapping[str, Any], key: str) -> str:
    """What a key says of membership or of moved locations; empty for another."""
    get, name = summary.get, key.split(".")[1] if "." in key else ""
    if key == f"membership.{name}.auc":
        low, high, rate = (get(f"membership.{name}.{what}") for what in ("auc_low", "auc_high", "tpr_percent"))
        return (
            f"membership: {name} AUC {_text(get(key))} [{_text(low)}, {_text(high)}], finds {_text(rate)} % of the "
            "members at 1 % false positives (last audit)"
        )
    if key == f"privacy.{name}.epsilon_per_m_max":
        return f"privacy: {name} spent epsilon {_text(get(key))} per metre (all locations of a UE summed)"
    return ""


def spent_words(account: Mapping[str, np.ndarray], images: bool) -> list[str]:
    """One line an account of the table `privacy`, with all that its epsilon stands on: unit, relation, delta, sum.

    images: whether a record is an image.
    """
    units = {
        "user": "all data of one UE",
        "record": f"one {'image' if images else 'measurement'} of a UE",
        PRINTED: "as the source claims it, no guarantee",
    }
    columns = [account[k].tolist() for k in ("mechanism", "unit", "relation", "delta")]
    who = list(zip(*columns, strict=True))
    lines = []
    for each in dict.fromkeys(who):
        rows = np.flatnonzero([w == each for w in who])
        epsilon = np.nan_to_num(account["epsilon"][rows], nan=np.inf)  # an empty cell is no finite epsilon
        worst = rows[int(np.argmax(epsilon))]
        mechanism, unit, relation, delta = each
        whose = "every UE alike" if account["ue"][worst] < 0 else f"largest of {len(rows)} UEs"
        said = f"unit {unit}: {units[unit]}; {relation}; " if unit in units else f"unit {unit}; {relation}; "
        lines.append(
            f"privacy: {mechanism} spent epsilon {_epsilon(epsilon.max())} at delta {delta:g} ({said}"
            f"{account['accountant'][worst]} over {int(account['draws'][worst])} draws of noise; {whose})"
        )
    return lines


def _worth(summary: Mapping[str, Any]) -> str:
    """What the model is worth, in the terms of its kind."""
    if "utility.rank_correlation" in summary:
        return density_words(summary)
    return f"utility: {accuracy_words(summary)}" if classifies(summary) else _signals(summary)


def _signals(summary: Mapping[str, Any]) -> str:
    """What a map of signals is worth."""
    if all(summary.get(f"utility.{name}_db") is None for name in ("rmse", "constant_rmse")):
        return f"utility: {_useful(summary)}"
    rmse, constant, raw = (
        _text(summary.get(f"utility.{name}_db")) for name in ("rmse", "constant_rmse", "raw_upload_rmse")
    )
    return f"utility: {rmse} dB rmse (constant {constant}, raw upload {raw}){_grid_words(summary)}; {_useful(summary)}"


def _grid_words(summary: Mapping[str, Any]) -> str:
    """The errors of a map of obstacles, which must not be mixed: the first is of the model before the last step."""
    if "utility.mae_new_stations_db" not in summary:
        return ""
    links = {
        "links that train (before the last step)": summary.get("figure.learner.mae_links_db.last"),
        "new links": summary.get("utility.mae_new_links_db"),
        "new base stations": summary.get("utility.mae_new_stations_db"),
        "new positions": summary.get("utility.mae_new_positions_db"),
    }
    return "; mean absolute error " + ", ".join(f"{_text(v)} dB on {k}" for k, v in links.items() if v is not None)


def density_words(summary: Mapping[str, Any]) -> str:
    """What a density is worth, and how many bands its waves leave."""
    get = summary.get
    law = ""
    if get("utility.kde_truth_rank_correlation") is not None:
        law = (
            f", {_text(get('utility.truth_rank_correlation'))} with the law of the places (exact kernel "
            f"{_text(get('utility.kde_truth_rank_correlation'))})"
        )
    bands = ""
    if get("figure.query.bands_probability.last") is not None:
        bands = (
            f"; {get('figure.query.bands.last'):.0f} bands cross the area with probability "
            f"{_text(get('figure.query.bands_probability.last'))} (Lemma 3)"
        )
    useful = "" if get("utility.useful") else f"; NOT useful: {USELESS}"
    return (
        f"utility: rank correlation {_text(get('utility.rank_correlation'))} with the exact kernel{law}{bands}{useful}"
    )


def attacks(summary: Mapping[str, Any]) -> list[str]:
    """Names of the attacks that a summary speaks of, in order."""
    tail = ".centroid_error_m.median"
    return [k.removeprefix("attack.").removesuffix(tail) for k in summary if k.endswith(tail)]


def _attack(summary: Mapping[str, Any], name: str) -> str:
    def get(key: str) -> str:
        value = summary.get(f"attack.{name}.{key}")
        root = key == "emd_sqrt_m" and value is not None and value**2 < _ROUNDING_M
        return _length(0.0 if root else value)

    found = _home(summary, name)
    if summary.get(f"attack.{name}.place_error_m") is not None:
        named = _places(summary.get(f"attack.{name}.places_mean"))
        found += (
            f"; {named} a UE, {get('place_error_m')} m away by weight (a constant answer leaves "
            f"{_text(summary.get('baseline.anywhere.error_m'))})"
        )
    if summary.get(f"attack.{name}.step_error_m") is not None:
        found += (
            f"; displacements along one axis are off by {get('step_error_m')} m a round (saying that nobody moved: "
            f"{get('step_still_m')}), {get('step_exact_percent')} % within 1 m, whole walks by {get('walk_error_m')} m "
            f"(of {get('walk_still_m')})"
        )
    return (
        f"{name}: centroid error {get('centroid_error_m.median')} m "
        f"[{get('centroid_error_m.q25')}, {get('centroid_error_m.q75')}], {get('diverged_percent')} % diverged, "
        f"SW1 {get('sw1_m')} m (square root {get('emd_sqrt_m')}){found}"
    )


def home_reach(summary: Mapping[str, Any], name: str) -> tuple[str, float] | None:
    """What counts as near home, metres, and for what share of UEs the attack came as near; None without homes."""
    pattern = re.compile(rf"attack\.{re.escape(name)}\.home_within_(.+)m_probability")
    found = [(m[1], value) for key, value in summary.items() if (m := pattern.fullmatch(key)) and value is not None]
    return found[0] if found else None


def home_distance(summary: Mapping[str, Any], name: str) -> str:
    """How near home it came: the median UE, the one exposed most, and as many random guesses."""
    away, worst, guess = (
        _length(summary.get(f"attack.{name}.{key}")) for key in ("home_m", "home_worst_m", "guess_home_m")
    )
    whom = "" if summary.get("ues.count") == 1 else f" (median UE), {worst} m (the UE exposed most)"
    return f"{away} m{whom}, as many random guesses {guess} m"


def _home(summary: Mapping[str, Any], name: str) -> str:
    """How near home an attack came; nothing where no UE has one."""
    reach = home_reach(summary, name)
    if reach is None:
        return ""
    near, share = reach
    when = summary.get(f"attack.{name}.home_within_{near}m_round")
    median = f" (median round {_text(when)})" if when is not None else ""
    return (
        f"; comes within {near} m of home for {100 * share:.0f} % of UEs{median}, nearest "
        f"{home_distance(summary, name)}"
    )


def _places(mean: Any) -> str:
    return "1 place" if mean == 1 else f"{_text(mean)} places"


def _useful(summary: Mapping[str, Any]) -> str:
    """What the utility figure is worth."""
    rmse, constant = summary.get("utility.rmse_db"), summary.get("utility.constant_rmse_db")
    if constant is None:
        return "not measured (nothing was held out)"
    if rmse is None:
        return f"NOT useful, the model is not finite: {USELESS}"
    if not summary.get("utility.useful"):
        return f"NOT useful, the model has not learnt the map: {USELESS}"
    return "better than a constant" if rmse < constant else "hardly useful, no better than a constant"


def _epsilon(value: Any) -> str:
    """An epsilon worth printing: beyond 20 it is no meaningful guarantee, beyond 1000 not even a number."""
    if value is None or value > 1000:
        return "> 1000 (no guarantee)"
    return f"{value:.1f} (no meaningful guarantee)" if value > 20 else f"{value:.3g}"


def _length(value: Any) -> str:
    """Metres, with rounding errors as 0."""
    return _text(0.0 if value is not None and abs(value) < _ROUNDING_M else value)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}"


ACCURACY, CONSTANT = "accuracy_percent", "constant_accuracy_percent"


def classifies(summary: Mapping[str, Any]) -> bool:
    """Whether the model of a run says classes."""
    return f"utility.{ACCURACY}" in summary


def accuracy_words(summary: Mapping[str, Any]) -> str:
    """How many held-out samples it gets right."""
    right, constant = summary.get(f"utility.{ACCURACY}"), summary.get(f"utility.{CONSTANT}")
    if right is None or constant is None:
        return "not measured (nothing was held out)"
    text = f"{right:.1f} % of held-out images classified right (naming the commonest class: {constant:.1f} %)"
    return text if summary.get("utility.useful") else f"{text}; NOT useful: it hardly beats that"

"""A summary in words: the short result that a run prints, and the full text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np

from fl.defenses.budgeted import PRINTED
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.linking_text import (
    best_linking_text,
    identifiers,
    identity_text,
    linkers,
    linking_text,
)
from scenarios.app.results.statistics import MEANINGFUL, counted
from scenarios.app.results.summary_keys import Key
from scenarios.app.results.tracking_text import best_tracking_text, trackers, tracking_text
from scenarios.app.results.uploads_text import merges_text, uploads_text

COLUMNS = 100  # of a terminal line
_NAMES = 11  # columns for the name of a row
USELESS = "Low leakage proves nothing here; high leakage is still real."
"""what leakage means where the model is not useful"""
GOOD = 0.3
"""share by which the error of a good map is below that of a constant"""
BETTER, WORSE, NO_BETTER = "better than", "worse than", "no better than"
FAR = 10.0
"""ratio of errors above which it is no longer told"""
_ROUNDING_M = 1e-9  # shorter lengths are rounding errors

Account = Mapping[str, np.ndarray]
"""the table `privacy`"""


def fitted(lines: Sequence[str], columns: int = COLUMNS) -> list[str]:
    """Lines broken at blanks to a number of columns; what goes on is indented."""
    return [
        piece for line in lines
        for piece in textwrap.wrap(line, columns, subsequent_indent="  ", break_long_words=False,
                                   break_on_hyphens=False) or [""]
    ]  # fmt: skip


# -- the short result


def short_text(summary: Mapping[str, Any], account: Account, page: str) -> list[str]:
    """The result in a table of a few rows: is the model useful, what was found, and what noise was spent.

    Warnings stand above it. `page` is where all details are.
    """
    rows = [
        ("rounds", _rounds(summary)),
        ("model", model_text(summary)),
        ("location", location_text(summary)),
        ("positions", positions_text(summary)),
        ("named", best_named_text(summary)),
        ("tracking", best_tracking_text(summary)),
        ("linking", best_linking_text(summary)),
        ("withheld", _withheld_by(summary)),
        ("uplink", uplink_text(summary)),
        ("uploads", uploads_text(summary)),
        ("merges", merges_text(summary)),
        ("membership", membership_text(summary)),
        ("privacy", privacy_text(summary, account)),
        ("page", page),
    ]
    lines = list(warnings(summary))
    for name, text in rows:
        if text:
            first, *rest = textwrap.wrap(text, COLUMNS - 2 - _NAMES, break_long_words=False, break_on_hyphens=False)
            lines += [f"{name:<{_NAMES}}{first}", *(f"{'':<{_NAMES}}{line}" for line in rest)]
    return lines


def _rounds(summary: Mapping[str, Any]) -> str:
    """How much was played."""
    samples = "sample" if classifies(summary) else "measurement"
    empty = _of(summary, keys.ROUNDS_EMPTY)
    return (
        f"{counted(_of(summary, keys.ROUNDS_PLAYED), 'round')}{f' ({empty} without data)' if empty else ''}, "
        f"{counted(_of(summary, keys.SAMPLES_COUNT), samples)} of {counted(_of(summary, keys.UES_COUNT), 'UE')}, "
        f"{_text(_of(summary, keys.UPDATES_DECODED))} % of updates decoded"
    )


def location_text(summary: Mapping[str, Any]) -> str:
    """The attack with the smallest centroid error, beside its baseline."""
    errors_m = {n: v for n in attacks(summary) if (v := _of(summary, keys.ERROR_MEDIAN, n)) is not None}
    if not errors_m:
        named = any(_of(summary, keys.FIRST_NAMED_PERCENT, n) is not None for n in attacks(summary))
        if named or not attacks(summary):
            return ""
        if any(_of(summary, keys.FAILED, n) not in (None, 100.0) for n in attacks(summary)):
            return (
                "estimates are compared with nothing: no UE has a home or workplace, or none measured in the rounds of "
                "learning.leakage.every_rounds"
            )
        return "no attack made an estimate"
    name, centre = min(errors_m, key=lambda n: errors_m[n]), _of(summary, keys.AREA_CENTRE_ERROR)
    several = sum(estimates_centroids(summary, n) for n in attacks(summary))
    best = f" (best of {several})" if several > 1 else ""
    baseline = "" if centre is None else f"; baseline: always guess the map centre {_length(centre)} m"
    return f"{name}{best}: centroid error {_length(errors_m[name])} m{baseline}"


def positions_text(summary: Mapping[str, Any]) -> str:
    """Whether the estimates of the attack with the smallest SW1 are better than random guesses."""
    low, high = _of(summary, keys.GUESS_SW1_Q05), _of(summary, keys.GUESS_SW1_Q95)
    distances_m = {n: v for n in attacks(summary) if (v := _of(summary, keys.SW1, n)) is not None}
    if not distances_m or low is None or high is None:
        return ""
    name = min(distances_m, key=lambda n: distances_m[n])
    value = distances_m[name]
    return (
        f"{name}: sliced Wasserstein distance {_length(value)} m, {verdict(value, low, high)} random guesses "
        f"({_length(low)} to {_length(high)} m)"
    )


def verdict(value: float, low: float, high: float) -> str:
    """A distance against the 5 % and 95 % quantiles of random guesses."""
    return BETTER if value < low else WORSE if value > high else NO_BETTER


def best_named_text(summary: Mapping[str, Any]) -> str:
    """The attack that names most homes, beside chance; of equal ones that which names most workplaces. Then what others
    state with a probability, since whether that comes true is asked of each of them.
    """
    name = most_named(summary)
    others = [f"; {n}: {said}" for n in attacks(summary) if n != name and (said := _stated(summary, n))]
    return f"{name}: {named_text(summary, name)}{''.join(others)}" if name else ""


def most_named(summary: Mapping[str, Any]) -> str:
    """The attack that names home and work of most UEs at the end of the run; empty where no UE has any."""
    shares = (keys.BOTH_NAMED_PERCENT, keys.HOME_NAMED_PERCENT, keys.WORK_NAMED_PERCENT, keys.FIRST_NAMED_PERCENT)
    named = [n for n in attacks(summary) if _of(summary, keys.HOMES_COUNT, n) is not None]
    return max(named, key=lambda n: [_of(summary, key, n) or 0.0 for key in shares], default="")


def named_text(summary: Mapping[str, Any], name: str) -> str:
    """Of how many UEs an attack names home and work, since when, and of how many chance would."""
    of = [
        (place, _of(summary, share, name), _of(summary, count, name))
        for place, share, count in (
            ("home", keys.HOME_NAMED_PERCENT, keys.HOMES_COUNT),
            ("work", keys.WORK_NAMED_PERCENT, keys.WORKPLACES_COUNT),
            ("both", keys.BOTH_NAMED_PERCENT, keys.COMMUTERS_COUNT),
        )
    ]
    found = [(place, round(share * n / 100), n) for place, share, n in of if share is not None and n]
    if not found:
        return "no attacked UE has a home or a workplace"
    place, k, n = found[0]
    near = f"named within {_of(summary, keys.NEAR):g} m"
    if all(m == 1 for _, _, m in found):
        first = f"{place} {'' if k else 'not '}{near}"
        rest = [f"{what} {'' if j else 'not '}named" for what, j, _ in found[1:] if what != "both"]
    else:
        first = f"{place} of {k} of {counted(n, 'UE')} {near}"
        rest = [f"{what} of {j}" + (f" of {m}" if m != n else "") for what, j, m in found[1:]]
    since = _since(summary, name) if place == "home" else ""
    chance, stated = _chance(summary, name, 0 if place == "home" else 1), _stated(summary, name)
    return f"{', '.join([first + since, *rest])}{f'; {stated}' if stated else ''}{chance}"


def _stated(summary: Mapping[str, Any], name: str) -> str:
    """What an attack that states probabilities says of itself, and what is true of that; empty for any other."""
    count, mean, right = (_of(summary, key, name) for key in (keys.STATED_COUNT, keys.STATED_MEAN, keys.STATED_RIGHT))
    if _of(summary, keys.HOME_SPOKEN, name) == 0 and not count:
        return "says nothing of any home at the end"
    if not count or mean is None or right is None:
        return ""
    return f"{counted(count, 'place')} stated with {100 * mean:.0f} % on average, {right:.0f} % of them right"


def _since(summary: Mapping[str, Any], name: str) -> str:
    """Since when home is named, in brackets; empty where it is named of fewer than half of the UEs."""
    number, day = (_of(summary, key, name) for key in (keys.HOME_NAMED_ROUND, keys.HOME_NAMED_DAY))
    if number is None:
        return ""
    median = "" if _of(summary, keys.HOMES_COUNT, name) == 1 else ", median"
    return f" (since {f'day {ceil(day)}' if day and (day > 1 or number <= 1) else f'round {ceil(number)}'}{median})"


def _chance(summary: Mapping[str, Any], name: str, k: int) -> str:
    """Shares that places named by chance reach, for home (k = 0) or work (1)."""
    by = (
        ("at random", _of(summary, keys.UNIFORM[k])),
        ("by others' density", _of(summary, keys.OTHERS[k])),
        ("with another UE's places", _of(summary, keys.SHUFFLED[k], name)),
    )
    known = ", ".join(f"{_text(round(share, 1))} % {how}" for how, share in by if share is not None)
    return f"; chance, {('home', 'work')[k]}: {known}" if known else ""


def membership_text(summary: Mapping[str, Any]) -> str:
    """The membership attack with the largest area under its curve."""
    areas = {n: v for n in audits(summary) if (v := _of(summary, keys.AUC_LAST, n)) is not None}
    if not areas:
        return ""
    name = max(areas, key=lambda n: areas[n])
    low, high = (_text(_of(summary, key, name)) for key in (keys.AUC_LOW, keys.AUC_HIGH))
    return f"{name}: AUC {_text(areas[name])} [{low}, {high}]; baseline: random guessing 0.5"


def privacy_text(summary: Mapping[str, Any], account: Account) -> str:
    """The largest epsilon of all accounts, with the privacy unit that it holds for."""
    moved = [f"{name} spent epsilon {_text(v)} per metre" for name, v in _by_name(summary, keys.EPSILON_PER_M_MAX)]
    if not len(account["epsilon"]):
        return "; ".join(moved) or "no epsilon was spent: no differential privacy"
    epsilon = np.nan_to_num(account["epsilon"], nan=np.inf)  # an empty cell is no finite epsilon
    i = int(np.argmax(epsilon))
    unit, relation, delta = (account[name][i] for name in ("unit", "relation", "delta"))
    return "; ".join(
        [
            f"{account['mechanism'][i]} spent epsilon {_epsilon(float(epsilon[i]))} at delta {delta:g} (unit {unit}, "
            f"{relation})",
            *_of_days(summary),
            *moved,
        ]
    )


def _of_days(summary: Mapping[str, Any]) -> list[str]:
    """What the costliest day of any UE has cost, for noise with a budget for each day."""
    parts = [(name.rpartition("."), value) for name, value in _by_name(summary, keys.METRIC_LAST)]
    return [
        f"{part}: at most epsilon {_epsilon(value)} a local day"
        for (part, _, name), value in parts
        if name == "epsilon_a_day" and value is not None
    ]


# -- the full text


def full_text(summary: Mapping[str, Any], account: Account | None = None) -> list[str]:
    """Everything that a summary says, a line each: utility, uplink, attacks, baselines, privacy; `-` for no value.

    account : None where it is not known.
    """
    lines = [_rounds(summary), f"model: {model_text(summary)}", *warnings(summary)]
    lines += [*_refusals(summary), *_withheld(summary)]
    sent = {"uplink": uplink_text(summary), "uploads": uploads_text(summary), "merges": merges_text(summary)}
    lines += [
        *(f"{what}: {text}" for what, text in sent.items() if text),
        *(_attack(summary, name) for name in attacks(summary)),
        *(f"tracking: {tracking_text(summary, name)}" for name in trackers(summary)),
        *(f"linking: {linking_text(summary, name)}" for name in linkers(summary)),
        *(f"linking: {identity_text(summary, name)}" for name in identifiers(summary)),
        *_baselines(summary),
    ]
    lines += [*_user_distances(summary), *_eavesdropper(summary)]
    if _of(summary, keys.ROUNDS_STOPPED):
        lines.append("stopped: the next round would have exceeded learning.privacy_budget")
    lines += [_audit(summary, name) for name in audits(summary)]
    lines += [
        f"privacy: {name} spent epsilon {_text(value)} per metre (all locations of a UE summed)"
        for name, value in _by_name(summary, keys.EPSILON_PER_M_MAX)
    ]
    return lines + ([] if account is None else spent_text(account, classifies(summary)))


def warnings(summary: Mapping[str, Any]) -> list[str]:
    """Warnings of results that mean little."""
    lines = []
    if _of(summary, keys.SAMPLES_COUNT) == 0:
        lines.append(
            "WARNING: no UE measured anything, so nothing was learned and nothing can leak; let the world last "
            "longer, or measure more often"
        )
    for step, value in _by_name(summary, keys.FALLBACK):
        if value == 100:
            lines.append(
                f"WARNING: curation {step} never found a cluster and kept one random sample instead; raise eps_m, "
                "lower min_samples, or give rounds more samples"
            )
    if _of(summary, keys.UPDATES_NON_FINITE):
        lines.append(
            f"WARNING: {_of(summary, keys.UPDATES_NON_FINITE)} of {counted(_of(summary, keys.UPDATES_SENT), 'update')} "
            "overflowed on the UE and were replaced by zero; take a smaller learning_rate, also of server_optimiser, "
            "the defense clip, or less noise"
        )
    if _of(summary, keys.REFUSED_BY_ALL):
        most, played = _of(summary, keys.REFUSED_MAX), _of(summary, keys.ROUNDS_PLAYED)
        lines.append(
            f"WARNING: all {counted(most, 'UE')} refused in {_of(summary, keys.REFUSED_BY_ALL)} of "
            f"{counted(played, 'round')}{_reasons(summary)}"
        )
    if _of(summary, keys.UPDATES_SENT) and _of(summary, keys.UPDATES_DECODED) == 0:
        lines.append("WARNING: no update was decoded: the model was not trained, and no attack received anything")
    return lines


def _refusals(summary: Mapping[str, Any]) -> list[str]:
    """How many requests the UEs' own policies refused, and why; nothing where only all UEs refused, or none."""
    rounds, by_all = _of(summary, keys.REFUSED_ROUNDS) or 0, _of(summary, keys.REFUSED_BY_ALL) or 0
    if rounds <= by_all:
        return []
    share = _text(100.0 * summary[keys.REFUSED_COUNT.of()] / summary[keys.REFUSED_REQUESTED.of()])
    played = counted(summary[keys.ROUNDS_PLAYED.of()], "round")
    return [f"refused: {share} % of all requests, in {rounds} of {played}{_reasons(summary)}"]


def _withheld(summary: Mapping[str, Any]) -> list[str]:
    """What rules on the device held back, each by itself, and what is lost in sums that were not opened."""
    said = [f"withheld: {text}"] if (text := _withheld_by(summary)) else []
    if _of(summary, keys.SUMS_UNOPENED):
        lost = _of(summary, keys.SUMS_LOST)
        also = "" if lost is None else f", and {_text(lost)} % of the UEs that were decoded are lost in them"
        said.append(f"sums: {_text(_of(summary, keys.SUMS_UNOPENED))} % of groups not opened{also}")
    return said


def _withheld_by(summary: Mapping[str, Any]) -> str:
    """Shares that each rule on the device held back; empty without rules."""
    samples = dict(_by_name(summary, keys.WITHHELD_SAMPLES))
    return "; ".join(
        f"{name} {_text(value)} % of updates and {_text(samples[name])} % of samples"
        for name, value in _by_name(summary, keys.WITHHELD_UPDATES)
    )


def _reasons(summary: Mapping[str, Any]) -> str:
    """Why requests were refused, in brackets; empty where no reason is known."""
    names = ", ".join(name for name, _ in _by_name(summary, keys.REFUSED_REASON))
    return f" ({names})" if names else ""


def uplink_text(summary: Mapping[str, Any]) -> str:
    """Medians and totals of the uplink; empty for an ideal one."""
    if _of(summary, keys.UPLINK_SINR) is None:
        return ""
    moves = _of(summary, keys.UPLINK_HANDOVERS)
    return (
        f"SINR {_text(_of(summary, keys.UPLINK_SINR))} dB, latency {_text(_of(summary, keys.UPLINK_LATENCY))} "
        f"s (medians), {_text(_of(summary, keys.UPDATES_LATE))} % of updates late, energy "
        f"{_text(_of(summary, keys.UPLINK_ENERGY))} J in total, "
        + ("handover not modelled" if moves is None else counted(moves, "handover"))
    )


def _baselines(summary: Mapping[str, Any]) -> list[str]:
    """The baselines; nothing without an attack, or where samples have no place."""
    if keys.PERFECT_SW1.of() not in summary:
        return []
    centre, perfect, guess, low, root = (
        _length(_of(summary, key))
        for key in (keys.AREA_CENTRE_ERROR, keys.PERFECT_SW1, keys.GUESS_SW1, keys.GUESS_SW1_Q05, keys.GUESS_SQRT_SW1)
    )
    return [
        f"baselines: always guess the map centre, centroid error {centre} m; random guesses, SW1 {guess} m (5 % "
        f"quantile {low} m; square root {root}); perfect attacker (true centroids), SW1 {perfect} m"
    ]


def _user_distances(summary: Mapping[str, Any]) -> list[str]:
    """How alike UEs are; nothing for one UE."""
    if _of(summary, keys.PAIR_SQRT_SW1_MEDIAN) is None:
        return []
    median, low, high = (
        _text(_of(summary, key)) for key in (keys.PAIR_SQRT_SW1_MEDIAN, keys.PAIR_SQRT_SW1_MIN, keys.PAIR_SQRT_SW1_MAX)
    )
    return [f"UEs: square root of SW1 between two of them {median} (median), {low} to {high} (see user_distances.csv)"]


def _eavesdropper(summary: Mapping[str, Any]) -> list[str]:
    """What the eavesdropper decoded; nothing without one."""
    decoded = _of(summary, keys.EAVESDROPPER_DECODED)
    sinr = _text(_of(summary, keys.EAVESDROPPER_SINR))
    return [] if decoded is None else [f"eavesdropper: decoded {_text(decoded)} % of updates, median SINR {sinr} dB"]


def _audit(summary: Mapping[str, Any], name: str) -> str:
    """The last audit of a membership attack."""
    auc, low, high, rate = (
        _text(_of(summary, key, name)) for key in (keys.AUC_LAST, keys.AUC_LOW, keys.AUC_HIGH, keys.TPR_LAST)
    )
    return (
        f"membership: {name} AUC {auc} [{low}, {high}], true-positive rate {rate} % at 1 % false positives (last audit)"
    )


def spent_text(account: Account, images: bool) -> list[str]:
    """One line per account of the table `privacy`: epsilon with its unit, relation, delta and accountant.

    images: whether a record is an image.
    """
    units = {
        "user": "all data of one UE",
        "record": f"one {'image' if images else 'measurement'} of a UE",
        PRINTED: "as the publication states it; no guarantee",
    }
    columns = [account[k].tolist() for k in ("mechanism", "unit", "relation", "delta")]
    who = list(zip(*columns, strict=True))
    lines = []
    for each in dict.fromkeys(who):
        rows = np.flatnonzero([w == each for w in who])
        epsilon = np.nan_to_num(account["epsilon"][rows], nan=np.inf)  # an empty cell is no finite epsilon
        worst = rows[int(np.argmax(epsilon))]
        mechanism, unit, relation, delta = each
        whose = "the same for every UE" if account["ue"][worst] < 0 else f"max over {counted(len(rows), 'UE')}"
        holds = f"unit {unit}: {units[unit]}; {relation}; " if unit in units else f"unit {unit}; {relation}; "
        lines.append(
            f"privacy: {mechanism} spent epsilon {_epsilon(epsilon.max())} at delta {delta:g} ({holds}"
            f"{account['accountant'][worst]} over {counted(int(account['draws'][worst]), 'draw')} of noise; {whose})"
        )
    return lines


# -- the model


def model_text(summary: Mapping[str, Any]) -> str:
    """How useful the model is, beside its baselines, in the terms of its kind."""
    if is_density(summary):
        return density_text(summary)
    return accuracy_text(summary) if classifies(summary) else signals_text(summary)


def _unmeasured(summary: Mapping[str, Any]) -> str:
    """Why a map of signals has no error."""
    if _of(summary, keys.SAMPLES_COUNT) and not _of(summary, keys.SAMPLES_SELECTED):
        return "not trained: every measurement was held out, and no update was sent"
    return "not measured: nothing was held out in the rounds that were played"


def signals_text(summary: Mapping[str, Any]) -> str:
    """How good a map of signals is."""
    rmse, constant, raw = (_of(summary, key) for key in (keys.RMSE, keys.CONSTANT_RMSE, keys.RAW_UPLOAD_RMSE))
    if constant is None:
        return _unmeasured(summary)
    if rmse is None:
        return f"NOT useful. The model is not finite. {USELESS}"
    gain = 1 - rmse / constant if constant > 0 else 0.0
    if not _of(summary, keys.USEFUL):
        worth = "NOT useful"
    elif gain >= GOOD:
        worth = "a good map"
    else:
        worth = "useful" if gain > 0 else "hardly useful, no better than a constant"
    better = f", {100 * gain:.0f} % better than a constant" if gain > 0 else ""
    central = _of(summary, keys.CENTRAL_RMSE)
    above = "" if not central else f", {_above(rmse / central)} the same net trained centrally"
    text = f"{worth}: RMSE {_text(rmse)} dB{better}{above}; baselines: constant {_text(constant)} dB"
    text += "" if central is None else f", central {_text(central)} dB"
    text += "" if raw is None else f", raw upload {_text(raw)} dB"
    text += _grid_text(summary)
    return text if _of(summary, keys.USEFUL) else f"{text}. The model has not learned the map. {USELESS}"


def _above(ratio: float) -> str:
    """A ratio of errors as a percentage above or below; beyond ten times it only says that."""
    if ratio > FAR:
        return f"more than {FAR:.0f} times"
    return f"{100 * abs(ratio - 1):.0f} % {'above' if ratio >= 1 else 'below'}"


def _grid_text(summary: Mapping[str, Any]) -> str:
    """The errors of a map of obstacles; the first is that of the model before the last step."""
    if keys.NEW_STATIONS_MAE.of() not in summary:
        return ""
    links = {
        "training links (before the last step)": _of(summary, keys.METRIC_LAST, "learner.mae_links_db"),
        "new links": _of(summary, keys.NEW_LINKS_MAE),
        "new base stations": _of(summary, keys.NEW_STATIONS_MAE),
        "new positions": _of(summary, keys.NEW_POSITIONS_MAE),
    }
    return "; mean absolute error " + ", ".join(f"{_text(v)} dB on {k}" for k, v in links.items() if v is not None)


def is_density(summary: Mapping[str, Any]) -> bool:
    """Whether the model of a run is a density."""
    return keys.RANK_CORRELATION.of() in summary


def density_text(summary: Mapping[str, Any]) -> str:
    """How good a density is, and how many bands its waves leave."""
    worth = "useful" if _of(summary, keys.USEFUL) else "NOT useful"
    text = f"{worth}: rank correlation {_text(_of(summary, keys.RANK_CORRELATION))} with the exact kernel density"
    exact = _of(summary, keys.KDE_TRUTH_RANK_CORRELATION)
    if exact is not None:
        text += (
            f", {_text(_of(summary, keys.TRUTH_RANK_CORRELATION))} with the true distribution (baseline: exact kernel "
            f"density {_text(exact)})"
        )
    sure = _of(summary, keys.METRIC_LAST, "query.bands_probability")
    if sure is not None:
        bands = _of(summary, keys.METRIC_LAST, "query.bands")
        text += f"; {counted(int(bands), 'band')} across the area with probability {_text(sure)} (Lemma 3)"
    return text if _of(summary, keys.USEFUL) else f"{text}. {USELESS}"


def classifies(summary: Mapping[str, Any]) -> bool:
    """Whether the model of a run is a classifier."""
    return keys.ACCURACY.of() in summary


def accuracy_text(summary: Mapping[str, Any]) -> str:
    """How good a classifier is."""
    accuracy, constant = _of(summary, keys.ACCURACY), _of(summary, keys.CONSTANT_ACCURACY)
    if accuracy is None or constant is None:
        return "not measured: nothing was held out"
    text = f"accuracy {accuracy:.1f} % on held-out images; baseline: most frequent class {constant:.1f} %"
    return f"useful: {text}" if _of(summary, keys.USEFUL) else f"NOT useful: {text}"


# -- attacks


def attacks(summary: Mapping[str, Any]) -> list[str]:
    """Names of the attacks on location in a summary, in order."""
    return [name for name, _ in _by_name(summary, keys.ERROR_MEDIAN)]


def estimates_centroids(summary: Mapping[str, Any], name: str) -> bool:
    """Whether an attack estimated the centroid of a batch, right or wrong."""
    return any(_of(summary, key, name) is not None for key in (keys.ERROR_MEDIAN, keys.DIVERGED))


def made_estimates(summary: Mapping[str, Any], name: str) -> bool:
    """Whether an attack estimated centroids or places, besides its answers."""
    return estimates_centroids(summary, name) or _of(summary, keys.PLACES, name) is not None


def audits(summary: Mapping[str, Any]) -> list[str]:
    """Names of the membership attacks in a summary, in order."""
    return [name for name, _ in _by_name(summary, keys.AUC_LAST)]


def _attack(summary: Mapping[str, Any], name: str) -> str:
    """All that a summary says of one attack."""

    def get(key: Key) -> str:
        return _length(_of(summary, key, name))

    root = _of(summary, keys.SQRT_SW1, name)
    tiny = root is not None and root**2 < _ROUNDING_M
    if not made_estimates(summary, name) and _of(summary, keys.HOMES_COUNT, name) is not None:
        return f"{name}: {named_text(summary, name)}"
    text = (
        f"{name}: centroid error {get(keys.ERROR_MEDIAN)} m [{get(keys.ERROR_Q25)}, {get(keys.ERROR_Q75)}], "
        f"{get(keys.DIVERGED)} % diverged; SW1 {get(keys.SW1)} m (square root {_length(0.0 if tiny else root)})"
    )
    if _of(summary, keys.HOME_NEAR_PERCENT, name) is not None:
        text += f"; home: {home_text(summary, name)}"
    if _of(summary, keys.HOMES_COUNT, name) is not None:
        text += f"; named at the end: {named_text(summary, name)}"
    places = _of(summary, keys.PLACES, name)
    if places is not None:
        text += (
            f"; {'1 place' if places == 1 else f'{_text(places)} places'} per UE, weighted mean distance "
            f"{get(keys.PLACE_ERROR)} m (baseline: constant answer {_text(_of(summary, keys.ANYWHERE_ERROR))} m)"
        )
    if _of(summary, keys.STEP_ERROR, name) is not None:
        text += (
            f"; displacement per round along one axis: error {get(keys.STEP_ERROR)} m (baseline: no motion "
            f"{get(keys.STEP_NO_MOTION)} m), {get(keys.STEP_EXACT)} % within 1 m; whole walk: error "
            f"{get(keys.WALK_ERROR)} m (baseline: no motion {get(keys.WALK_NO_MOTION)} m)"
        )
    return text


def home_text(summary: Mapping[str, Any], name: str) -> str:
    """How near home an attack comes: the nearest estimate, its baseline, and the share of UEs that were found."""
    nearest, least, guess = (
        _length(_of(summary, key, name)) for key in (keys.HOME_MEDIAN, keys.HOME_MIN, keys.GUESS_HOME)
    )
    single = _of(summary, keys.UES_COUNT) == 1
    median = "" if single else f" (median UE), {least} m (most exposed UE)"
    when = _of(summary, keys.HOME_NEAR_ROUND, name)
    share = _of(summary, keys.HOME_NEAR_PERCENT, name)
    first = "" if when is None else f" (from round {_text(when)}{'' if single else ' on, median'})"
    return (
        f"nearest estimate {nearest} m{median}; random guesses {guess} m; "
        f"within {_of(summary, keys.NEAR):g} m for {share:.0f} % of UEs{first}"
    )


# -- values


def _of(summary: Mapping[str, Any], key: Key, name: str = "") -> Any:
    """The value of a key; None where there is none."""
    return summary.get(key.of(name))


def _by_name(summary: Mapping[str, Any], key: Key) -> list[tuple[str, Any]]:
    """NAME and value of each key of a pattern."""
    return [(name, value) for one, value in summary.items() if (name := key.name_in(one)) is not None]


def _epsilon(value: float) -> str:
    """An epsilon; beyond 20 it is no meaningful guarantee, beyond 1000 not worth printing."""
    if value > 1000:
        return "> 1000 (no guarantee)"
    return f"{value:.1f} (no meaningful guarantee)" if value > MEANINGFUL else f"{value:.3g}"


def _length(value: Any) -> str:
    """Metres, with rounding errors as 0."""
    return _text(0.0 if value is not None and abs(value) < _ROUNDING_M else value)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}"

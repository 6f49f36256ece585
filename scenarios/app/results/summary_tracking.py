"""The part of the summary about attackers who track UEs: errors, success and privacy, beside plain attack and prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.leakage.reliability import reliability_error
from netsim.units import FloatArray
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.key import Key
from scenarios.app.results.run import Table
from scenarios.app.results.statistics import half_width, mean_of, median_of

_HOUR_S, _DAY_S = 3600.0, 86_400.0
_FEW_UES = 5


def tracking_values(rows: Table, round_s: float, useful: bool | None) -> dict[Key, Any]:
    """Values of one attack from its rows of the table `tracking`; nothing where it has none."""
    if not len(rows["ue"]):
        return {}
    passes = {"filter": rows["hindsight"] == 0, "smoother": rows["hindsight"] == 1}
    now = {name: column[passes["filter"]] for name, column in rows.items()}
    values: dict[Key, Any] = {}
    for who, some in passes.items():
        if some.any():
            mine = {name: column[some] for name, column in rows.items()}
            values |= _answers(who, "", mine, round_s) | _stated(who, mine)
            values[keys.TRACKING[who, "privacy"]] = mean_of(mine["expected_distance_m"])
    values |= _answers("plain", "plain_", now, round_s) | _answers("prior", "prior_", now, round_s)
    values[keys.TRACKING["prior", "privacy"]] = mean_of(now["prior_expected_distance_m"])
    values[keys.TRACKING["prior", "draw_near"]] = 100.0 * mean_of(now["prior_draw_near"])
    values |= dict(zip(keys.FILTER_LESS_PLAIN, _less_plain(now, now), strict=True))
    if passes["smoother"].any():
        then = {name: column[passes["smoother"]] for name, column in rows.items()}
        values |= dict(zip(keys.SMOOTHER_LESS_PLAIN, _less_plain(then, now), strict=True))
    gated = values[keys.TRACKING["filter", "error_median"]]
    return values | {keys.TRACKING_GATED: float("nan") if useful is False else gated}


def _answers(who: str, prefix: str, rows: Table, round_s: float) -> dict[Key, Any]:
    """Errors and successes of one of those who answer; a round without an answer is no success."""
    error, near = rows[f"{prefix}error_m"], rows[f"{prefix}near"] == 1
    _, of = np.unique(rows["ue"], return_inverse=True)
    known_h = np.bincount(of, weights=near) * round_s / _HOUR_S
    quantities = {
        "error_median": median_of(error),
        "error_mean": mean_of(error),
        "near": 100.0 * float(near.mean()),
        "known_h": float(known_h.mean()),
    }
    return {keys.TRACKING[who, name]: value for name, value in quantities.items()}


def _stated(who: str, rows: Table) -> dict[Key, Any]:
    """What the attack says of itself, and how far it is right."""
    quantities = {
        "stated_near": 100.0 * mean_of(rows["disc_probability"]),
        "stated_error": mean_of(rows["stated_error_m"]),
        "reliability": reliability_error(rows["disc_probability"], rows["near"] == 1),
        "in50": 100.0 * mean_of(rows["in50"]),
        "in90": 100.0 * mean_of(rows["in90"]),
        "area90": median_of(rows["area90_m2"]),
        "entropy": mean_of(rows["entropy_bits"]),
    }
    return {keys.TRACKING[who, name]: value for name, value in quantities.items()}


def _less_plain(rows: Table, now: Table) -> FloatArray:
    """Mean over UEs of error less plain error, and its 95 % interval (3,), over rounds that have both.

    Pairs are UEs; with fewer than five of them, days of UEs.
    """
    visit = now["ue"].astype(np.int64) * 2**31 + now["round"].astype(np.int64)
    order = np.argsort(visit)
    mine = rows["ue"].astype(np.int64) * 2**31 + rows["round"].astype(np.int64)
    at = order[np.minimum(np.searchsorted(visit[order], mine), len(visit) - 1)]
    plain = np.where(visit[at] == mine, now["plain_error_m"][at], np.nan)
    less = rows["error_m"] - plain
    both = np.isfinite(less)
    if not both.any():
        return np.full(3, np.nan)
    unit = rows["ue"][both].astype(np.int64)
    if len(np.unique(unit)) < _FEW_UES:
        unit = unit * 2**31 + (rows["time_s"][both] // _DAY_S).astype(np.int64)
    _, of = np.unique(unit, return_inverse=True)
    each = np.bincount(of, weights=less[both]) / np.bincount(of)
    half = half_width(each)
    return np.array([each.mean(), each.mean() - half, each.mean() + half])

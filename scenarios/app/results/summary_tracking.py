"""The part of the summary about attackers who track UEs: errors, success and privacy, beside plain attack and prior."""

from __future__ import annotations

import numpy as np

from fl.leakage.reliability import reliability_error
from netsim.units import FloatArray
from scenarios.app.results.run import Table, where
from scenarios.app.results.statistics import half_width
from scenarios.app.results.summary_leakage import if_useful

_HOUR_S, _DAY_S = 3600.0, 86_400.0
_FEW_UES = 5


def tracking_rows(rows: Table, round_s: float, useful: bool | None) -> dict[str, Table]:
    """What measures of one tracker are taken from, by who is asked, of its rows of `tracking`; nothing without rows.

    A round without an answer is no success. known_h (k,) is of each UE; useful: whether the model is.
    """
    now, then = (where(rows, rows["hindsight"] == late) for late in (0, 1))
    of: dict[str, Table] = {}
    for who, mine, prefix in (
        ("filter", now, ""),
        ("smoother", then, ""),
        ("plain", now, "plain_"),
        ("prior", now, "prior_"),
    ):
        if not len(mine["ue"]):
            continue
        mine = mine | {k.removeprefix(prefix): v for k, v in mine.items() if k.startswith(prefix)}
        near, (_, ue) = mine["near"] == 1, np.unique(mine["ue"], return_inverse=True)
        known_h = np.bincount(ue, weights=near) * round_s / _HOUR_S
        of[who] = mine | {"near": near, "known_h": known_h, "mean_error_m": mine["error_m"]}
        if not prefix:
            less = zip(("less_m", "less_low_m", "less_high_m"), _less_plain(mine, now)[:, None], strict=True)
            reliable = np.array([reliability_error(mine["disc_probability"], near)])
            useful_error = if_useful(mine, useful)["error_m"]
            of[who] |= dict(less) | {"reliability_error": reliable, "useful_error_m": useful_error}
    return of


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

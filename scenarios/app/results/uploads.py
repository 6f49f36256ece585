"""What became of requests, updates and uploads: held back, summed, lost, sent, merged, and how soon a model was good.

A server that merges often is scored often, and one lucky score is no good model. How soon a model was good is therefore
asked of the mean of the score over time, from 80 % of the time that has passed since the first request up to now.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.units import BoolArray, FloatArray
from scenarios.app.results.run import Table, where

ARRIVED = "arrived"
PARTS = ("preparing", "waiting", "sending")
"""what an upload goes through, in order: downlink and training; until the first grant; until the last bit"""


def arrived(uploads: Table) -> BoolArray:
    """Which uploads (n,) the server received."""
    return np.asarray(uploads["fate"] == ARRIVED)


def bounds_s(uploads: Table) -> FloatArray:
    """Where each part begins and the last one ends (n, 4); NaN where an upload did not get so far.

    A part that was cut short ends with the upload.
    """
    marks = np.column_stack([uploads[k] for k in ("requested_s", "ready_s", "granted_s", "ended_s")])
    ended = np.isfinite(marks[:, 3])
    for k in (1, 2):  # the end of the last part that was begun
        cut = ended & np.isnan(marks[:, k]) & np.isfinite(marks[:, k - 1])
        marks[cut, k] = marks[cut, 3]
        marks[cut, k + 1 :] = np.nan
    return marks


def durations_s(uploads: Table) -> dict[str, FloatArray]:
    """Length (n,) of each part, and from request to end as `whole`; NaN for a part that was not begun."""
    parts = np.diff(bounds_s(uploads), axis=1)
    return dict(zip(PARTS, parts.T, strict=True)) | {"whole": uploads["ended_s"] - uploads["requested_s"]}


def vain_share(uploads: Table) -> float:
    """Share of all bits sent that were in tries that failed, or in uploads that did not arrive; NaN of none."""
    sent = float(np.nansum(uploads["sent_bits"]))
    got = arrived(uploads)
    worth = float(np.nansum(uploads["sent_bits"][got]) - np.nansum(uploads["lost_bits"][got]))
    return (sent - worth) / sent if sent > 0 else float("nan")


def upload_rows(uploads: Table) -> dict[str, Table]:
    """What measures of `transmissions` are taken from, by name; nothing without such rows."""
    if not len(uploads["ue"]):
        return {}
    whole_s = durations_s(where(uploads, arrived(uploads)))["whole"]
    own = {"arrived": arrived(uploads), "whole": whole_s[np.isfinite(whole_s)], **one(in_vain=vain_share(uploads))}
    return {"uploads": uploads | own}


_LEVELS_PERCENT = (50, 70, 80, 85, 90)


def reached_rows(uploads: Table, metrics: Table) -> dict[str, Table]:
    """How soon a classifier had some levels of accuracy, by level; nothing where uploads take no time."""
    scored = metrics["name"] == "accuracy_percent"
    if not len(uploads["ue"]) or not scored.any():
        return {}
    start_s, of = float(uploads["requested_s"].min()), dict[str, Table]()
    for level in _LEVELS_PERCENT:
        took_s = reached_s(metrics["time_s"][scored], metrics["value"][scored], start_s, level)
        asked = int((uploads["requested_s"] <= start_s + took_s).sum()) if np.isfinite(took_s) else None
        of[str(level)] = one(time_s=took_s, uploads=asked)
    return of


def one(**values: Any) -> Table:
    """A row of single values."""
    return {name: np.array([value]) for name, value in values.items()}


_SHARE = 0.2  # of the time that has passed: over so much of it the score is averaged


def reached_s(time_s: FloatArray, score: FloatArray, start_s: float, level: float) -> float:
    """Time after start_s at which the mean score has reached a level; NaN if it never does.

    A score holds from its time (n,), which increases, to the next one; before the first, and where it is not finite, it
    is 0. The mean is looked at where the score changes, or leaves the mean.
    """
    if not len(time_s):
        return float("nan")
    since_s = time_s - start_s
    value = np.where(np.isfinite(score), score, 0.0)
    at_s = np.unique(np.concatenate([since_s, since_s / (1 - _SHARE)]))
    at_s = at_s[(at_s > 0) & (at_s <= since_s[-1])]
    mean = (_area(since_s, value, at_s) - _area(since_s, value, (1 - _SHARE) * at_s)) / (_SHARE * at_s)
    hit = np.flatnonzero(mean >= level)
    return float(at_s[hit[0]]) if len(hit) else float("nan")


def _area(since_s: FloatArray, value: FloatArray, at_s: FloatArray) -> FloatArray:
    """Integral (m,) of the steps (n,) from 0 to times (m,)."""
    steps_s, held = np.append(0.0, since_s), np.append(0.0, value)
    before = np.append(0.0, np.cumsum(held[:-1] * np.diff(steps_s)))
    k = np.searchsorted(steps_s, at_s, side="right") - 1
    return np.asarray(before[k] + held[k] * (at_s - steps_s[k]))


def withheld_rows(withholding: Table) -> dict[str, Table]:
    """What each rule by itself holds back, by rule, of the rows of `withholding`."""
    of: dict[str, Table] = {}
    for rule in dict.fromkeys(withholding["rule"].tolist()):
        mine = where(withholding, withholding["rule"] == rule)
        _, request = np.unique(np.stack([mine["time_s"], mine["ue"]]), axis=1, return_inverse=True)
        silent = np.bincount(request.reshape(-1), weights=mine["after"]) == 0
        of[rule] = {"silent": silent, "held_back": np.array([1 - mine["after"].sum() / mine["before"].sum()])}
    return of


def sums_rows(sums: Table) -> dict[str, Table]:
    """Sums that were not opened, and those of one UE, of the rows of `sums`; nothing where nothing is summed."""
    if not len(sums["group"]):
        return {}
    unopened, decoded = sums["opened"] == 0, sums["decoded"]
    lost = decoded[unopened].sum() / decoded.sum() if decoded.sum() else np.nan
    return {
        "sums": {"unopened": unopened, "lost": np.array([lost])},
        "opened sums": {"single": decoded[~unopened] == 1},
    }


def accepted(rounds: Table, withholding: Table) -> np.ndarray:
    """UEs that were asked and accepted in each round (n,), whatever they held back then."""
    if not len(withholding["ue"]):
        return rounds["ues"]
    first = withholding["rule"] == withholding["rule"][0]
    asked = np.unique(np.stack([withholding["round"][first], withholding["ue"][first]]), axis=1)[0]
    return np.array([np.sum(asked == number) for number in rounds["round"]])

"""What became of uploads that took their time, and how long they took."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.units import FloatArray
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.reached import reached_s
from scenarios.app.results.run import Table
from scenarios.app.results.statistics import mean_of
from scenarios.app.results.summary_keys import Key
from scenarios.app.results.uploads import LOST, arrived, durations_s, lost, vain_share


def upload_values(uploads: Table, rounds: Table) -> dict[Key, Any]:
    """Values of the rows of `transmissions` and of the merges; none where there are no such rows."""
    if not len(uploads["ue"]):
        return {}
    got, stale = arrived(uploads), uploads["staleness"][np.isfinite(uploads["staleness"])]
    values: dict[Key, Any] = {
        keys.UPLOADS_COUNT: len(got),
        keys.UPLOADS_ARRIVED: int(got.sum()),
        **{keys.UPLOADS_LOST[fate]: int((uploads["fate"] == fate).sum()) for fate in LOST},
        keys.UPLOADS_UNDER_WAY: int((~got & ~lost(uploads)).sum()),
    }
    for part, length_s in durations_s({k: v[got] for k, v in uploads.items()}).items():
        known = length_s[np.isfinite(length_s)]
        mean, high = keys.UPLOADS_TIME[part]
        values |= {mean: mean_of(known), high: float(np.quantile(known, 0.95)) if len(known) else float("nan")}
    return values | {
        keys.UPLOADS_VAIN: 100.0 * vain_share(uploads),
        keys.STALENESS_MEAN: mean_of(stale),
        keys.STALENESS_MAX: int(stale.max()) if len(stale) else None,
        keys.MERGE_RATE: _an_hour(rounds["time_s"]),
    }


def _an_hour(merged_s: FloatArray) -> float:
    """Merges an hour up to the last one, at which learning may have ended; NaN without any."""
    return len(merged_s) * 3600.0 / float(merged_s.max()) if len(merged_s) else float("nan")


_LEVELS_PERCENT = (50, 70, 80, 85, 90)


def reached_values(uploads: Table, metrics: Table) -> dict[str, Any]:
    """How soon a classifier had some levels of accuracy; nothing where uploads take no time."""
    scored = metrics["name"] == "accuracy_percent"
    if not len(uploads["ue"]) or not scored.any():
        return {}
    start_s, values = float(uploads["requested_s"].min()), dict[str, Any]()
    for level in _LEVELS_PERCENT:
        took_s = reached_s(metrics["time_s"][scored], metrics["value"][scored], start_s, level)
        asked = int((uploads["requested_s"] <= start_s + took_s).sum()) if np.isfinite(took_s) else None
        values |= {keys.REACHED_TIME.of(str(level)): took_s, keys.REACHED_UPLOADS.of(str(level)): asked}
    return values

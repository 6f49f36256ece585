"""What became of uploads that took their time, and how long they took."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.units import FloatArray
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.reached import reached_s
from scenarios.app.results.run import Table, where
from scenarios.app.results.uploads import LOST, arrived, durations_s, lost, vain_share


def upload_rows(uploads: Table, rounds: Table) -> dict[str, Table]:
    """What measures of `transmissions` and of the merges are taken from, by name; nothing without such rows."""
    if not len(uploads["ue"]):
        return {}
    got, stale = arrived(uploads), uploads["staleness"][np.isfinite(uploads["staleness"])]
    times = {k: v[np.isfinite(v)] for k, v in durations_s(where(uploads, got)).items()}
    fates = {fate: uploads["fate"] == fate for fate in LOST} | {"arrived": got, "under-way": ~got & ~lost(uploads)}
    whole = {"in_vain": np.array([vain_share(uploads)]), "merges_per_hour": np.array([_an_hour(rounds["time_s"])])}
    return {"uploads": uploads | times | fates | whole | {"oldest": np.sort(stale).astype(int)}}


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

"""What a summary says of updates that never came to be: held back on the device, or in sums that nobody opened."""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Table


def withheld_values(withholding: Table) -> dict[str, Any]:
    """What each rule by itself holds back, of the rows of `withholding`; nothing where there is none."""
    values: dict[str, Any] = {}
    for rule in dict.fromkeys(withholding["rule"].tolist()):
        mine = withholding["rule"] == rule
        before, after = withholding["before"][mine], withholding["after"][mine]
        requests = np.stack([withholding["time_s"][mine], withholding["ue"][mine]])
        _, request = np.unique(requests, axis=1, return_inverse=True)
        silent = np.bincount(request.reshape(-1), weights=after) == 0
        values[keys.WITHHELD_UPDATES.of(rule)] = 100.0 * float(silent.mean())
        values[keys.WITHHELD_SAMPLES.of(rule)] = 100.0 * float(1 - after.sum() / before.sum())
    return values


def sums_values(sums: Table) -> dict[str, Any]:
    """Sums that were not opened, and those of one UE, of the rows of `sums`; nothing where nothing is summed."""
    if not len(sums["group"]):
        return {}
    lost, decoded = sums["opened"] == 0, sums["decoded"]
    return {
        keys.SUMS_UNOPENED.of(): 100.0 * float(lost.mean()),
        keys.SUMS_LOST.of(): 100.0 * float(decoded[lost].sum() / decoded.sum()) if decoded.sum() else None,
        keys.SUMS_SINGLE.of(): 100.0 * float((decoded[~lost] == 1).mean()) if not lost.all() else None,
    }


def accepted(rounds: Table, withholding: Table) -> np.ndarray:
    """UEs that were asked and accepted in each round (n,), whatever they held back then."""
    if not len(withholding["ue"]):
        return rounds["ues"]
    first = withholding["rule"] == withholding["rule"][0]
    asked = np.unique(np.stack([withholding["round"][first], withholding["ue"][first]]), axis=1)[0]
    return np.array([np.sum(asked == number) for number in rounds["round"]])

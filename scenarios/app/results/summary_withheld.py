"""What a summary says of updates that never came to be: held back on the device, or in sums that nobody opened."""

from __future__ import annotations

import numpy as np

from scenarios.app.results.run import Table, where


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

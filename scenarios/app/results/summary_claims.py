"""The part of the summary about what an attack claims of UEs: that they are near a place, or have moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.leakage.claims import moved_auc, near_auc
from scenarios.app.results.run import Table


def claim_rows(estimates: Table, links: Table, near_m: float) -> dict[str, Table]:
    """Areas under the ROC curves of one attack's claims over the run; nothing for an attack that makes none.

    A UE is where it was when it was asked for its update.
    """
    of: dict[str, Table] = {}
    near, moved = (estimates["quantity"] == what for what in ("near", "moved"))
    if near.any():
        place_m, said_m = _places_m(links, estimates, near), _columns(estimates, near)
        of["near"] = {"auc": np.array([near_auc(estimates["weight"][near], np.hypot(*(place_m - said_m).T))])}
    if moved.any():
        now_m, before_m = _places_m(links, estimates, moved), _places_m(links, _before(estimates), moved)
        weight = estimates["weight"][moved]
        of["moved"] = {"auc": np.array([moved_auc(weight, np.hypot(*(now_m - before_m).T), near_m)])}
    return of


def _visit(table: Table) -> np.ndarray:
    """Round and UE of each row as one number, which orders rows by UE, then by round."""
    return table["ue"].astype(np.int64) * 2**31 + table["round"].astype(np.int64)


def _before(estimates: Table) -> Table:
    """The rows with the round in which the attack spoke of the same UE before, 0 for none."""
    visit, of_row = np.unique(_visit(estimates), return_inverse=True)
    ue, round_ = visit // 2**31, visit % 2**31
    again = np.concatenate([[False], ue[1:] == ue[:-1]])
    before = np.where(again, np.concatenate([[0], round_[:-1]]), 0)
    return {"ue": estimates["ue"], "round": before[of_row]}


def _places_m(links: Table, wanted: Table, rows: np.ndarray) -> np.ndarray:
    """True place (n, 2) of the round and UE of some rows of a table; NaN where it is not known."""
    visit, first = np.unique(_visit(links), return_index=True)
    place_m = np.concatenate([_columns(links, first), np.full((1, 2), np.nan)])  # the last: unknown
    want = _visit(wanted)[rows]
    at = np.searchsorted(visit, want)
    at[(at < len(visit)) & (visit[np.minimum(at, len(visit) - 1)] != want)] = len(visit)
    return np.asarray(place_m[at])


def _columns(table: Table, rows: Any) -> np.ndarray:
    """Places (n, 2) of some rows."""
    return np.stack([table["x_m"][rows], table["y_m"][rows]], axis=1)

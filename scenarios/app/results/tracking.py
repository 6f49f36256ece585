"""The table `tracking`: how well an attacker who remembers knows where UEs were, beside what it builds on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from netsim.units import BoolArray, FloatArray
from scenarios.app.results.run import Run, Table, where

FILTER, SMOOTHER, PLAIN, PRIOR = "filter", "smoother", "plain", "prior"
KINDS = (PLAIN, FILTER, SMOOTHER, PRIOR)
"""the wrapped attack alone; what the tracker knows in a round; what it knows of it at the end; the prior alone"""


def tracking_attacks(run: Run) -> list[str]:
    """Attacks that track, in the order of the records."""
    return list(dict.fromkeys(map(str, run.rows("tracking")["attack"])))


def tracked(run: Run, attack: str) -> dict[str, Table]:
    """Rows of the filter and of the smoother of an attack."""
    rows = run.rows("tracking", "attack", attack)
    return {kind: where(rows, rows["hindsight"] == flag) for flag, kind in enumerate((FILTER, SMOOTHER))}


def of_kind(rows: Mapping[str, Table], kind: str, column: str) -> tuple[Table, FloatArray]:
    """Rows that know a quantity (`error_m`, `near`, `expected_distance_m`) of one of KINDS, and their values."""
    if kind in rows:
        return rows[kind], rows[kind][column]
    return rows[FILTER], rows[FILTER][f"{kind}_{column}"]


def known_hours(run: Run, rows: Mapping[str, Table], kind: str) -> tuple[FloatArray, FloatArray]:
    """Numbers of rounds (n,), and the hours (n,) of a UE up to each in which it was known within leakage.near_m.

    Mean over all UEs with a row; a row stands for the window of its round.
    """
    table, near = of_kind(rows, kind, "near")
    return _summed_hours(run, rows, table, near == 1)


def _summed_hours(
    run: Run, rows: Mapping[str, Table], table: Table, share: FloatArray | BoolArray
) -> tuple[FloatArray, FloatArray]:
    number, at = np.unique(table["round"], return_inverse=True)
    n_ue = len(np.unique(np.concatenate([of["ue"] for of in rows.values()])))
    hours = np.bincount(at, share, minlength=len(number)) * float(run.manifest["round_s"]) / 3600.0
    return number, np.cumsum(hours) / max(n_ue, 1)

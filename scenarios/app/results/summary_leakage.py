"""The part of the summary about attacks: their errors, and the baselines that they are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fl.learners.density import Density
from netsim.columns import no_ints
from netsim.row_id import row_id
from scenarios.app.results.run import Table, where
from scenarios.app.results.statistics import mean_of, row_numbers

_TOGETHER = 2_000_000  # distances held at once


def last_of(table: Table, model: np.ndarray | None = None) -> Table:
    """The last row of each track (UE, model); or, with one number for all models, of each UE."""
    if not len(table["ue"]):
        return table
    track = row_id(table["ue"], table["model"] if model is None else model)
    _, reverse = np.unique(track[::-1], return_index=True)
    rows = np.sort(len(track) - 1 - reverse)
    return where(table, rows)


def anywhere_m(updates: Table, leakage: Table, learner: object, area_m: tuple[float, float, float, float]) -> float:
    """Mean distance from true centroids (2,000 of them, evenly taken) to places spread evenly over the area.

    Of an attacked density: from those that were estimated, to the points of its grid that lie in the area: its places
    are what a constant answer names.
    """
    if not isinstance(learner, Density) or not len(leakage["ue"]):
        unit = (np.arange(40) + 0.5) / 40
        x, y = (low + unit * (high - low) for low, high in zip(area_m[:2], area_m[2:], strict=True))
        return _mean_away_m(updates, x, y)
    heard = row_numbers(where(leakage, leakage["heard"] == 1))
    low, high = np.array(learner.area_m or area_m).reshape(2, 2)
    x, y = (np.linspace(low[k], high[k], n) for k, n in enumerate((*learner.grid, 0)[:2]))
    y = y if len(y) else (low[1:] + high[1:]) / 2
    x, y = (v[(v >= area_m[k]) & (v <= area_m[k + 2])] for k, v in enumerate((x, y)))
    x, y = (v[_evenly(len(v), 100)] for v in (x, y))
    return _mean_away_m(where(updates, np.isin(row_numbers(updates), heard)), x, y)


def _mean_away_m(updates: Table, x: np.ndarray, y: np.ndarray) -> float:
    """Mean distance from true centroids (2,000 of them, evenly taken) to all points of x (p,) and y (q,)."""
    known = np.flatnonzero(np.isfinite(updates["x_m"]))
    known = known[_evenly(len(known), 2000)]
    blocks = np.array_split(known, max(1, len(known) * len(x) * len(y) // _TOGETHER))
    away = [
        np.hypot(updates["x_m"][some, None, None] - x[:, None], updates["y_m"][some, None, None] - y).mean(axis=(1, 2))
        for some in blocks
        if len(some) and len(x) and len(y)
    ]
    return mean_of(np.concatenate(away)) if away else float("nan")


def _evenly(n: int, most: int) -> np.ndarray:
    """At most so many of n indices, evenly taken."""
    return np.linspace(0, n - 1, min(n, most)).astype(int) if n else no_ints()


def guess_rows(leakage: Table, labels: Sequence[str]) -> Table:
    """What random guesses and the true centroids reach, after the last round of the first attack with estimates."""
    guessed = set(leakage["attack"][np.isfinite(leakage["guess_sw1_m"])])
    label = next((label for label in labels if label in guessed), labels[0])
    last = last_of(where(leakage, leakage["attack"] == label))
    return last | {"guess_sqrt_sw1": np.sqrt(last["guess_sw1_m"])}


def attack_rows(rows: Table, useful: bool | None) -> dict[str, Table]:
    """What measures of one attack are taken from, by name, of its rows of `leakage`; useful: whether the model is."""
    heard, last = where(rows, rows["heard"] == 1), last_of(rows)
    for error in ("error_m", "selected_error_m"):
        heard[error] = np.where(heard["diverged"] == 1, np.inf, heard[error])
    _, first = np.unique(row_id(heard["ue"], heard["model"]), return_index=True)
    of = {"compared": rows, "heard": heard, "last": last, "first estimates": {"error_m": heard["error_m"][first]}}
    of["last round"] = {"error_m": heard["error_m"][np.isin(heard["round"], heard["round"][-1:])]}
    of |= {f"{name} if useful": if_useful(of[name], useful) for name in ("heard", "last")}
    steps = where(heard, np.isfinite(heard["step_error_m"]))
    if (heard["places"] > 0).any():
        of["places"] = heard
    if len(steps["ue"]):
        of |= {"steps": steps | {"exact": steps["step_error_m"] <= 1.0}, "walks": last_of(steps)}
    return of


def if_useful(rows: Table, useful: bool | None) -> Table:
    """The rows; none where the model is not useful."""
    return where(rows, slice(None, 0)) if useful is False else rows


def home_rows(rows: Table, homes: np.ndarray, near_m: float) -> dict[str, Table]:
    """The last row of each attacked UE that has a home, and the first round in which an attack was near it.

    All rows of a UE in a round have the same values: they are of all its models together. Infinite: never.
    """
    rows = where(rows, np.isin(rows["ue"], homes))
    ues, of_row = np.unique(rows["ue"], return_inverse=True)
    of = {"homes": last_of(rows, np.zeros(len(rows["ue"])))}
    for name, column in (("home ever", "home_m"), ("home named ever", "home_named_m")):
        first = np.full(len(ues), np.inf)
        np.minimum.at(first, of_row, np.where(rows[column] <= near_m, rows["round"], np.inf))
        of[name] = {"round": first, "found": np.isfinite(first)}
    return of


def effort_rows(estimates: Table) -> Table:
    """What each estimate of a centroid or answer cost."""
    mine = np.isin(estimates["quantity"], ("centroid", "answer"))
    rows = where(estimates, mine)
    return rows | {"failed": rows["status"] != "ok"}

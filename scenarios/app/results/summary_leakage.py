"""The part of the summary about attacks: their errors, and the baselines that they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fl.learners.density import Density
from netsim.columns import no_ints
from netsim.row_id import row_id
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Table
from scenarios.app.results.statistics import mean_of, median_of, quantile_of, row_numbers
from scenarios.app.results.summary_keys import Key

_TOGETHER = 2_000_000  # distances held at once


def last_of(table: Table, model: np.ndarray | None = None) -> Table:
    """The last row of each track (UE, model); or, with one number for all models, of each UE."""
    if not len(table["ue"]):
        return table
    track = row_id(table["ue"], table["model"] if model is None else model)
    _, reverse = np.unique(track[::-1], return_index=True)
    rows = np.sort(len(track) - 1 - reverse)
    return {k: v[rows] for k, v in table.items()}


def anywhere_m(updates: Table, area_m: tuple[float, float, float, float]) -> float:
    """Mean distance from true centroids (2,000 of them, evenly taken) to places spread evenly over the area."""
    unit = (np.arange(40) + 0.5) / 40
    x, y = (low + unit * (high - low) for low, high in zip(area_m[:2], area_m[2:], strict=True))
    return _mean_away_m(updates, x, y)


def on_grid_m(updates: Table, learner: Density, area_m: tuple[float, float, float, float]) -> float:
    """The same to the points of a grid that lie in the area: its places are what a constant answer names."""
    low, high = np.array(learner.area_m or area_m).reshape(2, 2)
    x, y = (np.linspace(low[k], high[k], n) for k, n in enumerate((*learner.grid, 0)[:2]))
    y = y if len(y) else (low[1:] + high[1:]) / 2
    x, y = (v[(v >= area_m[k]) & (v <= area_m[k + 2])] for k, v in enumerate((x, y)))
    x, y = (v[_evenly(len(v), 100)] for v in (x, y))
    return _mean_away_m(updates, x, y)


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


def estimated(updates: Table, leakage: Table) -> Table:
    """The updates of rounds, UEs and models for which an attack made an estimate."""
    theirs, every = row_numbers(leakage)[leakage["heard"] == 1], row_numbers(updates)
    return {k: v[np.isin(every, theirs)] for k, v in updates.items()}


def baseline_values(leakage: Table, labels: Sequence[str]) -> dict[Key, Any]:
    """What random guesses and the true centroids reach, after the last round of the first attack with estimates."""
    guessed = set(leakage["attack"][np.isfinite(leakage["guess_sw1_m"])])
    label = next((label for label in labels if label in guessed), labels[0])
    last = last_of({k: v[leakage["attack"] == label] for k, v in leakage.items()})
    return {
        keys.GUESS_SW1: mean_of(last["guess_sw1_m"]),
        keys.GUESS_SW1_Q05: mean_of(last["guess_sw1_m_q05"]),
        keys.GUESS_SW1_Q95: mean_of(last["guess_sw1_m_q95"]),
        keys.GUESS_SQRT_SW1: mean_of(np.sqrt(last["guess_sw1_m"])),
        keys.TRUE_CENTROIDS_SW1: mean_of(last["true_centroids_sw1_m"]),
    }


def attack_values(rows: Table) -> dict[Key, Any]:
    """What one attack reaches, from its rows of `leakage`."""
    heard = {k: v[rows["heard"] == 1] for k, v in rows.items()}
    error = np.where(heard["diverged"] == 1, np.inf, heard["error_m"])
    selected = np.where(heard["diverged"] == 1, np.inf, heard["selected_error_m"])
    of_last_round = error[heard["round"] == heard["round"][-1]] if len(error) else error
    last = last_of(rows)
    return {
        keys.COMPARED_ROUNDS: len(np.unique(rows["round"])),
        keys.ERROR_MEDIAN: quantile_of(error, 0.5),
        keys.ERROR_Q25: quantile_of(error, 0.25),
        keys.ERROR_Q75: quantile_of(error, 0.75),
        keys.ERROR_INSIDE_MEAN: mean_of(error),
        keys.ERROR_INSIDE_RMS: float(np.sqrt(mean_of(error**2))),
        keys.ERROR_LAST_ROUND: mean_of(of_last_round),
        keys.ERROR_FIRST_ROUND: _first_error(heard, error),
        keys.SELECTED_ERROR: quantile_of(selected, 0.5),
        **_places(heard),
        **_walks(heard),
        keys.DIVERGED: mean_of(100.0 * heard["diverged"]),
        keys.SW1: mean_of(last["sw1_m"]),
        keys.SQRT_SW1: mean_of(last["sqrt_sw1"]),
        keys.CENTROID_SW1: mean_of(last["centroid_sw1_m"]),
        keys.SMOOTHED_ERROR: median_of(last["smoothed_error_m"]),
        keys.TRACK_ERROR: median_of(last["track_error_m"]),
    }


def _places(rows: Table) -> dict[Key, Any]:
    """How far off the places are that an attack names; nothing for one that names none."""
    if not (rows["places"] > 0).any():
        return {}
    return {keys.PLACE_ERROR: mean_of(rows["place_error_m"]), keys.PLACES: mean_of(rows["places"])}


def _walks(rows: Table) -> dict[Key, Any]:
    """Errors of displacements, for an attack that estimates any; of the whole walk at its end."""
    some = {k: v[np.isfinite(rows["step_error_m"])] for k, v in rows.items()}
    if not len(some["ue"]):
        return {}
    end = last_of(some)
    return {
        keys.STEP_ERROR: mean_of(some["step_error_m"]),
        keys.STEP_NO_MOTION: mean_of(some["step_no_motion_m"]),
        keys.STEP_EXACT: mean_of(100.0 * (some["step_error_m"] <= 1.0)),
        keys.WALK_ERROR: mean_of(end["walk_error_m"]),
        keys.WALK_NO_MOTION: mean_of(end["walk_no_motion_m"]),
    }


def _first_error(rows: Table, error: np.ndarray) -> float:
    """Median over tracks of the first estimate's error."""
    if not len(error):
        return float("nan")
    _, first = np.unique(row_id(rows["ue"], rows["model"]), return_index=True)
    return quantile_of(error[first], 0.5)


def home_values(rows: Table, homes: np.ndarray, near_m: float) -> dict[Key, Any]:
    """How near an attack comes to home and work, over the attacked UEs that have a home.

    All rows of a UE in a round have the same values: they are of all its models together.
    """
    rows = {k: v[np.isin(rows["ue"], homes)] for k, v in rows.items()}
    last = last_of(rows, np.zeros(len(rows["ue"])))

    def away(column: str, q: float) -> float:
        return quantile_of(last[column], q)  # a UE without an estimate is infinitely far

    return {
        keys.HOME_MEDIAN: away("home_m", 0.5),
        keys.HOME_MIN: away("home_m", 0.0),
        keys.WORK_MEDIAN: away("work_m", 0.5),
        keys.HOME_NAMED_MEDIAN: away("home_named_m", 0.5),
        keys.HOME_NAMED_MIN: away("home_named_m", 0.0),
        keys.WORK_NAMED_MEDIAN: away("work_named_m", 0.5),
        keys.GUESS_HOME: median_of(last["guess_home_m"]),
        **_reached(rows, "home_m", near_m, keys.HOME_NEAR_ROUND, keys.HOME_NEAR_PERCENT),
        **_reached(rows, "home_named_m", near_m, keys.NAMED_EVER_ROUND, keys.NAMED_EVER_PERCENT),
    }


def _reached(rows: Table, column: str, near_m: float, when: Key, share: Key) -> dict[Key, Any]:
    """First round with a distance of at most near_m (median over UEs), and the percentage of UEs that have one."""
    ues, of_row = np.unique(rows["ue"], return_inverse=True)
    if not len(ues):
        return {when: None, share: None}
    first = np.full(len(ues), np.inf)
    np.minimum.at(first, of_row, np.where(rows[column] <= near_m, rows["round"], np.inf))
    return {when: quantile_of(first, 0.5), share: 100.0 * float(np.mean(np.isfinite(first)))}


def effort_values(estimates: Table) -> dict[Key, Any]:
    """What an attack cost: iterations, evaluations, failures."""
    mine = np.isin(estimates["quantity"], ("centroid", "answer"))
    return {
        keys.ITERATIONS: mean_of(estimates["iterations"][mine]),
        keys.EVALUATIONS: mean_of(estimates["evaluations"][mine]),
        keys.SELF_TEST: median_of(estimates["self_test_m"][mine]),
        keys.FAILED: mean_of(100.0 * (estimates["status"][mine] != "ok")),
    }

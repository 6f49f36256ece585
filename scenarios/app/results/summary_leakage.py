"""The part of the summary that says what attacks found, beside what guesses find."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.learners.density import Density
from netsim.row_id import row_id
from scenarios.app.results.run import Table
from scenarios.app.results.statistics import mean_of, median_of, quantile_of, row_numbers

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
    return np.linspace(0, n - 1, min(n, most)).astype(int) if n else np.zeros(0, dtype=int)


def heard_keys(updates: Table, leakage: Table) -> Table:
    """The updates of rounds, UEs and models of which an attack said something."""
    said = leakage["heard"] == 1
    theirs, every = (row_numbers(leakage)[said], row_numbers(updates))
    return {k: v[np.isin(every, theirs)] for k, v in updates.items()}


def baseline_keys(leakage: Table, label: str) -> dict[str, Any]:
    """What random guesses and a perfect attacker reach, after the last round of an attack."""
    last = last_of({k: v[leakage["attack"] == label] for k, v in leakage.items()})
    return {
        "baseline.random_guess.sw1_m": mean_of(last["guess_sw1_m"]),
        "baseline.random_guess.sw1_low_m": mean_of(last["guess_sw1_low_m"]),
        "baseline.random_guess.sw1_high_m": mean_of(last["guess_sw1_high_m"]),
        "baseline.random_guess.emd_sqrt_m": mean_of(np.sqrt(last["guess_sw1_m"])),
        "baseline.floor.sw1_m": mean_of(last["floor_sw1_m"]),
    }


def attack_keys(rows: Table) -> dict[str, Any]:
    """The figures of one attack from its rows of `leakage`."""
    heard = {k: v[rows["heard"] == 1] for k, v in rows.items()}
    error = np.where(heard["diverged"] == 1, np.inf, heard["error_m"])
    selected = np.where(heard["diverged"] == 1, np.inf, heard["selected_error_m"])
    last, first = last_of(rows), _first_error(heard, error)
    return {
        "centroid_error_m.median": quantile_of(error, 0.5),
        "centroid_error_m.q25": quantile_of(error, 0.25),
        "centroid_error_m.q75": quantile_of(error, 0.75),
        "centroid_error_m.mean_inside": mean_of(error[np.isfinite(error)]),
        "centroid_error_m.rms_inside": float(np.sqrt(mean_of(error**2))),
        "centroid_error_m.last_round": mean_of(error[heard["round"] == heard["round"][-1]])
        if len(error)
        else float("nan"),
        "centroid_error_m.first_round": first,
        "selected_error_m.median": quantile_of(selected, 0.5),
        **_places(heard),
        **_walks(heard),
        "diverged_percent": mean_of(100.0 * heard["diverged"]),
        "sw1_m": mean_of(last["sw1_m"]),
        "emd_sqrt_m": mean_of(last["emd_sqrt_m"]),
        "centroid_sw1_m": mean_of(last["centroid_sw1_m"]),
        "smoothed_error_m": median_of(last["smoothed_error_m"]),
        "track_error_m": median_of(last["track_error_m"]),
    }


def _places(rows: Table) -> dict[str, Any]:
    """How far the places are that an attack names; nothing for one that names none."""
    if not (rows["places"] > 0).any():
        return {}
    return {"place_error_m": mean_of(rows["place_error_m"]), "places_mean": mean_of(rows["places"])}


def _walks(rows: Table) -> dict[str, Any]:
    """Displacements, for an attack that says any; of the walk since the first answer, at its end."""
    some = {k: v[np.isfinite(rows["step_error_m"])] for k, v in rows.items()}
    if not len(some["ue"]):
        return {}
    end = last_of(some)
    return {
        "step_error_m": mean_of(some["step_error_m"]),
        "step_still_m": mean_of(some["step_still_m"]),
        "step_exact_percent": mean_of(100.0 * (some["step_error_m"] <= 1.0)),
        "walk_error_m": mean_of(end["walk_error_m"]),
        "walk_still_m": mean_of(end["walk_still_m"]),
    }


def _first_error(rows: Table, error: np.ndarray) -> float:
    """Median over tracks of the first estimate's error."""
    if not len(error):
        return float("nan")
    _, first = np.unique(row_id(rows["ue"], rows["model"]), return_index=True)
    return quantile_of(error[first], 0.5)


def reached_keys(rows: Table, column: str, near_m: float, name: str) -> dict[str, Any]:
    """First round within near_m of such a place (median over UEs), and for how many it comes."""
    ues, of_row = np.unique(rows["ue"], return_inverse=True)
    if not len(ues):
        return {f"{name}_round": None, f"{name}_probability": None}
    first = np.full(len(ues), np.inf)
    np.minimum.at(first, of_row, np.where(rows[column] <= near_m, rows["round"], np.inf))
    return {f"{name}_round": quantile_of(first, 0.5), f"{name}_probability": float(np.mean(np.isfinite(first)))}


def effort_keys(estimates: Table) -> dict[str, Any]:
    """What an attack cost: iterations, evaluations, failures."""
    mine = estimates["what"] == "centroid"
    return {
        "iterations_mean": mean_of(estimates["iterations"][mine]),
        "evaluations_mean": mean_of(estimates["evaluations"][mine]),
        "self_test_m": median_of(estimates["self_test_m"][mine]),
        "failed_percent": mean_of(100.0 * (estimates["status"][mine] != "ok")),
    }

"""The data of figures: a run's rows laid out in time.

Shapes: n_time rounds that have a row; n_track columns, each a (UE, model) pair or, in a comparison, a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from netsim.row_id import row_id, ue_and_model
from netsim.units import FloatArray, IntArray
from scenarios.app.report.plot import DARK, GREY, Figure, Look, spread
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.statistics import carried, count, quartiles
from scenarios.app.results.summary import with_home

Series = tuple[FloatArray, FloatArray]
"""Times and values (n_time,) each."""

SMALLEST_M = 0.1  # nearer than this is drawn at this: a logarithmic axis has no zero
WIDE_RANGE = 30.0  # ratio of largest to smallest beyond which an axis is logarithmic
GUESS = Look("baseline: random guesses", GREY, dash="dot")
TRUE_CENTROIDS = Look("the true centroids as estimates", DARK, dash="dash")


@dataclass(frozen=True, eq=False)
class TimeGrid:
    """Rows laid out in time: a column of the table becomes (n_time, n_track), NaN where there is no row.

    time_s (n_time,) is that of each round's latest row, round its number.
    """

    rows: Table
    round: FloatArray
    time_s: FloatArray
    ue: FloatArray
    at: tuple[IntArray, IntArray]

    @classmethod
    def of(cls, rows: Table, each: Literal["model", "ue"] = "model") -> TimeGrid:
        """One track per (UE, model); or per UE, for figures that are the same in all its models."""
        number, i = np.unique(rows["round"], return_inverse=True)
        time_s = np.full(len(number), -np.inf)
        np.maximum.at(time_s, i, rows["time_s"])
        model = np.nan_to_num(rows["model"]) if each == "model" else np.zeros(len(rows["ue"]))
        keys, j = np.unique(row_id(rows["ue"].astype(np.int64), model.astype(np.int64)), return_inverse=True)
        return cls(rows, number, time_s, ue_and_model(keys)[0].astype(np.float64), (i, j))

    def lay(self, values: FloatArray) -> FloatArray:
        """Values of the rows as (n_time, n_track)."""
        grid = np.full((len(self.time_s), len(self.ue)), np.nan)
        grid[self.at] = values
        return grid

    def so_far(self, name: str) -> FloatArray:
        """A column whose value lasts until the next one (n_time, n_track)."""
        return carried(self.lay(self.rows[name]))

    def error_m(self) -> FloatArray:
        """Centroid errors (n_time, n_track); one that diverged counts as infinite."""
        return self.lay(np.where(self.diverged, np.inf, self.rows["error_m"]))

    @property
    def diverged(self) -> Any:
        """Whether the estimate of a row is outside the area or not finite."""
        return (self.rows["heard"] == 1) & (self.rows["diverged"] == 1)


def model_error_db(run: Run, name: str) -> FloatArray:
    """An error of the rounds (n_round,), of the last of them that of the summary: on all held-out samples."""
    values, final = run.rows("rounds")[name].copy(), run.summary.get(f"utility.{name}")
    if final is not None and len(values) and np.isfinite(values[-1]):
        values[-1] = final
    return values


def median_line(look: Look, x: Sequence[Any], grid: FloatArray, unit: str = "m", **more: Any) -> list[Figure]:
    """Median and quartiles over tracks, or nothing where no median is known."""
    values = quartiles(grid)
    return spread(look, x, values, count(grid), unit, **more) if np.isfinite(values[1]).any() else []


def drawable(error_m: FloatArray) -> FloatArray:
    """Errors as a logarithmic axis can show them."""
    return np.maximum(error_m, SMALLEST_M)


def diagonal_m(manifest: Mapping[str, Any]) -> float:
    """The longest distance inside the area."""
    west, south, east, north = manifest["area_m"]
    return float(np.hypot(east - west, north - south))


DATES: Figure = {
    "type": "date", "title": {"text": "simulated local time"}, "hoverformat": "%a %Y-%m-%d %H:%M",
}  # fmt: skip


def attack_grids(run: Run, own: Iterable[Look]) -> list[tuple[Look, TimeGrid]]:
    """Rows of each attack laid out in time; an attack without rows is left out."""
    rows_of = [(look, run.rows("leakage", "attack", look.name)) for look in own]
    return [(look, TimeGrid.of(rows)) for look, rows in rows_of if len(rows["ue"])]


def home_grids(run: Run, own: Iterable[Look]) -> list[tuple[Look, TimeGrid]]:
    """The same with one track a UE, of those that have a home."""
    homes, grids = with_home(run.tables["ues"]), []
    for look, grid in attack_grids(run, own):
        mine = np.isin(grid.rows["ue"], homes)
        if mine.any():
            grids.append((look, TimeGrid.of(where(grid.rows, mine), "ue")))
    return grids


def unfound(distance_m: FloatArray) -> FloatArray:
    """Distances (n_time, n_ue) in which a UE without an estimate so far is infinitely far."""
    return np.where(np.isnan(distance_m), np.inf, distance_m)


def over_ues(run: Run) -> str:
    """A sentence on what medians are taken over; empty for one UE."""
    return "Lines are medians over UEs, bands their quartiles. " if len(run.tables["ues"]["ue"]) > 1 else ""


def wide(values: FloatArray) -> bool:
    """Whether values span so much that only a logarithmic axis shows them all."""
    positive = values[np.isfinite(values) & (values > 0)]
    return bool(len(positive)) and float(positive.max()) > WIDE_RANGE * float(positive.min())

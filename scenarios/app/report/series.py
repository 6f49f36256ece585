"""The data of charts: a run's rows laid out in time.

Shapes: n_time rounds that have a row; n_track columns, each a (UE, model) pair or, in a comparison, a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from netsim.row_id import row_id, ue_and_model
from netsim.units import BoolArray, FloatArray, IntArray
from scenarios.app.report.plot import Figure, Look, spread
from scenarios.app.results.measures import Measure
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.statistics import carried, count, quartiles

Series = tuple[FloatArray, FloatArray]
"""Times or numbers of rounds (n_time,), and values (n_time,) or (n_time, n_track)."""
WIDE_RANGE = 30.0  # ratio of largest to smallest beyond which an axis is logarithmic
DATES: Figure = {"type": "date", "title": "simulated local time", "hoverformat": "%a %Y-%m-%d %H:%M"}


@dataclass(frozen=True, eq=False)
class TimeGrid:
    """Rows laid out in time: a column of the table becomes (n_time, n_track), NaN where there is no row."""

    rows: Table
    round: FloatArray
    ue: FloatArray
    at: tuple[IntArray, IntArray]

    @classmethod
    def of(cls, rows: Table, each: Literal["model", "ue"] = "model") -> TimeGrid:
        """One track per (UE, model); or per UE, for figures that are the same in all its models."""
        number, i = np.unique(rows["round"], return_inverse=True)
        model = np.nan_to_num(rows["model"]) if each == "model" else np.zeros(len(rows["ue"]))
        keys, j = np.unique(row_id(rows["ue"].astype(np.int64), model.astype(np.int64)), return_inverse=True)
        return cls(rows, number, ue_and_model(keys)[0].astype(np.float64), (i, j))

    def lay(self, values: FloatArray) -> FloatArray:
        """Values of the rows as (n_time, n_track)."""
        grid = np.full((len(self.round), len(self.ue)), np.nan)
        grid[self.at] = values
        return grid

    def so_far(self, name: str) -> FloatArray:
        """A column whose value lasts until the next one (n_time, n_track)."""
        return carried(self.lay(self.rows[name]))


@dataclass(frozen=True, eq=False)
class Laid:
    """A run whose rows are laid out in time once, when a chart first asks for them."""

    run: Run
    grids: dict[tuple[str, ...], TimeGrid] = field(default_factory=dict)

    def grid(self, table: str, column: str = "", value: str = "", each: Literal["model", "ue"] = "ue") -> TimeGrid:
        """Rows of a table, those with `value` in a column."""
        key = (table, column, value, each)
        if key not in self.grids:
            self.grids[key] = TimeGrid.of(self.run.rows(table, column, value), each)
        return self.grids[key]

    def attack(self, name: str) -> TimeGrid:
        """Rows of an attack, one track per UE and model."""
        return self.grid("leakage", "attack", name, "model")


def learner_metric(run: Run, key: Measure) -> Table:
    """The rows of the learner's metric that the key `utility.METRIC` takes at the end."""
    rows = run.rows("metrics", "part", "learner")
    return where(rows, np.array([f"utility.{name}" == key.of() for name in rows["name"]], dtype=bool))


def model_error_db(run: Run, name: str) -> FloatArray:
    """An error of the rounds (n_round,), of the last of them that of the summary: on all held-out samples."""
    values, final = run.rows("rounds")[name].copy(), run.summary.get(f"utility.{name}")
    if final is not None and len(values) and np.isfinite(values[-1]):
        values[-1] = final
    return values


def named_over_time(run: Run, attack: str, place: str) -> tuple[FloatArray, BoolArray]:
    """Rounds (n,), and of which attacked UEs that have it home, work or both is named then (n, n_ue)."""
    rows, ues = run.rows("leakage", "attack", attack), run.tables["ues"]
    wanted = ("home", "work") if place == "both" else (place,)
    have = np.all([np.isfinite(ues[f"{one}_{axis}_m"]) for one in wanted for axis in "xy"], axis=0)
    grid = TimeGrid.of(where(rows, np.isin(rows["ue"], ues["ue"][have])), "ue")
    hit = np.ones((len(grid.round), len(grid.ue)), dtype=bool)
    for one in wanted:
        away_m = grid.rows[f"{one}_named_m"]
        hit &= carried(grid.lay(np.where(np.isnan(away_m), np.inf, away_m))) <= run.near_m
    return grid.round, hit


def median_line(look: Look, x: Sequence[Any], grid: FloatArray, unit: str = "m", **more: Any) -> list[Figure]:
    """Median and quartiles over tracks, or nothing where no median is known."""
    values = quartiles(grid)
    return spread(look, x, values, count(grid), unit, **more) if np.isfinite(values[1]).any() else []


def wide(values: FloatArray) -> bool:
    """Whether values span so much that only a logarithmic axis shows them all."""
    positive = values[np.isfinite(values) & (values > 0)]
    return bool(len(positive)) and float(positive.max()) > WIDE_RANGE * float(positive.min())

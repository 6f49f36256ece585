"""Laws of what pages draw over time: rounds and values of a run, for an attack or what else a curve
is of. `assets/charts.toml` names them, with their settings.

Shapes: n_time rounds that have a row; n_track columns, each a (UE, model) pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import inf, nan

import numpy as np

from netsim.columns import divide_or, frozen, number_row
from netsim.units import ArrayPair, FloatArray, IntArrayPair
from scenarios.app.results.read import (
    FILTER,
    SMOOTHER,
    Run,
    Table,
    accumulate_known_hours,
    select_known_values,
    select_rows,
    select_tracking,
)
from scenarios.app.results.statistics import carry_forward, compute_quantile_over_tracks
from scenarios.app.results.summary import find_ues_with_home
from scenarios.app.results.summary_keys import NAME

Series = ArrayPair
"""Times or numbers of rounds (n_time,), and values (n_time,) or (n_time, n_track)."""
Law = Callable[..., Series]
"""Rounds (n_time,) and values (n_time, n_track) of a run, and of the name of a curve."""
SMALLEST_M = 0.1  # nearer than this is drawn at this: a logarithmic axis has no zero


@frozen
class TimeGrid:
    """Rows laid out in time: a column of the table becomes (n_time, n_track), NaN where there is no
    row.

    A track is a UE, or a (UE, model) pair where the table has models; without UEs there is one. at
    : time and track of each row.
    """

    rows: Table
    round: FloatArray
    index: IntArrayPair

    @classmethod
    def from_rows(cls, rows: Table) -> TimeGrid:
        """Lay some rows out as a grid."""
        number, i = np.unique(rows["round"], return_inverse=True)
        none = np.zeros(len(i))
        ue, model = (np.nan_to_num(rows.get(name, none)).astype(int) for name in ("ue", "model"))
        _, j = np.unique(number_row(ue, model), return_inverse=True)
        return cls(rows, number, (i, j))

    def lay_out(self, values: FloatArray) -> FloatArray:
        """Lay out values of the rows as (n_time, n_track)."""
        grid = np.full((len(self.round), self.index[1].max(initial=-1) + 1), nan)
        grid[self.index] = values
        return grid

    def carry_column(self, name: str) -> FloatArray:
        """Carry a column whose value lasts until the next one (n_time, n_track)."""
        return carry_forward(self.lay_out(self.rows[name]))


@lru_cache(maxsize=2)  # the laws of an attack follow one another
def get_time_grid(run: Run, table: str, column: str, value: str) -> TimeGrid:
    """Get rows of a table, those with `value` in a column."""
    return TimeGrid.from_rows(run.get_rows(table, column, value))


def lay_out_column(
    run: Run,
    curve: str,
    table: str,
    column: str,
    by: str = "",
    value: str = "",
    factor: float = 1.0,
    lasts: bool = False,
) -> Series:
    """Lay out a column of a record table.

    by : the column that holds the name of the curve, or `value`; lasts : until the next.
    """
    grid = get_time_grid(run, table, by, (value or curve) if by else "")
    if lasts:
        return grid.round, grid.carry_column(column)
    return grid.round, factor * grid.lay_out(grid.rows[column])


def lay_out_constant(run: Run, attack: str, key: str) -> Series:
    """Lay out a value of the summary, at the first and the last round."""
    number = run.get_rows("rounds")["round"]
    ends = number[:: max(len(number) - 1, 1)]
    value = run.summary.get(key.replace(NAME, attack))
    return ends, np.full((len(ends), 1), value, dtype=float)


def _lay_out_named_distance(run: Run, attack: str) -> Series:
    """Lay out the distance from the homes of UEs that have one to the nearer named place.

    Infinite without any.
    """
    rows = run.get_rows("leakage", "attack", attack)
    homes = find_ues_with_home(run.tables["ues"])
    grid = TimeGrid.from_rows(select_rows(rows, np.isin(rows["ue"], homes)))
    distance_m = grid.carry_column("home_named_m")
    return grid.round, np.where(np.isnan(distance_m), inf, distance_m)


def _lay_out_estimates(run: Run, attack: str, diverged: float, column: str = "") -> Series:
    """Lay out a column of `leakage` (none: 0), with one value for estimates that are outside the
    area or not finite.
    """
    grid = get_time_grid(run, "leakage", "attack", attack)
    rows = grid.rows
    has_diverged = (rows["heard"] == 1) & (rows["diverged"] == 1)
    return grid.round, grid.lay_out(np.where(has_diverged, diverged, rows.get(column, 0.0)))


def _lay_out_named(run: Run, attack: str, places: Sequence[str]) -> Series:
    """Lay out which attacked UEs that have all of these places have them named, in percent."""
    rows = run.get_rows("leakage", "attack", attack)
    del rows["model"]  # places are named once for all models of a UE
    ues = run.tables["ues"]
    columns = [ues[f"{name}_{axis}_m"] for name in places for axis in "xy"]
    grid = TimeGrid.from_rows(
        select_rows(rows, np.isin(rows["ue"], ues["ue"][np.isfinite(columns).all(axis=0)]))
    )
    named_m = [np.nan_to_num(grid.rows[f"{name}_named_m"], nan=inf) for name in places]
    farthest_m = np.maximum.reduce([carry_forward(grid.lay_out(m)) for m in named_m])
    return grid.round, np.where(farthest_m <= run.hit_radius_m, 100.0, 0.0)


def _lay_out_model_error(run: Run, _: str, column: str) -> Series:
    """Lay out an error of the rounds.

    Of the last of them that of the summary: on all held-out samples.
    """
    rows = run.get_rows("rounds")
    values = rows[column]
    values = np.where(np.isnan(values) & np.isfinite(rows["constant_rmse_db"]), inf, values)
    final = run.summary.get(f"utility.{column}")
    if final is not None and len(values) and np.isfinite(values[-1]):
        values[-1] = final
    return rows["round"], values[:, None]


def _sum_wasted_energy(run: Run, _: str) -> Series:
    """Sum the energy (n_time, 1) of updates that were not decoded in time, joules."""
    rows = run.get_rows("links")
    number, index = np.unique(rows["round"], return_inverse=True)
    lost_j = np.where(rows["decoded"] == 1, 0.0, np.nan_to_num(rows["energy_j"]))
    return number, np.asarray(np.bincount(index, lost_j, len(number)), np.float64)[:, None]


def _find_canary_bounds(run: Run, name: str) -> Series:
    """Find a bound of canaries (n_time, 1), the largest of a round."""
    rows = run.tables["audit"]
    bounds = select_rows(rows, (rows["half"] == "canaries") & (rows["round"] > 0))
    number, first = np.unique(bounds["round"], return_index=True)
    return number, np.maximum.reduceat(bounds[name], first)[:, None]


def _lay_out_tracked(
    run: Run,
    kind: str,
    attack: str,
    column: str,
    kinds: Sequence[str] = (FILTER, SMOOTHER),
    factor: float = 1.0,
) -> Series:
    """Lay out a column of `tracking` of one of some kinds; nothing of another kind."""
    if kind not in kinds:
        return np.zeros(0), np.zeros((0, 1))
    table, values = select_known_values(select_tracking(run, attack), kind, column)
    grid = TimeGrid.from_rows(table)
    return grid.round, factor * grid.lay_out(values)


def _accumulate_hours(run: Run, kind: str, attack: str) -> Series:
    """Accumulate the hours (n_time, 1) of a UE in which an attack knew it."""
    number, hours = accumulate_known_hours(run, select_tracking(run, attack), kind)
    return number, hours[:, None]


def _lay_out_links(
    run: Run, attack: str, column: str, factor: float = 1.0, weight: str = ""
) -> Series:
    """Lay out a column of `linking`; with a weight the mean of all its values so far."""
    rows = run.get_rows("linking", "attack", attack)
    values = factor * rows[column][:, None]
    if weight:
        values = average_so_far(values, rows[weight][:, None])
    return rows["round"], values


def _measure_staleness(run: Run, _: str, statistic: str) -> Series:
    """Measure the mean or largest staleness of each merge."""
    uploads = run.tables["transmissions"]
    merged = select_rows(uploads, np.isfinite(uploads["staleness"]) & np.isfinite(uploads["ue"]))
    order = np.argsort(merged["round"], kind="stable")
    number, first = np.unique(merged["round"][order], return_index=True)
    merges = np.split(merged["staleness"][order], first)[1:]
    values = [getattr(staleness, statistic)() for staleness in merges]
    return number, np.array(values).reshape(-1, 1)


LAWS: Mapping[str, Law] = {
    "column": lay_out_column,
    "constant": lay_out_constant,
    "named": _lay_out_named,
    "named distance": _lay_out_named_distance,
    "estimates": _lay_out_estimates,
    "model error": _lay_out_model_error,
    "wasted energy": _sum_wasted_energy,
    "canaries": _find_canary_bounds,
    "tracked": _lay_out_tracked,
    "known hours": _accumulate_hours,
    "links": _lay_out_links,
    "staleness": _measure_staleness,
}


def average_over_tracks(grid: FloatArray) -> FloatArray:
    """Average over tracks (n_time, 1); NaN of none."""
    is_known = np.isfinite(grid)
    return divide_or(np.where(is_known, grid, 0.0).sum(axis=1), is_known.sum(axis=1), nan)[:, None]


def average_so_far(grid: FloatArray, weight: FloatArray | float = 1.0) -> FloatArray:
    """Average all values up to each round (n_time, 1), NaN left out."""
    weights = np.where(np.isfinite(grid), weight, 0.0)
    held = np.cumsum((np.nan_to_num(grid) * weights).sum(axis=1))
    return divide_or(held, np.cumsum(weights.sum(axis=1)), nan)[:, None]


CHANGES: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "mean": average_over_tracks,
    "mean so far": average_so_far,
    "largest": lambda grid: compute_quantile_over_tracks(grid, 1.0)[:, None],
    "above zero": lambda grid: np.maximum(grid, SMALLEST_M),
    # an ideal uplink takes no time and no energy
    "hide zeros": lambda grid: grid if (grid > 0).any() else np.full_like(grid, nan),
}
"""what is drawn in place of the values (n_time, n_track) of a law"""


def build_law(of: str, then: Sequence[str] = (), **settings: object) -> Law:
    """Build a law of LAWS with settings, and with CHANGES of its values one after the other."""
    lay_out = LAWS[of]
    changes = [CHANGES[name] for name in then]

    def law(run: Run, curve: str, **more: object) -> Series:
        number, values = lay_out(run, curve, **settings, **more)
        for change in changes:
            values = change(values)
        return number, values

    return law

"""What pages draw over time: each quantity once, with a curve per attack of a run or per label of a comparison.

Shapes: n_time rounds that have a row; n_track columns, each a (UE, model) pair or, in a comparison, a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from netsim.row_id import row_id, ue_and_model
from netsim.units import BoolArray, FloatArray, IntArray
from scenarios.app.report.plot import DARK, GREY, Axes, CurveStyle, Figure, Panel, line, looks, mosaic, spread
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.statistics import carried, count, counted, quantile, quartiles
from scenarios.app.results.summary import with_home

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


def learner_metric(run: Run, key: keys.Measure) -> Table:
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


def median_line(look: CurveStyle, x: Sequence[Any], grid: FloatArray, unit: str = "m", **more: Any) -> list[Figure]:
    """Median and quartiles over tracks, or nothing where no median is known."""
    values = quartiles(grid)
    return spread(look, x, values, count(grid), unit, **more) if np.isfinite(values[1]).any() else []


def wide(values: FloatArray) -> bool:
    """Whether values span so much that only a logarithmic axis shows them all."""
    positive = values[np.isfinite(values) & (values > 0)]
    return bool(len(positive)) and float(positive.max()) > WIDE_RANGE * float(positive.min())


MOST_POINTS = 400  # of a curve; of more rounds several make one
SMALLEST_M = 0.1  # nearer than this is drawn at this: a logarithmic axis has no zero
Law = Callable[[Laid, str], Series]
"""Rounds (n_time,) and values (n_time, n_track) of a run, for an attack or what else a curve is of."""
Draws = Callable[[Law, CurveStyle | None], tuple[Sequence[Any], FloatArray]]
"""Places on the axis of time (n,) and values (n, n_track) of a law: for one look, or for all of them together."""


@dataclass(frozen=True)
class Beside:
    """A baseline of a quantity; each: whether each attack has its own, in its colour."""

    name: str
    of: Law
    dash: str = "dot"
    color: str = GREY
    each: bool = False


@dataclass(frozen=True)
class Quantity:
    """What a pair of axes shows; {near} in a title is leakage.near_m; log: where values are wide."""

    title: str
    unit: str
    law: Law
    beside: tuple[Beside, ...] = ()
    log: bool = False

    def cell(self, own: Sequence[CurveStyle], draws: Draws) -> Axes | None:
        """The axes with a curve per look and the baselines; None where nothing is known."""
        curves = list[Figure]()
        for look in own:
            x, grid = draws(self.law, look)
            shown = np.maximum(grid, SMALLEST_M) if self.log and self.unit == "m" else grid
            curves += median_line(look, x, shown, self.unit)
        if not curves:
            return None
        values = np.array([y for t in curves for y in t["y"] if y is not None], dtype=float)
        baselines = [trace for beside in self.beside for trace in self._baselines(beside, own, draws)]
        return Axes(
            self.unit, [*curves, *baselines], self.title, log=self.log and wide(values), percent=self.unit == "%"
        )

    def _baselines(self, beside: Beside, own: Sequence[CurveStyle], draws: Draws) -> list[Figure]:
        """The lines of a baseline that is known."""
        found = list[Figure]()
        for look in own if beside.each else [None]:
            x, grid = draws(beside.of, look)
            middle = quantile(grid, 0.5)
            if np.isfinite(middle).any():
                name, color = (f"{look.name}: {beside.name}", look.color) if look else (beside.name, beside.color)
                hover = f"%{{y:,.3~r}} {self.unit}"
                found.append(
                    line(CurveStyle(name, color, dash=beside.dash), x, middle, mode="lines", hovertemplate=hover)
                )
        return found


@dataclass(frozen=True)
class Chart:
    """A figure over time: pairs of axes side by side, a curve for each of `by`.

    missing : why there is no figure, where none of the quantities is known; empty: nothing is written.
    """

    key: str
    title: str
    quantities: Sequence[Quantity]
    caption: str
    missing: str = ""
    by: Callable[[Run], Sequence[CurveStyle]] = lambda run: looks(run.attacks)
    height: int = 300

    def panels(self, of: Laid) -> list[Panel]:
        """The figure of a run, or why there is none."""
        run, own = of.run, self.by(of.run)

        def draws(law: Law, look: CurveStyle | None) -> tuple[list[str], FloatArray]:
            number, values = law(of, (look or own[0]).name)
            together = _together(len(number))
            return run.dates(run.moment_s(number[::together], merged=True)), grouped(values, together)

        note, points = "", _together(len(run.rows("rounds")["round"]))
        if len(run.tables["ues"]["ue"]) > 1:
            note += " Lines are medians over UEs, bands their quartiles."
        note += f" A point stands for {counted(points, 'round')}." if points > 1 else ""
        return self.drawn(own, draws, DATES, run.near_m, note)

    def drawn(self, own: Sequence[CurveStyle], draws: Draws, x_axis: Figure, near_m: float, note: str) -> list[Panel]:
        """The figure of these curves, or why there is none."""
        cells = [cell for quantity in self.quantities if (cell := quantity.cell(own, draws)) is not None]
        cells = [replace(cell, title=cell.title.replace("{near}", f"{near_m:g}")) for cell in cells]
        title, caption = (text.replace("{near}", f"{near_m:g}") for text in (self.title, self.caption))
        if cells:
            return [Panel(self.key, title, caption + note, mosaic(cells, x_axis, self.height))]
        return [Panel(self.key, title, self.missing)] if self.missing else []


def _together(n: int) -> int:
    """How many of n rounds make a point."""
    return -(-n // MOST_POINTS) or 1


def grouped(grid: FloatArray, together: int) -> FloatArray:
    """Rounds (n_time, n_track), several made one row with all their values: (ceil(n_time / together), ...)."""
    padded = np.pad(grid, ((0, -len(grid) % together), (0, 0)), constant_values=np.nan)
    return padded.reshape(len(padded) // together, together * grid.shape[1])


# -- laws


def _attacked(column: str) -> Law:
    """A column of `leakage` until its next value."""

    def law(of: Laid, attack: str) -> Series:
        grid = of.attack(attack)
        return grid.round, grid.so_far(column)

    return law


def _nearer(of: Laid, attack: str) -> Series:
    """Distance from the homes of UEs that have one to the nearer named place, infinite without any."""
    rows = of.attack(attack).rows
    grid = TimeGrid.of(where(rows, np.isin(rows["ue"], with_home(of.run.tables["ues"]))), "ue")
    values = grid.so_far("home_named_m")
    return grid.round, np.where(np.isnan(values), np.inf, values)


def _error(of: Laid, attack: str) -> Series:
    grid = of.attack(attack)
    return grid.round, grid.lay(np.where(_lost(grid), np.inf, grid.rows["error_m"]))


def _lost(grid: TimeGrid) -> BoolArray:
    """Whether the estimate of a row is outside the area or not finite."""
    return np.asarray((grid.rows["heard"] == 1) & (grid.rows["diverged"] == 1))


def _diverged(of: Laid, attack: str) -> Series:
    grid = of.attack(attack)
    return grid.round, above_zero(100.0 * mean_track(grid.lay(_lost(grid).astype(float))))


def above_zero(values: FloatArray) -> FloatArray:
    """Values, unknown where none is above zero: then there is nothing to draw."""
    return values if (values > 0).any() else np.full_like(values, np.nan)


def lasting(key: keys.Measure) -> Law:
    """A value of the summary, at the first and the last round."""

    def law(of: Laid, attack: str) -> Series:
        number, value = of.run.rows("rounds")["round"], of.run.summary.get(key.of(attack if key.named else ""))
        ends = number[:: max(len(number) - 1, 1)]
        return ends, np.full((len(ends), 1), np.nan if value is None else float(value))

    return law


def _near(of: Laid, attack: str) -> Series:
    """leakage.near_m in all rounds of an attack."""
    number = of.attack(attack).round
    return number, np.full((len(number), 1), of.run.near_m)


def mean_track(grid: FloatArray) -> FloatArray:
    """Mean over tracks (n_time, 1); NaN of none."""
    known = np.isfinite(grid)
    total, n = np.where(known, grid, 0.0).sum(axis=1), known.sum(axis=1)
    return np.asarray(np.where(n > 0, total / np.maximum(n, 1), np.nan))[:, None]


def _named(place: str) -> Law:
    def law(of: Laid, attack: str) -> Series:
        number, hit = named_over_time(of.run, attack, place)
        return (number, 100.0 * hit.mean(axis=1)[:, None]) if hit.size else (np.zeros(0), np.zeros((0, 1)))

    return law


def _rounds(column: str) -> Law:
    def law(of: Laid, _: str) -> Series:
        rows = of.run.rows("rounds")
        values = model_error_db(of.run, column) if column.endswith("rmse_db") else rows[column]
        return rows["round"], values[:, None]

    return law


def of_table(rows: Table) -> Series:
    """Its values, a track."""
    return rows["round"], rows["value"][:, None]


def metric(name: str) -> Law:
    """A metric that parts report."""
    return lambda of, _: of_table(of.run.rows("metrics", "name", name))


def _links(column: str, factor: float = 0.0) -> Law:
    """A column of `links` over UEs; factor: of the mean."""

    def law(of: Laid, _: str) -> Series:
        grid = of.grid("links")
        values = grid.lay(grid.rows[column])
        return grid.round, factor * mean_track(values) if factor else values

    return law


def _timed(of: Law) -> Law:
    """A law whose values are drawn where some are above zero: an ideal uplink takes no time and no energy."""

    def law(laid: Laid, name: str) -> Series:
        number, values = of(laid, name)
        return number, above_zero(values)

    return law


def spent(of: Laid, mechanism: str) -> Series:
    """The largest epsilon of any UE so far."""
    grid = of.grid("spends", "mechanism", mechanism, "model")
    return grid.round, quantile(grid.so_far("epsilon"), 1.0)[:, None]


# -- quantities that pages of runs and of comparisons share

HOME, WORK, BOTH = (
    Quantity(
        title, "%", _named(key),
        (Beside("chance: two random places", lasting(keys.UNIFORM[k])),
         Beside("chance: others' density", lasting(keys.OTHERS[k]), "dash", DARK),
         Beside("with another UE's places", lasting(keys.SHUFFLED[k]), each=True)),
    )
    for k, (key, title) in enumerate((("home", "Homes"), ("work", "Workplaces"), ("both", "Both home and workplace")))
)  # fmt: skip
ERROR = Quantity(
    "Centroid error of the round", "m", _error,
    (Beside("always guess the map centre", lasting(keys.AREA_CENTRE_ERROR), "dash", DARK),), log=True,
)  # fmt: skip
DIVERGED = Quantity("Estimates that diverged", "%", _diverged)
SW1 = Quantity(
    "SW1 of all estimates so far", "m", _attacked("sw1_m"),
    (Beside("random guesses", _attacked("guess_sw1_m")),
     Beside("random guesses, 5 % quantile", _attacked("guess_sw1_m_q05"), "longdash"),
     Beside("the true centroids as estimates", _attacked("true_centroids_sw1_m"), "dash", DARK)),
)  # fmt: skip
NEARER = Quantity("Home to the nearer named place", "m", _nearer, (Beside("distance of a hit", _near, color=DARK),))
RMSE = Quantity(
    "RMSE of the map", "dB", _rounds("rmse_db"),
    (Beside("a constant map", _rounds("constant_rmse_db")),
     Beside("trained centrally", lasting(keys.CENTRAL_RMSE), "longdash"),
     Beside("raw upload (nearest neighbour)", _rounds("raw_upload_rmse_db"), "dash")),
    log=True,
)  # fmt: skip
ACCURACY = Quantity(
    "Accuracy on held-out images", "%", lambda of, _: of_table(learner_metric(of.run, keys.ACCURACY)),
    (Beside("the most frequent class", lasting(keys.CONSTANT_ACCURACY)),),
)  # fmt: skip
RANK = Quantity(
    "Rank correlation with the exact kernel density", "", metric("rank_correlation"),
    (Beside("with the true distribution of UEs", metric("truth_rank_correlation"), "dash"),),
)  # fmt: skip
EPSILON = Quantity("Largest epsilon of any UE so far", "", _rounds("epsilon_max"), log=True)
DECODED = Quantity("Updates decoded in time", "%", _links("decoded", 100.0))
SINR = Quantity("Uplink SINR", "dB", _links("sinr_db"))
LATENCY = Quantity("Latency from request to last bit", "s", _timed(_links("latency_s")), log=True)
ENERGY = Quantity("Energy of the round", "J", _timed(_rounds("energy_j")), log=True)
UPLINK = (DECODED, SINR, LATENCY, ENERGY)
MODEL = (RMSE, ACCURACY, RANK)

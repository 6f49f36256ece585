"""What pages draw over time: each quantity once, with a curve per attack of a run or per label of a
comparison.

Shapes: n_time rounds that have a row; n_track columns, each a (UE, model) pair or, in a comparison,
a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, nan

import numpy as np

from netsim.columns import row_id
from netsim.errors import counted
from netsim.units import BoolArray, FloatArray, IntArray
from scenarios.app.report.plot import (
    DARK,
    GREY,
    Axes,
    CurveStyle,
    Figure,
    Panel,
    Places,
    looks,
    mosaic,
    spread,
)
from scenarios.app.results.read import Run, Table, where
from scenarios.app.results.statistics import carried, quantile, quartiles
from scenarios.app.results.summary import with_home
from scenarios.app.results.summary_keys import NAME

Series = tuple[FloatArray, FloatArray]
"""Times or numbers of rounds (n_time,), and values (n_time,) or (n_time, n_track)."""
Law = Callable[[Run, str], Series]
"""Rounds (n_time,) and values (n_time, n_track) of a run, for an attack or what else a curve is
of."""
Draws = Callable[[Law, CurveStyle | None], tuple[Places, FloatArray]]
"""Places on the axis of time (n,) and values (n, n_track) of a law: for one look, or for all of
them together."""
DATES: Figure = {
    "type": "date",
    "title": "simulated local time",
    "hoverformat": "%a %Y-%m-%d %H:%M",
}
MOST_POINTS = 400  # of a curve; of more rounds several make one
MOST_SPANS = 60  # of rounds without updates that are marked
SMALLEST_M = 0.1  # nearer than this is drawn at this: a logarithmic axis has no zero


@dataclass(frozen=True, eq=False)
class TimeGrid:
    """Rows laid out in time: a column of the table becomes (n_time, n_track), NaN where there is no
    row.

    A track is a UE, or a (UE, model) pair where the table has models; without UEs there is one. at
    : time and track of each row.
    """

    rows: Table
    round: FloatArray
    at: tuple[IntArray, IntArray]

    @classmethod
    def of(cls, rows: Table) -> TimeGrid:
        """The grid of some rows."""
        number, i = np.unique(rows["round"], return_inverse=True)
        none = np.zeros(len(i))
        ue, model = (np.nan_to_num(rows.get(name, none)).astype(int) for name in ("ue", "model"))
        _, j = np.unique(row_id(ue, model), return_inverse=True)
        return cls(rows, number, (i, j))

    def lay(self, values: FloatArray) -> FloatArray:
        """Values of the rows as (n_time, n_track)."""
        grid = np.full((len(self.round), self.at[1].max(initial=-1) + 1), nan)
        grid[self.at] = values
        return grid

    def so_far(self, name: str) -> FloatArray:
        """A column whose value lasts until the next one (n_time, n_track)."""
        return carried(self.lay(self.rows[name]))


@lru_cache(maxsize=2)  # the laws of an attack follow one another
def time_grid(run: Run, table: str, column: str, value: str) -> TimeGrid:
    """Rows of a table, those with `value` in a column."""
    return TimeGrid.of(run.rows(table, column, value))


def median_line(
    look: CurveStyle, x: Places, grid: FloatArray, unit: str = "m", **more: object
) -> list[Figure]:
    """Median and quartiles over tracks, or nothing where no median is known."""
    values = quartiles(grid)
    if np.isfinite(values[1]).any():
        return spread(look, x, values, (~np.isnan(grid)).sum(axis=1), unit, **more)
    return []


@dataclass(frozen=True)
class Beside:
    """A baseline of a quantity; each: whether each attack has its own, in its colour; else a
    percentage that differs between tracks has a line at either end.
    """

    name: str
    of: Law
    dash: str = "dot"
    color: str = GREY
    each: bool = False


@dataclass(frozen=True)
class Quantity:
    """What a pair of axes shows; log: where values are wide."""

    title: str
    unit: str
    law: Law
    beside: tuple[Beside, ...] = ()
    log: bool = False

    def axes(self, own: Sequence[CurveStyle], draws: Draws) -> Iterator[Axes]:
        """The axes with a curve per look and the baselines; nothing where nothing is known."""
        curves = [
            trace for look in own for trace in median_line(look, *draws(self.law, look), self.unit)
        ]
        if not curves:
            return
        for beside in self.beside:
            for look in own if beside.each else [None]:
                style = CurveStyle(beside.name, beside.color, dash=beside.dash)
                if look is not None:
                    style = CurveStyle(f"{look.name}: {beside.name}", look.color, dash=beside.dash)
                x, grid = draws(beside.of, look)
                parts = [grid]
                if look is None and self.unit == "%":
                    parts = [
                        *np.unique([np.fmin.reduce(grid, 1), np.fmax.reduce(grid, 1)], axis=0)[
                            ..., None
                        ]
                    ]
                for one in parts:
                    curves += median_line(style, x, one, self.unit, mode="lines")[-1:]
        yield Axes(self.unit, curves, self.title, log=self.log, percent=self.unit == "%")


@dataclass(frozen=True)
class Chart:
    """A figure over time: pairs of axes side by side, a curve for each of `by`.

    caption : {near} stands for leakage.hit_radius_m. missing : why there is no figure, where none
    of the quantities is known; empty: nothing is written.
    """

    key: str
    title: str
    quantities: Sequence[Quantity]
    caption: str
    missing: str = ""
    by: Callable[[Run], Sequence[CurveStyle]] = lambda run: looks(run.attacks)
    height: int = 300

    def panels(self, run: Run) -> list[Panel]:
        """The figure of a run, or why there is none."""
        own = self.by(run)
        n = len(run.rows("rounds")["round"])

        def draws(law: Law, look: CurveStyle | None) -> tuple[list[str], FloatArray]:
            number, values = law(run, (look or own[0]).name)
            together = _together(len(number))
            return run.dates(run.moment_s(number[::together])), grouped(values, together)

        note = (
            " Lines are medians over UEs, bands their quartiles."
            if len(run.tables["ues"]["ue"]) > 1
            else ""
        )
        note += f" A point stands for {counted(_together(n), 'round')}." if n > MOST_POINTS else ""
        return self.drawn(own, draws, DATES, run.hit_radius_m, note, silent(run))

    def drawn(
        self,
        own: Sequence[CurveStyle],
        draws: Draws,
        x_axis: Figure,
        hit_radius_m: float,
        note: str,
        spans: Sequence[Figure] = (),
    ) -> list[Panel]:
        """The figure of these curves, or why there is none."""
        cells = [axes for quantity in self.quantities for axes in quantity.axes(own, draws)]
        if cells:
            caption = self.caption.replace("{near}", f"{hit_radius_m:g}") + note
            return [
                Panel(
                    self.key, self.title, caption, mosaic(cells, x_axis, self.height, spans=spans)
                )
            ]
        if self.missing:
            return [Panel(self.key, self.title, self.missing)]
        return []


@lru_cache(maxsize=1)
def silent(run: Run) -> list[Figure]:
    """First and last moment of rounds in sequence of which no update was decoded; none of more than
    MOST_SPANS.
    """
    rows = run.rows("rounds")
    without = np.flatnonzero(rows["decoded"] == 0)
    if len(without):
        spans = np.split(without, np.flatnonzero(np.diff(without) > 1) + 1)
    else:
        spans = []
    ends = [run.dates(rows["time_s"][[of[0], of[-1]]]) for of in spans]
    if len(ends) <= MOST_SPANS:
        return [{"x0": x0, "x1": x1} for x0, x1 in ends]
    return []


def _together(n: int) -> int:
    """How many of n rounds make a point."""
    return -(-n // MOST_POINTS) or 1


def grouped(grid: FloatArray, together: int) -> FloatArray:
    """Rounds (n_time, n_track), several made one row with all their values: (ceil(n_time /
    together), ...).
    """
    padded = np.pad(grid, ((0, -len(grid) % together), (0, 0)), constant_values=nan)
    return padded.reshape(len(padded) // together, together * grid.shape[1])


# -- laws


def column(
    table: str, name: str, by: str = "", value: str = "", factor: float = 1.0, lasts: bool = False
) -> Law:
    """Of a record table. by : the column that holds the name of the curve, or `value`; lasts :
    until the next.
    """

    def law(run: Run, of: str) -> Series:
        grid = time_grid(run, table, by, (value or of) if by else "")
        return grid.round, grid.so_far(name) if lasts else factor * grid.lay(grid.rows[name])

    return law


def attacked(name: str) -> Law:
    """A column of `leakage` until its next value."""
    return column("leakage", name, "attack", lasts=True)


def ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """One column (n, 1) of quotients; NaN where the whole (n,) is none."""
    return np.asarray(
        np.divide(part, whole, out=np.full(len(whole), nan), where=whole > 0)[:, None]
    )


def mean(of: Law) -> Law:
    """The mean over tracks (n_time, 1); NaN of none."""

    def law(run: Run, name: str) -> Series:
        number, grid = of(run, name)
        return number, ratio(
            np.where(np.isfinite(grid), grid, 0.0).sum(axis=1), np.isfinite(grid).sum(axis=1)
        )

    return law


def positive(of: Law) -> Law:
    """Values that are drawn where some are above zero: an ideal uplink takes no time and no
    energy.
    """

    def law(run: Run, name: str) -> Series:
        number, values = of(run, name)
        return number, values if (values > 0).any() else np.full_like(values, nan)

    return law


def lasting(key: str) -> Law:
    """A value of the summary, at the first and the last round."""
    return lambda run, attack: _level(run, run.summary.get(key.replace(NAME, attack)))


def _level(run: Run, value: float | None) -> Series:
    """A value, at the first and the last round."""
    number = run.rows("rounds")["round"]
    ends = number[:: max(len(number) - 1, 1)]
    return ends, np.full((len(ends), 1), nan if value is None else float(value))


def _nearer(run: Run, attack: str) -> Series:
    """Distance from the homes of UEs that have one to the nearer named place, infinite without
    any.
    """
    rows = run.rows("leakage", "attack", attack)
    grid = TimeGrid.of(where(rows, np.isin(rows["ue"], with_home(run.tables["ues"]))))
    away_m = grid.so_far("home_named_m")
    return grid.round, np.where(np.isnan(away_m), inf, away_m)


def _error(run: Run, attack: str) -> Series:
    grid = time_grid(run, "leakage", "attack", attack)
    error_m = grid.lay(np.where(_lost(grid), inf, grid.rows["error_m"]))
    return grid.round, np.maximum(error_m, SMALLEST_M)


def _diverged(run: Run, attack: str) -> Series:
    grid = time_grid(run, "leakage", "attack", attack)
    return grid.round, grid.lay(np.where(_lost(grid), 100.0, 0.0))


def _lost(grid: TimeGrid) -> BoolArray:
    """Whether the estimate of a row is outside the area or not finite."""
    return np.asarray((grid.rows["heard"] == 1) & (grid.rows["diverged"] == 1))


def _named(place: str) -> Law:
    """Of which attacked UEs that have it home, work or both is named, in percent."""
    wanted = ("home", "work") if place == "both" else (place,)

    def law(run: Run, attack: str) -> Series:
        rows = run.rows("leakage", "attack", attack)
        ues = run.tables["ues"]
        have = np.all(
            [np.isfinite(ues[f"{one}_{axis}_m"]) for one in wanted for axis in "xy"], axis=0
        )
        del rows["model"]  # places are named once for all models of a UE
        grid = TimeGrid.of(where(rows, np.isin(rows["ue"], ues["ue"][have])))
        away_m = [grid.lay(np.nan_to_num(grid.rows[f"{one}_named_m"], nan=inf)) for one in wanted]
        hit = np.all([carried(values) <= run.hit_radius_m for values in away_m], axis=0)
        return grid.round, np.where(hit, 100.0, 0.0)

    return law


def _model_error(name: str) -> Law:
    """An error of the rounds, of the last of them that of the summary: on all held-out samples."""

    def law(run: Run, _: str) -> Series:
        rows = run.rows("rounds")
        final = run.summary.get(f"utility.{name}")
        lost = np.isnan(rows[name]) & np.isfinite(
            rows["constant_rmse_db"]
        )  # the model has diverged
        values = np.where(lost, np.inf, rows[name])
        if final is not None and len(values) and np.isfinite(values[-1]):
            values[-1] = final
        return rows["round"], values[:, None]

    return law


def _wasted(run: Run, _: str) -> Series:
    """Energy (n_time, 1) of updates that were not decoded in time, joules."""
    rows = run.rows("links")
    number, at = np.unique(rows["round"], return_inverse=True)
    lost_j = np.where(rows["decoded"] == 1, 0.0, np.nan_to_num(rows["energy_j"]))
    return number, np.asarray(np.bincount(at, lost_j, len(number)), np.float64)[:, None]


def largest(of: Law) -> Law:
    """The largest value of all tracks."""

    def law(run: Run, name: str) -> Series:
        number, grid = of(run, name)
        return number, quantile(grid, 1.0)[:, None]

    return law


# -- quantities that pages of runs and of comparisons share

HOME, WORK, BOTH = (
    Quantity(
        title,
        "%",
        mean(_named(key)),
        (
            Beside("chance: two random places", lasting(f"baseline.uniform.{key}_located.percent")),
            Beside(
                "chance: others' density",
                lasting(f"baseline.others.{key}_located.percent"),
                "dash",
                DARK,
            ),
            Beside(
                "with another UE's places",
                lasting(f"attack.NAME.{key}_located.shuffled.percent"),
                "dashdot",
                each=True,
            ),
        ),
    )
    for key, title in (
        ("home", "Homes"),
        ("work", "Workplaces"),
        ("both", "Both home and workplace"),
    )
)
ERROR = Quantity(
    "Centroid error of the round",
    "m",
    _error,
    (
        Beside(
            "always guess the map centre",
            lasting("baseline.area_centre.error_m.median"),
            "dash",
            DARK,
        ),
    ),
    log=True,
)
DIVERGED = Quantity("Estimates that diverged", "%", positive(mean(_diverged)))
SW1 = Quantity(
    "SW1 of all estimates so far",
    "m",
    attacked("sw1_m"),
    (
        Beside("random guesses", attacked("guess_sw1_m")),
        Beside("random guesses, 5 % quantile", attacked("guess_sw1_m_q05"), "longdash"),
        Beside("the true centroids as estimates", attacked("true_centroids_sw1_m"), "dash", DARK),
    ),
)
NEARER = Quantity(
    "Home to the nearer named place",
    "m",
    _nearer,
    (Beside("distance of a hit", lambda run, _: _level(run, run.hit_radius_m), color=DARK),),
)
RMSE = Quantity(
    "RMSE of the map",
    "dB",
    _model_error("rmse_db"),
    (
        Beside("a constant map", _model_error("constant_rmse_db")),
        Beside("trained centrally", lasting("utility.central_rmse_db"), "longdash"),
        Beside("raw upload (nearest neighbour)", _model_error("raw_upload_rmse_db"), "dash"),
    ),
    log=True,
)
ACCURACY = Quantity(
    "Accuracy on held-out images",
    "%",
    column("metrics", "value", "name", "accuracy_percent"),
    (Beside("the most frequent class", lasting("utility.constant_accuracy_percent")),),
)
RANK = Quantity(
    "Rank correlation with the exact kernel density",
    "",
    column("metrics", "value", "name", "rank_correlation"),
    (
        Beside(
            "with the true distribution of UEs",
            column("metrics", "value", "name", "truth_rank_correlation"),
            "dash",
        ),
    ),
)
EPSILON = Quantity(
    "Largest epsilon of any UE so far", "", column("rounds", "epsilon_max"), log=True
)
DECODED = Quantity("Updates decoded in time", "%", mean(column("links", "decoded", factor=100.0)))
SINR = Quantity("Uplink SINR", "dB", column("links", "sinr_db"))
LATENCY = Quantity(
    "Latency from request to last bit", "s", positive(column("links", "latency_s")), log=True
)
ENERGY = Quantity(
    "Energy of the round",
    "J",
    positive(column("rounds", "energy_j")),
    (Beside("spent on updates that were not decoded", positive(_wasted), "dash", each=True),),
    log=True,
)
UPLINK = (DECODED, SINR, LATENCY, ENERGY)
MODEL = (RMSE, ACCURACY, RANK)

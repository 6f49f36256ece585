"""What pages draw over rounds: each quantity once, with a curve for each attack of a run or each label of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from netsim.units import BoolArray, FloatArray
from scenarios.app.report.plot import DARK, GREY, Cell, Figure, Look, Panel, line, looks, mosaic
from scenarios.app.report.series import (
    DATES,
    Laid,
    Series,
    TimeGrid,
    learner_metric,
    median_line,
    model_error_db,
    named_over_time,
    wide,
)
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.measures import Measure
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.statistics import counted, quantile
from scenarios.app.results.summary import with_home

MOST_POINTS = 400  # of a curve; of more rounds several make one
SMALLEST_M = 0.1  # nearer than this is drawn at this: a logarithmic axis has no zero
Law = Callable[[Laid, str], Series]
"""Rounds (n_time,) and values (n_time, n_track) of a run, for an attack or what else a curve is of."""


@dataclass(frozen=True)
class Beside:
    """A baseline of a quantity: a law over rounds, or a key of the summary, whose value lasts.

    each : whether each attack has its own, in its colour; else the first attack's is drawn.
    """

    name: str
    of: Law | Measure
    dash: str = "dot"
    color: str = GREY
    each: bool = False


@dataclass(frozen=True)
class Quantity:
    """What a pair of axes shows; {near} in a title is leakage.near_m.

    log : None: where values are wide. level : whether leakage.near_m is
    drawn. some : whether it is drawn only where a value is above 0. top : of the first baseline, where the axis of a
    comparison ends. by : the curves that it has; empty: all.
    """

    key: str
    title: str
    unit: str
    law: Law
    beside: tuple[Beside, ...] = ()
    log: bool | None = False
    level: bool = False
    some: bool = False
    top: float = np.inf
    near: bool = False
    by: tuple[str, ...] = ()

    def shown(self, values: FloatArray) -> FloatArray:
        """Values as the axis can show them."""
        if self.log is False:
            return values
        return np.maximum(values, SMALLEST_M) if self.unit == "m" else np.where(values > 0, values, np.nan)

    def cell(self, curves: Sequence[Figure], baselines: Sequence[Figure], near_m: float, several: bool = False) -> Cell:
        """The axes with these curves; several: of several labels."""
        values = np.array([y for t in curves for y in t["y"] if y is not None], dtype=float)
        first = [y for t in baselines[:1] for y in t["y"] if y is not None]
        top = self.top * max(first, default=np.inf) if several else np.inf
        return Cell(
            self.unit, [*curves, *baselines], self.title.replace("{near}", f"{near_m:g}"),
            log=wide(values) if self.log is None else self.log, line_at=near_m if self.level else None,
            percent=self.unit == "%", near=self.near, top=top if values.max(initial=0.0) > top else None,
        )  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """A figure over rounds: pairs of axes side by side, a curve for each of `by`.

    missing : why there is no figure, where a run has none of the quantities; empty: nothing is said.
    """

    key: str
    title: str
    quantities: Sequence[Quantity]
    caption: str
    missing: str = ""
    by: Callable[[Run], Sequence[Look]] = lambda run: looks(run.attacks)
    height: int = 300

    def panels(self, of: Laid) -> list[Panel]:
        """The figure of a run, or why there is none."""
        run, cells, points = of.run, list[Cell](), 1
        for quantity in self.quantities:
            curves, dates = list[Figure](), set[str]()
            own = [look for look in self.by(run) if look.name in (quantity.by or (look.name,))]
            for look in own:
                number, values = quantity.law(of, look.name)
                if quantity.some and not (values > 0).any():
                    continue
                together = -(-len(number) // MOST_POINTS) or 1
                points = max(points, together)
                x = run.dates(run.moment_s(number[::together], merged=True))
                dates |= set(x)
                shown = quantity.shown(grouped(values, together))
                curves += median_line(look, x, shown, quantity.unit)
            if curves:
                baselines = _baselines(quantity, of, own, sorted(dates))
                cells.append(quantity.cell(curves, baselines, run.near_m))
        title = self.title.replace("{near}", f"{run.near_m:g}")
        if not cells:
            return [Panel(self.key, title, self.missing)] if self.missing else []
        caption = self.caption.replace("{near}", f"{run.near_m:g}")
        if len(run.tables["ues"]["ue"]) > 1:
            caption += " Lines are medians over UEs, bands their quartiles."
        caption += f" A point stands for {counted(points, 'round')}." if points > 1 else ""
        return [Panel(self.key, title, caption, mosaic(cells, DATES, self.height))]


def _baselines(of: Quantity, laid: Laid, own: Sequence[Look], dates: Sequence[str]) -> list[Figure]:
    """What stands beside a quantity on the page of a run."""
    run, drawn = laid.run, list[Figure]()
    for beside in of.beside:
        for look in own if beside.each else own[:1]:
            name = f"{look.name}: {beside.name}" if beside.each else beside.name
            mine = Look(name, look.color if beside.each else beside.color, dash=beside.dash)
            if callable(beside.of):
                number, values = beside.of(laid, look.name)
                x, y = run.dates(run.moment_s(number, merged=True)), quantile(values, 0.5)
            else:
                value = run.summary.get(beside.of.of(look.name if beside.of.named else ""))
                x, y = [dates[0], dates[-1]], np.full(2, np.nan if value is None else float(value))
            if np.isfinite(y).any():
                how = f"%{{y:,.3~r}} {of.unit}"
                drawn.append(line(mine, x, of.shown(y), mode="lines", hovertemplate=how))
    return drawn


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
    return grid.round, 100.0 * mean_track(grid.lay(_lost(grid).astype(float)))


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


def spent(of: Laid, mechanism: str) -> Series:
    """The largest epsilon of any UE so far."""
    grid = of.grid("spends", "mechanism", mechanism, "model")
    return grid.round, quantile(grid.so_far("epsilon"), 1.0)[:, None]


# -- quantities that pages of runs and of comparisons share

HOME, WORK, BOTH = (
    Quantity(
        key, title, "%", _named(key),
        (Beside("chance: two random places", keys.UNIFORM[k]),
         Beside("chance: others' density", keys.OTHERS[k], "dash", DARK),
         Beside("with another UE's places", keys.SHUFFLED[k], each=True)),
    )
    for k, (key, title) in enumerate((("home", "Homes"), ("work", "Workplaces"), ("both", "Both home and workplace")))
)  # fmt: skip
ERROR = Quantity(
    "error_m", "Centroid error of the round", "m", _error,
    (Beside("always guess the map centre", keys.AREA_CENTRE_ERROR, "dash", DARK),), log=True,
)  # fmt: skip
DIVERGED = Quantity("diverged", "Estimates that diverged", "%", _diverged, some=True)
SW1 = Quantity(
    "sw1_m", "SW1 of all estimates so far", "m", _attacked("sw1_m"),
    (Beside("random guesses", _attacked("guess_sw1_m")),
     Beside("random guesses, 5 % quantile", _attacked("guess_sw1_m_q05"), "longdash"),
     Beside("the true centroids as estimates", _attacked("true_centroids_sw1_m"), "dash", DARK)),
)  # fmt: skip
NEARER = Quantity(
    "home_named_m", "Home to the nearer named place", "m", _nearer, level=True,
)  # fmt: skip
RMSE = Quantity(
    "rmse_db", "RMSE of the map", "dB", _rounds("rmse_db"),
    (Beside("a constant map", _rounds("constant_rmse_db")),
     Beside("trained centrally", keys.CENTRAL_RMSE, "longdash"),
     Beside("raw upload (nearest neighbour)", _rounds("raw_upload_rmse_db"), "dash")),
    top=1.8,
)  # fmt: skip
ACCURACY = Quantity(
    "accuracy_percent", "Accuracy on held-out images", "%",
    lambda of, _: of_table(learner_metric(of.run, keys.ACCURACY)),
    (Beside("the most frequent class", keys.CONSTANT_ACCURACY),),
)  # fmt: skip
RANK = Quantity(
    "rank_correlation", "Rank correlation with the exact kernel density", "", metric("rank_correlation"),
    (Beside("with the true distribution of UEs", metric("truth_rank_correlation"), "dash"),),
)  # fmt: skip
EPSILON = Quantity("epsilon_max", "Largest epsilon of any UE so far", "", _rounds("epsilon_max"), log=None)
DECODED = Quantity("decoded_percent", "Updates decoded in time", "%", _links("decoded", 100.0))
SINR = Quantity("sinr_db", "Uplink SINR", "dB", _links("sinr_db"), near=True)
LATENCY = Quantity("latency_s", "Latency from request to last bit", "s", _links("latency_s"), log=None)
ENERGY = Quantity("energy_j", "Energy of the round", "J", _rounds("energy_j"), log=None)
UPLINK = (DECODED, SINR, LATENCY, ENERGY)
MODEL = (RMSE, ACCURACY, RANK)

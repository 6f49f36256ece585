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

from netsim.columns import divide_or, number_row
from netsim.errors import format_count
from netsim.units import FloatArray, IntArray
from scenarios.app.report.plot import (
    DARK,
    GREY,
    Axes,
    CurveStyle,
    Figure,
    Panel,
    Places,
    assign_styles,
    draw_median_spread,
    lay_out_axes,
)
from scenarios.app.results.read import Run, Table, select_rows
from scenarios.app.results.statistics import (
    carry_forward,
    compute_quantile_over_tracks,
    compute_quartiles_over_tracks,
)
from scenarios.app.results.summary import find_ues_with_home
from scenarios.app.results.summary_keys import NAME

Series = tuple[FloatArray, FloatArray]
"""Times or numbers of rounds (n_time,), and values (n_time,) or (n_time, n_track)."""
Styles = Callable[[Run], Sequence[CurveStyle]]
"""the looks of the curves of a run"""
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
    index: tuple[IntArray, IntArray]

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


def draw_median(
    look: CurveStyle, x: Places, grid: FloatArray, unit: str = "m", **changes: object
) -> list[Figure]:
    """Draw the median and quartiles over tracks, or nothing where no median is known."""
    values = compute_quartiles_over_tracks(grid)
    if np.isfinite(values[1]).any():
        return draw_median_spread(look, x, values, (~np.isnan(grid)).sum(axis=1), unit, **changes)
    return []


@dataclass(frozen=True)
class Baseline:
    """A baseline of a quantity; each: whether each attack has its own, in its colour; else a
    percentage that differs between tracks has a line at either end.
    """

    name: str
    law: Law
    dash: str = "dot"
    color: str = GREY
    is_per_curve: bool = False


@dataclass(frozen=True)
class Quantity:
    """What a pair of axes shows; log: where values are wide."""

    title: str
    unit: str
    law: Law
    baselines: tuple[Baseline, ...] = ()
    log: bool = False

    def build_axes(self, styles: Sequence[CurveStyle], draws: Draws) -> Iterator[Axes]:
        """Build axes with a curve per look and the baselines; nothing where nothing is known."""
        curves = []
        for look in styles:
            curves += draw_median(look, *draws(self.law, look), self.unit)
        if not curves:
            return
        is_share = self.unit == "%"
        for baseline in self.baselines:
            for shared in styles if baseline.is_per_curve else [None]:
                x, grid = draws(baseline.law, shared)
                name = baseline.name
                color = baseline.color
                grids = [grid]
                if shared is not None:
                    name = f"{shared.name}: {name}"
                    color = shared.color
                elif is_share:
                    ends = [np.fmin.reduce(grid, 1), np.fmax.reduce(grid, 1)]
                    grids = [*np.unique(ends, axis=0)[..., None]]
                style = CurveStyle(name, color, dash=baseline.dash)
                for values in grids:
                    curves += draw_median(style, x, values, self.unit, mode="lines")[-1:]
        yield Axes(self.unit, curves, self.title, log=self.log, percent=is_share)


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
    by: Styles = lambda run: assign_styles(run.attacks)
    height: int = 300

    def build_panels(self, run: Run) -> list[Panel]:
        """Build the figure of a run, or say why there is none."""
        styles = self.by(run)

        def draws(law: Law, look: CurveStyle | None) -> tuple[list[str], FloatArray]:
            number, values = law(run, (look or styles[0]).name)
            n_together = _count_per_point(len(number))
            return run.format_dates(run.find_merge_times_s(number[::n_together])), group_rounds(
                values, n_together
            )

        note = " Lines are medians over UEs, bands their quartiles." if run.n_ue > 1 else ""
        n = len(run.get_rows("rounds")["round"])
        if n > MOST_POINTS:
            note += f" A point stands for {format_count(_count_per_point(n), 'round')}."
        return self.draw_panels(
            styles, draws, DATES, run.hit_radius_m, note, find_silent_spans(run)
        )

    def draw_panels(
        self,
        styles: Sequence[CurveStyle],
        draws: Draws,
        x_axis: Figure,
        hit_radius_m: float,
        note: str,
        spans: Sequence[Figure] = (),
    ) -> list[Panel]:
        """Draw the figure of these curves, or say why there is none."""
        cells = [
            axes for quantity in self.quantities for axes in quantity.build_axes(styles, draws)
        ]
        if not cells:
            return [Panel(self.key, self.title, self.missing)] * bool(self.missing)
        caption = self.caption.replace("{near}", f"{hit_radius_m:g}") + note
        figure = lay_out_axes(cells, x_axis, self.height, spans=spans)
        return [Panel(self.key, self.title, caption, figure)]


@lru_cache(maxsize=1)
def find_silent_spans(run: Run) -> list[Figure]:
    """Find first and last moment of rounds in sequence of which no update was decoded.

    None of more than MOST_SPANS.
    """
    rows = run.get_rows("rounds")
    silent = np.flatnonzero(rows["decoded"] == 0)
    spans = np.split(silent, np.flatnonzero(np.diff(silent) > 1) + 1)
    if not len(silent) or len(spans) > MOST_SPANS:
        return []
    ends = [run.format_dates(rows["time_s"][[span[0], span[-1]]]) for span in spans]
    return [{"x0": x0, "x1": x1} for x0, x1 in ends]


def _count_per_point(n: int) -> int:
    """Count how many of n rounds make a point."""
    return -(-n // MOST_POINTS) or 1


def group_rounds(grid: FloatArray, together: int) -> FloatArray:
    """Group rounds (n_time, n_track), several made one row with all their values: (ceil(n_time /
    together), ...).
    """
    padded = np.pad(grid, ((0, -len(grid) % together), (0, 0)), constant_values=nan)
    return padded.reshape(len(padded) // together, together * grid.shape[1])


# -- laws


def make_column_law(
    table: str, name: str, by: str = "", value: str = "", factor: float = 1.0, lasts: bool = False
) -> Law:
    """Make the law of a column of a record table.

    by : the column that holds the name of the curve, or `value`; lasts : until the next.
    """

    def law(run: Run, curve: str) -> Series:
        grid = get_time_grid(run, table, by, (value or curve) if by else "")
        if lasts:
            return grid.round, grid.carry_column(name)
        return grid.round, factor * grid.lay_out(grid.rows[name])

    return law


def make_leakage_law(name: str) -> Law:
    """Make the law of a column of `leakage`, each value until its next one."""
    return make_column_law("leakage", name, "attack", lasts=True)


def _change_values(law: Law, change: Callable[[FloatArray], FloatArray]) -> Law:
    """Make the law of changed values of another one, at its times."""

    def compute(run: Run, name: str) -> Series:
        number, values = law(run, name)
        return number, change(values)

    return compute


def make_mean_law(law_of_tracks: Law) -> Law:
    """Make the law of the mean over tracks (n_time, 1); NaN of none."""

    def average(grid: FloatArray) -> FloatArray:
        is_known = np.isfinite(grid)
        total = np.where(is_known, grid, 0.0).sum(axis=1)
        return divide_or(total, is_known.sum(axis=1), nan)[:, None]

    return _change_values(law_of_tracks, average)


def make_law_hiding_zeros(law_of_tracks: Law) -> Law:
    """Make the law of values that are drawn where some are above zero.

    An ideal uplink takes no time and no energy.
    """

    def hide_zeros(grid: FloatArray) -> FloatArray:
        return grid if (grid > 0).any() else np.full_like(grid, nan)

    return _change_values(law_of_tracks, hide_zeros)


def make_constant_law(key: str) -> Law:
    """Make the law of a value of the summary, at the first and the last round."""

    def law(run: Run, attack: str) -> Series:
        number = run.get_rows("rounds")["round"]
        ends = number[:: max(len(number) - 1, 1)]
        value = run.summary.get(key.replace(NAME, attack))
        return ends, np.full((len(ends), 1), value, dtype=float)

    return law


def _measure_named_distance(run: Run, attack: str) -> Series:
    """Measure the distance from the homes of UEs that have one to the nearer named place.

    Infinite without any.
    """
    rows = run.get_rows("leakage", "attack", attack)
    homes = find_ues_with_home(run.tables["ues"])
    grid = TimeGrid.from_rows(select_rows(rows, np.isin(rows["ue"], homes)))
    distance_m = grid.carry_column("home_named_m")
    return grid.round, np.where(np.isnan(distance_m), inf, distance_m)


def _make_estimate_law(diverged: float, name: str = "") -> Law:
    """Make the law of a column of `leakage` (none: 0), with one value for estimates that are
    outside the area or not finite.
    """

    def law(run: Run, attack: str) -> Series:
        grid = get_time_grid(run, "leakage", "attack", attack)
        rows = grid.rows
        has_diverged = (rows["heard"] == 1) & (rows["diverged"] == 1)
        return grid.round, grid.lay_out(np.where(has_diverged, diverged, rows.get(name, 0.0)))

    return law


def _make_named_law(place: str) -> Law:
    """Make the law of which attacked UEs that have it home, work or both is named, in percent."""
    places = ["home", "work"] if place == "both" else [place]

    def law(run: Run, attack: str) -> Series:
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

    return law


def _make_model_error_law(name: str) -> Law:
    """Make the law of an error of the rounds.

    Of the last of them that of the summary: on all held-out samples.
    """

    def law(run: Run, _: str) -> Series:
        rows = run.get_rows("rounds")
        values = rows[name]
        values = np.where(np.isnan(values) & np.isfinite(rows["constant_rmse_db"]), inf, values)
        final = run.summary.get(f"utility.{name}")
        if final is not None and len(values) and np.isfinite(values[-1]):
            values[-1] = final
        return rows["round"], values[:, None]

    return law


def _sum_wasted_energy(run: Run, _: str) -> Series:
    """Sum the energy (n_time, 1) of updates that were not decoded in time, joules."""
    rows = run.get_rows("links")
    number, index = np.unique(rows["round"], return_inverse=True)
    lost_j = np.where(rows["decoded"] == 1, 0.0, np.nan_to_num(rows["energy_j"]))
    wasted_j = np.bincount(index, lost_j, len(number))
    return number, np.asarray(wasted_j, np.float64)[:, None]


def make_maximum_law(law_of_tracks: Law) -> Law:
    """Make the law of the largest value of all tracks."""
    return _change_values(
        law_of_tracks, lambda grid: compute_quantile_over_tracks(grid, 1.0)[:, None]
    )


# -- quantities that pages of runs and of comparisons share

HOME, WORK, BOTH = (
    Quantity(
        title,
        "%",
        make_mean_law(_make_named_law(key)),
        (
            Baseline(
                "chance: two random places",
                make_constant_law(f"baseline.uniform.{key}_located.percent"),
            ),
            Baseline(
                "chance: others' density",
                make_constant_law(f"baseline.others.{key}_located.percent"),
                "dash",
                DARK,
            ),
            Baseline(
                "with another UE's places",
                make_constant_law(f"attack.NAME.{key}_located.shuffled.percent"),
                "dashdot",
                is_per_curve=True,
            ),
            Baseline(
                "chance where one of the two is known",
                make_constant_law(f"attack.NAME.{key}_located.given_one.percent"),
                "longdash",
                is_per_curve=True,
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
    _change_values(
        _make_estimate_law(inf, "error_m"), lambda error_m: np.maximum(error_m, SMALLEST_M)
    ),
    (
        Baseline(
            "always guess the map centre",
            make_constant_law("baseline.area_centre.error_m.median"),
            "dash",
            DARK,
        ),
    ),
    log=True,
)
DIVERGED = Quantity(
    "Estimates that diverged", "%", make_law_hiding_zeros(make_mean_law(_make_estimate_law(100.0)))
)
SW1 = Quantity(
    "SW1 of all estimates so far",
    "m",
    make_leakage_law("sw1_m"),
    (
        Baseline("random guesses", make_leakage_law("guess_sw1_m")),
        Baseline("random guesses, 5 % quantile", make_leakage_law("guess_sw1_m_q05"), "longdash"),
        Baseline(
            "the true centroids as estimates",
            make_leakage_law("true_centroids_sw1_m"),
            "dash",
            DARK,
        ),
    ),
)
NEARER = Quantity(
    "Home to the nearer named place",
    "m",
    _measure_named_distance,
    (Baseline("distance of a hit", make_constant_law("leakage.hit_radius_m"), color=DARK),),
)
RMSE = Quantity(
    "RMSE of the map",
    "dB",
    _make_model_error_law("rmse_db"),
    (
        Baseline("a constant map", _make_model_error_law("constant_rmse_db")),
        Baseline("trained centrally", make_constant_law("utility.central_rmse_db"), "longdash"),
        Baseline(
            "raw upload (nearest neighbour)", _make_model_error_law("raw_upload_rmse_db"), "dash"
        ),
    ),
    log=True,
)
ACCURACY = Quantity(
    "Accuracy on held-out images",
    "%",
    make_column_law("metrics", "value", "name", "accuracy_percent"),
    (Baseline("the most frequent class", make_constant_law("utility.constant_accuracy_percent")),),
)
RANK = Quantity(
    "Rank correlation with the exact kernel density",
    "",
    make_column_law("metrics", "value", "name", "rank_correlation"),
    (
        Baseline(
            "with the true distribution of UEs",
            make_column_law("metrics", "value", "name", "truth_rank_correlation"),
            "dash",
        ),
    ),
)
EPSILON = Quantity(
    "Largest epsilon of any UE so far", "", make_column_law("rounds", "epsilon_max"), log=True
)
DECODED = Quantity(
    "Updates decoded in time", "%", make_mean_law(make_column_law("links", "decoded", factor=100.0))
)
SINR = Quantity("Uplink SINR", "dB", make_column_law("links", "sinr_db"))
LATENCY = Quantity(
    "Latency from request to last bit",
    "s",
    make_law_hiding_zeros(make_column_law("links", "latency_s")),
    log=True,
)
ENERGY = Quantity(
    "Energy of the round",
    "J",
    make_law_hiding_zeros(make_column_law("rounds", "energy_j")),
    (
        Baseline(
            "spent on updates that were not decoded",
            make_law_hiding_zeros(_sum_wasted_energy),
            "dash",
            is_per_curve=True,
        ),
    ),
    log=True,
)
UPLINK = (DECODED, SINR, LATENCY, ENERGY)
MODEL = (RMSE, ACCURACY, RANK)

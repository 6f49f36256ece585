"""What pages draw over time, as charts.toml declares it: quantities, with a curve per attack of a
run or per label of a comparison.

Shapes: n_time rounds that have a row; n_track columns, each a (UE, model) pair or, in a comparison,
a run.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan
from typing import Any

import numpy as np

from netsim.errors import format_count
from netsim.units import FloatArray
from scenarios.app.report.laws import Law, build_law
from scenarios.app.report.plot import (
    ASSETS,
    GREY,
    STYLE,
    Axes,
    CurveStyle,
    Figure,
    Panel,
    Places,
    assign_styles,
    draw_median_spread,
    lay_out_axes,
    read_styles,
)
from scenarios.app.results.read import Run
from scenarios.app.results.statistics import compute_quartiles_over_tracks

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
    law: Law
    unit: str = ""
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
    """A figure over time: pairs of axes side by side, a curve for each of `curves`.

    caption : {near} stands for leakage.hit_radius_m. missing : why there is no figure, where none
    of the quantities is known; empty: nothing is written. curves : of figure.json, or names in
    TABLE.COLUMN; empty: attacks.
    """

    key: str
    title: str
    quantities: Sequence[Quantity]
    caption: str
    missing: str = ""
    curves: str = ""
    height: int = 300

    def list_styles(self, run: Run) -> Sequence[CurveStyle]:
        """List the looks of the curves of a run."""
        if self.curves in STYLE["curves"]:
            return [*read_styles(self.curves).values()]
        table, _, column = self.curves.partition(".")
        names = run.tables[table][column] if table else run.attacks
        return assign_styles(dict.fromkeys(map(str, names)))

    def build_panels(self, run: Run) -> list[Panel]:
        """Build the figure of a run, or say why there is none."""
        styles = self.list_styles(run)

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


_DECLARED = tomllib.loads((ASSETS / "charts.toml").read_text(encoding="utf-8"))


def _build_quantity(law: Figure, baselines: Sequence[Figure] = (), **values: Any) -> Quantity:
    """Build a quantity as it is declared."""
    drawn = (Baseline(**baseline | {"law": build_law(**baseline["law"])}) for baseline in baselines)
    return Quantity(law=build_law(**law), baselines=tuple(drawn), **values)


QUANTITIES = {key: _build_quantity(**values) for key, values in _DECLARED["quantity"].items()}


CHARTS = {
    key: Chart(key, **chart | {"quantities": [QUANTITIES[name] for name in chart["quantities"]]})
    for key, chart in _DECLARED["chart"].items()
}

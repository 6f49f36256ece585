"""Curves of comparisons: one quantity of all runs over time, a line per label, over its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.figures.member import NAMED, OF_TRACKS, OF_UES, Member
from scenarios.app.report.plot import Figure, Look, line, numbers
from scenarios.app.report.series import Series, diagonal_m, drawable, median_line
from scenarios.app.results.statistics import carried, quantile

NONE: Series = (np.zeros(0), np.zeros(0))
POSITIVE = ("latency_s", "energy_j")
INFINITE = ("error_m", "home_m", "home_named_m")  # columns that may be infinite
CARRIED = OF_TRACKS + OF_UES + tuple(NAMED)
MOST_TIMES = 400  # of merges that are drawn


def time_unit(members: Sequence[Member]) -> tuple[str, float]:
    """The unit of an axis of time, and its seconds."""
    longest = max((float(t.max()) for m in members for t, _ in m.trends.values() if len(t)), default=0.0)
    units: Mapping[str, float] = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0}
    return next(((u, s) for u, s in units.items() if longest >= 3 * s), ("seconds", 1.0))


@dataclass(frozen=True)
class Plotter:
    """Draws one quantity of all runs: a curve per label, over its seeds.

    second : of the axis' unit. merged : whether runs have times of their own, those of merges.
    """

    members: Sequence[Member]
    own: Sequence[Look]
    second: float
    merged: bool

    @property
    def moments(self) -> str:
        """At which times values are drawn."""
        if self.merged:
            return "at the time of the server's merge; until the next merge of a run its last value counts"
        return "at the time of the server's request"

    def curves(
        self, attack: str | Mapping[str, str], column: str, unit: str, legend: bool = False, **more: Any
    ) -> list[Figure]:
        """attack : or that of each label."""
        lines: list[Figure] = []
        for look in self.own:
            of = attack if isinstance(attack, str) else attack[look.name]
            time_s, grid = self._grid([m for m in self.members if m.label == look.name], of, column)
            if column in POSITIVE:  # nothing is sent in a round without data, and a logarithm has no place for 0
                grid = np.where(grid > 0, grid, np.nan)
            if column in INFINITE:
                grid = drawable(grid)
                more["most"] = max(diagonal_m(m.manifest) for m in self.members)
            lines += median_line(look, numbers(time_s / self.second), grid, unit, showlegend=legend, **more)
        return lines

    def reference(self, attack: str, column: str, look: Look, legend: bool = True) -> list[Figure]:
        """One curve for the median of all runs."""
        time_s, grid = self._grid(self.members, attack, column)
        mid = quantile(grid, 0.5)
        if not np.isfinite(mid).any():
            return []
        x = numbers(time_s / self.second)
        return [line(look, x, mid, f"{look.name} (median of all runs)", mode="lines", showlegend=legend)]

    def level(self, value: float, name: str, color: str, dash: str) -> list[Figure]:
        """A baseline that does not change over time; nothing where it is not known."""
        times = [t for m in self.members for t, _ in m.trends.values() if len(t)]
        if not np.isfinite(value) or not times:
            return []
        ends = numbers(np.array([min(t.min() for t in times), max(t.max() for t in times)]) / self.second)
        return [line(Look(name, color, dash=dash), ends, np.full(2, value), mode="lines", showlegend=True)]

    def _grid(self, members: Sequence[Member], attack: str, column: str) -> tuple[FloatArray, FloatArray]:
        """Times of any of the runs, and the figure (n_time, n_run)."""
        series = [m.trends.get((attack, column), NONE) for m in members]
        time_s = np.unique(np.concatenate([t for t, _ in series]))
        if self.merged:
            return _stepped(series, time_s)
        grid = np.full((len(time_s), len(series)), np.nan)
        for j, (t, values) in enumerate(series):
            grid[np.searchsorted(time_s, t), j] = values
        return time_s, carried(grid) if column in CARRIED else grid


def _stepped(series: Sequence[Series], time_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Times, and the latest value of each series then (n_time, n_series); NaN before the first.

    time_s : at which any of them changes; of very many times some evenly spaced ones are taken.
    """
    if len(time_s) > MOST_TIMES:
        time_s = np.linspace(time_s[0], time_s[-1], MOST_TIMES)
    grid = np.full((len(time_s), len(series)), np.nan)
    for j, (t, values) in enumerate(series):
        at = np.searchsorted(t, time_s, side="right") - 1
        grid[at >= 0, j] = carried(values[:, None])[at[at >= 0], 0]
    return time_s, grid

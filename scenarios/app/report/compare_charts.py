"""The figures of a comparison: curves over time, a line per label over its seeds, and leakage against utility."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.units import FloatArray
from scenarios.app.report.charts import (
    ACCURACY,
    BOTH,
    EPSILON,
    ERROR,
    HOME,
    NEARER,
    RANK,
    RMSE,
    SW1,
    UPLINK,
    WORK,
    Chart,
    Laid,
    Law,
    Series,
    wide,
)
from scenarios.app.report.compare_tables import model_line
from scenarios.app.report.maps import gradient_panels
from scenarios.app.report.plot import (
    DARK,
    DASHES,
    GREY,
    Axes,
    CurveStyle,
    Figure,
    Panel,
    line,
    looks,
    marks,
    mosaic,
    numbers,
    plain,
)
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import carried, quantile
from scenarios.app.results.table import Line, Runs, lines
from scenarios.app.results.tradeoff import Trial, curves
from scenarios.app.results.verdicts import is_useful

MOST_TIMES = 400  # of merges that are drawn
_NONE: Series = (np.zeros(0), np.zeros(0))
_SEEDS = (
    " A line per label: the median over seeds, the band their quartiles, at the times of merges; until the next merge "
    "of a run its last value counts."
)
PROGRESS = Chart(
    "progress", "What is known, what the model is worth, and what was spent",
    (HOME, RMSE, ACCURACY, RANK, EPSILON, ERROR),
    "Of the attack that finds most with each label; epsilon where noise was drawn.", height=280,
)  # fmt: skip
UPLINKS = Chart(
    "uplink", "Uplink of every label", UPLINK,
    "Latency is from the server's request to the last bit; energy is that of all uplinks and all training.", height=280,
)  # fmt: skip
OF_ATTACK = (HOME, WORK, BOTH, ERROR, SW1, NEARER)


@dataclass(frozen=True, eq=False)
class Member:
    """A run of a comparison; trends: (attack, law) -> times (n,) of merges and medians over tracks (n,).

    Laws of the model and of the uplink have no attack.
    """

    label: str
    manifest: dict[str, Any]
    summary: dict[str, Any]
    study: dict[str, Any]
    attacks: list[str]
    near_m: float
    trends: dict[tuple[str, Law], Series]
    grid: dict[str, NDArray[Any]] = field(default_factory=dict)


def member(label: str, run: Run) -> Member:
    """The run's trends, without its tables."""
    of, trends = Laid(run), dict[tuple[str, Law], Series]()
    for quantity in dict.fromkeys((*OF_ATTACK, *PROGRESS.quantities, *UPLINKS.quantities)):
        for name in run.attacks if quantity in OF_ATTACK else [""]:
            for law in (quantity.law, *(beside.of for beside in quantity.beside)):
                number, values = law(of, name)
                trends[name, law] = run.moment_s(number, merged=True), quantile(values, 0.5)
    return Member(label, run.manifest, run.summary, run.study, run.attacks, run.near_m, trends, run.grid)


def labels_of(members: Sequence[Member]) -> dict[str, list[Mapping[str, Any]]]:
    """Label -> the summaries of its runs."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for m in members:
        grouped.setdefault(m.label, []).append(m.summary)
    return grouped


def time_unit(members: Sequence[Member]) -> tuple[str, float]:
    """The unit of an axis of time, and its seconds."""
    longest = max((float(t.max()) for m in members for t, _ in m.trends.values() if len(t)), default=0.0)
    units: Mapping[str, float] = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0}
    return next(((u, s) for u, s in units.items() if longest >= 3 * s), ("seconds", 1.0))


def laid(series: Sequence[Series]) -> Series:
    """Times of any of the series, and the latest value of each then (n_time, n_series); at most MOST_TIMES times."""
    time_s = np.unique(np.concatenate([t for t, _ in series]))
    if len(time_s) > MOST_TIMES:
        time_s = np.linspace(time_s[0], time_s[-1], MOST_TIMES)
    grid = np.full((len(time_s), len(series)), np.nan)
    for j, (t, values) in enumerate(series):
        at = np.searchsorted(t, time_s, side="right") - 1
        grid[at >= 0, j] = carried(values[:, None])[at[at >= 0], 0]
    return time_s, grid


def drawn_over_time(members: Sequence[Member], chart: Chart, attacks: Mapping[str, str]) -> list[Panel]:
    """A chart with a line per label; attacks: the attack of each label."""
    unit, second = time_unit(members)
    shared = [replace(q, beside=tuple(b for b in q.beside if not b.each)) for q in chart.quantities]

    def draws(law: Law, look: CurveStyle | None) -> tuple[list[float | None], FloatArray]:
        of = [m for m in members if look is None or m.label == look.name]
        time_s, grid = laid([m.trends.get((attacks[m.label], law), m.trends.get(("", law), _NONE)) for m in of])
        return numbers(time_s / second), grid

    axis = {"title": f"simulated time ({unit})", "rangemode": "tozero"}
    return replace(chart, quantities=shared).drawn(looks(attacks), draws, axis, members[0].near_m, _SEEDS)


def over_time(members: Sequence[Member], attacks: Mapping[str, str]) -> list[Panel]:
    """What is known, what the model is worth and what was spent; the uplink; maps.

    attacks : the strongest of each label.
    """
    maps = {m.label: m.grid for m in reversed(members)}  # the first run of each label
    charts = [panel for chart in (PROGRESS, UPLINKS) for panel in drawn_over_time(members, chart, attacks)]
    return [*charts, *gradient_panels({label: maps[label] for label in attacks})]


def attack_panels(members: Sequence[Member]) -> list[Panel]:
    """Each attack by itself."""
    names, labels = dict.fromkeys(name for m in members for name in m.attacks), labels_of(members)
    charts = {
        name: Chart(
            f"leakage-{k}", f"The attack {name} over time", OF_ATTACK, "Each run counts with its median over UEs."
        )
        for k, name in enumerate(names)
    }
    return [p for name, chart in charts.items() for p in drawn_over_time(members, chart, dict.fromkeys(labels, name))]


# -- leakage against utility

LEAKS = ("both_named_within_near", "home_named_within_near", "centroid_error_m", "sw1_m", "auc", "place_error_m")
"""measures of leakage that stand against the model, where runs have them"""


def tradeoff_panel(labels: Mapping[str, Runs], trials: Sequence[Trial] = ()) -> Panel:
    """A mark per label: what the strongest attack finds against how good the model is; lines join labels of a curve."""
    title, cells = "Privacy against utility", list[Axes]()
    every = {label: lines(runs) for label, runs in labels.items()}
    models = {label: x for label, of in every.items() if (x := model_line(of)) is not None}
    for stem in LEAKS:
        leaks = {label: x for label, of in every.items() for x in of if x.key.split(".")[-2] == stem}
        known = [x for x in labels if x in models and x in leaks and np.isfinite(models[x].value + leaks[x].value)]
        if known:
            cells.append(_tradeoff_cell({x: (models[x], leaks[x]) for x in known}, trials, [*labels]))
    if not cells:
        return Panel("tradeoff", title, "No label has both an attack's result and a finite measure of its model.")
    model = next(iter(models.values()))
    better = "left" if model.unit == "dB" else "right"
    x_axis: Figure = {"title": f"{model.title}<br><i>{better}: a better model</i>", "hoverformat": ",.3~r"}
    if wide(np.array([x for cell in cells for trace in cell.traces for x in trace["x"]], dtype=float)):
        x_axis["type"] = "log"
    caption = (
        "One mark per label: the mean over seeds, bars over their range; of shares, the 95 % interval. Hollow: the "
        "model is not useful. Lines are baselines."
    )
    return Panel("tradeoff", title, caption, mosaic(cells, x_axis, 400, closest=True))


def _tradeoff_cell(pairs: Mapping[str, tuple[Line, Line]], trials: Sequence[Trial], labels: Sequence[str]) -> Axes:
    """A measure of leakage against that of the model."""
    leak = next(y for _, y in pairs.values())
    traces = [_point(look, *pairs[look.name]) for look in looks(labels) if look.name in pairs]
    for name, of in curves(trials).items():
        along = [pairs[label] for label in of if label in pairs]
        places = [np.array([pair[k].value for pair in along]) for k in (0, 1)]
        traces.append(line(CurveStyle(name, GREY), numbers(places[0]), places[1], mode="lines", hoverinfo="name"))
    levels = [dict(pair for both in pairs.values() for pair in both[k].beside) for k in (0, 1)]
    spans = [
        [float(np.min(ends)), float(np.max(ends))]
        for k, axis in enumerate("xy") if (ends := [*levels[k].values(), *(v for t in traces for v in t[axis])])
    ]  # fmt: skip
    for k, color in enumerate((GREY, DARK)):
        for (name, value), dash in zip(levels[k].items(), DASHES[1:] * 2, strict=False):
            x, y = ([value, value], spans[1]) if k == 0 else (spans[0], [value, value])
            look = CurveStyle(f"baseline: {name}", color, dash=dash)
            traces.append(line(look, numbers(x), np.array(y), mode="lines", hoverinfo="name"))
    title = f"{leak.what} ({leak.unit})<br><i>{'up' if leak.unit == 'm' else 'down'}: less is known</i>"
    return Axes(title, traces, log=not leak.n and wide(np.array(spans[1])), percent=leak.n > 0)


def _point(look: CurveStyle, x: Line, y: Line) -> Figure:
    """A label: values of both lines with bars to the ends of their intervals."""
    bars = {
        f"error_{axis}": {
            "type": "data", "symmetric": False, "color": look.color, "thickness": 1.4, "width": 4,
            "array": numbers(np.nan_to_num([of.high - of.value])),
            "arrayminus": numbers(np.nan_to_num([of.value - of.low])),
        } for axis, of in (("x", x), ("y", y))
    }  # fmt: skip
    text = "<br>".join(
        [f"<b>{plain(look.name)}</b>", *(f"{of.title}: {of.result} {of.verdict}" for of in (x, y)), plain(y.attack)]
    )
    marker = {"symbol": look.symbol if is_useful(x.verdict) else f"{look.symbol}-open", "size": 12, "color": look.color}
    return marks(look, numbers([x.value]), np.array([y.value]), [text], marker=marker, **bars)

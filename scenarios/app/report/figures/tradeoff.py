"""The figures of `scenarios.app.results.tradeoff`: RMSE of the map against privacy, a line for each curve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scenarios.app.report.html import table
from scenarios.app.report.plot import DARK, GREY, Cell, Figure, Look, Panel, looks, mosaic, numbers, plain
from scenarios.app.report.series import wide
from scenarios.app.results.statistics import Quartiles, counted, interval_text, quartiles_of
from scenarios.app.results.summary_keys import CONSTANT_RMSE, Measure
from scenarios.app.results.tradeoff import (
    DISTANCE,
    SQRT_SW1,
    SW1,
    Point,
    PrivacyScale,
    Row,
    Trial,
    attacks_of,
    curves,
    lower,
    points,
)

HEADROOM = 1.25  # where a diverged label is drawn: this much above the largest figure
_STARS = ("star", "hexagram", "star-diamond", "pentagon")  # labels without a curve


def tradeoff_panels(trials: Sequence[Trial]) -> list[Panel]:
    """For each attack: privacy against the error of the model."""
    names = attacks_of(trials)
    if not names:
        return [Panel("tradeoff", "Utility against privacy", "No run was attacked, so there is no measure of privacy.")]
    return [_panel(trials, name, k) for k, name in enumerate(names)]


def _panel(trials: Sequence[Trial], attack: str, k: int) -> Panel:
    key, title = f"tradeoff-{k}", f"Utility against privacy: RMSE of the map and the error of {attack}"
    named: set[str] = set()
    cells = [
        c for m in (SQRT_SW1, DISTANCE, SW1) if (c := _cell(trials, points(trials, attack, m), m, named)) is not None
    ]
    words = _left_out(trials, attack)
    if not cells:
        return Panel(key, title, f"No label has both a finite RMSE and a measure of privacy. {words}".rstrip())
    x = np.array([p.rmse_db[1] for p in points(trials, attack, SQRT_SW1)])
    x_axis: Figure = {"title": {"text": "RMSE of the map (dB)"}, "hoverformat": ",.3~r"}
    figure = mosaic(cells, x_axis | ({"type": "log"} if wide(x) else {}), 400)
    figure["layout"]["hovermode"] = "closest"
    caption = (
        "Points further left have a better map, points further up more privacy. A point is a label: the median over "
        "seeds, whiskers their quartiles. Curves follow the strength of a mechanism: dotted through every point, solid "
        "through those whose models are useful. Stars are labels without a curve. "
    )
    return Panel(key, title, caption + words, figure)


def _left_out(trials: Sequence[Trial], attack: str) -> str:
    """Labels with useless models, and labels that no axis can show."""
    every = [(m, p) for m in (SQRT_SW1, DISTANCE, SW1) for p in points(trials, attack, m)]
    weak = dict.fromkeys(
        f"“{p.label}” ({p.runs - p.useful} of {counted(p.runs, 'run')})" for _, p in every if p.useful < p.runs
    )  # fmt: skip
    unknown = dict.fromkeys(f"“{p.label}”" for _, p in every if not np.isfinite(p.rmse_db[1]))
    silent = dict.fromkeys(f"“{p.label}” ({lower(m.name)})" for m, p in every if np.isnan(p.privacy[1]))
    return " ".join(
        f"{says}: {', '.join(names)}."
        for says, names in (
            ("Hollow: at most half of the models are useful. Models that are not useful", weak),
            ("Not drawn, without a finite RMSE", unknown),
            ("Not drawn, without an estimate", silent),
        )
        if names
    )


def _cell(trials: Sequence[Trial], of: Sequence[Point], measure: PrivacyScale, named: set[str]) -> Cell | None:
    """One measure of privacy against RMSE; `named`: the legend's entries so far, which this one adds to."""
    shown = [p for p in of if p.drawable]
    if not shown:
        return None
    guess = _median(trials, measure.baseline)
    finite = np.array([v for v in (*(p.privacy[1] for p in shown), guess) if np.isfinite(v)])
    top = HEADROOM * float(finite.max(initial=0.0)) or 1.0
    bare, lines = [p for p in shown if not p.curve], curves(of)
    stars = [Look(p.label, DARK, _STARS[i % len(_STARS)]) for i, p in enumerate(bare)]
    traces = [t for look, p in zip(stars, bare, strict=True) for t in _markers(look, [p], measure, top)]
    for look in looks(lines):
        traces += [*_path(look, lines[look.name]), *_markers(look, lines[look.name], measure, top)]
    traces += _baselines(trials, shown, Look(measure.baseline_name, GREY, dash="dot"), guess, top)
    for trace in traces:
        trace["showlegend"] = trace["name"] not in named
        named.add(trace["name"])
    title = measure.name + ("; at the top: diverged" if any(np.isinf(p.privacy[1]) for p in shown) else "")
    return Cell(f"{lower(measure.name)} ({measure.unit})", traces, title, log=wide(finite) and bool((finite > 0).all()))


def _path(look: Look, line: Sequence[Point]) -> list[Figure]:
    """Solid through points that pass the gate, dotted through all; broken where a value is missing."""
    solid = [p for p in line if p.passes]
    dotted = [("dot", 1.2, line)] if len(solid) < len(line) else []
    return [
        {
            "type": "scatter", "mode": "lines", "name": plain(look.name), "legendgroup": plain(look.name),
            "x": numbers([p.rmse_db[1] for p in of]), "y": numbers([p.privacy[1] for p in of]),
            "line": {"color": look.color, "width": width, "dash": dash}, "hoverinfo": "skip",
        }
        for dash, width, of in [("solid", 2.0, solid), *dotted]
        if len(of) > 1
    ]  # fmt: skip


def _markers(look: Look, line: Sequence[Point], measure: PrivacyScale, top: float) -> list[Figure]:
    """Points with whiskers, hollow where the gate is not passed; those that diverged are at the top, with a label."""
    shown = [p for p in line if p.drawable]
    return [
        {
            "type": "scatter", "name": plain(look.name), "legendgroup": plain(look.name),
            "x": numbers([p.rmse_db[1] for p in of]), "y": numbers([min(p.privacy[1], top) for p in of]),
            "error_x": _whiskers(look, [p.rmse_db for p in of], np.inf), "text": [_hover(p, measure) for p in of],
            "error_y": _whiskers(look, [p.privacy for p in of], top),
            "marker": {"symbol": [look.symbol if p.passes else f"{look.symbol}-open" for p in of], "size": 10,
                       "color": look.color},
            "hovertemplate": "%{text}<extra></extra>", **more,
        }
        for of, more in (
            ([p for p in shown if np.isfinite(p.privacy[1])], {"mode": "markers"}),
            ([p for p in shown if np.isinf(p.privacy[1])], _SAID_DIVERGED),
        )
        if of
    ]  # fmt: skip


_SAID_DIVERGED: Figure = {
    "mode": "markers+text", "texttemplate": "diverged", "textposition": "bottom center", "textfont": {"size": 10},
}  # fmt: skip


def _whiskers(look: Look, of: Sequence[Quartiles], most: float) -> Figure:
    """From quartile to quartile, no further than `most`; one that is infinite is left out."""
    reach = [(min(mid, most) - low, min(high, most) - min(mid, most)) for low, mid, high in of]
    return {
        "type": "data", "symmetric": False, "color": look.color, "thickness": 1, "width": 3,
        "arrayminus": [v or 0.0 for v in numbers([low for low, _ in reach])],
        "array": [v or 0.0 for v in numbers([high for _, high in reach])],
    }  # fmt: skip


def _hover(point: Point, measure: PrivacyScale) -> str:
    return (
        f"{plain(point.label)}<br>map {interval_text(point.rmse_db)} dB<br>{lower(measure.name)} "
        f"{interval_text(point.privacy, measure.unit)} {measure.unit}<br>useful models: {point.useful} of {point.runs}"
    )


def _baselines(trials: Sequence[Trial], shown: Sequence[Point], look: Look, guess: float, top: float) -> list[Figure]:
    """The measure without an attack, and the RMSE of a constant: lines across the points' range."""
    constant = _median(trials, CONSTANT_RMSE)
    x = [v for v in (*(p.rmse_db[1] for p in shown), constant) if np.isfinite(v)]
    y = [v for v in (*(p.privacy[1] for p in shown), guess) if np.isfinite(v)] or [top]
    ends = (
        (look, [min(x), max(x)], [guess, guess]),
        (Look("baseline: constant map", GREY, dash="longdash"), [constant, constant], [min(y), max(y)]),
    )
    return [
        {
            "type": "scatter", "mode": "lines", "name": one.name, "legendgroup": one.name, "x": numbers(x_ends),
            "y": numbers(y_ends), "line": {"color": one.color, "width": 1.5, "dash": one.dash}, "hoverinfo": "name",
        }
        for one, x_ends, y_ends in ends
        if np.isfinite([*x_ends, *y_ends]).all()
    ]  # fmt: skip


def _median(trials: Sequence[Trial], key: Measure) -> float:
    return quartiles_of(t.summary.get(key.of()) for t in trials)[1]


def matched_table(of: Sequence[Row]) -> str:
    """The matched levels on the page: a row per level and gate, a column per curve."""
    if not of:
        return ""
    names = list(of[0].matches)
    rows = [(row, [*(row.matches[name].text for name in names), row.lowest or row.alone]) for row in of]
    free = {(row.attack, row.measure.name, row.level): cells for row, cells in rows if not row.gated}
    lines = []
    for row, cells in rows:
        alike = free.get((row.attack, row.measure.name, row.level)) == cells
        if row.gated and alike:
            continue
        lines.append(
            [f"{row.attack}: {row.measure.name} {row.measure.text(row.level)}", _gate(row.gated, alike), *cells]
        )
    return table(
        "RMSE of each curve at matched privacy, linear between its medians",
        ["at", "models", *names, "lowest RMSE"],
        lines,
    )


def _gate(gated: bool, alike: bool) -> str:
    """Of which models a row is; alike: that of the others is the same."""
    return "useful" if gated else "all, and useful ones" if alike else "all"

"""A mark for each label: what the strongest attack finds against how good the model is, over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.app.report.plot import DARK, GREY, Cell, Figure, Look, Panel, looks, mosaic, numbers, plain
from scenarios.app.report.series import wide
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.standing import Runs, mean, nearest
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.summary_keys import Measure

FAR = 1.3  # an error more than so many times that of a constant is drawn at this place


@dataclass(frozen=True)
class Scale:
    """A measure on an axis: its key, what it is with its unit, which way is better, and its baselines."""

    key: Measure
    what: str
    unit: str
    better: str
    baselines: Mapping[str, Measure]
    percent: bool = False


_MODELS = (
    Scale(keys.RMSE, "RMSE of the map", "dB", "left: a better map", {"a constant map": keys.CONSTANT_RMSE}),
    Scale(keys.ACCURACY, "accuracy", "%", "right: a better model",
          {"the most frequent class": keys.CONSTANT_ACCURACY}),
    Scale(keys.RANK_CORRELATION, "rank correlation of the density", "", "right: a better density", {}),
)  # fmt: skip
_FOUND = (
    Scale(keys.HOME_NAMED_PERCENT, "homes named at the end", "%", "down: less is known",
          {"chance: two random places": keys.UNIFORM[0], "chance: others' density": keys.OTHERS[0]}, percent=True),
    Scale(keys.ERROR_MEDIAN, "centroid error", "m", "up: less is known",
          {"always guess the map centre": keys.AREA_CENTRE_ERROR}),
    Scale(keys.AUC_LAST, "AUC of membership", "", "down: less is known", {}),
)  # fmt: skip
_LINES = (Look("", GREY, dash="dot"), Look("", DARK, dash="dash"))


def points_panel(labels: Mapping[str, Runs]) -> Panel:
    """Leakage against utility, a pair of axes for each measure of leakage."""
    title = "Privacy against utility"
    every = [run for of in labels.values() for run in of]
    model = next((s for s in _MODELS if any(run.get(s.key.of()) is not None for run in every)), None)
    if model is None:
        return Panel("tradeoff", title, "No run has a measure of its model.")
    end = _end(labels, model)
    cells, named = list[Cell](), set[str]()
    edge = [f"“{label}”" for label, of in labels.items() if mean(of, model.key.of()) > end]
    for scale in _FOUND:
        marks = [mark for look in looks(labels) for mark in _mark(look, labels[look.name], model, scale, end)]
        if not marks:
            continue
        values = np.array([y for m in marks for y in m["y"]], dtype=float)
        traces = [*marks, *_lines(labels, model, scale, marks)]
        for trace in traces:
            trace["showlegend"] = trace["name"] not in named
            named.add(trace["name"])
        axis = f"{scale.what}{f' ({scale.unit})' if scale.unit else ''}<br><i>{scale.better}</i>"
        cells.append(Cell(axis, traces, "", log=not scale.percent and wide(values), percent=scale.percent))
    if not cells:
        return Panel("tradeoff", title, "No label has both an attack's result and a finite measure of its model.")
    x_title = f"{model.what}{f' ({model.unit})' if model.unit else ''}<br><i>{model.better}</i>"
    figure = mosaic(cells, {"title": {"text": x_title}, "hoverformat": ",.3~r"}, 420)
    figure["layout"]["hovermode"] = "closest"
    figure["layout"]["margin"]["b"] = 75
    figure["layout"]["height"] += 15
    caption = (
        "One mark a label, with its strongest attack: the mean over seeds, bars from the smallest to the largest. "
        "Lines are baselines: an attack at chance knows nothing, a model at the constant is worth nothing."
        + (f" Hollow, at the edge, because the model is worse by far: {', '.join(edge)}." if edge else "")
    )
    return Panel("tradeoff", title, caption, figure)


def _end(labels: Mapping[str, Runs], model: Scale) -> float:
    """The largest error that is drawn to scale; those beyond it are drawn there."""
    constant = [mean(of, key.of()) for of in labels.values() for key in model.baselines.values()]
    known = [value for value in constant if value > 0]
    return FAR * max(known) if known and model.key is keys.RMSE else np.inf


def _over(runs: Runs, key: str) -> tuple[float, float, float]:
    """Smallest value, mean and largest; NaN where a run has none."""
    values = [np.nan if (v := run.get(key)) is None else float(v) for run in runs]
    return (np.nan,) * 3 if np.isnan(values).any() else (min(values), float(np.mean(values)), max(values))


def _mark(look: Look, runs: Runs, model: Scale, scale: Scale, end: float) -> list[Figure]:
    """A label's mark with its bars, or nothing where a value is not finite."""
    attack = nearest(runs, scale.key, most=not scale.better.startswith("up"))
    x, y = _over(runs, model.key.of()), _over(runs, scale.key.of(attack)) if attack else (np.nan,) * 3
    if not np.isfinite([x[1], y[1]]).all():
        return []
    far = x[1] > end
    text = (
        f"<b>{plain(look.name)}</b><br>{model.what} {_text(x, model.unit)}<br>{scale.what} {_text(y, scale.unit)} "
        f"({plain(attack)})<br>{counted(len(runs), 'seed')}"
    )
    at = (end, end, end) if far else x
    return [
        {
            "type": "scatter", "mode": "markers", "name": plain(look.name), "legendgroup": plain(look.name),
            "x": numbers([at[1]]), "y": numbers([y[1]]), "error_x": _bar(look, at), "error_y": _bar(look, y),
            "marker": {"symbol": f"{look.symbol}-open" if far else look.symbol, "size": 12, "color": look.color,
                       "line": {"width": 2 if far else 1, "color": look.color if far else "#ffffff"}},
            "text": [text], "hovertemplate": "%{text}<extra></extra>",
        }
    ]  # fmt: skip


def _text(of: tuple[float, float, float], unit: str) -> str:
    low, mid, high = (figure_text(value, unit) for value in of)
    return f"{mid} {unit}".strip() + (f" ({low} to {high})" if low != high else "")


def _bar(look: Look, of: tuple[float, float, float]) -> Figure:
    low, mid, high = of
    return {
        "type": "data", "symmetric": False, "color": look.color, "thickness": 1.4, "width": 4,
        "array": numbers([high - mid]), "arrayminus": numbers([mid - low]),
    }  # fmt: skip


def _lines(labels: Mapping[str, Runs], model: Scale, scale: Scale, marks: Sequence[Figure]) -> list[Figure]:
    """Baselines of both axes across the marks."""
    every = [run for of in labels.values() for run in of]
    across = [(name, mean(every, key.of())) for name, key in scale.baselines.items()]
    upright = [(name, mean(every, key.of())) for name, key in model.baselines.items()]
    x = [v for m in marks for v in m["x"]] + [v for _, v in upright if np.isfinite(v)]
    y = [v for m in marks for v in m["y"]] + [v for _, v in across if np.isfinite(v)] + [0.0] * scale.percent
    drawn = [
        _line(f"baseline: {name}" if ":" not in name else name, look, [min(x), max(x)], [at, at])
        for look, (name, at) in zip(_LINES, across, strict=False) if np.isfinite(at)
    ]  # fmt: skip
    top = 100.0 if scale.percent else max(y)
    return drawn + [
        _line(f"baseline: {name}", Look("", GREY, dash="longdash"), [at, at], [min(y), top])
        for name, at in upright
        if np.isfinite(at)
    ]


def _line(name: str, look: Look, x: Sequence[Any], y: Sequence[Any]) -> Figure:
    return {
        "type": "scatter", "mode": "lines", "name": name, "legendgroup": name, "x": numbers(x), "y": numbers(y),
        "line": {"color": look.color, "width": 1.5, "dash": look.dash}, "hoverinfo": "name",
    }  # fmt: skip

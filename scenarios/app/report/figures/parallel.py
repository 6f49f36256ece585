"""Parallel coordinates: a line for each trial, across an upright axis for every setting and every objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.app.report.figures.scatter import BEST, groups, numeric
from scenarios.app.report.plot import DARK, Figure, Look, Panel, axis, base_layout, legend_rows, plain
from scenarios.app.results.statistics import figure_text
from scenarios.app.study.describe import flow

Found = Mapping[str, Any]
_TICKS = 5
_HEIGHT, _FOOT = 420, 130  # pixels


@dataclass(frozen=True)
class Scale:
    """An axis: its name, where on it a value stands (0 to 1), and the places and texts of its ticks."""

    name: str
    at: Mapping[str, float]
    ticks: Sequence[tuple[float, str]]


def scale(name: str, values: Sequence[Any], log: bool = False) -> Scale:
    """The axis of values: numbers from least to largest, `log` by their logarithms; others evenly, as they come.

    `at` has the text of each value as a name. A single value stands in the middle.
    """
    texts = list(dict.fromkeys(flow(value) for value in values))
    if not all(map(numeric, values)):
        places = {text: _share(k, 0, len(texts) - 1) for k, text in enumerate(texts)}
        return Scale(name, places, [(place, text) for text, place in places.items()])
    of = {flow(value): float(np.log10(value) if log else value) for value in values}
    low, high = min(of.values()), max(of.values())
    marks = np.linspace(low, high, _TICKS) if high > low else np.array([low])
    ticks = [(_share(m, low, high), figure_text(float(10**m if log else m))) for m in marks]
    return Scale(name, {text: _share(value, low, high) for text, value in of.items()}, ticks)


def _share(value: float, low: float, high: float) -> float:
    return round(float((value - low) / (high - low)), 6) if high > low else 0.5


def parallel_panel(found: Found) -> Panel:
    """Finished trials across their settings and objectives; the table of all trials has the same figures."""
    done = [row for row in found["trials"] if row["state"] == "finished"]
    if not done:
        return Panel("parallel", "Settings side by side", "No trial finished.")
    keys = [o["key"] for o in found["objectives"]]
    scales = [
        scale(name, [row["settings"][name] for row in done], bool(found["space"][name].get("log")))
        for name in found["space"]
    ] + [scale(key, [row["values"][key] for row in done]) for key in keys]
    traces = [_lines(look, rows, scales) for look, rows in groups(found) if rows]
    caption = (
        "One line a finished trial: its settings, then its mean figures over seeds. Lines that run together between "
        "two axes show which settings go with which figures. The same numbers are in the table of all trials."
    )
    return Panel("parallel", "Settings side by side", caption, _figure(traces, scales))


def _lines(look: Look, rows: Sequence[Found], scales: Sequence[Scale]) -> Figure:
    """All lines of a group as one trace, with a gap after each."""
    x: list[float | None] = []
    y: list[float | None] = []
    texts: list[str | None] = []
    for row in rows:
        for k, one in enumerate(scales):
            value = row["settings"][one.name] if one.name in row["settings"] else row["values"][one.name]
            x.append(k)
            y.append(one.at[flow(value)])
            shown = figure_text(value) if numeric(value) else flow(value)
            texts.append(f"{plain(row['name'])}<br>{plain(one.name)} {plain(shown)}")
        x.append(None)
        y.append(None)
        texts.append(None)
    return {
        "type": "scatter", "mode": "lines+markers", "name": plain(look.name), "legendgroup": plain(look.name),
        "x": x, "y": y, "text": texts, "hovertemplate": "%{text}<extra></extra>", "connectgaps": False,
        "line": {"color": look.color, "width": 3 if look is BEST else 1.5},
        "marker": {"symbol": look.symbol, "size": 6, "color": look.color},
    }  # fmt: skip


def _figure(traces: Sequence[Figure], scales: Sequence[Scale]) -> Figure:
    """The axes as upright lines with their own ticks; what plotly calls the y axis is hidden."""
    layout = base_layout()
    head = 26 * legend_rows(traces) + 20
    last = len(scales) - 1
    layout["xaxis"] = {
        **axis(), "range": [-0.15, last + 0.35], "tickvals": list(range(last + 1)), "showgrid": False,
        "ticktext": [plain(_short(one.name)) for one in scales],
    }  # fmt: skip
    layout["yaxis"] = {"range": [-0.03, 1.03], "visible": False}
    for k, one in enumerate(scales):
        layout["shapes"].append(
            {"type": "line", "x0": k, "x1": k, "y0": 0, "y1": 1, "line": {"color": DARK, "width": 1}, "layer": "below"}
        )
        layout["annotations"] += [
            {"x": k, "y": at, "text": plain(text), "xanchor": "left", "xshift": 6, "showarrow": False,
             "font": {"size": 11}, "bgcolor": "rgba(255,255,255,0.8)"}
            for at, text in one.ticks
        ]  # fmt: skip
    layout |= {
        "height": _HEIGHT + head + _FOOT, "hovermode": "closest", "margin": {"l": 30, "r": 40, "t": head, "b": _FOOT},
    }  # fmt: skip
    layout["legend"]["y"] = 1.02
    return {"data": list(traces), "layout": layout}


def _short(name: str) -> str:
    """The last parts of a key, by which people know it."""
    return ".".join(name.split(".")[-2:])

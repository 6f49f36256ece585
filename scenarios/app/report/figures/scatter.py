"""Points of a space of settings: a figure against each setting, the best so far, and a trade-off front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenarios.app.report.plot import GREY, PALETTE, Cell, Figure, Look, Panel, line, mosaic, numbers, plain
from scenarios.app.results.statistics import figure_text
from scenarios.app.study.describe import flow

_KEPT, _BROKEN = Look("trials", PALETTE[0]), Look("break a constraint", GREY, "cross")
BEST = Look("best", PALETTE[1], "diamond")
Found = Mapping[str, Any]


def points(look: Look, x: Sequence[Any], y: Sequence[float], names: Sequence[str], **more: Any) -> Figure:
    """A mark for each point, named in the hover text."""
    texts = [f"{plain(name)}<br>{figure_text(value)}" for name, value in zip(names, y, strict=True)]
    return {
        "type": "scatter", "mode": "markers", "name": plain(look.name), "legendgroup": plain(look.name),
        "x": list(x), "y": numbers(y), "text": texts, "hovertemplate": "%{text}<extra></extra>",
        "marker": {"symbol": look.symbol, "size": 8, "color": look.color}, **more,
    }  # fmt: skip


def of_settings(key: str, title: str, caption: str, groups: Sequence[tuple[Look, Sequence[Found]]]) -> Panel:
    """A pair of axes for each setting: its value, and the figure `key` of each row (`settings`, `values`, `name`)."""
    names = list(dict.fromkeys(name for _, rows in groups for row in rows for name in row["settings"]))
    cells = []
    for n, name in enumerate(names):
        traces = [
            points(look, [_at(row["settings"][name]) for row in rows], [row["values"][key] for row in rows],
                   [f"{row['name']}: {name}={flow(row['settings'][name])}" for row in rows], showlegend=n == 0)
            for look, rows in groups if rows
        ]  # fmt: skip
        cells.append(Cell(key, traces, plain(name)))
    if not any(cell.traces for cell in cells):
        return Panel(f"settings-{key}", title, "No run has this figure.")
    return Panel(f"settings-{key}", title, caption, _close(mosaic(cells, {"title": {"text": "value"}})))


def settings_panel(found: Found, key: str) -> Panel:
    """What each setting does to an objective, over the finished trials."""
    caption = "One mark a finished trial: its mean over seeds, against each setting that was searched."
    return of_settings(key, f"{key} by setting", caption, groups(found))


def history_panel(found: Found) -> Panel:
    """The objective trial by trial, and the best so far among those that keep every bound."""
    key, small = found["objectives"][0]["key"], found["objectives"][0]["direction"] == "min"
    done = [row for row in found["trials"] if row["state"] == "finished"]
    kept = [row for row in done if row["kept"]]
    pick = np.minimum if small else np.maximum
    best = pick.accumulate([float(row["values"][key]) for row in kept]) if kept else np.zeros(0)
    traces = [
        points(look, [row["number"] for row in rows], [row["values"][key] for row in rows], [r["name"] for r in rows])
        for look, rows in groups(found)[:2] if rows
    ]  # fmt: skip
    steps = {"shape": "hv", "color": BEST.color, "width": 2}
    if kept:
        so_far = Look("best so far", BEST.color)
        traces.append(line(so_far, [row["number"] for row in kept], best, mode="lines", line=steps))
    caption = "Each finished trial in the order of suggestion, and the best so far that breaks no bound."
    if not traces:
        return Panel("history", "History", "No trial finished.")
    return Panel("history", "History", caption, _close(mosaic([Cell(key, traces)], {"title": {"text": "trial"}})))


def tradeoff_panel(found: Found) -> Panel:
    """The first objective against each other one; trials of the front are named."""
    first, *others = [o["key"] for o in found["objectives"]]
    cells = []
    for n, key in enumerate(others):
        traces = []
        for look, rows in groups(found):
            named = {"mode": "markers+text", "textposition": "top center"} if look is BEST else {}
            if rows:
                trace = points(look, [r["values"][first] for r in rows], [r["values"][key] for r in rows],
                               [r["name"] for r in rows], showlegend=n == 0, **named)  # fmt: skip
                traces.append(trace | ({"text": [plain(r["name"]) for r in rows]} if named else {}))
        cells.append(Cell(key, traces))
    if not any(cell.traces for cell in cells):
        return Panel("front", "Trade-off", "No trial finished.")
    caption = "Marks with names are the front: no other trial is as good in every objective and better in one."
    return Panel("front", "Trade-off", caption, _close(mosaic(cells, {"title": {"text": plain(first)}}, 420)))


def groups(found: Found) -> list[tuple[Look, list[Found]]]:
    """Finished trials: those that keep all bounds, those that do not, and once more the best."""
    done = [row for row in found["trials"] if row["state"] == "finished"]
    return [
        (_KEPT, [row for row in done if row["kept"]]), (_BROKEN, [row for row in done if not row["kept"]]),
        (BEST, [row for row in done if row["name"] in found["best"]]),
    ]  # fmt: skip


def _at(value: Any) -> Any:
    """Where a value stands on its axis: a number, or its text."""
    return value if numeric(value) else plain(flow(value))


def numeric(value: Any) -> bool:
    """Whether a value of a setting is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _close(figure: Figure) -> Figure:
    figure["layout"]["hovermode"] = "closest"
    return figure

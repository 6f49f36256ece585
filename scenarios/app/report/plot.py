"""How figures look: axes, curves and colours in plotly's JSON.

Nothing here knows what a run is. Every text that comes in is plain; it is escaped here.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from netsim.units import FloatArray, IntArray
from scenarios.app.results.statistics import Interval, figure_text

Figure = dict[str, Any]

# Okabe and Ito's colours, told apart by colour-blind people too; their yellow is too pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")
DASHES = ("solid", "dot", "longdash", "dashdot")
GREY, DARK = "#808080", "#222222"
FEW = 60  # values up to which each is marked on its line


@dataclass(frozen=True)
class CurveStyle:
    """How one attack or label is drawn, on every figure of a page."""

    name: str
    color: str
    symbol: str = "circle"
    dash: str = "solid"


def looks(names: Iterable[str]) -> list[CurveStyle]:
    """A look for each name; from the seventh name on colours repeat with other dashes and symbols."""
    n = len(PALETTE)
    return [
        CurveStyle(name, PALETTE[i % n], SYMBOLS[(i + i // n) % n], DASHES[i // n % len(DASHES)])
        for i, name in enumerate(names)
    ]


@dataclass(frozen=True)
class Panel:
    """A figure on the page, or the reason for its absence."""

    key: str
    title: str
    caption: str
    figure: Figure | None = None


@dataclass(frozen=True)
class Axes:
    """One pair of axes; `percent`: from 0 to 100; `near`: the axis need not show 0."""

    y_title: str
    traces: Sequence[Figure]
    title: str = ""
    log: bool = False
    percent: bool = False
    near: bool = False


def plain(text: Any) -> str:
    """Text for plotly, which takes `<b>` and the like in names and hover for mark-up, and names as keys of objects:
    `__proto__` is none, so its first character is written as an entity.
    """
    escaped = html.escape(str(text), quote=False)
    return "&#95;_proto__" if escaped == "__proto__" else escaped


def numbers(values: Any) -> list[float | None]:
    """Six significant digits; None for what is not finite."""
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def line(look: CurveStyle, x: Sequence[Any], y: FloatArray, **more: Any) -> Figure:
    """A curve; NaN interrupts it."""
    return {
        "type": "scatter", "x": list(x), "y": numbers(y), "name": plain(look.name), "legendgroup": plain(look.name),
        "mode": "lines+markers" if len(x) <= FEW else "lines",
        "line": {"color": look.color, "width": 2, "dash": look.dash},
        "marker": {"symbol": look.symbol, "size": 7},
        "hovertemplate": "%{y:,.3~r}", **more,
    }  # fmt: skip


def band(look: CurveStyle, x: Sequence[Any], low: FloatArray, high: FloatArray) -> Figure:
    """The area between two curves; where a bound is missing it is interrupted."""
    xs, ys = list[Any](), list[float | None]()
    known = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    for there in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
        around = [*there, *there[::-1]]
        xs += [*(x[i] for i in around), None]
        ys += [*numbers([*low[there], *high[there[::-1]]]), None]
    return {
        **line(look, xs, np.zeros(0)), "y": ys, "fill": "toself", "mode": "lines", "line": {"width": 0},
        "fillcolor": f"{look.color}29", "hoverinfo": "skip", "showlegend": False,
    }  # fmt: skip


def spread(look: CurveStyle, x: Sequence[Any], values: Interval, n: IntArray, unit: str, **more: Any) -> list[Figure]:
    """A median, with its quartiles as band and in the hover text wherever n > 1 values stand behind it.

    A band up to infinity is cut off at the largest finite value.
    """
    low, mid, high = values
    texts = [
        f"{figure_text(m, unit)} {unit}".rstrip()
        + (f" [{figure_text(a, unit)}, {figure_text(b, unit)}] of {count}" if count > 1 else "")
        for a, m, b, count in zip(low, mid, high, n, strict=True)
    ]
    most = np.max(np.concatenate(values), where=np.isfinite(np.concatenate(values)), initial=-np.inf)
    middle = line(look, x, mid, text=texts, hovertemplate="%{text}", **more)
    return [*([band(look, x, low, np.minimum(high, most))] if (n > 1).any() else []), middle]


def marks(look: CurveStyle, x: Sequence[Any], y: Any, texts: Sequence[str], **more: Any) -> Figure:
    """A mark for each point, named in the hover text."""
    return {
        **line(look, x, y), "mode": "markers", "text": texts, "hovertemplate": "%{text}<extra></extra>",
        "marker": {"symbol": look.symbol, "size": 9, "color": look.color}, **more,
    }  # fmt: skip


def distribution(look: CurveStyle, values: FloatArray, least: float = -np.inf, **more: Any) -> Figure:
    """The percentage of the finite values that are at most x, for x above `least`."""
    percent = np.linspace(0.0, 100.0, 201)
    known = values[np.isfinite(values)]
    at = np.quantile(known, percent / 100.0) if (known > least).any() else np.zeros(0)
    x, y = at[at > least], percent[: len(at)][at > least]
    return line(look, numbers(x), y, mode="lines", hovertemplate="%{y:.0f} % at most %{x:,.3~r}", **more)


def mosaic(cells: Sequence[Axes], x_axis: Figure, height: int = 330, closest: bool = False) -> Figure:
    """Cells side by side, two a row or three in one, under one legend.

    height : of one cell, pixels. closest : whether the hover text is that of the nearest point, not of all curves.
    """
    columns = 3 if len(cells) == 3 else min(2, len(cells))
    rows, layout, data, listed = -(-len(cells) // columns), base_layout(), list[Figure](), set[str]()
    above, gap = (28 if cells[0].title else 6), 100  # pixels: cell titles stand between legend and axes
    for k, cell in enumerate(cells):
        tail = str(k + 1) if k else ""
        x_own = _titled(x_axis)
        layout[f"xaxis{tail}"] = axis() | x_own | _one_moment(cell.traces, x_own)
        layout[f"yaxis{tail}"] = axis(cell.y_title) | _scale(cell)
        for trace in cell.traces:  # the legend has each name once
            shown = trace.get("showlegend", True) and trace["name"] not in listed
            listed |= {trace["name"]} if shown else set()
            data.append({**trace, "xaxis": f"x{tail}", "yaxis": f"y{tail}", "showlegend": shown})
        if cell.title:
            layout["annotations"].append(_heading(cell.title, tail))
    head = 34 + above + 26 * (sum(7 * len(name) + 50 for name in listed) // 900)
    layout["grid"] = {
        "rows": rows, "columns": columns, "pattern": "independent", "xgap": 0.18,
        "ygap": round(gap / (height + gap), 4),
    }  # fmt: skip
    inner = height * rows + gap * (rows - 1)
    layout |= {"height": inner + head + 60, "margin": {"l": 70, "r": 25, "t": head, "b": 60}}
    layout |= {"hovermode": "closest"} if closest else {}
    layout["legend"]["y"] = 1 + above / inner
    return {"data": data, "layout": layout}


def _titled(x_axis: Figure) -> Figure:
    """The axis; a title that is a text becomes plotly's."""
    return x_axis | ({"title": {"text": x_axis["title"]}} if isinstance(x_axis.get("title"), str) else {})


def _one_moment(traces: Sequence[Figure], x_axis: Figure) -> Figure:
    """Where all dates are one: an hour on either side and a tick there, not plotly's thousandths of a second."""
    seen = {x for t in traces for x in t["x"] if x is not None}
    if x_axis.get("type") != "date" or len(seen) != 1:
        return {}
    moment = str(seen.pop())
    at, hour = datetime.fromisoformat(moment), timedelta(hours=1)
    return {"range": [str(at - hour), str(at + hour)], "tickvals": [moment], "tickformat": "%Y-%m-%d %H:%M:%S"}


def base_layout() -> Figure:
    """What all figures share."""
    return {
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 13, "color": DARK},
        "paper_bgcolor": "#ffffff", "plot_bgcolor": "#ffffff", "hovermode": "x unified", "showlegend": True,
        "hoverlabel": {"namelength": -1, "bgcolor": "rgba(255,255,255,0.93)"},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "yanchor": "bottom"},
        "annotations": [],
    }  # fmt: skip


def axis(title: str = "") -> Figure:
    """An axis with a light grid."""
    return {
        "title": {"text": title}, "gridcolor": "#e8e8e8", "linecolor": "#b0b0b0",
        "showline": True, "zeroline": False, "ticks": "outside", "tickcolor": "#b0b0b0", "automargin": True,
    }  # fmt: skip


def _scale(cell: Axes) -> Figure:
    """How a vertical axis counts, and whether it shows 0."""
    if cell.log:
        return _log_axis([y for t in cell.traces for y in t["y"] if y is not None and y > 0])
    if cell.percent:
        return {"range": [0, 103]}
    return {} if cell.near else {"rangemode": "tozero"}


def _log_axis(values: Sequence[float]) -> Figure:
    """A logarithmic axis over whole decades; of few decades also 2 and 5 have ticks."""
    first, last = int(np.floor(np.log10(min(values)))), int(np.ceil(np.log10(max(values))))
    return {"type": "log", "dtick": "D2" if last - first <= 3 else 1, "range": [first - 0.03, last + 0.03]}


def _heading(title: str, tail: str) -> Figure:
    return {
        "text": f"<b>{plain(title)}</b>", "x": 0, "y": 1, "xref": f"x{tail} domain", "yref": f"y{tail} domain",
        "yshift": 3, "xanchor": "left", "yanchor": "bottom", "showarrow": False,
    }  # fmt: skip

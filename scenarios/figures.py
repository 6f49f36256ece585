"""Figures of a report: plain dictionaries in the form of plotly's JSON, drawn from the tables of a run.

Shapes: n_time rounds with a row, n_track pairs (UE, model) or runs.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from netsim.units import BoolArray, FloatArray, IntArray

Figure = dict[str, Any]
Table = dict[str, np.ndarray]  # type: ignore[type-arg]

# Okabe and Ito's colours, told apart by colour-blind people too; their yellow is too pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")
DASHES = ("solid", "dot", "longdash", "dashdot")
GREY, DARK = "#8a8a8a", "#222222"

SMALLEST_M = 0.1  # nearer than this is drawn at this: a logarithmic axis has no zero
MOST_POINTS = 3000  # of one kind on the map
FEW = 60  # rounds up to which each is marked on its line


@dataclass(frozen=True)
class Run:
    """What a page says is drawn from this alone: manifest, summary, study and tables of a run folder."""

    manifest: dict[str, Any]
    summary: dict[str, Any]
    study: dict[str, Any]
    tables: dict[str, Table]
    points: Table = field(default_factory=dict)

    @property
    def attacks(self) -> list[str]:
        """Names of the attacks, in the order of the records."""
        said = [k.split(".")[1] for k in self.summary if k.startswith("attack.") and k.count(".") > 1]
        return list(dict.fromkeys([*map(str, self.tables["leakage"]["attack"]), *said]))

    @property
    def near_m(self) -> float:
        """What counts as knowing a place."""
        value = (self.study.get("learning") or {}).get("leakage", {}).get("near_m")
        return float(value) if isinstance(value, int | float) else 100.0

    def rows(self, table: str, **those: str) -> Table:
        """Rows of a table with a time, those whose text columns say so."""
        columns = self.tables[table]
        keep = np.isfinite(columns["time_s"])
        if "ue" in columns:
            keep &= np.isfinite(columns["ue"])
        for column, value in those.items():
            keep &= np.array([v == value for v in columns[column]], dtype=bool)
        return {k: v[keep] for k, v in columns.items()}


@dataclass(frozen=True)
class Panel:
    """A figure on the page, or the reason why there is none; all texts are plain."""

    key: str
    title: str
    caption: str
    figure: Figure | None = None


@dataclass(frozen=True)
class Tracks:
    """Rows laid out in time: every column becomes (n_time, n_track), NaN where there is no row."""

    rows: Table
    time_s: FloatArray
    ue: FloatArray
    at: tuple[IntArray, IntArray]

    @classmethod
    def of(cls, rows: Table, track: str = "") -> Tracks:
        """One column per (UE, model), or per value of `track`."""
        key = rows[track] if track else rows["ue"] * 4096 + np.nan_to_num(rows["model"])
        time_s, i = np.unique(rows["time_s"], return_inverse=True)
        keys, j = np.unique(key, return_inverse=True)
        return cls(rows, time_s, keys if track else keys // 4096, (i, j))

    def column(self, name: str) -> FloatArray:
        """(n_time, n_track)."""
        return self.lay(self.rows[name])

    def lay(self, values: FloatArray) -> FloatArray:
        """Values of the rows as (n_time, n_track)."""
        grid = np.full((len(self.time_s), len(self.ue)), np.nan)
        grid[self.at] = values
        return grid

    def so_far(self, name: str) -> FloatArray:
        """A figure that lasts: the last one known (n_time, n_track)."""
        return carried(self.column(name))

    def error_m(self) -> FloatArray:
        """Centroid errors (n_time, n_track); a diverged estimate counts as infinite."""
        rows = self.rows
        return self.lay(np.where((rows["heard"] == 1) & (rows["diverged"] == 1), np.inf, rows["error_m"]))


def carried(grid: FloatArray) -> FloatArray:
    """Each column's last known value (n_time, n_track); NaN before the first."""
    row = np.where(np.isnan(grid), -1, np.arange(len(grid))[:, None])
    last = np.maximum.accumulate(row, axis=0)
    return np.asarray(np.where(last < 0, np.nan, np.take_along_axis(grid, np.maximum(last, 0), axis=0)))


def quantile(grid: FloatArray, q: float) -> FloatArray:
    """Quantile over tracks (n_time,): NaN is left out, infinities take part."""
    ordered = np.sort(grid, axis=1)  # NaN comes last
    at = q * np.maximum((~np.isnan(grid)).sum(axis=1) - 1, 0)
    below, above = np.floor(at).astype(int), np.ceil(at).astype(int)
    every = np.arange(len(grid))
    low, high = ordered[every, below], ordered[every, above]
    with np.errstate(invalid="ignore"):  # infinity less infinity: replaced on the next line
        between = low + (at - below) * (high - low)
    return np.asarray(np.where(above == below, low, np.where(np.isinf(high), np.inf, between)))


@dataclass(frozen=True)
class Look:
    """How one attack or label is drawn, on every figure of the page."""

    name: str
    color: str
    symbol: str = "circle"
    dash: str = "solid"


def looks(names: Iterable[str]) -> list[Look]:
    """A look for each name; beyond six names the lines are broken."""
    n = len(PALETTE)
    return [Look(name, PALETTE[i % n], SYMBOLS[i % n], DASHES[i // n % len(DASHES)]) for i, name in enumerate(names)]


@dataclass(frozen=True)
class Curve:
    """A median over tracks, with its quartile band where there are several."""

    x: list[Any]
    low: FloatArray
    mid: FloatArray
    high: FloatArray
    n: IntArray
    """tracks with a value (n_time,)"""
    most: float
    """where an infinite quartile is drawn"""

    @classmethod
    def of(cls, x: list[Any], grid: FloatArray, most: float = np.inf) -> Curve:
        """From (n_time, n_track)."""
        low, mid, high = (quantile(grid, q) for q in (0.25, 0.5, 0.75))
        return cls(x, low, mid, high, (~np.isnan(grid)).sum(axis=1), most)

    @property
    def seen(self) -> bool:
        """Whether there is anything to draw."""
        return bool(np.isfinite(self.mid).any())

    def texts(self, unit: str, of: str) -> list[str]:
        """Hover texts."""
        return [
            f"{figure(m)} {unit}" + (f" [{figure(a)}, {figure(b)}], {n} {of}" if n > 1 else "")
            for a, m, b, n in zip(self.low, self.mid, self.high, self.n, strict=True)
        ]

    def traces(
        self,
        look: Look,
        unit: str,
        of: str,
        name: str = "",
        band: bool = True,
        legend: bool = True,
        floor: float = -np.inf,
    ) -> list[Figure]:
        """Band and line; `floor`: what is smaller is drawn there."""
        shown = [np.clip(v, floor, None) for v in (self.low, self.mid, self.high)]
        found = []
        if band and (self.n > 1).any():
            found.append(self._band(look, shown[0], np.minimum(shown[2], self.most)))
        label = plain(name or look.name)
        line = {
            "type": "scatter", "x": self.x, "y": numbers(shown[1]), "name": label, "legendgroup": label,
            "mode": "lines+markers" if len(self.x) <= FEW else "lines",
            "line": {"color": look.color, "width": 2, "dash": look.dash},
            "marker": {"symbol": look.symbol, "size": 7},
            "text": self.texts(unit, of), "hovertemplate": "%{text}", "showlegend": legend,
        }  # fmt: skip
        for trace in found:
            trace["legendgroup"] = label
        return [*found, line]

    def _band(self, look: Look, low: FloatArray, high: FloatArray) -> Figure:
        return ribbon(self.x, low, high, look.color)


def ribbon(x: list[Any], low: FloatArray, high: FloatArray, color: str, **more: Any) -> Figure:
    """A filled band; where a bound is missing it is interrupted."""
    xs: list[Any] = []
    ys: list[Any] = []
    for run in _stretches(np.isfinite(low) & np.isfinite(high)):
        back = run[::-1]
        xs += [x[i] for i in run] + [x[i] for i in back] + [None]
        ys += numbers(low[run]) + numbers(high[back]) + [None]
    return {
        "type": "scatter", "x": xs[:-1], "y": ys[:-1], "fill": "toself", "mode": "lines",
        "line": {"width": 0, "color": color}, "fillcolor": _faint(color), "hoverinfo": "skip",
        "showlegend": False, **more,
    }  # fmt: skip


def _stretches(known: BoolArray) -> list[IntArray]:
    """Indices of each unbroken stretch."""
    index = np.flatnonzero(known)
    return [s for s in np.split(index, np.flatnonzero(np.diff(index) > 1) + 1) if len(s)]


def _faint(color: str) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.16)"


def numbers(values: Any) -> list[float | None]:
    """Six significant digits; None for what is not finite."""
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def figure(value: float) -> str:
    """A figure for people: three significant digits, thousands in full."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else "∞"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def plain(text: Any) -> str:
    """Text for plotly, which takes `<b>` and the like in names and hover for mark-up."""
    return html.escape(str(text), quote=False)


def dates(run: Run, time_s: FloatArray) -> list[str]:
    """Simulated local time, as plotly's date axes read it."""
    start = datetime.combine(date.fromisoformat(run.manifest["first_day"]), datetime.min.time())
    return [str((start + timedelta(seconds=float(t))).replace(microsecond=0)) for t in time_s]


DATE_AXIS: Figure = {
    "type": "date",
    "title": {"text": "simulated local time"},
    "hoverformat": "%a %Y-%m-%d %H:%M",
}


@dataclass(frozen=True)
class Cell:
    """One pair of axes."""

    y_title: str
    traces: Sequence[Figure]
    title: str = ""
    log: bool = False
    line_at: float | None = None
    """a horizontal line, in metres"""


def mosaic(cells: Sequence[Cell], x_axis: Figure, height: int = 330) -> Figure:
    """Cells side by side, two a row, under one legend."""
    columns, n_row = min(2, len(cells)), (len(cells) + 1) // 2
    data, layout = [], _layout()
    top = 34 * legend_rows(cells) + (26 if cells[0].title else 0)
    total = height * n_row + top + 60
    for k, cell in enumerate(cells):
        row, column = divmod(k, columns)
        tail = str(k + 1) if k else ""
        x_low = column * 0.535
        y_high = 1.0 - row * (1.0 / n_row + 0.04)
        x_domain = [x_low, x_low + 0.465] if columns == 2 else [0.0, 1.0]
        y_domain = [max(y_high - (1.0 / n_row - 0.11 * (n_row > 1)), 0.0), y_high]
        layout[f"xaxis{tail}"] = {**_axis(), **x_axis, "domain": x_domain, "anchor": f"y{tail}"}
        layout[f"yaxis{tail}"] = {
            **_axis(), "title": {"text": cell.y_title}, "domain": y_domain, "anchor": f"x{tail}",
            "type": "log" if cell.log else "linear", **({} if cell.log else {"rangemode": "tozero"}),
        }  # fmt: skip
        if cell.log:  # decades alone are too few ticks for a narrow range
            layout[f"yaxis{tail}"] |= {"dtick": "D2", "minor": {"showgrid": False}}
        data += [{**t, "xaxis": f"x{tail}", "yaxis": t.get("yaxis", f"y{tail}")} for t in cell.traces]
        layout["annotations"] += _heading(cell.title, x_domain[0], y_high)
        layout["shapes"] += _line_at(cell.line_at, tail)
    layout["height"], layout["margin"] = total, {"l": 70, "r": 20, "t": top, "b": 60}
    layout["legend"]["y"] = 1 + (30 if cells[0].title else 8) / (total - top - 60)
    return {"data": data, "layout": layout}


def legend_rows(cells: Sequence[Cell]) -> int:
    """How many lines the legend will take on a laptop."""
    names = [t["name"] for c in cells for t in c.traces if t.get("showlegend", True) and "name" in t]
    return 1 + sum(7 * len(n) + 48 for n in names) // 1000


def _layout() -> Figure:
    return {
        "font": {"family": "system-ui, -apple-system, Segoe UI, sans-serif", "size": 13, "color": DARK},
        "paper_bgcolor": "#ffffff", "plot_bgcolor": "#ffffff", "hovermode": "x unified",
        "hoverlabel": {"namelength": -1, "bgcolor": "rgba(255,255,255,0.92)"},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "yanchor": "bottom"},
        "annotations": [], "shapes": [], "showlegend": True,
    }  # fmt: skip


def _axis() -> Figure:
    return {
        "gridcolor": "#e8e8e8", "linecolor": "#bbbbbb", "showline": True, "zeroline": False, "ticks": "outside",
        "tickcolor": "#bbbbbb", "automargin": True,
    }  # fmt: skip


def _heading(title: str, x: float, y: float) -> list[Figure]:
    if not title:
        return []
    return [
        {"text": f"<b>{plain(title)}</b>", "x": x, "y": y, "xref": "paper", "yref": "paper",
         "xanchor": "left", "yanchor": "bottom", "showarrow": False, "yshift": 4}
    ]  # fmt: skip


def _line_at(level_m: float | None, tail: str) -> list[Figure]:
    if level_m is None:
        return []
    return [
        {"type": "line", "xref": f"x{tail} domain", "yref": f"y{tail}", "x0": 0, "x1": 1, "y0": level_m,
         "y1": level_m, "line": {"color": DARK, "width": 1, "dash": "dot"},
         "label": {"text": f"{level_m:g} m", "textposition": "end", "font": {"size": 11}}}
    ]  # fmt: skip

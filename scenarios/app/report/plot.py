"""Pages: chapters, tables and figures, and the figures' axes, lines and looks."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from netsim.units import FloatArray, IntArray
from scenarios.app.results.outcome import Cell, Mark, Outcome, TableOf, mark_of
from scenarios.app.results.statistics import Interval, figure_text
from scenarios.app.study import Fields, Record

ASSETS = files("scenarios.app.report") / "assets"
PLOTLY = "plotly-cartesian-4.1.1.min.js.gz"
"""the part of plotly.js (MIT) for figures with two axes, as its makers publish it, compressed"""
GENERATOR = '<meta name="generator" content="netsim">'
"""by this line a page is known to be ours"""


@dataclass(frozen=True)
class Chapter:
    """A heading that the contents of the page list, and what stands under it: blocks and figures.

    data : id -> text of `packed`, for scripts of the page. Without anything under it a chapter is
    left out.
    """

    key: str
    title: str
    parts: Sequence[str | Panel]
    data: Mapping[str, str] = field(default_factory=dict)

    @property
    def panels(self) -> list[Panel]:
        """The figures that can be drawn."""
        return [p for p in self.parts if isinstance(p, Panel) and p.figure is not None]


def table(
    title: str, head: Sequence[str] | Sequence[Mark], rows: Iterable[Sequence[Cell]], key: str = ""
) -> Markup:
    """A table that sorts by a click on its heads, empty without rows; with a key it also has a
    filter.

    Columns without a number are words.
    """
    marks = [[mark_of(cell) for cell in row] for row in rows]
    words = [
        k
        for k, column in enumerate(zip(*marks, strict=True))
        if all(mark.sorts is None for mark in column)
    ]
    if marks:
        return block("table", title, head, marks, key, words)
    return Markup()


def table_block(of: TableOf) -> Markup:
    """A table of an outcome without its empty columns, and its notes; the foot in sentences, as a
    table is sorted.
    """
    kept = [
        k
        for k in range(len(of.heads))
        if any(mark_of(row[k]).text or mark_of(row[k]).links for row in of.rows)
    ]
    heads = [Mark(of.heads[k] or "measure", kind="word") for k in kept]
    feet = [
        f"Baselines, {of.heads[k + 1]}: {', '.join(map(' '.join, pairs.items()))}."
        for k, pairs in enumerate(of.foot)
        if pairs
    ]
    rows = [[row[k] for k in kept] for row in of.rows]
    return table(of.title, heads, rows, of.key) + block(
        "paragraphs", [*feet, *of.notes] if of.rows else [], "says"
    )


def outcome_page(
    of: Outcome, chapters: Iterable[Chapter], below: Iterable[str] = (), **top: object
) -> str:
    """A page whose first section says an outcome; below: small print, besides what the outcome
    stands on.
    """
    said = {"answers": of.answers, "notices": of.notices, "facts": of.facts, "words": True}
    results = Markup().join(map(table_block, of.tables))
    small = "; ".join(filter(None, [*below, of.scope]))
    return page(of.title, chapters, **(said | {"below": small, "results": results} | top))


def page(title: str, chapters: Iterable[Chapter], **top: object) -> str:
    """The whole file; the same input gives the same bytes.

    top : what the first section has: below (small print), answers, warns, results, says, facts;
    words : whether words of TERMS are explained.
    """
    every = list(chapters)
    panels = [p for c in every for p in c.parts if isinstance(p, Panel)]
    drawn = {p.key: p.figure for p in panels if p.figure is not None}
    data = {key: text for c in every for key, text in c.data.items()}
    if drawn:
        data["plotly"] = base64.b64encode((ASSETS / PLOTLY).read_bytes()).decode("ascii")
    shown = [c for c in every if c.panels or any(isinstance(p, str) and p for p in c.parts)]
    undrawn = [f"{p.title}: {p.caption}" for p in panels if p.figure is None]
    of = {
        "title": title,
        "chapters": shown,
        "undrawn": undrawn,
        "figures": drawn,
        "data": data,
        "top": top,
    }
    text = TEMPLATES.get_template("page.html").render(of, generator=GENERATOR)
    led_to = set(re.findall(r'href="#(term-\d+)"', text))
    return re.sub(
        r'<div><dt>[^<]*</dt><dd id="(term-\d+)">[^<]*</dd></div>',
        lambda m: m[0] * (m[1] in led_to),
        text,
    )


def block(name: str, *of: object) -> Markup:
    """HTML of a macro of `blocks.html`: facts(pairs), folded(title, text) and others."""
    return Markup(getattr(TEMPLATES.get_template("blocks.html").module, name)(*of))  # noqa: S704, it escapes


def configuration(facts: Record, *more: Markup) -> Chapter:
    """The last chapter: settings, and what else belongs to them."""
    return Chapter("configuration", "Configuration", [block("facts", facts), *more])


def rendered(name: str, **of: object) -> Markup:
    """HTML of a template of ours."""
    return Markup(TEMPLATES.get_template(name).render(of))  # noqa: S704, it escapes


@cache
def _asset(name: str) -> Markup:
    """A text of ours that goes into the page as it is."""
    return Markup((ASSETS / name).read_text(encoding="utf-8"))  # noqa: S704, a file of ours


def _ranged(cell: str) -> Markup:
    """Figures; their quartiles, where there are any, may stand below them but are not broken."""
    escaped = str(escape(cell))
    return Markup(re.sub(r" \[([^\[\]]*)\]", r' <span class="range">[\1]</span>', escaped))  # noqa: S704


def _sentences(text: str) -> tuple[str, str]:
    """The first sentence, and the rest; a full stop ends a sentence where a capital or nothing
    follows.
    """
    found = re.match(r"(.+?[.])\s+(?=[A-Z])(.+)", text.strip(), flags=re.DOTALL)
    if found:
        return (found[1], found[2])
    return (text.strip(), "")


TERMS: dict[str, str] = tomllib.loads((ASSETS / "terms.toml").read_text(encoding="utf-8"))
"""word -> its meaning"""
_WORDS = re.compile(rf"\b(?:({')|('.join(TERMS)}))s?\b", re.IGNORECASE)


def _explained(text: str) -> Markup:
    """A text in which words of TERMS lead to their meanings, which the page shows beside them."""

    def link(found: re.Match[str]) -> str:
        at = f"term-{found.lastindex}"
        return f'<a class="term" href="#{at}" aria-describedby="{at}">{found[0]}</a>'

    return Markup(_WORDS.sub(link, str(escape(text))))  # noqa: S704, escaped


TEMPLATES = Environment(loader=PackageLoader("scenarios.app.report", "assets"), autoescape=True)
TEMPLATES.filters |= {
    "asset": _asset,
    "ranged": _ranged,
    "sentences": _sentences,
    "explained": _explained,
}
TEMPLATES.globals["terms"] = TERMS
TEMPLATES.policies["json.dumps_kwargs"] = {"sort_keys": True, "allow_nan": False}
ALIGNED = 8  # bytes, as the browser's typed arrays want it


def packed(meta: Record, arrays: Mapping[str, np.ndarray]) -> str:
    """A header of JSON, then the arrays, flat and little-endian: `netsim.unpacked(id)` in the page
    gives both back.

    Raises ValueError for NaN in `meta`.
    """
    body = b""
    listed = []
    for name, values in arrays.items():
        kind = values.dtype.str[1:]
        listed.append({"name": name, "type": kind, "size": values.size, "at": len(body)})
        data = values.astype(f"<{kind}").tobytes()
        body += data + bytes(-len(data) % ALIGNED)
    head = json.dumps({"meta": meta, "arrays": listed}, allow_nan=False, sort_keys=True).encode()
    head += b" " * (-(4 + len(head)) % ALIGNED)
    whole = gzip.compress(len(head).to_bytes(4, "little") + head + body, compresslevel=9, mtime=0)
    return base64.b64encode(whole).decode("ascii")


Figure = Fields
Places = Sequence[object]
"""numbers, dates or words along an axis"""

# Okabe and Ito's colours, told apart by colour-blind people too; their yellow is too pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")
DASHES = ("solid", "dot", "longdash", "dashdot")
GREY = "#808080"
DARK = "#222222"
FEW = 60  # values up to which each is marked on its line
WIDE_RANGE = 30.0  # ratio of largest to smallest value beyond which an axis is logarithmic
STYLE = json.loads((ASSETS / "figure.json").read_text(encoding="utf-8"))
"""what all figures share: layout, legend, axis, and the heading of a pair of axes"""


@dataclass(frozen=True)
class CurveStyle:
    """How one attack or label is drawn, on every figure of a page."""

    name: str
    color: str
    symbol: str = "circle"
    dash: str = "solid"


def looks(names: Iterable[str]) -> list[CurveStyle]:
    """A look for each name; from the seventh name on colours repeat with other dashes and
    symbols.
    """
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
    """One pair of axes; log: where values are wide; percent: from 0 to 100; near: the axis need not
    show 0.

    x_title : where the axes of a figure differ in it.
    """

    y_title: str
    traces: Sequence[Figure]
    title: str = ""
    x_title: str = ""
    log: bool = False
    percent: bool = False
    near: bool = False


def plain(text: object) -> str:
    """Text for plotly, which takes `<b>` and the like in names and hover for mark-up, and names as
    keys of objects: `__proto__` is none, so its first character is written as an entity.
    """
    escaped = html.escape(str(text), quote=False)
    return "&#95;_proto__" if escaped == "__proto__" else escaped


def numbers(values: ArrayLike) -> list[float | None]:
    """Six significant digits; None for what is not finite."""
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def line(look: CurveStyle, x: Places, y: FloatArray, **more: object) -> Figure:
    """A curve; NaN interrupts it."""
    return {
        "type": "scatter",
        "x": list(x),
        "y": numbers(y),
        "name": plain(look.name),
        "legendgroup": plain(look.name),
        "mode": "lines+markers" if len(x) <= FEW else "lines",
        "line": {"color": look.color, "width": 2, "dash": look.dash},
        "marker": {"symbol": look.symbol, "size": 7},
        "hovertemplate": "%{y:,.3~r}",
        **more,
    }


def band(look: CurveStyle, x: Places, low: FloatArray, high: FloatArray) -> Figure:
    """The area between two curves; where a bound is missing it is interrupted."""
    xs = []
    ys = []
    known = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    for there in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
        xs += [x[i] for i in (*there, *there[::-1])] + [None]
        ys += [*numbers(low[there]), *numbers(high[there[::-1]]), None]
    return {
        **line(look, xs, np.zeros(0)),
        "y": ys,
        "fill": "toself",
        "mode": "lines",
        "line": {"width": 0},
        "fillcolor": f"{look.color}29",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def spread(
    look: CurveStyle, x: Places, values: Interval, n: IntArray, unit: str, **more: object
) -> list[Figure]:
    """A median, with its quartiles as band and in the hover text wherever n > 1 values stand behind
    it.

    A band up to infinity is cut off at the largest finite value.
    """
    texts = []
    for *of, number in zip(*values, n, strict=True):
        low, middle, high = (figure_text(value, unit) for value in of)
        quartiles = f" [{low}, {high}] of {number}" if number > 1 else ""
        texts.append(f"{middle} {unit}".rstrip() + quartiles)
    traces = [line(look, x, values[1], text=texts, hovertemplate="%{text}", **more)]
    if (n > 1).any():
        most = np.max(values, where=np.isfinite(values), initial=-np.inf)
        traces.insert(0, band(look, x, values[0], np.minimum(values[2], most)))
    return traces


def marks(
    look: CurveStyle, x: Places, y: ArrayLike, texts: Sequence[str], **more: object
) -> Figure:
    """A mark for each point, named in the hover text."""
    return {
        **line(look, x, np.asarray(y)),
        "mode": "markers",
        "text": texts,
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"symbol": look.symbol, "size": 9, "color": look.color},
        **more,
    }


def mosaic(
    cells: Sequence[Axes],
    x_axis: Figure,
    height: int = 330,
    closest: bool = False,
    spans: Sequence[Figure] = (),
) -> Figure:
    """Cells side by side, two a row or three in one, under one legend.

    height : of one cell, pixels. closest : whether the hover text is that of the nearest point, not
    of all curves. spans : ends x0 and x1 of what is marked along every horizontal axis.
    """
    columns = 3 if len(cells) == 3 else min(2, len(cells))
    rows = -(-len(cells) // columns)
    data = []
    listed = set[str]()
    layout = {
        **STYLE["layout"],
        "annotations": [],
        "shapes": [],
        "hovermode": "closest" if closest else "x unified",
    }
    for k, cell in enumerate(cells):
        tail = str(k + 1) if k else ""
        layout[f"xaxis{tail}"] = (
            STYLE["axis"] | x_axis | {"title": {"text": cell.x_title or x_axis.get("title", "")}}
        )
        layout[f"yaxis{tail}"] = STYLE["axis"] | {"title": {"text": cell.y_title}} | _scale(cell)
        for trace in cell.traces:  # the legend has each name once
            shown = trace.get("showlegend", True) and trace["name"] not in listed
            if shown:
                listed.add(trace["name"])
            data.append({**trace, "xaxis": f"x{tail}", "yaxis": f"y{tail}", "showlegend": shown})
        inside = {"xref": f"x{tail} domain", "yref": f"y{tail} domain"}
        if cell.title:
            layout["annotations"].append(
                {"text": f"<b>{plain(cell.title)}</b>", **inside, **STYLE["heading"]}
            )
        layout["shapes"] += [inside | {"xref": f"x{tail}"} | STYLE["span"] | span for span in spans]
    for span in layout["shapes"][:1]:
        span["showlegend"] = True
        listed |= {span["name"]}
    above = 28 if cells[0].title else 6
    gap = 100  # pixels: cell titles stand between legend and axes
    head = 34 + above + 26 * (sum(7 * len(name) + 50 for name in listed) // 900)
    inner = height * rows + gap * (rows - 1)
    layout["grid"] = {"rows": rows, "columns": columns, "pattern": "independent", "xgap": 0.18}
    layout["grid"]["ygap"] = round(gap / (height + gap), 4)
    layout |= {"height": inner + head + 60, "margin": {"l": 70, "r": 25, "t": head, "b": 60}}
    layout["legend"] = STYLE["legend"] | {"y": 1 + above / inner}
    return {"data": data, "layout": layout}


def _scale(cell: Axes) -> Figure:
    """How a vertical axis counts, and whether it shows 0; of few decades also 2 and 5 have
    ticks.
    """
    values = [y for trace in cell.traces for y in trace["y"] if y is not None and y > 0]
    if cell.log and wide(values):
        first = np.floor(np.log10(min(values)))
        last = np.ceil(np.log10(max(values)))
        return {
            "type": "log",
            "dtick": "D2" if last - first <= 3 else 1,
            "range": [first - 0.03, last + 0.03],
        }
    if cell.percent:
        return {"range": [0, 103]}
    return {} if cell.near else {"rangemode": "tozero"}


def wide(values: Iterable[float | None]) -> bool:
    """Whether values span so much that only a logarithmic axis shows them all."""
    positive = [value for value in values if value is not None and value > 0]
    return len(positive) > 0 and max(positive) > WIDE_RANGE * min(positive)

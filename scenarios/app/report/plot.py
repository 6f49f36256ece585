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
from math import inf

import numpy as np
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from netsim.units import Arrays, FloatArray, IntArray
from scenarios.app.results.outcome import Cell, Mark, Outcome, OutcomeTable, to_mark
from scenarios.app.results.statistics import Interval, format_figure
from scenarios.app.study import Fields, Record

ASSETS = files("scenarios.app.report") / "assets"
PLOTLY = "plotly-cartesian-4.1.1.min.js.gz"
"""the part of plotly.js (MIT) for figures with two axes, as its makers publish it, compressed"""
GENERATOR = '<meta name="generator" content="netsim">'
"""by this line a page is known to be ours"""


@dataclass(frozen=True)
class Chapter:
    """A heading that the contents of the page list, and what stands under it: blocks and figures.

    data : id -> text of `pack_to_base64`, for scripts of the page. Without anything under it a
    chapter is left out.
    """

    key: str
    title: str
    parts: Sequence[str | Panel]
    data: Mapping[str, str] = field(default_factory=dict)

    @property
    def panels(self) -> list[Panel]:
        """The figures that can be drawn."""
        return [p for p in self.parts if isinstance(p, Panel) and p.figure is not None]


def render_table(
    title: str, head: Sequence[str] | Sequence[Mark], rows: Iterable[Sequence[Cell]], key: str = ""
) -> Markup:
    """Render a table that sorts by a click on its heads; nothing without rows.

    With a key it also has a filter. Columns without a number are words.
    """
    return render_block("table", title, head, rows, key)


def render_outcome_table(outcome_table: OutcomeTable) -> Markup:
    """Render a table of an outcome without its empty columns, and its notes.

    The foot stands in sentences, as a table is sorted.
    """
    return render_block("outcome_table", outcome_table)


def render_outcome(
    outcome: Outcome,
    chapters: Sequence[Chapter],
    below: Iterable[str],
    says: Sequence[str] = (),
    n_tables: int | None = None,
) -> str:
    """Render a page whose first section says an outcome; the same input gives the same bytes.

    below : small print, besides what the outcome stands on. says : sentences below its tables, of
    which it has the first n_tables (None: all).
    """
    figures = {panel.key: panel.figure for chapter in chapters for panel in chapter.panels}
    data = {key: text for chapter in chapters for key, text in chapter.data.items()}
    if figures:
        data["plotly"] = base64.b64encode((ASSETS / PLOTLY).read_bytes()).decode("ascii")
    text = render_template(
        "page.html",
        outcome=outcome,
        tables=outcome.tables[:n_tables],
        below=[text for text in (*below, outcome.scope) if text],
        says=says,
        chapters=chapters,
        figures=figures,
        data=data,
        generator=GENERATOR,
    )
    used = set(re.findall(r'href="#(term-\d+)"', text))
    return re.sub(
        r'<div><dt>[^<]*</dt><dd id="(term-\d+)">[^<]*</dd></div>',
        lambda match: match[0] * (match[1] in used),
        text,
    )


def render_block(name: str, *values: object) -> Markup:
    """Render HTML of a macro of `blocks.html`: facts(pairs), folded(title, text) and others."""
    return Markup(getattr(TEMPLATES.get_template("blocks.html").module, name)(*values))  # noqa: S704, it escapes


def build_configuration(facts: Record, *blocks: Markup) -> Chapter:
    """Build the last chapter: settings, and what else belongs to them."""
    return Chapter("configuration", "Configuration", [render_block("facts", facts), *blocks])


def render_template(name: str, **context: object) -> Markup:
    """Render HTML of a template of ours."""
    return Markup(TEMPLATES.get_template(name).render(context))  # noqa: S704, it escapes


@cache
def _read_asset(name: str) -> Markup:
    """Read a text of ours that goes into the page as it is."""
    return Markup((ASSETS / name).read_text(encoding="utf-8"))  # noqa: S704, a file of ours


def _mark_ranges(cell: str) -> Markup:
    """Mark figures; their quartiles may stand below them but are not broken."""
    return Markup(  # noqa: S704
        re.sub(r" \[([^\[\]]*)\]", r' <span class="range">[\1]</span>', str(escape(cell)))
    )


def _split_sentence(text: str) -> list[str]:
    """Split the first sentence, and the rest; a full stop ends a sentence where a capital or
    nothing follows.
    """
    return [*re.split(r"(?<=[.])\s+(?=[A-Z])", text.strip(), maxsplit=1), ""][:2]


TERMS: dict[str, str] = tomllib.loads((ASSETS / "terms.toml").read_text(encoding="utf-8"))
"""word -> its meaning"""
_WORDS = re.compile(rf"\b(?:({')|('.join(TERMS)}))s?\b", re.IGNORECASE)


def _link_terms(text: str) -> Markup:
    """Link words of TERMS in a text to their meanings, which the page shows beside them."""

    def link(match: re.Match[str]) -> str:
        target = f"term-{match.lastindex}"
        return f'<a class="term" href="#{target}" aria-describedby="{target}">{match[0]}</a>'

    return Markup(_WORDS.sub(link, str(escape(text))))  # noqa: S704, escaped


TEMPLATES = Environment(
    loader=PackageLoader("scenarios.app.report", "assets"), autoescape=select_autoescape()
)
TEMPLATES.filters |= {
    "asset": _read_asset,
    "mark": to_mark,
    "ranged": _mark_ranges,
    "sentences": _split_sentence,
    "explained": _link_terms,
}
TEMPLATES.globals["terms"] = TERMS
TEMPLATES.policies["json.dumps_kwargs"] = {"sort_keys": True, "allow_nan": False}
ALIGNED = 8  # bytes, as the browser's typed arrays want it


def pack_to_base64(meta: Record, arrays: Arrays) -> str:
    """Pack a header of JSON, then the arrays, flat and little-endian: `netsim.unpacked(id)` in the
    page gives both back.

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


def read_styles(curves: str) -> dict[str, CurveStyle]:
    """Read the looks of curves that are the same on every page, by key."""
    return {key: CurveStyle(**look) for key, look in STYLE["curves"][curves].items()}


def assign_styles(names: Iterable[str]) -> list[CurveStyle]:
    """Assign a look for each name; from the seventh name on colours repeat with other dashes and
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


def escape_plotly(text: object) -> str:
    """Escape text for plotly, which takes `<b>` and the like in names and hover for mark-up, and
    names as keys of objects: `__proto__` is none, so its first character is written as an entity.
    """
    escaped = html.escape(str(text), quote=False)
    return "&#95;_proto__" if escaped == "__proto__" else escaped


def to_json_numbers(values: ArrayLike) -> list[float | None]:
    """Round to six significant digits; None for what is not finite."""
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def draw_curve(look: CurveStyle, x: Places, y: FloatArray, **changes: object) -> Figure:
    """Draw a curve; NaN interrupts it."""
    name = escape_plotly(look.name)
    return {
        "type": "scatter",
        "x": list(x),
        "y": to_json_numbers(y),
        "name": name,
        "legendgroup": name,
        "mode": "lines+markers" if len(x) <= FEW else "lines",
        "line": {"color": look.color, "width": 2, "dash": look.dash},
        "marker": {"symbol": look.symbol, "size": 7},
        "hovertemplate": "%{y:,.3~r}",
        **changes,
    }


def draw_band_between(look: CurveStyle, x: Places, low: FloatArray, high: FloatArray) -> Figure:
    """Draw the area between two curves; where a bound is missing it is interrupted."""
    xs: list[object] = []
    ys: list[float | None] = []
    indices = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    for piece in np.split(indices, np.flatnonzero(np.diff(indices) > 1) + 1):
        back = piece[::-1]
        xs += [*(x[i] for i in (*piece, *back)), None]
        ys += [*to_json_numbers(low[piece]), *to_json_numbers(high[back]), None]
    return {
        **draw_curve(look, xs, np.zeros(0)),
        "y": ys,
        "fill": "toself",
        "mode": "lines",
        "line": {"width": 0},
        "fillcolor": f"{look.color}29",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def draw_median_spread(
    look: CurveStyle, x: Places, values: Interval, n: IntArray, unit: str, **changes: object
) -> list[Figure]:
    """Draw a median, with its quartiles as band and in the hover text.

    Wherever n > 1 values stand behind it. A band up to infinity is cut off at the largest finite
    value.
    """
    texts = []
    for *quartiles, number in zip(*values, n, strict=True):
        first, second, third = (format_figure(value, unit) for value in quartiles)
        text = f"{second} {unit}".rstrip()
        if number > 1:
            text += f" [{first}, {third}] of {number}"
        texts.append(text)
    low, median, high = values
    traces = [draw_curve(look, x, median, text=texts, hovertemplate="%{text}", **changes)]
    if (n > 1).any():
        largest = np.max(values, where=np.isfinite(values), initial=-inf)
        traces.insert(0, draw_band_between(look, x, low, np.minimum(high, largest)))
    return traces


def draw_point_marks(
    look: CurveStyle, x: Places, y: ArrayLike, texts: Sequence[str], **changes: object
) -> Figure:
    """Draw a mark for each point, named in the hover text."""
    return {
        **draw_curve(look, x, np.asarray(y)),
        "mode": "markers",
        "text": texts,
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"symbol": look.symbol, "size": 9, "color": look.color},
        **changes,
    }


def lay_out_axes(
    cells: Sequence[Axes],
    x_axis: Figure,
    height: int = 330,
    closest: bool = False,
    spans: Sequence[Figure] = (),
) -> Figure:
    """Lay cells out side by side, two a row or three in one, under one legend.

    height : of one cell, pixels. closest : whether the hover text is that of the nearest point, not
    of all curves. spans : ends x0 and x1 of what is marked along every horizontal axis.
    """
    columns = 3 if len(cells) == 3 else min(2, len(cells))
    rows = -(-len(cells) // columns)
    data = []
    annotations = []
    shapes = []
    listed = set[str]()
    layout = {**STYLE["layout"], "hovermode": "closest" if closest else "x unified"}
    for k, cell in enumerate(cells):
        tail = str(k + 1) if k else ""
        x = f"x{tail}"
        y = f"y{tail}"
        x_title = {"title": {"text": cell.x_title or x_axis.get("title", "")}}
        layout[f"xaxis{tail}"] = STYLE["axis"] | x_axis | x_title
        layout[f"yaxis{tail}"] = (
            STYLE["axis"] | {"title": {"text": cell.y_title}} | _choose_scale(cell)
        )
        for trace in cell.traces:  # the legend has each name once
            shown = trace.get("showlegend", True) and trace["name"] not in listed
            if shown:
                listed.add(trace["name"])
            data.append({**trace, "xaxis": x, "yaxis": y, "showlegend": shown})
        inside = {"xref": f"{x} domain", "yref": f"{y} domain"}
        if cell.title:
            annotations.append(
                {"text": f"<b>{escape_plotly(cell.title)}</b>", **inside, **STYLE["heading"]}
            )
        shapes += [inside | {"xref": x} | STYLE["span"] | span for span in spans]
    if shapes:
        shapes[0]["showlegend"] = True
        listed.add(shapes[0]["name"])
    above = 28 if cells[0].title else 6
    gap = 100  # pixels: cell titles stand between legend and axes
    n_legend = sum(7 * len(name) + 50 for name in listed) // 900
    head = 34 + above + 26 * n_legend
    inner = height * rows + gap * (rows - 1)
    layout |= {
        "annotations": annotations,
        "shapes": shapes,
        "grid": {
            "rows": rows,
            "columns": columns,
            "pattern": "independent",
            "xgap": 0.18,
            "ygap": round(gap / (height + gap), 4),
        },
        "height": inner + head + 60,
        "margin": {"l": 70, "r": 25, "t": head, "b": 60},
        "legend": STYLE["legend"] | {"y": 1 + above / inner},
    }
    return {"data": data, "layout": layout}


def _choose_scale(cell: Axes) -> Figure:
    """Choose how a vertical axis counts, and whether it shows 0.

    Of few decades also 2 and 5 have ticks.
    """
    values = [y for trace in cell.traces for y in trace["y"] if y is not None and y > 0]
    if cell.log and is_wide(values):
        first = np.floor(np.log10(min(values)))
        last = np.ceil(np.log10(max(values)))
        return {
            "type": "log",
            "dtick": "D2" if last - first <= 3 else 1,
            "range": [first - 0.03, last + 0.03],
        }
    if cell.percent:
        return {"range": [0, 103]}
    if cell.near:
        return {}
    return {"rangemode": "tozero"}


def is_wide(values: Iterable[float | None]) -> bool:
    """Whether values span so much that only a logarithmic axis shows them all."""
    positive = [value for value in values if value is not None and value > 0]
    return bool(positive) and max(positive) > WIDE_RANGE * min(positive)

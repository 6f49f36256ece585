"""How a page is put together: HTML that works without a network, from the templates `page.html` and `blocks.html`.

Nothing here knows what a run is. Every text that comes in is plain; the templates escape it. How a page looks stands in
`assets/page.css`, what it does in `assets/page.js`.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import isnan
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from numpy.typing import NDArray

from scenarios.app.report.plot import Panel
from scenarios.app.results.statistics import figure_text

PLOTLY = "plotly-cartesian-4.1.1.min.js.gz"
"""the part of plotly.js (MIT) for figures with two axes, as its makers publish it, compressed"""
GENERATOR = '<meta name="generator" content="netsim">'
"""by this line a page is known to be ours"""


@dataclass(frozen=True)
class Chapter:
    """A heading that the contents of the page list, and what stands under it: HTML of this module, and figures.

    Without anything under it a chapter is left out, and a figure that could not be drawn as well.
    """

    key: str
    title: str
    parts: Sequence[str | Panel]

    @property
    def panels(self) -> list[Panel]:
        """The figures that can be drawn."""
        return [p for p in self.parts if isinstance(p, Panel) and p.figure is not None]


@dataclass(frozen=True)
class Link:
    """A cell that leads to a file beside the page; target: a relative path of ours."""

    text: str
    target: str


@dataclass(frozen=True)
class Mark:
    """A cell that sorts by a value (NaN: last), or whose meaning shows in its look as well as in its words.

    kind : class in the style sheet.
    """

    text: str
    value: float | None = None
    kind: str = ""
    links: Sequence[Link] = ()

    @property
    def sorts(self) -> str | None:
        """The value for the script that sorts; empty for NaN."""
        if self.value is None:
            return None
        return "" if isnan(self.value) else f"{self.value:.9g}".replace("inf", "Infinity")


Cell = str | float | Link | Mark | Sequence[Link]
"""what stands in a cell of a table: words, a number, or one or several links"""


def _mark(of: Cell) -> Mark:
    if isinstance(of, float | int):
        return Mark(figure_text(of), of)
    if isinstance(of, Mark | str):
        return of if isinstance(of, Mark) else Mark(of)
    return Mark("", links=[of] if isinstance(of, Link) else of)


def headings(title: str, below: str) -> str:
    """The page's title, and a line in small print."""
    return _block("headings", title, below)


def answers(lines: Iterable[tuple[str, str]]) -> str:
    """The answer at a glance: what is asked, in a word or two, and a sentence that answers."""
    return _block("answers", list(lines))


def paragraphs(texts: Iterable[str], kind: str) -> str:
    """A list of sentences; kind: class in the style sheet."""
    return _block("paragraphs", list(texts), kind)


def facts(pairs: Mapping[str, str]) -> str:
    """Names and what they are."""
    return _block("facts", pairs)


def folded(title: str, text: str) -> str:
    """Text as it was written, which opens on a click."""
    return _block("folded", title, text)


def folded_parts(title: str, parts: str) -> str:
    """HTML of this module, which opens on a click."""
    return _block("folded_parts", title, parts)


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[Cell]], key: str = "") -> str:
    """A table that sorts by a click on its heads, empty without rows; with a key it also has a filter.

    Columns without a number are words.
    """
    marks = [[_mark(cell) for cell in row] for row in rows]
    words = [k for k, column in enumerate(zip(*marks, strict=True)) if all(mark.sorts is None for mark in column)]
    return _block("table", title, head, marks, key, words) if marks else ""


def page(
    title: str,
    top: str,
    chapters: Iterable[Chapter],
    data: Mapping[str, str] | None = None,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
) -> str:
    """The whole file; the same input gives the same bytes.

    top : HTML of the first section, which answers. data : id -> text of `packed`. scripts, styles : names of more
    assets, after those that every page has.
    """
    every = list(chapters)
    shown = [c for c in every if any(not isinstance(p, Panel) and p for p in c.parts) or c.panels]
    drawn = {p.key: p.figure for c in shown for p in c.panels}
    plotly = {"plotly": _plotly()} if drawn else {}
    missing = [p for c in every for p in c.parts if isinstance(p, Panel) and p.figure is None]
    return _templates().get_template("page.html").render(
        title=title, top=top, chapters=shown, undrawn=[f"{p.title}: {p.caption}" for p in missing],
        # `<` must not end the script element, whatever a name says
        figures=json.dumps(drawn, sort_keys=True, allow_nan=False).replace("<", "\\u003c"),
        blobs={**(data or {}), **plotly}, generator=GENERATOR,
        scripts=["page.js", *scripts], styles=["page.css", *styles],
    )  # fmt: skip


@cache
def asset(name: str) -> str:
    """A text of ours that goes into the page."""
    return Markup((files("scenarios.app.report") / "assets" / name).read_text(encoding="utf-8"))  # noqa: S704, a file of ours


@cache
def _plotly() -> str:
    """The plotting library as base64 of gzip."""
    return base64.b64encode((files("scenarios.app.report") / "assets" / PLOTLY).read_bytes()).decode("ascii")


@cache
def _templates() -> Environment:
    """The templates; what is not marked as ours is escaped."""
    found = Environment(loader=PackageLoader("scenarios.app.report", "assets"), autoescape=True)
    found.filters |= {"html": Markup, "asset": asset, "ranged": _ranged, "sentences": _sentences}
    return found


def _block(name: str, *of: object) -> str:
    """A block of `blocks.html`."""
    return str(getattr(_templates().get_template("blocks.html").module, name)(*of))


def _ranged(cell: str) -> str:
    """Figures; their quartiles, where there are any, may stand below them but are not broken."""
    return Markup(re.sub(r" \[([^\[\]]*)\]", r' <span class="range">[\1]</span>', str(escape(cell))))  # noqa: S704, escaped


def _sentences(text: str) -> tuple[str, str]:
    """The first sentence, and the rest; a full stop ends a sentence where a capital or nothing follows."""
    found = re.match(r"(.+?[.])\s+(?=[A-Z])(.+)", text.strip(), flags=re.DOTALL)
    return (found[1], found[2]) if found else (text.strip(), "")


_ALIGNED = 8  # bytes, as the browser's typed arrays want it


def packed(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """A header of JSON, then the arrays, flat and little-endian: `netsim.unpacked(id)` in the page gives both back.

    arrays : integers of 1, 2 or 4 bytes, or floats of 4 or 8. Raises ValueError for others, and for NaN in `meta`.
    """
    pieces, listed, at = [], [], 0
    for name, values in arrays.items():
        kind, size = values.dtype.kind, values.dtype.itemsize
        if (kind, size) not in {
            (k, n) for k, sizes in (("i", (1, 2, 4)), ("u", (1, 2, 4)), ("f", (4, 8))) for n in sizes
        }:
            raise ValueError(f"{name}: an array of {values.dtype} cannot be packed")
        data = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
        listed.append({"name": name, "type": f"{kind}{size}", "size": int(values.size), "at": at})
        pieces.append(data + bytes(-len(data) % _ALIGNED))
        at += len(pieces[-1])
    head = _head(meta, listed)
    return in_base64(len(head).to_bytes(4, "little") + head + b"".join(pieces))


def _head(meta: Mapping[str, Any], listed: list[dict[str, Any]]) -> bytes:
    """The header, as long as its own offsets say: where arrays begin depends on its length."""
    length = 0
    while True:
        first = -(-(4 + length) // _ALIGNED) * _ALIGNED
        text = json.dumps(
            {"meta": meta, "arrays": [{**a, "at": a["at"] + first} for a in listed]}, allow_nan=False, sort_keys=True
        ).encode()
        if len(text) <= length:
            return text + b" " * (first - 4 - len(text))
        length = len(text)


def in_base64(data: bytes) -> str:
    """Bytes, compressed; the same bytes give the same text."""
    return base64.b64encode(gzip.compress(data, compresslevel=9, mtime=0)).decode("ascii")

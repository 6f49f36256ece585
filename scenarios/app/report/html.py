"""How a page is put together: HTML that works without a network, from the templates in `assets`.

Nothing here knows what a run is. Every text that comes in is plain; the templates escape it. How a page looks stands in
`assets/page.css`, what it does in `assets/page.js`.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from math import isnan
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from numpy.typing import NDArray

from scenarios.app.report.plot import Panel
from scenarios.app.results.statistics import figure_text
from scenarios.app.study import Record

ASSETS = files("scenarios.app.report") / "assets"
PLOTLY = "plotly-cartesian-4.1.1.min.js.gz"
"""the part of plotly.js (MIT) for figures with two axes, as its makers publish it, compressed"""
GENERATOR = '<meta name="generator" content="netsim">'
"""by this line a page is known to be ours"""


@dataclass(frozen=True)
class Chapter:
    """A heading that the contents of the page list, and what stands under it: blocks and figures.

    data : id -> text of `packed`, for scripts of the page. Without anything under it a chapter is left out.
    """

    key: str
    title: str
    parts: Sequence[str | Panel]
    data: Mapping[str, str] = field(default_factory=dict)

    @property
    def panels(self) -> list[Panel]:
        """The figures that can be drawn."""
        return [p for p in self.parts if isinstance(p, Panel) and p.figure is not None]


@dataclass(frozen=True)
class Mark:
    """A cell that sorts by a value (NaN: last), or whose meaning shows in its look as well as in its words.

    kind : class in the style sheet. links : texts, and the files beside the page to which they lead.
    """

    text: str = ""
    value: float | None = None
    kind: str = ""
    links: Sequence[tuple[str, str]] = ()

    @property
    def sorts(self) -> str | None:
        """The value for the script that sorts; empty for NaN."""
        if self.value is None:
            return None
        return "" if isnan(self.value) else f"{self.value:.9g}".replace("inf", "Infinity")


Cell = str | float | Mark
"""what stands in a cell of a table"""


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[Cell]], key: str = "") -> Markup:
    """A table that sorts by a click on its heads, empty without rows; with a key it also has a filter.

    Columns without a number are words.
    """
    marks = [[_mark(cell) for cell in row] for row in rows]
    words = [k for k, column in enumerate(zip(*marks, strict=True)) if all(mark.sorts is None for mark in column)]
    return block("table", title, head, marks, key, words) if marks else Markup()


def _mark(cell: Cell) -> Mark:
    if isinstance(cell, Mark):
        return cell
    return Mark(cell) if isinstance(cell, str) else Mark(figure_text(cell), cell)


def page(title: str, chapters: Iterable[Chapter], **top: Any) -> str:
    """The whole file; the same input gives the same bytes.

    top : what the first section has: below (small print), answers, warns, results, says, facts, folded.
    """
    every = list(chapters)
    panels = [p for c in every for p in c.parts if isinstance(p, Panel)]
    drawn = {p.key: p.figure for p in panels if p.figure is not None}
    data = {key: text for c in every for key, text in c.data.items()}
    if drawn:
        data["plotly"] = base64.b64encode((ASSETS / PLOTLY).read_bytes()).decode("ascii")
    shown = [c for c in every if c.panels or any(isinstance(p, str) and p for p in c.parts)]
    undrawn = [f"{p.title}: {p.caption}" for p in panels if p.figure is None]
    of = {"title": title, "chapters": shown, "undrawn": undrawn, "figures": drawn, "data": data, "top": top}
    return TEMPLATES.get_template("page.html").render(of, generator=GENERATOR)


def block(name: str, *of: Any) -> Markup:
    """HTML of a macro of `blocks.html`: facts(pairs), folded(title, text) and others."""
    return Markup(getattr(TEMPLATES.get_template("blocks.html").module, name)(*of))  # noqa: S704, it escapes


def rendered(name: str, **of: Any) -> Markup:
    """HTML of a template of ours."""
    return Markup(TEMPLATES.get_template(name).render(of))  # noqa: S704, it escapes


@cache
def _asset(name: str) -> Markup:
    """A text of ours that goes into the page as it is."""
    return Markup((ASSETS / name).read_text(encoding="utf-8"))  # noqa: S704, a file of ours


def _ranged(cell: str) -> Markup:
    """Figures; their quartiles, where there are any, may stand below them but are not broken."""
    return Markup(re.sub(r" \[([^\[\]]*)\]", r' <span class="range">[\1]</span>', str(escape(cell))))  # noqa: S704, escaped


def _sentences(text: str) -> tuple[str, str]:
    """The first sentence, and the rest; a full stop ends a sentence where a capital or nothing follows."""
    found = re.match(r"(.+?[.])\s+(?=[A-Z])(.+)", text.strip(), flags=re.DOTALL)
    return (found[1], found[2]) if found else (text.strip(), "")


TEMPLATES = Environment(loader=PackageLoader("scenarios.app.report", "assets"), autoescape=True)
TEMPLATES.filters |= {"asset": _asset, "ranged": _ranged, "sentences": _sentences}
TEMPLATES.policies["json.dumps_kwargs"] = {"sort_keys": True, "allow_nan": False}
ALIGNED = 8  # bytes, as the browser's typed arrays want it
PACKED = {"i1", "i2", "i4", "u1", "u2", "u4", "f4", "f8"}  # types of arrays that the page reads


def packed(meta: Record, arrays: Mapping[str, NDArray[Any]]) -> str:
    """A header of JSON, then the arrays, flat and little-endian: `netsim.unpacked(id)` in the page gives both back.

    Raises ValueError for arrays that are not one of PACKED, and for NaN in `meta`.
    """
    body = b""
    listed = []
    for name, values in arrays.items():
        kind = values.dtype.str[1:]
        if kind not in PACKED:
            raise ValueError(f"{name}: an array of {values.dtype} cannot be packed")
        listed.append({"name": name, "type": kind, "size": values.size, "at": len(body)})
        data = values.astype(f"<{kind}").tobytes()
        body += data + bytes(-len(data) % ALIGNED)
    head = json.dumps({"meta": meta, "arrays": listed}, allow_nan=False, sort_keys=True).encode()
    head += b" " * (-(4 + len(head)) % ALIGNED)
    whole = gzip.compress(len(head).to_bytes(4, "little") + head + body, compresslevel=9, mtime=0)
    return base64.b64encode(whole).decode("ascii")

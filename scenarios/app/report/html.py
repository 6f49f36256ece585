"""How a page is put together: HTML that works without a network.

Nothing here knows what a run is. Every text that comes in is plain; it is escaped here. How a page looks stands in
`assets/page.css`, what it does in `assets/page.js`.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import isnan
from urllib.parse import quote

from scenarios.app.report.plot import Panel

PLOTLY = "plotly-cartesian-4.1.1.min.js.gz"
"""the part of plotly.js (MIT) for figures with two axes, as its makers publish it, compressed"""
MOST_NAMES = 5  # columns of figures that a laptop has room for


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


def headings(title: str, below: str) -> str:
    """The page's title, and a line in small print."""
    return f"<h1>{html.escape(title)}</h1>" + (f'<p class="below">{html.escape(below)}</p>' if below else "")


def answers(lines: Iterable[tuple[str, str]]) -> str:
    """The answer at a glance: what is asked, in a word or two, and a sentence that answers."""
    items = "".join(f"<li><b>{html.escape(asked)}</b>{html.escape(text)}</li>" for asked, text in lines)
    return f'<ol class="verdict">{items}</ol>' if items else ""


def paragraphs(texts: Iterable[str], kind: str) -> str:
    """A list of sentences; kind: class in the style sheet."""
    items = "".join(f"<li>{html.escape(t)}</li>" for t in texts)
    return f'<ul class="{kind}">{items}</ul>' if items else ""


def facts(pairs: Mapping[str, str]) -> str:
    """Names and what they are."""
    cells = "".join(f"<div><dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd></div>" for k, v in pairs.items())
    return f"<dl>{cells}</dl>"


def folded(title: str, text: str) -> str:
    """Text as it was written, which opens on a click."""
    return folded_parts(title, f"<pre>{html.escape(text)}</pre>")


def folded_parts(title: str, parts: str) -> str:
    """HTML of this module, which opens on a click."""
    return f"<details><summary>{html.escape(title)}</summary>{parts}</details>" if parts else ""


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


Cell = str | Link | Mark | Sequence[Link]
"""what stands in a cell of a table: a figure or words, or one or several links"""


def _cell(of: Cell, is_text: bool) -> str:
    if isinstance(of, Mark):
        return f"<td{_classes(is_text, of.kind)}{_sorted_by(of.value)}>{_figure(of.text)}</td>"
    if isinstance(of, str):
        return f"<td{_classes(is_text)}>{_figure(of)}</td>"
    links = [of] if isinstance(of, Link) else of
    return f"<td{_classes(is_text)}>{' '.join(map(_link, links))}</td>"


def _sorted_by(value: float | None) -> str:
    """The value of a cell for the script that sorts; empty for NaN."""
    if value is None:
        return ""
    text = "" if isnan(value) else f"{value:.9g}".replace("inf", "Infinity")
    return f' data-value="{text}"'


def _link(of: Link) -> str:
    return f'<a href="{html.escape(quote(of.target), quote=True)}">{html.escape(of.text)}</a>'


def figure(panel: Panel) -> str:
    """A figure with its title, how to read it, and buttons that save it.

    Of a caption of several sentences the first is shown, and the others open on a click.
    """
    key, title, caption = (html.escape(t, quote=True) for t in (panel.key, panel.title, panel.caption))
    first, more = _first_sentence(panel.caption)
    says = html.escape(first) + (f"<details><summary>more</summary>{html.escape(more)}</details>" if more else "")
    formats = (("reset", "whole range"), ("svg", "SVG"), ("png", "PNG"), ("csv", "CSV"))
    buttons = "".join(
        f'<button type="button" data-save="{what}" data-of="{key}" aria-label="{word}: {title}">{word}</button>'
        for what, word in formats
    )
    return (
        f'<figure id="{key}"><header><h3>{title}</h3><div class="save">{buttons}</div></header>'
        f"<figcaption>{says}</figcaption>"
        f'<div class="plot" id="plot-{key}" data-figure="{key}" role="img" aria-label="{title}. {caption}"></div>'
        "</figure>"
    )


def _first_sentence(text: str) -> tuple[str, str]:
    """What says most, and the rest; a full stop ends a sentence where a capital or nothing follows."""
    found = re.match(r"(.+?[.])\s+(?=[A-Z])(.+)", text.strip(), flags=re.DOTALL)
    return (found[1], found[2]) if found else (text.strip(), "")


def card(title: str, rows: list[tuple[str, str]], left_out: str) -> str:
    """Aspects and how they are modelled, and below them what is left out."""
    if not rows and not left_out:
        return ""
    pairs = dict(rows) | ({"not modelled": left_out} if left_out else {})
    return f"<h3>{html.escape(title)}</h3>{facts(pairs)}"


def table(
    title: str,
    head: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    key: str = "",
    texts: Sequence[int] = (0, -1),
) -> str:
    """A table that sorts by a click on its heads; with a key it also has a filter.

    texts : columns of words; the others hold figures.
    """
    rows = [list(row) for row in rows]
    words = {i % len(head) for i in texts}
    top = "".join(f'<th scope="col"{_classes(i in words)}>{html.escape(h)}</th>' for i, h in enumerate(head))
    body = "".join("<tr>" + "".join(_cell(c, i in words) for i, c in enumerate(row)) + "</tr>" for row in rows)
    name = html.escape(key, quote=True)
    above = _filter(name, title, len(rows)) if key else f"<h3>{html.escape(title)}</h3>"
    named = f' id="{name}"' if key else ""
    return (
        f'{above}<div class="wide"><table class="sortable"{named}><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _filter(key: str, title: str, n: int) -> str:
    return (
        f'<div class="filter"><h3>{html.escape(title)}</h3>'
        f'<label>filter <input type="search" data-filter="{key}"></label>'
        f'<span id="{key}-rows" role="status">{n} rows</span></div>'
    )


def _classes(is_text: bool, kind: str = "") -> str:
    names = [*(["text"] if is_text else []), *([kind] if kind else [])]
    return f' class="{" ".join(names)}"' if names else ""


def keyed_table(title: str, names: Sequence[str], rows: Iterable[tuple[str, str, Sequence[str]]]) -> str:
    """Keys with what they say, and a column for each name; opens on a click.

    Of many names a few stand in a table, so that all are seen.
    """
    rows = list(rows)
    pieces = -(-len(names) // MOST_NAMES) or 1
    size = -(-len(names) // pieces)
    parts = list[str]()
    for first in range(0, max(len(names), 1), max(size, 1)):
        there = slice(first, first + size)
        top = "".join(f'<th scope="col">{html.escape(n)}</th>' for n in ["key", *names[there]])
        body = "".join(
            f"<tr><td><code>{html.escape(key)}</code><small>{html.escape(says)}</small></td>"
            + "".join(f"<td>{_figure(cell)}</td>" for cell in cells[there])
            + "</tr>"
            for key, says, cells in rows
        )
        parts.append(
            f'<div class="wide"><table class="keyed"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
        )
    return f"<details><summary>{html.escape(title)}</summary>{''.join(parts)}</details>"


def _figure(cell: str) -> str:
    """Figures; their quartiles, where there are any, may stand below them but are not broken."""
    return re.sub(r" \[([^\[\]]*)\]", r' <span class="range">[\1]</span>', html.escape(cell))


GENERATOR = '<meta name="generator" content="netsim">'
"""by this line a page is known to be ours"""


@cache
def asset(name: str) -> str:
    """A text of ours that goes into the page."""
    return (files("scenarios.app.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    """The plotting library as base64 of gzip."""
    return base64.b64encode((files("scenarios.app.report") / "assets" / PLOTLY).read_bytes()).decode("ascii")


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
    # `<` must not end the script element, whatever a name says
    figures = json.dumps(drawn, sort_keys=True, allow_nan=False).replace("<", "\\u003c")
    blobs = dict(data or {}) | ({"plotly": _plotly()} if drawn else {})
    listed = "".join(f'<li><a href="#{html.escape(c.key)}">{html.escape(c.title)}</a></li>' for c in shown)
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
{GENERATOR}
<title>{html.escape(title)}</title>
<style>{chr(10).join(asset(name) for name in ("page.css", *styles))}</style>
</head>
<body>
<a class="skip" href="#answer">skip to the answer</a>
<header class="bar"><strong>netsim</strong><nav aria-label="contents" tabindex="0"><ol>{listed}</ol></nav>
<button type="button" id="theme" aria-pressed="false">dark</button></header>
<main>
<section id="answer">{top}</section>
{chr(10).join(map(_section, shown))}
{_not_drawn([p for c in every for p in c.parts if isinstance(p, Panel) and p.figure is None])}
<noscript><p>Figures and the map need JavaScript; texts and tables do not.</p></noscript>
</main>
<script type="application/json" id="drawn">{figures}</script>
{chr(10).join(f'<script type="text/plain" id="{html.escape(k)}">{v}</script>' for k, v in blobs.items())}
<script>{chr(10).join(asset(name) for name in ("page.js", *scripts))}</script>
</body>
</html>
"""


def _not_drawn(panels: Sequence[Panel]) -> str:
    """Why figures are missing, in one place at the end."""
    if not panels:
        return ""
    why = paragraphs([f"{p.title}: {p.caption}" for p in panels], "says")
    return f"<section><details><summary>Figures that are not drawn, and why</summary>{why}</details></section>"


def _section(chapter: Chapter) -> str:
    parts = "".join(figure(p) if isinstance(p, Panel) else p for p in chapter.parts if isinstance(p, str) or p.figure)
    return f'<section id="{html.escape(chapter.key)}"><h2>{html.escape(chapter.title)}</h2>{parts}</section>'

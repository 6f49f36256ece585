"""How a page looks: HTML that works without a network.

Nothing here knows what a run is. Every text that comes in is plain; it is escaped here.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence

from plotly.offline import get_plotlyjs

from scenarios.app.report.plot import Panel

MOST_NAMES = 5  # columns of figures that a laptop has room for


def section(panel: Panel) -> str:
    """A figure with its title above and how to read it below."""
    title, caption = html.escape(panel.title), html.escape(panel.caption)
    if panel.figure is None:
        return f"<section><h2>{title}</h2><p>{caption}</p></section>"
    holder = f'<div class="figure" id="{html.escape(panel.key)}"></div>'
    return f'<section class="drawn"><h2>{title}</h2>{holder}<p>{caption}</p></section>'


def headings(title: str, below: str) -> str:
    """The page's title, and a line in small print."""
    return f"<h1>{html.escape(title)}</h1>" + (f"<p>{html.escape(below)}</p>" if below else "")


def paragraphs(texts: Iterable[str], kind: str) -> str:
    """A list of sentences; kind: class in the style sheet."""
    items = "".join(f"<li>{html.escape(t)}</li>" for t in texts)
    return f'<ul class="{kind}">{items}</ul>' if items else ""


def facts(pairs: Mapping[str, str]) -> str:
    """Names and what they are."""
    cells = "".join(f"<div><dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd></div>" for k, v in pairs.items())
    return f"<dl>{cells}</dl>"


def card(title: str, rows: list[tuple[str, str]], left_out: str) -> str:
    """A compact table, two aspects a row, and below it what is left out."""
    if not rows and not left_out:
        return f"<h2>{html.escape(title)}</h2><p>This run recorded none.</p>"
    half = (len(rows) + 1) // 2
    pairs = [rows[i : i + 1] + rows[half + i : half + i + 1] for i in range(half)]
    lines = ["".join(f"<th>{html.escape(k)}</th><td>{html.escape(v)}</td>" for k, v in pair) for pair in pairs]
    if left_out:
        lines.append(f'<th class="out">not modelled</th><td class="out" colspan="3">{html.escape(left_out)}</td>')
    body = "".join(f"<tr>{one}</tr>" for one in lines)
    return f'<h2>{html.escape(title)}</h2><div class="wide"><table class="card">{body}</table></div>'


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table: the first column holds keys, the last one words, those between figures."""
    top = "".join(f"<th>{html.escape(h)}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f'<section><h2>{html.escape(title)}</h2><div class="wide"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></section>"
    )


def keyed_table(title: str, names: Sequence[str], rows: Iterable[tuple[str, str, Sequence[str]]]) -> str:
    """Keys with what they say, and a column for each name; of many names a few at a time, so that all are seen."""
    rows = list(rows)
    pieces = -(-len(names) // MOST_NAMES) or 1
    size = -(-len(names) // pieces)
    parts = [f"<h2>{html.escape(title)}</h2>"]
    for first in range(0, max(len(names), 1), max(size, 1)):
        there = slice(first, first + size)
        top = "".join(f"<th>{html.escape(n)}</th>" for n in ["key", *names[there]])
        body = "".join(
            f"<tr><td><code>{html.escape(key)}</code><small>{html.escape(says)}</small></td>"
            + "".join(f"<td>{_figure(cell)}</td>" for cell in cells[there])
            + "</tr>"
            for key, says, cells in rows
        )
        parts.append(
            f'<div class="wide"><table class="keyed"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
        )
    return f"<section>{''.join(parts)}</section>"


def _figure(cell: str) -> str:
    """A figure; its quartiles, where there are any, may stand below it but are not broken."""
    value, bracket, rest = cell.partition(" [")
    low_high, end, few = rest.partition("]")
    return html.escape(value) + (
        f" <span>[{html.escape(low_high)}]</span>{html.escape(few)}" if bracket and end else ""
    )


GENERATOR = '<meta name="generator" content="netsim">'
"""by this line a page is known to be ours"""


def page(title: str, header: str, body: Iterable[str], panels: Iterable[Panel]) -> str:
    """The whole file, plotly included; the same input gives the same bytes."""
    drawn = {p.key: p.figure for p in panels if p.figure is not None}
    # `<` must not end the script element, whatever a name says
    data = json.dumps(drawn, sort_keys=True, allow_nan=False).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
{GENERATOR}
<title>{html.escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<header>{header}</header>
{chr(10).join(body)}
</main>
<noscript><p>The figures need JavaScript; the tables do not.</p></noscript>
<script type="application/json" id="drawn">{data}</script>
<script>{get_plotlyjs() if drawn else ""}</script>
<script>{_SCRIPT}</script>
</body>
</html>
"""


# Nothing leaves the page: plotly's own default is a button that sends a figure, and so the places in it, away.
_SCRIPT = """
for (const [id, figure] of Object.entries(JSON.parse(document.getElementById("drawn").textContent))) {
  Plotly.newPlot(id, figure.data, figure.layout, {
    responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
    toImageButtonOptions: {filename: id, scale: 2},
  });
}
"""
_STYLE = """
body { margin: 0; background: #f4f5f7; color: #222; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 24px 16px 48px; }
header, section { background: #fff; border: 1px solid #e1e4e8; border-radius: 8px; }
header, section { padding: 18px 24px; margin: 0 0 16px; }
h1 { font-size: 24px; line-height: 1.3; margin: 0 0 6px; }
h2 { font-size: 17px; line-height: 1.35; margin: 0 0 8px; }
p { margin: 6px 0 0; color: #555; font-size: 14px; max-width: 100ch; overflow-wrap: anywhere; }
ul { padding-left: 20px; margin: 12px 0; }
ul.says li { margin: 3px 0; font-size: 16px; }
ul.warns { list-style: none; padding: 10px 14px; background: #fff3e0; border-left: 4px solid #d55e00; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 8px 24px; margin: 14px 0 0; }
dt { font-size: 12px; color: #666; }
dd { margin: 0; font-size: 14px; overflow-wrap: anywhere; }
h1, li { overflow-wrap: anywhere; }
.drawn h2 { position: relative; z-index: 1; width: fit-content; max-width: calc(100% - 190px); }
.drawn .figure { margin-top: -36px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: right; border-bottom: 2px solid #ccc; padding: 5px 10px; vertical-align: bottom; }
td { text-align: right; border-bottom: 1px solid #eee; padding: 4px 10px; font-variant-numeric: tabular-nums; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
td:first-child { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12.5px; }
th:last-child, td:last-child { text-align: left; white-space: normal; color: #555; min-width: 220px; }
header h2 { font-size: 15px; margin: 18px 0 4px; }
table.card th, table.card td { text-align: left; vertical-align: top; padding: 3px 12px 3px 0; font: inherit; }
table.card th, table.card td { border-bottom: 1px solid #eee; color: #222; white-space: normal; min-width: 0; }
table.card th { color: #666; white-space: nowrap; width: 1%; }
table.card td { width: 49%; overflow-wrap: anywhere; }
table.card .out { color: #9c3d00; border-bottom: 0; }
table.keyed { margin-bottom: 14px; table-layout: fixed; min-width: 640px; }
table.keyed th, table.keyed td { white-space: normal; min-width: 0; text-align: right; overflow-wrap: anywhere; }
table.keyed th:last-child, table.keyed td:last-child { color: inherit; }
table.keyed th:first-child, table.keyed td:first-child { text-align: left; width: 36%; }
table.keyed span { white-space: nowrap; color: #666; }
table.keyed small { display: block; font: 12px/1.35 system-ui, -apple-system, "Segoe UI", sans-serif; color: #666; }
@media (max-width: 700px) {
  main { padding: 12px 6px 32px; }
  header, section { padding: 14px 12px; }
  dl { grid-template-columns: 1fr; }
  table.card, table.card tbody, table.card tr, table.card th, table.card td { display: block; width: auto; }
  table.card th { white-space: normal; border-bottom: 0; padding-bottom: 0; }
  table.card th, table.card td { overflow-wrap: break-word; }
  table.keyed { min-width: 0; }
  table.keyed span { white-space: normal; }
  .drawn h2 { max-width: 100%; }
}
@media (max-width: 1150px) { .drawn .figure { margin-top: 0; } }
@media print { header, section { break-inside: avoid; } }
"""

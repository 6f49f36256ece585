"""An outcome on a terminal: answers, what they stand on, notices, tables, facts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netsim.world.channel_card import card_lines
from scenarios.app.results.outcome import Mark, Outcome, TableOf, mark_of, run_outcome
from scenarios.app.results.read import Run
from scenarios.app.results.shown import COLUMNS, drawn, every_figure, fitted, spent
from scenarios.app.results.table import INCONCLUSIVE, NO_GUARANTEE

MOST_ROWS = 40
"""of a table; its page has all"""
MOST_LABEL = 24
"""columns of a label that others leave to it; it wraps at blanks"""
_MARKS = {INCONCLUSIVE: "?", NO_GUARANTEE: "!"}
"""verdicts too long for a column"""
_LEGEND = f"({'; '.join(f'{mark}: {verdict}' for verdict, mark in _MARKS.items())})"


def screen(of: Outcome, ends: dict[str, str], wide: Sequence[str] = ()) -> list[str]:
    """What goes on the heading, then the lines below it. ends : the last facts; paths stay whole.
    wide : in place of the tables.
    """
    said = [
        f"{asked}: {text}" if of.kind in ("sweep", "comparison") else text
        for asked, text in of.answers
    ]
    heading = f": {of.title}" if of.title else ""
    if of.kind in ("run", "radio"):
        heading = f", seed {of.values['seed']}: {said.pop(0)}"
    rows = [(name, text) for name, text in (of.facts | ends).items() if text]
    margin = 2 + max(len(name) for name, _ in rows)
    return [
        heading,
        *fitted([*said, *[of.scope] * bool(of.scope), *(notice.text for notice in of.notices)]),
        *(wide or [line for table in of.tables for line in table_lines(table)]),
        *drawn(["", ""], rows[:-1])[1:],
        "".join([rows[-1][0].ljust(margin), rows[-1][1]]),  # never broken: it is copied
    ]


def run_screen(run: Run, page: str, verbose: bool = False) -> list[str]:
    """What a run found. page : where all details are. verbose : with the channel card and every
    figure.
    """
    of = run_outcome(run)
    if of.scope:
        ends = {"privacy": "\n".join(spent(run.tables["privacy"]))}
    else:
        ends = {}
    peak = run.manifest.timing.get("peak_memory_gb")
    ends |= {"memory": f"peak {peak} GB"} if peak else {}
    card = fitted(card_lines(run.manifest.channel_card))
    return screen(of, ends | {"page": page}, [*card, *every_figure(run.summary)] if verbose else ())


def table_lines(of: TableOf) -> list[str]:
    """The columns of a table that a terminal keeps, and its notes; of those that do not fit the
    names stand below.
    """
    if not (of.rows and of.narrow):
        return []
    marks = [[mark_of(cell) for cell in row[: of.narrow]] for row in of.rows[:MOST_ROWS]]
    texts = [[_text(mark) for mark in row] for row in marks]
    heads = list(of.heads[: of.narrow])
    if of.as_lines:
        return fitted([*of.notes, *("; ".join(map("{}: {}".format, heads, row)) for row in texts)])
    right = [k for k in range(1, len(heads)) if any(row[k].sorts is not None for row in marks)]
    more = len(of.rows) - MOST_ROWS
    notes = [*of.notes, *[f"and {more:,} more rows on the page"] * (more > 0)]
    if not of.drops:
        return [*drawn(heads, texts, right), *fitted(notes)]
    texts.append(
        [
            "baseline",
            *("\n".join(next(iter(each.items()), ())) for each in of.foot[: of.narrow - 1]),
        ]
    )
    heads = [head.replace(" ", "\n") for head in heads]
    widths = [
        max(map(len, "\n".join(column).split("\n"))) for column in zip(heads, *texts, strict=True)
    ]
    room = COLUMNS - 2 - min(MOST_LABEL, widths[0])
    n = max(2, 1 + int((np.cumsum(np.add(widths[1:], 2)) <= room).sum()))
    left_out = ", ".join(head.partition(",")[0] for head in of.heads[n : of.narrow])
    notes += [_LEGEND, *[f"also on the page: {left_out}"] * bool(left_out)]
    return [
        *drawn(heads[:n], [row[:n] for row in texts], right, (), [0, *widths[1:]]),
        *fitted(notes),
    ]


def _text(of: Mark) -> str:
    """A cell, and its verdict below it."""
    return "\n".join(
        filter(None, [of.text, *(_MARKS.get(word, word) for word in of.verdict.split(", "))])
    )

"""An outcome on a terminal: answers, what they stand on, notices, tables, facts."""

from collections.abc import Sequence

import numpy as np

from netsim.world.channel_card import format_card
from scenarios.app.results.outcome import Mark, Outcome, OutcomeTable, build_run_outcome, to_mark
from scenarios.app.results.read import Run
from scenarios.app.results.shown import (
    COLUMNS,
    describe_accounts,
    draw_figures_table,
    draw_text_table,
    wrap_lines,
)
from scenarios.app.results.table import INCONCLUSIVE, NO_GUARANTEE

MOST_ROWS = 40
"""of a table; its page has all"""
MOST_LABEL = 24
"""columns of a label that others leave to it; it wraps at blanks"""
_MARKS = {INCONCLUSIVE: "?", NO_GUARANTEE: "!"}
"""verdicts too long for a column"""
_LEGEND = f"({'; '.join(f'{mark}: {verdict}' for verdict, mark in _MARKS.items())})"


def lay_out_screen(outcome: Outcome, ends: dict[str, str], wide: Sequence[str] = ()) -> list[str]:
    """Lay out what goes on the heading, then the lines below it.

    ends : the last facts; paths stay whole. wide : in place of the tables.
    """
    sentences = [text for _, text in outcome.answers]
    heading = f": {outcome.title}" if outcome.title else ""
    if outcome.kind in ("run", "radio"):
        heading = f", seed {outcome.values['seed']}: {sentences.pop(0)}"
    elif outcome.kind in ("sweep", "comparison"):
        sentences = list(map(": ".join, outcome.answers))
    if outcome.scope:
        sentences.append(outcome.scope)
    sentences += [notice.text for notice in outcome.notices]
    tables = wide or [line for table in outcome.tables for line in lay_out_table(table)]
    rows = [(name, text) for name, text in (outcome.facts | ends).items() if text]
    margin = 2 + max(len(name) for name, _ in rows)
    *facts, (name, text) = rows
    last = name.ljust(margin) + text  # never broken: it is copied
    return [heading, *wrap_lines(sentences), *tables, *draw_text_table(["", ""], facts)[1:], last]


def lay_out_run(run: Run, page: str, verbose: bool = False) -> list[str]:
    """Lay out what a run found.

    page : where all details are. verbose : with the channel card and every figure.
    """
    outcome = build_run_outcome(run)
    ends = {}
    if outcome.scope:
        ends["privacy"] = "\n".join(describe_accounts(run.tables["privacy"]))
    if peak := run.manifest.timing.get("peak_memory_gb"):
        ends["memory"] = f"peak {peak} GB"
    ends["page"] = page
    if not verbose:
        return lay_out_screen(outcome, ends)
    card = wrap_lines(format_card(run.manifest.channel_card))
    return lay_out_screen(outcome, ends, [*card, *draw_figures_table(run.summary)])


def lay_out_table(table: OutcomeTable) -> list[str]:
    """Lay out the columns of a table that a terminal keeps, and its notes.

    Of columns that do not fit the names stand below.
    """
    if not (table.rows and table.narrow):
        return []
    marks = [[to_mark(cell) for cell in row[: table.narrow]] for row in table.rows[:MOST_ROWS]]
    texts = [[_join_cell(mark) for mark in row] for row in marks]
    heads = table.heads[: table.narrow]
    notes = list(table.notes)
    if table.as_lines:
        return wrap_lines(notes + ["; ".join(map("{}: {}".format, heads, row)) for row in texts])
    right = [k for k in range(1, len(heads)) if any(row[k].sorts is not None for row in marks)]
    n_left_out = len(table.rows) - MOST_ROWS
    if n_left_out > 0:
        notes.append(f"and {n_left_out:,} more rows on the page")
    if not table.drops:
        return [*draw_text_table(heads, texts, right), *wrap_lines(notes)]
    feet = table.foot[: table.narrow - 1]
    texts.append(["baseline", *("\n".join(next(iter(foot.items()), ())) for foot in feet)])
    heads = [head.replace(" ", "\n") for head in heads]
    widths = [
        max(map(len, "\n".join(column).split("\n"))) for column in zip(heads, *texts, strict=True)
    ]
    room = COLUMNS - 2 - min(MOST_LABEL, widths[0])
    ends = np.cumsum(np.add(widths[1:], 2))
    n = max(2, 1 + int((ends <= room).sum()))
    notes.append(_LEGEND)
    left_out = ", ".join(head.partition(",")[0] for head in table.heads[n : table.narrow])
    if left_out:
        notes.append(f"also on the page: {left_out}")
    shown = [row[:n] for row in texts]
    widths[0] = 0
    return [*draw_text_table(heads[:n], shown, right, (), widths), *wrap_lines(notes)]


def _join_cell(mark: Mark) -> str:
    """Join a cell and the words of its verdict, a line each."""
    words = [_MARKS.get(word, word) for word in mark.verdict.split(", ")]
    return "\n".join(filter(None, [mark.text, *words]))

"""Claims and verdicts in print: aligned text and a CSV."""

from __future__ import annotations

import csv
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import zip_longest

import numpy as np

from netsim.record import guarded
from scenarios.app.claims.claim import Claim, Verdict
from scenarios.app.study.yaml_document import one_line


def claims_text(claims: Sequence[Claim]) -> str:
    """The claims themselves, aligned."""
    lines = [(c.id, c.where, c.says, c.printed, c.scenario) for c in claims]
    return aligned(("id", "where", "says", "paper's", "scenario"), lines, (24, 18, 56, 14, 24))


def verdicts_text(verdicts: Sequence[Verdict]) -> str:
    """Claims with their verdicts, aligned."""
    lines = [
        (j.claim.id, j.claim.where, j.claim.says, j.claim.printed, j.ours, _verdict(j)) for j in verdicts
    ]  # fmt: skip
    return aligned(("id", "where", "says", "paper's", "ours, median [quartiles]", "verdict"), lines, _WIDTHS)


_WIDTHS = (24, 14, 40, 12, 34, 30)
_NARROWEST = 8


def _verdict(of: Verdict) -> str:
    return f"{of.verdict} ({of.reason})" if of.reason else of.verdict


def aligned(head: Sequence[str], lines: Iterable[Sequence[str]], widths: Sequence[int]) -> str:
    """Columns of plain text that fit the terminal, each cell wrapped to its width; an empty line between rows."""
    cells = [[one_line(cell) for cell in line] for line in lines]
    longest = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    widths = [min(w, n) for w, n in zip(widths, longest, strict=True)]
    fits = shutil.get_terminal_size((100, 24)).columns - 2 * (len(widths) - 1)
    while sum(widths) > max(fits, _NARROWEST * len(widths)):
        widths[int(np.argmax(widths))] -= 1
    table = [[textwrap.wrap(cell, w) for cell, w in zip(line, widths, strict=True)] for line in cells]
    room = [
        max([len(name), *(len(row) for line in table for row in line[i])]) for i, name in enumerate(head)
    ]  # fmt: skip

    def printed(row: Sequence[str]) -> str:
        return "  ".join(f"{cell:<{w}}" for cell, w in zip(row, room, strict=True)).rstrip()

    blocks: Iterator[str] = ("\n".join(printed(row) for row in zip_longest(*line, fillvalue="")) for line in table)
    return "\n\n".join(["\n".join([printed(head), printed(["-" * w for w in room])]), *blocks])


def verdict_row(of: Verdict) -> dict[str, str]:
    """A verdict and its claim, as a row of the table."""
    c = of.claim
    stated = {"id": c.id, "paper": c.paper, "where": c.where, "says": c.says, "scenario": c.scenario, "key": c.rule.key}
    value = "" if c.value is None else c.printed
    return {**stated, "value": value, "ours": of.ours, "verdict": of.verdict, "reason": of.reason}


def claims_csv(verdicts: Iterable[Verdict]) -> str:
    """A row for each claim."""
    text = StringIO()
    rows = [verdict_row(one) for one in verdicts]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "paper", "where", "says", "scenario", "key", "value", "ours", "verdict", "reason"])
    writer.writerows([guarded(cell) for cell in row.values()] for row in rows)
    return text.getvalue()

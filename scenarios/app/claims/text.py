"""Claims and verdicts in print: aligned text and a CSV."""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import zip_longest

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


def _verdict(of: Verdict) -> str:
    return f"{of.verdict} ({of.reason})" if of.reason else of.verdict


def aligned(head: Sequence[str], lines: Iterable[Sequence[str]], widths: Sequence[int]) -> str:
    """Columns of plain text, each cell wrapped to its width; an empty line between rows."""
    table = [[textwrap.wrap(one_line(cell), w) for cell, w in zip(line, widths, strict=True)] for line in lines]
    room = [
        max([len(name), *(len(row) for line in table for row in line[i])]) for i, name in enumerate(head)
    ]  # fmt: skip

    def printed(cells: Sequence[str]) -> str:
        return "  ".join(f"{cell:<{w}}" for cell, w in zip(cells, room, strict=True)).rstrip()

    blocks: Iterator[str] = ("\n".join(printed(row) for row in zip_longest(*line, fillvalue="")) for line in table)
    return "\n\n".join(["\n".join([printed(head), printed(["-" * w for w in room])]), *blocks])


def claims_csv(verdicts: Iterable[Verdict]) -> str:
    """A row for each claim."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "paper", "where", "says", "scenario", "key", "value", "ours", "verdict", "reason"])
    for j in verdicts:
        c = j.claim
        value = "" if c.value is None else c.printed
        cells = [c.id, c.paper, c.where, c.says, c.scenario, c.rule.key, value, j.ours, j.verdict, j.reason]
        writer.writerow([guarded(cell) for cell in cells])
    return text.getvalue()

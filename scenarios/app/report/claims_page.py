"""The page of claims: what publications print, what our runs give, and whether the two agree."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from netsim.safe import what_is
from scenarios.app.claims.claim import FAILS, HOLDS, OPEN, Verdict
from scenarios.app.report.html import Cell, Chapter, Link, Mark, answers, facts, headings, page, paragraphs, table
from scenarios.app.results.folder import PAGE
from scenarios.app.results.statistics import counted

TITLE = "Published claims, and whether our runs agree"
STYLES = ("compare.css",)
MOST_NAMED = 8  # claims in a sentence
_LOOKS = {HOLDS: "held", FAILS: "not-held", OPEN: "open"}
_HOW = (
    "A claim holds where the 95 % interval over seeds of every median that its rule looks at lies within the rule's "
    "bounds, and does not hold where one lies outside; else it is undecided, as it is with one seed.",
    "Ours: the median over seeds, in brackets the quartiles, with the label of the sweep that it is of.",
    "Low leakage decides nothing where at least half of the models are not useful; high leakage is real there too.",
)


def claims_page(verdicts: Sequence[Verdict], folders: Mapping[str, Path], place: Path, command: str = "") -> str:
    """The whole page.

    folders : scenario -> the folder of its runs, to whose page claims lead where it is drawn. place : the folder in
    which this page will lie.
    """
    top = headings(TITLE, "") + answers(_answer(verdicts)) + paragraphs(_HOW, "says")
    runs = {name: str(folder) for name, folder in folders.items() if what_is(folder) == "folder"}
    said = {"command": command or "not recorded", "scenarios with runs": ", ".join(runs) or "none"}
    chapters = [
        Chapter("papers", "Publications", [_papers(verdicts)]),
        Chapter("claims-all", "All claims", [_claims(verdicts, folders, place)]),
        Chapter("configuration", "Configuration", [facts(said)]),
    ]
    return page(TITLE, top, chapters, styles=STYLES)


def _answer(verdicts: Sequence[Verdict]) -> list[tuple[str, str]]:
    """How many claims hold, which do not, and why others are undecided."""
    number = Counter(v.verdict for v in verdicts)
    lines = [
        (
            "Do they hold",
            f"{number[HOLDS]} of {counted(len(verdicts), 'claim')} {'holds' if number[HOLDS] == 1 else 'hold'}, "
            f"{number[FAILS]} {'does' if number[FAILS] == 1 else 'do'} not, {number[OPEN]} "
            f"{'is' if number[OPEN] == 1 else 'are'} not decided.",
        )
    ]
    failed = [v.claim.id for v in verdicts if v.verdict == FAILS]
    if failed:
        more = f" and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
        lines.append(("What does not hold", f"{', '.join(failed[:MOST_NAMED])}{more}."))
    why = Counter(v.reason.partition(":")[0] for v in verdicts if v.verdict == OPEN)
    if why:
        reasons = "; ".join(f"{reason} ({n})" for reason, n in sorted(why.items(), key=lambda w: (-w[1], w[0]))[:3])
        lines.append(("Why others are not decided", f"{reasons}."))
    return lines


def _papers(verdicts: Sequence[Verdict]) -> str:
    """A row for each publication."""
    papers = list(dict.fromkeys(v.claim.paper for v in verdicts))
    rows: list[list[Cell]] = []
    for paper in papers:
        number = Counter(v.verdict for v in verdicts if v.claim.paper == paper)
        counts = [number[HOLDS], number[FAILS], number[OPEN]]
        rows.append([paper, *(Mark(str(n), float(n)) for n in (sum(counts), *counts))])
    return table("Claims of every publication", ["publication", "claims", HOLDS, FAILS, OPEN], rows, texts=(0,))


def _claims(verdicts: Sequence[Verdict], folders: Mapping[str, Path], place: Path) -> str:
    """A row for each claim, those of a publication together."""
    papers = list(dict.fromkeys(v.claim.paper for v in verdicts))
    ordered = sorted(verdicts, key=lambda v: papers.index(v.claim.paper))
    rows: list[list[Cell]] = [
        [
            v.claim.paper, v.claim.where, v.claim.says, v.claim.printed, v.ours,
            Mark(v.verdict, kind=_LOOKS[v.verdict]), v.reason, _runs(v.claim.scenario, folders, place), v.claim.id,
        ]
        for v in ordered
    ]  # fmt: skip
    heads = ["publication", "where", "claim", "published", "ours", "verdict", "why", "runs", "name"]
    return table("What is claimed, and what our runs give", heads, rows, "claims", range(len(heads)))


def _runs(scenario: str, folders: Mapping[str, Path], place: Path) -> Cell:
    """The scenario, as a link where the page of its runs is drawn."""
    folder = folders.get(scenario)
    if folder is None or what_is(folder / PAGE) != "file":
        return scenario
    return Link(scenario, os.path.relpath(folder / PAGE, place))

"""The page of claims: what publications print, what our runs give, and whether the two agree."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from netsim.safe import what_is
from scenarios.app.claims.evaluate import FAILS, HOLDS, OPEN, Verdict
from scenarios.app.report.html import Cell, Chapter, Link, Mark, answers, facts, headings, page, paragraphs, table
from scenarios.app.report.report import check_ours, report, written
from scenarios.app.results.folder import PAGE, SUMMARY
from scenarios.app.results.read import RUNS

TITLE = "Published claims, and whether our runs agree"
HEADS = ("publication", "where", "claim", "published", "ours", "verdict", "why", "runs", "name")
_LOOKS = {HOLDS: "held", FAILS: "not-held", OPEN: "open"}
_HOW = (
    "A claim holds where the 95 % interval over seeds of every median that its rule looks at lies within the rule's "
    "bounds, and does not hold where one lies outside; else it is undecided, as it is with one seed.",
    "Ours: the median over seeds, in brackets the quartiles, with the label of the sweep that it is of.",
    "Low leakage decides nothing where at least half of the models are not useful; high leakage is real there too.",
)


def claims_page(verdicts: Sequence[Verdict], folders: Mapping[str, Path], place: Path, command: str = "") -> str:
    """The whole page: a row for each claim, those of a publication together.

    folders : scenario -> the folder of its runs, to whose page claims lead where it is drawn. place : the folder in
    which this page will lie.
    """
    number = Counter(v.verdict for v in verdicts)
    counts = ", ".join(f"{number[word]} {word}" for word in _LOOKS)
    top = headings(TITLE, "") + answers([(f"{len(verdicts)} claims", f"{counts}.")]) + paragraphs(_HOW, "says")
    papers = list(dict.fromkeys(v.claim.paper for v in verdicts))
    rows = list[list[Cell]]()
    for one in sorted(verdicts, key=lambda v: papers.index(v.claim.paper)):
        folder = folders.get(one.claim.scenario)
        drawn = folder is not None and what_is(folder / PAGE) == "file"
        runs = (
            Link(one.claim.scenario, os.path.relpath(folder / PAGE, place)) if folder and drawn else one.claim.scenario
        )
        verdict = Mark(one.verdict, kind=_LOOKS[one.verdict])
        *stated, ours = (one.row[name] for name in ("paper", "where", "says", "value", "ours"))
        rows.append([*stated, ours, verdict, one.reason, runs, one.claim.id])
    there = ", ".join(name for name, folder in folders.items() if what_is(folder) == "folder") or "none"
    chapters = [
        Chapter("claims-all", "All claims", [table(TITLE, HEADS, rows, "claims")]),
        Chapter("configuration", "Configuration", [facts({"command": command or "not recorded", "runs of": there})]),
    ]
    return page(TITLE, top, chapters, styles=("compare.css",))


def claims_report(
    verdicts: Sequence[Verdict], folders: Mapping[str, Path], out: Path, command: str = "", pages: bool = False
) -> Path:
    """Write the page of verdicts; returns its path. pages : also draw the pages of the folders, to which it leads."""
    check_ours(out)
    for folder in dict.fromkeys(folders.values()) if pages else ():
        if what_is(folder / RUNS) or what_is(folder / SUMMARY):
            report(folder)
    return written(out, claims_page(verdicts, folders, out.parent, command))

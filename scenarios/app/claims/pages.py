"""Pages of claims: publications figure by figure in Markdown, and a table of all verdicts in
HTML.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from netsim.errors import counted, one_line
from netsim.safe import what_is
from scenarios.app.claims.claim import FAILS, HOLDS, OPEN, Unplayed, Verdict
from scenarios.app.report.plot import GENERATOR, Chapter, configuration, page, table
from scenarios.app.report.report import check_ours, report, written
from scenarios.app.results.folder import PAGE, RUNS, SUMMARY
from scenarios.app.results.outcome import Cells, Mark
from scenarios.app.results.shown import drawn

_HEAD = """<!-- {generator} -->

# Publications, figure by figure

Each row is a statement of a publication, and what our runs say of it: the median over seeds with
its quartiles. It *holds* where the 95 % interval over seeds of every median that the rule looks
at lies within the rule's bounds, *does not hold* where one lies outside, and is else *undecided*
([rules](claims.md)). "Knows the defense": what the attacker reaches who knows it, in the same
runs. This page is printed by `netsim claims --page FILE.md` from verdicts that are kept with the
program; `netsim claims --out DIR --keep FILE --page FILE.md` plays the runs again first, with
`--paper WORD` those of one publication.
"""
_HEADS = ("figure", "statement", "printed", "ours", "knows the defense", "verdict", "seeds")
_COLUMNS = ("publication", "where", "claim", "published", "ours", "verdict", "why", "runs", "name")
_LOOKS = {HOLDS: "held", FAILS: "not-held", OPEN: "open"}
_HOW = (
    "A claim holds where the 95 % interval over seeds of every median that its rule looks at "
    "lies within the rule's bounds, and does not hold where one lies outside; else it is "
    "undecided, as it is with one seed.",
    "Ours: the median over seeds, in brackets the quartiles, with the label of the "
    "sweep that it is of.",
    "Low leakage decides nothing where at least half of the models are not useful; high "
    "leakage is real there too.",
)


def claim_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """A table for a terminal: figure and scenario, the statement, the rule with what our runs give
    and the verdict.
    """
    rows = []
    for one in verdicts:
        claim = one.claim
        printed = [] if claim.value is None else [f"printed {claim.printed}"]
        ours = [f"ours {one.ours}"] if one.seeds else []
        rows.append(
            [
                "\n".join([claim.where, claim.scenario, *printed]),
                f"{claim.says} ({claim.id})",
                "\n".join([claim.rule.words, *ours, one.text]),
            ]
        )
    return drawn(
        ("figure, scenario", "statement", "holds if; ours; verdict"),
        rows,
        whole=(),
        widths=(24, 37, 32),
    )


def counts(of: Sequence[Verdict]) -> str:
    """How many statements there are, and of which verdict."""
    played = [one for one in of if one.seeds]
    words = [
        f"{sum(one.verdict == word for one in played)} {word}"
        for word in (HOLDS, FAILS, OPEN)
        if played
    ]
    words += [f"{len(of) - len(played)} not played"] if len(of) > len(played) else []
    return f"{counted(len(of), 'statement')}: {', '.join(words)}"


def papers_page(verdicts: Sequence[Verdict], unplayed: Sequence[Unplayed]) -> str:
    """Markdown: a chapter a publication with its verdicts, what was tried where one does not hold,
    and what is not played; then the minutes that each scenario takes.
    """
    text = [_HEAD.format(generator=GENERATOR)]
    for paper in dict.fromkeys(one.claim.paper for one in verdicts):
        of = [one for one in verdicts if one.claim.paper == paper]
        differs = "\n".join(
            f"- **{_plain(one.claim.where)}** ({one.claim.id}): {_plain(one.claim.differs)}"
            for one in of
            if one.claim.differs
        )
        left = "\n".join(
            f"- **{_plain(one.where)}**: {_plain(one.why)}"
            for one in unplayed
            if one.paper == paper
        )
        text += [
            f"## {_plain(paper)}",
            f"{counts(of)}.",
            _table(_HEADS, map(_cells, of)),
            differs,
            f"Not played:\n\n{left}" if left else "",
        ]
    cost = {one.claim.scenario: (one.minutes, one.version) for one in verdicts}
    text += [
        "## Commands",
        "Minutes by the clock, added up over all runs of a scenario, and the version "
        "that played them.",
        _table(
            ("command", "minutes", "netsim"),
            ((_plain(f"`netsim sweep {name}`"), *map(_plain, of)) for name, of in cost.items()),
        ),
    ]
    return "\n\n".join(filter(None, (piece.strip() for piece in text))) + "\n"


def _cells(of: Verdict) -> tuple[str, ...]:
    cells = of.claim.where, of.claim.says, of.claim.printed, of.ours, of.adapted, of.text, of.seeds
    return tuple(
        _plain(cell).replace("; ", "<br>" if cell in (of.ours, of.adapted) else "; ")
        for cell in cells
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(of)} |" for of in [heads, ["---"] * len(heads), *rows])


def _plain(text: str) -> str:
    """Text that Markdown and HTML leave as it is, on one line."""
    return escape(one_line(text), quote=False).replace("|", "\\|")


def claims_page(
    verdicts: Sequence[Verdict], folders: Mapping[str, Path], place: Path, command: str = ""
) -> str:
    """The page of claims: what publications print, what our runs give, and whether the two agree.

    folders : scenario -> the folder of its runs, to whose page claims lead where it is drawn. place
    : the folder in which this page will lie.
    """
    title = "Published claims, and whether our runs agree"
    words = [one.verdict for one in verdicts]
    papers = [one.claim.paper for one in verdicts]
    rows: Cells = []
    for one in sorted(verdicts, key=lambda one: papers.index(one.claim.paper)):
        scenario = one.claim.scenario
        page_of = folders.get(scenario, place / "none") / PAGE
        runs = (
            Mark(links=[(scenario, os.path.relpath(page_of, place))])
            if what_is(page_of) == "file"
            else scenario
        )
        stated = [one.row[name] for name in ("paper", "where", "says", "value", "ours")]
        rows.append(
            [*stated, Mark(one.verdict, kind=_LOOKS[one.verdict]), one.reason, runs, one.claim.id]
        )
    there = [name for name, folder in folders.items() if what_is(folder) == "folder"]
    facts = {"command": command or "not recorded", "runs of": ", ".join(there) or "none"}
    chapters = [
        Chapter("claims-all", "All claims", [table(title, _COLUMNS, rows, "claims")]),
        configuration(facts),
    ]
    counts = ", ".join(f"{words.count(word)} {word}" for word in _LOOKS)
    return page(title, chapters, answers=[(f"{len(verdicts)} claims", f"{counts}.")], says=_HOW)


def claims_report(
    verdicts: Sequence[Verdict],
    folders: Mapping[str, Path],
    out: Path,
    command: str = "",
    pages: bool = False,
) -> Path:
    """Write the page of verdicts; returns its path. pages : also draw the pages of the folders, to
    which it leads.
    """
    check_ours(out)
    for folder in dict.fromkeys(folders.values()) if pages else ():
        if what_is(folder / RUNS) or what_is(folder / SUMMARY):
            report(folder)
    return written(out, claims_page(verdicts, folders, out.parent, command))

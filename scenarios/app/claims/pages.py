"""The page of claims, publications figure by figure in Markdown, and their table on a terminal."""

from collections.abc import Iterable, Sequence
from html import escape

from netsim.errors import format_count, to_one_line
from scenarios.app.claims.claim import FAILS, HOLDS, OPEN, Unplayed, Verdict
from scenarios.app.report.plot import (
    GENERATOR,
)
from scenarios.app.results.shown import draw_text_table
from scenarios.app.results.statistics import group_by_label

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
Verdicts = Sequence[Verdict]
_HEADS = ("figure", "statement", "printed", "ours", "knows the defense", "verdict", "seeds")


def format_claims(verdicts: Verdicts) -> list[str]:
    """Format a table for a terminal: figure and scenario, the statement, and the verdict.

    With the verdict stands the rule, and what our runs give.
    """
    rows = []
    for verdict in verdicts:
        claim = verdict.claim
        places = [claim.where, claim.scenario]
        if claim.value is not None:
            places.append(f"printed {claim.printed}")
        results = [claim.rule.words]
        if verdict.seeds:
            results.append(f"ours {verdict.ours}")
        results.append(verdict.text)
        rows.append(["\n".join(places), f"{claim.says} ({claim.id})", "\n".join(results)])
    return draw_text_table(
        ("figure, scenario", "statement", "holds if; ours; verdict"),
        rows,
        whole=(),
        widths=(24, 37, 32),
    )


def describe_counts(verdicts: Verdicts) -> str:
    """Say how many statements there are, and of which verdict."""
    decided = [verdict.verdict for verdict in verdicts if verdict.seeds]
    counts = []
    if decided:
        counts = [f"{decided.count(word)} {word}" for word in (HOLDS, FAILS, OPEN)]
    if n_left := len(verdicts) - len(decided):
        counts.append(f"{n_left} not played")
    return f"{format_count(len(verdicts), 'statement')}: {', '.join(counts)}"


def build_papers_page(verdicts: Verdicts, unplayed: Sequence[Unplayed]) -> str:
    """Build a page in Markdown: a chapter a publication with its verdicts.

    With what was tried where a claim does not hold, and what is not played; then the minutes that
    each scenario takes.
    """
    text = [_HEAD.format(generator=GENERATOR)]
    for paper, paper_verdicts in group_by_label(
        (verdict.claim.paper, verdict) for verdict in verdicts
    ).items():
        claims = [verdict.claim for verdict in paper_verdicts]
        tried = [
            _to_item(claim.where, f" ({claim.id})", claim.differs)
            for claim in claims
            if claim.differs
        ]
        left = [_to_item(item.where, "", item.why) for item in unplayed if item.paper == paper]
        text += [
            f"## {_escape_markdown(paper)}",
            f"{describe_counts(paper_verdicts)}.",
            _to_markdown_table(_HEADS, map(_format_cells, paper_verdicts)),
            "\n".join(tried),
        ]
        if left:
            text.append("Not played:\n\n" + "\n".join(left))
    cost = {verdict.claim.scenario: (verdict.minutes, verdict.version) for verdict in verdicts}
    rows = [
        map(_escape_markdown, (f"`netsim sweep {name}`", minutes, version))
        for name, (minutes, version) in cost.items()
    ]
    text += [
        "## Commands",
        "Minutes by the clock, added up over all runs of a scenario, and the version "
        "that played them.",
        _to_markdown_table(("command", "minutes", "netsim"), rows),
    ]
    return "\n\n".join(filter(None, map(str.strip, text))) + "\n"


def _to_item(place: str, name: str, text: str) -> str:
    """Write an item of a list in Markdown; name: as it is."""
    return f"- **{_escape_markdown(place)}**{name}: {_escape_markdown(text)}"


def _format_cells(verdict: Verdict) -> list[str]:
    """Format the cells of a verdict for Markdown; values of labels stand on lines of their own."""
    claim = verdict.claim
    values = (verdict.ours, verdict.adapted)
    cells = []
    for text in (claim.where, claim.says, claim.printed, *values, verdict.text, verdict.seeds):
        cell = _escape_markdown(text)
        if text in values:
            cell = cell.replace("; ", "<br>")
        cells.append(cell)
    return cells


def _to_markdown_table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Lay rows out as a table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def _escape_markdown(text: str) -> str:
    """Escape text that Markdown and HTML leave as it is, on one line."""
    return escape(to_one_line(text), quote=False).replace("|", "\\|")

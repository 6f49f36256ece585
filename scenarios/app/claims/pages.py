"""The page of claims, publications figure by figure in Markdown, and their table on a terminal."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from netsim.errors import to_one_line
from scenarios.app.claims.claim import OPEN, VERDICTS, Unplayed, Verdict
from scenarios.app.report.plot import GENERATOR, render_template
from scenarios.app.results.folder import Row
from scenarios.app.results.sentences import read_sentences
from scenarios.app.results.shown import draw_text_table
from scenarios.app.results.statistics import group_by_label

Verdicts = Sequence[Verdict]


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
    decided = [verdict.verdict for verdict in verdicts if verdict.seeds or verdict.verdict != OPEN]
    counts = {word: decided.count(word) for word in VERDICTS if decided}
    if n_left := len(verdicts) - len(decided):
        counts["not played"] = n_left
    return read_sentences().statements(len(verdicts), counts)


def build_papers_page(
    verdicts: Verdicts, unplayed: Sequence[Unplayed], drawn: Sequence[tuple[Row, Path]]
) -> str:
    """Build a page in Markdown: a chapter a publication with its verdicts.

    With what was tried where a claim does not hold, figures as they were drawn (a point of each,
    and its file), and what is not played; then the minutes that each scenario takes.
    """
    return render_template(
        "papers.md",
        generator=GENERATOR,
        papers=group_by_label((verdict.claim.paper, verdict) for verdict in verdicts),
        unplayed=unplayed,
        drawn=drawn,
        costs={verdict.claim.scenario: (verdict.minutes, verdict.version) for verdict in verdicts},
        plain=_escape_markdown,
        describe_counts=describe_counts,
    )


def _escape_markdown(text: str) -> str:
    """Escape text that Markdown and HTML leave as it is, on one line."""
    return escape(to_one_line(text), quote=False).replace("|", "\\|")

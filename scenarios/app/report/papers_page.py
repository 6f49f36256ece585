"""The page of publications, figure by figure: what is printed, what our runs give, and why they differ."""

from collections.abc import Iterable, Sequence
from html import escape

from netsim.errors import counted, one_line
from scenarios.app.claims.claim import FAILS, HOLDS, OPEN, Claim, Unplayed, Verdict
from scenarios.app.report.plot import GENERATOR
from scenarios.app.results.shown import drawn

_HEAD = """<!-- {generator} -->

# Publications, figure by figure

Each row is a statement of a publication, and what our runs say of it: the median over seeds with its quartiles. It
*holds* where the 95 % interval over seeds of every median that the rule looks at lies within the rule's bounds, *does
not hold* where one lies outside, and is else *undecided* ([rules](claims.md)). "Knows the defense": what the attacker
reaches who knows it, in the same runs. This page is printed by `netsim claims --page FILE.md` from verdicts that are
kept with the program; `netsim claims --out DIR --keep FILE --page FILE.md` plays the runs again first, with `--paper
WORD` those of one publication.
"""
_HEADS = ("figure", "statement", "printed", "ours", "knows the defense", "verdict", "seeds")


def claim_lines(claims: Sequence[Claim]) -> list[str]:
    """A table for a terminal: figure and scenario, the statement, and the rule."""
    rows = [
        [
            f"{one.where}\n{one.scenario}{f'{chr(10)}printed {one.printed}' if one.value is not None else ''}",
            one.says,
            one.rule.words,
        ]
        for one in claims
    ]
    return drawn(("figure, scenario", "statement", "holds if"), rows, whole=(), widths=(24, 37, 32))


def papers_page(verdicts: Sequence[Verdict], unplayed: Sequence[Unplayed]) -> str:
    """Markdown: a chapter a publication with its verdicts, what was tried where one does not hold, and what is not
    played; then the minutes that each scenario takes.
    """
    text = [_HEAD.format(generator=GENERATOR)]
    for paper in dict.fromkeys(one.claim.paper for one in verdicts):
        of = [one for one in verdicts if one.claim.paper == paper]
        count = ", ".join(f"{sum(one.verdict == word for one in of)} {word}" for word in (HOLDS, FAILS, OPEN))
        text += [f"## {_plain(paper)}", f"{counted(len(of), 'statement')}: {count}."]
        text.append(_table(_HEADS, map(_cells, of)))
        text.append(
            "\n".join(
                f"- **{_plain(one.claim.where)}** ({one.claim.id}): {_plain(one.claim.differs)}"
                for one in of
                if one.claim.differs
            )
        )
        left = "\n".join(f"- **{_plain(one.where)}**: {_plain(one.why)}" for one in unplayed if one.paper == paper)
        text.append(f"Not played:\n\n{left}" if left else "")
    text += [
        "## Commands",
        "Minutes by the clock, added up over all runs of a scenario, and the version that played them.",
    ]
    cost = {one.claim.scenario: (one.minutes, one.version) for one in verdicts}
    text.append(
        _table(
            ("command", "minutes", "netsim"),
            ((_plain(f"`netsim sweep {name}`"), *map(_plain, of)) for name, of in cost.items()),
        )
    )
    return "\n\n".join(filter(None, (piece.strip() for piece in text))) + "\n"


def _cells(of: Verdict) -> tuple[str, ...]:
    cells = of.claim.where, of.claim.says, of.claim.printed, of.ours, of.adapted, of.text, of.seeds
    return tuple(_plain(cell).replace("; ", "<br>" if cell in (of.ours, of.adapted) else "; ") for cell in cells)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(of)} |" for of in lines)


def _plain(text: str) -> str:
    """Text that Markdown and HTML leave as it is, on one line."""
    return escape(one_line(text), quote=False).replace("|", "\\|")

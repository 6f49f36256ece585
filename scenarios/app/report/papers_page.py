"""The page of publications, figure by figure: what is printed, what our runs give, and why they differ."""

from collections.abc import Iterable, Sequence
from html import escape

from netsim.errors import counted, one_line
from scenarios.app.claims.claim import FAILS, HOLDS, OPEN, Unplayed, Verdict
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


def claim_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """A table for a terminal: figure and scenario, the statement, the rule with what our runs give and the verdict."""
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
    return drawn(("figure, scenario", "statement", "holds if; ours; verdict"), rows, whole=(), widths=(24, 37, 32))


def counts(of: Sequence[Verdict]) -> str:
    """How many statements there are, and of which verdict."""
    played = [one for one in of if one.seeds]
    words = [f"{sum(one.verdict == word for one in played)} {word}" for word in (HOLDS, FAILS, OPEN) if played]
    words += [f"{len(of) - len(played)} not played"] if len(of) > len(played) else []
    return f"{counted(len(of), 'statement')}: {', '.join(words)}"


def papers_page(verdicts: Sequence[Verdict], unplayed: Sequence[Unplayed]) -> str:
    """Markdown: a chapter a publication with its verdicts, what was tried where one does not hold, and what is not
    played; then the minutes that each scenario takes.
    """
    text = [_HEAD.format(generator=GENERATOR)]
    for paper in dict.fromkeys(one.claim.paper for one in verdicts):
        of = [one for one in verdicts if one.claim.paper == paper]
        differs = "\n".join(
            f"- **{_plain(one.claim.where)}** ({one.claim.id}): {_plain(one.claim.differs)}"
            for one in of
            if one.claim.differs
        )
        left = "\n".join(f"- **{_plain(one.where)}**: {_plain(one.why)}" for one in unplayed if one.paper == paper)
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
        "Minutes by the clock, added up over all runs of a scenario, and the version that played them.",
        _table(
            ("command", "minutes", "netsim"),
            ((_plain(f"`netsim sweep {name}`"), *map(_plain, of)) for name, of in cost.items()),
        ),
    ]
    return "\n\n".join(filter(None, (piece.strip() for piece in text))) + "\n"


def _cells(of: Verdict) -> tuple[str, ...]:
    cells = of.claim.where, of.claim.says, of.claim.printed, of.ours, of.adapted, of.text, of.seeds
    return tuple(_plain(cell).replace("; ", "<br>" if cell in (of.ours, of.adapted) else "; ") for cell in cells)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(of)} |" for of in [heads, ["---"] * len(heads), *rows])


def _plain(text: str) -> str:
    """Text that Markdown and HTML leave as it is, on one line."""
    return escape(one_line(text), quote=False).replace("|", "\\|")

"""The page of a run: the answer, what leaked, what it was worth, and what it holds for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scenarios.app.report.compare_tables import lines_table, summary_chapter
from scenarios.app.report.html import answers, facts, headings, page, paragraphs
from scenarios.app.report.replay import SCRIPTS, STYLES, replay_chapter
from scenarios.app.report.run_charts import run_chapters
from scenarios.app.report.settings import configuration, run_warnings
from scenarios.app.results.run import Run, part
from scenarios.app.results.statistics import counted
from scenarios.app.results.summary_warnings import warnings
from scenarios.app.results.table import GROUPS, Line, lines, row
from scenarios.app.results.verdicts import FOUND


def single(run: Run) -> str:
    """The page of one run."""
    title, of = run.manifest["title"], lines([run.summary])
    rows = {name: text for name in GROUPS if (text := row([run.summary], name))}
    top = (
        headings(title, str(run.study.get("paper") or ""))
        + answers(answer(of, run.study))
        + paragraphs([*warnings(run.summary), *run_warnings(run.manifest)], "warns")
        + lines_table(of)
        + facts(rows)
    )
    replay, data = replay_chapter(run)
    chapters = [replay, *run_chapters(run), summary_chapter(run), configuration(run)]
    return page(title, top, chapters, data, *((SCRIPTS, STYLES) if data else ()))


def answer(of: Sequence[Line], study: dict[str, Any]) -> list[tuple[str, str]]:
    """What is asked, and the answer: model, leakage, protection."""
    model = next((line for line in of if line.key.startswith("utility.")), None)
    attacked = [line for line in of if line.attack]
    best = next((line for line in attacked if line.verdict == FOUND), attacked[0] if attacked else None)
    epsilon = next((line for line in of if line.key.startswith("privacy.")), None)
    learning = part(study, "learning")
    threat = part(learning, "threat")
    defenses = [str(part(one).get("kind")) for one in learning.get("defenses") or [] if isinstance(one, dict)]
    protects = ", ".join(defenses) or "none: the server receives unmodified updates"
    spent = "no differential privacy" if epsilon is None else f"epsilon {epsilon.result} {epsilon.verdict}".strip()
    found = sum(line.verdict == FOUND for line in attacked)
    leaks = f"{_text(best)}, by {best.attack}" if best else "leakage was not measured"
    if best and len(attacked) > 1:
        leaks += f"; {found} of {counted(len(attacked), 'measure')} of leakage found"
    return [
        ("Model", _text(model) if model else "nothing was held out, so its error is not known"),
        (f"Leakage to {threat.get('viewpoint')} that sees {threat.get('sees')}", leaks),
        ("Protection", f"{protects}; {spent}"),
    ]


def _text(line: Line) -> str:
    """`Found: homes within 100 m 39/40 (chance 1.7 %)`."""
    head = f"{line.verdict}: ".capitalize() if line.verdict else ""
    unit = "" if line.n or not line.unit else f" {line.unit}"
    return f"{head}{line.what} {line.result}{unit}" + (f" ({line.baseline})" if line.baseline else "")

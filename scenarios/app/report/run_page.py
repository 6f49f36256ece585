"""The page of a run: the answer, what leaked, what it was worth, and what it holds for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scenarios.app.report.compare_tables import in_words, leading, lines_table, summary_chapter
from scenarios.app.report.html import answers, facts, headings, page, paragraphs
from scenarios.app.report.replay import SCRIPTS, STYLES, replay_chapter
from scenarios.app.report.run_charts import run_chapters
from scenarios.app.report.settings import configuration, run_warnings
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Run, part
from scenarios.app.results.shown import warnings
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.table import GROUPS, Line, lines, row


def single(run: Run) -> str:
    """The page of one run that learns."""
    replay, data = replay_chapter(run)
    chapters = [replay, *run_chapters(run), summary_chapter(run), configuration(run)]
    return page(run.manifest["title"], run_top(run), chapters, data, *((SCRIPTS, STYLES) if data else ()))


def run_top(run: Run) -> str:
    """The first section of the page of a run: title, answer, warnings, main figures."""
    summary, of = run.summary, lines([run.summary])
    counts = {
        "UE": summary.get(keys.UES_COUNT.of()) or len(run.tables["ues"]["ue"]),
        "round": summary.get(keys.ROUNDS_PLAYED.of()),
    }
    below = [str(run.study["paper"])] if run.study.get("paper") else []
    below += [f"seed {run.manifest.get('seed')}", *(counted(n, what) for what, n in counts.items() if n)]
    rows = {name: text for name in GROUPS if (text := row([summary], name))}
    learns = isinstance(run.study.get("learning"), dict)
    return (
        headings(run.manifest["title"], "; ".join(below))
        + answers(answer(of, run.study) if learns else [("What UEs receive", received(of))])
        + paragraphs([*warnings(summary), *run_warnings(run.manifest)], "warns")
        + lines_table(of)
        + facts(rows)
    )


def received(of: Sequence[Line]) -> str:
    """The figures of a radio study in a sentence: `RSRP -88.3 dBm, SINR 11.2 dB`."""
    shown = ", ".join(f"{x.what} {figure_text(x.value)} {x.unit}".rstrip() for x in of if not np.isnan(x.low))
    return f"Medians: {shown}" if shown else "no sample"


def answer(of: Sequence[Line], study: dict[str, Any]) -> list[tuple[str, str]]:
    """What is asked, and the answer: model, leakage, protection."""
    model = next((line for line in of if line.key.startswith("utility.")), None)
    leak = leading(of)
    epsilon = next((line for line in of if line.key.startswith("privacy.")), None)
    learning = part(study, "learning")
    threat, defenses = part(learning, "threat"), [str(part(one).get("kind")) for one in learning.get("defenses") or []]
    protects = ", ".join(defenses) or "none: the server receives unmodified updates"
    spent = "no differential privacy" if epsilon is None else f"epsilon {epsilon.result} {epsilon.verdict}".strip()
    return [
        ("Model", in_words(model) if model else "nothing was held out, so its error is not known"),
        (
            f"Leakage; attacker: {threat.get('viewpoint')}, sees {threat.get('sees')}",
            in_words(leak) if leak else "not measured",
        ),
        ("Protection", f"{protects}; {spent}"),
    ]

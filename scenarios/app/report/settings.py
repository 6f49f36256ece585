"""The head of a page of a run, what a run holds for: its settings, and what its radio models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenarios.app.report.compare_tables import in_words, leading, lines_table, model_line
from scenarios.app.report.html import Chapter, answers, facts, folded, headings, paragraphs
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Run, clock_of, part
from scenarios.app.results.shown import warnings
from scenarios.app.results.statistics import counted, figure_text, span_text
from scenarios.app.results.table import GROUPS, Line, lines, row
from scenarios.app.study.describe import flow
from scenarios.app.study.dump import as_yaml

MOST_WARNINGS = 6
_DULL = ("{kind: always}", "{kind: none}", "{kind: all}")
"""kinds of parts that change nothing"""


def configuration(run: Run, more: Mapping[str, str] | None = None) -> Chapter:
    """Settings, channel card and the whole scenario; last on a page."""
    manifest = run.manifest
    pairs = {
        "seed": str(manifest.get("seed")),
        "command": str(manifest.get("command") or "not recorded"),
        "simulated span": period(manifest),
        **(parts_of(run) if more is None else more),
        **trace_facts(manifest.get("trace")),
        "versions": ", ".join(f"{k} {v}" for k, v in part(manifest, "versions").items()),
    }
    study = folded("The whole scenario, with every default", as_yaml(run.study))
    return Chapter("configuration", "Configuration", [facts(pairs), channel_card(manifest), study])


def parts_of(run: Run) -> dict[str, str]:
    """Rounds, UEs, and the parts of the method that are set."""
    world, learning = part(run.study, "world"), part(run.study, "learning")
    radio = {} if part(run.manifest, "channel_card") else part(world, "radio")
    slots = {**radio, **learning, "power": run.study.get("power"), "mobility": part(world, "ues", "mobility")}
    named = {name.replace("_", " "): flow(of) for name, of in slots.items() if isinstance(of, dict | list) and of}
    played, empty, held = (
        run.summary.get(k.of()) or 0 for k in (keys.ROUNDS_PLAYED, keys.ROUNDS_EMPTY, keys.ROUNDS_HELD_OUT)
    )
    return {
        "rounds": f"{played} played, {empty} without data, {held} with all data held out",
        "length of a round": span_text(run.manifest.get("round_s")),
        **{name: text for name, text in named.items() if text not in _DULL},
    }


def channel_card(manifest: Mapping[str, Any]) -> str:
    """Aspects of the radio and how they are modelled; and what is not."""
    aspects = {str(k): str(v) for k, v in part(manifest, "channel_card").items()}
    rest = aspects.pop("not modelled", "")
    left_out = [k for k, v in aspects.items() if v == "not modelled"] + [rest] * bool(rest)
    pairs = {k: v for k, v in aspects.items() if v != "not modelled"}
    pairs |= {"not modelled": ", ".join(left_out)} if left_out else {}
    return f"<h3>Channel card: what the radio models, and what it does not</h3>{facts(pairs)}" if pairs else ""


def run_warnings(manifest: Mapping[str, Any]) -> list[str]:
    """The first warnings of the run."""
    found = manifest.get("warnings")
    texts = [str(text) for text in found] if isinstance(found, list) else []
    more = len(texts) - MOST_WARNINGS
    return [*texts[:MOST_WARNINGS], *([f"{counted(more, 'more warning')} in manifest.json"] if more > 0 else [])]


def trace_facts(trace: Any) -> dict[str, str]:
    """What the manifest says of a trace; nothing without one."""
    if not isinstance(trace, dict):
        return {}
    counts = ", ".join(f"{k} {v}" for k, v in part(trace, "counts").items() if v)
    notes = "; ".join(map(str, trace.get("notes") or ()))
    return {"trace": f"{counts}; time zone {trace.get('timezone')}", "notes on the trace": notes or "none"}


def period(manifest: Mapping[str, Any]) -> str:
    """First and last moment of a run."""
    clock = clock_of(manifest)
    return f"{clock.text(0.0)} to {clock.text(manifest['duration_s'])}"


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
    model = model_line(of)
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

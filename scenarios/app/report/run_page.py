"""The page of a run: what is said above its figures, what it holds for, and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scenarios.app.report.figures.run import run_chapters
from scenarios.app.report.html import Chapter, card, facts, folded, headings, keyed_table, page, paragraphs, table
from scenarios.app.report.series import TimeGrid
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.over_seeds import Entry, blocks, value_text
from scenarios.app.results.run import Run, clock_of, part
from scenarios.app.results.statistics import MEANINGFUL, counted, figure_text
from scenarios.app.results.summary import with_home
from scenarios.app.results.summary_text import audits, home_text, made_estimates, model_text, named_text, verdict
from scenarios.app.study.dump import as_yaml

MOST_WARNINGS = 6


def single(run: Run) -> str:
    """The page of one run."""
    model = f"Model: {model_text(run.summary).rstrip('.')}."
    warnings, findings = ([], [model]) if run.summary.get(keys.USEFUL.of()) else ([model], [])
    warnings += run_warnings(run.manifest)
    top = (
        headings(run.manifest["title"], str(run.study.get("paper") or ""))
        + paragraphs(warnings, "warns")
        + paragraphs([*findings, *_findings(run)], "says")
    )
    return page(run.manifest["title"], top, [*run_chapters(run), _tables(run), configuration(run)])


def _tables(run: Run) -> Chapter:
    return Chapter("summary", "All figures", summary_tables(run))


def configuration(run: Run) -> Chapter:
    """The settings of a run, and what its radio models; last on the page."""
    rows, left_out = card_rows(run.manifest)
    channel = card("Channel card: what the radio models, and what it does not", rows, left_out)
    study = folded("The whole scenario, with every default", as_yaml(run.study))
    return Chapter("configuration", "Configuration", [facts(_facts(run)), channel, study])


def _findings(run: Run) -> list[str]:
    """What each attack found, and what privacy was spent, in sentences."""
    lines = []
    for name in run.attacks:
        clauses = (
            _error_clause(run, name), _named_clause(run, name), _home_clause(run, name), _sw1_clause(run, name),
        )  # fmt: skip
        lines.append(f"{name}: {'; '.join(c for c in clauses if c)}.")
    spent = (keys.EPSILON_MAX.name_in(key) for key in run.summary)
    lines += [_privacy_sentence(run, name) for name in spent if name is not None]
    for name in audits(run.summary):
        auc, low, high = (value_text(run.summary.get(k.of(name))) for k in (keys.AUC_LAST, keys.AUC_LOW, keys.AUC_HIGH))
        lines.append(f"{name}: membership AUC {auc} [{low}, {high}]; baseline: random guessing 0.5.")
    if run.summary.get(keys.ROUNDS_STOPPED.of()):
        lines.append("Training stopped because the next round would have exceeded the privacy budget.")
    return lines or ["No attack was run."]


def _privacy_sentence(run: Run, name: str) -> str:
    """The epsilon of the UE of an account that spent most, and what it holds for."""
    account = run.tables["privacy"]
    mine = np.array([m == name for m in account["mechanism"]], dtype=bool) & ~np.isnan(account["ue"])
    rows = {k: v[mine] for k, v in account.items()}
    if not mine.any():
        return f"{name} drew noise, but its privacy account is missing."
    worst = int(np.argmax(np.nan_to_num(rows["epsilon"], nan=np.inf)))
    row = {k: v[worst] for k, v in rows.items()}
    whom = "every UE" if row["ue"] < 0 else "the UE that spent most"
    accountants = ", ".join(f"{word} {figure_text(row[word.lower()])}" for word in ("naive", "zCDP", "RDP"))
    text = (
        f"{name} spent epsilon {figure_text(row['epsilon'])} at delta {row['delta']:g} of {whom} (unit {row['unit']}, "
        f"{row['relation']}; {row['accountant']} over {counted(int(row['draws']), 'draw')}; {accountants})"
    )
    if np.isfinite(row["with_channel"]):
        text += f", {figure_text(row['with_channel'])} if the channel's noise counts"
    if row["epsilon"] > MEANINGFUL:
        text += f"; above {MEANINGFUL:.0f} it is no meaningful guarantee"
    if row["ue"] < 0:
        text += "; it covers the published model, not what the server receives"
    return text + "."


def _error_clause(run: Run, name: str) -> str:
    """The centroid error of an attack, and how many of its estimates diverged."""
    median, diverged = (run.summary.get(key.of(name)) for key in (keys.ERROR_MEDIAN, keys.DIVERGED))
    if median is None and diverged is None:  # of one that only answers, the places that it names are told
        return "" if _named_clause(run, name) else "no estimate"
    lost = f"{value_text(diverged)} % of the estimates diverged"
    if median is None:
        return f"centroid error infinite (median), {lost}"
    n_ue = run.summary.get(keys.UES_COUNT.of()) or 1
    over = counted(run.summary.get(keys.ROUNDS_PLAYED.of()) or 0, "round") + (f" of {n_ue} UEs" if n_ue > 1 else "")
    text = f"centroid error {value_text(median)} m (median over {over})"
    return f"{text}, {lost}" if diverged else text


def _named_clause(run: Run, name: str) -> str:
    """Of how many UEs an attack names home and work at the end, beside chance; empty where none has any."""
    return "" if run.summary.get(keys.HOMES_COUNT.of(name)) is None else named_text(run.summary, name)


def _home_clause(run: Run, name: str) -> str:
    """How near home an attack came; empty where no attacked UE has one."""
    rows = run.rows("leakage", "attack", name)
    n = len(np.intersect1d(rows["ue"], with_home(run.tables["ues"])))
    if run.summary.get(keys.HOME_NEAR_PERCENT.of(name)) is None or not n or not made_estimates(run.summary, name):
        return ""
    return f"home: {home_text(run.summary, name)} ({counted(n, 'UE')} with a home)"


def _sw1_clause(run: Run, name: str) -> str:
    """Whether the estimates are better than random guesses, at the end and on average over UEs."""
    rows = run.rows("leakage", "attack", name)
    columns = ("sw1_m", "guess_sw1_m_q05", "guess_sw1_m_q95")
    if not all(np.isfinite(rows[c]).any() for c in columns):
        return ""
    grid = TimeGrid.of(rows)
    own, low, high = (float(np.nanmean(grid.so_far(c)[-1])) for c in columns)
    return (
        f"sliced Wasserstein distance {figure_text(own)} m, {verdict(own, low, high)} the same number of random "
        f"guesses ({figure_text(low)} to {figure_text(high)} m)"
    )


def _facts(run: Run) -> dict[str, str]:
    """The settings of the run, without those on the channel card."""
    manifest, study = run.manifest, run.study
    world, learning = part(study, "world"), part(study, "learning")
    threat = part(learning, "threat")
    played, empty, ues = (run.summary.get(k.of()) for k in (keys.ROUNDS_PLAYED, keys.ROUNDS_EMPTY, keys.UES_COUNT))
    return {
        "seed": str(manifest.get("seed")),
        "command": str(manifest.get("command") or "not recorded"),
        "simulated span": period(manifest),
        "rounds": f"{played} played, {empty} without data; one every {_span(manifest.get('round_s'))}",
        "UEs": f"{ues}, mobility {part(world, 'ues', 'mobility').get('kind')}",
        "power": _part_text(study.get("power")),
        **({} if part(manifest, "channel_card") else _radio_facts(run)),
        "data": _part_text(learning.get("data")),
        "learner": _part_text(learning.get("learner")),
        "curation": _part_text(learning.get("curation")),
        "defenses": _part_text(learning.get("defenses")),
        "aggregation": f"{_part_text(learning.get('aggregation'))}; server optimiser "
        f"{_part_text(learning.get('server_optimiser'))}; query policy {_part_text(learning.get('query'))}",
        "threat": f"{threat.get('viewpoint')}, sees {threat.get('sees')}",
        **trace_facts(manifest.get("trace")),
        "versions": ", ".join(f"{k} {v}" for k, v in part(manifest, "versions").items()),
    }


def _radio_facts(run: Run) -> dict[str, str]:
    """The radio of the study, for a run without a channel card."""
    parts = part(run.study, "world", "radio")
    shown = {"path loss": "path_loss", "shadowing": "shadowing", "uplink": "uplink"}
    return {"base stations": str(len(run.stations))} | {what: _part_text(parts.get(key)) for what, key in shown.items()}


def card_rows(manifest: Mapping[str, Any]) -> tuple[list[tuple[str, str]], str]:
    """Aspects and how they are modelled; and what is not."""
    aspects = {str(k): str(v) for k, v in part(manifest, "channel_card").items()}
    rest = aspects.pop("not modelled", "")
    left_out = [k for k, v in aspects.items() if v == "not modelled"]
    rows = [(k, v) for k, v in sorted(aspects.items(), key=_card_order) if k not in left_out]
    return rows, ", ".join([*left_out, *([rest] if rest else [])])


_CARD = (
    "carrier", "base stations", "path loss", "line of sight", "shadowing", "small-scale fading", "RSRP measurement",
    "serving cell", "presence", "uplink", "noise", "uplink interference", "downlink", "training", "delay and energy",
)  # fmt: skip


def _card_order(row: tuple[str, str]) -> tuple[int, str]:
    """From the carrier to the uplink; aspects unknown here come last, by name."""
    return (_CARD.index(row[0]) if row[0] in _CARD else len(_CARD)), row[0]


def run_warnings(manifest: Mapping[str, Any]) -> list[str]:
    """The first warnings of the run."""
    said = manifest.get("warnings")
    texts = [str(text) for text in said] if isinstance(said, list) else []
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


def _part_text(of: Any) -> str:
    """A part, or a list of parts, with its parameters in a line."""
    if isinstance(of, list):
        return "; ".join(map(_part_text, of)) or "none"
    if not isinstance(of, dict):
        return "none" if of is None else str(of)
    rest = ", ".join(f"{k} {v}" for k, v in of.items() if k != "kind" and v is not None)
    return f"{of.get('kind')}" + (f" ({rest})" if rest else "")


def _span(seconds: Any) -> str:
    """A length of time in the largest unit that leaves it whole."""
    if not isinstance(seconds, int | float):
        return "–"
    units = (("d", 86_400), ("h", 3600), ("min", 60))
    whole = [f"{seconds / size:g} {unit}" for unit, size in units if seconds >= size and seconds % size == 0]
    return whole[0] if whole else f"{seconds:g} s"


def summary_tables(run: Run) -> list[str]:
    """Every key with its meaning: those of the run, then a column for each attack, then each mechanism."""
    grouped, tables = blocks(list(run.summary)), []
    for group, title in (
        ("", "Summary"),
        ("attack", "Summary of each attack"),
        ("privacy", "Privacy spent"),
        ("membership", "Summary of each membership attack"),
    ):
        names = [name for kind, name in grouped if kind == group]
        names.sort(key=lambda name: run.attacks.index(name) if name in run.attacks else len(run.attacks))
        rows: dict[str, tuple[str, dict[str, str]]] = {}
        for name in names:
            for entry in grouped[group, name]:
                rows.setdefault(entry.label, (entry.meaning, {}))[1][name] = value_text(run.summary[entry.key])
        if rows:
            lines = [(label, says, [v.get(n, "–") for n in names]) for label, (says, v) in rows.items()]
            tables.append(keyed_table(title, [n or "value" for n in names], lines))
    return [*tables, *_metric_tables(run, grouped)]


def _metric_tables(run: Run, grouped: dict[tuple[str, str], list[Entry]]) -> list[str]:
    """A row for each metric of a part, a column for each of its statistics."""
    metrics = {name: entries for (group, name), entries in grouped.items() if group == "metric"}
    if not metrics:
        return []
    head = ["metric", *(f"{entry.label}: {entry.meaning}" for entry in next(iter(metrics.values())))]
    lines = [[name, *(value_text(run.summary[entry.key]) for entry in entries)] for name, entries in metrics.items()]
    return [table("Metrics of parts", head, lines)]

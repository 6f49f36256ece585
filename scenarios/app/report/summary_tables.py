"""All figures of a run's summary, in tables."""

from __future__ import annotations

from scenarios.app.report.html import Chapter, keyed_table, paragraphs, table
from scenarios.app.results.over_seeds import Entry, blocks, value_text
from scenarios.app.results.run import Run


def summary_chapter(run: Run) -> Chapter:
    """Every figure with its meaning."""
    return Chapter("summary", "All numbers", summary_tables(run))


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
                rows.setdefault(entry.label, (entry.meaning, {}))[1][name] = value_text(
                    run.summary[entry.key], entry.unit
                )
        if rows:
            lines = [(label, says, [v.get(n, "–") for n in names]) for label, (says, v) in rows.items()]
            tables.append(keyed_table(title, [n or "value" for n in names], lines))
    return [*tables, *_metric_tables(run, grouped)]


def _metric_tables(run: Run, grouped: dict[tuple[str, str], list[Entry]]) -> list[str]:
    """A row for each metric of a part, a column for each of its statistics."""
    metrics = {name: entries for (group, name), entries in grouped.items() if group == "metric"}
    if not metrics:
        return []
    statistics = next(iter(metrics.values()))
    head = ["metric", *(entry.label for entry in statistics)]
    lines = [[name, *(value_text(run.summary[entry.key]) for entry in entries)] for name, entries in metrics.items()]
    says = paragraphs([f"{entry.label}: {entry.meaning}" for entry in statistics], "says")
    return [table("Metrics of parts", head, lines, texts=(0,)), says]

"""The page of a radio study, and the page that compares several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scenarios.app.report.compare_charts import Member
from scenarios.app.report.compare_page import (
    COMPARED,
    all_variants,
    common_facts,
    loaded,
    outlines,
    studies_of,
    title_of,
    top,
)
from scenarios.app.report.compare_tables import differences_table, summary_chapter
from scenarios.app.report.figures.radio import compared, curves, distributions, radio
from scenarios.app.report.html import Cell, Chapter, facts, page, table
from scenarios.app.report.plot import looks
from scenarios.app.report.replay import SCRIPTS, STYLES, replay_chapter
from scenarios.app.report.run_page import run_top
from scenarios.app.report.settings import configuration, period, trace_facts
from scenarios.app.results.gathered import Gathered
from scenarios.app.results.run import Run
from scenarios.app.results.tables import RADIO_STUDY, SELECTIONS, SHOWN

MOST_PAIRS = 10  # of cells, in the table of handovers


def is_radio(manifest: Mapping[str, Any]) -> bool:
    """Whether a run is a radio study."""
    return manifest.get("kind") == RADIO_STUDY


def radio_single(run: Run) -> str:
    """The page of one radio study."""
    replay, data = replay_chapter(run)
    chapters = [replay, *radio_chapters(run), summary_chapter(run), configuration(run, _facts(run.manifest))]
    return page(run.manifest["title"], run_top(run), chapters, data, *((SCRIPTS, STYLES) if data else ()))


def radio_chapters(run: Run) -> list[Chapter]:
    """All figures and tables of a radio study by what they are about."""
    return [
        Chapter("samples", "What UEs receive", [distributions(run), _quantiles(run.summary), radio(run)]),
        Chapter("handover", "Handover", [_pairs(run)]),
    ]


def _facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The settings of the run, without those on the channel card."""
    texts = {name: str(manifest.get(name) or "not recorded") for name in ("seed", "command", "quantiles")}
    return {**texts, "simulated span": period(manifest), **trace_facts(manifest.get("trace"))}


def _quantiles(summary: Mapping[str, Any]) -> str:
    """A table of quantiles indoors and outdoors, where there are both; those of all samples head the page."""
    rows = list[list[Cell]]()
    for name, (word, unit, factor) in SHOWN.items():
        for selection in SELECTIONS[1:]:
            values = [summary.get(f"radio.{name}.{selection}.{end}") for end in ("q05", "median", "q95")]
            if None not in values:
                rows.append([f"{word} ({unit})", *(factor * value for value in values if value is not None), selection])
    return table("Quantiles", ["quantity", "5 %", "median", "95 %", "samples"], rows)


def _pairs(run: Run) -> str:
    """A table of the pairs of cells with the most handovers."""
    rows = run.rows("handovers")
    number = Counter(zip(map(str, rows["source"]), map(str, rows["target"]), strict=True))
    ordered = sorted(number.items(), key=lambda item: (-item[1], item[0]))[:MOST_PAIRS]
    cells: list[list[Cell]] = [[source, n, target] for (source, target), n in ordered]
    return table("Handovers between cells, the most frequent first", ["from", "handovers", "to"], cells)


def radio_comparison(of: Gathered, place: Path, command: str = "") -> str:
    """The page that compares radio studies; place: the folder in which the page will lie."""
    members, shown, of_labels = outlines(of), list[Member](), dict[str, list[dict[str, Any]]]()
    for label, run in loaded(of):
        shown.append(Member(label, run.manifest, run.summary, run.study, [], 0.0, {}))
        of_labels.setdefault(label, []).append(dict(curves(run)))
    chapters = [
        Chapter("figures", "Distributions", [compared(of_labels, looks(of_labels))]),
        all_variants(members, shown, place),
        Chapter("differences-all", "What differs", [differences_table(studies_of(shown))]),
        Chapter("configuration", "Configuration", [facts(common_facts(members, command))]),
    ]
    return page(title_of(of, members), top(of, members, shown, place), chapters, styles=COMPARED)

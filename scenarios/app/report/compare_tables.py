"""Tables of figures: the lines of a run, a row per label, every figure, and the keys in which studies differ."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.safe import what_is
from scenarios.app.report.html import Cell, Chapter, Link, Mark, folded_parts, paragraphs, table
from scenarios.app.results.adapted import HEAD, read_adapted
from scenarios.app.results.differences import differences
from scenarios.app.results.folder import MANIFEST, PAGE, read_json
from scenarios.app.results.over_seeds import blocks, cell_text, over_seeds
from scenarios.app.results.run import Run, Table
from scenarios.app.results.table import Line, Runs, lines, model_verdict
from scenarios.app.results.verdicts import AT_CHANCE, FOUND, INCONCLUSIVE, PREVENTED, is_useful, prevents

MOST_COLUMNS = 16  # labels that are columns of a table of settings; more are its rows
VERDICTS = (
    "Found: the whole 95 % interval of the attack is better than chance. At chance: it is not, and ends near chance. "
    "Inconclusive: neither, often for want of UEs or seeds. Prevented: at chance, with a useful model. Good: model "
    "error at most 0.7 x the constant's. Useful: better than a constant."
)
"""below a table with verdicts"""
Listed = Sequence[tuple[str, Path]]
"""labels and folders of runs"""


def verdict_mark(verdict: str) -> Mark:
    """A verdict in a word, and in colour."""
    if verdict in ("", INCONCLUSIVE):
        return Mark(verdict, kind="open" if verdict else "")
    return Mark(verdict, kind="held" if is_useful(verdict) or verdict in (AT_CHANCE, PREVENTED) else "not-held")


def lines_table(of: Sequence[Line]) -> str:
    """The table of results: what, value, and what is known of baseline, verdict and attack."""
    model = model_verdict(of)
    columns: dict[str, list[Cell]] = {
        "measure": [x.title for x in of],
        "result": [Mark(x.result, x.value) for x in of],
        "baseline": [x.baseline for x in of],
        "verdict": [verdict_mark(prevents(x.verdict, model)) if x.verdict else "" for x in of],
        "attack": [x.attack for x in of],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    says = [VERDICTS] if "verdict" in columns else []
    return table("Results", [*columns], zip(*columns.values(), strict=True)) + paragraphs(says, "says")


def leading(of: Sequence[Line]) -> Line | None:
    """The line of leakage that matters most: what was found, homes and workplaces before distances."""
    attacked = [line for line in of if line.attack]
    return min(attacked, key=lambda line: (line.verdict != FOUND, line.n == 0, not line.verdict), default=None)


def model_line(of: Sequence[Line]) -> Line | None:
    """The line of the model; None where nothing was held out."""
    return next((line for line in of if line.key.startswith("utility.")), None)


def in_words(line: Line) -> str:
    """`Found: homes within 100 m 39/40 (chance 1.7 %), by span`."""
    head = f"{line.verdict}: ".capitalize() if line.verdict else ""
    unit = "" if line.n or not line.unit else f" {line.unit}"
    by = f", by {line.attack}" if line.attack else ""
    return f"{head}{line.what} {line.result}{unit}" + (f" ({line.baseline})" if line.baseline else "") + by


def variants_table(labels: Mapping[str, Runs], runs: Listed, place: Path) -> str:
    """The lines of every label as a row, with links to the pages of its runs; place: the folder of this page."""
    found = {label: {line.what: line for line in lines(of)} for label, of in labels.items()}
    every = {what: line for of in found.values() for what, line in of.items()}
    rows: list[list[Cell]] = []
    for label, own in found.items():
        model = model_verdict([*own.values()])
        leaks = [prevents(line.verdict, model) for line in own.values() if line.attack and line.verdict]
        worst = next((v for v in (FOUND, INCONCLUSIVE, AT_CHANCE, PREVENTED) if v in leaks), "")
        attacks = ", ".join(dict.fromkeys(line.attack for line in own.values() if line.attack))
        figures = [Mark(own[what].result, own[what].value) if what in own else np.nan for what in every]
        pages = _pages([path for name, path in runs if name == label], place)
        rows.append([label, *figures, verdict_mark(worst), verdict_mark(model), attacks, pages])
    heads = ["variant", *(line.title for line in every.values()), "leakage", "model", "attack", "seeds"]
    base = [f"Baselines, {line.title}: {line.baseline}." for line in every.values() if line.baseline]
    return table("Main figures of every variant", heads, rows, "variants") + paragraphs([*base, VERDICTS], "says")


def records_table(title: str, rows: Table) -> str:
    """Rows of a record table as they are."""
    return table(title, [name.replace("_", " ") for name in rows], zip(*rows.values(), strict=True))


def adapted_table(folder: Path) -> str:
    """The attackers that a sweep tuned for its rows; empty where it tuned none, or the folder is not a sweep's."""
    rows, note = read_adapted(folder)
    cells = [list(row.values()) for row in rows]
    return table("Adapted attackers", HEAD, cells) + paragraphs([note] if rows else [], "says")


def _pages(folders: Sequence[Path], place: Path) -> Cell:
    """The seeds of runs, as links where their pages are drawn."""
    seeds = [str(read_json(folder / MANIFEST).get("seed")) for folder in folders]
    if not all(what_is(folder / PAGE) == "file" for folder in folders):
        return ", ".join(seeds)
    return [Link(seed, os.path.relpath(folder / PAGE, place)) for seed, folder in zip(seeds, folders, strict=True)]


def summary_chapter(run: Run) -> Chapter:
    """Every figure of a run with its meaning."""
    return Chapter("summary", "All numbers", [figures_table({"value": [run.summary]})])


def figures_table(labels: Mapping[str, Runs]) -> str:
    """Every figure: a row per key, a column per label; it opens on a click."""
    every = dict.fromkeys(key for of in labels.values() for run in of for key in run)
    entries = [entry for block in blocks([*every]).values() for entry in block]
    rows: list[list[Cell]] = [
        [e.key, *(Mark(cell_text(of, e.key), over_seeds(of, e.key)[1]) for of in labels.values()), e.meaning]
        for e in entries
    ]
    title = f"Every figure: median [quartiles] over seeds, {len(rows)} keys"
    return folded_parts(title, table(title, ["key", *labels, "what it says"], rows, "every-figure"))


def differences_table(studies: Mapping[str, Mapping[str, Any]]) -> str:
    """The keys in which the studies of labels differ; what is not as with the first label is marked."""
    found, labels = differences(list(studies.values())), list(studies)
    if not found:
        return ""
    rows: list[list[Cell]] = [
        [d.path, *(Mark(text if k == 0 or changed else "same", kind="changed" if changed else "")
                   for k, (text, changed) in enumerate(zip(d.texts, d.changed, strict=True)))]
        for d in found
    ]  # fmt: skip
    head = ["key", *labels]
    if len(labels) > MOST_COLUMNS:
        head, *rows = map(list, zip(["variant", *labels], *rows, strict=True))
    return table(f"What differs from “{labels[0]}”", head, rows, "differences")

"""The tables of a comparison: a row per label, every figure, and the keys in which the studies differ."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netsim.safe import what_is
from scenarios.app.report.html import Cell, Link, Mark, folded_parts, paragraphs, table
from scenarios.app.results.adapted import HEAD, read_adapted
from scenarios.app.results.differences import differences
from scenarios.app.results.folder import MANIFEST, PAGE, read_json
from scenarios.app.results.glance import sentence
from scenarios.app.results.over_seeds import blocks, cell_text, meaning, over_seeds
from scenarios.app.results.standing import Runs, measure_of, utility
from scenarios.app.results.summary_keys import declaration
from scenarios.app.results.sweep_table import Cell as Figure
from scenarios.app.results.sweep_table import sweep_table

MOST_COLUMNS = 16  # labels that are columns of a table of settings; more are its rows

Listed = Sequence[tuple[str, Path]]
"""labels and folders of runs"""


def variants_table(labels: Mapping[str, Runs], runs: Listed, place: Path) -> str:
    """The main figures: a row per label, with links to the pages of its runs; place: the folder of this page."""
    of = sweep_table([(label, run) for label, every in labels.items() for run in every])
    measured = measure_of(labels)
    found = {} if measured is None else measured[1]
    heads = ["variant", *(" ".join(c.head).strip() for c in of.columns)]
    rows: list[list[Cell]] = []
    for label, cells in of.rows.items():
        model = utility(labels[label])
        rows.append(
            [
                label, *map(_mark, cells),
                _word(label in found, label in found and found[label].prevented, "at chance", "above"),
                _word(model is not None, model is not None and model.kept, "kept", "lost"),
                of.attacks[label], _pages([path for name, path in runs if name == label], place),
            ]
        )  # fmt: skip
    for name, cells in of.chances:
        rows.append([name, *map(_mark, cells), "", "", "", ""])
    heads += ["leakage", "model", "attack", "seeds"]
    texts = (0, *range(len(of.columns) + 1, len(heads)))
    kept = [i for i in range(len(heads)) if i == 0 or any(_filled(row[i]) for row in rows)]
    shown = [[row[i] for i in kept] for row in rows]
    notes = [sentence(of.note.strip("()")), *_notes(heads, kept)]
    words = [kept.index(i) for i in texts if i in kept]
    return table("Main figures of every variant", [heads[i] for i in kept], shown, "variants", words) + paragraphs(
        notes, "says"
    )


def adapted_table(folder: Path) -> str:
    """The attackers that a sweep tuned for its rows; empty where it tuned none, or the folder is not a sweep's."""
    rows, note = read_adapted(folder)
    cells = [list(row.values()) for row in rows]
    return table("Adapted attackers", HEAD, cells, texts=(*range(4), -1)) + paragraphs([note], "says") if rows else ""


def _mark(of: Figure) -> Mark:
    """A figure, its range below it."""
    return Mark(f"{of.mean} [{of.span}]" if of.span else of.mean, of.value)


def _notes(heads: Sequence[str], kept: Sequence[int]) -> list[str]:
    """What the words of the table mean."""
    says = {
        "leakage": "Leakage is at chance where no attack finds more than chance does: at most five points above its "
        "share of homes, with an interval (Wilson, 95 %) that reaches it, or positions no nearer than those of "
        "guesses, or an AUC whose difference to that before training has an interval that reaches 0.",
        "model": "A model is kept where it is better than a constant.",
        "attack": "Attack: the strongest, which the figures of the row are of.",
    }
    return [says[heads[i]] for i in kept if heads[i] in says]


def _filled(cell: Cell) -> bool:
    return bool(cell.text) if isinstance(cell, Mark) else bool(cell)


def _word(known: bool, good: bool, yes: str, no: str) -> Mark:
    """A verdict in a word, and in colour."""
    return Mark((yes if good else no) if known else "", kind=("held" if good else "not-held") if known else "")


def _pages(folders: Sequence[Path], place: Path) -> Cell:
    """The seeds of runs, as links where their pages are drawn."""
    links: list[Link] = []
    texts: list[str] = []
    for folder in folders:
        seed = str(read_json(folder / MANIFEST).get("seed"))
        texts.append(seed)
        if what_is(folder / PAGE) == "file":
            links.append(Link(seed, os.path.relpath(folder / PAGE, place)))
    return links if len(links) == len(texts) else ", ".join(texts)


def figures_table(labels: Mapping[str, Runs]) -> str:
    """Every figure that some run has: a row per key, a column per label; it opens on a click."""
    known = [key for key in _every(labels) if any(run.get(key) is not None for of in labels.values() for run in of)]
    entries = [entry for block in blocks(known).values() for entry in block]
    rows: list[list[Cell]] = [
        [e.key, *(Mark(cell_text(of, e.key), over_seeds(of, e.key)[1]) for of in labels.values()), _meaning(e.key)]
        for e in entries
    ]
    title = "Every figure: median [quartiles] over seeds"
    return folded_parts(
        f"{title}, {len(rows)} keys", table(title, ["key", *labels, "what it says"], rows, "every-figure")
    )


def _every(labels: Mapping[str, Runs]) -> list[str]:
    return list(dict.fromkeys(key for of in labels.values() for run in of for key in run))


def _meaning(key: str) -> str:
    declared = declaration(key)
    return "" if declared is None else meaning(declared)


def differences_table(studies: Mapping[str, Mapping[str, Any]]) -> str:
    """The keys in which the studies of labels differ; what is not as with the first label is marked."""
    found, labels = differences(list(studies.values())), list(studies)
    if not found:
        return ""
    title = f"What differs from “{labels[0]}”"
    cells = [
        [
            Mark(text if k == 0 or changed else "same", kind="changed" if changed else "")
            for k, (text, changed) in enumerate(zip(d.texts, d.changed, strict=True))
        ]
        for d in found
    ]
    if len(labels) <= MOST_COLUMNS:
        rows: list[list[Cell]] = [[d.path, *row] for d, row in zip(found, cells, strict=True)]
        return table(title, ["key", *labels], rows, "differences", range(len(labels) + 1))
    rows = [[label, *(row[k] for row in cells)] for k, label in enumerate(labels)]
    return table(title, ["variant", *(d.path for d in found)], rows, "differences", range(len(found) + 1))

"""What a folder says, made once: terminal, page head and JSON only lay it out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path

from netsim.errors import counted
from netsim.notice import Notice
from netsim.safe import what_is
from scenarios.app.results.folder import PAGE, STUDY, LabelledRuns, read_json, record_of
from scenarios.app.results.gathered import Gathered
from scenarios.app.results.goals import FRESH, HONEST, NO_WINNER, read_tuned
from scenarios.app.results.read import Run, part
from scenarios.app.results.shown import (
    HEAD,
    answers,
    compared,
    headline,
    labels_of,
    played,
    read_adapted,
)
from scenarios.app.results.statistics import figure_text
from scenarios.app.results.table import (
    AT_CHANCE,
    FOUND,
    GROUPS,
    INCONCLUSIVE,
    PREVENTED,
    Line,
    is_useful,
    lines,
    model_verdict,
    row,
    together,
)
from scenarios.app.study import Fields
from scenarios.app.study.describe import flow
from scenarios.app.study.notice import notice


@dataclass(frozen=True)
class Mark:
    """A cell that sorts by a value (NaN: last), or whose meaning shows in its look as well as in
    its words.

    kind : class in the style sheet; `word`: words of TERMS in it are explained. aside : after the
    text, where there is room. verdict : below the text, in its look. links : texts, and the files
    beside the page to which they lead.
    """

    text: str = ""
    value: float | None = None
    kind: str = ""
    verdict: str = ""
    links: Sequence[tuple[str, str]] = ()
    aside: str = ""

    @property
    def sorts(self) -> str | None:
        """The value for the script that sorts; empty for NaN."""
        if self.value is None:
            return None
        if isnan(self.value):
            return ""
        return f"{self.value:.9g}".replace("inf", "Infinity")


Cell = str | float | Mark
"""what stands in a cell of a table"""
Cells = list[list[Cell]]
"""rows of them"""


def mark_of(cell: Cell) -> Mark:
    """A cell with its look; a number is written with three digits."""
    if isinstance(cell, Mark):
        return cell
    if isinstance(cell, str):
        return Mark(cell)
    return Mark(figure_text(cell), cell)


@dataclass(frozen=True)
class TableOf:
    """A table of an outcome.

    key : with one a page can filter its rows. narrow : how many of the first columns a terminal
    keeps. drops : of them it leaves out those that do not fit, and names them. foot : baselines of
    each column. notes : below it. as_lines : a terminal writes a sentence for each row, since cells
    are long.
    """

    title: str
    heads: Sequence[str]
    rows: Cells
    key: str = ""
    narrow: int = 99
    drops: bool = False
    foot: Sequence[Mapping[str, str]] = ()
    notes: Sequence[str] = ()
    as_lines: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a folder says. kind : as events call it. scope : what it stands on. values : of its
    event.

    answers : what is asked, and the sentence that answers it.
    """

    kind: str
    title: str
    answers: Sequence[tuple[str, str]] = ()
    notices: Sequence[Notice] = ()
    tables: Sequence[TableOf] = ()
    facts: dict[str, str] = field(default_factory=dict)
    scope: str = ""
    values: Fields = field(default_factory=dict)


# -- a run


def run_outcome(run: Run) -> Outcome:
    """Of a run, or of a radio study."""
    summary = run.summary
    manifest = run.manifest
    of = lines([summary])
    learning = part(run.study, "learning")
    each = [
        *filter(
            None, (leading(lines([summary], name)) for name in run.attacks if len(run.attacks) > 1)
        )
    ]
    return Outcome(
        "radio" if manifest.radio else "run",
        manifest.title,
        headline(of, learning, summary),
        manifest.notices,
        [figures("Results", of), figures("Every attack, by its strongest result", each, 0)],
        {name: text for name in GROUPS if (text := row([summary], name))},
        played(summary) if learning else "",
        {"seed": manifest.seed, "summary": summary},
    )


def leading(of: Sequence[Line]) -> Line | None:
    """The line of leakage that matters most: what was found, homes and workplaces before
    distances.
    """
    attacked = [line for line in of if line.attack]
    return min(
        attacked,
        key=lambda line: (line.verdict != FOUND, line.n == 0, not line.verdict),
        default=None,
    )


def figures(title: str, of: Sequence[Line], narrow: int = 99) -> TableOf:
    """A row for each line."""
    is_radio = of and of[0].key.startswith("radio.")
    heads = [
        "",
        "median [5 %, 95 % of samples]" if is_radio else "result",
        "baseline",
        "verdict",
        "attack",
    ]
    rows: Cells = [
        [
            Mark(one.title, kind="word"),
            Mark(one.result, one.value),
            one.baseline,
            verdict_mark(one),
            one.attack,
        ]
        for one in of
    ]
    return TableOf(title, heads, rows, narrow=narrow)


def verdict_mark(of: Line) -> Mark:
    """The verdict in a word, and in colour."""
    good = is_useful(of.verdict) or of.verdict in (AT_CHANCE, PREVENTED)
    kind = "open" if of.verdict == INCONCLUSIVE else "held" if good else "not-held"
    return Mark(of.told, kind=kind if of.verdict else "")


# -- several runs


def runs_outcome(
    of: Gathered, place: Path, kind: str = "comparison", values: Fields | None = None
) -> Outcome:
    """Of a sweep, or of runs side by side. place : the folder of the page, in which sweep.json lies
    if there is one.
    """
    every = compared(labels_of(of.summaries))
    scope = f"{counted(len(of.runs), 'run')} of {counted(len(every), 'variant')}"
    rows, note = read_adapted(place)
    return Outcome(
        kind,
        of.title,
        answers(every),
        [*(notice("runs-compared", text=text) for text in of.said), *useless(every)],
        [
            variants(every, of.runs, place),
            *searched(place),
            TableOf(
                "Adapted attackers",
                HEAD,
                [[*each.values()] for each in rows],
                as_lines=True,
                notes=[note],
            ),
        ],
        scope=scope,
        values=values or {},
    )


def useless(every: Mapping[str, Sequence[Line]]) -> list[Notice]:
    """A warning of labels whose models are not useful."""
    bad = [
        f"“{label}”"
        for label, of in every.items()
        if (verdict := model_verdict(of)) and not is_useful(verdict)
    ]
    if bad:
        return [notice("models-not-useful", labels=", ".join(bad))]
    return []


def variants(of: Mapping[str, Sequence[Line]], runs: LabelledRuns, place: Path) -> TableOf:
    """A row for each label: its lines, the attacks that find most, and seeds, which lead to the
    pages of its runs.

    The model, the shares and epsilon come first, and what has no verdict last.
    """
    columns: dict[str, list[Line]] = {}
    for line in (line for own in of.values() for line in own):
        columns.setdefault(line.title, []).append(line)
    joined = {title: together(found) for title, found in columns.items()}
    judged = {
        title
        for title, found in columns.items()
        if any(one.verdict or not one.attack for one in found)
    }
    first = {
        title
        for title, (one, _) in joined.items()
        if one.n or one.key.startswith(("utility.", "privacy."))
    }
    heads = sorted(columns, key=lambda title: (title not in judged, title not in first))
    absent: dict[str, Cell] = {
        title: Mark("none", nan) if "privacy." in one.key else nan
        for title, (one, _) in joined.items()
    }
    rows: Cells = []
    for label, own in of.items():
        found = absent | {line.title: _judged(line, joined[line.title][1]) for line in own}
        folders = [path for name, path in runs if name == label]
        attacks = dict.fromkeys(line.attack for line in own if line.attack)
        rows.append(
            [label, *map(found.__getitem__, heads), ", ".join(attacks), _pages(folders, place)]
        )
    foot = [joined[title][0].baselines for title in heads]
    heads = ["variant", *heads, "attack", "seeds"]
    return TableOf(
        "Main figures of every variant", heads, rows, "variants", 1 + len(judged), True, foot
    )


def _judged(of: Line, own_chance: bool) -> Mark:
    """A figure with its verdict below it, and with its own chance where labels differ in it."""
    below = ", ".join(filter(None, [of.told, of.chance * own_chance]))
    return Mark(of.figure, of.value, verdict_mark(of).kind, below, aside=of.interval)


def _pages(folders: Sequence[Path], place: Path) -> Mark:
    """The seeds of runs, as links where their pages are drawn."""
    seeds = [str(read_json(record_of(folder)).get("seed")) for folder in folders]
    if not all(what_is(folder / PAGE) == "file" for folder in folders):
        return Mark(", ".join(seeds))
    return Mark(
        links=[
            (seed, os.path.relpath(of / PAGE, place))
            for seed, of in zip(seeds, folders, strict=True)
        ]
    )


def searched(folder: Path) -> list[TableOf]:
    """The trials of a search, the best first, and the importance of settings; nothing of another
    sweep.
    """
    of = read_tuned(folder)
    if of is None:
        return []
    trials = [trial for trial in of.trials if not trial.label.endswith(FRESH)]
    finished = sum(trial.failed is None for trial in trials)
    notes = [
        f"{counted(len(trials), 'trial')}, {finished} finished; "
        f"{counted(len(trials[0].seeds), 'seed')} each"
    ]
    known = sorted(
        (trial for trial in of.trials if trial.values),
        key=lambda trial: trial.folder not in of.best,
    )
    rows: Cells = [
        [trial.label, *map(Mark, trial.texts, map(trial.mean, trial.values)), of.state(trial)]
        for trial in known
    ]
    if of.best:
        notes += [
            HONEST,
            f"{of.best[0]}: {flow(known[0].settings)}; its scenario: "
            f"{folder}/{of.best[0]}/seed-*/{STUDY}",
        ]
    else:
        notes.append(NO_WINNER)
    names = dict.fromkeys(name for shares in of.importance.values() for name in shares)
    shares: Cells = [[name, *(each[name] for each in of.importance.values())] for name in names]
    title = "Importance: share of the variance over trials that a setting explains"
    return [
        TableOf("Trials", ["trial", *of.heads], rows, "trials", notes=notes),
        TableOf(title, ["setting", *of.importance], shares, narrow=0),
    ]

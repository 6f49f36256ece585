"""The page that compares runs: the answer, privacy against utility, curves over time, tables, what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.record import write_text
from netsim.safe import what_is
from netsim.units import FloatArray
from scenarios.app.report.charts import ACCURACY, HOME, RMSE, Law, Quantity
from scenarios.app.report.compare_charts import (
    Member,
    attack_panels,
    labels_of,
    member,
    over_time,
    time_unit,
    tradeoff_panel,
)
from scenarios.app.report.compare_tables import (
    MOST_COLUMNS,
    adapted_table,
    differences_table,
    figures_table,
    in_words,
    leading,
    model_line,
    variants_table,
)
from scenarios.app.report.html import Cell, Chapter, Mark, answers, facts, headings, page, paragraphs, table
from scenarios.app.report.maps import density_chapter
from scenarios.app.report.plot import Panel
from scenarios.app.report.settings import period
from scenarios.app.report.tuning_page import draws_panels
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.drawn import drawn_sentence
from scenarios.app.results.folder import MANIFEST, STUDY, read_json
from scenarios.app.results.gathered import Gathered
from scenarios.app.results.read import SWEEP, load
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import carried, counted, figure_text, half_width
from scenarios.app.results.table import Line, Runs, lines, mean, model_verdict
from scenarios.app.results.time_to import Goal, goal_of
from scenarios.app.results.tradeoff import MATCHED_CSV, matched_csv
from scenarios.app.results.verdicts import AT_CHANCE, FOUND, PREVENTED, USELESS, is_useful
from scenarios.app.study.yaml_document import one_line, read

COMPARED = ("compare.css",)
"""the style sheet of these pages"""
MOST_NAMED = 5  # labels in a sentence


def comparison(of: Gathered, place: Path, command: str = "", reach: float | None = None) -> str:
    """The page of runs that learn.

    place : the folder in which the page will lie. reach : RMSE (dB) or accuracy (%) whose first time is shown.
    """
    members, densities = outlines(of), keys.RANK_CORRELATION.key in of.summaries[0][1]
    # runs of densities are many: their tables are left unread
    shown = outlines(of, studies=True) if densities else [member(label, run) for label, run in loaded(of)]
    labels = labels_of(shown)
    strongest = {label: one.attack if (one := leading(lines(runs))) else "" for label, runs in labels.items()}
    lasting = reach is not None or any(keys.UPLOADS_COUNT.of() in summary for _, summary in of.summaries)
    settings = [(m.label, m.study, m.summary) for m in shown]
    over: list[str | Panel] = [time_table(shown, strongest, reach) if lasting else ""]
    over += [] if densities else over_time(shown, strongest)
    chapters = [
        Chapter("tradeoffs", "Privacy and utility",
                [tradeoff_panel(labels_of(members), of.trials), *draws_panels(place, settings)]),
        density_chapter(of.runs, [m.summary for m in members]),
        Chapter("time", "Over time", over),
        all_variants(members, shown, place),
        Chapter("differences-all", "What differs", [differences_table(studies_of(shown))]),
        Chapter("attacks", "Attack by attack", attack_panels(shown)),
        Chapter("configuration", "Configuration", [facts(common_facts(members, command))]),
    ]  # fmt: skip
    return page(title_of(of, members), top(of, members, shown, place), chapters, styles=COMPARED)


def loaded(of: Gathered) -> Iterator[tuple[str, Run]]:
    """Label and run of those that are drawn, one at a time: tables are large. Runs of a label share a study."""
    studies: dict[str, dict[str, Any]] = {}
    for label, path in (of.runs[place] for place in of.drawn):
        run = load(path, studies.get(label))
        studies.setdefault(label, run.study)
        yield label, run


def outlines(of: Gathered, studies: bool = False) -> list[Member]:
    """All runs, by their manifests and summaries alone; studies: those that are drawn, with their studies."""
    every = [
        Member(label, read_json(path / MANIFEST), summary, {}, [], 0.0, {})
        for (label, path), (_, summary) in zip(of.runs, of.summaries, strict=True)
    ]
    read_once = cache(lambda label: read(dict(reversed(of.runs))[label] / STUDY).data)
    return [replace(every[k], study=read_once(every[k].label)) for k in of.drawn] if studies else every


def all_variants(members: Sequence[Member], shown: Sequence[Member], place: Path) -> Chapter:
    """Every figure of the labels that are drawn, and the attackers that were tuned for them."""
    labels = labels_of(members)
    columns = {label: labels[label] for label in labels_of(shown)}
    return Chapter("variants-all", "All numbers", [adapted_table(place), figures_table(columns)])


def keep_tables(folder: Path, of: Gathered) -> None:
    """The table of matched privacy, beside the page of a sweep."""
    path = folder / MATCHED_CSV
    if of.trials and keys.RANK_CORRELATION.key not in of.summaries[0][1]:
        try:
            write_text(path, matched_csv(of.trials))
        except OSError as error:
            raise BadInput(one_line(f"{path}: cannot be written ({error.strerror})")) from None


def answer(labels: Mapping[str, Runs]) -> list[tuple[str, str]]:
    """What leaks, which labels prevent it, and how good the models are."""
    found = {label: lines(runs) for label, runs in labels.items()}
    leaks = {label: one for label, of in found.items() if (one := leading(of)) is not None}
    models = {label: one for label, of in found.items() if (one := model_line(of)) is not None}
    most = [label for label, one in leaks.items() if one.verdict == FOUND]
    good = [label for label, one in leaks.items() if one.verdict in (AT_CHANCE, PREVENTED)]
    useful = [label for label, one in models.items() if is_useful(one.verdict)]
    costs = dict.fromkeys([*list(models)[:1], *(label for label in good[:MOST_NAMED] if label in models)])
    rows = [
        (f"Leakage: found with {len(most)} of {counted(len(leaks), 'variant')}", in_each(leaks, list(leaks)[:1])),
        ("At chance with", ", ".join(f"“{label}”" for label in good[:MOST_NAMED]) or "none of them"),
        (f"Model: useful with {len(useful)} of {counted(len(models), 'variant')}", in_each(models, list(costs))),
    ]
    return [*rows[: 2 * bool(leaks)], *rows[2 : 2 + bool(models)]]


def in_each(of: Mapping[str, Line], labels: Sequence[str]) -> str:
    """The lines of some labels in a sentence."""
    return "; ".join(f"“{label}”: {in_words(of[label])}" for label in labels)


def top(of: Gathered, members: Sequence[Member], shown: Sequence[Member], place: Path) -> str:
    """The first section: title, answer, what is missing or means little, the main figures of all labels.

    shown : the runs that are drawn. place : the folder of the page.
    """
    labels = labels_of(members)
    papers = dict.fromkeys(str(m.study.get("paper")) for m in shown if m.study.get("paper"))
    warnings = [*of.said, *drawn_sentence([m.label for m in members], of.drawn), *useless(labels)]
    return (
        headings(title_of(of, members), "; ".join([*papers, counted(len(members), "run")]))
        + answers(answer(labels))
        + paragraphs(warnings, "warns")
        + variants_table(labels, of.runs, place)
    )


def title_of(of: Gathered, members: Sequence[Member]) -> str:
    """The title that all runs share, or else the names of what is compared."""
    titles = list(dict.fromkeys(str(m.manifest.get("title")) for m in members))
    return titles[0] if len(titles) == 1 else f"Comparison of {of.name}"


def studies_of(members: Sequence[Member]) -> dict[str, Mapping[str, Any]]:
    """Label -> the study of its first run."""
    first = {m.label: m.study for m in reversed(members)}
    return {label: first[label] for label in labels_of(members)}


def useless(labels: Mapping[str, Runs]) -> list[str]:
    """A warning of labels whose models are not useful."""
    verdicts = {label: model_verdict(lines(runs)) for label, runs in labels.items()}
    bad = [f"“{label}”" for label, verdict in verdicts.items() if verdict and not is_useful(verdict)]
    return [f"The model is not useful with {', '.join(bad)}. {USELESS}"] if bad else []


def common_facts(members: Sequence[Member], command: str = "") -> dict[str, str]:
    """The settings of all runs; command: the one that played or compared them."""

    def all_of(values: Iterable[object]) -> str:
        return ", ".join(dict.fromkeys(map(str, values)))

    labels = list(labels_of(members))
    return {
        "runs": str(len(members)),
        "labels": all_of(labels) if len(labels) <= MOST_COLUMNS else f"{len(labels)}, see the table",
        "seeds": all_of(m.manifest.get("seed") for m in members),
        "command": command or all_of(m.manifest.get("command") or "not recorded" for m in members),
        "simulated span": all_of(period(m.manifest) for m in members),
        "pages of single runs": "the option --pages draws them too, and this page then leads to them",
    }


def command_of(folder: Path) -> str:
    """The command that played a sweep, with its arguments; empty where an older one did not record it."""
    found = read_json(folder / SWEEP).get("command") if what_is(folder / SWEEP) else None
    return found if isinstance(found, str) else ""


# -- how soon models are good

_GOALS: tuple[tuple[Quantity, str, bool, str], ...] = (
    (RMSE, "an RMSE of at most", True, keys.CONSTANT_RMSE.of()),
    (ACCURACY, "an accuracy of at least", False, keys.CONSTANT_ACCURACY.of()),
)
"""quantity, the goal in words, whether smaller is better, and the measure of a constant"""


def no_goal(reach: float) -> BadInput:
    """The error for runs without a measure."""
    return BadInput(f"--reach {reach:g}: none of these runs has an RMSE in dB or an accuracy in %; leave it out")


def time_table(members: Sequence[Member], attack: Mapping[str, str], reach: float | None = None) -> str:
    """A row per label: the time to the goal, and the homes that are named by then; empty without a goal.

    reach : the goal; None: what the worst run ends with. Raises BadInput where no run has a measure of it.
    """
    unit, second = time_unit(members)
    for quantity, word, smaller, constant in _GOALS:
        ends = [_latest(m, "", quantity.law, np.inf) for m in members]
        goal = goal_of(ends, [mean([m.summary], constant) for m in members], smaller)
        if goal is None:
            continue
        goal = goal if reach is None else Goal(reach, smaller)
        named = any(len(m.trends.get((attack[m.label], HOME.law), _NEVER)[0]) for m in members)
        rows: list[list[Cell]] = []
        for label in labels_of(members):
            own = [m for m in members if m.label == label]
            times_s = [goal.first_s(*m.trends["", quantity.law]) for m in own]
            homes = [_latest(m, attack[label], HOME.law, t) for m, t in zip(own, times_s, strict=True)]
            known = np.isfinite(times_s)
            cells = [_between(np.array(times_s)[known] / second), f"{known.sum()} of {len(own)}"]
            rows.append([label, *cells, *([_between(np.array(homes)[known])] if named else [])])
        says = "Simulated time until the server first has such a model: mean over the seeds that reach it, with a 95 % "
        says += "interval (Student's t)."
        if reach is None:
            says += " The goal is what the worst run ends with, of those that are better than a constant if any are."
        heads = ["variant", f"time to it ({unit})", "seeds that reach it", *["homes named by then (%)"] * named]
        title = f"Time to {word} {figure_text(goal.value)} {quantity.unit}"
        return table(title, heads, rows, "times") + paragraphs([says], "says")
    if reach is not None:
        raise no_goal(reach)
    return ""


_NEVER = np.zeros(0), np.zeros(0)


def _latest(member: Member, attack: str, law: Law, time_s: float) -> float:
    """The value of a trend at a time; NaN where there is none yet, and at no time."""
    times_s, values = member.trends.get((attack, law), _NEVER)
    at = int(np.searchsorted(times_s, time_s, side="right")) - 1
    return float(carried(values[:, None])[at, 0]) if at >= 0 and not np.isnan(time_s) else np.nan


def _between(values: FloatArray) -> Cell:
    """A mean of the known values, with its 95 % interval where there are several."""
    known = values[np.isfinite(values)]
    if len(known) < 2:
        return float(known[0]) if len(known) else np.nan
    return Mark(f"{figure_text(known.mean())} ± {figure_text(half_width(known))}", known.mean())

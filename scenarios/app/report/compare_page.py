"""The page that compares runs: the answer, privacy against utility, curves over time, tables, what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.record import write_text
from netsim.safe import what_is
from scenarios.app.report.compare_tables import (
    MOST_COLUMNS,
    adapted_table,
    differences_table,
    figures_table,
    variants_table,
)
from scenarios.app.report.density_page import (
    TRADEOFF_CSV,
    band_sentences,
    density_panels,
    of_densities,
    tradeoff_csv,
    tradeoff_table,
    without_curves,
)
from scenarios.app.report.figures.compare import comparison_panels
from scenarios.app.report.figures.draws import draws_panels
from scenarios.app.report.figures.member import Member, labels_of, member
from scenarios.app.report.figures.points import points_panel
from scenarios.app.report.figures.tradeoff import matched_table, tradeoff_panels
from scenarios.app.report.html import Chapter, answers, facts, headings, page, paragraphs
from scenarios.app.report.plot import Panel
from scenarios.app.report.settings import period
from scenarios.app.report.time_table import no_goal, time_table
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.comparison_text import answer
from scenarios.app.results.drawn import drawn_sentence
from scenarios.app.results.folder import MANIFEST, STUDY, read_json
from scenarios.app.results.gathered import Gathered
from scenarios.app.results.glance import attacker
from scenarios.app.results.model_text import USELESS
from scenarios.app.results.read import SWEEP, load
from scenarios.app.results.run import Run
from scenarios.app.results.standing import Runs
from scenarios.app.results.statistics import counted
from scenarios.app.results.tradeoff import MATCHED_CSV, matched_csv, matched_rows, sentences
from scenarios.app.study.yaml_document import one_line, read

COMPARED = ("compare.css",)
"""the style sheet of these pages"""


def comparison(of: Gathered, place: Path, command: str = "", reach: float | None = None) -> str:
    """The page of runs that learn.

    place : the folder in which the page will lie. reach : RMSE (dB) or accuracy (%) whose first time is told.
    """
    if of_densities(of.runs):
        if reach is not None:
            raise no_goal(reach)
        return _densities(of, place, command)
    merged = reach is not None or any(keys.UPLOADS_COUNT.of() in summary for _, summary in of.summaries)
    shown = [member(label, run, merged) for label, run in loaded(of)]
    members = outlines(of)
    attacks = list(dict.fromkeys(name for m in shown for name in m.attacks))
    labels, rows = labels_of(members), matched_rows(of.trials)
    figures = comparison_panels(shown, attacks, merged)
    times = [time_table(shown, reach)] if merged else []
    chapters = [
        Chapter(
            "tradeoffs",
            "Privacy and utility",
            [*draws_panels(place), *_tradeoff(of, labels, attacks), *([matched_table(rows)] if rows else [])],
        ),
        Chapter("time", "Over time", [*times, *figures.over_time]),
        all_variants(of, members, shown, place),
        Chapter("differences-all", "What differs", [differences_table(studies_of(shown))]),
        Chapter("attacks", "Attack by attack", figures.attacks),
        Chapter("configuration", "Configuration", [facts(common_facts(members, command))]),
    ]
    return page(title_of(of, members), top(of, members, shown, sentences(of.trials)), chapters, styles=COMPARED)


def loaded(of: Gathered) -> Iterator[tuple[str, Run]]:
    """Label and run of those that are drawn, one at a time: tables are large. Runs of a label share a study."""
    studies: dict[str, dict[str, Any]] = {}
    for label, path in (of.runs[place] for place in of.drawn):
        run = load(path, studies.get(label))
        studies.setdefault(label, run.study)
        yield label, run


def outlines(of: Gathered) -> list[Member]:
    """All runs, by their manifests and summaries alone."""
    return [
        Member(label, read_json(path / MANIFEST), summary, {}, [], 0.0, {})
        for (label, path), (_, summary) in zip(of.runs, of.summaries, strict=True)
    ]


def all_variants(of: Gathered, members: Sequence[Member], shown: Sequence[Member], place: Path) -> Chapter:
    """The tables of all labels, and of every figure of those that are drawn."""
    labels = labels_of(members)
    columns = {label: labels[label] for label in labels_of(shown)}
    tables = [variants_table(labels, of.runs, place), adapted_table(place), figures_table(columns)]
    return Chapter("variants-all", "All variants", tables)


def _tradeoff(of: Gathered, labels: Mapping[str, Runs], attacks: Sequence[str]) -> list[Panel]:
    """Privacy against utility: curves of a sweep; points where there are none, or where homes are named."""
    if not attacks:
        return []
    curves = tradeoff_panels(of.trials) if of.trials else []
    named = any(
        run.get(keys.HOME_NAMED_PERCENT.of(a)) is not None for r in labels.values() for run in r for a in attacks
    )
    return curves if not named and any(p.figure for p in curves) else [points_panel(labels), *curves]


def _densities(of: Gathered, place: Path, command: str) -> str:
    """The page of runs that learned densities: they are many, and their tables are left unread."""
    members = outlines(of)
    studies: dict[str, dict[str, Any]] = {}
    for label, path in (of.runs[place] for place in of.drawn):
        if label not in studies:
            studies[label] = read(path / STUDY).data
    shown = [replace(members[k], study=studies[members[k].label]) for k in of.drawn]
    trials = of.trials or without_curves(of.runs)
    chapters = [
        Chapter("tradeoffs", "Privacy and utility", [*density_panels(trials, of.runs), tradeoff_table(trials)]),
        all_variants(of, members, shown, place),
        Chapter("differences-all", "What differs", [differences_table(studies_of(shown))]),
        Chapter("configuration", "Configuration", [facts(common_facts(members, command))]),
    ]
    header = top(of, members, shown, band_sentences([m.summary for m in members]))
    return page(title_of(of, members), header, chapters, styles=COMPARED)


def keep_tables(folder: Path, of: Gathered) -> None:
    """The tables of the trade-off, beside the page of a sweep."""
    if of.runs and not of.radio and of_densities(of.runs):
        _keep(folder / TRADEOFF_CSV, tradeoff_csv(of.trials or without_curves(of.runs)))
    elif of.trials:
        _keep(folder / MATCHED_CSV, matched_csv(matched_rows(of.trials)))


def _keep(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise BadInput(one_line(f"{path}: cannot be written ({error.strerror})")) from None


def top(of: Gathered, members: Sequence[Member], shown: Sequence[Member], says: Sequence[str] = ()) -> str:
    """The first section: title, answer, what is missing or means little; shown: the runs that are drawn."""
    labels = labels_of(members)
    papers = dict.fromkeys(str(m.study.get("paper")) for m in shown if m.study.get("paper"))
    warnings = [
        *of.said,
        *drawn_sentence([m.label for m in members], of.drawn),
        *_kinds(members),
        *_useless_sentence(labels),
    ]
    return (
        headings(title_of(of, members), "; ".join(papers))
        + answers(answer(labels, attacker(shown[0].study)))
        + paragraphs(warnings, "warns")
        + paragraphs(says, "says")
    )


def title_of(of: Gathered, members: Sequence[Member]) -> str:
    """The title that all runs share, or else the names of what is compared."""
    titles = list(dict.fromkeys(str(m.manifest.get("title")) for m in members))
    return titles[0] if len(titles) == 1 else f"Comparison of {of.name}"


def studies_of(members: Sequence[Member]) -> dict[str, Mapping[str, Any]]:
    """Label -> the study of its first run."""
    first = {m.label: m.study for m in reversed(members)}
    return {label: first[label] for label in labels_of(members)}


_KINDS = {"signal maps": keys.RMSE, "classifiers": keys.ACCURACY, "densities": keys.RANK_CORRELATION}


def _kinds(members: Sequence[Member]) -> list[str]:
    """What is said of models whose utility has no common figure."""
    kinds = {
        kind: list(dict.fromkeys(f"“{m.label}”" for m in members if key.of() in m.summary))
        for kind, key in _KINDS.items()
    }
    found = [f"{kind}: {', '.join(labels)}" for kind, labels in kinds.items() if labels]
    return [f"The models are of several kinds, whose utility has no common figure: {'; '.join(found)}."] * (
        len(found) > 1
    )


def _useless_sentence(labels: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """The labels whose models are not useful."""
    useless = {label: (sum(not run.get(keys.USEFUL.of()) for run in of), len(of)) for label, of in labels.items()}
    learned = any(keys.USEFUL.of() in run for of in labels.values() for run in of)
    counts = [f"{k} of {counted(n, 'run')} with “{label}”" for label, (k, n) in useless.items() if k and learned]
    return [f"The model is NOT useful in {', '.join(counts)}. {USELESS}"] if counts else []


def common_facts(members: Sequence[Member], command: str = "") -> dict[str, str]:
    """The settings of all runs; command: the one that played or compared them."""

    def all_of(values: Sequence[str]) -> str:
        return ", ".join(dict.fromkeys(values))

    labels = list(labels_of(members))
    return {
        "runs": str(len(members)),
        "labels": all_of(labels) if len(labels) <= MOST_COLUMNS else f"{len(labels)}, see the table",
        "seeds": all_of([str(m.manifest.get("seed")) for m in members]),
        "command": command or all_of([str(m.manifest.get("command") or "not recorded") for m in members]),
        "simulated span": all_of([period(m.manifest) for m in members]),
        "pages of single runs": "the option --pages draws them too, and this page then leads to them",
    }


def command_of(folder: Path) -> str:
    """The command that played a sweep, with its arguments; empty where an older one did not record it."""
    said = read_json(folder / SWEEP).get("command") if what_is(folder / SWEEP) else None
    return said if isinstance(said, str) else ""

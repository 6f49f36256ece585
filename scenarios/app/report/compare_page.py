"""The page that compares runs: what is said above its figures, and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.record import write_text
from netsim.safe import what_is
from scenarios.app.report.density_page import (
    TRADEOFF_CSV,
    band_sentences,
    density_panels,
    of_densities,
    tradeoff_csv,
    tradeoff_table,
    without_curves,
)
from scenarios.app.report.figures.compare import Member, comparison_panels, labels_of, member
from scenarios.app.report.figures.tradeoff import matched_table, tradeoff_panels
from scenarios.app.report.html import Chapter, facts, headings, keyed_table, page, paragraphs
from scenarios.app.report.settings import period
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.folder import MANIFEST, STUDY, SUMMARY, read_json, read_summary
from scenarios.app.results.over_seeds import blocks, cell_text, over_seeds
from scenarios.app.results.read import listed, load
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.summary_text import USELESS
from scenarios.app.results.summary_text import attacks as attack_names
from scenarios.app.results.tradeoff import MATCHED_CSV, Trial, matched_csv, matched_rows, read_trials, sentences
from scenarios.app.study.yaml_document import one_line, read

MOST_COLUMNS = 16  # labels that a table has room for
_MAIN = {  # what a comparison shows
    key.pattern
    for key in (
        keys.RMSE, keys.CONSTANT_RMSE, keys.RAW_UPLOAD_RMSE, keys.USEFUL, keys.ACCURACY, keys.PERFECT_SW1,
        keys.GUESS_SW1, keys.GUESS_SW1_Q05, keys.UPDATES_DECODED, keys.UPLINK_SINR, keys.UPLINK_LATENCY,
        keys.UPLINK_ENERGY, keys.UPLINK_NOISE, keys.UPLINK_HANDOVERS, keys.ERROR_MEDIAN, keys.ERROR_FIRST_ROUND,
        keys.SELECTED_ERROR, keys.DIVERGED, keys.SW1, keys.SMOOTHED_ERROR, keys.HOME_MEDIAN, keys.HOME_MIN,
        keys.GUESS_HOME, keys.HOME_NAMED_MEDIAN, keys.HOME_NAMED_MIN, keys.HOME_NAMED_PERCENT, keys.HOME_NAMED_ROUND,
        keys.WORK_NAMED_PERCENT, keys.BOTH_NAMED_PERCENT, keys.FIRST_NAMED_PERCENT, *keys.SHUFFLED, *keys.UNIFORM,
        *keys.OTHERS, keys.RANK_CORRELATION,
        keys.TRUTH_RANK_CORRELATION, keys.KDE_TRUTH_RANK_CORRELATION, keys.KDE_RMSE, keys.ANYWHERE_ERROR,
        keys.PLACE_ERROR, keys.PLACES, keys.STEP_ERROR, keys.STEP_NO_MOTION, keys.STEP_EXACT, keys.WALK_ERROR,
        keys.WALK_NO_MOTION, keys.HOME_NEAR_PERCENT, keys.NAMED_EVER_PERCENT, keys.EPSILON_MAX, keys.METRIC_MEAN,
        keys.METRIC_STD, keys.RADIO_SAMPLES, keys.RADIO_INDOOR, keys.RADIO_LOS, *keys.RADIO_QUANTITIES,
        keys.HANDOVER_COUNT, keys.HANDOVER_RATE,
    )
}  # fmt: skip


def comparison(folder: Path) -> str:
    """The page of a folder with several runs; of a sweep with curves it writes matched_privacy.csv beside it."""
    every = listed(folder)
    done = [(label, path) for label, path in every if what_is(path / SUMMARY)]
    if not done:
        raise BadInput(one_line(f"{folder}: no finished run among {counted(len(every), 'run')}; start them again"))
    trials = read_trials(folder)  # of a sweep whose variants have curves
    if of_densities(done):
        return _densities(folder, done, trials or without_curves(done), len(every))
    members = [member(label, load(path)) for label, path in done]  # one at a time: tables are large
    attacks = list(dict.fromkeys(name for m in members for name in m.attacks))
    panels = comparison_panels(members, attacks, points=not trials) + (tradeoff_panels(trials) if trials else [])
    rows = matched_rows(trials)
    titles = list(dict.fromkeys(m.manifest["title"] for m in members))
    papers = list(dict.fromkeys(str(m.study.get("paper")) for m in members if m.study.get("paper")))
    missing = left_out(len(done), len(every))
    header = (
        headings(titles[0] if len(titles) == 1 else folder.resolve().name, "; ".join(papers))
        + paragraphs([*missing, *_useless_sentence(members)], "warns")
        + paragraphs([*_compared(members, attacks), *sentences(trials)], "says")
    )
    tables = comparison_tables(members)
    if trials:
        _keep(folder / MATCHED_CSV, matched_csv(rows))
    matched = [matched_table(rows)] if rows else []
    chapters = [
        Chapter("figures", "Figures", panels),
        Chapter("summary", "All figures", [*matched, *tables]),
        Chapter("configuration", "Configuration", [facts(common_facts(members))]),
    ]
    return page(titles[0], header, chapters)


def _densities(folder: Path, done: Sequence[tuple[str, Path]], trials: Sequence[Trial], runs: int) -> str:
    """The page of a sweep of densities: its runs are many, and their tables are left unread."""
    members = [
        Member(label, read_json(path / MANIFEST), read_summary(path), read(path / STUDY).data, [], 0.0, {})
        for label, path in done
    ]
    attacks = list(dict.fromkeys(name for m in members for name in attack_names(m.summary)))
    panels = density_panels(trials, done)
    title, papers = members[0].manifest["title"], dict.fromkeys(str(m.study.get("paper") or "") for m in members)
    missing = left_out(len(done), runs)
    header = (
        headings(title, "; ".join(p for p in papers if p))
        + paragraphs([*missing, *_useless_sentence(members)], "warns")
        + paragraphs([*_compared(members, attacks), *band_sentences([m.summary for m in members])], "says")
    )
    _keep(folder / TRADEOFF_CSV, tradeoff_csv(trials))
    few = comparison_tables(members) if len(labels_of(members)) <= MOST_COLUMNS else []
    chapters = [
        Chapter("figures", "Figures", panels),
        Chapter("summary", "All figures", [tradeoff_table(trials), *few]),
        Chapter("configuration", "Configuration", [facts(common_facts(members))]),
    ]
    return page(title, header, chapters)


def left_out(done: int, runs: int) -> list[str]:
    """What is said of runs that are not finished."""
    missing = runs - done
    return [f"{missing} of {counted(runs, 'run')} {'is' if missing == 1 else 'are'} not finished and left out."] * (
        missing > 0
    )


def _keep(path: Path, text: str) -> None:
    """A table beside the page."""
    try:
        write_text(path, text)
    except OSError as error:
        raise BadInput(one_line(f"{path}: cannot be written ({error.strerror})")) from None


def _compared(members: Sequence[Member], attacks: Sequence[str]) -> list[str]:
    """For each attack the label with the smallest and the one with the largest centroid error."""
    labels, lines = labels_of(members), []
    for name in attacks:
        key = keys.ERROR_MEDIAN.of(name)
        median = {label: over_seeds(runs, key)[1] for label, runs in labels.items()}
        known = {label: value for label, value in median.items() if not np.isnan(value)}
        lines += (named := _named_sentence(labels, name))
        if not known:
            lines += [] if named else [f"{name}: no estimate in any run."]
            continue
        near, far = min(known, key=lambda k: known[k]), max(known, key=lambda k: known[k])
        lines.append(
            f"{name}: the median centroid error is smallest with “{near}” ({figure_text(known[near])} m) and largest "
            f"with “{far}” ({figure_text(known[far])} m)."
            if near != far
            else f"{name}: the median centroid error is {figure_text(known[near])} m with every label."
        )
    return lines


def _named_sentence(labels: Mapping[str, Sequence[Mapping[str, Any]]], name: str) -> list[str]:
    """The label with which an attack names the most homes, and that with the fewest; nothing without homes."""
    share = {label: over_seeds(runs, keys.HOME_NAMED_PERCENT.of(name))[1] for label, runs in labels.items()}
    known = {label: value for label, value in share.items() if not np.isnan(value)}
    if not known:
        return []
    most, fewest = max(known, key=lambda k: known[k]), min(known, key=lambda k: known[k])
    if known[most] == known[fewest]:
        return [f"{name}: {figure_text(known[most])} % of homes are named at the end with every label."]
    return [
        f"{name}: most homes are named at the end with “{most}” ({figure_text(known[most])} %), fewest with “{fewest}” "
        f"({figure_text(known[fewest])} %)."
    ]


def _useless_sentence(members: Sequence[Member]) -> list[str]:
    """The labels whose models are not useful."""
    useless = {
        label: (sum(not run.get(keys.USEFUL.of()) for run in runs), len(runs))
        for label, runs in labels_of(members).items()
    }
    counts = [f"{k} of {counted(n, 'run')} with “{label}”" for label, (k, n) in useless.items() if k]
    if not counts:
        return []
    return [f"The model is NOT useful in {', '.join(counts)}. {USELESS}"]


def common_facts(members: Sequence[Member]) -> dict[str, str]:
    """The settings of all runs."""

    def all_of(values: Sequence[str]) -> str:
        return ", ".join(dict.fromkeys(values))

    labels = list(labels_of(members))
    return {
        "runs": str(len(members)),
        "labels": all_of(labels) if len(labels) <= MOST_COLUMNS else f"{len(labels)}, see the table",
        "seeds": all_of([str(m.manifest.get("seed")) for m in members]),
        "command": all_of([str(m.manifest.get("command") or "not recorded") for m in members]),
        "simulated span": all_of([period(m.manifest) for m in members]),
        "page of one run": "netsim report FOLDER, with the folder of that run, draws its map and all its figures",
    }


def comparison_tables(members: Sequence[Member], first: str = "Utility and baselines") -> list[str]:
    """The main keys: a row each, a column per label; a table for utility and one for each attack and mechanism.

    first : title of the table of keys without a name.
    """
    labels = labels_of(members)
    every = list(dict.fromkeys(key for m in members for key in m.summary))
    idle = {key for key in every if key.startswith("uplink.") and not any(m.summary.get(key) for m in members)}
    tables = []
    for (group, name), entries in blocks([key for key in every if key not in idle]).items():
        rows = [
            (entry.label, entry.meaning, [cell_text(runs, entry.key) for runs in labels.values()])
            for entry in entries
            if entry.pattern in _MAIN
        ]
        titles = {"": first, "attack": f"Attack {name}", "metric": f"Metric {name}"}
        if rows:
            title = titles.get(group, f"Privacy spent by {name}")
            tables.append(keyed_table(f"{title}: median [quartiles] over seeds", list(labels), rows))
    return tables

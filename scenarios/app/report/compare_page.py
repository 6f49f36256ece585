"""The page that compares runs: what is said above its figures, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from netsim.errors import BadInput
from netsim.record import write_text
from netsim.safe import what_is
from scenarios.app.report.density_page import (
    TRADE_OFF,
    band_words,
    density_panels,
    of_densities,
    trade_off_csv,
    trade_off_table,
    unplaced,
)
from scenarios.app.report.figures.compare import Member, comparison_panels, labels_of, member
from scenarios.app.report.figures.tradeoff import exchange_panels, exchange_table
from scenarios.app.report.html import facts, headings, keyed_table, page, paragraphs, section
from scenarios.app.report.run_page import period
from scenarios.app.results.folder import MANIFEST, STUDY, SUMMARY, read_json
from scenarios.app.results.over_seeds import blocks, cell_text, over_seeds
from scenarios.app.results.read import listed, load
from scenarios.app.results.statistics import figure_text
from scenarios.app.results.summary_text import USELESS
from scenarios.app.results.summary_text import attacks as attack_names
from scenarios.app.results.tradeoff import EXCHANGE, Trial, exchange_csv, exchange_rows, sentences, trials
from scenarios.app.study.yaml_document import one_line, read

MOST_COLUMNS = 16  # labels that a table has room for
_MAIN = (  # the keys that a comparison shows, without those of one attack or mechanism
    "utility.rmse_db", "utility.constant_rmse_db", "utility.raw_upload_rmse_db", "utility.useful",
    "utility.accuracy_percent",
    "baseline.floor.sw1_m", "baseline.random_guess.sw1_m", "baseline.random_guess.sw1_low_m",
    "updates.decoded_percent", "uplink.sinr_db.median", "uplink.delay_s.median", "uplink.energy_j",
    "uplink.noise_std.median", "uplink.handovers", "centroid_error_m.median", "centroid_error_m.first_round",
    "selected_error_m.median", "diverged_percent", "sw1_m", "smoothed_error_m", "home_m", "home_worst_m",
    "guess_home_m", "home_named_m", "home_named_worst_m",
    "utility.rank_correlation", "utility.truth_rank_correlation", "utility.kde_truth_rank_correlation",
    "utility.kde_rmse", "baseline.anywhere.error_m", "place_error_m", "places_mean", "step_error_m", "step_still_m",
    "step_exact_percent", "walk_error_m", "walk_still_m",
    "home_within_100m_probability", "home_named_100m_probability", "epsilon_max", "last20_mean", "last20_std",
)  # fmt: skip


def comparison(folder: Path) -> str:
    """The page of a folder with several runs; of a sweep with curves it writes exchange.csv beside it."""
    every = listed(folder)
    done = [(label, path) for label, path in every if what_is(path / SUMMARY)]
    if not done:
        raise BadInput(one_line(f"{folder}: none of its {len(every)} runs is finished; start them again"))
    found = trials(folder)  # of a sweep whose variants stand on curves
    if of_densities(done):
        return _densities(folder, done, found or unplaced(done), len(every))
    members = [member(label, load(path)) for label, path in done]  # one at a time: tables are large
    attacks = list(dict.fromkeys(name for m in members for name in m.attacks))
    panels = comparison_panels(members, attacks, points=not found) + (exchange_panels(found) if found else [])
    rows = exchange_rows(found)
    titles = list(dict.fromkeys(m.manifest["title"] for m in members))
    papers = list(dict.fromkeys(str(m.study.get("paper")) for m in members if m.study.get("paper")))
    missing = len(every) - len(done)
    left_out = [f"{missing} of {len(every)} runs are not finished and left out."] if missing else []
    header = (
        headings(titles[0] if len(titles) == 1 else folder.resolve().name, "; ".join(papers))
        + paragraphs([*left_out, *_useless_words(members)], "warns")
        + paragraphs([*_compared(members, attacks), *sentences(found)], "says")
        + facts(_common_facts(members))
    )
    tables = _comparison_tables(members)
    if found:
        _keep(folder / EXCHANGE, exchange_csv(rows))
    matched = [exchange_table(rows)] if rows else []
    return page(titles[0], header, [*tables[:1], *map(section, panels), *matched, *tables[1:]], panels)


def _densities(folder: Path, done: Sequence[tuple[str, Path]], found: Sequence[Trial], runs: int) -> str:
    """The page of a sweep of densities: its runs are many, and their tables are left unread."""
    members = [
        Member(label, read_json(path / MANIFEST), read_json(path / SUMMARY), read(path / STUDY).data, [], 0.0, {})
        for label, path in done
    ]
    attacks = list(dict.fromkeys(name for m in members for name in attack_names(m.summary)))
    panels = density_panels(found, done)
    title, papers = members[0].manifest["title"], dict.fromkeys(str(m.study.get("paper") or "") for m in members)
    left_out = [f"{runs - len(done)} of {runs} runs are not finished and left out."] if len(done) < runs else []
    header = (
        headings(title, "; ".join(p for p in papers if p))
        + paragraphs([*left_out, *_useless_words(members)], "warns")
        + paragraphs([*_compared(members, attacks), *band_words([m.summary for m in members])], "says")
        + facts(_common_facts(members))
    )
    _keep(folder / TRADE_OFF, trade_off_csv(found))
    few = _comparison_tables(members) if len(labels_of(members)) <= MOST_COLUMNS else []
    return page(title, header, [trade_off_table(found), *map(section, panels), *few], panels)


def _keep(path: Path, text: str) -> None:
    """A table beside the page."""
    try:
        write_text(path, text)
    except OSError as error:
        raise BadInput(one_line(f"{path}: cannot be written ({error.strerror})")) from None


def _compared(members: Sequence[Member], attacks: Sequence[str]) -> list[str]:
    """Which label gives most away, and which model is of use."""
    labels, said = labels_of(members), []
    for name in attacks:
        key = f"attack.{name}.centroid_error_m.median"
        median = {label: over_seeds(runs, key)[1] for label, runs in labels.items()}
        known = {label: value for label, value in median.items() if not np.isnan(value)}
        if not known:
            said.append(f"{name}: nothing was estimated in any run.")
            continue
        near, far = min(known, key=lambda k: known[k]), max(known, key=lambda k: known[k])
        said.append(
            f"{name}: the batch centroid is found best with “{near}” ({figure_text(known[near])} m, median) and "
            f"worst with “{far}” ({figure_text(known[far])} m)."
            if near != far
            else f"{name}: the batch centroid is found to within {figure_text(known[near])} m (median) everywhere."
        )
    return said


def _useless_words(members: Sequence[Member]) -> list[str]:
    """Where low leakage proves nothing."""
    useless = {
        label: (sum(not run.get("utility.useful") for run in runs), len(runs))
        for label, runs in labels_of(members).items()
    }
    told = [f"{k} of {n} with “{label}”" for label, (k, n) in useless.items() if k]
    if not told:
        return []
    return [f"The model is NOT useful in {', '.join(told)}: {USELESS}."]


def _common_facts(members: Sequence[Member]) -> dict[str, str]:
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


def _comparison_tables(members: Sequence[Member]) -> list[str]:
    """Main figures: a row each, a column per label; a table for utility and one for each attack and mechanism."""
    labels = labels_of(members)
    keys = list(dict.fromkeys(key for m in members for key in m.summary))
    found = []
    for (kind, name), block in blocks(keys).items():
        rows = [
            (what, says, [cell_text(runs, key) for runs in labels.values()])
            for key, what, says in block
            if what in _MAIN and not (key.startswith("uplink.") and not any(m.summary.get(key) for m in members))
        ]
        title = {"": "In short: utility and references", "attack": f"In short: {name}", "figure": f"Figure {name}"}.get(
            kind, f"Spent: {name}"
        )
        if rows:
            found.append(keyed_table(f"{title}, median [quartiles] over seeds", list(labels), rows))
    return found

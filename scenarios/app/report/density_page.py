"""The page of a sweep of densities: figures, and a table with a row per label."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from netsim.record import cell_text
from scenarios.app.report.figures.density import (
    PRETTY,
    Measured,
    gain_panel,
    gains,
    map_panels,
    measured,
    tradeoff_panel,
)  # fmt: skip
from scenarios.app.report.html import Cell, Mark, table
from scenarios.app.report.plot import Panel
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import attacks
from scenarios.app.results.folder import STUDY, read_summary
from scenarios.app.results.model_text import is_density
from scenarios.app.results.run import part
from scenarios.app.results.statistics import counted, figure_text, interval_text
from scenarios.app.results.surfaces import Surfaces, read_surfaces
from scenarios.app.results.tradeoff import Trial, curves
from scenarios.app.study.yaml_document import read

TRADEOFF_CSV = "tradeoff.csv"

Done = Sequence[tuple[str, Path]]
"""Labels and folders of the finished runs of a sweep."""


def of_densities(done: Done) -> bool:
    """Whether all runs learned densities."""
    return all(is_density(read_summary(path)) for _, path in done)


def without_curves(done: Done) -> list[Trial]:
    """The runs of a sweep without curves."""
    return [Trial(label, "", np.nan, read_summary(path)) for label, path in done]


def band_sentences(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lemma 3 at the bandwidths in use."""
    keyed = [keys.METRIC_LAST.of(f"query.{name}") for name in ("bands", "bands_probability")]
    pairs = sorted({(_number(s, keyed[0]), _number(s, keyed[1])) for s in summaries if s.get(keyed[1]) is not None})
    texts = [f"{counted(int(bands), 'band')} with probability {figure_text(p)}" for bands, p in pairs]
    return [f"At the largest requested bandwidth, Lemma 3 gives across the area: {'; '.join(texts)}."] if texts else []


def density_panels(trials: Sequence[Trial], done: Done) -> list[Panel]:
    """Utility against privacy, the gain of each further wave, answers and maps."""
    named = _naming(trials)
    panels = [tradeoff_panel(measured(trials, name), name) for name in named]
    panels += [gain_panel(measured(trials, name)) for name in named]
    return [*panels, *map_panels(_shown(done))]


def _naming(trials: Sequence[Trial]) -> list[str]:
    """Attacks that name places."""
    every = dict.fromkeys(name for t in trials for name in attacks(t.summary))
    return [name for name in every if any(t.summary.get(keys.PLACE_ERROR.of(name)) is not None for t in trials)]


def _shown(done: Done) -> list[tuple[str, Surfaces]]:
    """The first run of every number of features that the paper shows, or else the first of four labels.

    Of a sweep over numbers of UEs those with most are taken.
    """
    first: dict[str, Path] = {}
    for label, path in done:
        first.setdefault(label, path)
    about = {label: read(path / STUDY).data for label, path in first.items()}
    count = {label: part(study, "world", "ues").get("count") or 0 for label, study in about.items()}
    most = [label for label in first if count[label] == max(count.values())]
    features = {label: part(about[label], "learning", "learner").get("n_features") for label in most}
    bare = [label for label in most if not part(about[label], "learning").get("curation")]
    pretty = [label for b in PRETTY for label in bare if features[label] == b]
    chosen = list(dict.fromkeys(pretty))[:4] if len(pretty) > 1 else most[:4]
    return [(label, s) for label in chosen if (s := read_surfaces(first[label]))]


HEAD = (
    "label", "runs", "rank correlation", "with the exact kernel", "place error Z, m", "centroid error, m", "gain per km"
)  # fmt: skip


def tradeoff_rows(trials: Sequence[Trial]) -> list[list[Cell]]:
    """Rows of the table: medians with quartiles; gain: rank correlation per km of Z, against the first point."""
    names = _naming(trials)
    points = measured(trials, names[0] if names else "")
    gain = {p.label: g for of in curves(points).values() for p, g in zip(of, gains(of), strict=True)}
    return [_row(p, float(gain.get(p.label, np.nan))) for p in points]


def _row(p: Measured, gain: float) -> list[Cell]:
    values = ((p.utility, ""), (p.with_exact, ""), (p.place_error_m, "m"), (p.centroid_error_m, "m"))
    runs = float(len(p.summaries))
    figures = [Mark(interval_text(of, unit), of[1]) for of, unit in values]
    return [p.label, Mark(figure_text(runs), runs), *figures, Mark(figure_text(gain), gain)]


def tradeoff_table(trials: Sequence[Trial]) -> str:
    """As a section of the page."""
    return table("Utility and privacy of every label", HEAD, tradeoff_rows(trials), texts=(0,))


def tradeoff_csv(trials: Sequence[Trial]) -> str:
    """The same as CSV, medians only, with the place error of a constant answer."""
    names = _naming(trials)
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["label", "curve", "strength", "runs", "rank_correlation", "kde_rank_correlation", "place_error_m",
         "centroid_error_m", "anywhere_error_m"]
    )  # fmt: skip
    for p in measured(trials, names[0] if names else ""):
        constant_m = np.median([_number(s, keys.ANYWHERE_ERROR.of()) for s in p.summaries])
        medians = [of[1] for of in (p.utility, p.with_exact, p.place_error_m, p.centroid_error_m)]
        cells = [p.label, p.curve, p.strength, len(p.summaries), *medians, float(constant_m)]
        writer.writerow([cell_text(cell) for cell in cells])
    return out.getvalue()


def _number(summary: Mapping[str, Any], key: str) -> float:
    value = summary.get(key)
    return np.nan if value is None else float(value)

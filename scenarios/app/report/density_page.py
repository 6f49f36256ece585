"""What the page of a sweep of densities holds: pictures, and a table with a row a label."""

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
    curves_of,
    exchange_panel,
    gain_panel,
    gains,
    map_panels,
    measured,
)  # fmt: skip
from scenarios.app.report.html import table
from scenarios.app.report.plot import Panel
from scenarios.app.results.folder import STUDY, SUMMARY, read_json
from scenarios.app.results.run import part
from scenarios.app.results.statistics import figure_text
from scenarios.app.results.summary_text import attacks
from scenarios.app.results.surfaces import Surfaces, read_surfaces
from scenarios.app.results.tradeoff import Quartiles, Trial
from scenarios.app.study.yaml_document import read

TRADE_OFF = "trade-off.csv"
KEY = "utility.rank_correlation"

Done = Sequence[tuple[str, Path]]
"""Labels and folders of the finished runs of a sweep."""


def of_densities(done: Done) -> bool:
    """Whether all runs learnt densities."""
    return all(KEY in read_json(path / SUMMARY) for _, path in done)


def unplaced(done: Done) -> list[Trial]:
    """The runs of a sweep without curves."""
    return [Trial(label, "", np.nan, read_json(path / SUMMARY)) for label, path in done]


def band_words(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What Lemma 3 says of the bandwidths in use."""
    keys = ("figure.query.bands.last", "figure.query.bands_probability.last")
    found = sorted({(_number(s, keys[0]), _number(s, keys[1])) for s in summaries if s.get(keys[1]) is not None})
    said = [f"{bands:.0f} bands with probability {figure_text(p)}" for bands, p in found]
    return [f"At the largest bandwidth asked for, Lemma 3 gives across the area: {'; '.join(said)}."] if said else []


def density_panels(found: Sequence[Trial], done: Done) -> list[Panel]:
    """Utility against privacy, the gain of a wave more, answers and maps."""
    named = _naming(found)
    panels = [p for name in named for p in (exchange_panel(measured(found, name), name),)]
    panels += [gain_panel(measured(found, name)) for name in named]
    return [*panels, *map_panels(_shown(done))]


def _naming(found: Sequence[Trial]) -> list[str]:
    """Attacks that name places."""
    every = dict.fromkeys(name for t in found for name in attacks(t.summary))
    return [name for name in every if any(t.summary.get(f"attack.{name}.place_error_m") is not None for t in found)]


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


HEAD = ("label", "runs", "rank correlation", "with the exact kernel", "Z, m", "best guess, m", "gain per km")


def trade_off(found: Sequence[Trial]) -> list[list[str]]:
    """Rows of the table: medians with quartiles; gain: rank correlation won a km of Z, against the curve's first."""
    names = _naming(found)
    points = measured(found, names[0] if names else "")
    gain = {p.label: g for of in curves_of(points).values() for p, g in zip(of, gains(of), strict=True)}
    return [_row(p, gain.get(p.label, np.nan)) for p in points]


def _row(p: Measured, gain: float) -> list[str]:
    values = (p.utility, p.with_exact, p.score_m, p.guess_m)
    return [p.label, str(len(p.summaries)), *map(_interval, values), figure_text(float(gain))]


def _interval(of: Quartiles) -> str:
    low, mid, high = map(figure_text, of)
    return mid if low == high else f"{mid} [{low}, {high}]"


def trade_off_table(found: Sequence[Trial]) -> str:
    """As a section of the page."""
    rows = [[*row, ""] for row in trade_off(found)]
    return table("Utility and privacy of every label", [*HEAD, ""], rows)


def trade_off_csv(found: Sequence[Trial]) -> str:
    """The same as CSV, medians alone."""
    names = _naming(found)
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["label", "curve", "strength", "runs", "utility", "with_exact", "score_m", "guess_m", "constant_m"])
    for p in measured(found, names[0] if names else ""):
        line_m = np.median([_number(s, "baseline.anywhere.error_m") for s in p.summaries])
        values = [p.utility[1], p.with_exact[1], p.score_m[1], p.guess_m[1], float(line_m)]
        cells = [p.label, p.curve, p.strength, len(p.summaries), *values]
        writer.writerow([cell_text(cell) for cell in cells])
    return out.getvalue()


def _number(summary: Mapping[str, Any], key: str) -> float:
    value = summary.get(key)
    return np.nan if value is None else float(value)

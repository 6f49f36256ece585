"""What the page of a sweep shows of densities: utility against privacy, a table with a row per label, and maps."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from netsim.record import cell_text
from scenarios.app.report.figures.maps import DENSITIES, density, heatmaps
from scenarios.app.report.html import Cell as TableCell
from scenarios.app.report.html import Mark, table
from scenarios.app.report.plot import DARK, Cell, Look, Panel, line, looks, mosaic, numbers, plain
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import attacks
from scenarios.app.results.folder import read_summary
from scenarios.app.results.statistics import Quartiles, counted, figure_text, interval_text, quartiles_of
from scenarios.app.results.surfaces import read_surfaces
from scenarios.app.results.tradeoff import Trial, by_label

TRADEOFF_CSV = "tradeoff.csv"
_MOST_SHOWN = 4  # labels whose maps are drawn

Done = Sequence[tuple[str, Path]]
"""Labels and folders of the finished runs of a sweep."""
COLUMNS = {
    "rank_correlation": ("rank correlation", ""), "kde_rank_correlation": ("with the exact kernel", ""),
    "place_error_m": ("place error Z", "m"), "centroid_error_m": ("centroid error", "m"),
    "anywhere_error_m": ("constant answer", "m"),
}  # fmt: skip
"""column of tradeoff.csv -> what the page calls it, and its unit"""


def of_densities(done: Done) -> bool:
    """Whether all runs learned densities."""
    return all(keys.RANK_CORRELATION.key in read_summary(path) for _, path in done)


def without_curves(done: Done) -> list[Trial]:
    """The runs of a sweep without curves."""
    return [Trial(label, "", np.nan, read_summary(path)) for label, path in done]


def band_sentences(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lemma 3 at the bandwidths in use."""
    keyed = [keys.METRIC_LAST.of(f"query.{name}") for name in ("bands", "bands_probability")]
    pairs = sorted({(s[keyed[0]], s[keyed[1]]) for s in summaries if s.get(keyed[1]) is not None})
    texts = [f"{counted(int(bands), 'band')} with probability {figure_text(p)}" for bands, p in pairs]
    return [f"At the largest requested bandwidth, Lemma 3 gives across the area: {'; '.join(texts)}."] if texts else []


def measured(trials: Sequence[Trial]) -> dict[str, dict[str, Quartiles]]:
    """Label -> column -> quartiles over its seeds; errors are those of the first attack that names places."""
    every = dict.fromkeys(name for t in trials for name in attacks(t.summary))
    named = [n for n in every if any(t.summary.get(keys.PLACE_ERROR.of(n)) is not None for t in trials)]
    found = {}
    for label, of in by_label(trials).items():
        known = of[0].summary.get(keys.TRUTH_RANK_CORRELATION.of()) is not None
        utility = keys.TRUTH_RANK_CORRELATION if known else keys.RANK_CORRELATION
        read = [utility.of(), keys.RANK_CORRELATION.of()]
        read += [key.of(named[0]) if named else "" for key in (keys.PLACE_ERROR, keys.ERROR_INSIDE_MEAN)]
        read += [keys.ANYWHERE_ERROR.of()]
        values = [quartiles_of(t.summary.get(key) for t in of) for key in read]
        found[label] = dict(zip(COLUMNS, values, strict=True))
    return found


def density_panels(trials: Sequence[Trial], done: Done) -> list[Panel]:
    """Utility against privacy, answers and maps."""
    first = {label: path for label, path in reversed(done)}
    shown = {label: s for label in dict(done) if (s := read_surfaces(first[label]))}
    some = dict(list(shown.items())[:_MOST_SHOWN])
    answers = [density(label, s, "answer") for label, s in some.items() if "answer" in s]
    panels = [_tradeoff(trials)]
    if answers:
        caption = (
            "The cross is the UE. With few waves many places are equally likely; with more of them one stands out."
        )
        panels.append(Panel("density-answers", "Answer of one UE", caption, heatmaps(answers)))
    if some:
        surfaces = next(iter(some.values()))
        maps = [density(DENSITIES[name], surfaces, name) for name in ("law", "exact") if name in surfaces]
        maps += [density(label, s, "estimate") for label, s in some.items()]
        panels.append(Panel("density-maps", "Density maps", "Each map has its own scale.", heatmaps(maps)))
    return panels


def _tradeoff(trials: Sequence[Trial]) -> Panel:
    """A point for each label, joined along curves: rank correlation, and the errors of the attack."""
    key, title = "density-tradeoff", "Utility against privacy: rank correlation and the attack's error"
    found, by_curve = measured(trials), dict[str, list[str]]()
    for label, of in by_label(trials).items():
        by_curve.setdefault(of[0].curve or label, []).append(label)
    cells = []
    for column in ("place_error_m", "centroid_error_m"):
        traces = [
            line(look, numbers([found[n]["rank_correlation"][1] for n in names]),
                 np.array([found[n][column][1] for n in names]), mode="lines+markers", text=[plain(n) for n in names],
                 hovertemplate="%{text}: %{x:.3f}, %{y:,.3~r} m")
            for look, names in zip(looks(by_curve), by_curve.values(), strict=True)
        ]  # fmt: skip
        if any(y is not None for trace in traces for y in trace["y"]):
            ends = [x for trace in traces for x in trace["x"] if x is not None]
            level = quartiles_of(of["anywhere_error_m"][1] for of in found.values())[1]
            look = Look("baseline: constant answer", DARK, dash="dot")
            flat = line(look, [min(ends), max(ends)], np.full(2, level), mode="lines")
            cells.append(Cell("metres", [*traces, flat], COLUMNS[column][0]))
    if not cells:
        return Panel(key, title, "No label has both a map and an attack that names places.")
    figure = mosaic(cells, {"title": "rank correlation", "hoverformat": ".3f"}, 430, closest=True)
    caption = (
        "Points further right have a better map, points further up more privacy; a point is the median over seeds. "
        "With few waves Z overstates privacy: the single best estimate is accurate long before Z is small."
    )
    return Panel(key, title, caption, figure)


def tradeoff_table(trials: Sequence[Trial]) -> str:
    """A row for each label: medians with quartiles."""
    head = ["label", "runs", *(f"{name}, {unit}" if unit else name for name, unit in COLUMNS.values())]
    number = {label: float(len(of)) for label, of in by_label(trials).items()}
    rows: list[list[TableCell]] = [
        [label, Mark(f"{number[label]:.0f}", number[label]),
         *(Mark(interval_text(of[c], unit), of[c][1]) for c, (_, unit) in COLUMNS.items())]
        for label, of in measured(trials).items()
    ]  # fmt: skip
    return table("Utility and privacy of every label", head, rows, texts=(0,))


def tradeoff_csv(trials: Sequence[Trial]) -> str:
    """The same as CSV, medians only."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["label", "curve", "strength", "runs", *COLUMNS])
    found = measured(trials)
    for label, of in by_label(trials).items():
        medians = [found[label][column][1] for column in COLUMNS]
        writer.writerow([cell_text(v) for v in (label, of[0].curve, of[0].strength, len(of), *medians)])
    return out.getvalue()

"""Maps of densities on the page of a sweep: answers of one UE, and what the server learned, label by label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scenarios.app.report.figures.maps import DENSITIES, density, heatmaps
from scenarios.app.report.html import Chapter, paragraphs
from scenarios.app.report.plot import Panel
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.surfaces import read_surfaces

_MOST_SHOWN = 4  # labels whose maps are drawn


def density_chapter(runs: Sequence[tuple[str, Path]], summaries: Sequence[Mapping[str, Any]]) -> Chapter:
    """Answers and maps of the first run of each label; runs: labels and folders."""
    return Chapter("densities", "Densities", [*_panels(runs), paragraphs(band_sentences(summaries), "says")])


def band_sentences(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lemma 3 at the bandwidths in use."""
    keyed = [keys.METRIC_LAST.of(f"query.{name}") for name in ("bands", "bands_probability")]
    pairs = sorted({(s[keyed[0]], s[keyed[1]]) for s in summaries if s.get(keyed[1]) is not None})
    texts = [f"{counted(int(bands), 'band')} with probability {figure_text(p)}" for bands, p in pairs]
    return [f"At the largest requested bandwidth, Lemma 3 gives across the area: {'; '.join(texts)}."] if texts else []


def _panels(runs: Sequence[tuple[str, Path]]) -> Iterator[Panel]:
    """Answers and maps, where runs have them."""
    first = {label: path for label, path in reversed(runs)}
    shown = {label: s for label in dict(runs) if (s := read_surfaces(first[label]))}
    some = dict(list(shown.items())[:_MOST_SHOWN])
    answers = [density(label, s, "answer") for label, s in some.items() if "answer" in s]
    if answers:
        caption = "The cross is the UE. With few waves many places are equally likely; with many one stands out."
        yield Panel("density-answers", "Answer of one UE", caption, heatmaps(answers))
    for surfaces in list(some.values())[:1]:
        maps = [density(DENSITIES[name], surfaces, name) for name in ("law", "exact") if name in surfaces]
        maps += [density(label, s, "estimate") for label, s in some.items()]
        yield Panel("density-maps", "Density maps", "Each map has its own scale.", heatmaps(maps))

"""Values over the area, map beside map: densities, and what a radio map learned and gave away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.units import FloatArray
from scenarios.app.report.html import Chapter, paragraphs
from scenarios.app.report.plot import Axes, CurveStyle, Figure, Panel, line, looks, marks, mosaic, numbers, plain
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.surfaces import read_surfaces

Arrays = Mapping[str, NDArray[np.float64]]
_DECADES = 4.0  # of a gradient that have different colours
_MOST = 12  # maps of a comparison
_MOST_POINTS = 120  # points a side that a picture holds
DENSITIES = {
    "law": "true distribution of UEs",
    "exact": "exact kernel density of all places",
    "estimate": "the server's map",
    "answer": "answer of one UE",
}
_SIDE = 340  # pixels


@dataclass(frozen=True, eq=False)
class Heat:
    """A map: values (n_y, n_x) at places (metres), their unit, and a place that is marked by a cross."""

    title: str
    x_m: FloatArray
    y_m: FloatArray
    value: FloatArray
    unit: str
    mark_m: FloatArray | Sequence[float] = ()


def heatmaps(maps: Sequence[Heat]) -> Figure:
    """Maps with a colour scale each, whose ends stand in the title; along a line they are curves."""
    if all(len(heat.y_m) == 1 for heat in maps):
        own = zip(looks([heat.title for heat in maps]), maps, strict=True)
        traces = [line(look, numbers(heat.x_m), heat.value[0], mode="lines") for look, heat in own]
        return mosaic([Axes(maps[0].unit, traces)], {"title": "metres east"}, _SIDE)
    cells = [Axes("", _traces(heat), _title(heat), near=True) for heat in maps]
    figure = mosaic(cells, {"constrain": "domain"}, _SIDE, closest=True)
    for k in range(len(maps)):
        tail = str(k + 1) if k else ""
        figure["layout"][f"yaxis{tail}"] |= {"scaleanchor": f"x{tail}", "constrain": "domain"}
    return figure


def _title(heat: Heat) -> str:
    low, high = (figure_text(float(end(heat.value))) for end in (np.min, np.max))
    return f"{heat.title}, {low} to {high} {heat.unit}"


def _traces(heat: Heat) -> list[Figure]:
    """The map, and the cross where the UE is."""
    i, j = (np.arange(0, n, -(-n // _MOST_POINTS)) for n in heat.value.shape)
    drawn: Figure = {
        "type": "heatmap", "x": numbers(heat.x_m[j]), "y": numbers(heat.y_m[i]), "name": plain(heat.title),
        "z": [[float(f"{v:.3g}") for v in row] for row in heat.value[np.ix_(i, j)]], "showlegend": False,
        "colorscale": "Viridis", "showscale": False,
        "hovertemplate": f"%{{x:,.0f}} m east, %{{y:,.0f}} m north: %{{z:.3~r}} {heat.unit}<extra></extra>",
    }  # fmt: skip
    if not len(heat.mark_m):
        return [drawn]
    x, y = numbers(heat.mark_m)
    return [drawn, marks(CurveStyle("UE", "#ffffff", "x"), [x], [y], ["UE"], showlegend=False)]


def density(title: str, surfaces: Arrays, name: str) -> Heat:
    """A map of a run that learns densities, as a share of its highest value; name: one of DENSITIES."""
    value = surfaces[name].T
    mark_m = surfaces["answer_at_m"] if name == "answer" and "answer_at_m" in surfaces else ()
    return Heat(title, surfaces["x_m"], surfaces["y_m"], value / (np.abs(value).max() or 1.0), "of the highest", mark_m)


def density_panels(surfaces: Arrays) -> list[Panel]:
    """Maps and one answer of a run."""
    key, title = "density", "Density map, its references, and the answer of one UE"
    maps = [density(title, surfaces, name) for name, title in DENSITIES.items() if name in surfaces]
    if not maps:
        return [Panel(key, title, "No answer was decoded, so there is no map.")]
    caption = (
        "Yellow is high. The answer is that of the UE nearest to the centre of the area (the cross), before any "
        "defense: for a server that sees one wave, all bright places are equally likely."
    )
    return [Panel(key, title, caption, heatmaps(maps))]


def obstacle_panels(grid: Arrays) -> list[Panel]:
    """The four maps of a run that learns obstacles; nothing without a grid."""
    if not grid:
        return []
    x_m, y_m = _centres(grid)
    maps = [
        Heat("true obstacles", x_m, y_m, grid["roof_m"], "m"),
        Heat("learned obstacles", x_m, y_m, grid["height_m"], "m"),
        _gradient("gradient before any defense", grid, "made"),
        _gradient("gradient as received", grid, "sent"),
    ]
    caption = (
        "Heights in metres above ground. Gradients are those of the first UE (white cross) in the last round: absolute "
        "value in decades below the largest cell, cut at four."
    )
    return [Panel("grid", "Map of obstacles, and the gradient of one UE", caption, heatmaps(maps))]


def gradient_panels(grids: Mapping[str, Arrays]) -> list[Panel]:
    """The gradient that the server received under each label, one run of each."""
    some = {label: grid for label, grid in grids.items() if grid}
    if not some:
        return []
    maps = [_gradient(label, grid, "sent") for label, grid in list(some.items())[:_MOST]]
    more = f" Not drawn: {counted(len(some) - _MOST, 'more label')}." if len(some) > _MOST else ""
    caption = (
        "The gradient of the first UE (white cross) as the server received it in the last round of the first run of "
        f"each label: absolute value in decades below the largest cell.{more}"
    )
    return [Panel("grid", "Gradient of one UE under every label", caption, heatmaps(maps))]


def _centres(grid: Arrays) -> tuple[FloatArray, FloatArray]:
    """Middles of the cells of a grid, metres east and north."""
    west, south, east, north = grid["area_m"]
    n_y, n_x = grid["made"].shape
    return west + (np.arange(n_x) + 0.5) * (east - west) / n_x, south + (np.arange(n_y) + 0.5) * (north - south) / n_y


def _gradient(title: str, grid: Arrays, name: str) -> Heat:
    """Its absolute value in decades below the largest."""
    size = np.abs(grid[name])
    share = size / (float(size.max(initial=0.0)) or 1.0)
    return Heat(title, *_centres(grid), np.log10(np.maximum(share, 10.0**-_DECADES)), "decades", grid["place_m"])


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

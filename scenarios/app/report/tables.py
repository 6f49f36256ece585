"""Tables and maps of pages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.geometry import Area
from netsim.units import FloatArray
from scenarios.app.report.plot import (
    Axes,
    Chapter,
    CurveStyle,
    Figure,
    Panel,
    block,
    line,
    looks,
    marks,
    mosaic,
    numbers,
    plain,
    table,
)
from scenarios.app.results.folder import LabelledRuns
from scenarios.app.results.gathered import differences
from scenarios.app.results.outcome import Cell, Cells, Mark
from scenarios.app.results.read import Run, Table, part, read_surfaces
from scenarios.app.results.shown import (
    cell_text,
    meaning,
    over_seeds,
)
from scenarios.app.results.statistics import figure_text
from scenarios.app.results.table import (
    ByLabel,
)
from scenarios.app.study import Record
from scenarios.app.study.yaml_document import as_yaml

Arrays = Mapping[str, NDArray[np.float64]]
_DECADES = 4.0  # of a gradient that have different colours
_MOST_SHOWN = 4  # labels whose maps are drawn
_MOST_POINTS = 120  # points a side that a picture holds
_SIDE = 340  # pixels
DENSITIES = {
    "law": "true distribution of UEs",
    "exact": "exact kernel density of all places",
    "estimate": "the server's map",
    "answer": "answer of one UE",
}


@dataclass(frozen=True, eq=False)
class Heat:
    """A map: values (n_y, n_x) at places (metres), their unit, and a place that is marked by a
    cross.
    """

    title: str
    x_m: FloatArray
    y_m: FloatArray
    value: FloatArray
    unit: str
    mark_m: FloatArray | Sequence[float] = ()


def heatmaps(maps: Sequence[Heat]) -> Figure:
    """Maps with a colour scale each, whose ends stand in the title; along a line they are
    curves.
    """
    if all(len(heat.y_m) == 1 for heat in maps):
        own = zip(looks([heat.title for heat in maps]), maps, strict=True)
        traces = [line(look, numbers(heat.x_m), heat.value[0], mode="lines") for look, heat in own]
        return mosaic([Axes(maps[0].unit, traces)], {"title": "metres east"}, _SIDE)
    cells = [_heat_axes(heat) for heat in maps]
    figure = mosaic(cells, {"constrain": "domain", "title": "metres east"}, _SIDE, closest=True)
    for name, axis in figure["layout"].items():
        if name.startswith("yaxis"):
            axis |= {
                "scaleanchor": name.replace("axis", "").replace("y", "x"),
                "constrain": "domain",
            }
    return figure


def _heat_axes(heat: Heat) -> Axes:
    """The map, and the cross where the UE is."""
    low = figure_text(heat.value.min())
    high = figure_text(heat.value.max())
    i, j = (np.arange(0, n, -(-n // _MOST_POINTS)) for n in heat.value.shape)
    traces = [
        {
            "type": "heatmap",
            "x": numbers(heat.x_m[j]),
            "y": numbers(heat.y_m[i]),
            "name": plain(heat.title),
            "z": [[float(f"{v:.3g}") for v in row] for row in heat.value[np.ix_(i, j)]],
            "showlegend": False,
            "colorscale": "Viridis",
            "showscale": False,
            "hovertemplate": (
                f"%{{x:,.0f}} m east, %{{y:,.0f}} m north: %{{z:.3~r}} {heat.unit}<extra></extra>"
            ),
        }
    ]
    if len(heat.mark_m):
        x, y = heat.mark_m
        traces.append(
            marks(CurveStyle("UE", "#ffffff", "x"), numbers([x]), [y], ["UE"], showlegend=False)
        )
    return Axes("metres north", traces, f"{heat.title}, {low} to {high} {heat.unit}", near=True)


def density(title: str, surfaces: Arrays, name: str) -> Heat:
    """A map of a run that learns densities, as a share of its highest value; name: one of
    DENSITIES.
    """
    value = surfaces[name].T
    mark_m = surfaces.get("answer_at_m", ()) if name == "answer" else ()
    return Heat(
        title,
        surfaces["x_m"],
        surfaces["y_m"],
        value / (np.abs(value).max() or 1.0),
        "of the highest",
        mark_m,
    )


def density_panels(surfaces: Arrays) -> list[Panel]:
    """Maps and one answer of a run."""
    key = "density"
    title = "Density map, its references, and the answer of one UE"
    maps = [density(title, surfaces, name) for name, title in DENSITIES.items() if name in surfaces]
    if not maps:
        return [Panel(key, title, "No answer was decoded, so there is no map.")]
    caption = (
        "Yellow is high. The answer is that of the UE nearest to the centre of the area "
        "(the cross), before any "
        "defense: for a server that sees one wave, all bright places are equally likely."
    )
    return [Panel(key, title, caption, heatmaps(maps))]


def obstacle_panels(grid: Arrays) -> list[Panel]:
    """The four maps of a run that learns obstacles; nothing without a grid."""
    if not grid:
        return []
    n_y, n_x = grid["made"].shape
    area = Area(*grid["area_m"])
    x_m = area.x_min_m + (np.arange(n_x) + 0.5) * area.side_m[0] / n_x
    y_m = area.y_min_m + (np.arange(n_y) + 0.5) * area.side_m[1] / n_y
    maps = [
        Heat(title, x_m, y_m, grid[name], "m")
        for title, name in (("true obstacles", "roof_m"), ("learned obstacles", "height_m"))
    ]
    for title, name in (("gradient before any defense", "made"), ("gradient as received", "sent")):
        size = np.abs(grid[name])
        share = np.maximum(size / (size.max(initial=0.0) or 1.0), 10.0**-_DECADES)
        maps.append(Heat(title, x_m, y_m, np.log10(share), "decades", grid["place_m"]))
    caption = (
        "Heights in metres above ground. Gradients are those of the first UE (white cross) in "
        "the last round: absolute value in decades below the largest cell, cut at four."
    )
    return [Panel("grid", "Map of obstacles, and the gradient of one UE", caption, heatmaps(maps))]


def compared_densities(runs: LabelledRuns) -> Iterator[Panel]:
    """Answers and maps of the first run of each label; runs: labels and folders."""
    first = dict(reversed(runs))
    every = {label: read_surfaces(first[label]) for label in dict(runs)}
    shown = [(label, of) for label, of in every.items() if of][:_MOST_SHOWN]
    if answers := [density(label, of, "answer") for label, of in shown if "answer" in of]:
        caption = (
            "The cross is the UE. With few waves many places are equally likely; with many "
            "one stands out."
        )
        yield Panel("density-answers", "Answer of one UE", caption, heatmaps(answers))
    if shown:
        own = shown[0][1]
        maps = [density(DENSITIES[name], own, name) for name in ("law", "exact") if name in own]
        maps += [density(label, of, "estimate") for label, of in shown]
        yield Panel("density-maps", "Density maps", "Each map has its own scale.", heatmaps(maps))


MOST_COLUMNS = 16  # labels that are columns of a table of settings; more are its rows


# -- the first section


def trace_said(study: Record) -> str:
    """The name of the file of a trace that UEs replay; empty without one."""
    path = part(study, "world", "ues", "mobility").get("trace")
    if path:
        return f"trace {Path(str(path)).name}"
    return ""


# -- the last sections


def last_chapters(run: Run) -> list[Chapter]:
    """Every figure of a run with its meaning; its settings, channel card and the whole scenario."""
    manifest = run.manifest
    facts = {
        "seed": manifest.seed,
        "command": manifest.command or "not recorded",
        "simulated span": manifest.period,
        "versions": ", ".join(f"{k} {v}" for k, v in manifest.versions.items()),
    }
    if trace := manifest.trace:
        counts = ", ".join(f"{k} {v}" for k, v in part(trace, "counts").items() if v)
        facts["trace"] = f"{counts}; time zone {trace.get('timezone')}"
    study = block("folded", "The whole scenario, with every default", as_yaml(run.study))
    return [
        Chapter("summary", "All numbers", [figures_table({"value": [run.summary]})]),
        Chapter(
            "configuration",
            "Configuration",
            [block("facts", facts), block("channel_card", manifest.channel_card), study],
        ),
    ]


def figures_table(labels: ByLabel) -> str:
    """Every figure: a row per key, a column per label; it opens on a click."""
    every = dict.fromkeys(key for of in labels.values() for run in of for key in run)
    rows: Cells = []
    for key in every:
        marks = [Mark(cell_text(of, key), over_seeds(of, key)[1]) for of in labels.values()]
        rows.append([key, *marks, meaning(key)])
    title = f"Every figure: median [quartiles] over seeds, {len(rows)} keys"
    return block(
        "folded_parts", title, table(title, ["key", *labels, "what it says"], rows, "every-figure")
    )


def records_table(title: str, rows: Table) -> str:
    """Rows of a record table as they are."""
    return table(title, [name.replace("_", " ") for name in rows], zip(*rows.values(), strict=True))


# -- several labels


def differences_table(studies: Mapping[str, Record]) -> str:
    """The keys in which the studies of labels differ; what is not as with the first label is
    marked.
    """
    rows: Cells = []
    for key, (first, *others) in differences(list(studies.values())).items():
        rows.append(
            [
                key,
                first,
                *(Mark("same") if text == first else Mark(text, kind="changed") for text in others),
            ]
        )
    head: list[Cell] = ["key", *studies]
    if len(studies) > MOST_COLUMNS and rows:
        head, *rows = map(list, zip(["variant", *studies], *rows, strict=True))
    return table(
        f"What differs from “{next(iter(studies))}”", list(map(str, head)), rows, "differences"
    )

"""Tables and maps of pages."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from netsim.columns import frozen
from netsim.geometry import Area
from netsim.units import FloatArray
from scenarios.app.report.plot import (
    Axes,
    Chapter,
    CurveStyle,
    Figure,
    Panel,
    assign_styles,
    build_configuration,
    draw_curve,
    draw_point_marks,
    escape_plotly,
    lay_out_axes,
    render_block,
    render_table,
    to_json_numbers,
)
from scenarios.app.results.folder import LabelledRuns
from scenarios.app.results.gathered import find_differing_keys
from scenarios.app.results.outcome import Cells, Mark
from scenarios.app.results.read import Run, Table, get_section, read_surfaces
from scenarios.app.results.shown import (
    compute_seed_quartiles,
    describe_key,
    format_seed_values,
)
from scenarios.app.results.statistics import format_figure
from scenarios.app.results.table import (
    ByLabel,
)
from scenarios.app.study import Record
from scenarios.app.study.yaml_document import dump_yaml

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


@frozen
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


def draw_heatmaps(maps: Sequence[Heat]) -> Figure:
    """Draw maps with a colour scale each, whose ends stand in the title.

    Along a line they are curves.
    """
    x_title = "metres east"
    if all(len(heat.y_m) == 1 for heat in maps):
        traces = []
        for look, heat in zip(assign_styles([heat.title for heat in maps]), maps, strict=True):
            traces.append(draw_curve(look, to_json_numbers(heat.x_m), heat.value[0], mode="lines"))
        return lay_out_axes([Axes(maps[0].unit, traces)], {"title": x_title}, _SIDE)
    cells = [_build_heat_axes(heat) for heat in maps]
    square = {"constrain": "domain"}
    figure = lay_out_axes(cells, square | {"title": x_title}, _SIDE, closest=True)
    for name, axis in figure["layout"].items():
        if name.startswith("yaxis"):
            axis |= square | {"scaleanchor": name.replace("yaxis", "x")}
    return figure


def _build_heat_axes(heat: Heat) -> Axes:
    """Build axes of the map, and the cross where the UE is."""
    low = format_figure(heat.value.min())
    high = format_figure(heat.value.max())
    i, j = (np.arange(0, n, -(-n // _MOST_POINTS)) for n in heat.value.shape)
    place = "%{x:,.0f} m east, %{y:,.0f} m north"
    traces = [
        {
            "type": "heatmap",
            "x": to_json_numbers(heat.x_m[j]),
            "y": to_json_numbers(heat.y_m[i]),
            "name": escape_plotly(heat.title),
            "z": [[float(f"{v:.3g}") for v in row] for row in heat.value[np.ix_(i, j)]],
            "showlegend": False,
            "colorscale": "Viridis",
            "showscale": False,
            "hovertemplate": f"{place}: %{{z:.3~r}} {heat.unit}<extra></extra>",
        }
    ]
    if len(heat.mark_m):
        x, y = heat.mark_m
        traces.append(
            draw_point_marks(
                CurveStyle("UE", "#ffffff", "x"),
                to_json_numbers([x]),
                [y],
                ["UE"],
                showlegend=False,
            )
        )
    return Axes("metres north", traces, f"{heat.title}, {low} to {high} {heat.unit}", near=True)


def build_density_map(title: str, surfaces: Table, name: str) -> Heat:
    """Build a map of a run that learns densities, as a share of its highest value.

    name : one of DENSITIES.
    """
    value = surfaces[name].T
    share = value / (np.abs(value).max() or 1.0)
    mark_m = surfaces.get("answer_at_m", ()) if name == "answer" else ()
    return Heat(title, surfaces["x_m"], surfaces["y_m"], share, "of the highest", mark_m)


def draw_densities(surfaces: Table) -> list[Panel]:
    """Draw maps and one answer of a run."""
    key = "density"
    title = "Density map, its references, and the answer of one UE"
    maps = [
        build_density_map(meaning, surfaces, name)
        for name, meaning in DENSITIES.items()
        if name in surfaces
    ]
    if not maps:
        return [Panel(key, title, "No answer was decoded, so there is no map.")]
    return [
        Panel(
            key,
            title,
            "Yellow is high. The answer is that of the UE nearest to the centre of the area "
            "(the cross), before any "
            "defense: for a server that sees one wave, all bright places are equally likely.",
            draw_heatmaps(maps),
        )
    ]


def draw_obstacles(grid: Table) -> list[Panel]:
    """Draw the four maps of a run that learns obstacles; nothing without a grid."""
    if not grid:
        return []
    n_y, n_x = grid["made"].shape
    area = Area(*grid["area_m"])
    x_m = area.x_min_m + (np.arange(n_x) + 0.5) * area.side_m[0] / n_x
    y_m = area.y_min_m + (np.arange(n_y) + 0.5) * area.side_m[1] / n_y
    maps = [
        Heat("true obstacles", x_m, y_m, grid["roof_m"], "m"),
        Heat("learned obstacles", x_m, y_m, grid["height_m"], "m"),
    ]
    for title, name in (("gradient before any defense", "made"), ("gradient as received", "sent")):
        size = np.abs(grid[name])
        share = np.maximum(size / (size.max(initial=0.0) or 1.0), 10.0**-_DECADES)
        maps.append(Heat(title, x_m, y_m, np.log10(share), "decades", grid["place_m"]))
    title = "Map of obstacles, and the gradient of one UE"
    return [
        Panel(
            "grid",
            title,
            "Heights in metres above ground. Gradients are those of the first UE (white cross) in "
            "the last round: absolute value in decades below the largest cell, cut at four.",
            draw_heatmaps(maps),
        )
    ]


def draw_compared_densities(runs: LabelledRuns) -> Iterator[Panel]:
    """Draw answers and maps of the first run of each label; runs: labels and folders."""
    first = dict(reversed(runs))
    read = ((label, read_surfaces(first[label])) for label in dict(runs))
    shown = [(label, surfaces) for label, surfaces in read if surfaces][:_MOST_SHOWN]
    if not shown:
        return
    estimates = [build_density_map(label, surfaces, "estimate") for label, surfaces in shown]
    answers = [build_density_map(label, own, "answer") for label, own in shown if "answer" in own]
    if answers:
        yield Panel(
            "density-answers",
            "Answer of one UE",
            "The cross is the UE. With few waves many places are equally likely; with many "
            "one stands out.",
            draw_heatmaps(answers),
        )
    _, surfaces = shown[0]
    maps = [
        build_density_map(DENSITIES[name], surfaces, name)
        for name in ("law", "exact")
        if name in surfaces
    ]
    yield Panel(
        "density-maps",
        "Density maps",
        "Each map has its own scale.",
        draw_heatmaps(maps + estimates),
    )


MOST_COLUMNS = 16  # labels that are columns of a table of settings; more are its rows


# -- the first section


def name_trace_file(study: Record) -> str:
    """Return the name of the file of a trace that UEs replay; empty without one."""
    if path := get_section(study, "world", "ues", "mobility").get("trace"):
        return f"trace {Path(str(path)).name}"
    return ""


# -- the last sections


def build_last_chapters(run: Run) -> list[Chapter]:
    """Build the chapters of every figure of a run with its meaning, and of its settings.

    With the channel card and the whole scenario.
    """
    manifest = run.manifest
    facts = {
        "seed": manifest.seed,
        "command": manifest.command or "not recorded",
        "simulated span": manifest.period,
        "versions": ", ".join(f"{k} {v}" for k, v in manifest.versions.items()),
    }
    if trace := manifest.trace:
        counts = ", ".join(f"{k} {v}" for k, v in get_section(trace, "counts").items() if v)
        facts["trace"] = f"{counts}; time zone {trace.get('timezone')}"
    card = render_block("channel_card", manifest.channel_card)
    study = render_block("folded", "The whole scenario, with every default", dump_yaml(run.study))
    summary = Chapter("summary", "All numbers", [render_all_figures({"value": [run.summary]})])
    return [summary, build_configuration(facts, card, study)]


def render_all_figures(labels: ByLabel) -> str:
    """Render every figure: a row per key, a column per label; it opens on a click."""
    rows: Cells = []
    for key in dict.fromkeys(key for runs in labels.values() for run in runs for key in run):
        medians = [
            Mark(format_seed_values(runs, key), compute_seed_quartiles(runs, key)[1])
            for runs in labels.values()
        ]
        rows.append([key, *medians, describe_key(key)])
    title = f"Every figure: median [quartiles] over seeds, {len(rows)} keys"
    return render_block(
        "folded_parts",
        title,
        render_table(title, ["key", *labels, "what it says"], rows, "every-figure"),
    )


def render_records(title: str, rows: Table) -> str:
    """Render rows of a record table as they are."""
    return render_table(
        title, [name.replace("_", " ") for name in rows], zip(*rows.values(), strict=True)
    )


# -- several labels


def render_differences(studies: Mapping[str, Record]) -> str:
    """Render the keys in which the studies of labels differ.

    What is not as with the first label is marked.
    """
    rows: Cells = [
        [key, first, *(Mark("same") if t == first else Mark(t, kind="changed") for t in texts)]
        for key, (first, *texts) in find_differing_keys([*studies.values()]).items()
    ]
    heads = ["key", *studies]
    if len(studies) > MOST_COLUMNS and rows:
        heads, *rows = map(list, zip(["variant", *studies], *rows, strict=True))
    return render_table(f"What differs from “{next(iter(studies))}”", heads, rows, "differences")

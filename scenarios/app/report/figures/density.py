"""Figures of densities: maps, the answer of one UE, and utility against privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.plot import (
    DARK,
    GREY,
    Cell,
    Figure,
    Look,
    Panel,
    axis,
    base_layout,
    color_bar,
    line,
    looks,
    mosaic,
    numbers,
    plain,
)  # fmt: skip
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.statistics import Quartiles, quartiles_of
from scenarios.app.results.summary_keys import Measure
from scenarios.app.results.surfaces import Surfaces
from scenarios.app.results.tradeoff import Trial, by_label, curves

MOST_SHOWN = 120  # points a side that a picture of a map holds
PRETTY = (1, 2, 3, 8)  # features whose answers are shown side by side, as in the paper
NAMES = {
    "law": "true distribution of UEs",
    "exact": "exact kernel density of all places",
    "estimate": "the server's map",
    "answer": "answer of one UE",
}


def run_panels(surfaces: Surfaces) -> list[Panel]:
    """Maps and one answer of a run."""
    if not surfaces:
        return [Panel("density", "Density map", "No answer was decoded, so there is no map.")]
    shown = [(NAMES[name], surfaces, name) for name in ("law", "exact", "estimate", "answer") if name in surfaces]
    caption = (
        "Each map has its own scale; yellow is high. The answer is that of the UE nearest to the centre of the area "
        "(the cross), before any defense: for a server that sees one wave, all bright places are equally likely."
    )
    return [Panel("density", "Density map, its references, and the answer of one UE", caption, pictures(shown))]


def pictures(shown: Sequence[tuple[str, Surfaces, str]]) -> Figure:
    """Maps (title, surfaces, which of MAPS), two a row; along a line they are curves."""
    if all(len(s["y_m"]) == 1 for _, s, _ in shown):
        return _lines(shown)
    columns, height, gap = 2, 400, 90
    rows = (len(shown) + 1) // columns
    inner = height * rows + gap * (rows - 1)
    data: list[Figure] = []
    layout = base_layout() | {"showlegend": False, "hovermode": "closest"}
    for k, (title, surfaces, name) in enumerate(shown):
        row, column = divmod(k, columns)
        tail, top, left = str(k + 1) if k else "", 1.0 - row * (height + gap) / inner, column * 0.54
        heat, *marks = _map(surfaces, name)
        scale = color_bar(left + 0.41, top, height / inner) | {"tickformat": ".2~f"}
        both = ({**heat, "colorbar": scale}, *marks)
        data += [{"xaxis": f"x{tail}", "yaxis": f"y{tail}", **trace} for trace in both]
        layout[f"xaxis{tail}"] = axis("metres east") | {
            "domain": [left, left + 0.41], "anchor": f"y{tail}", "constrain": "domain",
        }  # fmt: skip
        layout[f"yaxis{tail}"] = axis("metres north") | {
            "domain": [max(top - height / inner, 0.0), top], "anchor": f"x{tail}",
            "scaleanchor": f"x{tail}", "constrain": "domain",
        }  # fmt: skip
        layout["annotations"].append({
            "text": f"<b>{plain(title)}</b>", "x": left, "y": top, "xref": "paper", "yref": "paper", "yshift": 3,
            "xanchor": "left", "yanchor": "bottom", "showarrow": False,
        })  # fmt: skip
    layout |= {"height": inner + 130, "margin": {"l": 70, "r": 25, "t": 70, "b": 60}}
    return {"data": data, "layout": layout}


def _map(surfaces: Surfaces, name: str) -> list[Figure]:
    i, j = (np.arange(0, len(surfaces[a]), -(-len(surfaces[a]) // MOST_SHOWN)) for a in ("x_m", "y_m"))
    z = surfaces[name][np.ix_(i, j)].T
    size = float(np.abs(z).max()) or 1.0
    traces: list[Figure] = [
        {
            "type": "heatmap", "x": numbers(surfaces["x_m"][i]), "y": numbers(surfaces["y_m"][j]),
            "z": [[round(float(v), 3) for v in row] for row in z / size], "colorscale": "Viridis",
            "hovertemplate": "%{x:,.0f} m, %{y:,.0f} m: %{z:.3r} of the highest<extra></extra>",
        }
    ]  # fmt: skip
    if name == "answer" and "answer_at_m" in surfaces:
        x, y = numbers(surfaces["answer_at_m"])
        cross = {"symbol": "x-thin", "size": 12, "line": {"width": 3, "color": "#ffffff"}}
        traces.append({"type": "scatter", "mode": "markers", "x": [x], "y": [y], "marker": cross,
                      "hovertemplate": "where the UE is<extra></extra>"})  # fmt: skip
    return traces


def _lines(shown: Sequence[tuple[str, Surfaces, str]]) -> Figure:
    traces = [
        line(look, numbers(s["x_m"]), s[name][:, 0] / (np.abs(s[name]).max() or 1.0), mode="lines")
        for look, (_, s, name) in zip(looks([title for title, _, _ in shown]), shown, strict=True)
    ]
    return mosaic([Cell("of the highest", traces)], {"title": {"text": "metres east"}}, 380)


# -- a sweep


@dataclass(frozen=True)
class Measured:
    """A label over its seeds: utility (rank correlation), place error Z and centroid error, in metres."""

    label: str
    curve: str
    strength: float
    utility: Quartiles
    with_exact: Quartiles
    place_error_m: Quartiles
    centroid_error_m: Quartiles
    summaries: Sequence[Mapping[str, Any]]


def measured(trials: Sequence[Trial], attack: str) -> list[Measured]:
    """One per label, in the order of the sweep; `attack`: empty for none."""
    return [_measured(label, of, attack) for label, of in by_label(trials).items()]


def _measured(label: str, of: Sequence[Trial], attack: str) -> Measured:
    def over(key: Measure, name: str = "") -> Quartiles:
        return quartiles_of(t.summary.get(key.of(name)) for t in of)

    none, known = (np.nan, np.nan, np.nan), of[0].summary.get(keys.TRUTH_RANK_CORRELATION.of()) is not None
    return Measured(
        label,
        of[0].curve,
        of[0].strength,
        over(keys.TRUTH_RANK_CORRELATION if known else keys.RANK_CORRELATION),
        over(keys.RANK_CORRELATION),
        over(keys.PLACE_ERROR, attack) if attack else none,
        over(keys.ERROR_INSIDE_MEAN, attack) if attack else none,
        [t.summary for t in of],
    )


def tradeoff_panel(points: Sequence[Measured], attack: str) -> Panel:
    """Utility against privacy, by place error Z and by centroid error, with the baselines as lines."""
    title = f"Utility against privacy: rank correlation and the error of {attack}"
    own = curves(points)
    cells = []
    for what, name in (
        ("Place error Z, weighted mean over places", "place_error_m"),
        ("Centroid error, single best estimate", "centroid_error_m"),
    ):
        traces = [t for look, of in zip(looks(own), own.values(), strict=True) for t in _path(look, of, name)]
        lone = [p for p in points if not p.curve and np.isfinite([p.utility[1], getattr(p, name)[1]]).all()]
        traces += [t for look, p in zip(_stars(lone), lone, strict=True) for t in _path(look, [p], name)]
        if traces:
            cells.append(Cell("metres", [*traces, *_ends(points)], what))
    if not cells:
        return Panel("density-tradeoff", title, "No label has both a map and an attack that names places.")
    for cell in cells[1:]:
        for trace in cell.traces:
            trace["showlegend"] = False
    figure = mosaic(cells, {"title": {"text": "rank correlation"}, "hoverformat": ".3f"}, 430)
    figure["layout"]["hovermode"] = "closest"
    caption = (
        "Points further right have a better map, points further up more privacy; a point is the median over seeds. The "
        "horizontal line is the error of a constant answer, the vertical one the rank correlation of the exact kernel "
        "density. With few waves Z overstates privacy: the single best estimate is accurate long before Z is small."
    )
    return Panel("density-tradeoff", title, caption, figure)


def _stars(of: Sequence[Measured]) -> list[Look]:
    return [
        Look(p.label, DARK, symbol) for p, symbol in zip(of, ["star", "hexagram", "pentagon"] * len(of), strict=False)
    ]


def _path(look: Look, of: Sequence[Measured], name: str) -> list[Figure]:
    y = [getattr(p, name) for p in of]
    return [
        {
            "type": "scatter", "mode": "lines+markers", "name": plain(look.name), "legendgroup": plain(look.name),
            "x": numbers([p.utility[1] for p in of]), "y": numbers([v[1] for v in y]),
            "line": {"color": look.color, "width": 1.8, "dash": look.dash},
            "marker": {"symbol": look.symbol, "size": 8, "color": look.color},
            "text": [plain(p.label) for p in of],
            "hovertemplate": "%{text}<br>rank correlation %{x:.3f}<br>%{y:,.3~r} m<extra></extra>",
        }
    ]  # fmt: skip


def _ends(points: Sequence[Measured]) -> list[Figure]:
    """The baselines: error of a constant answer, and rank correlation of the exact kernel density."""

    def median(key: Measure) -> float:
        return quartiles_of(s.get(key.of()) for p in points for s in p.summaries)[1]

    x = [v for p in points if np.isfinite(v := p.utility[1])]
    y = [v for p in points for of in (p.place_error_m, p.centroid_error_m) if np.isfinite(v := of[1])]
    constant, exact = median(keys.ANYWHERE_ERROR), median(keys.KDE_TRUTH_RANK_CORRELATION)
    exact = exact if np.isfinite(exact) else 1.0
    ends = (
        ("baseline: constant answer (0 waves)", GREY, "dot", [min(x), max([*x, exact])], [constant, constant]),
        ("baseline: exact kernel density", DARK, "dash", [exact, exact], [0.0, max([*y, constant])]),
    )
    return [
        {"type": "scatter", "mode": "lines", "name": name, "x": numbers(a), "y": numbers(b), "hoverinfo": "name",
         "line": {"color": color, "width": 1.5, "dash": dash}}
        for name, color, dash, a, b in ends
        if np.isfinite([*a, *b]).all()
    ]  # fmt: skip


def gains(of: Sequence[Measured]) -> FloatArray:
    """Gain of rank correlation per kilometre of Z lost, against the first point of a curve (k,); NaN for that point."""
    first = of[0]
    gain = np.array([p.utility[1] - first.utility[1] for p in of])
    loss_km = np.array([first.place_error_m[1] - p.place_error_m[1] for p in of]) / 1000
    return np.asarray(np.divide(gain, loss_km, out=np.full(len(of), np.nan), where=loss_km > 0))


def gain_panel(points: Sequence[Measured]) -> Panel:
    """Gain of utility per loss of privacy, against one wave."""
    title = "Gain of each further wave: rank correlation per kilometre of Z, against the first point of the curve"
    own = {name: of for name, of in curves(points).items() if len(of) > 1 and of[0].strength == 1}
    traces = [
        line(look, [p.strength for p in of][1:], gains(of)[1:])
        for look, of in zip(looks(own), own.values(), strict=True)
        if np.isfinite(gains(of)).any()
    ]
    if not traces:
        return Panel("density-gain", title, "No curve begins at one wave and has a Z.")
    x_axis = {"title": {"text": "strength (waves)"}, "type": "log"}
    return Panel("density-gain", title, "Medians over seeds.", mosaic([Cell("per km", traces)], x_axis, 330))


def map_panels(shown: Sequence[tuple[str, Surfaces]]) -> list[Panel]:
    """Answers of one UE, and maps, of some labels (title, surfaces)."""
    panels = []
    answers = [(title, s, "answer") for title, s in shown if "answer" in s]
    if answers:
        caption = (
            "The cross is the UE. With few waves many places are equally likely; with more of them one stands out."
        )
        panels.append(Panel("density-answers", "Answer of one UE", caption, pictures(answers)))
    if shown:
        first = shown[0][1]
        ends: tuple[str, ...] = ("law", "exact")
        maps = [(NAMES[name], first, name) for name in ends if name in first]
        maps += [(title, s, "estimate") for title, s in shown]
        panels.append(Panel("density-maps", "Density maps", "Each map has its own scale.", pictures(maps)))
    return panels

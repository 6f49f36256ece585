"""Pictures of densities: maps, one UE's answer, and what utility costs in privacy."""

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
from scenarios.app.results.surfaces import Surfaces
from scenarios.app.results.tradeoff import Quartiles, Trial, quartiles

MOST_SHOWN = 120  # points a side that a picture of a map holds
PRETTY = (1, 2, 3, 8)  # features whose answers are shown side by side, as in the paper
NAMES = {
    "law": "the law by which UEs are where they are",
    "exact": "exact kernel, all places known",
    "estimate": "what the server has",
    "answer": "one UE's answer",
}


def run_panels(surfaces: Surfaces) -> list[Panel]:
    """Maps and one answer of a run."""
    if not surfaces:
        return [Panel("density", "The map", "Nobody was heard, so there is no map.")]
    shown = [(NAMES[name], surfaces, name) for name in ("law", "exact", "estimate", "answer") if name in surfaces]
    caption = (
        "Each map has a scale of its own; yellow is high. The answer is that of the UE nearest to the middle of the "
        "area (the cross), before any defense: all bright places are equally likely for a server that sees one wave."
    )
    return [Panel("density", "The map, what it should be, and what one UE says of itself", caption, pictures(shown))]


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
    found: list[Figure] = [
        {
            "type": "heatmap", "x": numbers(surfaces["x_m"][i]), "y": numbers(surfaces["y_m"][j]),
            "z": [[round(float(v), 3) for v in row] for row in z / size], "colorscale": "Viridis",
            "hovertemplate": "%{x:,.0f} m, %{y:,.0f} m: %{z:.3r} of the highest<extra></extra>",
        }
    ]  # fmt: skip
    if name == "answer" and "answer_at_m" in surfaces:
        x, y = numbers(surfaces["answer_at_m"])
        cross = {"symbol": "x-thin", "size": 12, "line": {"width": 3, "color": "#ffffff"}}
        found.append({"type": "scatter", "mode": "markers", "x": [x], "y": [y], "marker": cross,
                      "hovertemplate": "where the UE is<extra></extra>"})  # fmt: skip
    return found


def _lines(shown: Sequence[tuple[str, Surfaces, str]]) -> Figure:
    traces = [
        line(look, numbers(s["x_m"]), s[name][:, 0] / (np.abs(s[name]).max() or 1.0), mode="lines")
        for look, (_, s, name) in zip(looks([title for title, _, _ in shown]), shown, strict=True)
    ]
    return mosaic([Cell("of the highest", traces)], {"title": {"text": "metres east"}}, 380)


# -- a sweep


@dataclass(frozen=True)
class Measured:
    """A label over its seeds: utility (rank correlation), Z and the single guess's error, in metres."""

    label: str
    curve: str
    strength: float
    utility: Quartiles
    with_exact: Quartiles
    score_m: Quartiles
    guess_m: Quartiles
    summaries: Sequence[Mapping[str, Any]]


def measured(found: Sequence[Trial], attack: str) -> list[Measured]:
    """One a label, in the order of the sweep."""
    by_label: dict[str, list[Trial]] = {}
    for trial in found:
        by_label.setdefault(trial.label, []).append(trial)
    return [_measured(label, of, attack) for label, of in by_label.items()]


def _measured(label: str, of: Sequence[Trial], attack: str) -> Measured:
    def over(key: str) -> Quartiles:
        return quartiles(np.nan if (v := t.summary.get(key)) is None else float(v) for t in of)

    known = of[0].summary.get("utility.truth_rank_correlation") is not None
    return Measured(
        label,
        of[0].curve,
        of[0].strength,
        over("utility.truth_rank_correlation" if known else "utility.rank_correlation"),
        over("utility.rank_correlation"),
        over(f"attack.{attack}.place_error_m"),
        over(f"attack.{attack}.centroid_error_m.mean_inside"),
        [t.summary for t in of],
    )


def curves_of(points: Sequence[Measured]) -> dict[str, list[Measured]]:
    """Curve -> its points in the order of strength."""
    found: dict[str, list[Measured]] = {p.curve: [] for p in points if p.curve}
    for p in sorted((p for p in points if p.curve), key=lambda p: p.strength):
        found[p.curve].append(p)
    return found


def exchange_panel(points: Sequence[Measured], attack: str) -> Panel:
    """Utility against privacy, once by Z and once by the single best guess, with both ends as lines."""
    title = f"What the map costs: rank correlation against how far off {attack} is"
    own = curves_of(points)
    cells = []
    for what, name in (("Z: distance of all places named, by weight", "score_m"), ("Best single guess", "guess_m")):
        traces = [t for look, of in zip(looks(own), own.values(), strict=True) for t in _path(look, of, name)]
        lone = [p for p in points if not p.curve and np.isfinite([p.utility[1], getattr(p, name)[1]]).all()]
        traces += [t for look, p in zip(_stars(lone), lone, strict=True) for t in _path(look, [p], name)]
        if traces:
            cells.append(Cell("metres", [*traces, *_ends(points)], what))
    if not cells:
        return Panel("density-exchange", title, "No label has both a map and an attack that names places.")
    for cell in cells[1:]:
        for trace in cell.traces:
            trace["showlegend"] = False
    figure = mosaic(cells, {"title": {"text": "rank correlation"}, "hoverformat": ".3f"}, 430)
    figure["layout"]["hovermode"] = "closest"
    caption = (
        "Right is a better map, high is a UE better hidden; a point is the median over seeds. The horizontal line is "
        "what a constant answer leaves, the vertical one what the exact kernel reaches. Z flatters a few waves: they "
        "agree at the true place alone, so the best single guess is right long before Z is small."
    )
    return Panel("density-exchange", title, caption, figure)


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
    """A constant answer's distance, and the exact kernel's rank correlation."""

    def median(key: str) -> float:
        return quartiles(np.nan if (v := s.get(key)) is None else float(v) for p in points for s in p.summaries)[1]

    x = [v for p in points if np.isfinite(v := p.utility[1])]
    y = [v for p in points for of in (p.score_m, p.guess_m) if np.isfinite(v := of[1])]
    constant, exact = median("baseline.anywhere.error_m"), median("utility.kde_truth_rank_correlation")
    exact = exact if np.isfinite(exact) else 1.0
    ends = (
        ("a constant answer (0 waves)", GREY, "dot", [min(x), max([*x, exact])], [constant, constant]),
        ("exact kernel", DARK, "dash", [exact, exact], [0.0, max([*y, constant])]),
    )
    return [
        {"type": "scatter", "mode": "lines", "name": name, "x": numbers(a), "y": numbers(b), "hoverinfo": "name",
         "line": {"color": color, "width": 1.5, "dash": dash}}
        for name, color, dash, a, b in ends
        if np.isfinite([*a, *b]).all()
    ]  # fmt: skip


def gains(of: Sequence[Measured]) -> FloatArray:
    """Rank correlation won for each kilometre of Z given up, against the first point of a curve (k,); NaN for it."""
    first = of[0]
    won = np.array([p.utility[1] - first.utility[1] for p in of])
    cost = np.array([first.score_m[1] - p.score_m[1] for p in of]) / 1000
    return np.asarray(np.divide(won, cost, out=np.full(len(of), np.nan), where=cost > 0))


def gain_panel(points: Sequence[Measured]) -> Panel:
    """Gain per privacy cost against one wave."""
    title = "What a wave more brings: rank correlation won for a kilometre of Z, against the first point of the curve"
    own = {name: of for name, of in curves_of(points).items() if len(of) > 1 and of[0].strength == 1}
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
    """One UE's answers, and maps, of some labels (title, surfaces)."""
    found = []
    answers = [(title, s, "answer") for title, s in shown if "answer" in s]
    if answers:
        caption = "The cross is the UE. With few waves many places look alike; with more of them one stands out."
        found.append(Panel("density-answers", "What one UE answers", caption, pictures(answers)))
    if shown:
        first = shown[0][1]
        ends: tuple[str, ...] = ("law", "exact")
        maps = [(NAMES[name], first, name) for name in ends if name in first]
        maps += [(title, s, "estimate") for title, s in shown]
        found.append(Panel("density-maps", "The maps", "Each on a scale of its own.", pictures(maps)))
    return found

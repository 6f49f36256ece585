"""The map of a run: buildings, base stations, true positions and the estimates of attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.plot import (
    BAR,
    DARK,
    GREY,
    PALETTE,
    Figure,
    Look,
    Panel,
    axis,
    base_layout,
    legend_rows,
    numbers,
    plain,
)
from scenarios.app.results.folder import SCENERY
from scenarios.app.results.run import Run, Table
from scenarios.app.results.statistics import counted, figure_text

MOST_POINTS = 3000  # of a kind on the map
FEW_ROUNDS = 10  # up to which each has its number on the colour bar
MOST_CORNERS = 40_000  # of building outlines
FAR = 0.5  # base stations farther outside than this share of the area's longer side are not drawn
MOST_STREET_POINTS = 40_000  # of centre lines
MOST_TRACK_ROWS = 40_000  # of the tracks of UEs together
SCENERY_COLORS = ("#dcecd2", "#cfe3f1", "#e3dbe6")
STREET = "#c2b280"
STREETS = (("main", 0, 2, 2.2), ("minor", 3, 4, 1.1), ("on foot", 5, 6, 0.6))
"""name, first and last street class, and width of the line in pixels"""
SHADES = ("#f0f0f0", "#e3e3e3", "#d6d6d6", "#c9c9c9", "#bcbcbc")

Place = tuple[float, float]


def town(run: Run, own: Sequence[Look]) -> Panel:
    """The map."""
    key, title = "map", "Map of true positions and estimates"
    west, south, east, north = run.manifest["area_m"]
    every = -(-len(run.points_m) // MOST_POINTS) or 1
    traces = [_dots("true points", run.points_m[::every])]
    updates = run.rows("updates")
    traces += _by_round(run, Look("true batch centroids", DARK, "cross-thin-open"), updates, 10)
    outside = 0
    for look in own:
        rows = run.rows("estimates", "attack", look.name)
        inside = (rows["x_m"] >= west) & (rows["x_m"] <= east) & (rows["y_m"] >= south) & (rows["y_m"] <= north)
        outside += int((~inside & (rows["quantity"] == "centroid")).sum())
        for quantity, size in (("centroid", 10), ("place", 6)):
            mine = inside & (rows["quantity"] == quantity)
            named = Look(f"{look.name}: {quantity}s", look.color, look.symbol)
            traces += _by_round(run, named, {k: v[mine] for k, v in rows.items()}, size)
    sites, far = _sites(run)
    traces = [*ground_traces(run), *traces, *landmarks(run), *_masts(sites)]
    if not any(t["x"] for t in traces):
        return Panel(key, title, "There are no positions or estimates to draw.")
    caption = (
        f"Fill colour is the round, shape and outline the attack. Of each kind at most {MOST_POINTS:,} are drawn, "
        "evenly thinned. Places are positions that an attack names besides the centroid of a batch. "
        + _ground_sentence(run)
        + (f"Outside the area and not drawn: {counted(outside, 'centroid')}." if outside else "The frame is the area.")
        + (f" Too far outside to be drawn: {counted(far, 'base station')}." if far else "")
    )
    return Panel(key, title, caption, map_figure(traces, (west, south, east, north), list(sites)))


def tracks(run: Run) -> Panel:
    """The map of a radio study: what stands in the area, and the tracks of UEs."""
    key, title = "map", "Map of the area and tracks of UEs"
    sites, far = _sites(run)
    traces = [*ground_traces(run), *_doors(run), *_tracks(run), *landmarks(run), *_sectors(run), *_masts(sites)]
    west, south, east, north = run.manifest["area_m"]
    if not any(t["x"] for t in traces):
        return Panel(key, title, "There is nothing to draw.")
    drawn, every = len(_drawn_ues(run.rows("tracks"))), len(run.tables["ues"]["ue"])
    caption = (
        f"Tracks of {counted(drawn, 'UE')} of {every:,}: straight lines join the places at which they were looked at. "
        f"{_ground_sentence(run)}"
        "The frame is the area." + (f" Too far outside to be drawn: {counted(far, 'base station')}." if far else "")
    )
    return Panel(key, title, caption, map_figure(traces, (west, south, east, north), list(sites)))


def ground_traces(run: Run) -> list[Figure]:
    """Water and green areas, streets and buildings, from below to above."""
    return [*_scenery(run), *_streets(run), *_buildings(run)]


def _pieces(run: Run, what: str) -> list[FloatArray]:
    """The lines (k, 2) of map.npz under one name."""
    if f"{what}_m" not in run.ground:
        return []
    corners, ptr = run.ground[f"{what}_m"], run.ground[f"{what}_ptr"]
    return [corners[a:b] for a, b in pairwise(ptr.tolist())]


def joined(lines: Sequence[FloatArray]) -> tuple[list[float | None], list[float | None]]:
    """Coordinates of lines, with a gap after each."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for one in lines:
        xs += [*numbers(one[:, 0]), None]
        ys += [*numbers(one[:, 1]), None]
    return xs, ys


def _scenery(run: Run) -> list[Figure]:
    """Green areas, water and railways."""
    areas, kind, traces = _pieces(run, "scenery"), run.ground.get("scenery_kind", np.zeros(0)), list[Figure]()
    for k, (name, color) in enumerate(zip(SCENERY, SCENERY_COLORS, strict=True)):
        mine = [areas[i] for i in np.flatnonzero(kind == k)]
        kept = np.cumsum([len(ring) for ring in mine]) <= MOST_CORNERS
        if mine:
            trace = _outlines([ring for ring, keep in zip(mine, kept, strict=True) if keep], color)
            traces.append(trace | {"name": name, "legendgroup": name, "line": {"width": 0}})
    return traces


def _streets(run: Run) -> list[Figure]:
    """Centre lines of streets; the wider the street class, the wider the line. Beyond a limit minor ones are left out.

    Classes are in the order of `netsim.streets.graph.CLASSES`, main streets first.
    """
    lines, kind = _pieces(run, "street"), run.ground.get("street_class", np.zeros(0))
    order = np.argsort(kind, kind="stable")
    kept = order[np.cumsum([len(lines[k]) for k in order]) <= MOST_STREET_POINTS] if len(lines) else order
    traces = []
    for name, first, last, width in STREETS:
        x, y = joined([lines[k] for k in kept if first <= kind[k] <= last])
        if x:
            traces.append(
                {
                    "type": "scatter", "mode": "lines", "x": x, "y": y, "name": f"streets, {name}",
                    "line": {"color": STREET, "width": width}, "hoverinfo": "skip", "legendgroup": "streets",
                }
            )  # fmt: skip
    return traces


def _doors(run: Run) -> list[Figure]:
    """Doors of buildings."""
    at_m = run.ground.get("door_m", np.zeros((0, 2)))
    if not len(at_m):
        return []
    drawn = at_m[:: -(-len(at_m) // MOST_POINTS)]
    look = {"size": 3, "color": "#8a5a2b", "symbol": "square"}
    return [_dots("doors (click to show)", drawn) | {"marker": look, "visible": "legendonly"}]


def _tracks(run: Run) -> list[Figure]:
    """Tracks of UEs in a few colours, interrupted where a UE was absent, and where they are indoors."""
    rows = run.rows("tracks")
    names, every = dict(zip(run.tables["ues"]["ue"].tolist(), run.tables["ues"]["name"], strict=True)), list[Figure]()
    ues = _drawn_ues(rows)
    rows = {k: v[np.isin(rows["ue"], ues)] for k, v in rows.items()}
    for first, color in enumerate(PALETTE):
        mine = [rows["ue"] == ue for ue in ues[first :: len(PALETTE)]]
        x, y = joined([np.column_stack([rows["x_m"][own], rows["y_m"][own]]) for own in mine])
        texts = [text for own in mine for text in [*map(str, rows["ue"][own].astype(int)), None]]
        said = [None if text is None else plain(names.get(float(text), text)) for text in texts]
        if x:
            every.append(
                {
                    "type": "scatter", "mode": "lines+markers", "x": x, "y": y, "name": "tracks",
                    "legendgroup": "tracks", "showlegend": first == 0, "line": {"color": color, "width": 1.2},
                    "marker": {"size": 3, "color": color}, "opacity": 0.6,
                    "text": said, "hovertemplate": "%{text}<extra></extra>",
                }
            )  # fmt: skip
    inside = rows["indoor"] == 1
    if inside.any():
        at_m = np.unique(np.round(np.column_stack([rows["x_m"][inside], rows["y_m"][inside]]), 1), axis=0)
        dots = _dots("indoors", at_m[:: -(-len(at_m) // MOST_POINTS)])
        every.append(dots | {"marker": {"size": 4, "color": DARK, "opacity": 0.6}})
    return every


def _drawn_ues(rows: Table) -> FloatArray:
    """The first UEs, as many as have no more rows than can be drawn; at least one."""
    ues, count = np.unique(rows["ue"], return_counts=True)
    return np.asarray(ues[: max(1, int(np.searchsorted(np.cumsum(count), MOST_TRACK_ROWS, side="right")))])


def _sectors(run: Run) -> list[Figure]:
    """A wedge of 65 degrees for each sector antenna."""
    azimuth = run.ground.get("station_azimuth_deg", np.zeros(0))
    known = np.flatnonzero(np.isfinite(azimuth))
    if not len(known):
        return []
    west, south, east, north = run.manifest["area_m"]
    reach_m = 0.02 * max(east - west, north - south)
    wedges = []
    for k in known:
        turn = np.deg2rad(azimuth[k] + np.array([-32.5, 0.0, 32.5]))
        rim_m = run.ground["station_m"][k] + reach_m * np.column_stack([np.sin(turn), np.cos(turn)])
        wedges.append(np.vstack([run.ground["station_m"][k], rim_m, run.ground["station_m"][k]]))
    trace = _outlines(wedges, "rgba(213,94,0,0.6)")
    return [trace | {"name": "sectors", "legendgroup": "sectors", "line": {"width": 0}}]


def _ground_sentence(run: Run) -> str:
    """A sentence on the buildings of the map; empty where all are drawn."""
    if not run.ground:
        return "This run recorded no buildings. "
    if not len(run.ground["building_height_m"]):
        return "There are no buildings. "
    corners = len(run.ground["footprint_m"])
    return "" if corners <= MOST_CORNERS else f"Only the widest buildings are drawn, up to {MOST_CORNERS:,} corners. "


def _dots(name: str, position_m: FloatArray) -> Figure:
    return {
        "type": "scatter", "mode": "markers", "name": name, "hoverinfo": "skip",
        "x": numbers(position_m[:, 0]), "y": numbers(position_m[:, 1]),
        "marker": {"size": 3, "color": "#9a9a9a", "opacity": 0.55},
    }  # fmt: skip


def _by_round(run: Run, look: Look, rows: Table, size: int) -> list[Figure]:
    """Markers that tell their round by colour."""
    known = np.flatnonzero(np.isfinite(rows["x_m"]) & np.isfinite(rows["y_m"]))
    known = known[:: -(-len(known) // MOST_POINTS) or 1]
    if not len(known):
        return []
    names = dict(zip(run.tables["ues"]["ue"].tolist(), run.tables["ues"]["name"], strict=True))
    r = {k: v[known] for k, v in rows.items()}
    thin = look.symbol.endswith("thin-open")  # such a symbol is all outline: it takes the round's colour
    return [
        {
            "type": "scatter", "mode": "markers", "name": plain(look.name),
            "x": numbers(r["x_m"]), "y": numbers(r["y_m"]),
            "marker": {"symbol": look.symbol, "size": size, "color": numbers(r["round"]), "colorscale": "Viridis",
                       "line": {"width": 2} if thin else {"width": 1.6, "color": look.color}},
            "text": [f"round {figure_text(n)}, {plain(names.get(u, u))}, {when}"
                     for n, u, when in zip(r["round"], r["ue"], run.dates(r["time_s"]), strict=True)],
            "hovertemplate": "%{text}<br>%{x:,.0f} m east, %{y:,.0f} m north",
        }
    ]  # fmt: skip


def landmarks(run: Run) -> list[Figure]:
    """Homes and workplaces."""
    ues = run.tables["ues"]
    pins: list[Figure] = []
    for place, symbol in (("home", "star"), ("work", "hourglass")):
        known = np.isfinite(ues[f"{place}_x_m"]) & np.isfinite(ues[f"{place}_y_m"])
        x, y = ues[f"{place}_x_m"][known], ues[f"{place}_y_m"][known]
        names = [f"{place} of {plain(n)}" for n in ues["name"][known]]
        pins.append(_pins(place, symbol, "#ffffff", (x, y), names, len(x) <= 3))
    return pins


def _masts(sites: Mapping[Place, list[str]]) -> list[Figure]:
    """Base stations: one pin a site, with the names of all its sectors."""
    at_m = np.array(list(sites), dtype=float).reshape(-1, 2)
    names = [f"base station {plain(', '.join(sectors))}" for sectors in sites.values()]
    return [_pins("base station", "triangle-up", DARK, (at_m[:, 0], at_m[:, 1]), names, len(names) <= 3)]


def _sites(run: Run) -> tuple[dict[Place, list[str]], int]:
    """Names of the base stations at each place, and how many lie too far outside of the area to be drawn."""
    west, south, east, north = run.manifest["area_m"]
    reach_m = FAR * max(east - west, north - south)
    sites: dict[Place, list[str]] = {}
    left_out = 0
    for name, x, y in run.stations:
        near = west - reach_m <= x <= east + reach_m and south - reach_m <= y <= north + reach_m
        left_out += not near
        if near:
            sites.setdefault((x, y), []).append(name)
    return sites, left_out


def _buildings(run: Run) -> list[Figure]:
    """Footprints, a few shades of grey: the darker, the taller. Beyond a limit only the widest are drawn.

    Walls run one way and courtyards the other, so that what is filled is between them.
    """
    ptr, corners = run.ground.get("footprint_ptr", np.zeros(1, dtype=int)), run.ground.get("footprint_m")
    height = run.ground.get("building_height_m", np.zeros(0))
    if corners is None or not len(height):
        return []
    owner = run.ground["footprint_building"]
    shapes = [corners[a:b] for a, b in pairwise(ptr.tolist())]
    width, count = np.zeros(len(height)), np.zeros(len(height), dtype=int)
    np.maximum.at(width, owner, [np.ptp(s, axis=0).max() if len(s) else 0.0 for s in shapes])
    np.add.at(count, owner, np.diff(ptr))
    order = np.argsort(-width, kind="stable")
    drawn = np.zeros(len(height), dtype=bool)
    drawn[order[np.cumsum(count[order]) <= MOST_CORNERS]] = True
    kept = np.flatnonzero(drawn[owner])
    low, high = float(np.nanmin(height)), float(np.nanmax(height))
    shade = np.zeros(len(height), dtype=int)
    if high > low:
        shade = np.minimum(len(SHADES) * (np.nan_to_num(height, nan=low) - low) / (high - low), len(SHADES) - 1).astype(
            int
        )
    tall = (
        f"{figure_text(low)} to {figure_text(high)} m high, darker: taller"
        if high > low
        else f"{figure_text(low)} m high"
    )
    outlines = [
        _outlines([shapes[k] for k in kept if shade[owner[k]] == level], color) for level, color in enumerate(SHADES)
    ]
    outlines = [trace for trace in outlines if trace["x"]]
    return [
        {**trace, "name": f"buildings, {tall}", "showlegend": k == len(outlines) // 2}
        for k, trace in enumerate(outlines)
    ]


def _outlines(shapes: Sequence[FloatArray], color: str) -> Figure:
    """Filled outlines of one colour."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for shape in shapes:
        xs += [*numbers(shape[:, 0]), None]
        ys += [*numbers(shape[:, 1]), None]
    return {
        "type": "scatter", "mode": "lines", "x": xs, "y": ys, "fill": "toself", "fillcolor": color,
        "line": {"width": 0.7, "color": "#a8a8a8"}, "hoverinfo": "skip", "legendgroup": "buildings",
    }  # fmt: skip


def _pins(
    name: str, symbol: str, fill: str, at_m: tuple[FloatArray, FloatArray], texts: list[str], written: bool
) -> Figure:
    return {
        "type": "scatter", "mode": "markers+text" if written else "markers", "name": name,
        "x": numbers(at_m[0]), "y": numbers(at_m[1]), "hovertext": texts, "hoverinfo": "text",
        "text": [name] * len(texts), "textposition": "top center", "textfont": {"weight": 700},
        "showlegend": bool(texts),
        "marker": {"symbol": symbol, "size": 14, "color": fill,
                   "line": {"width": 1.6, "color": "#ffffff" if fill == DARK else DARK}},
    }  # fmt: skip


def map_figure(traces: list[Figure], area_m: tuple[float, float, float, float], sites: Sequence[Place]) -> Figure:
    """Equal scales, the area's frame, and a bar that tells the rounds; wide enough for all base stations."""
    west, south, east, north = area_m
    pad_m = 0.03 * max(east - west, north - south, 1.0)
    layout, head = base_layout(), BAR + 22 * legend_rows(traces, aligned=True) + 12
    frame = {"type": "rect", "x0": west, "x1": east, "y0": south, "y1": north,
             "line": {"color": GREY, "width": 1}}  # fmt: skip
    west, east = min([west, *(x for x, _ in sites)]), max([east, *(x for x, _ in sites)])
    south, north = min([south, *(y for _, y in sites)]), max([north, *(y for _, y in sites)])
    ratio = (north - south + 2 * pad_m) / (east - west + 2 * pad_m)
    colored = [t["marker"] for t in traces if "colorscale" in t.get("marker", {})]
    rounds = sorted({n for marker in colored for n in marker["color"] if n is not None})
    for marker in colored:  # one range for all, written out: a shared axis makes plotly complain of every legend entry
        marker |= {"cmin": rounds[0], "cmax": max(rounds[-1], rounds[0] + 1)}
    bar: Figure = {"title": {"text": "round"}, "thickness": 14, "tickformat": "d", "outlinewidth": 0}
    if 0 < len(rounds) <= FEW_ROUNDS:  # else plotly writes whole numbers several times
        bar["tickvals"] = rounds
    if len(rounds) > 1:
        colored[0] |= {"showscale": True, "colorbar": bar}
    layout |= {
        "hovermode": "closest", "shapes": [frame], "height": int(np.clip(940 * ratio, 380, 860)) + 60 + head,
        "margin": {"l": 70, "r": 20, "t": head, "b": 60},
        "xaxis": {**axis("east (m)"), "range": [west - pad_m, east + pad_m], "constrain": "domain"},
        "yaxis": {**axis("north (m)"), "range": [south - pad_m, north + pad_m], "constrain": "domain",
                  "scaleanchor": "x"},
    }  # fmt: skip
    layout["legend"]["y"] = 1.01
    return {"data": traces, "layout": layout}

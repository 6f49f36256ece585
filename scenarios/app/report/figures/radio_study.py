"""The figures of a radio study: coverage maps, distributions and handovers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from netsim.units import FloatArray, IntArray
from scenarios.app.report.figures.radio_map import heatmaps
from scenarios.app.report.plot import DARK, GREY, PALETTE, Cell, Figure, Look, Panel, line, mosaic, numbers, plain
from scenarios.app.report.series import DATES
from scenarios.app.results.radio_text import SHOWN
from scenarios.app.results.run import Run, Table
from scenarios.app.results.statistics import counted, quantile

LOOKS = {
    "all": Look("all samples", DARK),
    "indoor": Look("indoors", PALETTE[1], dash="longdash"),
    "outdoor": Look("outdoors", PALETTE[0], dash="dot"),
}
CELL_COLORS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00",
    "#999933", "#882255", "#44AA99", "#DDCC77", "#332288", "#AA4499",
)  # fmt: skip
MOST_BARS = 120  # of handovers over time
SINR_RANGE_DB = (-10.0, 30.0)
_SITES_DRAWN = 500
_NEIGHBOUR = 1.5  # cells of the grid: the eight around one


def coverage(run: Run) -> Panel:
    """Maps of RSRP, SINR, best server and line of sight."""
    key, title = "coverage", "Coverage at street level"
    rows = run.tables["coverage"]
    if not len(rows["x_m"]):
        return Panel(key, title, "There is no outdoor place in the area.")
    names = list(dict.fromkeys([*(name for name, *_ in run.stations), *map(str, rows["cell"])]))
    index = {name: k for k, name in enumerate(names)}
    best = np.array([float(index[str(name)] % len(CELL_COLORS)) for name in rows["cell"]])
    maps = [
        _heatmap(run, "RSRP of the strongest cell", rows["rsrp_dbm"], "dBm", {}),
        _heatmap(run, "SINR at full load", rows["sinr_db"], "dB", _limits(rows["sinr_db"])),
        _heatmap(run, "strongest cell", best, "", _discrete(CELL_COLORS), list(map(str, rows["cell"]))),
    ]
    if 0 < rows["los"].sum() < len(rows["los"]):
        maps.append(_heatmap(run, "line of sight", rows["los"], "", _discrete(("#882255", "#DDCC77")), _sight(rows)))
    caption = (
        "At the height of a UE at street level, without small-scale fading, while all cells send at full power. "
        "Buildings are white; at their edges, and where they are narrow, the value of the neighbouring place outdoors "
        "is drawn. "
        f"Triangles are base stations; the {len(CELL_COLORS)} colours of cells repeat. "
        + ("Yellow in the last map: the strongest cell is in line of sight." if len(maps) > 3 else "")
    )
    return Panel(key, title, caption, heatmaps(maps, 350 if len(maps) > 3 else 300))


def _sight(rows: Table) -> list[str]:
    return ["line of sight" if los else "no line of sight" for los in rows["los"]]


def _limits(value_db: FloatArray) -> Figure:
    """Colours within the range in which a link is usable."""
    low, high = SINR_RANGE_DB
    return {"zmin": max(low, float(np.nanmin(value_db))), "zmax": min(high, float(np.nanmax(value_db)) + 1e-3)}


def _discrete(colors: Sequence[str]) -> Figure:
    """A colour for each whole number from 0 on, without a scale."""
    n = len(colors)
    steps = [[(k + end) / n, color] for k, color in enumerate(colors) for end in (0, 1)]
    return {"colorscale": steps, "zmin": -0.5, "zmax": n - 0.5, "showscale": False}


def _heatmap(
    run: Run, title: str, value: FloatArray, unit: str, more: Figure, texts: Sequence[str] = ()
) -> tuple[str, Figure, Figure]:
    """Title, map of values at the places of the table, and the base stations."""
    rows = run.tables["coverage"]
    x, column = np.unique(rows["x_m"], return_inverse=True)
    y, row = np.unique(rows["y_m"], return_inverse=True)
    at = nearest(row, column, (len(y), len(x)))
    z = np.where(at >= 0, value[at], np.nan)
    said = np.where(at >= 0, np.array([plain(text) for text in texts], dtype=object)[at], "") if texts else z
    heat: Figure = {
        "type": "heatmap", "x": numbers(x), "y": numbers(y), "colorscale": "Viridis", "name": plain(title),
        "z": [[float(f"{v:.4g}") if np.isfinite(v) else None for v in line] for line in z], "showlegend": False,
        "colorbar": {"title": {"text": unit, "font": {"size": 11}}, "tickfont": {"size": 11}},
        "hovertemplate": "%{x:,.0f} m east, %{y:,.0f} m north: "
        + ("%{text}" if texts else "%{z:.1f} " + unit) + "<extra></extra>",
        **({"text": said.tolist()} if texts else {}), **more,
    }  # fmt: skip
    return title, heat, _stations(run)


def nearest(row: IntArray, column: IntArray, shape: tuple[int, int]) -> IntArray:
    """For each cell of a grid (ny, nx) the index of itself or a neighbour among the cells (row, column) with a value.

    -1 where no neighbour has one.
    """
    from scipy.ndimage import distance_transform_edt

    index = np.full(shape, -1)
    index[row, column] = np.arange(len(row))
    away, at = distance_transform_edt(index < 0, return_indices=True)
    return np.where(away < _NEIGHBOUR, index[tuple(at)], -1)


def _stations(run: Run) -> Figure:
    """The base stations in the area."""
    west, south, east, north = run.manifest["area_m"]
    sites = {(x, y): name for name, x, y in run.stations if west <= x <= east and south <= y <= north}
    drawn = list(sites)[:_SITES_DRAWN]
    return {
        "type": "scatter", "mode": "markers", "x": [x for x, _ in drawn], "y": [y for _, y in drawn],
        "name": "base station", "showlegend": False, "text": [plain(sites[at]) for at in drawn],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"symbol": "triangle-up", "size": 8, "color": "#ffffff", "line": {"color": DARK, "width": 1.2}},
    }  # fmt: skip


Curves = Mapping[str, FloatArray]
"""quantity -> quantiles (101,) from 0 % to 100 %"""


def curves(run: Run, selection: str = "all") -> dict[str, FloatArray]:
    """The distributions of one selection of samples."""
    cdf = run.tables["radio_cdf"]
    mine = np.array([s == selection for s in cdf["selection"]], dtype=bool)
    return {name: cdf["value"][mine & np.array([q == name for q in cdf["quantity"]], dtype=bool)] for name in SHOWN}


def distributions(run: Run) -> Panel:
    """Cumulative distributions of all quantities."""
    sets = [(look, curves(run, selection)) for selection, look in LOOKS.items()]
    shown = [(look, of) for look, of in sets if any(len(values) for values in of.values())]
    caption = (
        "Share of samples at most at a value; a sample is a UE that is present at a sampling time. Gain is antenna "
        "gain minus path loss plus shadowing and, indoors, minus penetration loss; geometry is the power of the "
        "serving cell over the sum of all others', SINR the same with noise. The rate is that of a UE that is given "
        "the whole band of its cell (see the channel card)."
    )
    return _cdf("Distributions over UEs and time", caption, shown)


def _cdf(title: str, caption: str, shown: Sequence[tuple[Look, Curves]]) -> Panel:
    """A cell for each quantity."""
    cells, titles = list[Cell](), list[str]()
    for name, (word, unit, factor) in SHOWN.items():
        traces = [
            line(look, numbers(factor * of[name]), np.linspace(0.0, 100.0, len(of[name])), mode="lines",
                 showlegend=not cells, hovertemplate="%{y:.0f} % up to %{x:.3~r} " + unit)
            for look, of in shown if len(of[name]) and np.isfinite(of[name]).any()
        ]  # fmt: skip
        if traces:
            cells.append(Cell("samples (%)", traces, word, percent=True))
            titles.append(f"{word} ({unit})")
    if not cells:
        return Panel("distributions", title, "There were no samples.")
    figure = mosaic(cells, {}, 300)
    for k, text in enumerate(titles):
        figure["layout"][f"xaxis{k + 1 if k else ''}"]["title"] = {"text": text}
    figure["layout"]["hovermode"] = "closest"
    return Panel("distributions", title, caption, figure)


def compared(labels: Mapping[str, Sequence[Curves]], own: Sequence[Look]) -> Panel:
    """Distributions of each label: at every percent the median over its runs."""
    shown = []
    for look, runs in zip(own, labels.values(), strict=True):
        of = {name: [run[name] for run in runs if len(run[name])] for name in SHOWN}
        shown.append((look, {n: quantile(np.array(v).T, 0.5) if v else np.zeros(0) for n, v in of.items()}))
    caption = (
        "A line a label: the share of its samples up to a value. Of several seeds it is the median of each quantile."
    )
    return _cdf("Distributions of each label", caption, shown)


def handovers(run: Run) -> Panel:
    """Handovers over time."""
    key, title = "handovers", "Handovers over time"
    time_s, duration_s = run.rows("handovers")["time_s"], float(run.manifest["duration_s"])
    if not len(time_s):
        return Panel(key, title, "There was no handover, or handover is not modelled.")
    steps = [s for s in (1, 10, 60, 300, 900, 3600, 14_400, 86_400, 604_800) if duration_s / s <= MOST_BARS]
    width_s = float(steps[0]) if steps else duration_s / MOST_BARS
    number = np.bincount((time_s // width_s).astype(int), minlength=int(np.ceil(duration_s / width_s)))
    starts_s = np.asarray(np.arange(len(number)) * width_s, dtype=np.float64)
    bars = line(Look("handovers", GREY), run.dates(starts_s), number.astype(float),
                hovertemplate="%{y:,.0f} handovers", showlegend=False)  # fmt: skip
    bars = {k: v for k, v in bars.items() if k not in ("mode", "line")} | {"type": "bar", "marker": {"color": GREY}}
    caption = f"{counted(len(time_s), 'handover')} of all UEs, in intervals of {width_s:,g} s."
    return Panel(key, title, caption, mosaic([Cell("handovers", [bars])], DATES, 260))


def busiest_pairs(run: Run, most: int) -> list[tuple[str, str, int]]:
    """Source, target and number of handovers of the pairs of cells with the most."""
    rows = run.rows("handovers")
    number = Counter(zip(map(str, rows["source"]), map(str, rows["target"]), strict=True))
    ordered = sorted(number.items(), key=lambda item: (-item[1], item[0]))
    return [(source, target, n) for (source, target), n in ordered[:most]]

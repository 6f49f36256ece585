"""Distributions of the uplink: SINR, rate, airtime and latency of every transmission."""

from __future__ import annotations

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.plot import DARK, Cell, Figure, Look, Panel, axis, base_layout, line, numbers
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import counted

_POINTS = np.linspace(0.0, 100.0, 201)  # percent, at which a distribution is drawn
_QUANTITIES = (
    ("sinr_db", "SINR (dB)", False), ("rate_bps", "rate (bit/s)", True), ("airtime_s", "airtime (s)", True),
    ("latency_s", "latency (s)", True),
)  # fmt: skip
"""column of links.csv, its axis, and whether that is logarithmic"""


def transmissions(run: Run) -> Panel:
    """Cumulative distributions over all transmissions, decoded and lost ones apart."""
    key, title = "transmissions", "Uplink: SINR, rate, airtime and latency of all transmissions"
    links = run.rows("links")
    cells = list[tuple[Cell, str, bool]]()
    lost = links["decoded"] == 0
    for column, name, log in _QUANTITIES:
        values = np.where(links[column] > 0, links[column], np.nan) if log else links[column]
        if not np.isfinite(values).any():
            continue
        traces = [_cdf(Look("decoded in time", DARK), values[~lost], not cells)]
        if lost.any():
            traces.append(_cdf(Look("lost", "#882255", dash="dot"), values[lost], not cells))
        cells.append((Cell("transmissions (%)", [t for t in traces if t["x"]], name, percent=True), name, log))
    if not cells:
        return Panel(key, title, "The uplink is ideal: every update arrives at once.")
    caption = (
        f"The share of transmissions that have at most the value on the axis below, of {counted(len(lost), 'link')}. "
        "A step to the left of another means lower values. Lost: not decoded, or after the deadline."
    )
    return Panel(key, title, caption, _row(cells))


def _cdf(look: Look, values: FloatArray, shown: bool) -> Figure:
    known = values[np.isfinite(values)]
    at = np.quantile(known, _POINTS / 100.0) if len(known) else np.zeros(0)
    drawn = line(look, numbers(at), _POINTS[: len(at)], mode="lines", showlegend=shown)
    return drawn | {"hovertemplate": "%{y:.0f} % at most %{x:,.3~r}"}


def _row(cells: list[tuple[Cell, str, bool]]) -> Figure:
    """Cells that share the vertical axis but none of the horizontal ones."""
    n, layout, data = len(cells), base_layout(), list[Figure]()
    gap = 0.06
    width = (1.0 - gap * (n - 1)) / n
    for k, (cell, name, log) in enumerate(cells):
        tail, left = str(k + 1) if k else "", k * (width + gap)
        scale = {"type": "log"} if log else {}
        layout[f"xaxis{tail}"] = axis(name) | scale | {
            "domain": [round(left, 4), round(min(left + width, 1.0), 4)], "anchor": f"y{tail}", "nticks": 5,
            "exponentformat": "SI",
        }  # fmt: skip
        layout[f"yaxis{tail}"] = axis(cell.y_title if k == 0 else "") | {"range": [0, 103], "anchor": f"x{tail}"}
        data += [{"xaxis": f"x{tail}", "yaxis": f"y{tail}", **trace} for trace in cell.traces]
    layout |= {"height": 340, "hovermode": "closest", "margin": {"l": 60, "r": 20, "t": 40, "b": 60}}
    layout["legend"]["y"] = 1.02
    return {"data": data, "layout": layout}

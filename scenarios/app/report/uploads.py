"""Uploads that take their time: what each UE does when, how long the parts last, and how stale merged updates are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.units import FloatArray
from scenarios.app.report.charts import Beside, Chart, Laid, Law, Quantity, Series, above_zero
from scenarios.app.report.plot import (
    DARK,
    GREY,
    PALETTE,
    Axes,
    Figure,
    Look,
    Panel,
    distribution,
    marks,
    mosaic,
    numbers,
    plain,
)
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.uploads import PARTS, arrived, bounds_s, durations_s, lost

MOST_UES = 60  # lines of the timeline
MOST_UPLOADS = 1200  # on them
PATIENCE = 12.0  # typical uploads that the timeline shows of a UE
_TICKS = [float(f"{m}e{e}") for e in range(-6, 8) for m in (1, 2, 5)]  # of a logarithmic axis, seconds
_LOOKS = {
    "preparing": (Look("preparing: downlink and training", GREY, dash="longdash"), 0.2),
    "waiting": (Look("waiting for a grant", PALETTE[5], dash="dot"), 0.4),
    "sending": (Look("sending", PALETTE[0], dash="dashdot"), 0.8),
    "whole": (Look("from request to arrival", DARK), 0.0),
}
"""look of each part, and its width on the timeline"""


def requested(run: Run) -> Table:
    """Uploads with a request and a UE."""
    uploads = run.tables["transmissions"]
    return where(uploads, np.isfinite(uploads["requested_s"]) & np.isfinite(uploads["ue"]))


def uploads_panels(of: Laid) -> list[Panel]:
    """The figures; nothing where uploads take no time."""
    uploads = requested(of.run)
    return [timeline(of.run, uploads), latency(uploads), *STALENESS.panels(of)] if len(uploads["ue"]) else []


def timeline(run: Run, uploads: Table) -> Panel:
    """Bars of the parts of each upload, a row per UE; the axis shows the first few uploads of each."""
    order = np.argsort(uploads["requested_s"], kind="stable")
    own = np.unique(uploads["ue"])
    shown = where(uploads, order[np.isin(uploads["ue"][order], own[:MOST_UES])][:MOST_UPLOADS])
    begin_s = shown["requested_s"][0]
    # an upload that could not send ends at the last that is known of it; one under way, with the last of all
    marks_s = np.column_stack([shown[k] for k in ("requested_s", "ready_s", "granted_s")])
    until_s = np.where(lost(shown), np.nanmax(marks_s, axis=1), np.nanmax([*shown["ended_s"], *marks_s.ravel()]))
    shown["ended_s"] = np.where(np.isfinite(shown["ended_s"]), shown["ended_s"], until_s)
    lasting_s, whole_s = np.median(shown["ended_s"] - shown["requested_s"]), shown["ended_s"].max() - begin_s
    window_s = max(min(PATIENCE * lasting_s, whole_s), 1e-3)
    unit, second = ("minutes", 60.0) if window_s >= 180.0 else ("seconds", 1.0)
    bounds = (bounds_s(shown) - begin_s) / second
    names = np.array([plain(run.tables["ues"]["name"][int(ue)]) for ue in shown["ue"]], dtype=object)
    traces = [_bars(part, names, bounds[:, k], bounds[:, k + 1], shown) for k, part in enumerate(PARTS)]
    gone = np.flatnonzero(lost(shown))
    texts = [plain(f"{names[i]}: {shown['fate'][i]}") for i in gone]
    at = numbers((shown["ended_s"][gone] - begin_s) / second)
    crosses = marks(Look("lost", PALETTE[1], "x"), at, np.zeros(len(gone)), texts)
    traces.append(crosses | {"y": names[gone].tolist()})
    x_axis = {"title": f"{unit} since {run.dates(np.array([begin_s]))[0]}", "range": [0, window_s / second]}
    height = max(14 * len(set(names)), 90)
    figure = mosaic([Axes("", [trace for trace in traces if trace["x"]])], x_axis, height, closest=True)
    figure["layout"]["yaxis"] |= {"type": "category", "autorange": "reversed"}
    figure["layout"]["barmode"] = "overlay"
    caption = (
        "A row per UE: thin and grey while it receives the model and trains, orange while it waits for its first "
        "grant, thick and blue while it sends; a cross is an upload that was lost. "
        f"Drawn: {len(names):,} of {counted(len(order), 'upload')}, of {len(set(names))} of {counted(len(own), 'UE')}."
    )
    return Panel("uploads-timeline", "Uploads of each UE over time", caption, figure)


def _bars(part: str, who: NDArray[Any], begins: FloatArray, ends: FloatArray, shown: Table) -> Figure:
    """One part of all uploads."""
    (look, width), length_s = _LOOKS[part], durations_s(shown)[part]
    there = np.flatnonzero(ends > begins)
    return {
        "type": "bar", "orientation": "h", "name": look.name, "legendgroup": look.name, "width": width,
        "base": numbers(begins[there]), "x": numbers((ends - begins)[there]), "y": who[there].tolist(),
        "text": [f"{who[i]}: {part} {figure_text(float(length_s[i]))} s" for i in there], "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>", "marker": {"color": look.color},
    }  # fmt: skip


def latency(uploads: Table) -> Panel:
    """Distributions of the time from request to arrival, and of its parts."""
    key, title = "uploads-latency", "How long uploads take, part by part"
    length_s = durations_s(where(uploads, arrived(uploads)))
    traces = [distribution(look, length_s[part], least=0.0) for part, (look, _) in _LOOKS.items()]
    traces = [trace for trace in traces if trace["x"]]
    if not traces:
        return Panel(key, title, "No upload arrived.")
    caption = (
        "The share of uploads that took at most the time on the axis below, of those that arrived. Waiting is until "
        "the first grant; sending includes pauses between grants. A part of length zero lies to the left of the axis."
    )
    x_axis = {"title": "time (s)", "type": "log", "tickvals": _TICKS, "ticktext": [f"{t:g}" for t in _TICKS]}
    cells = [Axes("uploads that arrived (%)", traces, percent=True)]
    return Panel(key, title, caption, mosaic(cells, x_axis, 320, closest=True))


def _stale(mean: bool) -> Law:
    """Mean or largest staleness of the updates of each merge; nothing where all are fresh."""

    def law(of: Laid, _: str) -> Series:
        uploads = requested(of.run)
        merged = where(uploads, np.isfinite(uploads["staleness"]))
        number, at = np.unique(merged["round"], return_inverse=True)
        most = np.zeros(len(number))
        np.maximum.at(most, at, merged["staleness"])
        n = np.bincount(at) if len(at) else np.ones(0)
        value = np.bincount(at, merged["staleness"]) / n if mean and len(at) else most
        return number, above_zero(value[:, None])

    return law


STALENESS = Chart(
    "uploads-staleness", "Staleness of merged updates",
    (Quantity("Mean over the updates of the merge", "versions", _stale(mean=True),
              (Beside("oldest update of the merge", _stale(mean=False)),)),),
    "How many times the model had changed since the updates of a merge began from it.",
    by=lambda _: [Look("mean over the updates of the merge", DARK)], height=260,
)  # fmt: skip

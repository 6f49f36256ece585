"""Uploads that take their time: how long their parts last, and how stale merged updates are."""

from __future__ import annotations

import numpy as np

from scenarios.app.report.charts import Beside, Chart, Laid, Law, Quantity, Series, above_zero
from scenarios.app.report.plot import (
    DARK,
    GREY,
    PALETTE,
    Axes,
    CurveStyle,
    Panel,
    distribution,
    mosaic,
)
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.uploads import arrived, durations_s

_TICKS = [float(f"{m}e{e}") for e in range(-6, 8) for m in (1, 2, 5)]  # of a logarithmic axis, seconds
_LOOKS = {
    "preparing": CurveStyle("preparing: downlink and training", GREY, dash="longdash"),
    "waiting": CurveStyle("waiting for a grant", PALETTE[5], dash="dot"),
    "sending": CurveStyle("sending", PALETTE[0], dash="dashdot"),
    "whole": CurveStyle("from request to arrival", DARK),
}


def requested(run: Run) -> Table:
    """Uploads with a request and a UE."""
    uploads = run.tables["transmissions"]
    return where(uploads, np.isfinite(uploads["requested_s"]) & np.isfinite(uploads["ue"]))


def uploads_panels(of: Laid) -> list[Panel]:
    """The figures; nothing where uploads take no time."""
    uploads = requested(of.run)
    return [latency(uploads), *STALENESS.panels(of)] if len(uploads["ue"]) else []


def latency(uploads: Table) -> Panel:
    """Distributions of the time from request to arrival, and of its parts."""
    key, title = "uploads-latency", "How long uploads take, part by part"
    length_s = durations_s(where(uploads, arrived(uploads)))
    traces = [distribution(look, length_s[part], least=0.0) for part, look in _LOOKS.items()]
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
    by=lambda _: [CurveStyle("mean over the updates of the merge", DARK)], height=260,
)  # fmt: skip

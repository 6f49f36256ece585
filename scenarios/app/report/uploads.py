"""Uploads that take their time: what each UE does when, how long the parts last, and how stale merged updates are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.units import FloatArray
from scenarios.app.report.charts import Beside, Chart, Law, Quantity, above_zero
from scenarios.app.report.plot import (
    DARK,
    GREY,
    PALETTE,
    Cell,
    Figure,
    Look,
    Panel,
    distribution,
    marks,
    mosaic,
    numbers,
    plain,
)
from scenarios.app.report.series import Laid, Series
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
    """What each UE did when: a row of bars per UE."""
    whole_s, first = durations_s(uploads)["whole"], np.unique(uploads["ue"])[:MOST_UES]
    known_s = whole_s[np.isfinite(whole_s)]
    begin_s = float(uploads["requested_s"].min())
    last_s = float(np.nanmax(uploads["ended_s"], initial=begin_s))
    end_s = min(begin_s + PATIENCE * float(np.median(known_s) if len(known_s) else 0.0), last_s)
    end_s = max(end_s, begin_s + 1e-3)
    rows = np.flatnonzero(np.isin(uploads["ue"], first) & (uploads["requested_s"] < end_s))
    rows = rows[np.argsort(uploads["requested_s"][rows], kind="stable")][:MOST_UPLOADS]
    shown = where(uploads, rows)
    marks_s = np.column_stack([shown[k] for k in ("requested_s", "ready_s", "granted_s")])
    # an upload that could not send ends at the last that is known of it; one under way, at the right
    until_s = np.maximum(np.nanmax(marks_s, axis=1), np.where(lost(shown), -np.inf, end_s))
    shown["ended_s"] = np.where(np.isfinite(shown["ended_s"]), shown["ended_s"], until_s)
    unit, second = ("minutes", 60.0) if end_s - begin_s >= 180.0 else ("seconds", 1.0)
    bounds = (np.minimum(bounds_s(shown), end_s) - begin_s) / second
    who = np.array([plain(run.tables["ues"]["name"][int(ue)]) for ue in shown["ue"]], dtype=object)
    traces = [_bars(part, who, bounds[:, k], bounds[:, k + 1], shown) for k, part in enumerate(PARTS)]
    gone = np.flatnonzero(lost(shown) & (shown["ended_s"] <= end_s))
    texts = [plain(f"{who[i]}: {shown['fate'][i]}") for i in gone]
    crosses = numbers((shown["ended_s"][gone] - begin_s) / second)
    traces.append(
        marks(Look("lost", PALETTE[1], "x"), crosses, np.zeros(len(gone)), texts) | {"y": [who[i] for i in gone]}
    )
    x_axis = {"title": f"{unit} since {run.dates(np.array([begin_s]))[0]}", "range": [0, (end_s - begin_s) / second]}
    n_ue = len(set(who))
    figure = mosaic([Cell("", [t for t in traces if t["x"]])], x_axis, max(14 * n_ue, 90), closest=True)
    figure["layout"]["yaxis"] |= {"type": "category", "autorange": "reversed"}
    figure["layout"]["barmode"] = "overlay"
    total = len(np.unique(uploads["ue"]))
    caption = (
        "A row per UE: thin and grey while it receives the model and trains, orange while it waits for its first "
        "grant, thick and blue while it sends; a cross is an upload that was lost. "
        + (f"Drawn are the first {n_ue} of {counted(total, 'UE')}. " if total > n_ue else "")
        + f"The axis begins with the first request and shows {counted(len(rows), 'upload')} of {len(uploads['ue']):,}."
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
    cells = [Cell("uploads that arrived (%)", traces, percent=True)]
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

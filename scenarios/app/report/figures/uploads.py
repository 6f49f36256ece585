"""Uploads that take their time: what each UE does when, how long the parts last, and how stale merged updates are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netsim.units import FloatArray, IntArray
from scenarios.app.report.html import Chapter, paragraphs
from scenarios.app.report.plot import (
    DARK,
    GREY,
    PALETTE,
    Cell,
    Figure,
    Look,
    Panel,
    axis,
    base_layout,
    line,
    mosaic,
    numbers,
    plain,
)
from scenarios.app.report.series import DATES
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.uploads import PARTS, arrived, bounds_s, durations_s, lost
from scenarios.app.results.uploads_text import sending_text

MOST_UES = 60  # lines of the timeline
MOST_UPLOADS = 1200  # on them
PATIENCE = 12.0  # typical uploads that the timeline shows of a UE
MOST_MERGES = 500  # points of a curve; of more merges several make one
_POINTS = np.linspace(0.0, 100.0, 201)  # percent, at which a distribution is drawn
_TICKS = [float(f"{m}e{e}") for e in range(-6, 8) for m in (1, 2, 5)]  # of a logarithmic axis, seconds
_LOOKS = dict(
    zip(
        PARTS,
        (
            (Look("preparing: downlink and training", GREY), 3),
            (Look("waiting for a grant", PALETTE[5]), 5),
            (Look("sending", PALETTE[0]), 9),
        ),
        strict=True,
    )
)
"""look and width of each part, told apart by both"""
_LOST = Look("lost", PALETTE[1], "x")
_WHOLE = Look("from request to arrival", DARK, dash="solid")


def uploads_chapter(run: Run) -> Chapter:
    """The figures; empty where uploads take no time."""
    uploads = run.tables["transmissions"]
    uploads = where(uploads, np.isfinite(uploads["requested_s"]) & np.isfinite(uploads["ue"]))
    if not len(uploads["ue"]):
        return Chapter("uploads", "Uploads", [])
    said = paragraphs(sending_text(run.summary), "says")
    return Chapter("uploads", "Uploads", [said, timeline(run, uploads), latency(uploads), *staleness(run, uploads)])


def timeline(run: Run, uploads: Table) -> Panel:
    """What each UE did when: a line a UE."""
    key, title = "uploads-timeline", "Uploads of each UE over time"
    rows, begin_s, end_s = _window(uploads)
    shown = where(uploads, rows)
    shown["ended_s"] = _ends_s(shown, end_s)
    unit, second = ("minutes", 60.0) if end_s - begin_s >= 180.0 else ("seconds", 1.0)
    ues, at = np.unique(shown["ue"], return_inverse=True)
    names = run.tables["ues"]["name"]
    who = [str(names[int(ue)]) for ue in ues]
    marks = (np.minimum(bounds_s(shown), end_s) - begin_s) / second
    traces = [_part(k, part, marks, at, who, shown) for k, part in enumerate(PARTS)]
    gone = np.flatnonzero(lost(shown) & (shown["ended_s"] <= end_s))
    texts = [f"{who[at[i]]}: {shown['fate'][i]}" for i in gone]
    traces.append(_crosses((shown["ended_s"][gone] - begin_s) / second, at[gone], texts))
    layout = base_layout()
    since = run.dates(np.array([begin_s]))[0]
    span = (end_s - begin_s) / second
    layout["xaxis"] = axis(f"{unit} since {since}") | {"range": numbers([-0.01 * span, 1.01 * span])}
    layout["yaxis"] = axis() | {
        "tickvals": list(range(len(ues))), "ticktext": [plain(_short(name)) for name in who],
        "range": [len(ues) - 0.4, -0.6], "showgrid": False, "tickfont": {"size": 11 if len(ues) <= 30 else 9},
    }  # fmt: skip
    layout |= {
        "height": 130 + max(14 * len(ues), 90), "hovermode": "closest", "margin": {"l": 80, "r": 20, "t": 40, "b": 60},
    }  # fmt: skip
    layout["legend"]["y"] = 1.02
    total = len(np.unique(uploads["ue"]))
    caption = (
        "A line a UE: thin and grey while it receives the model and trains, orange while it waits for its first grant, "
        "thick and blue while it sends; a cross is an upload that was lost. "
        + (f"Drawn are the first {len(ues)} of {counted(total, 'UE')}. " if total > len(ues) else "")
        + f"The axis begins with the first request and shows {counted(len(rows), 'upload')} of {len(uploads['ue']):,}."
    )
    return Panel(key, title, caption, {"data": [t for t in traces if t["x"]], "layout": layout})


def _window(uploads: Table) -> tuple[IntArray, float, float]:
    """Rows that are drawn, by UE and time, and from when to when."""
    first = np.unique(uploads["ue"])[:MOST_UES]
    begin_s = float(uploads["requested_s"].min())
    whole_s = durations_s(uploads)["whole"]
    typical_s = float(np.median(whole_s[np.isfinite(whole_s)])) if np.isfinite(whole_s).any() else 0.0
    last_s = float(np.nanmax(uploads["ended_s"], initial=begin_s))
    end_s = min(begin_s + max(PATIENCE * typical_s, 1e-3), max(last_s, begin_s + 1e-3))
    mine = np.flatnonzero(np.isin(uploads["ue"], first))
    asked_s = np.sort(uploads["requested_s"][mine])
    if len(asked_s) > MOST_UPLOADS and asked_s[MOST_UPLOADS] > begin_s:
        end_s = min(end_s, float(asked_s[MOST_UPLOADS]))
    rows = mine[uploads["requested_s"][mine] < end_s]
    return rows[np.lexsort((uploads["requested_s"][rows], uploads["ue"][rows]))], begin_s, end_s


def _ends_s(shown: Table, end_s: float) -> FloatArray:
    """When uploads (n,) end: one that could not send, at the last that is known of it; one under way, at the right."""
    marks = np.column_stack([shown[k] for k in ("requested_s", "ready_s", "granted_s")])
    known_s = np.where(lost(shown), np.nanmax(marks, axis=1), np.maximum(end_s, np.nanmax(marks, axis=1)))
    return np.where(np.isfinite(shown["ended_s"]), shown["ended_s"], known_s)


def _part(k: int, part: str, marks: FloatArray, at: IntArray, who: Sequence[str], shown: Table) -> Figure:
    """One part of all uploads: pieces of lines, interrupted between uploads."""
    look, width = _LOOKS[part]
    length_s = durations_s(shown)[part]
    there = np.flatnonzero(marks[:, k + 1] > marks[:, k])
    x, y, texts = list[float | None](), list[int | None](), list[str]()
    for i in there:
        x += [*numbers(marks[i, k : k + 2]), None]
        y += [int(at[i]), int(at[i]), None]
        texts += [f"{plain(who[at[i]])}: {part} {figure_text(float(length_s[i]))} s"] * 2 + [""]
    return {
        "type": "scatter", "mode": "lines", "x": x, "y": y, "name": look.name, "legendgroup": look.name, "text": texts,
        "hovertemplate": "%{text}<extra></extra>", "line": {"color": look.color, "width": width},
    }  # fmt: skip


def _crosses(x: FloatArray, at: IntArray, texts: Sequence[str]) -> Figure:
    """Where uploads were lost."""
    return {
        "type": "scatter", "mode": "markers", "x": numbers(x), "y": at.tolist(), "name": _LOST.name,
        "legendgroup": _LOST.name, "text": [plain(text) for text in texts], "hovertemplate": "%{text}<extra></extra>",
        "marker": {"symbol": _LOST.symbol, "size": 9, "color": _LOST.color, "line": {"width": 1, "color": "#ffffff"}},
    }  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= 12 else f"{name[:9]}..."


def latency(uploads: Table) -> Panel:
    """Distributions of the time from request to arrival, and of its parts."""
    key, title = "uploads-latency", "How long uploads take, part by part"
    length_s = durations_s(where(uploads, arrived(uploads)))
    looks = [(part, Look(look.name, look.color, dash=dash)) for (part, (look, _)), dash in
             zip(_LOOKS.items(), ("longdash", "dot", "dashdot"), strict=True)]  # fmt: skip
    traces = [trace for part, look in [*looks, ("whole", _WHOLE)] if (trace := _cdf(look, length_s[part]))["x"]]
    if not traces:
        return Panel(key, title, "No upload arrived.")
    x_axis = {"title": {"text": "time (s)"}, "type": "log", "tickvals": _TICKS, "ticktext": [f"{t:g}" for t in _TICKS]}
    caption = (
        "The share of uploads that took at most the time on the axis below, of those that arrived: a curve farther to "
        "the right is a part that takes longer. Waiting is until the first grant; sending includes pauses between "
        "grants. A part of length zero lies to the left of the axis."
    )
    figure = mosaic([Cell("uploads that arrived (%)", traces, percent=True)], x_axis, 320)
    figure["layout"]["hovermode"] = "closest"
    return Panel(key, title, caption, figure)


def _cdf(look: Look, values: FloatArray) -> Figure:
    """Percent of values that are at most x; on a logarithmic axis, so from the first value above 0 on."""
    known = values[np.isfinite(values)]
    at = np.quantile(known, _POINTS / 100.0) if (known > 0).any() else np.zeros(0)
    drawn = line(look, numbers(at[at > 0]), _POINTS[: len(at)][at > 0], mode="lines")
    return drawn | {"hovertemplate": "%{y:.0f} % at most %{x:,.3~r} s"}


def staleness(run: Run, uploads: Table) -> list[Panel]:
    """How old the models are that merged updates began from; nothing where all are fresh."""
    merged = where(uploads, np.isfinite(uploads["staleness"]))
    if not (merged["staleness"] > 0).any():
        return []
    rounds = run.rows("rounds")
    number, at = np.unique(merged["round"], return_inverse=True)
    together = -(-len(number) // MOST_MERGES)
    at = at // together
    mean = np.bincount(at, merged["staleness"]) / np.bincount(at)
    most = np.zeros(len(mean))
    np.maximum.at(most, at, merged["staleness"])
    last = number[np.minimum(np.arange(1, len(mean) + 1) * together, len(number)) - 1]
    x = run.dates(np.interp(last, rounds["round"], rounds["time_s"]))
    traces = [
        line(Look("oldest update of the merge", GREY, "diamond", "dot"), x, most, hovertemplate="%{y:.0f} versions"),
        line(Look("mean over the updates of the merge", DARK), x, mean, hovertemplate="%{y:.3~r} versions"),
    ]
    caption = (
        "How many times the model had changed since the updates of a merge began from it: the larger, the more an "
        "update was made for a model of the past."
        + (f" A point stands for {counted(together, 'merge')}." if together > 1 else "")
    )
    figure = mosaic([Cell("staleness (versions)", traces)], DATES, 260)
    return [Panel("uploads-staleness", "Staleness of merged updates", caption, figure)]

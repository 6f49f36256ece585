"""Figures of radio, the page of a radio study, and the page that compares several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.charts import UPLINK, Chart
from scenarios.app.report.html import Cell, Chapter, page, table
from scenarios.app.report.plot import DARK, PALETTE, Axes, CurveStyle, Figure, Panel, line, mosaic, numbers
from scenarios.app.report.replay import replay_chapter
from scenarios.app.report.tables import head, last_chapters
from scenarios.app.results.folder import RADIO_STUDY, SHOWN
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import counted, quantile
from scenarios.app.study import Record

# Tol's colours, distinguishable with colour blindness; no attack has one of them
SEEN = CurveStyle("line of sight", "#44AA99")
HIDDEN = CurveStyle("no line of sight", "#882255", "diamond")
SELECTED = {
    "all": CurveStyle("all samples", DARK),
    "indoor": CurveStyle("indoors", PALETTE[1], dash="longdash"),
    "outdoor": CurveStyle("outdoors", PALETTE[0], dash="dot"),
}
MOST_LINKS = 2000
Curves = Mapping[str, FloatArray]
"""quantity -> quantiles (101,) from 0 % to 100 %"""


def radio(run: Run) -> Panel:
    """RSRP by distance, in line of sight and without."""
    key = "radio"
    title = "Radio links at sampled outdoor places, by distance"
    ground = run.ground
    if run.replayed:
        return Panel(key, title, "The RSRP was read from a trace; no radio was modelled.")
    if "rsrp_dbm" not in ground:
        return Panel(key, title, "This run recorded no radio map.")
    good = np.isfinite(ground["rsrp_dbm"]) & (ground["distance_m"] > 0)
    # whole places are left out, so that each base station keeps its share of the dots
    good &= (np.arange(len(good)) % (-(-good.size // MOST_LINKS)) == 0)[:, None]
    traces = list[Figure]()
    for look, sight in ((SEEN, 1.0), (HIDDEN, 0.0)):
        dots = good & (ground["los"] == sight)
        if dots.any():
            marker = {"size": 4, "color": look.color, "opacity": 0.4, "symbol": look.symbol}
            distance_m = numbers(ground["distance_m"][dots])
            rsrp_dbm = ground["rsrp_dbm"][dots]
            traces.append(line(look, distance_m, rsrp_dbm, mode="markers", marker=marker))
    if not traces:
        return Panel(key, title, "There is no outdoor place, so no link was sampled.")
    caption = (
        f"Mean received power without small-scale fading, from {counted(good.shape[1], 'base station')} at "
        f"{counted(len(good), 'place')}. A dot is a link."
    )
    x_axis: Figure = {"type": "log", "title": "distance (m)"}
    return Panel(key, title, caption, mosaic([Axes("RSRP (dBm)", traces, near=True)], x_axis, 380, closest=True))


SERVICE = Chart(
    "service", "Uplink over rounds: decoded updates, latency, energy, SINR", UPLINK,
    "The more updates arrive in time, the more the model learns and the attacker sees. Latency is from the request to "
    "the last bit. Energy is that of all uplinks and all training of the round.",
    "The uplink is ideal, or no SINR was recorded.", by=lambda run: [CurveStyle("all UEs", DARK)],
)  # fmt: skip


def service(run: Run) -> Panel:
    """Decoded updates, latency, energy and SINR of each round."""
    if not np.isfinite(run.rows("links")["sinr_db"]).any():
        return Panel(SERVICE.key, SERVICE.title, SERVICE.missing)
    return SERVICE.panels(run)[0]


# -- a radio study

MOST_PAIRS = 10  # of cells, in the table of handovers


def is_radio(manifest: Record) -> bool:
    """Whether a run is a radio study."""
    return manifest.get("kind") == RADIO_STUDY


def radio_single(run: Run) -> str:
    """The page of one radio study."""
    return page(run.manifest["title"], [replay_chapter(run), *radio_chapters(run), *last_chapters(run)], **head(run))


def radio_chapters(run: Run) -> list[Chapter]:
    """All figures and tables of a radio study by what they are about."""
    received = [distributions([(look, [curves(run, name)]) for name, look in SELECTED.items()]), radio(run)]
    return [Chapter("samples", "What UEs receive", received), Chapter("handover", "Handover", [_pairs(run)])]


def curves(run: Run, selection: str = "all") -> Curves:
    """The distributions of one selection of samples."""
    cdf = run.tables["radio_cdf"]
    mine = cdf["selection"] == selection
    return {name: cdf["value"][mine & (cdf["quantity"] == name)] for name in SHOWN}


def distributions(shown: Sequence[tuple[CurveStyle, Sequence[Curves]]]) -> Panel:
    """Cumulative distributions of all quantities; of several runs the median of each quantile."""
    title = "Distributions over UEs and time"
    cells = list[Axes]()
    for name, (word, unit, factor) in SHOWN.items():
        traces = list[Figure]()
        for look, runs in shown:
            known = np.array([run[name] for run in runs if len(run[name])])
            if np.isfinite(known).any():
                x = numbers(factor * quantile(known.T, 0.5))
                percent = np.linspace(0.0, 100.0, known.shape[1])
                hover = f"%{{y:.0f}} % up to %{{x:.3~r}} {unit}"
                traces.append(line(look, x, percent, mode="lines", hovertemplate=hover))
        if traces:
            cells.append(Axes("samples (%)", traces, f"{word} ({unit})", percent=True))
    if not cells:
        return Panel("distributions", title, "There were no samples.")
    caption = (
        "Share of samples at most at a value; a sample is a UE that is present at a sampling time. Gain is antenna "
        "gain minus path loss plus shadowing and, indoors, minus penetration loss; geometry is the power of the "
        "serving cell over the sum of all others', SINR the same with noise. The rate is that of a UE that is given "
        "the whole band of its cell (see the channel card). Of several seeds a line is the median of each quantile."
    )
    return Panel("distributions", title, caption, mosaic(cells, {}, 300, closest=True))


def _pairs(run: Run) -> str:
    """A table of the pairs of cells with the most handovers."""
    rows = run.rows("handovers")
    cells = np.array([rows["source"], rows["target"]], dtype=str)
    pairs, number = np.unique(cells, axis=1, return_counts=True)
    order = np.argsort(-number, kind="stable")[:MOST_PAIRS]
    ordered: list[list[Cell]] = [[str(pairs[0, k]), int(number[k]), str(pairs[1, k])] for k in order]
    return table("Handovers between cells, the most frequent first", ["from", "handovers", "to"], ordered)

"""Figures of radio, the page of a radio study, and the page that compares several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.charts import UPLINK, Chart, Laid
from scenarios.app.report.compare_charts import Member
from scenarios.app.report.compare_page import (
    COMPARED,
    all_variants,
    common_facts,
    loaded,
    outlines,
    studies_of,
    title_of,
    top,
)
from scenarios.app.report.compare_tables import differences_table, summary_chapter
from scenarios.app.report.html import Cell, Chapter, facts, page, table
from scenarios.app.report.plot import DARK, PALETTE, Axes, CurveStyle, Figure, Panel, line, looks, mosaic, numbers
from scenarios.app.report.replay import SCRIPTS, STYLES, replay_chapter
from scenarios.app.report.settings import configuration, period, run_top, trace_facts
from scenarios.app.results.gathered import Gathered
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import counted, quantile
from scenarios.app.results.tables import RADIO_STUDY, SELECTIONS, SHOWN

# Tol's colours, distinguishable with colour blindness; no attack has one of them
SEEN, HIDDEN = CurveStyle("line of sight", "#44AA99"), CurveStyle("no line of sight", "#882255", "diamond")
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
    key, title = "radio", "Radio links at sampled outdoor places, by distance"
    ground = run.ground
    if run.replayed or "rsrp_dbm" not in ground:
        why = (
            "The RSRP was read from a trace; no radio was modelled."
            if run.replayed
            else "This run recorded no radio map."
        )
        return Panel(key, title, why)
    good = np.isfinite(ground["rsrp_dbm"]) & (ground["distance_m"] > 0)
    # whole places are left out, so that each base station keeps its share of the dots
    good &= (np.arange(len(good)) % (-(-good.size // MOST_LINKS)) == 0)[:, None]
    traces = [
        line(look, numbers(ground["distance_m"][dots]), ground["rsrp_dbm"][dots], mode="markers",
             marker={"size": 4, "color": look.color, "opacity": 0.4, "symbol": look.symbol})
        for look, state in ((SEEN, 1.0), (HIDDEN, 0.0)) if (dots := good & (ground["los"] == state)).any()
    ]  # fmt: skip
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
    "The uplink is ideal, or no SINR was recorded.", by=lambda _: [CurveStyle("all UEs", DARK)],
)  # fmt: skip


def service(run: Run) -> Panel:
    """Decoded updates, latency, energy and SINR of each round."""
    if not np.isfinite(run.rows("links")["sinr_db"]).any():
        return Panel(SERVICE.key, SERVICE.title, SERVICE.missing)
    return SERVICE.panels(Laid(run))[0]


# -- a radio study


def curves(run: Run, selection: str = "all") -> dict[str, FloatArray]:
    """The distributions of one selection of samples."""
    cdf = run.tables["radio_cdf"]
    mine = cdf["selection"] == selection
    return {name: cdf["value"][mine & (cdf["quantity"] == name)] for name in SHOWN}


def distributions(run: Run) -> Panel:
    """Cumulative distributions of all quantities."""
    caption = (
        "Share of samples at most at a value; a sample is a UE that is present at a sampling time. Gain is antenna "
        "gain minus path loss plus shadowing and, indoors, minus penetration loss; geometry is the power of the "
        "serving cell over the sum of all others', SINR the same with noise. The rate is that of a UE that is given "
        "the whole band of its cell (see the channel card)."
    )
    return _cdf("Distributions over UEs and time", caption, [(look, curves(run, s)) for s, look in SELECTED.items()])


def compared(labels: Mapping[str, Sequence[Curves]], own: Sequence[CurveStyle]) -> Panel:
    """Distributions of each label: at every percent the median over its runs."""
    shown = []
    for look, runs in zip(own, labels.values(), strict=True):
        of = {name: [run[name] for run in runs if len(run[name])] for name in SHOWN}
        shown.append((look, {n: quantile(np.array(v).T, 0.5) if v else np.zeros(0) for n, v in of.items()}))
    caption = (
        "A line a label: the share of its samples up to a value. Of several seeds it is the median of each quantile."
    )
    return _cdf("Distributions of each label", caption, shown)


def _cdf(title: str, caption: str, shown: Sequence[tuple[CurveStyle, Curves]]) -> Panel:
    """A cell for each quantity."""
    cells = list[Axes]()
    for name, (word, unit, factor) in SHOWN.items():
        traces: list[Figure] = [
            line(look, numbers(factor * of[name]), np.linspace(0.0, 100.0, len(of[name])), mode="lines",
                 hovertemplate="%{y:.0f} % up to %{x:.3~r} " + unit)
            for look, of in shown if np.isfinite(of[name]).any()
        ]  # fmt: skip
        if traces:
            cells.append(Axes("samples (%)", traces, f"{word} ({unit})", percent=True))
    if not cells:
        return Panel("distributions", title, "There were no samples.")
    return Panel("distributions", title, caption, mosaic(cells, {}, 300, closest=True))


MOST_PAIRS = 10  # of cells, in the table of handovers


def is_radio(manifest: Mapping[str, Any]) -> bool:
    """Whether a run is a radio study."""
    return manifest.get("kind") == RADIO_STUDY


def radio_single(run: Run) -> str:
    """The page of one radio study."""
    replay, data = replay_chapter(run)
    chapters = [replay, *radio_chapters(run), summary_chapter(run), configuration(run, _facts(run.manifest))]
    return page(run.manifest["title"], run_top(run), chapters, data, *((SCRIPTS, STYLES) if data else ()))


def radio_chapters(run: Run) -> list[Chapter]:
    """All figures and tables of a radio study by what they are about."""
    return [
        Chapter("samples", "What UEs receive", [distributions(run), _quantiles(run.summary), radio(run)]),
        Chapter("handover", "Handover", [_pairs(run)]),
    ]


def _facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The settings of the run, without those on the channel card."""
    texts = {name: str(manifest.get(name) or "not recorded") for name in ("seed", "command", "quantiles")}
    return {**texts, "simulated span": period(manifest), **trace_facts(manifest.get("trace"))}


def _quantiles(summary: Mapping[str, Any]) -> str:
    """A table of quantiles indoors and outdoors, where there are both; those of all samples head the page."""
    rows = list[list[Cell]]()
    for name, (word, unit, factor) in SHOWN.items():
        for selection in SELECTIONS[1:]:
            values = [summary.get(f"radio.{name}.{selection}.{end}") for end in ("q05", "median", "q95")]
            if None not in values:
                rows.append([f"{word} ({unit})", *(factor * value for value in values if value is not None), selection])
    return table("Quantiles", ["quantity", "5 %", "median", "95 %", "samples"], rows)


def _pairs(run: Run) -> str:
    """A table of the pairs of cells with the most handovers."""
    rows = run.rows("handovers")
    number = Counter(zip(map(str, rows["source"]), map(str, rows["target"]), strict=True))
    ordered = sorted(number.items(), key=lambda item: (-item[1], item[0]))[:MOST_PAIRS]
    cells: list[list[Cell]] = [[source, n, target] for (source, target), n in ordered]
    return table("Handovers between cells, the most frequent first", ["from", "handovers", "to"], cells)


def radio_comparison(of: Gathered, place: Path, command: str = "") -> str:
    """The page that compares radio studies; place: the folder in which the page will lie."""
    members, shown, of_labels = outlines(of), list[Member](), dict[str, list[dict[str, Any]]]()
    for label, run in loaded(of):
        shown.append(Member(label, run.manifest, run.summary, run.study, [], 0.0, {}))
        of_labels.setdefault(label, []).append(dict(curves(run)))
    chapters = [
        Chapter("figures", "Distributions", [compared(of_labels, looks(of_labels))]),
        all_variants(members, shown, place),
        Chapter("differences-all", "What differs", [differences_table(studies_of(shown))]),
        Chapter("configuration", "Configuration", [facts(common_facts(members, command))]),
    ]
    return page(title_of(of, members), top(of, members, shown, place), chapters, styles=COMPARED)

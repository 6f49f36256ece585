"""Figures of radio: received power by distance, the uplink over rounds, and distributions of what UEs receive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.charts import UPLINK, Chart
from scenarios.app.report.plot import DARK, PALETTE, Cell, Figure, Look, Panel, line, mosaic, numbers
from scenarios.app.report.series import Laid
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import counted, quantile
from scenarios.app.results.tables import SHOWN

# Tol's colours, distinguishable with colour blindness; no attack has one of them
SEEN, HIDDEN = Look("line of sight", "#44AA99"), Look("no line of sight", "#882255", "diamond")
SELECTED = {
    "all": Look("all samples", DARK),
    "indoor": Look("indoors", PALETTE[1], dash="longdash"),
    "outdoor": Look("outdoors", PALETTE[0], dash="dot"),
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
    return Panel(key, title, caption, mosaic([Cell("RSRP (dBm)", traces, near=True)], x_axis, 380, closest=True))


SERVICE = Chart(
    "service", "Uplink over rounds: decoded updates, latency, energy, SINR", UPLINK,
    "The more updates arrive in time, the more the model learns and the attacker sees. Latency is from the request to "
    "the last bit. Energy is that of all uplinks and all training of the round.",
    "The uplink is ideal, or no SINR was recorded.", by=lambda _: [Look("all UEs", DARK)],
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


def _cdf(title: str, caption: str, shown: Sequence[tuple[Look, Curves]]) -> Panel:
    """A cell for each quantity."""
    cells = list[Cell]()
    for name, (word, unit, factor) in SHOWN.items():
        traces: list[Figure] = [
            line(look, numbers(factor * of[name]), np.linspace(0.0, 100.0, len(of[name])), mode="lines",
                 hovertemplate="%{y:.0f} % up to %{x:.3~r} " + unit)
            for look, of in shown if np.isfinite(of[name]).any()
        ]  # fmt: skip
        if traces:
            cells.append(Cell("samples (%)", traces, f"{word} ({unit})", percent=True))
    if not cells:
        return Panel("distributions", title, "There were no samples.")
    return Panel("distributions", title, caption, mosaic(cells, {}, 300, closest=True))

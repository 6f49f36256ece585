"""Whether probabilities that attacks state can be trusted: stated against hit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fl.leakage.reliability import reliability_error
from netsim.units import BoolArray, FloatArray
from scenarios.app.report.figures.tracking_looks import LOOKS, titled
from scenarios.app.report.plot import DARK, PALETTE, Cell, Figure, Look, Panel, line, mosaic, numbers, plain
from scenarios.app.results.run import Run, Table
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.tracking import FILTER, SMOOTHER, Reliability

_PERFECT = Look("as stated", DARK, dash="dash")
_PLACES = Look("places named at the end", PALETTE[3], "triangle-up", "longdash")
_PERCENT: Figure = {"title": {"text": "stated probability (%)"}, "range": [-3, 103]}


def reliability_panel(run: Run, every: Mapping[str, Mapping[str, Table]]) -> Panel:
    """Share of hits and number of answers in bins of the stated probability."""
    key, title = "tracking-reliability", "Reliability: stated probability against hits"
    cells, gaps = list[Cell](), list[str]()
    for name, rows in every.items():
        stated = [(LOOKS[k], rows[k]["disc_probability"], rows[k]["near"] == 1) for k in (FILTER, SMOOTHER)]
        known = [one for one in [*stated, (_PLACES, *named_hits(run, name))] if np.isfinite(one[1]).any()]
        if not known:
            continue
        drawn = [(look, Reliability.of(p, hit)) for look, p, hit in known]
        hits = [line(_PERFECT, [0.0, 100.0], np.array([0.0, 100.0]), mode="lines", showlegend=not cells)]
        hits += [_hits(look, of, showlegend=not cells) for look, of in drawn]
        cells.append(Cell("hits (%)", hits, titled(every, name, "hits"), percent=True))
        cells.append(Cell("answers", [_counts(look, of) for look, of in drawn], titled(every, name, "number")))
        gaps += [
            f"{name}, {look.name}: {figure_text(100 * reliability_error(p, hit))} points" for look, p, hit in known
        ]
    if not cells:
        return Panel(key, title, "No attack states a probability.")
    caption = (
        f"How often the truth lies within {run.near_m:g} m of the centre of the best disc, for answers in ten bins of "
        "the probability that the attack gives this disc: on the dashed line it can be trusted, below it is too sure, "
        f"above too modest. Mean gap: {'; '.join(gaps)}. Rounds of one UE are no independent draws, so bins of few UEs "
        "swing widely. Right how many answers a bin has."
    )
    figure = mosaic(cells, _PERCENT, 320)
    figure["layout"] |= {"hovermode": "closest", "barmode": "group"}
    return Panel(key, title, caption, figure)


def _hits(look: Look, of: Reliability, **more: Any) -> Figure:
    there = of.number > 0
    texts = [counted(int(n), "answer") for n in of.number[there]]
    how = "stated %{x:.3~r} %, hit %{y:.3~r} %, %{text}"
    x = numbers(100 * of.stated[there])
    return line(look, x, 100 * of.hit[there], mode="lines+markers", text=texts, hovertemplate=how, **more)


def _counts(look: Look, of: Reliability) -> Figure:
    """Bars at the middles of the bins."""
    width = 100.0 / len(of.number)
    return {
        "type": "bar", "x": numbers(width * (np.arange(len(of.number)) + 0.5)), "y": numbers(of.number),
        "name": plain(look.name), "legendgroup": plain(look.name), "showlegend": False,
        "marker": {"color": look.color}, "hovertemplate": "%{y:,} answers",
    }  # fmt: skip


def named_hits(run: Run, attack: str) -> tuple[FloatArray, BoolArray]:
    """Probabilities of homes and workplaces that an attack names at the end, and whether they are right."""
    named, ues = run.tables["named"], run.tables["ues"]
    mine = (named["attack"] == attack) & np.isfinite(named["probability"]) & np.isfinite(named["ue"])
    mine &= np.isin(named["place"], ("home", "work"))
    row = {ue: i for i, ue in enumerate(ues["ue"].tolist())}
    at = np.array([row[ue] for ue in named["ue"][mine].tolist()], dtype=np.int64)
    truth_m = np.array(
        [[ues[f"{place}_{axis}_m"][i] for axis in "xy"] for i, place in zip(at, named["place"][mine], strict=True)]
    ).reshape(-1, 2)
    away_m = np.hypot(named["x_m"][mine] - truth_m[:, 0], named["y_m"][mine] - truth_m[:, 1])
    known = np.isfinite(away_m)
    return named["probability"][mine][known], away_m[known] <= run.near_m

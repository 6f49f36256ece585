"""Whether probabilities that attacks state can be trusted: stated against hit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fl.leakage.reliability import DRAWS, Reliability, reliability
from netsim.rng import Streams
from scenarios.app.report.figures.tracking_looks import LOOKS, titled
from scenarios.app.report.plot import DARK, PALETTE, Cell, Figure, Look, Panel, line, mosaic, numbers, plain
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.summary_named import Truth
from scenarios.app.results.summary_stated import stated_reliability
from scenarios.app.results.tracking import FILTER, SMOOTHER, tracked, tracking_attacks

_PERFECT = Look("as stated", DARK, dash="dash")
_PLACES = Look("places named at the end", PALETTE[3], "triangle-up", "longdash")
_PERCENT: Figure = {"title": {"text": "stated probability (%)"}, "range": [-3, 103]}


def stating(run: Run) -> list[str]:
    """Attacks that state probabilities, in the order of the records: of rounds, or of places that they name."""
    named = run.tables["named"]
    names = [*tracking_attacks(run), *map(str, named["attack"][np.isfinite(named["probability"])])]
    return list(dict.fromkeys(names))


def reliability_panel(run: Run, names: Sequence[str]) -> Panel:
    """Share of hits and number of answers in bins of the stated probability."""
    key, title = "tracking-reliability", "Reliability: stated probability against hits"
    cells, gaps = list[Cell](), list[str]()
    for name in names:
        drawn = [(look, of) for look, of in _reliabilities(run, name) if of.count.any()]
        if not drawn:
            continue
        hits = [line(_PERFECT, [0.0, 100.0], np.array([0.0, 100.0]), mode="lines", showlegend=not cells)]
        hits += [_hits(look, of, showlegend=not cells) for look, of in drawn]
        cells.append(Cell("hits (%)", hits, titled(names, name, "hits"), percent=True))
        cells.append(Cell("answers", [_counts(look, of) for look, of in drawn], titled(names, name, "number")))
        gaps += [f"{name}, {look.name}: {_gap(of)}" for look, of in drawn]
    if not cells:
        return Panel(key, title, "No stated probability can be compared with a truth.")
    caption = (
        f"How often the truth lies within {run.near_m:g} m of the centre of the best disc, for answers in ten bins of "
        "the probability that the attack gives this disc: on the dashed line it can be trusted, below it is too sure, "
        "above too modest. Right how many answers a bin has. Mean gap between stated and hit, with its 95 % interval "
        f"over UEs: {'; '.join(gaps)}. Rounds of one UE are no independent draws, so bins of few UEs swing widely."
    )
    figure = mosaic(cells, _PERCENT, 320)
    figure["layout"] |= {"hovermode": "closest", "barmode": "group"}
    return Panel(key, title, caption, figure)


def _reliabilities(run: Run, name: str) -> list[tuple[Look, Reliability]]:
    """Of the answers of filter and smoother, and of the places named at the end."""
    rows, named = tracked(run, name), run.tables["named"]
    mine = (named["attack"] == name) & np.isfinite(named["ue"])
    truth = Truth.of(run.tables["ues"], np.unique(run.rows("leakage", "attack", name)["ue"]), run.near_m)
    places = stated_reliability(where(named, mine), truth)
    return [*((LOOKS[kind], _of_answers(rows[kind])) for kind in (FILTER, SMOOTHER)), (_PLACES, places)]


def _of_answers(rows: Table) -> Reliability:
    ue, stated = rows["ue"].astype(np.int64), np.minimum(rows["disc_probability"], 1.0)
    draws = Streams(0).at("reliability").uniform("ue", np.arange(DRAWS), (len(np.unique(ue)),))
    return reliability(ue, stated, rows["near"] == 1, draws)


def _gap(of: Reliability) -> str:
    """Mean gap in percentage points, with its interval, and what chance alone would make of a right attack."""
    error, low, high, chance = (
        figure_text(100 * v) for v in (of.error, of.error_low, of.error_high, of.by_chance_error)
    )
    return f"{error} points [{low}, {high}] (an attack that is right about itself: {chance})"


def _hits(look: Look, of: Reliability, **more: Any) -> Figure:
    there = of.count > 0
    texts = [counted(int(n), "answer") for n in of.count[there]]
    how = "stated %{x:.3~r} %, hit %{y:.3~r} %, %{text}"
    x = numbers(100 * of.stated[there])
    return line(look, x, 100 * of.hit[there], mode="lines+markers", text=texts, hovertemplate=how, **more)


def _counts(look: Look, of: Reliability) -> Figure:
    """Bars at the middles of the bins."""
    width = 100.0 / len(of.count)
    return {
        "type": "bar", "x": numbers(width * (np.arange(len(of.count)) + 0.5)), "y": numbers(of.count),
        "name": plain(look.name), "legendgroup": plain(look.name), "showlegend": False,
        "marker": {"color": look.color}, "hovertemplate": "%{y:,} answers",
    }  # fmt: skip

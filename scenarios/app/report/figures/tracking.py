"""What an attacker who remembers knows of places over time: errors, hours, credible areas, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.figures.first_home import first_home_panel
from scenarios.app.report.figures.linking import linking_panels
from scenarios.app.report.figures.reliability import reliability_panel, stating
from scenarios.app.report.figures.tracking_looks import LOOKS, STATED, titled
from scenarios.app.report.html import Chapter, paragraphs
from scenarios.app.report.plot import DARK, Cell, Figure, Look, Panel, line, mosaic
from scenarios.app.report.series import DATES, TimeGrid, diagonal_m, drawable, median_line
from scenarios.app.results.run import Run, Table
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.tracking import (
    FILTER,
    KINDS,
    SMOOTHER,
    hours_seen,
    known_hours,
    of_kind,
    stated_hours,
    tracked,
    tracking_attacks,
)
from scenarios.app.results.tracking_text import trackers, tracking_text

MOST_POINTS = 400  # of a curve; of more rounds several make one
_STATED = Look("as stated", DARK, dash="dash")


def tracking_chapter(run: Run) -> Chapter:
    """The figures; empty where no attack tracks, states probabilities or links."""
    every = {name: tracked(run, name) for name in tracking_attacks(run)}
    parts: list[str | Panel] = []
    if every:
        said = [f"{tracking_text(run.summary, name)}." for name in trackers(run.summary)]
        if len(run.tables["beliefs"]["ue"]):
            said.append("The map at the top shows what is believed, cell by cell: its layer belief.")
        parts = [
            paragraphs(said, "says"), errors(run, every), hours(run, every), credible(run, every),
        ]  # fmt: skip
    parts += [reliability_panel(run, names)] if (names := stating(run)) else []
    parts += linking_panels(run)
    return Chapter("tracking", "Tracking", [*parts, *(first_home_panel(run) if parts else [])])


def grouped(grid: FloatArray, together: int) -> FloatArray:
    """Rounds (n_time, n_ue), several made one row with all their values: (ceil(n_time / together), together * n_ue)."""
    missing = -len(grid) % together
    padded = np.concatenate([grid, np.full((missing, grid.shape[1]), np.nan)])
    return padded.reshape(-1, together * grid.shape[1])


def _together(n: int) -> int:
    """How many rounds make a point."""
    return max(1, -(-n // MOST_POINTS))


def errors(run: Run, every: Mapping[str, Mapping[str, Table]]) -> Panel:
    """Median errors over time, and the expected distance of the beliefs."""
    cells, together = list[Cell](), 1
    for name, rows in every.items():
        for column, what in (("error_m", "error of the answer"), ("expected_distance_m", "expected distance")):
            traces: list[Figure] = []
            for kind in (k for k in KINDS if column == "error_m" or k != "plain"):
                table, values = of_kind(rows, kind, column)
                grid = TimeGrid.of(table, "ue")
                together = max(together, _together(len(grid.time_s)))
                traces += median_line(
                    LOOKS[kind], run.dates(grid.time_s[:: _together(len(grid.time_s))]),
                    drawable(grouped(grid.lay(values), _together(len(grid.time_s)))), most=diagonal_m(run.manifest),
                    showlegend=not cells,
                )  # fmt: skip
            if traces:
                cells.append(Cell(f"{what} (m)", traces, titled(every, name, what), log=True))
    caption = (
        "Left the distance from the answer to the true mean position of the round, right the mean distance of the "
        "whole belief to it, which is the privacy of Shokri et al. (2011): the lower, the more is known. Lines are "
        "medians over UEs, bands their quartiles. The filter knows the rounds so far, the smoother all rounds of the "
        "run; the prior is what is known without any update."
        + (f" A point stands for {counted(together, 'round')}." if together > 1 else "")
    )
    return _panel("tracking-errors", "Error over time, with memory and without", caption, cells)


def hours(run: Run, every: Mapping[str, Mapping[str, Table]]) -> Panel:
    """How long a UE has been known within near_m so far."""
    cells, seen = list[Cell](), list[str]()
    for name, rows in every.items():
        traces: list[Figure] = []
        drawn = [(LOOKS[kind], known_hours(run, rows, kind)) for kind in KINDS]
        drawn += [(STATED[kind], stated_hours(run, rows, kind)) for kind in (FILTER, SMOOTHER)]
        for look, (number, value) in drawn:
            at = np.arange(len(number))[_together(len(number)) - 1 :: _together(len(number))]
            x = run.dates(run.moment_s(number[at], run.takes_time))
            traces.append(line(look, x, value[at], hovertemplate="%{y:,.3~r} h", showlegend=not cells))
        cells.append(Cell("hours of a UE", traces, titled(every, name)))
        seen.append(f"{figure_text(hours_seen(run, rows))} h ({name})")
    caption = (
        f"Hours in which a UE was known within {run.near_m:g} m, summed so far, mean over UEs: how often it lies "
        f"within {run.near_m:g} m of the centre of the best disc, times the length of a round. Dotted: as many as the "
        f"attack expects by its own probabilities. All hours with an update: {', '.join(seen)}."
    )
    return _panel("tracking-hours", f"Hours known within {run.near_m:g} m", caption, cells)


def credible(run: Run, every: Mapping[str, Mapping[str, Table]]) -> Panel:
    """How often the truth lies in the credible areas, and how large they are."""
    cells = list[Cell]()
    for name, rows in every.items():
        shares, areas = list[Figure](), list[Figure]()
        for kind, percent in ((k, p) for k in (FILTER, SMOOTHER) for p in (50, 90)):
            look = LOOKS[kind]
            mine = Look(f"{kind}, {percent} %", look.color, look.symbol, "solid" if percent == 90 else "dot")
            grid = TimeGrid.of(rows[kind], "ue")
            together = _together(len(grid.time_s))
            x = run.dates(grid.time_s[::together])
            inside = grouped(grid.lay(rows[kind][f"in{percent}"]), together)
            shares.append(line(mine, x, _so_far(inside), hovertemplate="%{y:.3~r} %", showlegend=not cells))
            area = np.maximum(grouped(grid.lay(rows[kind][f"area{percent}_m2"]), together), 1.0)
            areas += median_line(mine, x, area / 1e6, "km²", showlegend=False)[-1:]
        ends = sorted(x for t in shares for x in t["x"])
        for percent in (50, 90) if ends else ():
            level, first = np.full(2, float(percent)), percent == 50 and not cells
            shares.append(line(_STATED, [ends[0], ends[-1]], level, mode="lines", showlegend=first))
        what = ("truth in the area", "size of the area")
        cells.append(Cell("so far (%)", shares, titled(every, name, what[0]), percent=True))
        if areas:
            cells.append(Cell("median (km²)", areas, titled(every, name, what[1]), log=True))
    caption = (
        "Left how often, so far, the truth was in the smallest area that holds 50 % or 90 % of the belief: a belief "
        "that can be trusted comes near the dashed lines; below them it is too sure. Right how large these areas are, "
        "median over UEs."
    )
    return _panel("tracking-credible", "Credible areas", caption, cells)


def _so_far(inside: FloatArray) -> FloatArray:
    """Percent of the flags (n_time, n_track) that hold, up to each time; NaN is left out."""
    n = np.cumsum((~np.isnan(inside)).sum(axis=1))
    held = np.cumsum(np.nansum(inside, axis=1))
    return np.asarray(np.divide(100.0 * held, n, out=np.full(len(n), np.nan), where=n > 0))


def _panel(key: str, title: str, caption: str, cells: list[Cell]) -> Panel:
    if not any(cell.traces for cell in cells):
        return Panel(key, title, "Nothing finite was recorded.")
    return Panel(key, title, caption, mosaic(cells, DATES, 300))

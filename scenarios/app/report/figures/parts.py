"""What the parts of a method report of themselves: weights of updates in the merge, and metrics over rounds."""

from __future__ import annotations

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.plot import Cell, Figure, Look, Panel, line, looks, mosaic
from scenarios.app.report.series import DATES, TimeGrid, wide
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.statistics import counted, quantile

_MOST_METRICS = 12  # pairs of axes
_EVEN = 1e-6  # share by which weights differ at least, to be drawn


def weights(run: Run) -> Panel:
    """Weights of updates in the merge over time; nothing where all are alike."""
    key, title = "weights", "Weights of updates in the merge"
    rows = run.rows("updates")
    known = np.isfinite(rows["weight"]) & (rows["weight"] > 0)
    rows = where(rows, known)
    if not known.any():
        return Panel(key, title, "No update was merged.")
    phases = list(dict.fromkeys(map(str, rows["phase"])))
    mine = where(rows, np.array([p == phases[-1] for p in rows["phase"]], dtype=bool))
    grid = TimeGrid.of(mine)
    share = grid.lay(mine["weight"])
    share = 100.0 * share / np.nansum(share, axis=1, keepdims=True)
    lowest, middle, highest = (quantile(share, q) for q in (0.0, 0.5, 1.0))
    if not np.nanmax(highest - lowest, initial=0.0) > _EVEN * 100.0:
        return Panel(key, title, "All updates of a round have the same weight.")
    x = run.dates(grid.time_s)
    named = looks(["largest", "median", "smallest"])
    traces = [
        line(look, x, values, hovertemplate="%{y:.3~r} %")
        for look, values in zip(named, (highest, middle, lowest), strict=True)
    ]
    caption = (
        f"The share of one update in the sum of all weights of its round, over {counted(len(grid.ue), 'UE')}: the "
        "farther the curves are apart, the more the model follows a few UEs."
    )
    return Panel(key, title, caption, mosaic([Cell("weight (%)", traces, log=wide(share))], DATES, 280))


def part_metrics(run: Run, left_out: frozenset[str] = frozenset()) -> Panel:
    """Each metric that a part reports over time, except those drawn elsewhere."""
    key, title = "metrics", "What parts report of themselves"
    rows = run.rows("metrics")
    names = dict.fromkeys(zip(map(str, rows["part"]), map(str, rows["name"]), strict=True))
    cells = [
        cell for part, name in names if name not in left_out and (cell := _metric(run, rows, part, name)) is not None
    ]
    if not cells:
        return Panel(key, title, "No part reported anything.")
    more = f" Not drawn: {counted(len(cells) - _MOST_METRICS, 'more metric')}." if len(cells) > _MOST_METRICS else ""
    caption = f"Every metric in its own unit, as the page of its part defines it (netsim list SLOT).{more}"
    return Panel(key, title, caption, mosaic(cells[:_MOST_METRICS], DATES, 200))


def _metric(run: Run, rows: Table, part: str, name: str) -> Cell | None:
    """A metric over time; None where it never changes and so is better read in the table, or was never known."""
    mine = np.array([(p, n) == (part, name) for p, n in zip(rows["part"], rows["name"], strict=True)], dtype=bool)
    value: FloatArray = rows["value"][mine]
    if np.isfinite(value).sum() < 2 or np.nanmax(value) == np.nanmin(value):
        return None
    drawn: Figure = line(Look(f"{part}: {name}", "#222222"), run.dates(rows["time_s"][mine]), value, showlegend=False)
    return Cell("", [drawn], f"{part}: {name}")

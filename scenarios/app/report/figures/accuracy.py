"""What a classifier is worth, for terminals and pages: runs whose model says a class have no map and no places."""

from __future__ import annotations

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.plot import DARK, GREY, Cell, Look, Panel, line, mosaic
from scenarios.app.report.series import DATES
from scenarios.app.results.run import Run, Table
from scenarios.app.results.summary_text import ACCURACY, CONSTANT


def series(run: Run, name: str) -> Table:
    """The rows of a figure of the learner."""
    rows = run.rows("figures", "part", "learner")
    mine = np.array([n == name for n in rows["name"]], dtype=bool)
    return {k: v[mine] for k, v in rows.items()}


def accuracy(run: Run) -> Panel:
    """Accuracy over time."""
    key, title = "utility", "Is the model any good? Share of held-out images that it classifies right"
    rows = series(run, ACCURACY)
    right = rows["value"]
    if not np.isfinite(right).any():
        return Panel(key, title, "No accuracy was recorded: nothing was held out, or no round was played.")
    x = run.dates(rows["time_s"])
    constant: FloatArray = np.full(len(x), float(series(run, CONSTANT)["value"][-1]))
    traces = [
        line(Look("the model", DARK), x, right, hovertemplate="%{y:,.3~r} %"),
        line(Look("naming the commonest class", GREY, dash="dot"), x, constant, hovertemplate="%{y:,.3~r} %"),
    ]
    caption = "On images that nobody trains on (2,000 of them, evenly taken; the summary takes all)."
    return Panel(key, title, caption, mosaic([Cell("accuracy (%)", traces, percent=True)], DATES))

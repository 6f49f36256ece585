"""The accuracy of a classifier over time; its run has no map and no places."""

from __future__ import annotations

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.plot import DARK, GREY, Cell, Look, Panel, line, mosaic
from scenarios.app.report.series import DATES
from scenarios.app.results.run import Run, Table, where
from scenarios.app.results.summary_keys import ACCURACY, CONSTANT_ACCURACY, Measure


def learner_metric(run: Run, key: Measure) -> Table:
    """The rows of the learner's metric that the key `utility.METRIC` takes at the end."""
    rows = run.rows("metrics", "part", "learner")
    mine = np.array([f"utility.{name}" == key.of() for name in rows["name"]], dtype=bool)
    return where(rows, mine)


def accuracy(run: Run) -> Panel:
    """Accuracy over time."""
    key, title = "utility", "Model: accuracy on held-out images"
    rows = learner_metric(run, ACCURACY)
    percent = rows["value"]
    if not np.isfinite(percent).any():
        return Panel(key, title, "No accuracy was recorded: nothing was held out, or no round was played.")
    x = run.dates(rows["time_s"])
    constant: FloatArray = np.full(len(x), float(learner_metric(run, CONSTANT_ACCURACY)["value"][-1]))
    traces = [
        line(Look("the model", DARK), x, percent, hovertemplate="%{y:,.3~r} %"),
        line(Look("baseline: most frequent class", GREY, dash="dot"), x, constant, hovertemplate="%{y:,.3~r} %"),
    ]
    caption = "On held-out images (at most 2,000, evenly thinned; the summary takes all)."
    return Panel(key, title, caption, mosaic([Cell("accuracy (%)", traces, percent=True)], DATES))

"""The table of a comparison that says how soon each variant has a good model, and what is known by then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netsim.errors import BadInput
from scenarios.app.report.figures.member import ACCURACY, Member, labels_of
from scenarios.app.report.figures.plotter import NONE, time_unit
from scenarios.app.report.html import Cell, Mark, paragraphs, table
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.standing import strongest
from scenarios.app.results.statistics import carried, figure_text, half_width
from scenarios.app.results.summary_keys import Measure
from scenarios.app.results.time_to import Goal, goal_of

_KINDS: tuple[tuple[str, str, str, bool, Measure], ...] = (
    ("rmse_db", "RMSE", "dB", True, keys.CONSTANT_RMSE),
    (ACCURACY, "accuracy", "%", False, keys.CONSTANT_ACCURACY),
)
"""column, name and unit of a model's measure, whether smaller is better, and the measure of a constant"""

_WORST = " The goal is what the worst run ends with, of those that are better than a constant if any are."


def time_table(members: Sequence[Member], reach: float | None = None) -> str:
    """A row per label: the time to the goal, and the homes that are named by then; empty without a goal.

    reach : the goal; None: what the worst run ends with. Raises BadInput where no run has a measure of it.
    """
    for column, name, unit, smaller, constant in _KINDS:
        ends = [_latest(m, "", column, np.inf) for m in members]
        level = [np.nan if (v := m.summary.get(constant.of())) is None else float(v) for m in members]
        goal = goal_of(ends, level, smaller)
        if goal is not None:
            goal = goal if reach is None else Goal(reach, smaller)
            whence = _WORST if reach is None else ""
            return _table(members, column, goal, f"{name} {'of at most' if smaller else 'of at least'}", unit, whence)
    if reach is not None:
        raise no_goal(reach)
    return ""


def no_goal(reach: float) -> BadInput:
    """What is said of runs without a measure."""
    return BadInput(f"--reach {reach:g}: none of these runs has an RMSE in dB or an accuracy in %; leave it out")


def _table(members: Sequence[Member], column: str, goal: Goal, name: str, unit: str, whence: str) -> str:
    label_of, (time, second) = labels_of(members), time_unit(members)
    rows: list[tuple[str, Mark, str, Mark]] = []
    for label, runs in label_of.items():
        own, attack = [m for m in members if m.label == label], strongest(runs)
        first_s = [goal.first_s(*m.trends.get(("", column), NONE)) for m in own]
        known = [(m, t) for m, t in zip(own, first_s, strict=True) if np.isfinite(t)]
        named = [share for m, t in known if np.isfinite(share := _latest(m, attack, "home", t))]
        times = [t / second for _, t in known]
        rows.append((label, _between(times), f"{len(known)} of {len(own)}", _between(named)))
    heads = ["variant", f"time to it ({time})", "seeds that reach it", "homes named by then (%)"]
    n = len(heads) if any(named.value is not None and np.isfinite(named.value) for *_, named in rows) else 3
    title = f"Time to an {name} {figure_text(goal.value)} {unit}"
    says = [
        "Simulated time until the server first has such a model: mean over the seeds that reach it, with a 95 % "
        f"interval (Student's t).{whence}",
    ]
    shown: list[list[Cell]] = [list(row[:n]) for row in rows]
    return table(title, heads[:n], shown, "times", (0,)) + paragraphs(says, "says")


def _latest(member: Member, attack: str, column: str, time_s: float) -> float:
    """The value of a trend at a time; NaN where there is none yet."""
    times_s, values = member.trends.get((attack, column), NONE)
    at = int(np.searchsorted(times_s, time_s, side="right")) - 1
    return float(carried(values[:, None])[at, 0]) if at >= 0 else float("nan")


def _between(values: Sequence[float]) -> Mark:
    """A mean, with its 95 % interval where there are several values."""
    if not values:
        return Mark("–", float("nan"))
    mean = float(np.mean(values))
    text = figure_text(mean) if len(values) < 2 else f"{figure_text(mean)} ± {figure_text(half_width(values))}"
    return Mark(text, mean)

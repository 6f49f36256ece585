"""Whether the policies of a training keep the bounds of its reward: a table, and a sentence for the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scenarios.app.report.html import Cell, Mark, table
from scenarios.app.results.statistics import figure_text

_UNITS = {"energy_j": "energy of a round, J", "loss": "held-out loss", "leakage": "leakage", "lost": "lost updates"}


def verdict(mean: float, half_width: float, at_most: float) -> str:
    """Of a mean over worlds with its 95 % interval."""
    if mean + half_width <= at_most:
        return "kept"
    return "broken" if mean - half_width > at_most else "undecided"


def bounds_of(summaries: Sequence[dict[str, Any]], policy: str) -> dict[str, tuple[float, float, float]]:
    """Figure -> mean over rounds, half width of its interval over worlds (the widest of all seeds), and bound."""
    found = {}
    for key in summaries[0]:
        head, _, figure = key.removesuffix(".at_most").rpartition(".")
        if head == f"bound.{policy}" and key.endswith(".at_most"):
            of = {x: [float(s[f"bound.{policy}.{figure}.{x}"] or 0) for s in summaries] for x in ("mean", "half_width")}
            found[figure] = float(np.mean(of["mean"])), max(of["half_width"]), float(summaries[0][key])
    return found


def breaks_none(summaries: Sequence[dict[str, Any]], policy: str) -> bool:
    """Whether no bound is broken for certain; true without bounds."""
    return all(verdict(*found) != "broken" for found in bounds_of(summaries, policy).values())


def bounds_line(summaries: Sequence[dict[str, Any]], policy: str) -> list[tuple[str, str]]:
    """What is asked, and a sentence on the bounds that the agent keeps; nothing without bounds."""
    said = [
        f"{_name(figure)} {figure_text(mean)} ± {figure_text(half)} ({verdict(mean, half, at_most)}, at most "
        f"{figure_text(at_most)})"
        for figure, (mean, half, at_most) in bounds_of(summaries, policy).items()
    ]
    return [("Whether bounds are kept", f"Means of the agent over rounds: {'; '.join(said)}.")] if said else []


def bounds_table(summaries: Sequence[dict[str, Any]], policies: Sequence[str]) -> str:
    """Means of bounded figures of each policy with their intervals; empty without bounds."""
    heads = bounds_of(summaries, policies[0])
    if not heads:
        return ""
    rows: list[list[Cell]] = []
    for name in policies:
        found = bounds_of(summaries, name).values()
        cells = [Mark(f"{figure_text(m)} ± {figure_text(h)}, {verdict(m, h, b)}", m) for m, h, b in found]
        rows.append([name, *cells])
    titles = [f"mean {_name(figure)} at most {figure_text(bound)}" for figure, (*_, bound) in heads.items()]
    return table("Bounds, 95 % intervals over worlds", ["policy", *titles], rows, "bounds")


def _name(figure: str) -> str:
    return _UNITS.get(figure, figure)

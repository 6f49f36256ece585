"""Whether policies keep the bounds of a reward in worlds that nobody has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rl.lagrangian import penalty
from rl.reward import FIGURES, Figures, Reward
from scenarios.app.results.statistics import half_width
from scenarios.app.training.evaluate import Evaluation


def judged_live(reward: Reward, rows: Sequence[Evaluation]) -> float:
    """Mean cost of episodes, after how well bounds on means are kept: small is good."""
    means = Figures(*(np.array([row.mean(name) for row in rows]) for name in FIGURES))
    return float(np.mean([row.cost for row in rows])) + penalty(reward, means)


def kept(rows: Sequence[Evaluation], bounds: Mapping[str, float]) -> dict[str, Any]:
    """Flat: of each policy and bound the mean over rounds and worlds, the half width of its 95 % interval over worlds,
    and the bound.
    """
    found: dict[str, Any] = {}
    for name in dict.fromkeys(row.policy for row in rows):
        for figure, at_most in bounds.items():
            means = np.array([row.mean(figure) for row in rows if row.policy == name])
            key = f"bound.{name}.{figure}"
            found |= {
                f"{key}.mean": float(means.mean()), f"{key}.half_width": half_width(means), f"{key}.at_most": at_most
            }  # fmt: skip
    return found

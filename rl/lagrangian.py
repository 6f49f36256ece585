r"""Bounds on means over rounds, kept by multipliers: the dual is climbed while the primal is solved.

    L(policy, lambda) = mean f_0 + sum_i lambda_i (mean f_i - b_i),      lambda_i >= 0

For given multipliers the best policy minimises L, which is a mean over rounds like any other cost. Each mean that
exceeds its bound raises its multiplier, each that stays below lowers it, down to 0. Steps are counted in spreads s of
figures: at the first multiplier s_0 / s_i, one spread of f_i costs as much as one of f_0.

For any multipliers the least L is no more than the least f_0 of all policies that keep the bounds (weak duality): the
bound of the oracle. [Boyd and Vandenberghe, Convex Optimization, Section 5.2]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from netsim.units import FloatArray
from rl.reward import Figures, Reward

FEASIBLE_FIRST = 1e3
"""Cost of exceeding a bound by its size where policies are compared"""
_MIN = 0.01  # spread of a figure, of its bound; of the minimised cost, of its mean


def priced(reward: Reward, figures: Figures, multipliers: FloatArray | None) -> FloatArray:
    """Cost of rounds (B,) with multipliers (m,), in the order of the bounds; None: without the bounds."""
    cost = reward.cost(figures)
    if multipliers is None:
        return cost
    for (name, bound), multiplier in zip(reward.bounds().items(), multipliers.tolist(), strict=True):
        if multiplier:  # a figure without a price may be unknown
            cost = cost + multiplier * (figures.of(name) - bound)
    return cost


def over(reward: Reward, figures: Figures) -> FloatArray:
    """Excess of means over rounds over their bounds (m,); below 0 where there is room."""
    return np.array([float(figures.of(name).mean()) - bound for name, bound in reward.bounds().items()])


def penalty(reward: Reward, figures: Figures) -> float:
    """0 where all bounds are kept; else so much that any policy that keeps them better is the better one."""
    sizes = np.array([abs(bound) or 1.0 for bound in reward.bounds().values()])
    return float(FEASIBLE_FIRST * (np.maximum(over(reward, figures), 0.0) / sizes).sum())


@dataclass(frozen=True, eq=False)
class Prices:
    """Multipliers (m,), in units of the minimised cost for a unit of each bounded figure; one spread (m,) of each
    figure, and how far one step at a rate of 1 moves its multiplier (m,).
    """

    multipliers: FloatArray
    spread: FloatArray
    step: FloatArray

    @classmethod
    def none(cls) -> Prices:
        """No prices, for a reward without bounds."""
        return cls(np.zeros(0), np.zeros(0), np.zeros(0))

    @property
    def bounded(self) -> bool:
        """Whether there are any bounds."""
        return len(self.multipliers) > 0

    def with_steps_of(self, other: Prices) -> Prices:
        """The same multipliers, with the spreads and steps of others."""
        return replace(other, multipliers=self.multipliers)

    def raised(self, over: FloatArray, rate: float) -> Prices:
        """After a dual step: over (m,) is the excess of means over their bounds."""
        moved = self.multipliers + rate * self.step * np.clip(over / self.spread, -1.0, 1.0)
        return Prices(np.maximum(moved, 0.0), self.spread, self.step)


def first_prices(reward: Reward, figures: Figures, situations: int) -> Prices:
    """The first multipliers. figures : of as many actions in each situation, situation by situation."""

    def spread(values: FloatArray) -> float:
        return float(values.reshape(situations, -1).std(axis=1).mean())

    bounds = reward.bounds()
    own = np.array([
        max(spread(figures.of(name)), _MIN * abs(bound), 1e-9) for name, bound in bounds.items()
    ])  # fmt: skip
    cost = reward.cost(figures)
    step = max(spread(cost), _MIN * abs(float(cost.mean()))) / own
    return Prices(step, own, step)

"""Bounds on means over rounds for agents that learn in the live world: prices change between episodes.

The means of the present policy are those of its last episode, exploration included. Transitions that a replay buffer
holds were paid at old prices; their rewards are made anew from their figures whenever prices change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from netsim.tree import from_tree_as, to_tree
from netsim.units import FloatArray
from rl.env_online import OnlinePower
from rl.lagrangian import Prices, first_prices, over, priced
from rl.reward import FIGURES, Figures

Tree = dict[str, Any]


class BoundedBuffer(Protocol):
    """What is needed of a replay buffer: rewards (size, 1), the next place, and whether all places are taken."""

    rewards: np.ndarray
    pos: int
    full: bool


class LiveBounds:
    """The figures of all transitions in a buffer, and the prices that they are paid at."""

    def __init__(self, env: OnlinePower, buffer: BoundedBuffer) -> None:
        self.env, self.buffer, self.prices = env, buffer, Prices.none()
        self.figures = np.full((len(buffer.rewards), len(FIGURES)), np.nan)
        self.episode: list[FloatArray] = []

    @property
    def multipliers(self) -> tuple[float, ...]:
        """As they are; zeros before the first episode is over."""
        return tuple(self.prices.multipliers.tolist()) or (0.0,) * len(self.env.task.reward.bounds())

    def stepped(self, info: Mapping[str, Any]) -> None:
        """A step was made, and comes into the buffer next."""
        row = np.array([float(info[name]) for name in FIGURES])
        self.figures[self.buffer.pos] = row
        self.episode.append(row)

    def episode_over(self) -> None:
        """A dual step, in spreads of all figures so far; the first one only says where multipliers begin."""
        if not self.episode:
            return
        reward, found = self.env.task.reward, _figures(np.array(self.episode))
        fresh = first_prices(reward, _figures(self.figures[: self._filled]), situations=1)
        if self.prices.bounded:
            self.prices = self.prices.with_steps_of(fresh).raised(over(reward, found), reward.dual_rate())
        else:
            self.prices = fresh
        self.episode = []
        self._pay()

    def memory(self) -> Tree:
        """What the rest depends on, between two episodes."""
        return {"prices": to_tree(self.prices), "figures": self.figures[: self._filled].copy()}

    def resume(self, memory: Tree) -> None:
        """Go on from a memory, with a buffer that has gone on already."""
        self.prices = from_tree_as(memory["prices"], Prices)
        kept = np.array(memory["figures"])
        self.figures[: len(kept)] = kept
        if self.prices.bounded:
            self._pay()

    @property
    def _filled(self) -> int:
        return len(self.figures) if self.buffer.full else self.buffer.pos

    def _pay(self) -> None:
        """The present prices on everything."""
        self.env.multipliers = self.prices.multipliers
        filled = self._filled
        cost = priced(self.env.task.reward, _figures(self.figures[:filled]), self.prices.multipliers)
        self.buffer.rewards[:filled, 0] = -cost


def _figures(rows: FloatArray) -> Figures:
    """Of rows (n, 6)."""
    return Figures(*rows.T)

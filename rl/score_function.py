r"""The score-function gradient on recorded rounds: many actions in the same situation, and no critic.

In each of some rounds, actions x + s n and x - s n are judged for mirrored normal n; with costs c, standardised within
the round, the gradient of the expected cost with respect to the mean x is that of  mean(c n) x / s.  The spread s
shrinks over the training. Comparing actions within one round removes the differences between rounds, which are most
of the variance.

Where the reward bounds means over rounds, costs have the prices of `rl.reward` on them: after every 50th step the
policy, without exploration, is judged on all rounds, and multipliers take a step.

A training is a function of its seed, its settings and the rounds alone, and can be written down after every step.
[Williams, Simple Statistical Gradient-Following Algorithms, 1992]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from netsim.checkpoint import from_tree_as, to_tree
from netsim.rng import Streams
from netsim.units import FloatArray, IntArray
from rl.ddpg import optimiser_memory, resume_optimiser
from rl.reward import Prices, first_prices, over, priced
from rl.rules import Known, Tuned, within
from rl.settings import ScoreFunctionAgent
from rl.shared_policy import UNIT_DB, SharedPolicy, first_weights, forward, others, seen
from rl.train import Training, Weights

_FALLS = 0.99  # by how much of itself the learning rate falls over a training
_EVEN = 1e-12  # spread of costs in a round in which all actions cost the same
_DUAL_EVERY = 50  # steps


class ScoreFunctionTraining(Training):
    """A training by the score-function gradient."""

    def __init__(self, known: Known, rule: Tuned, agent: ScoreFunctionAgent, steps: int, seed: int) -> None:
        self.known = known
        self.rule = rule
        self.agent = agent
        self.steps = steps
        self.generator = Streams(seed).at("score-function").generator("steps")
        look = known.look
        self._rule_dbw = rule.dbw(look)
        self._rule_cost = known.cost(rule.power_w(look))
        self._saved = 0.0
        self._seen = tuple(torch.from_numpy(x).float() for x in (seen(look, rule), look.pairs, others(look)))
        self._there = torch.from_numpy(look.there)
        self._weights = {name: torch.from_numpy(x).requires_grad_() for name, x in first_weights(seed).items()}
        self._adam = torch.optim.Adam(list(self._weights.values()), lr=agent.learning_rate)
        self.prices = self._first_prices(Streams(seed).at("score-function").generator("prices"))

    @property
    def evaluations(self) -> int:
        """Number of power vectors evaluated so far."""
        judged = self.done * self._rounds * self.agent.actions
        if not len(self.prices.multipliers):
            return judged
        return judged + self._rounds * self.agent.actions + self.done // _DUAL_EVERY * len(self.known)

    @property
    def _rounds(self) -> int:
        return min(self.agent.situations, len(self.known))

    def weights(self) -> Weights:
        """The weights of the policy now."""
        return {name: w.detach().numpy().copy() for name, w in self._weights.items()}

    def figures(self) -> dict[str, float]:
        """Figures for the board: saving of the last actions against the rule, and their spread."""
        return {"rollout/reward_mean": self._saved, "rollout/std_db": UNIT_DB * self._std()}

    def _std(self) -> float:
        """Standard deviation of actions in this step, which falls linearly."""
        first = self.agent.exploration_noise_std
        last = self.agent.exploration_noise_final_std
        return first + (last - first) * self._late

    @property
    def _late(self) -> float:
        """Share of the training that is over."""
        return self.done / max(self.steps - 1, 1)

    def step(self) -> None:
        """One gradient step."""
        agent = self.agent
        half = self.agent.actions // 2
        n = self._rounds
        std = self._std()
        self._adam.param_groups[0]["lr"] = agent.learning_rate * (1.0 - _FALLS * self._late)
        pick = self.generator.choice(len(self.known), n, replace=False)
        features, pairs, mix = (x[pick] for x in self._seen)
        mean = forward(torch, self._weights, features, pairs, mix) * self._there[pick]
        noise = _mirrored(self.generator, (n, half, mean.shape[1]))
        powers_w = self._powers_w(pick, mean.detach().numpy()[:, None] + std * noise)
        found = self.known.figures(powers_w, np.repeat(pick, agent.actions))
        reward = self.known.reward
        cost = priced(reward, found, self.prices.multipliers).reshape(n, agent.actions)
        self._saved = float(self._rule_cost[pick].mean() - reward.cost(found).mean())
        cost = (cost - cost.mean(axis=1, keepdims=True)) / (cost.std(axis=1, keepdims=True) + _EVEN)
        slope = torch.from_numpy((cost[..., None] * noise).mean(axis=1) / std).float()
        self._adam.zero_grad()
        ((slope * mean).sum() / n).backward()
        self._adam.step()
        self.done += 1
        if len(self.prices.multipliers) and self.done % _DUAL_EVERY == 0:
            found = self.known.figures(SharedPolicy(self.weights(), self.rule).power_w(self.known.look))
            self.prices = self.prices.raised(over(reward, found), reward.dual_rate())

    def _first_prices(self, generator: np.random.Generator) -> Prices:
        """The first prices, from actions around the rule in some of the rounds."""
        reward = self.known.reward
        n = self._rounds
        actions = self.agent.actions
        if not reward.bounds():
            return Prices()
        pick = generator.choice(len(self.known), n, replace=False)
        noise = _mirrored(generator, (n, actions // 2, self._rule_dbw.shape[1]))
        powers_w = self._powers_w(pick, self.agent.exploration_noise_std * noise)
        return first_prices(reward, self.known.figures(powers_w, np.repeat(pick, actions)), n)

    def _powers_w(self, pick: IntArray, action: FloatArray) -> FloatArray:
        """Powers (n a, K) of actions (n, a, K) in rounds pick (n,)."""
        dbw = self._rule_dbw[pick][:, None] + UNIT_DB * action
        return within(dbw.reshape(-1, dbw.shape[2]), self.known.look.limits)

    def memory(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on."""
        return {
            "done": self.done,
            "generator": self.generator.bit_generator.state,
            "weights": self.weights(),
            "prices": to_tree(self.prices),
            "adam": optimiser_memory(self._adam),
        }

    def resume(self, memory: dict[str, Any]) -> None:
        """Go on from a memory."""
        self.done = int(memory["done"])
        self.generator.bit_generator.state = memory["generator"]
        self.prices = from_tree_as(memory["prices"], Prices)
        weights: Weights = memory["weights"]
        with torch.no_grad():
            for name, w in self._weights.items():
                w.copy_(torch.from_numpy(np.array(weights[name])))
        resume_optimiser(self._adam, memory["adam"])


def _mirrored(generator: np.random.Generator, shape: tuple[int, int, int]) -> FloatArray:
    """Normal numbers, and their mirror images after them (n, 2 a, K)."""
    noise = generator.standard_normal(shape)
    return np.concatenate([noise, -noise], axis=1)

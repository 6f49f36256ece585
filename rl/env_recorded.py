"""Recorded rounds as environments of stable-baselines3: a step is one situation, and an episode of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from rl.rules import Known, Tuned, within
from rl.shared_policy import UNIT_DB


class RecordedRounds(VecEnv):
    """Some recorded rounds at a time, drawn at random.

    An observation is the number of a round, which networks look up: what is known of it never changes. An action is
    what is added to a rule, in units of 10 dB; that of an absent UE is ignored. The reward is the cost of the rule
    in the same round minus that of the action, by the same laws as live.
    """

    render_mode = None

    def __init__(self, known: Known, rule: Tuned, situations: int, rng: Rng) -> None:
        n, k = known.look.there.shape
        super().__init__(
            situations, spaces.Box(0.0, float(n), (1,), np.float32), spaces.Box(-1.0, 1.0, (k,), np.float32)
        )
        self.known, self.rule_dbw, self.generator = known, rule.dbw(known.look), rng.generator("situations")
        self.rule_cost = known.cost(rule.power_w(known.look))
        self.last_mean = 0.0  # of the rewards of the last step
        self.at: IntArray = np.zeros(situations, dtype=np.int64)

    def rewards(self, actions: FloatArray, at: IntArray) -> FloatArray:
        """Rewards (B,) of actions (B, K) in rounds at (B,)."""
        added = np.where(self.known.look.there[at], np.clip(actions, -1.0, 1.0), 0.0)
        power_w = within(self.rule_dbw[at] + UNIT_DB * added, self.known.look.limits)
        return self.rule_cost[at] - self.known.cost(power_w, at)

    def reset(self) -> VecEnvObs:
        self.at = self.generator.integers(0, len(self.known), self.num_envs)
        return self.seen()

    def seen(self) -> FloatArray:
        """Which rounds these are (n, 1)."""
        return self.at[:, None].astype(np.float32)

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        rewards = self.rewards(self._actions.astype(np.float64), self.at)
        self.last_mean = float(rewards.mean())
        return self.reset(), rewards.astype(np.float32), np.ones(self.num_envs, dtype=bool), [{}] * self.num_envs

    def memory(self) -> dict[str, Any]:
        """What continues these environments elsewhere."""
        return {"generator": self.generator.bit_generator.state, "at": self.at}

    def resume(self, memory: dict[str, Any]) -> VecEnvObs:
        """Continue from a memory; returns what is seen."""
        self.generator.bit_generator.state = memory["generator"]
        self.at = np.array(memory["at"], dtype=np.int64)
        return self.seen()

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [getattr(self, attr_name) for _ in self._some(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        raise AttributeError("recorded rounds do not change")

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        return [getattr(self, method_name)(*method_args, **method_kwargs) for _ in self._some(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        return [False for _ in self._some(indices)]

    def _some(self, indices: VecEnvIndices) -> Sequence[int]:
        if indices is None:
            return range(self.num_envs)
        return list(indices) if isinstance(indices, Iterable) else [indices]

"""DDPG by stable-baselines3, with randomness of our own and a state that can be written down.

A training is a function of its seed and its settings alone: exploration noise, batches and first actions come from
named streams, the networks' first weights from a generator that nobody shares. So an interrupted training goes on
exactly where it was, and two trainings in a process do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DDPG
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv

from netsim.rng import Streams
from netsim.units import FloatArray
from rl.agents import DdpgAgent
from rl.off_policy import Buffer, Tree, buffer_of, memory_of, resume
from rl.policy import Layers


class _Noise(ActionNoise):
    """Gaussian noise on actions from a generator of its own; its size falls in a straight line over the training."""

    def __init__(self, agent: DdpgAgent, n: int, steps: int, seed: int) -> None:
        super().__init__()
        self.generator = Streams(seed).at("ddpg").generator("noise")
        self.first, final = agent.exploration_noise_std, agent.exploration_noise_final_std
        self.last = self.first if final is None else final
        self.n, self.steps, self.done = n, steps, 0

    def __call__(self) -> FloatArray:
        std = self.first + (self.last - self.first) * min(self.done / max(self.steps, 1), 1.0)
        self.done += 1
        return std * self.generator.standard_normal(self.n)


class DdpgTraining:
    """A training that has begun: takes steps, and can be written down between episodes."""

    def __init__(
        self, env: gymnasium.Env[Any, Any], agent: DdpgAgent, steps: int, seed: int, board: str | None
    ) -> None:
        self.env, self.seed, self.steps, self.board = env, seed, steps, board
        vec = DummyVecEnv([lambda: env])
        vec.seed(seed)
        space = env.action_space
        if space.shape is None:
            raise ValueError("actions have no shape")
        self.noise = _Noise(agent, space.shape[0], steps, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = DDPG(
                "MlpPolicy", vec, learning_rate=agent.learning_rate, buffer_size=agent.buffer_size,
                learning_starts=agent.learning_starts, batch_size=agent.batch_size, tau=agent.tau, gamma=agent.discount,
                train_freq=1, gradient_steps=agent.gradient_steps, action_noise=self.noise, replay_buffer_class=Buffer,
                policy_kwargs={"net_arch": list(agent.hidden)}, tensorboard_log=board, device="cpu",
            )  # fmt: skip
        self.model.target_policy_noise = 0.0
        if board is None:  # the library's own logger would leave a folder among the temporary files
            self.model.set_logger(Logger(None, []))
        if getattr(env, "residual", False):
            self._begin_with_the_rule()
        self.model.action_space.seed(seed)
        buffer_of(self.model, Streams(seed).at("ddpg"))

    def _begin_with_the_rule(self) -> None:
        """Actions are 0 before any training: those of an environment whose actions are added to a rule."""
        for net in (self.model.actor, self.model.actor_target):
            last = [m for m in net.mu if isinstance(m, torch.nn.Linear)][-1]
            torch.nn.init.zeros_(last.weight)
            torch.nn.init.zeros_(last.bias)

    @property
    def done(self) -> int:
        """Steps so far."""
        return int(self.model.num_timesteps)

    def layers(self) -> Layers:
        """The actor now: weights and biases of its layers."""
        linear = [m for m in self.model.actor.mu if isinstance(m, torch.nn.Linear)]
        return tuple((m.weight.detach().numpy().copy(), m.bias.detach().numpy().copy()) for m in linear)

    def run(self, between: Callable[[bool], None], stepped: Callable[[Tree, float], None]) -> None:
        """Take all remaining steps.

        `between` is called between two steps, with whether a new episode begins; `stepped` with each step's info and
        reward.
        """
        self.model.learn(
            self.steps - self.done,
            callback=_Watch(between, stepped),
            log_interval=self.steps + 1 if self.board is None else 1,  # episodes; it prints nothing of its own
            reset_num_timesteps=self.done == 0,
            tb_log_name=f"seed-{self.seed}",
        )

    def note(self, name: str, value: float) -> None:
        """One number of the training as it stands now, for whoever reads the board; nothing without one."""
        if self.board is not None and hasattr(self.model, "_logger"):  # there is none before the first step
            self.model.logger.record(name, value)
            self.model.logger.dump(self.done)

    def memory(self) -> Tree:
        """Everything that the rest of the training depends on; between two episodes only."""
        env: Any = self.env
        return {
            "model": memory_of(self.model, _NETWORKS),
            "environment": env.memory(),
            "noise": {"generator": self.noise.generator.bit_generator.state, "done": self.noise.done},
            "first actions": self.model.action_space.np_random.bit_generator.state,
        }

    def resume(self, memory: Tree) -> None:
        """Go on from a memory."""
        model, env = self.model, cast(Any, self.env)
        resume(model, _NETWORKS, memory["model"])
        model._last_obs = env.resume(memory["environment"])[None]
        model._last_episode_starts = np.ones((1,), dtype=bool)
        self.noise.generator.bit_generator.state = memory["noise"]["generator"]
        self.noise.done = int(memory["noise"]["done"])
        model.action_space.np_random.bit_generator.state = memory["first actions"]


_NETWORKS = ("actor", "actor_target", "critic", "critic_target")


class _Watch(BaseCallback):
    """Calls back between steps, when everything is in its place."""

    def __init__(self, between: Callable[[bool], None], stepped: Callable[[Tree, float], None]) -> None:
        super().__init__()
        self.between, self.stepped, self.ended = between, stepped, True
        self.rewards: list[float] = []

    def _on_rollout_start(self) -> None:
        self.between(self.ended)

    def _on_step(self) -> bool:
        self.ended, reward = bool(self.locals["dones"][0]), float(self.locals["rewards"][0])
        self.stepped(self.locals["infos"][0], reward)
        self.rewards.append(reward)
        if self.ended:
            self.logger.record("episode/reward_mean", float(np.mean(self.rewards)))
            self.rewards.clear()
        return True


@dataclass(frozen=True)
class Best:
    """The best policy so far: its layers, the figure that decides (small is good), and after how many steps."""

    layers: Layers
    score: float
    steps: int

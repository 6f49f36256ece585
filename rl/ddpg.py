"""DDPG by stable-baselines3, with randomness of our own and a state that can be written down.

A training is a function of its seed and its settings alone: exploration noise, batches and first actions come from
named streams, the networks' first weights from a generator that nobody shares. So an interrupted training goes on
exactly where it was, and two trainings in a process do not disturb each other.
"""

from __future__ import annotations

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
from rl.env_online import OnlinePower
from rl.live_bounds import LiveBounds
from rl.off_policy import Buffer, Tree, arrays_of, buffer_of, memory_of, resume
from rl.train import Weights


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
        self, env: gymnasium.Env[Any, Any], agent: DdpgAgent, steps: int, seed: int, board: Logger | None = None
    ) -> None:
        self.env, self.steps = env, steps
        self.rewards: list[float] | None = []
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
                policy_kwargs={"net_arch": list(agent.hidden)}, device="cpu",
            )  # fmt: skip
        self.model.target_policy_noise = 0.0
        # the library's own logger would leave a folder among the temporary files
        self.model.set_logger(Logger(None, []) if board is None else board)
        self._log_every = 1 if board is not None and board.output_formats else None  # episodes
        if getattr(env, "residual", False):
            self._begin_with_the_rule()
        self.model.action_space.seed(seed)
        buffer = buffer_of(self.model, Streams(seed).at("ddpg"))
        self.bounds = LiveBounds(env, buffer) if isinstance(env, OnlinePower) and env.task.reward.bounds() else None
        self._steps = _Steps(self)

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

    @property
    def evaluations(self) -> int:
        """Power vectors that were judged so far."""
        return self.done

    @property
    def rests(self) -> bool:
        """Whether an episode is over, and another step follows."""
        return self._steps.episode_over and self.done < self.steps

    @property
    def multipliers(self) -> tuple[float, ...]:
        """Of the reward's bounds."""
        return () if self.bounds is None else self.bounds.multipliers

    def weights(self) -> Weights:
        """The actor now."""
        return arrays_of(self.model.actor.mu.state_dict())

    def figures(self) -> dict[str, float]:
        """For the board, to which the library writes losses by itself."""
        return {}

    def step(self) -> None:
        """One step, and its gradient steps."""
        self.model.learn(1, callback=self._steps, log_interval=self._log_every, reset_num_timesteps=False)  # type: ignore[arg-type]
        if self.rests and self.bounds is not None:
            self.bounds.episode_over()

    def memory(self) -> Tree:
        """Everything that the rest of the training depends on; between two episodes only."""
        env: Any = self.env
        kept = {} if self.bounds is None else {"bounds": self.bounds.memory()}
        return kept | {
            "model": memory_of(self.model, _NETWORKS),
            "environment": env.memory(),
            "noise": {"generator": self.noise.generator.bit_generator.state, "done": self.noise.done},
            "first actions": self.model.action_space.np_random.bit_generator.state,
            "rewards": self.rewards,
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
        self.rewards = list(memory["rewards"])
        if self.bounds is not None:
            self.bounds.resume(memory["bounds"])


_NETWORKS = ("actor", "actor_target", "critic", "critic_target")


class _Steps(BaseCallback):
    """Notes the reward and the figures of every step, before its transition is stored."""

    def __init__(self, training: DdpgTraining) -> None:
        super().__init__()
        self.training, self.episode_over, self.episode = training, True, list[float]()

    def _on_step(self) -> bool:
        self.episode_over, reward = bool(self.locals["dones"][0]), float(self.locals["rewards"][0])
        if self.training.bounds is not None:
            self.training.bounds.stepped(self.locals["infos"][0])
        if self.training.rewards is not None:
            self.training.rewards.append(reward)
        self.episode.append(reward)
        if self.episode_over:
            self.logger.record("episode/reward_mean", float(np.mean(self.episode)))
            self.episode.clear()
        return True

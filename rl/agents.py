"""Training of DDPG by stable-baselines3.

A training is a function of its seed, its settings and its environment alone: exploration noise, batches and first
actions come from named streams, the networks' first weights from a separate generator. So an interrupted training goes
on exactly where it was, and two trainings in a process do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from stable_baselines3 import DDPG
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from fl.power.bound import PowerLoss
from fl.power.search import Limits, PowerPlan
from netsim.rng import Streams
from netsim.units import FloatArray
from rl.env import PowerAllocation
from rl.problem import Problem
from rl.settings import DdpgAgent
from rl.train import Training, Tree, Weights

_COLUMNS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
_LEARNT = ("actor", "critic")


class Buffer(ReplayBuffer):
    """A buffer whose batches come from a separate generator."""

    generator: np.random.Generator

    @property
    def filled(self) -> int:
        return self.buffer_size if self.full else self.pos

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        step, env_of = np.divmod(self.generator.integers(0, self.filled * self.n_envs, size=batch_size), self.n_envs)
        over = self.dones[step, env_of] * (1 - self.timeouts[step, env_of])
        rewards = self.rewards[step, env_of]
        return ReplayBufferSamples(
            self.to_torch(self.observations[step, env_of]),
            self.to_torch(self.actions[step, env_of]),
            self.to_torch(self.next_observations[step, env_of]),
            self.to_torch(over[:, None]),
            self.to_torch(rewards[:, None]),
        )


class _Noise(ActionNoise):
    """Gaussian noise on actions from a separate generator; its size falls in a straight line over the training."""

    def __init__(self, agent: DdpgAgent, n: int, steps: int, seed: int) -> None:
        super().__init__()
        self.generator = Streams(seed).at("ddpg").generator("noise")
        self.first = agent.exploration_noise_std
        final = agent.exploration_noise_final_std
        self.last = self.first if final is None else final
        self.n = n
        self.steps = steps
        self.done = 0

    def __call__(self) -> FloatArray:
        std = self.first + (self.last - self.first) * min(self.done / max(self.steps, 1), 1.0)
        self.done += 1
        return std * self.generator.standard_normal(self.n)


class DdpgTraining(Training):
    """A training: takes steps, and can be saved between episodes."""

    def __init__(
        self, env: PowerAllocation, agent: DdpgAgent, steps: int, seed: int, board: Logger | None = None
    ) -> None:
        self.env = env
        self.steps = steps
        self.rewards = []
        vec = DummyVecEnv([lambda: env])
        vec.seed(seed)
        self.noise = _Noise(agent, env.n_ue, steps, seed)
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
        if env.problem.acts == "residual":
            for net in (self.model.actor, self.model.actor_target):  # it begins with the rule: actions are 0
                last = [m for m in net.mu if isinstance(m, torch.nn.Linear)][-1]
                torch.nn.init.zeros_(last.weight)
                torch.nn.init.zeros_(last.bias)
        self.model.action_space.seed(seed)
        self.buffer = cast(Buffer, self.model.replay_buffer)
        self.buffer.generator = Streams(seed).at("ddpg").generator("batch")
        self.callback = _Steps(self)

    def weights(self) -> Weights:
        return arrays_of(self.model.actor.mu.state_dict())

    def step(self) -> None:
        self.model.learn(1, callback=self.callback, log_interval=self._log_every, reset_num_timesteps=False)  # type: ignore[arg-type]
        self.done = self.model.num_timesteps
        self.rests = self.callback.episode_over and self.done < self.steps

    def memory(self) -> Tree:
        """Everything that the rest of the training depends on; between two episodes only."""
        model = self.model
        buffer = self.buffer
        return {
            "steps": self.done,
            "updates": model._n_updates,
            "episodes": model._episode_num,
            "networks": arrays_of(model.policy.state_dict()),
            "optimisers": {name: optimiser_memory(getattr(model, name).optimizer) for name in _LEARNT},
            "buffer": {name: getattr(buffer, name)[: buffer.filled].copy() for name in _COLUMNS},
            "pos": buffer.pos,
            "full": buffer.full,
            "environment": self.env.memory(),
            "noises": self.noise.done,
            "generators": {name: bits.state for name, bits in self._generators.items()},
            "rewards": self.rewards,
        }

    def resume(self, memory: Tree) -> None:
        model = self.model
        buffer = self.buffer
        self.done = model.num_timesteps = int(memory["steps"])
        model._n_updates = int(memory["updates"])
        model._episode_num = int(memory["episodes"])
        model.policy.load_state_dict(tensors_of(memory["networks"]))
        for name in _LEARNT:
            resume_optimiser(getattr(model, name).optimizer, memory["optimisers"][name])
        for name in _COLUMNS:
            kept = memory["buffer"][name]
            getattr(buffer, name)[: len(kept)] = kept
        buffer.pos = int(memory["pos"])
        buffer.full = bool(memory["full"])
        model._last_obs = self.env.resume(memory["environment"])[None]
        model._last_episode_starts = np.ones((1,), dtype=bool)
        self.noise.done = int(memory["noises"])
        for name, bits in self._generators.items():
            bits.state = memory["generators"][name]
        self.rewards = list(memory["rewards"])

    @property
    def _generators(self) -> dict[str, np.random.BitGenerator]:
        return {
            "noise": self.noise.generator.bit_generator,
            "batch": self.buffer.generator.bit_generator,
            "first actions": self.model.action_space.np_random.bit_generator,
        }


class _Steps(BaseCallback):
    """Notes the reward of every step. episode : rewards of this one."""

    def __init__(self, training: DdpgTraining) -> None:
        super().__init__()
        self.training = training
        self.episode_over = True
        self.episode = list[float]()

    def _on_step(self) -> bool:
        self.episode_over = bool(self.locals["dones"][0])
        reward = float(self.locals["rewards"][0])
        self.episode.append(reward)
        if self.training.rewards is not None:
            self.training.rewards.append(reward)
        if self.episode_over:
            self.logger.record("episode/reward_mean", float(np.mean(self.episode)))
            self.episode.clear()
        return True


def optimiser_memory(optimiser: torch.optim.Optimizer) -> Tree:
    """The state of an optimiser, by the number of each parameter."""
    return {str(i): arrays_of(s) for i, s in optimiser.state_dict()["state"].items()}


def resume_optimiser(optimiser: torch.optim.Optimizer, memory: Tree) -> None:
    """Set an optimiser to what `optimiser_memory` wrote down."""
    whole = optimiser.state_dict()
    whole["state"] = {int(i): tensors_of(s) for i, s in memory.items()}
    optimiser.load_state_dict(whole)


def arrays_of(tensors: Mapping[str, torch.Tensor]) -> Tree:
    """Tensors as arrays of the same numbers."""
    return {k: v.detach().cpu().numpy().copy() for k, v in tensors.items()}


def tensors_of(arrays: Tree) -> dict[str, torch.Tensor]:
    """Arrays as tensors of the same numbers."""
    return {k: torch.from_numpy(np.array(v)) for k, v in arrays.items()}


def learnt_plan(objective: PowerLoss, limits: Limits, steps: int, seed: int) -> PowerPlan:
    """The best powers that DDPG meets on the bound in so many steps; it learns from scratch.

    Those that it tries, with which episodes begin (at random), and which its actor takes at last.
    """
    env = PowerAllocation([Problem(objective, limits)])
    training = DdpgTraining(env, DdpgAgent(learning_starts=max(1, steps // 10)), steps, seed)
    best = env.problem.start
    while training.done < steps:
        training.step()
        best = min(best, env.last, key=lambda tried: tried.value)
    action, _ = training.model.predict(env.problem.seen(best), deterministic=True)
    best = min(best, env.problem.act(np.asarray(action, dtype=float)), key=lambda tried: tried.value)
    return PowerPlan(best.power_w, best.value, best.switch, steps + 1)

"""DDPG by stable-baselines3, with seeded randomness and a state that can be saved.

A training is a function of its seed and its settings alone: exploration noise, batches and first actions come from
named streams, the networks' first weights from a separate generator. So an interrupted training goes on
exactly where it was, and two trainings in a process do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DDPG
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from netsim.checkpoint import from_tree_as, to_tree
from netsim.rng import Streams
from netsim.units import FloatArray
from rl.env_online import OnlinePower
from rl.lagrangian import Prices, first_prices, over, priced
from rl.reward import FIGURES, Figures
from rl.settings import DdpgAgent
from rl.train import Weights

Tree = dict[str, Any]
_COLUMNS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
_NETWORKS = ("actor", "actor_target", "critic", "critic_target")
_LEARNT = ("actor", "critic")


class Buffer(ReplayBuffer):
    """A buffer whose batches come from a separate generator."""

    generator: np.random.Generator

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        filled = self.buffer_size if self.full else self.pos
        step, env_of = np.divmod(self.generator.integers(0, filled * self.n_envs, size=batch_size), self.n_envs)
        over = self.dones[step, env_of] * (1 - self.timeouts[step, env_of])
        return ReplayBufferSamples(
            self.to_torch(self.observations[step, env_of]),
            self.to_torch(self.actions[step, env_of]),
            self.to_torch(self.next_observations[step, env_of]),
            self.to_torch(over[:, None]),
            self.to_torch(self.rewards[step, env_of][:, None]),
        )


class _Noise(ActionNoise):
    """Gaussian noise on actions from a separate generator; its size falls in a straight line over the training."""

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
    """A training: takes steps, and can be saved between episodes."""

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
        self.buffer = cast(Buffer, self.model.replay_buffer)
        self.buffer.generator = Streams(seed).at("ddpg").generator("batch")
        self.bounds = (
            LiveBounds(env, self.buffer) if isinstance(env, OnlinePower) and env.task.reward.bounds() else None
        )
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
        """Number of power vectors evaluated so far."""
        return self.done

    @property
    def rests(self) -> bool:
        """Whether an episode is over, and another step follows."""
        return self._steps.episode_over and self.done < self.steps

    @property
    def multipliers(self) -> tuple[float, ...]:
        """Multipliers of the reward's bounds."""
        return () if self.bounds is None else self.bounds.multipliers

    def weights(self) -> Weights:
        """The weights of the actor now."""
        return arrays_of(self.model.actor.mu.state_dict())

    def figures(self) -> dict[str, float]:
        """No figures for the board: the library writes losses itself."""
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
            "model": self._memory_of_model(),
            "environment": env.memory(),
            "noise": {"generator": self.noise.generator.bit_generator.state, "done": self.noise.done},
            "first actions": self.model.action_space.np_random.bit_generator.state,
            "rewards": self.rewards,
        }

    def resume(self, memory: Tree) -> None:
        """Go on from a memory."""
        model, env = self.model, cast(Any, self.env)
        self._resume_model(memory["model"])
        model._last_obs = env.resume(memory["environment"])[None]
        model._last_episode_starts = np.ones((1,), dtype=bool)
        self.noise.generator.bit_generator.state = memory["noise"]["generator"]
        self.noise.done = int(memory["noise"]["done"])
        model.action_space.np_random.bit_generator.state = memory["first actions"]
        self.rewards = list(memory["rewards"])
        if self.bounds is not None:
            self.bounds.resume(memory["bounds"])

    def _memory_of_model(self) -> Tree:
        """Its networks by name, optimisers, transitions, and counts."""
        model, buffer = self.model, self.buffer
        filled = buffer.buffer_size if buffer.full else buffer.pos
        return {
            "steps": int(model.num_timesteps),
            "updates": model._n_updates,
            "episodes": model._episode_num,
            "networks": {name: arrays_of(getattr(model, name).state_dict()) for name in _NETWORKS},
            "optimisers": {name: optimiser_memory(getattr(model, name).optimizer) for name in _LEARNT},
            "buffer": {
                "generator": buffer.generator.bit_generator.state, "pos": buffer.pos, "full": buffer.full,
                **{name: getattr(buffer, name)[:filled].copy() for name in _COLUMNS},
            },
        }  # fmt: skip

    def _resume_model(self, memory: Tree) -> None:
        """Set the model to what `_memory_of_model` wrote down."""
        model, buffer = self.model, self.buffer
        model.num_timesteps = int(memory["steps"])
        model._n_updates, model._episode_num = int(memory["updates"]), int(memory["episodes"])
        for name in _NETWORKS:
            getattr(model, name).load_state_dict(tensors_of(memory["networks"][name]))
        for name in _LEARNT:
            resume_optimiser(getattr(model, name).optimizer, memory["optimisers"][name])
        kept = memory["buffer"]
        buffer.generator.bit_generator.state = kept["generator"]
        buffer.pos, buffer.full = int(kept["pos"]), bool(kept["full"])
        for name in _COLUMNS:
            getattr(buffer, name)[: len(kept[name])] = kept[name]


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


def optimiser_memory(optimiser: torch.optim.Optimizer) -> Tree:
    """The state of an optimiser, by the number of each parameter."""
    return {str(i): arrays_of(s) for i, s in optimiser.state_dict()["state"].items()}


def resume_optimiser(optimiser: torch.optim.Optimizer, memory: Tree) -> None:
    """Set an optimiser to what `optimiser_memory` wrote down."""
    whole = optimiser.state_dict()
    whole["state"] = {int(i): tensors_of(s) for i, s in memory.items()}
    optimiser.load_state_dict(whole)


def arrays_of(tensors: Any) -> Tree:
    """Tensors as arrays of the same numbers."""
    return {k: v.detach().cpu().numpy().copy() for k, v in tensors.items()}


def tensors_of(arrays: Any) -> dict[str, torch.Tensor]:
    """Arrays as tensors of the same numbers."""
    return {k: torch.from_numpy(np.array(v)) for k, v in arrays.items()}


class LiveBounds:
    """The figures of all transitions in a buffer, and the prices that they are paid at."""

    def __init__(self, env: OnlinePower, buffer: Buffer) -> None:
        self.env, self.buffer, self.prices = env, buffer, Prices.none()
        self.figures = np.full((len(buffer.rewards), len(FIGURES)), np.nan)
        self.episode: list[FloatArray] = []

    @property
    def multipliers(self) -> tuple[float, ...]:
        """Multipliers now; zeros before the first episode is over."""
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
        """The state that the rest of the training depends on, between two episodes."""
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
    """Figures of rows (n, 6)."""
    return Figures(*rows.T)

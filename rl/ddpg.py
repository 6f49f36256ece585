"""DDPG by stable-baselines3, with randomness of our own and a state that can be written down.

A training is a function of its seed and its settings alone: exploration noise, batches and first actions come from
named streams, the networks' first weights from a generator that nobody shares. So an interrupted training goes on
exactly where it was, and two trainings in a process do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

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

from netsim.rng import Streams
from netsim.units import FloatArray
from rl.policy import Layers
from rl.problem import Seen
from rl.settings import DdpgAgent

Tree = dict[str, Any]


class Resumable(Protocol):
    """An environment that can be continued elsewhere from the beginning of an episode."""

    def memory(self) -> Tree: ...

    def resume(self, memory: Tree) -> Seen: ...


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


class _Buffer(ReplayBuffer):
    """A buffer whose batches come from a generator of its own."""

    generator: np.random.Generator

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        filled = self.buffer_size if self.full else self.pos
        return self._get_samples(self.generator.integers(0, filled, size=batch_size), env=env)


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
                train_freq=1, gradient_steps=agent.gradient_steps, action_noise=self.noise, replay_buffer_class=_Buffer,
                policy_kwargs={"net_arch": list(agent.hidden)}, tensorboard_log=board, device="cpu",
            )  # fmt: skip
        self.model.target_policy_noise = 0.0
        if board is None:  # the library's own logger would leave a folder among the temporary files
            self.model.set_logger(Logger(None, []))
        if getattr(env, "residual", False):
            self._begin_with_the_rule()
        self.model.action_space.seed(seed)
        self.buffer.generator = Streams(seed).at("ddpg").generator("batch")

    def _begin_with_the_rule(self) -> None:
        """Actions are 0 before any training: those of an environment whose actions are added to a rule."""
        for net in (self.model.actor, self.model.actor_target):
            last = [m for m in net.mu if isinstance(m, torch.nn.Linear)][-1]
            torch.nn.init.zeros_(last.weight)
            torch.nn.init.zeros_(last.bias)

    @property
    def buffer(self) -> _Buffer:
        """The transitions."""
        replay = self.model.replay_buffer
        assert isinstance(replay, _Buffer)  # noqa: S101 - made above
        return replay

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
        model, buffer = self.model, self.buffer
        filled = buffer.buffer_size if buffer.full else buffer.pos
        env: Any = self.env
        return {
            "steps": self.done,
            "updates": model._n_updates,
            "episodes": model._episode_num,
            "environment": env.memory(),
            "noise": {"generator": self.noise.generator.bit_generator.state, "done": self.noise.done},
            "first actions": model.action_space.np_random.bit_generator.state,
            "networks": {name: _arrays(getattr(model, name).state_dict()) for name in _NETWORKS},
            "optimisers": {
                name: {str(i): _arrays(s) for i, s in getattr(model, name).optimizer.state_dict()["state"].items()}
                for name in ("actor", "critic")
            },
            "buffer": {
                "generator": buffer.generator.bit_generator.state, "pos": buffer.pos, "full": buffer.full,
                **{name: getattr(buffer, name)[:filled].copy() for name in _COLUMNS},
            },
        }  # fmt: skip

    def resume(self, memory: Tree) -> None:
        """Go on from a memory."""
        model, buffer = self.model, self.buffer
        env: Any = self.env
        model.num_timesteps = int(memory["steps"])
        model._n_updates, model._episode_num = int(memory["updates"]), int(memory["episodes"])
        model._last_obs = env.resume(memory["environment"])[None]
        model._last_episode_starts = np.ones((1,), dtype=bool)
        self.noise.generator.bit_generator.state = memory["noise"]["generator"]
        self.noise.done = int(memory["noise"]["done"])
        model.action_space.np_random.bit_generator.state = memory["first actions"]
        for name in _NETWORKS:
            getattr(model, name).load_state_dict(_tensors(memory["networks"][name]))
        for name, states in memory["optimisers"].items():
            optimiser = getattr(model, name).optimizer
            whole = optimiser.state_dict()
            whole["state"] = {int(i): _tensors(s) for i, s in states.items()}
            optimiser.load_state_dict(whole)
        kept = memory["buffer"]
        buffer.generator.bit_generator.state = kept["generator"]
        buffer.pos, buffer.full = int(kept["pos"]), bool(kept["full"])
        for name in _COLUMNS:
            getattr(buffer, name)[: len(kept[name])] = kept[name]


_NETWORKS = ("actor", "actor_target", "critic", "critic_target")
_COLUMNS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


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


def _arrays(tensors: Any) -> Tree:
    """Tensors as arrays of the same numbers."""
    return {k: v.detach().cpu().numpy().copy() for k, v in tensors.items()}


def _tensors(arrays: Tree) -> dict[str, torch.Tensor]:
    return {k: torch.from_numpy(np.array(v)) for k, v in arrays.items()}


@dataclass(frozen=True)
class Best:
    """The best policy so far: its layers, the figure that decides (small is good), and after how many steps."""

    layers: Layers
    score: float
    steps: int

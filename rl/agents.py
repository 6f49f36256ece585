"""Training of DDPG by stable-baselines3: of powers for a whole training, and of one actor for every
UE.

A training is a function of its seed, its settings and its environment alone: exploration noise,
batches and first actions come from named streams, the networks' first weights from a separate
generator. So an interrupted training goes on exactly where it was, and two trainings in a process
do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DDPG
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.utils import update_learning_rate
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from fl.power.bound import PowerLoss
from fl.power.search import Limits, PowerPlan
from netsim.rng import Streams
from netsim.units import FloatArray, FloatPair, IntPair, Texts
from rl.env import PowerAllocation
from rl.policy import MOST_SEEN, MOVES_DB, compute_action, pair_layers, standardise_features
from rl.problem import Problem, Seen
from rl.rules import KnownRounds
from rl.settings import DdpgAgent, Tree, Weights
from rl.ue import UeRounds

Array = np.ndarray
_COLUMNS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
_LEARNT = ("actor", "critic")
_RENEWALS = 12  # of the passes in a training


class Buffer(ReplayBuffer):
    """A buffer whose batches come from a separate generator."""

    generator: np.random.Generator

    @property
    def filled(self) -> int:
        return self.buffer_size if self.full else self.pos

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        row = self.generator.integers(0, self.filled * self.n_envs, size=batch_size)
        at = np.divmod(row, self.n_envs)  # step and environment
        over = self.dones[at] * (1 - self.timeouts[at])
        return ReplayBufferSamples(
            self.to_torch(self.observations[at]),
            self.to_torch(self.actions[at]),
            self.to_torch(self.next_observations[at]),
            self.to_torch(over[:, None]),
            self.to_torch(self.rewards[at][:, None]),
        )


class _Noise(VectorizedActionNoise):
    """Gaussian noise on actions (n_envs, n) from a separate generator; it falls linearly over the
    training.
    """

    def __init__(self, agent: DdpgAgent, shape: IntPair, steps: int, seed: int) -> None:
        super().__init__(NormalActionNoise(np.zeros(1), np.ones(1)), shape[0])
        self.generator = Streams(seed).derive_rng("ddpg").make_generator("noise")
        self.first = agent.exploration_noise_std
        final = agent.exploration_noise_final_std
        self.last = self.first if final is None else final
        self.shape = shape
        self.steps = steps
        self.done = 0

    def __call__(self) -> FloatArray:
        share = min(self.done / max(self.steps, 1), 1.0)
        std = self.first + (self.last - self.first) * share
        self.done += 1
        return std * self.generator.standard_normal(self.shape)


class _ScheduledDdpg(DDPG):
    """DDPG whose actor learns at another rate than its critic; both fall in a straight line."""

    rates: Callable[[], FloatPair]

    def _update_learning_rate(
        self, optimizers: torch.optim.Optimizer | list[torch.optim.Optimizer]
    ) -> None:
        optimisers = optimizers if isinstance(optimizers, list) else [optimizers]
        for optimiser, rate in zip(optimisers, self.rates(), strict=True):
            update_learning_rate(optimiser, rate)


class DdpgTraining:
    """A training on one vector of environments: takes steps of all of them, and can be saved
    between episodes.

    done : of its steps. rests : whether a checkpoint can be written now. rewards : of the steps
    since the last evaluation.
    """

    done = 0
    rests = True

    def __init__(
        self,
        vec: VecEnv,
        memory: PowerAllocation | _EnvBatch,
        agent: DdpgAgent,
        steps: int,
        seed: int,
        from_zero: bool = False,
    ) -> None:
        """memory : of the environments. from_zero : whether the first policy acts 0 everywhere."""
        self.environment = memory
        self.agent = agent
        self.steps = steps
        self.rewards = list[float]()
        self.n = n = vec.num_envs
        vec.seed(seed)
        (n_actions,) = vec.action_space.shape or (1,)
        self.noise = _Noise(agent, (n, n_actions), steps, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = model = _ScheduledDdpg(
                "MlpPolicy",
                vec,
                learning_rate=agent.learning_rate,
                buffer_size=agent.buffer_size,
                learning_starts=agent.learning_starts * n,
                batch_size=agent.batch_size,
                tau=agent.tau,
                gamma=agent.discount,
                train_freq=1,
                gradient_steps=agent.gradient_steps,
                action_noise=self.noise,
                replay_buffer_class=Buffer,
                policy_kwargs={"net_arch": list(agent.hidden)},
                device="cpu",
            )
        model.rates = self._rates
        model.target_policy_noise = 0.0
        # the library's own logger would leave a folder among the temporary files
        model.set_logger(Logger(None, []))
        if from_zero:
            for net in (model.actor, model.actor_target):
                last = [m for m in net.mu if isinstance(m, torch.nn.Linear)][-1]
                torch.nn.init.zeros_(last.weight)
                torch.nn.init.zeros_(last.bias)
        model.action_space.seed(seed)
        self.buffer = cast(Buffer, model.replay_buffer)
        self.buffer.generator = Streams(seed).derive_rng("ddpg").make_generator("batch")
        self.callback = _Steps(self)

    def _rates(self) -> FloatPair:
        """Learning rates of actor and critic now."""
        share = min(self.model.num_timesteps / self.n / self.steps, 1.0)
        left = 1.0 - (1.0 - self.agent.final_rate) * share
        critic = self.agent.learning_rate * left
        return self.agent.actor_rate * critic, critic

    @property
    def evaluations(self) -> int:
        """Number of power vectors evaluated so far."""
        return self.done

    def weights(self) -> Weights:
        """The weights of the policy now."""
        return to_arrays(self.model.actor.mu.state_dict())

    def step(self) -> None:
        self.model.learn(1, callback=self.callback, log_interval=None, reset_num_timesteps=False)  # type: ignore[arg-type]
        self.done = self.model.num_timesteps // self.n
        self.rests = self.callback.episode_over and self.done < self.steps

    def memory(self) -> Tree:
        """Everything that the rest of the training depends on; between two episodes only."""
        model = self.model
        buffer = self.buffer
        return {
            "steps": self.done,
            "updates": model._n_updates,
            "episodes": model._episode_num,
            "networks": to_arrays(model.policy.state_dict()),
            "optimisers": {
                name: save_optimiser(getattr(model, name).optimizer) for name in _LEARNT
            },
            "buffer": {
                name: getattr(buffer, name)[: buffer.filled].copy() for name in self._columns
            },
            "pos": buffer.pos,
            "full": buffer.full,
            "environment": self.environment.memory(),
            "noises": self.noise.done,
            "generators": {name: bits.state for name, bits in self._generators.items()},
            "rewards": self.rewards,
        }

    def resume(self, memory: Tree) -> None:
        """Go on from a memory."""
        model = self.model
        buffer = self.buffer
        self.done = int(memory["steps"])
        model.num_timesteps = self.done * self.n
        model._n_updates = int(memory["updates"])
        model._episode_num = int(memory["episodes"])
        model.policy.load_state_dict(to_tensors(memory["networks"]))
        for name in _LEARNT:
            optimiser = getattr(model, name).optimizer
            state = memory["optimisers"][name]
            whole = optimiser.state_dict()
            whole["state"] = {int(i): to_tensors(s) for i, s in state.items()}
            optimiser.load_state_dict(whole)
        for name in self._columns:
            kept = memory["buffer"][name]
            getattr(buffer, name)[: len(kept)] = kept
        buffer.pos = int(memory["pos"])
        buffer.full = bool(memory["full"])
        model._last_obs = self.environment.resume(memory["environment"]).reshape(self.n, -1)
        model._last_episode_starts = np.ones((self.n,), bool)
        self.noise.done = int(memory["noises"])
        for name, bits in self._generators.items():
            bits.state = memory["generators"][name]
        self.rewards = list(memory["rewards"])

    @property
    def _columns(self) -> Texts:
        """Of the buffer: what comes after counts for nothing without a discount."""
        return tuple(
            name for name in _COLUMNS if self.agent.discount or name != "next_observations"
        )

    @property
    def _generators(self) -> dict[str, np.random.BitGenerator]:
        return {
            "noise": self.noise.generator.bit_generator,
            "batch": self.buffer.generator.bit_generator,
            "first actions": self.model.action_space.np_random.bit_generator,
        }


def build_allocation_training(
    problems: Sequence[Problem], agent: DdpgAgent, steps: int, seed: int
) -> tuple[DdpgTraining, PowerAllocation]:
    """A training of powers for a whole training, and its environment."""
    env = PowerAllocation(problems)
    return DdpgTraining(DummyVecEnv([lambda: env]), env, agent, steps, seed), env


class _EnvBatch(VecEnv):
    """All UEs of some recorded rounds, drawn at every step, each round in one of the passes."""

    def __init__(self, rounds: UeRounds, n: int, generator: np.random.Generator) -> None:
        self.rounds = rounds
        self.n = n
        self.generator = generator
        shape = rounds.seen.shape
        space = spaces.Box(-MOST_SEEN, MOST_SEEN, shape[3:], np.float32)
        super().__init__(n * shape[2], space, spaces.Box(-1.0, 1.0, (1,), np.float32))

    def reset(self) -> Seen:
        passes, n_rounds = self.rounds.present.shape[:2]
        self.of_pass = self.generator.integers(passes, size=self.n)
        self.at = self.generator.integers(n_rounds, size=self.n)
        return self._observe()

    def _observe(self) -> Seen:
        seen = self.rounds.seen[self.of_pass, self.at].reshape(self.num_envs, -1)
        return standardise_features(seen, *self.rounds.scale)

    def step_async(self, actions: Array) -> None:
        self.action = actions.reshape(self.n, -1).astype(float)

    def step_wait(self) -> tuple[Seen, Seen, Array, list[Tree]]:
        rewards = (
            self.rounds.compute_joint_rewards(self.of_pass, self.at, self.action)
            .ravel()
            .astype(np.float32)
        )
        return self.reset(), rewards, np.ones(self.num_envs, bool), [{} for _ in rewards]

    def memory(self) -> Tree:
        return {
            "generator": self.generator.bit_generator.state,
            "passes": self.of_pass,
            "rounds": self.at,
        }

    def resume(self, memory: Tree) -> Seen:
        self.generator.bit_generator.state = memory["generator"]
        self.of_pass = memory["passes"]
        self.at = memory["rounds"]
        return self._observe()

    def close(self) -> None: ...

    def get_attr(self, *args: object, **kwargs: object) -> list[Any]:
        return [None] * self.num_envs

    env_method = env_is_wrapped = get_attr

    def set_attr(self, *args: object, **kwargs: object) -> None: ...


class UeTraining(DdpgTraining):
    """A training of one actor for every UE, on recorded rounds (see `rl.ue`).

    A step is one action of every UE in some rounds, each in one of the passes. Twelve times the
    passes are renewed, by the policy as it is then. grow : plays world i with a policy, and returns
    its rounds, which join the others; it is called `worlds` - 1 times, at equal distances. None:
    all rounds are recorded before.
    """

    def __init__(
        self,
        rounds: UeRounds,
        agent: DdpgAgent,
        steps: int,
        seed: int,
        grow: Callable[[Weights, int], KnownRounds] | None = None,
        worlds: int = _RENEWALS,
    ) -> None:
        self.rounds = rounds
        self.grow = grow
        self.most = steps if grow is None else worlds - 1  # times that passes are renewed
        self.every = max(steps // worlds, 1)
        self.renewed: list[Weights] = []
        self.vec = _EnvBatch(
            rounds, agent.situations, Streams(seed).derive_rng("ddpg").make_generator("rounds")
        )
        super().__init__(self.vec, self.vec, agent, steps, seed, from_zero=True)

    @property
    def evaluations(self) -> int:
        passes, n_rounds, k = self.rounds.present.shape
        judged = self.done * (self.n + self.vec.n)
        if self.rounds.probes is not None:
            n_passes = 1 + (passes - 1) * len(self.renewed)
            judged += n_rounds * n_passes * (1 + k * len(MOVES_DB))
        return judged

    def step(self) -> None:
        if self.done and self.done % self.every == 0 and len(self.renewed) < self.most:
            self._renew(self.weights())
            self.model._last_obs = self.vec.reset()
        super().step()

    def _renew(self, weights: Weights) -> None:
        self.renewed.append(weights)
        if self.grow is not None:
            self.rounds.add(self.grow(weights, len(self.renewed)))
        layers = pair_layers(weights)
        self.rounds.renew(
            lambda seen: compute_action(layers, standardise_features(seen, *self.rounds.scale).T)[0]
        )

    def memory(self) -> Tree:
        kept = self.renewed if self.grow is not None else self.renewed[-1:]
        return {**super().memory(), "renewed": kept, "renewals": len(self.renewed)}

    def resume(self, memory: Tree) -> None:
        for weights in memory["renewed"]:
            self._renew(weights)
        self.renewed += [{}] * (int(memory["renewals"]) - len(self.renewed))
        super().resume(memory)


class _Steps(BaseCallback):
    """Notes the reward of every step, and whether it was the last one of an episode."""

    def __init__(self, training: DdpgTraining) -> None:
        super().__init__()
        self.training = training
        self.episode_over = True

    def _on_step(self) -> bool:
        self.episode_over = bool(self.locals["dones"][0])
        self.training.rewards.append(float(np.mean(self.locals["rewards"])))
        return True


def save_optimiser(optimiser: torch.optim.Optimizer) -> Tree:
    """The state of an optimiser, by the number of each parameter."""
    return {str(i): to_arrays(s) for i, s in optimiser.state_dict()["state"].items()}


def to_arrays(tensors: Mapping[str, torch.Tensor]) -> Tree:
    """Tensors as arrays of the same numbers."""
    return {k: v.detach().cpu().numpy().copy() for k, v in tensors.items()}


def to_tensors(arrays: Tree) -> dict[str, torch.Tensor]:
    """Arrays as tensors of the same numbers."""
    return {k: torch.from_numpy(np.array(v)) for k, v in arrays.items()}


def learn_powers(objective: PowerLoss, limits: Limits, steps: int, seed: int) -> PowerPlan:
    """The best powers that DDPG meets on the bound in so many steps; it learns from scratch.

    Those that it tries, with which episodes begin (at random), and which its actor takes at last.
    """
    agent = DdpgAgent(
        learning_starts=max(1, steps // 10),
        actor_rate=1,
        final_rate=1,
        batch_size=128,
        buffer_size=20_000,
        gradient_steps=1,
        exploration_noise_final_std=None,
    )
    training, env = build_allocation_training([Problem(objective, limits)], agent, steps, seed)
    best = env.problem.start
    while training.done < steps:
        training.step()
        best = min(best, env.last, key=lambda tried: tried.value)
    action, _ = training.model.predict(env.problem.observe_outcome(best), deterministic=True)
    tried = env.problem.act(np.asarray(action, float))
    if tried.value < best.value:
        best = tried
    return PowerPlan(best.power_w, best.value, best.switch, steps + 1)

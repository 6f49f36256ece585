r"""Trainings: DDPG by stable-baselines3, and the score-function gradient on recorded rounds.

A training is a function of its seed, its settings and its environment or rounds alone: exploration noise, batches and
first actions come from named streams, the networks' first weights from a separate generator. So an interrupted
training goes on exactly where it was, and two trainings in a process do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
from netsim.checkpoint import from_tree_as, to_tree
from netsim.errors import BadInput
from netsim.rng import Streams
from netsim.units import FloatArray, IntArray
from rl.env import PowerAllocation, PowerEnv, WorldPower
from rl.policy import UNIT_DB, SharedPolicy, features_of, first_weights, message_passing, mixing
from rl.problem import Problem
from rl.reward import DUAL_RATE, FIGURES, Figures, Prices, Reward, first_prices, over, priced
from rl.rules import Known, Tuned, within
from rl.settings import DdpgAgent, ScoreFunctionAgent
from rl.train import Training, Tree, Weights

Array = np.ndarray
_COLUMNS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
_LEARNT = ("actor", "critic")
_FALLS = 0.99  # by how much of itself the learning rate falls over a training
_EVEN = 1e-12  # spread of costs in a round in which all actions cost the same
_DUAL_EVERY = 50  # steps


class Buffer(ReplayBuffer):
    """A buffer whose batches come from a separate generator.

    Where the reward bounds means over rounds it keeps the figures of every transition (n, 6), and pays transitions at
    the prices of the moment in which they are drawn. skips : whether a privacy budget discarded the round of the
    transition that comes, which then is none.
    """

    generator: np.random.Generator
    reward: Reward | None = None
    prices = Prices()
    figures: FloatArray
    skips = False

    def pay(self, reward: Reward) -> None:
        self.reward = reward
        self.figures = np.zeros((self.buffer_size, len(FIGURES)))

    def add(self, obs: Array, next_obs: Array, action: Array, reward: Array, done: Array, infos: list[Tree]) -> None:
        if self.skips and self.filled:
            return
        if self.reward is not None:
            self.figures[self.pos] = [infos[0][name] for name in FIGURES]
        super().add(obs, next_obs, action, reward, done, infos)

    @property
    def filled(self) -> int:
        return self.buffer_size if self.full else self.pos

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        step, env_of = np.divmod(self.generator.integers(0, self.filled * self.n_envs, size=batch_size), self.n_envs)
        over = self.dones[step, env_of] * (1 - self.timeouts[step, env_of])
        rewards = self.rewards[step, env_of]
        if self.reward is not None and len(self.prices.multipliers):
            cost = priced(self.reward, _figures(self.figures[step]), self.prices.multipliers)
            rewards = -cost.astype(np.float32)
        return ReplayBufferSamples(
            self.to_torch(self.observations[step, env_of]),
            self.to_torch(self.actions[step, env_of]),
            self.to_torch(self.next_observations[step, env_of]),
            self.to_torch(over[:, None]),
            self.to_torch(rewards[:, None]),
        )

    def raise_prices(self, steps: int) -> None:
        """A dual step after an episode of this length, in spreads of all figures so far; the first one only says
        where multipliers begin. BadInput: the buffer does not hold the episode.
        """
        if self.reward is None or not steps:
            return
        check_holds(self.buffer_size, steps)
        fresh = first_prices(self.reward, _figures(self.figures[: self.filled]), situations=1)
        if len(self.prices.multipliers):
            episode = self.figures[np.arange(self.pos - steps, self.pos)]
            fresh = replace(fresh, multipliers=self.prices.multipliers)
            fresh = fresh.raised(over(self.reward, _figures(episode)), DUAL_RATE)
        self.prices = fresh


def check_holds(buffer_size: int, steps: int) -> None:
    """Raise BadInput where a buffer does not hold an episode of this length, whose means are bounded."""
    if steps > buffer_size:
        raise BadInput(
            f"train.agent.buffer_size: {buffer_size} transitions do not hold an episode of {steps} rounds, "
            "whose means train.task.reward bounds; give at least as many"
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

    def __init__(self, env: PowerEnv, agent: DdpgAgent, steps: int, seed: int, board: Logger | None = None) -> None:
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
        self.model.action_space.seed(seed)
        self.buffer = cast(Buffer, self.model.replay_buffer)
        self.buffer.generator = Streams(seed).at("ddpg").generator("batch")
        if isinstance(env, WorldPower) and env.task.reward.bounds():
            self.buffer.pay(env.task.reward)
        self.callback = _Steps(self)

    def weights(self) -> Weights:
        return arrays_of(self.model.actor.mu.state_dict())

    def step(self) -> None:
        self.model.learn(1, callback=self.callback, log_interval=self._log_every, reset_num_timesteps=False)  # type: ignore[arg-type]
        self.done = self.model.num_timesteps
        self.rests = self.callback.episode_over and self.done < self.steps
        if self.rests:
            self.buffer.raise_prices(self.callback.steps)
            self.prices = self.buffer.prices

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
            "buffer": {name: getattr(buffer, name)[: buffer.filled].copy() for name in self._columns},
            "pos": buffer.pos,
            "full": buffer.full,
            "prices": to_tree(buffer.prices),
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
        for name in self._columns:
            kept = memory["buffer"][name]
            getattr(buffer, name)[: len(kept)] = kept
        buffer.pos = int(memory["pos"])
        buffer.full = bool(memory["full"])
        self.prices = buffer.prices = from_tree_as(memory["prices"], Prices)
        model._last_obs = self.env.resume(memory["environment"])[None]
        model._last_episode_starts = np.ones((1,), dtype=bool)
        self.noise.done = int(memory["noises"])
        for name, bits in self._generators.items():
            bits.state = memory["generators"][name]
        self.rewards = list(memory["rewards"])

    @property
    def _columns(self) -> tuple[str, ...]:
        return _COLUMNS if self.buffer.reward is None else (*_COLUMNS, "figures")

    @property
    def _generators(self) -> dict[str, np.random.BitGenerator]:
        return {
            "noise": self.noise.generator.bit_generator,
            "batch": self.buffer.generator.bit_generator,
            "first actions": self.model.action_space.np_random.bit_generator,
        }


class _Steps(BaseCallback):
    """Notes the reward of every round that was played. episode : rewards of this one, steps : number of those of the
    last one.
    """

    def __init__(self, training: DdpgTraining) -> None:
        super().__init__()
        self.training = training
        self.episode_over = True
        self.episode = list[float]()

    def _on_step(self) -> bool:
        self.episode_over = bool(self.locals["dones"][0])
        reward = float(self.locals["rewards"][0])
        # it ended before its time: a budget discarded the round
        skips = self.training.buffer.skips = self.episode_over and not self.locals["infos"][0]["TimeLimit.truncated"]
        if not skips:
            self.episode.append(reward)
            if self.training.rewards is not None:
                self.training.rewards.append(reward)
        if self.episode_over:
            self.steps = len(self.episode)
            self.logger.record("episode/reward_mean", float(np.mean(self.episode or 0.0)))
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


def _figures(rows: FloatArray) -> Figures:
    return dict(zip(FIGURES, rows.T, strict=True))


class ScoreFunctionTraining(Training):
    r"""A training by the score-function gradient: many actions in the same situation, and no critic.

    In each of some rounds, actions x + s n and x - s n are judged for mirrored normal n; with costs c, standardised
    within the round, the gradient of the expected cost with respect to the mean x is that of  mean(c n) x / s.  The
    spread s shrinks over the training. Comparing actions within one round removes the differences between rounds, which
    are most of the variance.

    Where the reward bounds means over rounds, costs have the prices of `rl.reward` on them: after every 50th step the
    policy, without exploration, is judged on all rounds, and multipliers take a step.
    [Williams, Simple Statistical Gradient-Following Algorithms, 1992]
    """

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
        self._seen = tuple(torch.from_numpy(x).float() for x in (features_of(look, rule), look.pairs, mixing(look)))
        self._there = torch.from_numpy(look.there)
        self._weights = {name: torch.from_numpy(x).requires_grad_() for name, x in first_weights(seed).items()}
        self._adam = torch.optim.Adam(self._weights.values(), lr=agent.learning_rate)
        self.prices = self._first_prices(Streams(seed).at("score-function").generator("prices"))

    @property
    def evaluations(self) -> int:
        judged = self.done * self._rounds * self.agent.actions
        if not len(self.prices.multipliers):
            return judged
        return judged + self._rounds * self.agent.actions + self.done // _DUAL_EVERY * len(self.known)

    @property
    def _rounds(self) -> int:
        return min(self.agent.situations, len(self.known))

    def weights(self) -> Weights:
        return {name: w.detach().numpy().copy() for name, w in self._weights.items()}

    def figures(self) -> dict[str, float]:
        """Figures for the board: saving of the last actions against the rule, and their spread."""
        return {"rollout/reward_mean": self._saved, "rollout/std_db": UNIT_DB * self._std()}

    def _std(self) -> float:
        first = self.agent.exploration_noise_std
        last = self.agent.exploration_noise_final_std
        return first + (last - first) * self._late

    @property
    def _late(self) -> float:
        return self.done / max(self.steps - 1, 1)

    def step(self) -> None:
        agent = self.agent
        half = self.agent.actions // 2
        n = self._rounds
        std = self._std()
        self._adam.param_groups[0]["lr"] = agent.learning_rate * (1.0 - _FALLS * self._late)
        pick = self.generator.choice(len(self.known), n, replace=False)
        features, pairs, mix = (x[pick] for x in self._seen)
        mean = message_passing(torch, self._weights, features, pairs, mix) * self._there[pick]
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
            self.prices = self.prices.raised(over(reward, found), DUAL_RATE)

    def _first_prices(self, generator: np.random.Generator) -> Prices:
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
        dbw = self._rule_dbw[pick][:, None] + UNIT_DB * action
        return within(dbw.reshape(-1, dbw.shape[2]), self.known.look.limits)

    def memory(self) -> Tree:
        return {
            "done": self.done,
            "generator": self.generator.bit_generator.state,
            "weights": self.weights(),
            "prices": to_tree(self.prices),
            "adam": optimiser_memory(self._adam),
        }

    def resume(self, memory: Tree) -> None:
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

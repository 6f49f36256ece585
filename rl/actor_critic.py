"""DDPG, TD3 and SAC of stable-baselines3 with the shared network, on recorded rounds.

A step judges one power vector in each of some situations and makes gradient steps on transitions of the buffer. A
training is a function of its seed, its settings and the rounds alone, and can be written down after every step.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DDPG, SAC, TD3
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy

from netsim.rng import Streams
from rl.agents import CriticAgent, DdpgAgent, SacAgent, Td3Agent
from rl.env_recorded import RecordedRounds
from rl.off_policy import Buffer, Tree, buffer_of, memory_of, optimiser_memory, resume, resume_optimiser
from rl.rules import Known, Tuned
from rl.shared_networks import GaussianActor, SharedActor, SharedCritic, Situations
from rl.shared_policy import UNIT_DB
from rl.slopes import gradient_cosine
from rl.train import Weights

_ENTROPY_WEIGHT = "auto_0.01"  # of SAC at the beginning: rewards are differences of costs, tenths in size
_SAC_CRITICS = 2
_CHECKED = 24  # rounds in which slopes are compared


class _Td3Policy(TD3Policy):
    """Actor and critics that share their weights over UEs; explores by Gaussian noise around the actor."""

    def __init__(
        self, seen: spaces.Space[Any], acts: spaces.Box, rate: Schedule, *, situations: Situations, seed: int,
        n_critics: int = 2,
    ) -> None:  # fmt: skip
        self.made, self.critics = (situations, seed), n_critics
        self.std, self.generator = 0.0, torch.Generator().manual_seed(seed)
        super().__init__(seen, acts, rate, n_critics=n_critics)
        cast(SharedCritic, self.critic_target).asked = False

    def make_actor(self, features_extractor: Any = None) -> Any:
        return SharedActor(*self.made)

    def make_critic(self, features_extractor: Any = None) -> Any:
        return SharedCritic(*self.made, self.critics)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> torch.Tensor:
        action: torch.Tensor = self.actor(observation)
        if not deterministic:
            action = action + self.std * torch.randn(action.shape, generator=self.generator)
        return action.clamp(-1.0, 1.0)


class _SacPolicy(SACPolicy):
    """The same with a Gaussian actor, which explores by itself."""

    def __init__(
        self, seen: spaces.Space[Any], acts: spaces.Box, rate: Schedule, *, situations: Situations, seed: int,
        std: float, use_sde: bool = False,
    ) -> None:  # fmt: skip
        self.made, self.first_std = (situations, seed), std
        self.generator = torch.Generator().manual_seed(seed)
        super().__init__(seen, acts, rate)
        cast(SharedCritic, self.critic_target).asked = False

    def make_actor(self, features_extractor: Any = None) -> Any:
        return GaussianActor(*self.made, self.first_std, self.generator)

    def make_critic(self, features_extractor: Any = None) -> Any:
        return SharedCritic(*self.made, _SAC_CRITICS)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> torch.Tensor:
        action: torch.Tensor = self.actor(observation, deterministic)
        return action.clamp(-1.0, 1.0)


class ActorCriticTraining:
    """A training that has begun."""

    rewards: list[float] | None = None
    rests = True
    multipliers: tuple[float, ...] = ()

    def __init__(
        self, known: Known, rule: Tuned, agent: CriticAgent, steps: int, seed: int, told: Logger | None = None
    ) -> None:
        """told : gets the losses of each step."""
        self.known, self.rule, self.agent, self.steps, self.done = known, rule, agent, steps, 0
        streams = Streams(seed).at(f"shared.{agent.kind}")
        self.env = RecordedRounds(known, rule, agent.situations, streams)
        situations = Situations.of(known.look, rule)
        with torch.random.fork_rng(devices=[]):
            self.model: Any = _model(agent, self.env, situations, seed)
        self.model.set_logger(Logger(None, []) if told is None else told)
        buffer_of(self.model, streams)

    @property
    def evaluations(self) -> int:
        """Power vectors that were judged so far."""
        return self.done * self.agent.situations

    def weights(self) -> Weights:
        """The policy now, without exploration."""
        actor: SharedActor = self.model.policy.actor
        return actor.weights()

    def figures(self) -> dict[str, float]:
        """How it stands: the last rewards, the spread of actions around them, and how right the critic's slopes are."""
        seen = torch.arange(0, len(self.known), max(len(self.known) // _CHECKED, 1), dtype=torch.float32)[:, None]
        policy = self.model.policy
        with torch.no_grad():
            actions = policy._predict(seen, deterministic=True)
        actions.requires_grad_()
        (slope,) = torch.autograd.grad(self.model.critic.q1_forward(seen, actions).sum(), actions)
        at = seen[:, 0].long().numpy()
        cosine = gradient_cosine(slope.numpy(), self.env.rewards, actions.detach().numpy().astype(np.float64), at)
        return {
            "rollout/reward_mean": self.env.last_mean,
            "rollout/std_db": UNIT_DB * self._std(),
            "critic/gradient_cosine": cosine,
        }

    def step(self) -> None:
        """One step in every environment, and gradient steps once learning has started."""
        model = self.model
        if not isinstance(self.agent, SacAgent):
            model.policy.std = self._std()
        model.policy.actor.requires_grad_(self.done >= self.agent.learning_starts)  # before, the critic learns alone
        model.learn(self.env.num_envs, log_interval=None, reset_num_timesteps=False)
        self.done += 1

    def memory(self) -> Tree:
        """Everything that the rest of the training depends on."""
        generator: torch.Generator = self.model.policy.generator
        tree = {
            "done": self.done,
            "model": memory_of(self.model, self._networks),
            "environment": self.env.memory(),
            "explores": generator.get_state().numpy().copy(),
        }
        if isinstance(self.agent, SacAgent):
            entropy = {"weight": self.model.log_ent_coef.detach().numpy().copy()}
            return {**tree, "entropy": {**entropy, "adam": optimiser_memory(self.model.ent_coef_optimizer)}}
        return tree

    def resume(self, memory: Tree) -> None:
        """Go on from a memory."""
        self.done = int(memory["done"])
        resume(self.model, self._networks, memory["model"])
        self.model._last_obs = self.env.resume(memory["environment"])
        generator: torch.Generator = self.model.policy.generator
        generator.set_state(torch.from_numpy(np.array(memory["explores"], dtype=np.uint8)))
        if isinstance(self.agent, SacAgent):
            with torch.no_grad():
                self.model.log_ent_coef.copy_(torch.from_numpy(np.array(memory["entropy"]["weight"])))
            resume_optimiser(self.model.ent_coef_optimizer, memory["entropy"]["adam"])

    @property
    def _networks(self) -> tuple[str, ...]:
        targets = ("critic_target",) if isinstance(self.agent, SacAgent) else ("actor_target", "critic_target")
        return ("actor", "critic", *targets)

    def _std(self) -> float:
        """Of exploration in this step: from its first value to its last in a straight line; of SAC, what it learnt."""
        agent = self.agent
        if not isinstance(agent, DdpgAgent | Td3Agent):
            return float(self.model.actor.mean_std())
        first, final = agent.exploration_noise_std, agent.exploration_noise_final_std
        last = first if final is None else final
        return first + (last - first) * self.done / max(self.steps - 1, 1)


def _model(agent: CriticAgent, env: RecordedRounds, situations: Situations, seed: int) -> Any:
    """The library's agent. Episodes are one step long, so nothing is discounted, and targets are rewards."""
    common: dict[str, Any] = {
        "env": env, "learning_rate": agent.learning_rate, "buffer_size": agent.buffer_size, "learning_starts": 0,
        "batch_size": agent.batch_size, "gamma": 0.0, "train_freq": 1, "gradient_steps": agent.gradient_steps,
        "replay_buffer_class": Buffer, "device": "cpu",
    }  # fmt: skip
    made = {"situations": situations, "seed": seed}
    if isinstance(agent, DdpgAgent):
        model = DDPG(_Td3Policy, policy_kwargs=made, **common)
        model.target_policy_noise = 0.0
        return model
    if isinstance(agent, Td3Agent):
        return TD3(
            _Td3Policy, policy_kwargs=made, policy_delay=agent.policy_delay, target_policy_noise=0.0, **common
        )  # fmt: skip
    if isinstance(agent, SacAgent):
        entropy_of_ue = 0.5 * np.log(2 * np.pi * np.e * agent.target_std**2)
        return SAC(
            _SacPolicy, policy_kwargs={**made, "std": agent.exploration_noise_std}, ent_coef=_ENTROPY_WEIGHT,
            target_entropy=float(entropy_of_ue * situations.there.sum(1).mean()), **common,
        )  # fmt: skip
    raise TypeError(f"{agent.kind} has no actor and critic on recorded rounds")

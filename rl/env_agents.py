"""The live world as a PettingZoo parallel environment: one agent a UE, one federated round a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike
from pettingzoo import ParallelEnv

from rl.env import Info, OnlinePower
from rl.policy import OF_ONE_UE, seen_of_ues
from rl.problem import Seen

Pay = Literal["shared", "own"]
Infos = dict[str, Info]


class PowerAgents(ParallelEnv):  # type: ignore[misc] # the library has no types
    """Power in every round of a federated training that goes on while UEs move, each UE an agent.

    Description
        The world, its rounds and its costs are those of `OnlinePower`, which this environment steps.

    Agents
        `ue_0`, `ue_1`, ... from reset to the end of the episode. A UE that is away stays an agent: its observation
        begins with 0, `info["away"]` is true, and its action, which may be left out, is ignored.

    Action space
        Box(-1, 1, (1,)) of each agent: log-power between the least and the most of a UE. Powers of those that send are
        projected onto the limits of the total.

    Observation space
        Box(-1, 1, (7,)) of each agent: see `rl.policy.seen_of_ues`. `state()` is the observation of `OnlinePower`.

    Rewards
        reward `shared` : minus the costs of the round, the same for all agents. `own` : minus what it cost because of
        this UE, see `rl.radio_records`. The own costs do not add up to the shared ones. Where a privacy budget ends the
        episode, rounds that it leaves unplayed cost a UE as much as the last one.

    Starting state
        A world of a seed that the environment draws; `options={"world": seed}` asks for one. Options of other names are
        ignored, as PettingZoo's tests ask for.

    Episode end
        Of all agents at once, as in `OnlinePower`. A step before a reset or after the end is refused.
    """

    metadata = {"name": "netsim_power_agents_v0", "render_modes": [], "is_parallelizable": True}

    def __init__(self, env: OnlinePower, reward: Pay = "shared") -> None:
        if reward not in ("shared", "own"):
            raise ValueError(f"reward: {reward!r} is not known; take 'shared' or 'own'")
        self.env = env
        self.reward = reward
        self.render_mode = None
        self.possible_agents = [f"ue_{k}" for k in range(env.n_ue)]
        self.agents: list[str] = []
        seen, acts = (spaces.Box(-1.0, 1.0, (n,), np.float32) for n in (OF_ONE_UE, 1))
        self.observation_spaces = dict.fromkeys(self.possible_agents, seen)
        self.action_spaces = dict.fromkeys(self.possible_agents, acts)
        self.state_space = env.observation_space

    def observation_space(self, agent: str) -> spaces.Box:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Box:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Info | None = None) -> tuple[dict[str, Seen], Infos]:
        known = {k: v for k, v in options.items() if k == "world"} if isinstance(options, Mapping) else options
        self._seen, info = self.env.reset(seed=seed, options=known)
        self.agents = list(self.possible_agents)
        return self._observations(), self._infos(info)

    def step(
        self, actions: Mapping[str, ArrayLike]
    ) -> tuple[dict[str, Seen], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        self._seen, shared, terminated, truncated, info = self.env.step(self._joint(actions))
        own = -self.env.cost.own * max(self.env.unplayed, 1)
        rewards = np.full(self.env.n_ue, shared) if self.reward == "shared" else own
        who = self.possible_agents
        if terminated or truncated:
            self.agents = []
        return (
            self._observations(),
            dict(zip(who, rewards.tolist(), strict=True)),
            dict.fromkeys(who, terminated),
            dict.fromkeys(who, truncated),
            self._infos(info),
        )

    def state(self) -> Seen:
        """The observation of all UEs, for a critic that sees everything."""
        return self._seen.copy()

    def _joint(self, actions: Mapping[str, ArrayLike]) -> Seen:
        """The actions of all UEs (K,), 0 for those that are away; ValueError where one is no number."""
        there = np.flatnonzero(~self._away & (not self.env.over)).tolist()
        joint = np.zeros(self.env.n_ue, dtype=np.float32)
        try:
            for k in there:
                (joint[k],) = np.asarray(actions[self.possible_agents[k]], dtype=float)
        except (KeyError, TypeError, ValueError, IndexError):
            raise ValueError(f"action: none for {self.possible_agents[k]}; give one number from -1 to 1") from None
        return joint

    @property
    def _away(self) -> np.ndarray:
        return self.env.now.snr_per_w <= 0

    def _observations(self) -> dict[str, Seen]:
        return dict(zip(self.possible_agents, seen_of_ues(self._seen), strict=True))

    def _infos(self, info: Info) -> Infos:
        each = zip(self.possible_agents, self._away.tolist(), info["power_w"].tolist(), strict=True)
        return {agent: {**info, "away": away, "power_w": own_w} for agent, away, own_w in each}

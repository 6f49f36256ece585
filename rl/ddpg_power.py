"""Powers that an agent has learnt to set, as one more policy of the slot."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.part import FILE_NAME
from netsim.radio.power import Power, Situation, State
from netsim.rng import Rng
from netsim.safe import what_is
from netsim.units import FloatArray, IntArray

if TYPE_CHECKING:
    from fl.power.search import Limits
    from rl.policy import Policy


class Decided(Power):
    """Powers that were settled when the situation was told: `power_w` (K,) of the state, for the UEs in `sends`."""

    wants_situation: ClassVar[bool] = True

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: State, rng: Rng
    ) -> tuple[FloatArray, State]:
        return np.minimum(state["power_w"][state["sends"]], max_power_w), state


class Ddpg(Decided):
    """What `netsim train` learnt. One for a whole training stays as long as channels do; one that acts online looks at
    the links, at what noise is required, and at the budget in every round.

    Powers keep the limits of the training for the UEs that send. Those of a policy for a whole training are what it
    settles on after an episode on its reference run, over today's channels if it observes them.
    """

    kind: Literal["ddpg"] = "ddpg"
    policy: Annotated[Path, FILE_NAME] = Field()
    """folder that `netsim train` wrote"""

    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Sec. IV"
    example: ClassVar[dict[str, Any]] = {"kind": "ddpg", "policy": "runs/power"}

    def check(self, n_ue: int) -> None:
        ues = self.learnt().card.ues
        if ues != n_ue:
            raise ValueError(
                f"power.policy: it sets the power of {ues} UEs, the world has {n_ue}; train one for {n_ue}"
            )

    def learnt(self) -> Policy:
        """The policy of the folder; BadInput where there is none."""
        files = tuple(self.policy / name for name in ("policy.json", "policy.safetensors"))
        stamps = tuple(f.stat().st_mtime_ns if what_is(f) == "file" else 0 for f in files)
        return _read(self.policy, stamps)

    def told(self, situation: Situation, state: State) -> State:
        policy = self.learnt()
        limits = policy.card.limits
        if policy.card.task == "online":
            from rl.observation import seen_online
            from rl.problem import log_power

            last = state.get("power_w", start_w(limits, policy.card.ues))
            wanted = log_power(policy.act(seen_online(situation, last, limits)), limits)
        else:
            wanted = _settled(policy, situation.snr_per_w)
        return {"power_w": kept(wanted, situation.sends, limits), "sends": situation.sends}


def kept(wanted_w: FloatArray, sends: IntArray, limits: Limits) -> FloatArray:
    """Powers (K,) of all UEs, those that send projected onto the limits of their number."""
    from rl.kernel import project

    found = wanted_w.copy()
    if len(sends):
        found[sends] = project(
            wanted_w[sends], limits.each_min_w, limits.each_max_w, limits.total_min_w, limits.total_max_w
        )
    return found


def start_w(limits: Limits, k: int) -> FloatArray:
    """The powers (K,) that count as the last ones before the first round: the middle of the total, shared alike."""
    return np.full(k, (limits.total_min_w + limits.total_max_w) / 2 / k)


def _settled(policy: Policy, snr_per_w: FloatArray) -> FloatArray:
    """The powers (K,) after an episode of the policy without exploration."""
    problem = policy.problem()
    if policy.card.observe == "channel":
        known = problem.objective.trajectory.gain.mean(axis=0)
        problem = problem.with_gain(np.where(snr_per_w > 0, snr_per_w, known))
    return problem.rollout(policy.act)[-1].power_w


@lru_cache(maxsize=8)
def _read(folder: Path, stamps: tuple[int, ...]) -> Policy:
    """A policy, read once as long as its files stay the same."""
    from rl.policy import load_policy

    return load_policy(folder)

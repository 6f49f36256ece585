"""Powers that an agent has learnt to set, as one more policy of the slot."""

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.columns import no_ints
from netsim.errors import BadInput
from netsim.part import FILE_NAME
from netsim.radio.power import Power, PowerContext
from netsim.rng import Rng
from netsim.safe import what_is
from netsim.units import FloatArray, IntArray
from rl.policy_files import CARD, WEIGHTS

if TYPE_CHECKING:
    from fl.power.search import Limits
    from rl.policy import Policy
    from rl.problem import Problem


@dataclass(frozen=True, eq=False)
class Decision:
    """Powers of the last round: power_w (K,) of all UEs, None before the first; sends (n,): those that send.

    wanted_w (K,): what somebody outside asks for in the next round, None where the policy decides itself.
    """

    power_w: FloatArray | None = None
    sends: IntArray = field(default_factory=no_ints)
    wanted_w: FloatArray | None = None


class Decided(Power):
    """Powers that are settled once the context of a round is known, for the UEs that send."""

    wants_context: ClassVar[bool] = True

    def start(self, n_ue: int) -> Decision:
        return Decision()

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: Decision, rng: Rng
    ) -> tuple[FloatArray, Decision]:
        if state.power_w is None:
            raise ValueError(f"{self.kind_name()}: powers are set before the context of the round is known")
        return np.minimum(state.power_w[state.sends], max_power_w), state


class FromFolder(Decided):
    """A policy that `netsim train` wrote into a folder."""

    needs_channel_noise: ClassVar[bool] = True

    policy: Annotated[Path, FILE_NAME] = Field()
    """folder that `netsim train` wrote"""

    def check_files(self) -> None:
        try:
            self.learnt()
        except BadInput as error:
            raise ValueError(f"power.policy: {error}") from None

    @abstractmethod
    def learnt(self) -> Any:
        """The policy of the folder; BadInput where there is none."""

    def stamps(self) -> tuple[int, ...]:
        """When its files were written, 0 for those that are none: a policy is read once as long as they stay."""
        files = (self.policy / name for name in (CARD, WEIGHTS))
        return tuple(f.stat().st_mtime_ns if what_is(f) == "file" else 0 for f in files)


class Ddpg(FromFolder):
    """What `netsim train` learnt. One for a whole training stays as long as channels do; one that acts online looks at
    the links, at what noise is required, and at the budget in every round.

    Powers keep the limits of the training for the UEs that send. Those of a policy for a whole training are what it
    settles on after an episode on its reference run, over today's channels if it observes them. T_th at these powers is
    the round that a `noise-switch` of mode planned takes, if it has none of its own.
    """

    kind: Literal["ddpg"] = "ddpg"

    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Sec. IV"
    example: ClassVar = {"kind": "ddpg", "policy": "runs/power"}

    def check(self, n_ue: int) -> None:
        ues = self.learnt().card.ues
        if ues != n_ue:
            raise ValueError(
                f"power.policy: it sets the power of {ues} UEs, the world has {n_ue}; train one for {n_ue}"
            )

    def learnt(self) -> "Policy":
        """The policy of the folder; BadInput where there is none."""
        return _read(self.policy, self.stamps())

    def update_context(self, context: PowerContext, state: Decision) -> Decision:
        policy = self.learnt()
        limits = policy.card.limits
        if policy.card.task == "online":
            from rl.observation import seen_online
            from rl.problem import log_power

            last_w = start_w(limits, policy.card.ues) if state.power_w is None else state.power_w
            wanted_w = log_power(policy.act(seen_online(context, last_w, limits)), limits)
        else:
            _, wanted_w = settled(policy, context.snr_per_w)
        return Decision(kept(wanted_w, context.sends, limits), context.sends)


def kept(wanted_w: FloatArray, sends: IntArray, limits: "Limits") -> FloatArray:
    """Powers (K,) of all UEs, those that send projected onto the limits of their number."""
    from rl.kernel import project

    power_w = wanted_w.copy()
    if len(sends):
        power_w[sends] = project(
            wanted_w[sends], limits.each_min_w, limits.each_max_w, limits.total_min_w, limits.total_max_w
        )
    return power_w


def start_w(limits: "Limits", k: int) -> FloatArray:
    """The powers (K,) that count as the last ones before the first round: the middle of the total, shared alike."""
    return np.full(k, (limits.total_min_w + limits.total_max_w) / 2 / k)


def settled(policy: "Policy", snr_per_w: FloatArray) -> "tuple[Problem, FloatArray]":
    """The problem of a policy for a whole training, and the powers (K,) after an episode of it without exploration.

    snr_per_w (K,): SNR at 1 W today, for a policy that observes channels; 0 where it is that of the reference run.
    """
    problem = policy.problem()
    if policy.card.observe == "channel":
        known = problem.objective.trajectory.gain.mean(axis=0)
        problem = problem.with_gain(np.where(snr_per_w > 0, snr_per_w, known))
    return problem, problem.rollout(policy.act)[-1].power_w


@lru_cache(maxsize=8)
def _read(folder: Path, stamps: tuple[int, ...]) -> "Policy":
    """A policy, read once as long as its files stay the same."""
    from rl.policy import load_policy

    return load_policy(folder)

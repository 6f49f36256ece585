"""Powers by a rule or by a learned policy, as more policies of the slot."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.power.search import Limits
from netsim.columns import frozen, no_ints
from netsim.errors import BadInput
from netsim.part import FILE_NAME
from netsim.radio.power import Power, PowerContext
from netsim.rng import Rng
from netsim.safe import read_file_version
from netsim.units import FloatArray, IntArray, Ints, Texts
from rl.settings import Finite

if TYPE_CHECKING:
    from rl.look import Look
    from rl.policy import Policy, SharedCard, SharedPolicy
    from rl.problem import Problem

RuleName = Literal[
    "constant",
    "fractional",
    "equal SNR",
    "inverse amplitude",
    "required SNR",
    "capped inversion",
    "rank ladder",
    "log-linear",
]
PARAMETERS: dict[RuleName, Texts] = {
    "constant": ("p, dBW",),
    "fractional": ("p, dBW", "alpha"),
    "equal SNR": ("p, dB",),
    "inverse amplitude": ("p, dBW",),
    "required SNR": ("p, dB",),
    "capped inversion": ("p, dB", "c, dBW"),
    "rank ladder": ("p, dB", "d, dB a rank"),
    "log-linear": ("p, dBW", "a", "b", "c", "d", "f, dB a rank"),
}
"""names of the parameters of a rule in `rl.rules`, with units; factors have none"""


@frozen
class Decision:
    """Powers of the last round: power_w (K,) of all UEs, None before the first; sends (n,): those
    that send.

    wanted_w (K,): powers that an agent requests for the next round, None where the policy decides
    itself.
    """

    power_w: FloatArray | None = None
    sends: IntArray = field(default_factory=no_ints)
    wanted_w: FloatArray | None = None


class Decided(Power):
    """Powers that are settled once the context of a round is known, for the UEs that send."""

    wants_context = True

    def start(self, n_ue: int) -> Decision:
        return Decision()

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: Decision, rng: Rng
    ) -> tuple[FloatArray, Decision]:
        if state.power_w is None:
            raise ValueError(
                f"{self.kind_name()}: powers are set before the context of the round is known"
            )
        return np.minimum(state.power_w[state.sends], max_power_w), state


class FromFolder(Decided):
    """A policy that `netsim train` wrote into a folder."""

    needs_channel_noise = True

    policy: Annotated[Path, FILE_NAME] = Field()
    """folder that `netsim train` wrote"""

    def check_files(self) -> None:
        try:
            self.read_policy()
        except BadInput as error:
            raise ValueError(f"power.policy: {error}") from None

    @abstractmethod
    def read_policy(self) -> Any:
        """The policy of the folder; BadInput where there is none."""


class Ddpg(FromFolder, kind="ddpg"):
    """A policy of `netsim train` for a whole training, constant while channels are.

    Powers keep the limits of the training for the UEs that send. They are the last of an episode on
    its reference run, over today's channels if it observes them; T_th there is the round that a
    `noise-switch` of mode planned takes, if none is set.
    """

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Sec. IV"
    example = {"kind": "ddpg", "policy": "runs/power"}

    def check(self, n_ue: int) -> None:
        ues = self.read_policy().card.ues
        if ues != n_ue:
            raise ValueError(
                f"power.policy: it sets the power of {ues} UEs, the world has {n_ue}; "
                f"train one for {n_ue}"
            )

    def read_policy(self) -> "Policy":
        from rl.policy import load_policy

        return _read_cached(load_policy, self.policy, read_file_version(self.policy))

    def update_context(self, context: PowerContext, state: Decision) -> Decision:
        policy = self.read_policy()
        _, wanted_w = settle_powers(policy, context.snr_per_w)
        return Decision(limit_sent_w(wanted_w, context.sends, policy.card.limits), context.sends)


class Shared(FromFolder, kind="shared"):
    """A policy that `netsim train` learned on recorded rounds: one network for every UE, for any
    number of them.

    In every round it looks at the links of all UEs, also to the eavesdropper if there is one, and
    at the noise that was required last. Powers keep the limits of the training for the UEs that
    send.
    """

    reference = "Lillicrap et al., Continuous control with deep reinforcement learning, 2015"
    example = {"kind": "shared", "policy": "runs/power"}

    def check(self, n_ue: int) -> None:
        try:
            self.read_policy()[1].limits.check(n_ue)
        except ValueError as error:
            raise ValueError(f"power.policy: {error}") from None

    def read_policy(self) -> "tuple[SharedPolicy, SharedCard]":
        from rl.policy import load_shared

        return _read_cached(load_shared, self.policy, read_file_version(self.policy))

    def update_context(self, context: PowerContext, state: Decision) -> Decision:
        policy, card = self.read_policy()
        return _decide(policy.power_w, context, card.limits)


class Rule(Decided, kind="rule"):
    """A rule that `netsim train` tunes, with given parameters: powers of all UEs from their links
    and the noise that their budgets required last, in every round.

    Parameters in order, with the SNR s at 1 W, the SNR r that was required last, the strongest
    other station o and the eavesdropper e, all in dB; powers in dBW: constant p; fractional p,
    alpha: p - alpha s; equal SNR p: p - s, so that p is the received SNR; inverse amplitude p: p -
    s / 2; required SNR p: p + r - s; capped inversion p, c: min(p - s, c); rank ladder p, d: p - s
    - d rank; log-linear p, a, b, c, d, f: p + a s + b r + c o + d e + f rank.
    """

    needs_channel_noise = True

    rule: RuleName
    """which one"""
    parameters: tuple[Finite, ...] = Field(min_length=1, max_length=6)
    """its parameters, in the order in which they stand in the table of rules: p first"""
    limits: Limits = Limits(each_min_w=1e-9)
    """limits of powers"""

    reference = "3GPP TS 38.213, Section 7.1.1 (fractional); baselines"
    example = {"kind": "rule", "rule": "equal SNR", "parameters": [10.0]}

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        names = PARAMETERS[self.rule]
        if len(self.parameters) != len(names):
            raise ValueError(
                f"parameters: rule {self.rule!r} has {len(names)}, in this order: "
                f"{'; '.join(names)}; got {len(self.parameters)}"
            )
        return self

    def check(self, n_ue: int) -> None:
        try:
            self.limits.check(n_ue)
        except ValueError as error:
            raise ValueError(f"power.limits: {error}") from None

    def update_context(self, context: PowerContext, state: Decision) -> Decision:
        from rl.rules import build_rule

        return _decide(build_rule(self.rule, self.parameters).power_w, context, self.limits)


def limit_sent_w(wanted_w: FloatArray, sends: IntArray, limits: Limits) -> FloatArray:
    """Powers (K,) of all UEs, those that send within the limits of their number."""
    from rl.problem import find_nearest_w

    power_w = wanted_w.copy()
    if len(sends):
        power_w[sends] = find_nearest_w(wanted_w[sends], limits)
    return power_w


def compute_start_w(limits: Limits, k: int) -> FloatArray:
    """The powers (K,) that count as the last ones before the first round: the middle of the total,
    shared alike.
    """
    return np.full(k, (limits.total_min_w + limits.compute_max_total_w(k)) / 2 / k)


def settle_powers(policy: "Policy", snr_per_w: FloatArray) -> "tuple[Problem, FloatArray]":
    """The problem of a policy for a whole training, and the powers (K,) after an episode of it
    without exploration.

    snr_per_w (K,): SNR at 1 W today, for a policy that observes channels; 0 where it is that of the
    reference run.
    """
    problem = policy.problem()
    if policy.card.observe == "channel":
        mean_gain = problem.objective.trajectory.gain.mean(axis=0)
        problem = problem.with_gain(np.where(snr_per_w > 0, snr_per_w, mean_gain))
    return problem, problem.play_episode(policy.act)[-1].power_w


def _decide(
    power_w: "Callable[[Look], FloatArray]", context: PowerContext, limits: Limits
) -> Decision:
    from rl.look import Look

    return Decision(
        limit_sent_w(power_w(Look.from_context(context, limits))[0], context.sends, limits),
        context.sends,
    )


@lru_cache(maxsize=16)
def _read_cached(load: Callable[[Path], Any], folder: Path, stamps: Ints) -> Any:
    """A policy, read once as long as its files stay the same."""
    return load(folder)

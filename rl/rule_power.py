"""Rules of power control with given parameters, as one more policy of the slot."""

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.power.search import Limits
from netsim.radio.power import PowerContext
from rl.ddpg_power import Decided, Decision, kept
from rl.rule_names import PARAMETERS, RuleName

Finite = Annotated[float, Field(allow_inf_nan=False)]


class Rule(Decided):
    """A rule that `netsim train` tunes, with parameters of one's own: powers of all UEs from their links and what their
    budgets asked for last, in every round.

    Parameters in order, with the SNR s at 1 W, the SNR r that was required last, the strongest other station o and the
    eavesdropper e, all in dB; powers in dBW: constant p; fractional p, alpha: p - alpha s; equal SNR p: p - s, so that
    p is the received SNR; inverse amplitude p: p - s / 2; required SNR p: p + r - s; capped inversion p, c:
    min(p - s, c); rank ladder p, d: p - s - d rank; log-linear p, a, b, c, d, f: p + a s + b r + c o + d e + f rank.
    """

    needs_channel_noise: ClassVar[bool] = True

    kind: Literal["rule"] = "rule"
    rule: RuleName
    """which one"""
    parameters: tuple[Finite, ...] = Field(min_length=1, max_length=6)
    """its parameters, in the order in which they stand in the table of rules: p first"""
    limits: Limits = Limits(each_min_w=1e-9, total_min_w=0.0, total_max_w=1e6)
    """limits of powers"""

    reference: ClassVar = "3GPP TS 38.213, Section 7.1.1 (fractional); baselines"
    example: ClassVar = {"kind": "rule", "rule": "equal SNR", "parameters": [10.0]}

    @model_validator(mode="after")
    def _as_many_as_it_has(self) -> Self:
        wanted = PARAMETERS[self.rule]
        if len(self.parameters) != len(wanted):
            raise ValueError(
                f"parameters: rule {self.rule!r} has {len(wanted)}, in this order: {'; '.join(wanted)}; got "
                f"{len(self.parameters)}"
            )
        return self

    def check(self, n_ue: int) -> None:
        try:
            self.limits.check(n_ue)
        except ValueError as error:
            raise ValueError(f"power.limits: {error}") from None

    def update_context(self, context: PowerContext, state: Decision) -> Decision:
        from rl.look import Look
        from rl.rules import LAWS, Tuned

        law = next(law for law in LAWS if law.name == self.rule)
        tuned = Tuned(law, np.array(self.parameters), float("nan"), 0)
        power_w = np.asarray(tuned.power_w(Look.of(context, self.limits))[0])
        return Decision(kept(power_w, context.sends, self.limits), context.sends)

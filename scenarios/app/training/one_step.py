"""The optimiser that plans one round ahead, as a policy of the live environment."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.units import FloatArray

if TYPE_CHECKING:
    from rl.env_online import OnlinePower
    from rl.radio_loops import Air
    from rl.rules import Tuned


@dataclass(eq=False)
class OneStep:
    """Plans every round from the powers of a rule. It counts rounds, judged power vectors, and seconds of wall time."""

    air: Air
    rule: Tuned
    multipliers: FloatArray
    rounds: int = 0
    judged: int = 0
    spent_s: float = 0.0

    def __call__(self, env: OnlinePower, seen: Any) -> FloatArray:
        """The action of a round."""
        from rl.one_step import planned_w
        from rl.problem import as_action
        from rl.radio_records import lost_noise
        from rl.recording import look_now

        began, look, k = time.perf_counter(), look_now(env), env.n_ue
        contraction = env.task.bound.factor(np.full((1, k), 1.0 / k))
        power_w, judged = planned_w(
            look,
            contraction ** (env.rounds - env.state.played - 1),
            lost_noise(env.setup.uplink, env.setup.learning.round_s, look.n_bits),
            self.air,
            env.task.reward,
            self.multipliers,
            self.rule.dbw(look),
        )
        self.rounds, self.judged = self.rounds + 1, self.judged + judged
        self.spent_s += time.perf_counter() - began
        return as_action(power_w[0], env.task.limits)

"""ARB: a budget that adapts to the changes of the model, the same for all UEs."""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from fl.defenses.budgeted import Budgeted, BudgetState, merged
from fl.types import Received, RoundContext
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import FloatArray

_FIRST, _STEP, _SLACK, _LEAST, _MOST = 0.6, 1.01, 1.05, 0.5, 2.0


@frozen
class Changes:
    """epsilon: of a device in the last round; last: the update of the last round, units of the clip norm; moved: the
    last two distances from one update to the next.
    """

    epsilon: float | None = None
    last: FloatArray | None = None
    moved: tuple[float, ...] = ()


class Arb(Budgeted):
    """Starts at 0.6 of the uniform budget and grows by 1 % after a round in which the change of the model did not grow.

    With u = epsilon_system_total / (T K), and d[t] the distance between the updates of rounds t and t - 1::

        epsilon <- 1.01 epsilon if d[t] <= 1.05 d[t-1], else epsilon / 1.01;    cut to [u / 2, 2 u]

    and at most twice the remaining budget per device and round, and at most the remaining budget per device. The source
    names this benchmark ("adaptive Rayleigh budgets") without a definition; this is a reconstruction.
    """

    kind: Literal["arb"] = "arb"
    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, benchmarks"
    example: ClassVar = {"kind": "arb", "epsilon_system_total": 60.0, "rounds": 20}

    def first_share(self) -> float:
        return _FIRST

    def start_rule(self, n_ue: int) -> Changes:
        return Changes()

    def share(
        self, state: BudgetState, total: float, left: float, rounds_left: int, rng: Rng
    ) -> tuple[FloatArray, Changes]:
        n = state.n_ue
        rule: Changes = state.rule
        usual = total / (self.rounds * n)
        epsilon = _FIRST * usual if rule.epsilon is None else rule.epsilon
        moved = rule.moved
        if len(moved) >= 2:
            epsilon *= _STEP if moved[-1] <= _SLACK * moved[-2] else 1 / _STEP
        epsilon = min(max(epsilon, _LEAST * usual), _MOST * usual)
        allowed = min(epsilon, 2 * left / (n * rounds_left), left / n)
        return np.full(n, allowed), replace(rule, epsilon=epsilon)

    def remember(self, received: Received, weights: FloatArray, facts: RoundContext, state: BudgetState) -> Changes:
        now = merged(received, weights, facts.public.n_model, state.scale)
        rule: Changes = state.rule
        moved = rule.moved
        if rule.last is not None:
            moved = (*moved, float(np.linalg.norm(now - rule.last)))[-2:]
        return replace(rule, last=now, moved=moved)

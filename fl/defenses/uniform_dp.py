"""The same budget for every device in every round."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from fl.defenses.budgeted import Budgeted, BudgetState
from fl.types import State
from netsim.rng import Rng
from netsim.units import FloatArray


class UniformDp(Budgeted):
    """epsilon_k[t] = epsilon_system_total / (T K): the benchmark that adapts nothing.

    `sensitivity` says how far a neighbour moves an update of norm N at most, learnt from n samples::

        update            2 N: whatever the device learnt from (the only true one for several local steps)
        record-one-step   2 lambda C / n of one full-batch step on gradients clipped by sample
        mean-clip         2 N / n: as if the clip of the mean bounded each sample; no guarantee
        paper             2 lambda N / n: as printed; no guarantee

    For the last two the ledger has two accounts: the true one, and the source's own claim (unit `record-as-printed`).
    """

    kind: Literal["uniform-dp"] = "uniform-dp"
    adaptive: ClassVar[bool] = False
    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, benchmarks"
    example: ClassVar[dict[str, Any]] = {"kind": "uniform-dp", "epsilon_system_total": 60.0, "rounds": 20}

    def share(
        self, state: BudgetState, total: float, left: float, rounds_left: int, rng: Rng
    ) -> tuple[FloatArray, State]:
        return np.full(state.n_ue, total / (self.rounds * state.n_ue)), state.rule

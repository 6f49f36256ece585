"""Uniform budget: the same epsilon for every UE in every round."""

from typing import ClassVar, Literal

import numpy as np

from fl.defenses.budgeted import Budgeted, BudgetState
from fl.types import State
from netsim.rng import Rng
from netsim.units import FloatArray


class UniformDp(Budgeted):
    """epsilon_k[t] = epsilon_system_total / (T K): the baseline without adaptation.

    `sensitivity` is the largest change of an update of norm N, trained on n samples, by a neighbour::

        update            2 N: for any data of the UE (the only valid one for several local steps)
        record-one-step   2 lambda C / n of one full-batch step on gradients clipped by sample
        mean-clip         2 N / n: assumes that the clip of the mean bounds each sample; no guarantee
        paper             2 lambda N / n: as printed; no guarantee

    For the last two the ledger has two accounts: the true one, and the source's own claim (unit `record-as-printed`).
    """

    kind: Literal["uniform-dp"] = "uniform-dp"
    adaptive: ClassVar = False
    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, benchmarks"
    example: ClassVar = {"kind": "uniform-dp", "epsilon_system_total": 60.0, "rounds": 20}

    def share(
        self, state: BudgetState, total: float, left: float, rounds_left: int, rng: Rng
    ) -> tuple[FloatArray, State]:
        return np.full(state.n_ue, total / (self.rounds * state.n_ue)), state.rule

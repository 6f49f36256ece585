"""The attack slot: exactly the view that the threat grants goes in, estimates come out.

The truth never enters here; it meets the estimates in `fl.metrics`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fl.learners.base import Learner
from fl.types import Estimates, Facts, Model, State
from netsim.part import Named
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

Vantage = Literal["rows", "sum", "model"]


@dataclass(frozen=True)
class View:
    """What an attacker sees of one phase of a round.

    update (n_source, d) : what it could attribute: one row a device (`rows`), the sum a model (`sum`), or the
    step between two published models (`model`). ue, model (n_target,) are the devices that took part, and
    source (n_target,) says which update row speaks of each.
    """

    vantage: Vantage
    phase: str
    update: FloatArray
    source_model: IntArray
    ue: IntArray
    model: IntArray
    source: IntArray
    model_before: Model
    model_after: Model
    learner: Learner

    def spread(
        self,
        what: str,
        source: IntArray,
        position_m: FloatArray,
        *,
        weight: FloatArray | None = None,
        loss: FloatArray | None = None,
        iterations: IntArray | None = None,
        evaluations: IntArray | None = None,
        status: list[str] | None = None,
    ) -> Estimates:
        """Estimates about sources (k,), repeated for every device that a source speaks of."""
        k = len(source)
        order = np.argsort(self.source, kind="stable")  # targets grouped by the source that speaks of them
        start = np.searchsorted(self.source[order], source, "left")
        count = np.searchsorted(self.source[order], source, "right") - start
        row = np.repeat(np.arange(k), count)
        within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        target = order[start[row] + within]
        zero = np.zeros(k, dtype=np.int64)
        words = status or ["ok"] * k
        return Estimates(
            ue=self.ue[target],
            model=self.model[target],
            what=[what] * len(target),
            position_m=position_m[row],
            weight=(np.ones(k) if weight is None else weight)[row],
            loss=(np.full(k, np.nan) if loss is None else loss)[row],
            iterations=(zero if iterations is None else iterations)[row],
            evaluations=(zero if evaluations is None else evaluations)[row],
            status=[words[r] for r in row],
        )


class Attack(Named):
    """An attack. It keeps its state as a value and knows nothing but its view and public facts."""

    kind: str

    @abstractmethod
    def run(self, view: View, facts: Facts, state: State, rng: Rng) -> tuple[Estimates, State]:
        """Estimates about the devices of this phase."""

"""The largest numbers of an update alone."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.defenses.base import Defense
from fl.types import Local, RoundContext, Spend, State, Updates
from netsim.rng import Rng


class TopK(Defense):
    """Keeps the k = max(1, round(share d)) numbers of largest magnitude of every update of d numbers; others become 0.

    Norms do not grow, but distances may: two updates can keep different numbers, so a record may move an update further
    than before, and noise needs a clip after this step. Which numbers are kept depends on the data and is sent with
    them: the attack `kept-numbers` names homes by that alone. Nothing that was left out is remembered for later rounds.
    The uplink counts all d numbers.
    """

    kind: Literal["top-k"] = "top-k"
    share: float = Field(default=0.01, gt=0, le=1)
    """share of the numbers of an update that is kept"""

    reference: ClassVar = "Aji and Heafield 2017, Sparse Communication for Distributed Gradient Descent, Section 3"
    example: ClassVar = {"kind": "top-k", "share": 0.2}

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: State, rng: Rng
    ) -> tuple[Updates, State, list[Spend]]:
        d = updates.n_parameters
        k = max(1, round(self.share * d))
        values = np.array(updates.rows(slice(None)))
        for row in values if k < d else ():  # one at a time: the places of the numbers need no memory then
            row[np.argpartition(np.abs(row), d - k)[: d - k]] = 0.0
        return updates.replaced(values, None), state, []

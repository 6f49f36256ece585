"""The same fixed weight for all rows."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.aggregation.base import Aggregation
from fl.types import Received, RoundContext, State
from netsim.units import FloatArray


class Uniform(Aggregation):
    r"""w_k = 1 / (q K) for every decoded row, independent of the other rows.

    K (`clients`) is the number of UEs that could take part and q (`participation`) the share of them that is sampled.
    The denominator is fixed: a missing UE does not change the weights of the others, and the weights need not sum to 1.
    Central differential privacy requires this: one UE's row, of norm at most c, changes the sum by c and the merged
    update by c / (q K); with weights by the number of samples or of participants it would change all weights.
    """

    kind: Literal["uniform"] = "uniform"
    clients: int = Field(ge=1, le=10_000_000)
    """number of UEs that could take part (K)"""
    participation: float = Field(default=1.0, gt=0, le=1)
    """share of them that the server samples in a round (q), equal to the participation of the study"""

    reference: ClassVar = "McMahan et al., Learning Differentially Private Recurrent Language Models, 2018, f_f"
    example: ClassVar = {"kind": "uniform", "clients": 4}
    offers: ClassVar = frozenset({"fixed weight"})

    @property
    def weight(self) -> float:
        """Weight of every row, known before any arrives."""
        return 1.0 / (self.participation * self.clients)

    @property
    def expected_participation(self) -> float:
        return self.participation

    def weights(self, received: Received, facts: RoundContext, state: State) -> tuple[FloatArray, State]:
        return np.where(received.decoded, self.weight, 0.0), state

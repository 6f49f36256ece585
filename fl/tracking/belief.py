"""What an attacker believes of where UEs are: a probability for every place of a grid."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fl.tracking.place_grid import PlaceGrid
from netsim.units import BoolArray, IntArray


@dataclass(frozen=True)
class Belief:
    """Probabilities of places after (or, in hindsight, for) one round.

    round, time_s : of the round that it speaks of; ue (k,) : of whom, by the names that the attacker knows, ascending;
    grid : the G places; probability (k, G) : each row sums to 1; prior (G,) : where anybody is, before any estimate.
    """

    round: int
    time_s: float
    ue: IntArray
    grid: PlaceGrid
    probability: npt.NDArray[np.float32]
    prior: npt.NDArray[np.float32]

    def only(self, some: BoolArray) -> Belief:
        """Of some UEs (k,)."""
        return replace(self, ue=self.ue[some], probability=self.probability[some])

"""A name for one update."""

from typing import ClassVar, Literal

import numpy as np

from fl.pseudonyms.base import Pseudonyms
from fl.types import State
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


class PerRound(Pseudonyms):
    """A new name for every round; of a server without rounds, for every update."""

    kind: Literal["per-round"] = "per-round"

    reference: ClassVar = "Pfitzmann and Hansen 2010: transaction pseudonyms"

    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, state: State, rng: Rng) -> IntArray:
        return np.full(len(ue), round_)

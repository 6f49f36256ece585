"""Names that never change."""

from typing import ClassVar, Literal

import numpy as np

from fl.pseudonyms.base import Pseudonyms
from fl.types import State
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


class Permanent(Pseudonyms):
    """Every UE keeps its name for the whole run."""

    kind: Literal["permanent"] = "permanent"
    changes: ClassVar = False

    reference: ClassVar = "McMahan et al., Algorithm 1: the server knows its clients"

    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, state: State, rng: Rng) -> IntArray:
        return np.zeros(len(ue), dtype=np.int64)

"""All UEs at any time."""

from typing import ClassVar, Literal

import numpy as np

from fl.availability.base import Availability, Conditions
from fl.types import State
from netsim.rng import Rng
from netsim.units import BoolArray


class Always(Availability):
    """Every UE is available at any time, with energy without end."""

    kind: Literal["always"] = "always"
    reference: ClassVar = "the usual assumption of federated learning papers"

    def available(self, now: Conditions, state: State, rng: Rng) -> tuple[BoolArray, State]:
        return np.ones(len(now.position_m), dtype=np.bool_), state

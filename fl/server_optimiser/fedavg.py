"""The merged update itself."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.server_optimiser.base import LINEAR_STEP, NEEDS_CHANGES, ServerOptimiser
from fl.types import State
from netsim.units import BoolArray, FloatArray


class FedAvgStep(ServerOptimiser):
    """w <- w + learning_rate D: with learning rate 1, federated averaging as published."""

    kind: Literal["fedavg"] = "fedavg"
    learning_rate: float = Field(default=1.0, gt=0, le=100)
    """server learning rate"""

    reference: ClassVar = "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017"
    offers: ClassVar = frozenset({LINEAR_STEP})

    @property
    def needs(self) -> dict[str, str]:  # type: ignore[override]
        """Nothing at learning rate 1, where every learner steps by itself."""
        return {} if self.learning_rate == 1.0 else NEEDS_CHANGES

    def change(self, merged: FloatArray, came: BoolArray, state: State) -> tuple[FloatArray, State]:
        with np.errstate(over="ignore", invalid="ignore"):  # what has diverged stands in the records as such
            return self.learning_rate * merged, state

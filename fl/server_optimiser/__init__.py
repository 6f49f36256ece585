"""The server optimiser slot: the step of the global models from the merged update."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.types import State
from netsim.part import OneOf, Part
from netsim.units import BoolArray, FloatArray

LINEAR_STEP = "linear server step"
"""offered where the change of a model is a linear combination of the updates that were merged"""

MODEL_CHANGES = "model changes"
"""offered by learners whose update is a difference of weights, which is added to the global ones"""

NEEDS_CHANGES: dict[str, str] = {
    MODEL_CHANGES: "it moves weights along the merged update, and the updates of this learner are no differences of "
    "weights; leave server_optimiser out"
}


class ServerOptimiser(Part):
    """Moves each global model along its merged update D, after the server's half of all defenses.

    D is taken for the direction of descent (the pseudo-gradient is -D). The state is one of each phase of the learner.
    A model to which no UE contributed in a round stays where it is, and so does its state; with noise at the server,
    which hides who took part, D is noise then and is followed like any other.
    """

    kind: str
    needs: ClassVar = NEEDS_CHANGES

    def start(self) -> State:
        """The first state; None for an optimiser without memory."""
        return None

    @abstractmethod
    def change(self, merged: FloatArray, came: BoolArray, state: State) -> tuple[FloatArray, State]:
        """Change of the models (n_model, d), and the next state.

        merged (n_model, d) is D; came (n_model,) says which models it counts for.
        """


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


SERVER_OPTIMISERS = OneOf(
    "server-optimiser",
    FedAvgStep,
    places={
        "fedavgm": "fl.server_optimiser.momentum:FedAvgM",
        "fedadam": "fl.server_optimiser.momentum:FedAdam",
        "fedyogi": "fl.server_optimiser.momentum:FedYogi",
    },
)

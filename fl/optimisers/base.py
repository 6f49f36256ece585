"""The slot of a learner's local optimiser: one step of all parameters of a stack of networks."""

from abc import abstractmethod
from typing import ClassVar

from netsim.part import Part
from netsim.units import FloatArray


class Optimiser(Part):
    """Moves weights w by a step along the gradient g of a batch; t counts the steps of a round from 1.

    Its memory begins at zero in every round, so an update depends on the data of its round alone.
    """

    kind: str
    linear: ClassVar[bool] = True
    """whether the change of the weights is a linear combination of the gradients, with the same factors for all
    parameters"""

    def start(self, w: FloatArray) -> list[FloatArray]:
        """The memory before the first step of networks w (k, d): arrays of the shape and type of w."""
        return []

    @abstractmethod
    def step(self, w: FloatArray, g: FloatArray, memory: list[FloatArray], learning_rate: float, t: int) -> None:
        """Changes weights w (k, d) and memory in place; in the precision of w, from gradients g (k, d).

        Rows are networks, and contiguous. They become fewer when devices have taken all their steps, and lack the
        parameters of frozen layers.
        """

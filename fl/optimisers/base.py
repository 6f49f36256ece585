"""The slot of a learner's local optimiser: one step of all parameters of a stack of networks."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from netsim.part import Part

if TYPE_CHECKING:
    from torch import Tensor


class Optimiser(Part):
    """Moves weights w by a step along the gradient g of a batch; t counts the steps of a round from 1.

    Its memory begins at zero in every round, so an update depends on the data of its round alone.
    """

    kind: str
    linear: ClassVar[bool] = True
    """whether the change of the weights is a linear combination of the gradients, with the same factors for all
    parameters"""

    def start(self, weights: list[Tensor]) -> list[list[Tensor]]:
        """The memory before the first step: lists of tensors like the weights."""
        return []

    @abstractmethod
    def step(
        self, weights: list[Tensor], gradients: list[Tensor], memory: list[list[Tensor]], learning_rate: float, t: int
    ) -> None:
        """Changes weights and memory in place; the gradients are used up."""

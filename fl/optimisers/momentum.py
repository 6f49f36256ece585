"""Gradient descent with momentum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from fl.optimisers.base import Optimiser

if TYPE_CHECKING:
    from torch import Tensor


class Momentum(Optimiser):
    """v <- momentum v + g, w <- w - learning_rate v, from v = 0 in every round."""

    kind: Literal["momentum"] = "momentum"
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """share of the velocity that is kept from step to step"""

    reference: ClassVar[str] = "Goodfellow, Bengio, Courville, Deep Learning, 2016, Section 8.3.2"
    example: ClassVar[dict[str, Any]] = {"kind": "momentum"}

    def start(self, weights: list[Tensor]) -> list[list[Tensor]]:
        return [[w.new_zeros(w.shape) for w in weights]]

    def step(
        self, weights: list[Tensor], gradients: list[Tensor], memory: list[list[Tensor]], learning_rate: float, t: int
    ) -> None:
        for w, g, v in zip(weights, gradients, memory[0], strict=True):
            v.mul_(self.momentum).add_(g)
            w.sub_(v, alpha=learning_rate)

"""Adam."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from fl.optimisers.base import Optimiser

if TYPE_CHECKING:
    from torch import Tensor


class Adam(Optimiser):
    """Steps of each parameter's own size: w <- w - learning_rate m' / (sqrt(v') + epsilon).

    m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2, both from zero in every round, and
    m' = m / (1 - beta1^t), v' = v / (1 - beta2^t). An update is no linear combination of gradients: the first step of
    every parameter has the same size.
    """

    kind: Literal["adam"] = "adam"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """decay of the mean of gradients"""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """decay of the mean of their squares"""
    epsilon: float = Field(default=1e-8, ge=1e-16, le=1)
    """what is added to the root of the mean square"""

    linear: ClassVar[bool] = False
    reference: ClassVar[str] = "Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, Algorithm 1"
    example: ClassVar[dict[str, Any]] = {"kind": "adam"}

    def start(self, weights: list[Tensor]) -> list[list[Tensor]]:
        return [[w.new_zeros(w.shape) for w in weights] for _ in range(2)]

    def step(
        self, weights: list[Tensor], gradients: list[Tensor], memory: list[list[Tensor]], learning_rate: float, t: int
    ) -> None:
        size, root = learning_rate / (1.0 - self.beta1**t), (1.0 - self.beta2**t) ** 0.5
        for w, g, m, v in zip(weights, gradients, *memory, strict=True):
            m.mul_(self.beta1).add_(g, alpha=1.0 - self.beta1)
            v.mul_(self.beta2).addcmul_(g, g, value=1.0 - self.beta2)
            w.addcdiv_(m, v.sqrt().div_(root).add_(self.epsilon), value=-size)

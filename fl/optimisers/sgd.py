"""Plain gradient descent on batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fl.optimisers.base import Optimiser

if TYPE_CHECKING:
    from torch import Tensor


class Sgd(Optimiser):
    """w <- w - learning_rate g."""

    kind: Literal["sgd"] = "sgd"

    reference: ClassVar[str] = "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017, Algorithm 1"
    example: ClassVar[dict[str, Any]] = {"kind": "sgd"}

    def step(
        self, weights: list[Tensor], gradients: list[Tensor], memory: list[list[Tensor]], learning_rate: float, t: int
    ) -> None:
        for w, g in zip(weights, gradients, strict=True):
            w.sub_(g, alpha=learning_rate)

"""Fully connected classifiers."""

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fl.networks.base import Layer, Network
from fl.types import ImageFormat

if TYPE_CHECKING:
    from torch import Tensor


class Perceptron(Network):
    """Pixels, fully connected layers with ReLU, and the logits of the classes."""

    kind: Literal["mlp"] = "mlp"
    hidden: Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(max_length=8)] = (32,)
    """units of each hidden layer"""

    reference: ClassVar = "Goodfellow, Bengio, Courville, Deep Learning, 2016, Chapter 6"
    example: ClassVar = {"kind": "mlp", "hidden": [8]}

    def layers(self, image: ImageFormat) -> tuple[Layer, ...]:
        sizes = (image.height * image.width, *self.hidden, image.classes)
        return tuple(Layer(shape, fan_in=a) for a, b in pairwise(sizes) for shape in ((a, b), (1, b)))

    def forward(self, weights: "list[Tensor]", x: "Tensor", live: "Tensor") -> "Tensor":
        h = x.flatten(2)  # (k, B, pixels)
        first, *rest = zip(weights[::2], weights[1::2], strict=True)
        h = h @ first[0] + first[1]
        for weight, bias in rest:
            h = h.relu() @ weight + bias
        return h

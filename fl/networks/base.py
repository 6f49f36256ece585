"""The network slot: classifiers as laws on flat parameter rows, many networks at once.

Parameters of k networks are rows (k, d), the layers' arrays one after the other, in the order of `layers`.
"""

from abc import abstractmethod
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from fl.types import ImageFormat
from netsim.part import Part
from netsim.rng import Rng
from netsim.units import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 128
"""samples of a fully connected network whose activations exist at a time: few enough for a processor's cache"""


@dataclass(frozen=True)
class Layer:
    """One array of parameters: its shape, and how it starts: uniform within 1 / sqrt(fan_in), or all ones or zeros."""

    shape: tuple[int, ...]
    start: Literal["uniform", "one", "zero"] = "uniform"
    fan_in: int = 1


class Network(Part):
    """A classifier of images."""

    kind: str

    @property
    def mixes_images(self) -> bool:
        """Whether the logits of an image depend on the other images of its batch, so gradients are not per image."""
        return False

    @property
    def together(self) -> int:
        """Number of UEs that are trained as one stacked computation, chosen for speed."""
        return 4096

    def check(self, image: ImageFormat) -> None:
        """Raise BadInput with one line where images do not fit."""
        return None

    @abstractmethod
    def layers(self, image: ImageFormat) -> tuple[Layer, ...]:
        """Arrays of parameters, in order."""

    @abstractmethod
    def forward(self, weights: "list[Tensor]", x: "Tensor", live: "Tensor") -> "Tensor":
        """Logits (k, B, classes) of images x (k, B, height, width) in [0, 1]; weights[l] is (k, *shape of layer l).

        live (k, B) is 0 where a slot holds no image: it must not touch the others.
        """

    def n_parameters(self, image: ImageFormat) -> int:
        """d."""
        return sum(prod(layer.shape) for layer in self.layers(image))

    def unpack(self, flat: "Tensor", image: ImageFormat) -> "list[Tensor]":
        """Views of rows (k, d), one an array (k, *shape)."""
        import torch

        sizes = [prod(layer.shape) for layer in self.layers(image)]
        pieces = torch.split(flat, sizes, dim=1)
        return [p.view(-1, *layer.shape) for p, layer in zip(pieces, self.layers(image), strict=True)]

    def start(self, n: int, image: ImageFormat, rng: Rng) -> FloatArray:
        """First parameters (n, d) of n models."""
        rows = []
        for i, layer in enumerate(self.layers(image)):
            shape = (n, prod(layer.shape))
            if layer.start == "uniform":
                unit = rng.uniform(f"weights{i}", np.arange(n), shape[1:])
                rows.append((2.0 * unit - 1.0) / np.sqrt(layer.fan_in))
            else:
                rows.append(np.full(shape, 1.0 if layer.start == "one" else 0.0))
        return np.concatenate(rows, axis=1)

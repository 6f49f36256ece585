"""The network slot: classifiers of images as laws on flat parameter rows, many networks at once.

Parameters of k networks are rows (k, d), the layers' arrays one after the other, in the order of
`list_layers`.
"""

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.types import SampleFormat
from netsim.errors import BadInput
from netsim.part import Part
from netsim.rng import Rng
from netsim.units import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

_KERNEL = 5
_POOL = 2
_EPS = 1e-5  # of the variance, as usual


@dataclass(frozen=True)
class Layer:
    """One array of parameters: its shape, and how it starts: uniform within 1 / sqrt(fan_in), or
    all ones or zeros.
    """

    shape: tuple[int, ...]
    start: Literal["uniform", "one", "zero"] = "uniform"
    fan_in: int = 1


def _pair_layers(*shape: int) -> tuple[Layer, Layer]:
    """Weights (outputs, inputs...) and a bias of each output."""
    fan_in = prod(shape[1:])
    return Layer(shape, fan_in=fan_in), Layer(shape[:1], fan_in=fan_in)


class Network(Part):
    """A classifier of images."""

    kind: str
    n_together: ClassVar = 4096
    """number of UEs that are trained as one stacked computation, chosen for speed"""

    @property
    def mixes_images(self) -> bool:
        """Whether the logits of an image depend on the other images of its batch, so gradients are
        not per image.
        """
        return False

    def check(self, image: SampleFormat) -> None:
        """Raise BadInput with one line where images do not fit."""
        return

    @abstractmethod
    def list_layers(self, image: SampleFormat) -> tuple[Layer, ...]:
        """Arrays of parameters, in order."""

    @abstractmethod
    def forward(self, weights: "list[Tensor]", x: "Tensor", live: "Tensor") -> "Tensor":
        """Logits (k, B, classes) of images x (k, B, height, width) in [0, 1]; weights[l] is (k,
        *shape of layer l).

        live (k, B) is 0 where a slot holds no image: it must not touch the others.
        """

    def count_parameters(self, image: SampleFormat) -> int:
        """d."""
        return sum(prod(layer.shape) for layer in self.list_layers(image))

    def unpack(self, flat: "Tensor", image: SampleFormat) -> "list[Tensor]":
        """Views of rows (k, d), one an array (k, *shape)."""
        import torch

        layers = self.list_layers(image)
        pieces = torch.split(flat, [prod(layer.shape) for layer in layers], dim=1)
        return [p.view(-1, *layer.shape) for p, layer in zip(pieces, layers, strict=True)]

    def draw_parameters(self, n: int, image: SampleFormat, rng: Rng) -> FloatArray:
        """First parameters (n, d) of n models."""
        rows = []
        for i, layer in enumerate(self.list_layers(image)):
            shape = (n, prod(layer.shape))
            if layer.start == "uniform":
                unit = rng.uniform(f"weights{i}", np.arange(n), shape[1:])
                rows.append((2.0 * unit - 1.0) / np.sqrt(layer.fan_in))
            else:
                rows.append(np.full(shape, 1.0 if layer.start == "one" else 0.0))
        return np.concatenate(rows, axis=1)


class Perceptron(Network):
    """Pixels, fully connected layers with ReLU, and the logits of the classes."""

    kind: Literal["mlp"] = "mlp"
    hidden: Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(max_length=8)] = (32,)
    """units of each hidden layer"""

    reference = "Goodfellow, Bengio, Courville, Deep Learning, 2016, Chapter 6"
    example = {"kind": "mlp", "hidden": [8]}

    def list_layers(self, image: SampleFormat) -> tuple[Layer, ...]:
        sizes = (image.shape[-2] * image.shape[-1], *self.hidden, image.classes)
        return tuple(
            Layer(shape, fan_in=a) for a, b in pairwise(sizes) for shape in ((a, b), (1, b))
        )

    def forward(self, weights: "list[Tensor]", x: "Tensor", live: "Tensor") -> "Tensor":
        h = x.flatten(2)  # (k, B, pixels)
        first, *rest = zip(weights[::2], weights[1::2], strict=True)
        h = h @ first[0] + first[1]
        for weight, bias in rest:
            h = h.relu() @ weight + bias
        return h


class Cnn(Network):
    """Two 5x5 convolutions, each with 2x2 max pooling; batch normalisation; 50 units with ReLU; the
    logits.

    The classifier of the LAPA study: 28 x 28 pixels give 21,880 parameters, including 40 of batch
    normalisation. Between the convolutions there is pooling but no activation function, as in its
    list of layers.

    Batch normalisation uses the mean and variance of each channel over the current images: those of
    the mini-batch in training, those of up to 2,000 images evaluated together in evaluation.
    Running statistics are neither kept nor sent: they would be 40 further numbers of a UE's data
    without a bound and without noise, and the average over UEs with one class each does not
    describe the images of any of them.
    """

    kind: Literal["cnn"] = "cnn"
    channels: tuple[int, int] = (10, 20)
    """number of channels of the two convolutions"""
    hidden: int = Field(50, ge=1, le=4096)
    """units of the fully connected layer"""
    batch_norm: bool = True
    """whether channels are normalised before the fully connected layer"""

    # measured: grouped convolutions and vmap take 1.5 to 2 times as long as device by device
    n_together = 1
    reference = (
        "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Section "
        "V-A; Ioffe and Szegedy 2015"
    )

    @property
    def mixes_images(self) -> bool:
        return self.batch_norm

    def check(self, image: SampleFormat) -> None:
        if min(image.shape[-2], image.shape[-1]) < 16:
            raise BadInput(
                "learning.learner.network: a cnn needs images of 16 x 16 pixels or more, these "
                f"have {image.shape[-2]} x {image.shape[-1]}; take network: {{kind: mlp}}"
            )

    def list_layers(self, image: SampleFormat) -> tuple[Layer, ...]:
        (a, b) = self.channels
        flat = b
        for side in (image.shape[-2], image.shape[-1]):
            for _ in self.channels:
                side = (side - _KERNEL + 1) // _POOL
            flat *= side
        layers = [*_pair_layers(a, 1, _KERNEL, _KERNEL), *_pair_layers(b, a, _KERNEL, _KERNEL)]
        if self.batch_norm:
            layers += [Layer((b,), "one"), Layer((b,), "zero")]
        layers += _pair_layers(self.hidden, flat)
        layers += _pair_layers(image.classes, self.hidden)
        return tuple(layers)

    def forward(self, weights: "list[Tensor]", x: "Tensor", live: "Tensor") -> "Tensor":
        import torch

        one_by_one = zip(x, live, *weights, strict=True)
        return torch.stack(
            [_compute_logits(image, use, parameters) for image, use, *parameters in one_by_one]
        )


def _compute_logits(x: "Tensor", live: "Tensor", weights: "list[Tensor]") -> "Tensor":
    """Logits (B, classes) of images x (B, height, width) by one network."""
    from torch.nn.functional import conv2d, linear, relu

    from fl.networks.pooling import pool_max

    kernel1, bias1, kernel2, bias2, *norm, weight3, bias3, weight4, bias4 = weights
    h = pool_max(conv2d(x[:, None], kernel1, bias1))
    h = pool_max(conv2d(h, kernel2, bias2))
    if norm:
        h = _normalise_channels(h, live, *norm)
    return linear(relu(linear(h.flatten(1), weight3, bias3)), weight4, bias4)


def _normalise_channels(h: "Tensor", live: "Tensor", gain: "Tensor", offset: "Tensor") -> "Tensor":
    """Channels of h (B, C, rows, columns) with mean 0 and variance 1 over live images, then gain
    and offset (C,).
    """
    use = live[:, None, None, None]
    n = live.sum().clamp(min=1.0) * (h.shape[2] * h.shape[3])
    mean = (h * use).sum(dim=(0, 2, 3), keepdim=True) / n
    away = h - mean
    variance = (away * away * use).sum(dim=(0, 2, 3), keepdim=True) / n
    return away * (variance + _EPS).rsqrt() * gain[:, None, None] + offset[:, None, None]

"""The convolutional classifier of the LAPA study."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from fl.networks.base import Layer, Network
from fl.types import ImageFormat
from netsim.errors import BadInput

if TYPE_CHECKING:
    from torch import Tensor

_KERNEL, _POOL = 5, 2
_EPS = 1e-5  # of the variance, as usual


class Cnn(Network):
    """Two 5x5 convolutions, each with 2x2 max pooling; batch normalisation; 50 units with ReLU; the logits.

    28 x 28 pixels give 21,880 parameters, including 40 of batch normalisation. Between the convolutions there is
    pooling but no activation function, as in the list of layers of the study.

    Batch normalisation uses the mean and variance of each channel over the current images: those of the mini-batch in
    training, those of up to 2,000 images evaluated together in evaluation. Running statistics are neither kept nor
    sent: they would be 40 further numbers of a UE's data without a bound and without noise, and the average over UEs
    with one class each does not describe the images of any of them.
    """

    kind: Literal["cnn"] = "cnn"
    channels: tuple[int, int] = (10, 20)
    """number of channels of the two convolutions"""
    hidden: int = Field(default=50, ge=1, le=4096)
    """units of the fully connected layer"""
    batch_norm: bool = True
    """whether channels are normalised before the fully connected layer"""

    reference: ClassVar = (
        "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Section V-A; Ioffe and Szegedy 2015"
    )

    @property
    def mixes_images(self) -> bool:
        return self.batch_norm

    @property
    def together(self) -> int:
        return 1  # measured: grouped convolutions and vmap take 1.5 to 2 times as long as one device after the other

    def _pooled(self, image: ImageFormat) -> tuple[int, int]:
        """Height and width after both convolutions and pools."""
        height, width = image.height, image.width
        for _ in self.channels:
            height, width = (height - _KERNEL + 1) // _POOL, (width - _KERNEL + 1) // _POOL
        return height, width

    def check(self, image: ImageFormat) -> None:
        if min(image.height, image.width) < 16:
            raise BadInput(
                f"learning.learner.network: a cnn needs images of 16 x 16 pixels or more, these have {image.height} x "
                f"{image.width}; take network: {{kind: mlp}}"
            )

    def layers(self, image: ImageFormat) -> tuple[Layer, ...]:
        (a, b), (height, width), area = self.channels, self._pooled(image), _KERNEL * _KERNEL
        flat = b * height * width
        return (
            Layer((a, 1, _KERNEL, _KERNEL), fan_in=area),
            Layer((a,), fan_in=area),
            Layer((b, a, _KERNEL, _KERNEL), fan_in=a * area),
            Layer((b,), fan_in=a * area),
            *((Layer((b,), "one"), Layer((b,), "zero")) if self.batch_norm else ()),
            Layer((self.hidden, flat), fan_in=flat),
            Layer((self.hidden,), fan_in=flat),
            Layer((image.classes, self.hidden), fan_in=self.hidden),
            Layer((image.classes,), fan_in=self.hidden),
        )

    def forward(self, weights: "list[Tensor]", x: "Tensor", live: "Tensor") -> "Tensor":
        import torch

        one_by_one = zip(x, live, *weights, strict=True)
        return torch.stack([self._logits(image, use, list(own)) for image, use, *own in one_by_one])

    def _logits(self, x: "Tensor", live: "Tensor", weights: "list[Tensor]") -> "Tensor":
        """Logits (B, classes) of images (B, height, width) by one network."""
        from torch.nn import functional

        from fl.networks.convolution import pooled_convolution

        kernel1, bias1, kernel2, bias2, *norm, weight3, bias3, weight4, bias4 = weights
        h = pooled_convolution(x.unsqueeze(-1), kernel1, bias1)
        h = pooled_convolution(h, kernel2, bias2).permute(0, 3, 1, 2)  # (B, channels, rows, columns)
        if norm:
            h = _normalised(h, live, *norm)
        h = functional.relu(functional.linear(h.flatten(1), weight3, bias3))
        return functional.linear(h, weight4, bias4)


def _normalised(h: "Tensor", live: "Tensor", gain: "Tensor", offset: "Tensor") -> "Tensor":
    """Channels of h (B, C, rows, columns) with mean 0 and variance 1 over live images, then gain and offset (C,)."""
    use = live[:, None, None, None]
    n = live.sum().clamp(min=1.0) * (h.shape[2] * h.shape[3])
    mean = (h * use).sum(dim=(0, 2, 3), keepdim=True) / n
    away = h - mean
    variance = (away * away * use).sum(dim=(0, 2, 3), keepdim=True) / n
    return away * (variance + _EPS).rsqrt() * gain[:, None, None] + offset[:, None, None]

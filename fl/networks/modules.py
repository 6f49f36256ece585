"""Bundled modules of the torch learner, for samples of any format."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from fl.networks.pooling import pool_max

_KERNEL = 5
_POOL = 2


class Perceptron(nn.Module):
    """Fully connected layers with ReLU between them.

    hidden : units of each hidden layer. shape, classes : those of the samples; one output without
    classes.
    """

    def __init__(self, shape: Sequence[int], classes: int, hidden: Sequence[int] = (32,)) -> None:
        super().__init__()
        sizes = (prod(shape), *hidden, classes or 1)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.classes = classes

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (B,) or logits (B, classes) of samples (B, *shape)."""
        h = x.flatten(1)
        for i, layer in enumerate(self.layers):
            h = layer(h.relu() if i else h)
        return h if self.classes else h.squeeze(-1)


class Cnn(nn.Module):
    """Two 5x5 convolutions, each with 2x2 max pooling; batch normalisation; 50 units with ReLU; the
    logits, or one output without classes.

    The classifier of the LAPA study: images of 1 x 28 x 28 pixels and 10 classes give 21,880
    parameters, including 40 of batch normalisation. Between the convolutions there is pooling but
    no activation function, as in its list of layers.

    channels : of the two convolutions. hidden : units of the fully connected layer. batch_norm :
    whether channels are normalised before it, by mean and variance over the current images.
    Running statistics are neither kept nor sent: they would be 40 further numbers of a UE's data
    without a bound and without noise, and the average over UEs with one class each does not
    describe the images of any of them.
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: int,
        channels: Sequence[int] = (10, 20),
        hidden: int = 50,
        batch_norm: bool = True,
    ) -> None:
        super().__init__()
        if len(shape) != 3 or min(shape[1:]) < 16:
            raise ValueError(
                f"a cnn needs images of 16 x 16 pixels or more, these samples have the shape "
                f"{list(shape)}; take module: perceptron"
            )
        (a, b) = channels
        self.first = nn.Conv2d(shape[0], a, _KERNEL)
        self.second = nn.Conv2d(a, b, _KERNEL)
        self.norm = nn.BatchNorm2d(b) if batch_norm else nn.Identity()
        sides = [((side - _KERNEL + 1) // _POOL - _KERNEL + 1) // _POOL for side in shape[1:]]
        self.hidden = nn.Linear(b * prod(sides), hidden)
        self.last = nn.Linear(hidden, classes or 1)
        self.classes = classes

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, classes) or outputs (B,) of images (B, channels, height, width)."""
        h = pool_max(self.second(pool_max(self.first(x))))
        out = self.last(self.hidden(self.norm(h).flatten(1)).relu())
        return out if self.classes else out.squeeze(-1)

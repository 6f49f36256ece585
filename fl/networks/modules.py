"""Bundled modules of the torch learner, for samples of any format."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from fl.networks.pooling import pool_max
from netsim.errors import BadInput

_KERNEL = 5


def build_perceptron(
    shape: Sequence[int], classes: int, hidden: Sequence[int] = (32,)
) -> nn.Sequential:
    """Fully connected layers with ReLU between them, `hidden` their units, for samples of a shape;
    one output without classes.
    """
    sizes = (prod(shape), *hidden, classes or 1)
    layers = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes)]
    modules = [module for pair in layers for module in pair][:-1]
    return nn.Sequential(nn.Flatten(), *modules, nn.Flatten(1 if classes else 0))


class MaxPooling(nn.Module):
    """Max pooling of 2 x 2 squares."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, rows // 2, columns // 2) of x (B, C, rows, columns)."""
        return pool_max(x)


def build_cnn(
    shape: Sequence[int],
    classes: int,
    channels: Sequence[int] = (10, 20),
    hidden: int = 50,
    batch_norm: bool = True,
) -> nn.Sequential:
    """Two 5x5 convolutions, each with 2x2 max pooling; batch normalisation; `hidden` units with
    ReLU; the logits, or one output without classes.

    The classifier of the LAPA study: images of 1 x 28 x 28 pixels and 10 classes give 21,880
    parameters, including 40 of batch normalisation. Between the convolutions there is pooling but
    no activation function, as in its list of layers.
    """
    if len(shape) != 3 or min(shape[1:]) < 16:
        raise BadInput(
            "learning.learner.module: a cnn needs images of 16 x 16 pixels or more, these samples "
            f"have the shape {list(shape)}; take module: perceptron"
        )
    (a, b) = channels
    sides = [((side - _KERNEL + 1) // 2 - _KERNEL + 1) // 2 for side in shape[1:]]
    return nn.Sequential(
        nn.Conv2d(shape[0], a, _KERNEL),
        MaxPooling(),
        nn.Conv2d(a, b, _KERNEL),
        MaxPooling(),
        nn.BatchNorm2d(b) if batch_norm else nn.Identity(),
        nn.Flatten(),
        nn.Linear(b * prod(sides), hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes or 1),
        nn.Flatten(1 if classes else 0),
    )

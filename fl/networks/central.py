"""Training of one network for each model in one place, on the samples of all devices together, with Adam."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fl.networks.mlp import Mlp
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True)
class CentralSettings:
    """Passes over all samples, samples of a batch, and learning rate; Adam with decays 0.9 and 0.999."""

    epochs: int = 20
    batch_size: int = 64
    learning_rate: float = 1e-3


@torch.no_grad()
def train_centrally(
    net: Mlp, start: FloatArray, model_of: IntArray, z: FloatArray, y: FloatArray, how: CentralSettings, rng: Rng
) -> FloatArray:
    """Parameters (n_model, d) after training from `start`, each on its samples: inputs z (N, p), targets y (N,).

    In single precision, which is faster and as good; a model without samples stays as it is. The loss is the mean
    squared error, in fresh uniform order in every epoch, with a last batch that may be shorter [Kingma and Ba 2015,
    Algorithm 1].
    """
    out = start.copy()
    for m in np.unique(model_of).tolist():
        mine = model_of == m
        own_z, own_y = (torch.from_numpy(a[mine].astype(np.float32)) for a in (z, y))
        adam = _Adam(torch.from_numpy(start[m : m + 1].astype(np.float32)), how.learning_rate)
        for epoch in range(how.epochs):
            order = torch.from_numpy(np.argsort(rng.keys(f"order{epoch}", m, len(own_y)), kind="stable"))
            for first in range(0, len(own_y), how.batch_size):
                batch = order[first : first + how.batch_size]
                adam.step(_gradient(net, adam.w, own_z[batch][None], own_y[batch][None]))
        out[m] = adam.w[0].numpy()
    return out


def _gradient(net: Mlp, w: Tensor, z: Tensor, y: Tensor) -> Tensor:
    """Gradient (1, d) of the mean squared error of a batch."""
    out, activations, slopes = net.forward(w, z)
    return net.gradient(activations, net.deltas(w, slopes, (2.0 / y.shape[1]) * (out - y)))


class _Adam:
    """Parameters w (1, d) and the running moments of their gradients."""

    def __init__(self, w: Tensor, learning_rate: float) -> None:
        self.w, self.rate, self.steps = w.clone(), learning_rate, 0
        self.mean, self.square = torch.zeros_like(w), torch.zeros_like(w)

    def step(self, gradient: Tensor) -> None:
        self.steps += 1
        self.mean.lerp_(gradient, 0.1)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        scale = (self.square / (1.0 - 0.999**self.steps)).sqrt_().add_(1e-8)
        self.w.addcdiv_(self.mean, scale, value=-self.rate / (1.0 - 0.9**self.steps))

"""Federated rounds of a cohort, as one would write them in PyTorch without a simulator.

What they need is made beforehand: tensors of the samples, the order of every device's samples, the
global weights. They have no data loader, no module and no optimiser object: weights are tensors,
changed in place. So they leave out what a round of ours does besides: drawing the order, and
updates in double precision.

`loop`    one device after the other: autograd, then a step
`descended` one device of that loop, with epochs and orders of its own
`mapped`  all devices at once: torch.func.vmap of torch.func.grad
`squared` gradients of single samples: torch.func.vmap of torch.func.grad, in groups that suit it
best
`cnn`     the loop for the classifier of images, with torch's convolution, pooling and batch
normalisation
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn import functional

from fl.networks.mlp import Mlp
from fl.optimisers import Adam

Round = Callable[[], np.ndarray]
LEARNING_RATE = 0.01
# samples whose gradients exist at a time: 16 and 256 take twice as long, one by one half as long
# again
GROUP = 64
_ACT: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "elu": functional.elu,
    "tanh": torch.tanh,
}


def loop(
    net: Mlp, start: np.ndarray, x: np.ndarray, y: np.ndarray, batch: int, number: torch.dtype
) -> Round:
    """Updates (k, d) of an epoch from parameters start (d,); x (k, n, p), y (k, n) in the order of
    their batches.
    """
    before = leaves(net, torch.tensor(start, dtype=number))
    samples = torch.tensor(x, dtype=number)
    labels = torch.tensor(y, dtype=number)

    def once() -> np.ndarray:
        updates = []
        for own_x, own_y in zip(samples, labels, strict=True):
            weights = [tensor.clone().requires_grad_() for tensor in before]
            for first in range(0, len(own_y), batch):
                out = forward(net, weights, own_x[first : first + batch])
                loss = functional.mse_loss(out, own_y[first : first + batch])
                gradients = torch.autograd.grad(loss, weights)
                with torch.no_grad():
                    for w, g in zip(weights, gradients, strict=True):
                        w.sub_(g, alpha=LEARNING_RATE)
            updates.append([w.detach() - b for w, b in zip(weights, before, strict=True)])
        return np.stack([torch.cat([piece.flatten() for piece in u]).numpy() for u in updates])

    return once


def descended(
    net: Mlp,
    start: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    orders: list[np.ndarray],
    batch: int,
    rate: float,
    number: torch.dtype,
    adam: Adam | None = None,
    limit: float | None = None,
) -> Round:
    """The update (d,) of one device with samples x (n, p), y (n,), an epoch for each order of them
    (n,); by Adam, its fused form, where one is given. `limit` shortens steps by Polyak's rule: the
    rate times the squared gradient over the loss is at most that.
    """
    before = leaves(net, torch.tensor(start, dtype=number))
    samples = torch.tensor(x, dtype=number)
    labels = torch.tensor(y, dtype=number)

    def once() -> np.ndarray:
        weights = [tensor.clone().requires_grad_() for tensor in before]
        settings = {} if adam is None else {"betas": (adam.beta1, adam.beta2), "eps": adam.epsilon}
        optimiser = (
            None if adam is None else torch.optim.Adam(weights, rate, fused=True, **settings)
        )
        for order in map(torch.from_numpy, orders):
            for some in order.split(batch):
                loss = functional.mse_loss(forward(net, weights, samples[some]), labels[some])
                if optimiser is not None:
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
                    continue
                gradients = torch.autograd.grad(loss, weights)
                step = rate
                if limit is not None:
                    squared = torch.cat([g.flatten() for g in gradients]).double().square().sum()
                    step *= min(1.0, limit / rate * loss.item() / squared.item())
                with torch.no_grad():
                    for w, g in zip(weights, gradients, strict=True):
                        w.sub_(g, alpha=step)
        moved = [(w.detach() - b).flatten() for w, b in zip(weights, before, strict=True)]
        return torch.cat(moved).double().numpy()

    return once


def mapped(
    net: Mlp, start: np.ndarray, x: np.ndarray, y: np.ndarray, batch: int, number: torch.dtype
) -> Round:
    """The same, all devices in every step."""
    before = leaves(net, torch.tensor(start, dtype=number))
    samples = torch.tensor(x, dtype=number)
    labels = torch.tensor(y, dtype=number)

    def loss(weights: list[Tensor], own_x: Tensor, own_y: Tensor) -> Tensor:
        return functional.mse_loss(forward(net, weights, own_x), own_y)

    step = vmap(grad(loss))

    def once() -> np.ndarray:
        weights = [tensor.expand(len(samples), *tensor.shape).clone() for tensor in before]
        for first in range(0, labels.shape[1], batch):
            gradients = step(
                weights, samples[:, first : first + batch], labels[:, first : first + batch]
            )
            for w, g in zip(weights, gradients, strict=True):
                w.sub_(g, alpha=LEARNING_RATE)
        moved = [(w - b).flatten(1) for w, b in zip(weights, before, strict=True)]
        return torch.cat(moved, dim=1).numpy()

    return once


def squared(net: Mlp, start: np.ndarray, x: np.ndarray) -> Round:
    """|dF/dw|^2 (n,) of the outputs for samples x (n, p), double precision."""
    weights = leaves(net, torch.tensor(start))
    samples = torch.tensor(x)
    each = vmap(grad(lambda w, one: forward(net, w, one[None])[0]), in_dims=(None, 0))

    def once() -> np.ndarray:
        groups = [each(weights, some) for some in samples.split(GROUP)]
        return torch.cat(
            [sum(g.flatten(1).square().sum(dim=1) for g in of) for of in groups]
        ).numpy()

    return once


def cnn(start: list[Tensor], x: np.ndarray, y: np.ndarray, batch: int) -> Round:
    """Updates (k, d) of an epoch; images x (k, n, height, width) in [0, 1], classes y (k, n)."""
    images = torch.tensor(x, dtype=torch.float32).unsqueeze(2)
    labels = torch.tensor(y)

    def once() -> np.ndarray:
        updates = []
        for own_x, own_y in zip(images, labels, strict=True):
            weights = [tensor.clone().requires_grad_() for tensor in start]
            for first in range(0, len(own_y), batch):
                out = _logits(weights, own_x[first : first + batch])
                loss = functional.cross_entropy(out, own_y[first : first + batch])
                gradients = torch.autograd.grad(loss, weights)
                with torch.no_grad():
                    for w, g in zip(weights, gradients, strict=True):
                        w.sub_(g, alpha=LEARNING_RATE)
            moved = [(w.detach() - b).flatten() for w, b in zip(weights, start, strict=True)]
            updates.append(torch.cat(moved).numpy())
        return np.stack(updates)

    return once


def leaves(net: Mlp, flat: Tensor) -> list[Tensor]:
    """Weights (in, out) and biases (out,), layer by layer."""
    return [
        piece
        for weight, bias in net.unpack(flat[None])
        for piece in (weight[0].clone(), bias[0, 0].clone())
    ]


def forward(net: Mlp, weights: list[Tensor], x: Tensor) -> Tensor:
    """Outputs (n,) of x (n, p) with what `leaves` gives."""
    for weight, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        x = _ACT[net.activation](torch.addmm(bias, x, weight))
    return torch.addmm(weights[-1], x, weights[-2])[:, 0]


def _logits(weights: list[Tensor], x: Tensor) -> Tensor:
    kernel1, bias1, kernel2, bias2, gain, offset, weight3, bias3, weight4, bias4 = weights
    h = functional.max_pool2d(functional.conv2d(x, kernel1, bias1), 2)
    h = functional.max_pool2d(functional.conv2d(h, kernel2, bias2), 2)
    h = functional.batch_norm(h, None, None, gain, offset, training=True)
    return functional.linear(
        functional.relu(functional.linear(h.flatten(1), weight3, bias3)), weight4, bias4
    )

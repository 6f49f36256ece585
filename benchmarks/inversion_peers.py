"""Gradient inversion as one writes it with PyTorch, for comparison with
`fl.attacks.gradient_matching`.

Both peers have our objective, 1 - |cos(dF/dw(z), u)|, its slope in z by differentiating a gradient
again, float64, and weights and updates that are laid out before the clock starts. Neither is slowed
on purpose: u has length 1, the cosine is summed over layers without joining them, and slopes are
asked for in z alone.

loop : a target and a start at a time, `torch.optim.LBFGS` on `torch.autograd.grad(...,
create_graph=True)`. stacked : `torch.func.vmap` over targets and starts of
`torch.func.grad_and_value` of the same, a few targets at a time.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import grad, grad_and_value, vmap

from fl.networks.mlp import Mlp

Layers = list[Tensor]
"""W_1, b_1, W_2, b_2, ... of one network"""

_ACTIVATE = {
    "elu": torch.nn.functional.elu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}


def layers_of(net: Mlp, flat: Tensor) -> Layers:
    """W (in, out), b (out,) ... of parameters (d,), each in memory of its own."""
    return [
        piece.squeeze(0).clone() for w, b in net.unpack(flat[None]) for piece in (w, b.squeeze(1))
    ]


def output(net: Mlp, layers: Layers, z: Tensor) -> Tensor:
    """F of one input (2,)."""
    a = z
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        a = _ACTIVATE[net.activation](a @ weight + bias)
    return (a @ layers[-2] + layers[-1]).squeeze()


def distance(gradient: Layers, update: Layers) -> Tensor:
    """1 - |cos| to an update of length 1."""
    pairs = [(g.flatten(), u.flatten()) for g, u in zip(gradient, update, strict=True)]
    inner = torch.stack([g @ u for g, u in pairs]).sum()
    square = torch.stack([g @ g for g, _ in pairs]).sum()
    return 1.0 - inner.abs() / square.sqrt()


class Loop:
    """One target and one start at a time: weights (d,) that all share, updates (n, d)."""

    def __init__(self, net: Mlp, weights: Tensor, update: Tensor) -> None:
        self._net = net
        self._layers = [w.requires_grad_() for w in layers_of(net, weights)]
        self._update = [layers_of(net, u / u.norm()) for u in update]

    def ask(self, target: int, z: Tensor) -> Tensor:
        """The value at a leaf z (2,), whose slope is left in z.grad."""
        gradient = torch.autograd.grad(
            output(self._net, self._layers, z), self._layers, create_graph=True
        )
        value = distance(list(gradient), self._update[target])
        z.grad = None
        value.backward(inputs=[z])  # type: ignore[no-untyped-call]
        return value

    def search(self, target: int, start: Tensor, iterations: int) -> tuple[float, int]:
        """From a start (2,): the least value that L-BFGS met, and how often it asked."""
        z = start.clone().requires_grad_()
        asked = 0
        least = torch.inf
        optimiser = torch.optim.LBFGS(
            [z],
            max_iter=iterations,
            max_eval=12 * iterations,
            history_size=6,
            line_search_fn="strong_wolfe",
            tolerance_grad=1e-12,
            tolerance_change=1e-12,
        )

        def closure() -> Tensor:
            nonlocal asked, least
            value = self.ask(target, z)
            asked = asked + 1
            least = min(least, value.item())
            return value

        optimiser.step(closure)  # type: ignore[no-untyped-call]
        return least, asked


class Stacked:
    """Everything at once: weights (d,) that all share, updates (n, d)."""

    def __init__(self, net: Mlp, weights: Tensor, update: Tensor, together: int) -> None:
        """`together`: how many targets at a time; what is between grows with it."""
        self._layers = layers_of(net, weights)
        each = [layers_of(net, u / u.norm()) for u in update]
        self._update = [torch.stack(piece) for piece in zip(*each, strict=True)]

        def value(z: Tensor, update: Layers, layers: Layers) -> Tensor:
            return distance(grad(lambda w: output(net, w, z))(layers), update)

        starts = vmap(grad_and_value(value), in_dims=(0, None, None))
        self._ask = vmap(starts, in_dims=(0, 0, None), chunk_size=together)

    def ask(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Values (n, q) and slopes (n, q, 2) at starts z (n, q, 2)."""
        slope, value = self._ask(z, self._update, self._layers)
        return value, slope

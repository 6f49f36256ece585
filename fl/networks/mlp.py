r"""Fully connected networks as laws on flat parameter rows, many networks at once.

Parameters of k networks are rows (k, d); layer l has weights W_l (in, out) and bias b_l (out), stored in the
order W_1, b_1, W_2, b_2, ... The output is a scalar: F(z; w).

Gradients are written by hand (delta recursion), so a single sample's gradient never has to be formed: with
activations a_l and deltas D_l,

    dF/dW_l = a_{l-1} D_l^T,   dF/db_l = D_l,
    |dF/dw|^2 = sum_l |D_l|^2 (|a_{l-1}|^2 + 1),
    <dF/dw, u> = sum_l (a_{l-1}^T U_l + v_l) D_l     where u holds U_l, v_l in the same layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

Activation = Literal["elu", "tanh", "sigmoid", "relu"]

_VALUE: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": torch.nn.functional.elu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}
_SLOPE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # of (before, after)
    "elu": lambda s, a: torch.where(s > 0, torch.ones_like(a), a + 1.0),
    "tanh": lambda s, a: 1.0 - a * a,
    "sigmoid": lambda s, a: a * (1.0 - a),
    "relu": lambda s, a: (s > 0).to(a.dtype),
}


@dataclass(frozen=True)
class Mlp:
    """The shape of a network: sizes (inputs, hidden..., 1) and the activation of its hidden layers."""

    sizes: tuple[int, ...]
    activation: Activation

    @property
    def n_parameters(self) -> int:
        """d."""
        return sum((a + 1) * b for a, b in pairwise(self.sizes))

    def activate(self, before: Tensor) -> tuple[Tensor, Tensor]:
        """A hidden layer's activation and its slope."""
        after = _VALUE[self.activation](before)
        return after, _SLOPE[self.activation](before, after)

    def unpack(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Views of rows (k, d) as [(W (k, in, out), b (k, 1, out)), ...]."""
        layers, at = [], 0
        for a, b in pairwise(self.sizes):
            weight = flat[:, at : at + a * b].view(-1, a, b)
            bias = flat[:, at + a * b : at + (a + 1) * b].unsqueeze(1)
            layers.append((weight, bias))
            at += (a + 1) * b
        return layers

    def forward(
        self, flat: Tensor, z: Tensor, masks: list[Tensor] | None = None
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """F (k, B) of inputs z (k, B, p), with the activations [z, a_1, ...] and the slopes of hidden layers.

        `masks` multiply the hidden activations (inverted dropout).
        """
        layers = self.unpack(flat)
        activations, slopes = [z], []
        for i, (weight, bias) in enumerate(layers[:-1]):
            after, slope = self.activate(activations[-1] @ weight + bias)  # (k, B, out)
            if masks is not None:
                after, slope = after * masks[i], slope * masks[i]
            activations.append(after)
            slopes.append(slope)
        weight, bias = layers[-1]
        return (activations[-1] @ weight + bias).squeeze(-1), activations, slopes

    def deltas(self, flat: Tensor, slopes: list[Tensor], output: Tensor, after: int = 0) -> list[Tensor]:
        """D_l (k, B, out_l) for l = after + 1..L, from the output's delta (k, B)."""
        layers = self.unpack(flat)
        deltas = [output.unsqueeze(-1)]
        for (weight, _), slope in zip(reversed(layers[after + 1 :]), reversed(slopes[after:]), strict=True):
            deltas.append((deltas[-1] @ weight.transpose(1, 2)) * slope)
        return deltas[::-1]

    def gradient(self, activations: list[Tensor], deltas: list[Tensor]) -> Tensor:
        """Sum over samples of the outer products: rows (k, d)."""
        return torch.cat([piece.flatten(1) for pair in self.gradients(activations, deltas) for piece in pair], dim=1)

    def gradients(self, activations: list[Tensor], deltas: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """The same by layer, as `unpack` has them: [(W (k, in, out), b (k, 1, out)), ...]."""
        pairs = zip(activations, deltas, strict=True)
        return [(a.transpose(1, 2) @ delta, delta.sum(dim=1, keepdim=True)) for a, delta in pairs]

    def inner(self, direction: Tensor, activations: list[Tensor], deltas: list[Tensor]) -> Tensor:
        """<dF/dw, u> of each sample (k, B) for rows u (k, d)."""
        terms = [
            ((a @ weight + bias) * delta).sum(-1)
            for (weight, bias), a, delta in zip(self.unpack(direction), activations, deltas, strict=True)
        ]
        return torch.stack(terms).sum(dim=0)

r"""Fully connected networks as laws on flat parameter rows, many networks at once.

Parameters of k networks are rows (k, d); layer l has weights W_l (in, out) and bias b_l (out),
stored in the order W_1, b_1, W_2, b_2, ... The output is a scalar: F(z; w).

Gradients are written by hand (delta recursion), so a single sample's gradient never has to be
formed: with activations a_l and deltas D_l,

    dF/dW_l = a_{l-1} D_l^T,   dF/db_l = D_l,
    |dF/dw|^2 = sum_l |D_l|^2 (|a_{l-1}|^2 + 1),
    <dF/dw, u> = sum_l (a_{l-1}^T U_l + v_l) D_l     where u holds U_l, v_l in the same layout.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fl.types import split_by_model
from netsim.units import ArrayPair, FloatArray, IntArray, Ints

Activation = Literal["elu", "tanh", "sigmoid", "relu"]
Tensors = list[Tensor]
_BLOCK = 4096  # samples whose activations are held at once

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
    """The shape of a network: sizes (inputs, hidden..., 1) and the activation of its hidden
    layers.
    """

    sizes: Ints
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
        layers = []
        start = 0
        for a, b in pairwise(self.sizes):
            end = start + a * b
            weight = flat[:, start:end].view(-1, a, b)
            layers.append((weight, flat[:, end : end + b].unsqueeze(1)))
            start = end + b
        return layers

    def forward(self, flat: Tensor, z: Tensor) -> tuple[Tensor, Tensors, Tensors]:
        """F (k, B) of inputs z (k, B, p), with the activations [z, a_1, ...] and the slopes of
        hidden layers.
        """
        *hidden, (weight, bias) = self.unpack(flat)
        activations = [z]
        slopes = []
        for w, b in hidden:
            after, slope = self.activate(activations[-1] @ w + b)  # (k, B, out)
            activations.append(after)
            slopes.append(slope)
        return (activations[-1] @ weight + bias).squeeze(-1), activations, slopes

    def compute_deltas(self, flat: Tensor, slopes: Tensors, output: Tensor) -> Tensors:
        """D_l (k, B, out_l) for l = 1..L, from the output's delta (k, B)."""
        layers = self.unpack(flat)
        deltas = [output.unsqueeze(-1)]
        for (weight, _), slope in zip(reversed(layers[1:]), reversed(slopes), strict=True):
            deltas.append((deltas[-1] @ weight.transpose(1, 2)) * slope)
        return deltas[::-1]

    def compute_gradient(self, activations: Tensors, deltas: Tensors) -> Tensor:
        """Sum over samples of the outer products: rows (k, d)."""
        pieces = []
        for a, delta in zip(activations, deltas, strict=True):
            pieces += [(a.transpose(1, 2) @ delta).flatten(1), delta.sum(dim=1)]
        return torch.cat(pieces, dim=1)

    def compute_squared_norms(self, activations: Tensors, deltas: Tensors) -> Tensor:
        """|dF/dw|^2 of each sample (k, B)."""
        terms = zip(activations, deltas, strict=True)
        return torch.stack([(d * d).sum(-1) * ((a * a).sum(-1) + 1) for a, d in terms]).sum(dim=0)

    def multiply_gradients(
        self, direction: Tensor, activations: Tensors, deltas: Tensors
    ) -> Tensor:
        """<dF/dw, u> of each sample (k, B) for rows u (k, d)."""
        terms = zip(self.unpack(direction), activations, deltas, strict=True)
        return torch.stack(
            [((a @ weight + bias) * d).sum(-1) for (weight, bias), a, d in terms]
        ).sum(dim=0)

    def predict(self, parameters: FloatArray, model_of: IntArray, z: FloatArray) -> FloatArray:
        """F (N,) of inputs z (N, p), sample i by network model_of[i], in double precision as all
        that follows.
        """
        out = np.empty(len(z))
        for m, rows in split_by_model(model_of, len(z)):
            values = self.forward(_to_stack(parameters[m]), _to_stack(z[rows]))[0]
            out[rows] = values[0].numpy()
        return out

    def compute_layer_inputs(self, parameters: FloatArray, z: FloatArray, layer: int) -> FloatArray:
        """Inputs of layer `layer` (from 1) of the network parameters (d,) for z (N, p), then 1: (N,
        inputs + 1).
        """
        # no hidden layer after it is computed
        before = replace(self, sizes=(*self.sizes[:layer], 1))
        activations = before.forward(_to_stack(parameters), _to_stack(z))[1]
        return np.column_stack([activations[-1][0].numpy(), np.ones(len(z))])

    def compute_mean_squared_gradient(
        self, parameters: FloatArray, model_of: IntArray, z: FloatArray
    ) -> float:
        """Mean over samples of |dF/dw|^2."""
        return self._compute_squared_norms(parameters, model_of, z, None).sum() / max(len(z), 1)

    def compute_sample_gradient_norms(
        self, parameters: FloatArray, model_of: IntArray, z: FloatArray, y: FloatArray
    ) -> FloatArray:
        """L2 norm (N,) of the gradient of each sample's squared error."""
        return np.sqrt(self._compute_squared_norms(parameters, model_of, z, y))

    def _compute_squared_norms(
        self, parameters: FloatArray, model_of: IntArray, z: FloatArray, y: FloatArray | None
    ) -> FloatArray:
        """Squared norms (N,) of the gradients of `_propagate`."""
        squared = np.empty(len(z))
        for m, rows in split_by_model(model_of, _BLOCK):
            target = None if y is None else y[rows]
            swept = self._propagate(parameters[m], z[rows], target)
            squared[rows] = self.compute_squared_norms(*swept)[0].numpy()
        return squared

    def compute_sample_gradients(
        self, parameters: FloatArray, model_of: IntArray, z: FloatArray, y: FloatArray
    ) -> FloatArray:
        """Gradient (N, d) of each sample's squared error, 2 (F - y) dF/dw."""
        gradients = np.empty((len(z), parameters.shape[1]))
        for m, rows in split_by_model(model_of, len(z)):
            activations, deltas = self._propagate(parameters[m], z[rows], y[rows])
            single = [a[0][:, None] for a in activations]  # a network for each sample
            of_single = [delta[0][:, None] for delta in deltas]
            gradients[rows] = self.compute_gradient(single, of_single).numpy()
        return gradients

    def summarise_first_layer_deltas(
        self, parameters: FloatArray, z: FloatArray, y: FloatArray
    ) -> ArrayPair:
        """Mean (hidden,), over samples, of the gradient of a squared error in the biases of the
        first layer, and the sum of squared deviations from it (hidden,); parameters (d,).
        """
        delta = self._propagate(parameters, z, y)[1][0][0].numpy()  # (N, hidden)
        mean = delta.mean(axis=0)
        return mean, ((delta - mean) ** 2).sum(axis=0)

    def _propagate(
        self, parameters: FloatArray, z: FloatArray, y: FloatArray | None
    ) -> tuple[Tensors, Tensors]:
        """Activations and deltas (1, N, ...) of a network at inputs z (N, p): of (F - y)^2, of F
        itself without y.
        """
        flat = _to_stack(parameters)
        out, activations, slopes = self.forward(flat, _to_stack(z))
        output = torch.ones_like(out) if y is None else 2 * (out - _to_stack(y))
        return activations, self.compute_deltas(flat, slopes, output)


def _to_stack(values: FloatArray) -> Tensor:
    """A stack of one."""
    return torch.from_numpy(np.asarray(values, float))[None]

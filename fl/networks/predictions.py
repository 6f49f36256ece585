"""Predictions of a network, and its gradients at single samples: in double precision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fl.networks.mlp import Mlp
from netsim.units import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor


def predict(net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray) -> FloatArray:
    """F (N,) of inputs z (N, p), sample i by network model_of[i]."""
    out = np.empty(len(z))
    for m in np.unique(model_of):
        mine = model_of == m
        out[mine] = net.forward(*_tensors(parameters[m], z[mine]))[0][0].numpy()
    return out


def layer_inputs(net: Mlp, parameters: FloatArray, z: FloatArray, layer: int) -> FloatArray:
    """Inputs of layer `layer` (from 1) of the network parameters (d,) for z (N, p), then 1: (N, inputs + 1)."""
    before = replace(net, sizes=(*net.sizes[:layer], 1))  # no hidden layer after it is computed
    activations = before.forward(*_tensors(parameters, z))[1]
    return np.column_stack([activations[-1][0].numpy(), np.ones(len(z))])


def mean_squared_gradient(net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray) -> float:
    """Mean over samples of |dF/dw|^2."""
    return float(_slopes(net, parameters, model_of, z)[1].sum()) / max(len(z), 1)


def sample_gradient_norms(
    net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray, y: FloatArray
) -> FloatArray:
    """L2 norm (N,) of the gradient of each sample's squared error, 2 |F - y| |dF/dw|."""
    out, squared = _slopes(net, parameters, model_of, z)
    with np.errstate(over="ignore", invalid="ignore"):
        return 2 * np.abs(out - y) * np.sqrt(squared)


def sample_gradients(net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray, y: FloatArray) -> FloatArray:
    """Gradient (N, d) of each sample's squared error, 2 (F - y) dF/dw."""
    found = np.empty((len(z), parameters.shape[1]))
    for m in np.unique(model_of):
        mine = model_of == m
        _, activations, deltas = _squared_error(net, parameters[m], z[mine], y[mine])
        single = [[value[0][:, None] for value in values] for values in (activations, deltas)]
        found[mine] = net.gradient(*single).numpy()
    return found


def first_layer_deltas(net: Mlp, parameters: FloatArray, z: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean (hidden,), over samples, of the gradient of a squared error in the biases of the first layer, and the sum
    of squared deviations from it (hidden,); parameters (d,).
    """
    delta = _squared_error(net, parameters, z, y)[2][0][0].numpy()  # (N, hidden)
    mean = delta.mean(axis=0)
    return mean, ((delta - mean) ** 2).sum(axis=0)


def _slopes(net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """F (N,) and |dF/dw|^2 (N,) of inputs z (N, p), sample i by network model_of[i]."""
    value, squared = np.zeros((2, len(z)))
    for m in np.unique(model_of):
        mine = model_of == m
        flat, inputs = _tensors(parameters[m], z[mine])
        out, activations, slopes = net.forward(flat, inputs)
        deltas = net.deltas(flat, slopes, out.new_ones(out.shape))
        value[mine] = out[0].numpy()
        for a, delta in zip(activations, deltas, strict=True):
            squared[mine] += ((delta * delta).sum(-1) * ((a * a).sum(-1) + 1))[0].numpy()
    return value, squared


def _squared_error(
    net: Mlp, parameters: FloatArray, z: FloatArray, y: FloatArray
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """F, activations and deltas (1, N, ...) of a network's squared errors (F - y)^2 at inputs z (N, p)."""
    (flat, inputs), (target, _) = _tensors(parameters, z), _tensors(y, z)
    out, activations, slopes = net.forward(flat, inputs)
    return out, activations, net.deltas(flat, slopes, 2 * (out - target))


def _tensors(parameters: FloatArray, z: FloatArray) -> tuple[Tensor, Tensor]:
    """One network and its samples, as stacks of one."""
    import torch

    flat, inputs = (torch.from_numpy(np.asarray(a, dtype=np.float64))[None] for a in (parameters, z))
    return flat, inputs

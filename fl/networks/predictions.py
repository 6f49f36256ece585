"""What a network answers, and its gradients at single samples: in double precision."""

from __future__ import annotations

import numpy as np
import torch

from fl.networks import mlp_loops
from fl.networks.base import SAMPLES
from fl.networks.mlp import Mlp
from fl.networks.mlp_loops import Shape
from netsim.units import FloatArray, IntArray

_NO_MASK = np.empty((0, 0))


def predict(net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray) -> FloatArray:
    """F (N,) of inputs z (N, p), sample i by network model_of[i]."""
    out, shape, memory = np.empty(len(z)), _shape(net), mlp_loops.scratch(net.sizes, len(z), np.float64)
    parameters, z = np.ascontiguousarray(parameters, dtype=np.float64), np.ascontiguousarray(z, dtype=np.float64)
    for m in np.unique(model_of):
        mlp_loops.values(parameters[m], z, np.flatnonzero(model_of == m), out, _NO_MASK, shape, memory)
    return out


@torch.no_grad()
def layer_inputs(net: Mlp, parameters: FloatArray, z: FloatArray, layer: int) -> FloatArray:
    """What layer `layer` (from 1) of the network parameters (d,) reads of inputs z (N, p): (N, inputs)."""
    pieces = []
    for i in range(0, len(z), SAMPLES):
        _, activations, _ = net.forward(torch.from_numpy(parameters)[None], torch.from_numpy(z[i : i + SAMPLES])[None])
        pieces.append(activations[layer - 1][0].numpy())
    return np.concatenate(pieces) if pieces else np.zeros((0, net.sizes[layer - 1]))


def mean_squared_gradient(net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray) -> float:
    """Mean over samples of |dF/dw|^2."""
    return float(_slopes(net, parameters, model_of, z)[1].sum()) / max(len(z), 1)


def sample_gradient_norms(
    net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray, y: FloatArray
) -> FloatArray:
    """L2 norm (N,) of the gradient of each sample's squared error, 2 |F - y| |dF/dw|."""
    out, squared = _slopes(net, parameters, model_of, z)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(2 * np.abs(out - y) * np.sqrt(squared))


@torch.no_grad()
def _slopes(net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """F (N,) and |dF/dw|^2 (N,) of inputs z (N, p), sample i by network model_of[i]."""
    value, squared = np.empty(len(z)), np.empty(len(z))
    for m in np.unique(model_of):
        mine = np.flatnonzero(model_of == m)
        w = torch.from_numpy(parameters[m : m + 1])
        for i in range(0, len(mine), SAMPLES):
            block = mine[i : i + SAMPLES]
            out, activations, slopes = net.forward(w, torch.from_numpy(z[block])[None])
            deltas = net.deltas(w, slopes, torch.ones_like(out))
            value[block], squared[block] = out[0].numpy(), net.squared_norm(activations, deltas)[0].numpy()
    return value, squared


def first_layer_deltas(net: Mlp, parameters: FloatArray, z: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean (hidden,), over samples, of the gradient of a squared error in the biases of the first layer, and the sum
    of squared deviations from it (hidden,); parameters (d,).
    """
    memory = mlp_loops.scratch(net.sizes, len(z), np.float64)
    w, z, y = (np.ascontiguousarray(a, dtype=np.float64) for a in (parameters, z, y))
    return mlp_loops.first_layer_moments(w, z, y, _NO_MASK, _shape(net), memory)


def _shape(net: Mlp) -> Shape:
    """All layers, no bound of a sample's gradient."""
    return Shape(np.array(net.sizes), mlp_loops.ACTIVATIONS.index(net.activation), 0, np.inf, 0.0)

"""What a network answers, and its gradients at single samples: in double precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.networks import answer_loops, mlp_loops
from fl.networks.mlp import Mlp
from fl.networks.mlp_loops import Scratch, Shape
from netsim.units import FloatArray, IntArray

_NO_MASK = np.empty((0, 0))


def predict(net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray) -> FloatArray:
    """F (N,) of inputs z (N, p), sample i by network model_of[i]."""
    out, (shape, memory), (w, z) = np.empty(len(z)), _loops(net, len(z)), _double(parameters, z)
    for m in np.unique(model_of):
        answer_loops.values(w[m], z, np.flatnonzero(model_of == m), out, _NO_MASK, shape, memory)
    return out


def layer_inputs(net: Mlp, parameters: FloatArray, z: FloatArray, layer: int) -> FloatArray:
    """What layer `layer` (from 1) of the network parameters (d,) reads of inputs z (N, p), then 1: (N, inputs + 1)."""
    before = replace(net, sizes=(*net.sizes[:layer], 1))  # no hidden layer after it is computed
    out, (shape, memory) = np.ones((len(z), net.sizes[layer - 1] + 1)), _loops(before, len(z))
    w, z = _double(parameters, z)
    answer_loops.inputs(w, z, out, layer, _NO_MASK, shape, memory)
    return out


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
    import torch

    found, (w, z, y) = np.empty((len(z), parameters.shape[1])), _double(parameters, z, y)
    for m in np.unique(model_of):
        mine = np.flatnonzero(model_of == m)
        flat = torch.from_numpy(w[m : m + 1])
        out, activations, slopes = net.forward(flat, torch.from_numpy(z[mine])[None])
        deltas = net.deltas(flat, slopes, 2 * (out - torch.from_numpy(y[mine])))
        single = [[value[0][:, None] for value in values] for values in (activations, deltas)]
        found[mine] = net.gradient(*single).numpy()
    return found


def _slopes(net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """F (N,) and |dF/dw|^2 (N,) of inputs z (N, p), sample i by network model_of[i]."""
    (value, squared), (shape, memory), (w, z) = np.empty((2, len(z))), _loops(net, len(z)), _double(parameters, z)
    for m in np.unique(model_of):
        answer_loops.slopes(w[m], z, np.flatnonzero(model_of == m), value, squared, _NO_MASK, shape, memory)
    return value, squared


def first_layer_deltas(net: Mlp, parameters: FloatArray, z: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean (hidden,), over samples, of the gradient of a squared error in the biases of the first layer, and the sum
    of squared deviations from it (hidden,); parameters (d,).
    """
    (shape, memory), (w, z, y) = _loops(net, len(z)), _double(parameters, z, y)
    return answer_loops.first_layer_moments(w, z, y, _NO_MASK, shape, memory)


def _loops(net: Mlp, samples: int) -> tuple[Shape, Scratch]:
    """All layers, no bound of a sample's gradient; and memory for at most so many samples."""
    shape = Shape(np.array(net.sizes), mlp_loops.ACTIVATIONS.index(net.activation), 0, np.inf, 0.0)
    return shape, mlp_loops.scratch(net.sizes, samples, np.float64)


def _double(*arrays: FloatArray) -> tuple[FloatArray, ...]:
    return tuple(np.ascontiguousarray(a, dtype=np.float64) for a in arrays)

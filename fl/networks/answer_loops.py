"""What one fully connected network answers, and its gradients at single samples, compiled.

Samples come in groups whose activations stay in the cache, as in `fl.networks.mlp_loops`. `mask` is (0, 0): no dropout.
"""

from __future__ import annotations

import numpy as np

from fl.networks.base import CHUNK
from fl.networks.mlp_loops import Scratch, Shape, deltas, forward, squared_norm
from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray


@compiled
def values(
    w: FloatArray, z: FloatArray, chosen: IntArray, out: FloatArray, mask: FloatArray, shape: Shape, scratch: Scratch
) -> None:
    """Writes to out (N,) the outputs of the network w (d,) for the chosen ones of samples z (N, p)."""
    for at in range(0, len(chosen), CHUNK):
        here = chosen[at : at + CHUNK]
        forward(w, z, here, mask, 0, shape, scratch)
        for s in range(len(here)):
            out[here[s]] = scratch.residual[s]


@compiled
def slopes(
    w: FloatArray, z: FloatArray, chosen: IntArray, out: FloatArray, squared: FloatArray, mask: FloatArray,
    shape: Shape, scratch: Scratch,
) -> None:  # fmt: skip
    """The same, and |dF/dw|^2 of these samples to squared (N,)."""
    for at in range(0, len(chosen), CHUNK):
        here = chosen[at : at + CHUNK]
        forward(w, z, here, mask, 0, shape, scratch)
        for s in range(len(here)):
            out[here[s]] = scratch.residual[s]
            scratch.residual[s] = 1
        deltas(w, len(here), shape, scratch)
        for s in range(len(here)):
            squared[here[s]] = squared_norm(len(here), s, shape, scratch)


@compiled
def inputs(
    w: FloatArray, z: FloatArray, out: FloatArray, layer: int, mask: FloatArray, shape: Shape, scratch: Scratch
) -> None:
    """Writes to out (N, inputs + 1), before its last column, what layer `layer` (from 1) reads of samples z (N, p)."""
    units = out.shape[1] - 1
    for at in range(0, len(z), CHUNK):
        n = min(CHUNK, len(z) - at)
        forward(w, z, np.arange(at, at + n), mask, 0, shape, scratch)
        begin = n * np.sum(shape.sizes[: layer - 1])
        out[at : at + n, :units] = scratch.activations[begin : begin + n * units].reshape(n, units)


@compiled
def first_layer_moments(
    w: FloatArray, z: FloatArray, y: FloatArray, mask: FloatArray, shape: Shape, scratch: Scratch
) -> tuple[FloatArray, FloatArray]:
    """Mean over samples z (N, p), y (N,) of the gradient of a squared error in the biases of the first layer, and the
    sum of squared deviations from it; both (hidden,).

    Group by group: two groups of m and n samples together have the squares of both and d^2 m n / (m + n), where d is
    the difference of their means [Chan, Golub and LeVeque 1983, eq. 2.1].
    """
    b = shape.sizes[1]
    mean, squares = np.zeros(b), np.zeros(b)
    own, own_squares = np.zeros(b), np.zeros(b)
    for at in range(0, len(z), CHUNK):
        n = min(CHUNK, len(z) - at)
        forward(w, z, np.arange(at, at + n), mask, 0, shape, scratch)
        for s in range(n):
            scratch.residual[s] = 2 * (scratch.residual[s] - y[at + s])
        deltas(w, n, shape, scratch)
        delta = scratch.deltas[: n * b].reshape(n, b)
        own[:], own_squares[:] = 0, 0
        for s in range(n):
            for j in range(b):
                own[j] += delta[s, j]
        own /= n
        for s in range(n):
            for j in range(b):
                own_squares[j] += (delta[s, j] - own[j]) ** 2
        for j in range(b):
            apart = own[j] - mean[j]
            squares[j] += own_squares[j] + apart * apart * (at * n / (at + n))
            mean[j] += apart * (n / (at + n))
    return mean, squares

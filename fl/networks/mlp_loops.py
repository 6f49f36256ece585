"""Gradients of many fully connected networks, each on a batch of its own device, compiled.

One device follows another, so its weights, gradient and activations stay in the cache; matrix products are those of
BLAS, into memory that is used again. A batch may be of any size, also none: nothing is padded. Numbers are of the type
of the weights.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fl.networks.base import CHUNK
from netsim.compiled import compiled, compiled_sums
from netsim.elementary import expm1_below
from netsim.units import FloatArray, IntArray

ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")
RELU, ELU, TANH, SIGMOID = range(4)
"""activations of hidden layers, by name and by number"""
FEW = 8  # inputs up to which a loop is faster than BLAS


class Shape(NamedTuple):
    """Shape of all networks: units of each layer, the inputs first; the activation; layers that need no gradient; the
    largest norm of a sample's gradient, or infinity; and the share by which that norm may be misjudged.
    """

    sizes: IntArray
    activation: int
    frozen: int
    clip: float
    slack: float


class Batches(NamedTuple):
    """Which samples each device takes in step t, (k,) each: those of order[start:start + samples], counted from its
    `first` one, in batches of `size`, epoch by epoch.
    """

    order: IntArray
    start: IntArray
    first: IntArray
    samples: IntArray
    size: IntArray


class Scratch(NamedTuple):
    """Memory that is used again: activations and deltas of CHUNK samples, layer by layer; a layer's deltas and a
    layer's gradient; residuals and factors of samples.
    """

    activations: FloatArray
    deltas: FloatArray
    layer: FloatArray
    product: FloatArray
    residual: FloatArray


def scratch(sizes: tuple[int, ...], batch: int, number: Any) -> Scratch:
    """Memory for networks with layers of such sizes and batches of at most `batch` samples, of a type of number."""
    n, units, weights = min(batch, CHUNK), sum(sizes), sum((a + 1) * b for a, b in pairwise(sizes))
    return Scratch(*(np.empty(size, dtype=number) for size in (n * units, n * units, n * max(sizes), weights, n)))


@compiled
def gradients(
    w: FloatArray, g: FloatArray, z: FloatArray, y: FloatArray, masks: FloatArray, shape: Shape, batches: Batches,
    scratch: Scratch, t: int, loss: FloatArray,
) -> None:  # fmt: skip
    """Writes g (k, d) and loss (k,): gradients and values of the mean squared error of networks w (k, d), each on its
    batch t of samples z (N, p), y (N,). Every device has samples; entries of frozen layers are left alone.

    masks (k, B, hidden units) multiply activations; with B = 0 there are none.
    """
    for i in range(len(w)):
        size = batches.size[i]
        begin = (t % -(-batches.samples[i] // size)) * size
        n = min(size, batches.samples[i] - begin)
        loss[i] = 0.0
        for at in range(0, n, CHUNK):
            chosen = batches.order[batches.start[i] + begin + at :][: min(CHUNK, n - at)]
            forward(w[i], z[batches.first[i] :], chosen, masks[i], at, shape, scratch)
            for s in range(len(chosen)):
                residual = scratch.residual[s] - y[batches.first[i] + chosen[s]]
                loss[i] += np.float64(residual) * np.float64(residual) / n
                scratch.residual[s] = 2 * residual / n
            deltas(w[i], len(chosen), shape, scratch)
            if shape.clip < np.inf:
                _clip(len(chosen), shape.clip / n, shape, scratch)
            _products(g[i], len(chosen), at > 0, shape, scratch)


@compiled
def forward(
    w: FloatArray, z: FloatArray, chosen: IntArray, masks: FloatArray, at: int, shape: Shape, scratch: Scratch
) -> None:
    """Inputs and activations of samples, layer after layer; their slopes where deltas go; outputs to `residual`."""
    n, sizes = len(chosen), shape.sizes
    values = scratch.activations[: n * sizes[0]].reshape(n, sizes[0])
    for s in range(n):
        for i in range(sizes[0]):
            values[s, i] = z[chosen[s], i]
    own, unit, here = 0, 0, n * sizes[0]
    for layer in range(len(sizes) - 2):
        a, b = sizes[layer], sizes[layer + 1]
        weight, bias = w[own : own + a * b].reshape(a, b), w[own + a * b : own + (a + 1) * b]
        after = scratch.activations[here : here + n * b].reshape(n, b)
        slope = scratch.deltas[n * unit : n * (unit + b)].reshape(n, b)
        if a > FEW:
            np.dot(values, weight, after)
        else:
            for s in range(n):
                row = after[s]
                row[:] = 0
                for i in range(a):
                    x, of_input = values[s, i], weight[i]
                    for j in range(b):
                        row[j] += x * of_input[j]
        _activate(after, slope, bias, shape.activation)
        if len(masks):
            for s in range(n):
                for j in range(b):
                    after[s, j] *= masks[at + s, unit + j]
                    slope[s, j] *= masks[at + s, unit + j]
        own, unit, here, values = own + (a + 1) * b, unit + b, here + n * b, after
    np.dot(values, w[own : own + sizes[-2]], scratch.residual[:n])
    scratch.residual[:n] += w[-1]


@compiled
def _activate(value: FloatArray, slope: FloatArray, bias: FloatArray, activation: int) -> None:
    """Activation, in place, and slope (n, b) of value (n, b) + bias (b,). NaN passes."""
    n, b = value.shape
    one = value.dtype.type(1)
    zero = one - one
    for s in range(n):
        if activation == RELU:
            for j in range(b):
                v = value[s, j] + bias[j]
                value[s, j], slope[s, j] = (zero if v < zero else v), (one if v > zero else zero)
        elif activation == ELU:
            for j in range(b):
                v = value[s, j] + bias[j]
                less = expm1_below(zero if v > zero else v)
                value[s, j], slope[s, j] = (v if v > zero else less), less + one
        elif activation == TANH:
            for j in range(b):
                v = value[s, j] + bias[j]
                e = expm1_below(-abs(v + v))
                size = -e / (e + one + one)
                value[s, j], slope[s, j] = (size if v > zero else -size), one - size * size
        else:
            for j in range(b):
                v = value[s, j] + bias[j]
                e = expm1_below(-abs(v)) + one
                a = (one if v > zero else e) / (one + e)
                value[s, j], slope[s, j] = a, a * (one - a)


@compiled
def deltas(w: FloatArray, n: int, shape: Shape, scratch: Scratch) -> None:
    """Derivatives of the loss by what enters each hidden layer that is not frozen, in place of its slopes."""
    sizes = shape.sizes
    own, unit = len(w), np.sum(sizes[1:-1])  # of the layer after
    for layer in range(len(sizes) - 3, shape.frozen - 1, -1):
        b, c = sizes[layer + 1], sizes[layer + 2]
        own, unit = own - (b + 1) * c, unit - b
        delta = scratch.deltas[n * unit : n * (unit + b)].reshape(n, b)
        if layer == len(sizes) - 3:
            last = w[own : own + b]
            for s in range(n):
                row, x = delta[s], scratch.residual[s]
                for j in range(b):
                    row[j] *= x * last[j]
        else:
            next_ = scratch.deltas[n * (unit + b) : n * (unit + b + c)].reshape(n, c)
            back = scratch.layer[: n * b].reshape(n, b)
            np.dot(next_, w[own : own + b * c].reshape(b, c).T, back)
            for s in range(n):
                row, of_next = delta[s], back[s]
                for j in range(b):
                    row[j] *= of_next[j]


@compiled
def _clip(n: int, most: float, shape: Shape, scratch: Scratch) -> None:
    """Deltas scaled so that no sample's gradient is longer than `most`. One that is not finite counts as 0."""
    for s in range(n):
        size, limit = np.sqrt(squared_norm(n, s, shape, scratch)), most * (1.0 - shape.slack)
        if np.isfinite(size) and size <= limit:
            continue
        factor, unit = limit / size, 0
        for b in shape.sizes[1:-1]:
            delta = scratch.deltas[n * unit + s * b : n * unit + (s + 1) * b]
            for j in range(b):
                delta[j] = delta[j] * factor if np.isfinite(size) else 0.0
            unit += b
        scratch.residual[s] = scratch.residual[s] * factor if np.isfinite(size) else 0.0


@compiled
def squared_norm(n: int, s: int, shape: Shape, scratch: Scratch) -> float:
    """|dF/dw|^2 = sum_l |D_l|^2 (|a_{l-1}|^2 + 1) of sample s of n, without frozen layers; no gradient is formed."""
    sizes, squared, unit, here = shape.sizes, 0.0, 0, 0
    for layer in range(len(sizes) - 1):
        a, b = sizes[layer], sizes[layer + 1]
        if layer >= shape.frozen:
            before = _square(scratch.activations[here + s * a : here + (s + 1) * a]) + 1.0
            if layer == len(sizes) - 2:
                squared += _square(scratch.residual[s : s + 1]) * before
            else:
                squared += _square(scratch.deltas[n * unit + s * b : n * unit + (s + 1) * b]) * before
        unit, here = unit + b, here + n * a
    return squared


@compiled
def limit(g: FloatArray, loss: FloatArray, most: float) -> None:
    """Gradients g (k, d), each multiplied by min(1, most * loss / |g|^2), loss (k,); those within keep their bits."""
    for i in range(len(g)):
        squared = _square(g[i])
        if squared <= most * loss[i]:
            continue
        factor = g.dtype.type(most * loss[i] / squared)
        for j in range(g.shape[1]):
            g[i, j] *= factor


@compiled_sums
def _square(values: FloatArray) -> float:
    """Sum of squares, in double precision."""
    total = 0.0
    for v in values:
        total += np.float64(v) * np.float64(v)
    return total


@compiled
def _products(g: FloatArray, n: int, more: bool, shape: Shape, scratch: Scratch) -> None:
    """Sums over samples of the outer products of activations and deltas, to g (d,), or `more` of them added to it."""
    sizes = shape.sizes
    own, unit, here = 0, 0, 0
    for layer in range(len(sizes) - 1):
        a, b = sizes[layer], sizes[layer + 1]
        if layer >= shape.frozen:
            values = scratch.activations[here : here + n * a].reshape(n, a)
            into = scratch.product[: (a + 1) * b] if more else g[own : own + (a + 1) * b]
            if layer == len(sizes) - 2:
                residual = scratch.residual[:n]
                np.dot(residual, values, into[:a])
                into[a] = residual.sum()
            else:
                delta = scratch.deltas[n * unit : n * (unit + b)].reshape(n, b)
                weight, bias = into[: a * b].reshape(a, b), into[a * b :]
                if a > FEW:
                    np.dot(values.T, delta, weight)
                else:
                    weight[:] = 0
                    for s in range(n):
                        for i in range(a):
                            for j in range(b):
                                weight[i, j] += values[s, i] * delta[s, j]
                bias[:] = 0
                for s in range(n):
                    for j in range(b):
                        bias[j] += delta[s, j]
            if more:
                g[own : own + (a + 1) * b] += into
        own, unit, here = own + (a + 1) * b, unit + b, here + n * a

"""Local training of a cohort on the mean squared error.

Gradients are those of `fl.networks.mlp`, compiled: one UE follows another, so its weights and
activations stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fl.networks.mlp import Mlp
from fl.networks.training import Batches, Gradients, train_networks
from fl.optimisers import RegressionTraining
from fl.types import Local
from netsim.compiled import compiled
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")
_RELU, _ELU, _TANH = range(3)
# of weights and gradients that take turns: large enough that calls cost little
_BLOCK_BYTES = 2**22
POLYAK = 3.0
"""largest learning rate times |gradient|^2 over the loss of a batch: 1 / c of Loizou et al. with c
= 1/3"""


def train_regression(
    net: Mlp,
    start: FloatArray,
    data: Local,
    settings: RegressionTraining,
    rng: Rng,
    read: Callable[[Local], Local] = lambda d: d,
) -> FloatArray:
    """Updates, rows (n, d), as in `fl.networks.training.train_networks`.

    `read` makes of some rows of data those whose x (N, p) are the network's inputs, and y (N,) its
    targets: of a few UEs at a time, since inputs are many numbers.
    """
    n_numbers = 2 * net.n_parameters
    if settings.dropout:
        most = settings.compute_batch_sizes(data.count).max(initial=1)
        n_numbers += most * sum(net.sizes[1:-1])
    together = _BLOCK_BYTES // (settings.precision // 8 * n_numbers)

    def begin(rows: Local) -> _Regression:
        return _Regression(net, read(rows), settings, rng)

    first = start.astype(settings.dtype)
    return train_networks(first, data, settings, rng, together, begin)


class _Regression(Gradients):
    """Gradients of mean squared errors on data of k UEs, those with the most steps first."""

    def __init__(self, net: Mlp, data: Local, settings: RegressionTraining, rng: Rng) -> None:
        self.settings = settings
        self.rng = rng
        self.units = net.sizes[1:-1]
        self.row = data.row
        self.most = settings.compute_batch_sizes(data.count)[0]
        self.shape = _Shape.from_settings(net, settings, self.most)
        inputs = np.column_stack([data.x, np.ones(len(data.x))])
        self.x = inputs.astype(settings.dtype)
        self.y = np.asarray(data.y, dtype=settings.dtype)
        self.g = np.zeros((len(self.row), net.n_parameters), settings.dtype)
        self.loss = np.zeros(len(self.row))

    def compute(self, w: FloatArray, batches: Batches) -> FloatArray:
        k = len(w)
        g = self.g[:k]
        masks = self._draw_masks(batches)
        _write_gradients(w, g, self.x, self.y, masks, batches, self.shape, self.loss[:k])
        return g

    def limit(self, g: FloatArray) -> None:
        settings = self.settings
        g[:, : self.shape.first[settings.frozen_layers]] = 0.0
        if settings.step_limit == "polyak":
            _limit_steps(g, POLYAK / settings.learning_rate * self.loss[: len(g)])

    def _draw_masks(self, batches: Batches) -> FloatArray:
        """Inverted dropout masks (k, B, hidden units) of a batch of B samples at most; without
        dropout B is 0.
        """
        row = self.row[: len(batches.start)]
        dropout = self.settings.dropout
        if not dropout:
            return np.empty((len(row), 0, 0), dtype=self.settings.dtype)
        stream = f"dropout{batches.epoch}.{batches.start[0]}"
        unit = [
            self.rng.uniform(f"{stream}.{layer}", row, (self.most, units))
            for layer, units in enumerate(self.units)
        ]
        is_kept = np.concatenate(unit, axis=2) >= dropout
        return (is_kept / (1.0 - dropout)).astype(self.settings.dtype)


def _limit_steps(g: FloatArray, limit: FloatArray) -> None:
    """Multiplies gradients g (k, d) by min(1, most / |g|^2), most (k,); those within keep their
    bits.
    """
    # of several rows einsum adds up so many numbers at a time, of one row more
    parts = np.split(g, range(8192, g.shape[1], 8192), axis=1)
    squared = sum(np.einsum("kd,kd->k", part, part, dtype=float) for part in parts)
    steep = np.flatnonzero(squared > limit)
    g[steep] *= (limit[steep] / squared[steep]).astype(g.dtype)[:, None]


class _Shape(NamedTuple):
    """Units of each layer, the inputs first; where each layer's parameters begin; the activation;
    layers that need no gradient; and the largest norm of a sample's gradient, or infinity.
    """

    sizes: IntArray
    first: IntArray
    activation: int
    frozen: int
    clip: float

    @classmethod
    def from_settings(cls, net: Mlp, settings: RegressionTraining, batch: int) -> _Shape:
        """For batches of that many samples at most."""
        first = np.cumsum([0, *((a + 1) * b for a, b in pairwise(net.sizes))])
        # rounding of the norm, of the product and of the sum over a batch must not exceed the bound
        slack = (net.n_parameters + batch + 8) * float(np.finfo(settings.dtype).eps)
        clip = np.inf if settings.sample_clip is None else settings.sample_clip * (1.0 - slack)
        return cls(
            np.array(net.sizes),
            first,
            ACTIVATIONS.index(net.activation),
            settings.frozen_layers,
            clip,
        )


@compiled
def _write_gradients(
    w: FloatArray,
    g: FloatArray,
    z: FloatArray,
    y: FloatArray,
    masks: FloatArray,
    batches: Batches,
    shape: _Shape,
    loss: FloatArray,
) -> None:
    """Writes g (k, d) and loss (k,): gradients and values of the mean squared error of networks w
    (k, d), each on its batch of samples z (N, inputs + 1), whose last number is 1, and y (N,).
    Entries of frozen layers are left alone.

    masks (k, B, hidden units) multiply activations; with B = 0 there are none. Weights and biases
    of a layer are one matrix (in + 1, out).
    """
    for i in range(len(w)):
        chosen = batches.order[batches.start[i] : batches.end[i]]
        loss[i] = _write_gradient(w[i], g[i], z[chosen], y[chosen], masks[i], shape)


@compiled
def _write_gradient(
    w: FloatArray, g: FloatArray, x: FloatArray, y: FloatArray, masks: FloatArray, shape: _Shape
) -> float:
    """The same of one network w (d,) and its batch x (n, inputs + 1), y (n,); returns the loss."""
    n = len(x)
    last = len(shape.sizes) - 2
    unit = 0
    layers = [
        w[shape.first[i] : shape.first[i + 1]].reshape(-1, shape.sizes[i + 1])
        for i in range(last + 1)
    ]
    values = [x]
    deltas: list[FloatArray] = []
    for layer in layers[:last]:
        slope = np.dot(values[-1], layer)
        after = np.ones((n, slope.shape[1] + 1), w.dtype)
        _activate(slope, after, shape.activation)
        if len(masks):
            mask = masks[:n, unit : unit + slope.shape[1]]
            after[:, :-1] *= mask
            slope *= mask
            unit += slope.shape[1]
        values.append(after)
        deltas.append(slope)
    error = np.dot(values[last], layers[last])[:, 0] - y
    deltas.append((w.dtype.type(2.0 / n) * error).reshape(n, 1))
    for i in range(last, shape.frozen, -1):
        deltas[i - 1] *= np.dot(deltas[i], layers[i][:-1].T)
    if shape.clip < np.inf:
        _clip_deltas(values, deltas, shape)
    for i in range(shape.frozen, last + 1):
        gradient = g[shape.first[i] : shape.first[i + 1]].reshape(layers[i].shape)
        np.dot(values[i].T, deltas[i], gradient)
    return float(np.square(error).mean())


@compiled
def _activate(value: FloatArray, after: FloatArray, activation: int) -> None:
    """Writes activations of value (n, b) to after (n, b + 1) and their slopes to value. NaN
    passes.
    """
    unit = value.dtype.type(1)
    zero = unit - unit
    for s in range(len(value)):
        row = value[s]
        to = after[s]
        for j in range(len(row)):
            v = row[j]
            if activation == _RELU:
                to[j] = zero if v < zero else v
                row[j] = unit if v > zero else zero
            elif activation == _ELU:
                less = np.exp(zero if v > zero else v) - unit
                to[j] = v if v > zero else less
                row[j] = less + unit
            elif activation == _TANH:
                to[j] = np.tanh(v)
                row[j] = unit - to[j] * to[j]
            else:
                to[j] = unit / (unit + np.exp(-v))
                row[j] = to[j] * (unit - to[j])


@compiled
def _clip_deltas(values: list[FloatArray], deltas: list[FloatArray], shape: _Shape) -> None:
    """Deltas scaled so that no sample's gradient is longer than the clip. One that is not finite
    counts as 0.

    |dF/dw|^2 = sum_l |D_l|^2 (|a_{l-1}|^2 + 1), without frozen layers; no gradient is formed.
    """
    n = len(deltas[-1])
    for s in range(n):
        squared = 0.0
        for i in range(shape.frozen, len(deltas)):
            squared += np.square(deltas[i][s]).sum() * np.square(values[i][s]).sum()
        size = np.sqrt(squared)
        max_norm = shape.clip / n
        for i in range(shape.frozen, len(deltas)):
            if not np.isfinite(size):
                deltas[i][s] = 0.0
            elif size > max_norm:
                deltas[i][s] *= max_norm / size

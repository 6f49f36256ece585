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
from fl.optimisers import RegressionTraining, Sgd
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
    return train_networks(first, data, settings, together, begin)


class _Regression(Gradients):
    """Gradients of mean squared errors on data of k UEs, those with the most steps first."""

    def __init__(self, net: Mlp, data: Local, settings: RegressionTraining, rng: Rng) -> None:
        super().__init__(data, settings, rng)
        self.dropout = settings.dropout
        self.units = net.sizes[1:-1]
        self.samples = settings.compute_batch_sizes(data.count)[0]
        self.shape = _Shape.from_settings(net, settings, self.samples)
        inputs = np.column_stack([data.x, np.ones(len(data.x))])
        self.x = inputs.astype(settings.dtype)
        self.y = np.asarray(data.y, dtype=settings.dtype)
        self.g = np.zeros((len(data.ue), net.n_parameters), settings.dtype)
        self.loss = np.zeros(len(data.ue))

    def compute(self, w: FloatArray, batches: Batches) -> FloatArray:
        g = self.g[: len(w)]
        masks = self._draw_masks(batches)
        for i, slope in enumerate(g):
            chosen = batches.order[batches.start[i] : batches.end[i]]
            self.loss[i] = _write_gradient(
                w[i], slope, self.x[chosen], self.y[chosen], masks[i], self.shape
            )
        return g

    def limit(self, g: FloatArray) -> None:
        shape = self.shape
        g[:, : shape.first[shape.frozen]] = 0.0
        for row, loss in zip(g, self.loss, strict=False):
            _limit_step(row, shape.most * loss)

    def train(
        self, start: FloatArray, values: FloatArray, rows: IntArray, offset: FloatArray | None
    ) -> None:
        settings = self.settings
        changed = settings.proximal or settings.weight_decay or self.dropout
        if changed or type(settings.optimiser) is not Sgd:
            return super().train(start, values, rows, offset)
        data = self.data
        size = settings.compute_batch_sizes(data.count)
        rate = start.dtype.type(settings.learning_rate)
        orders = np.stack([self.draw_order(epoch) for epoch in range(settings.local_epochs)])
        _descend(
            start,
            values,
            rows,
            data.model,
            self.x,
            self.y,
            orders,
            data.ptr,
            size,
            rate,
            self.shape,
        )

    def _draw_masks(self, batches: Batches) -> FloatArray:
        """Inverted dropout masks (k, B, hidden units) of a batch of B samples at most; without
        dropout B is 0.
        """
        row = self.data.row[: len(batches.start)]
        if not self.dropout:
            return np.empty((len(row), 0, 0), dtype=self.settings.dtype)
        stream = f"dropout{batches.epoch}.{batches.start[0]}"
        unit = [
            self.rng.uniform(f"{stream}.{layer}", row, (self.samples, units))
            for layer, units in enumerate(self.units)
        ]
        is_kept = np.concatenate(unit, axis=2) >= self.dropout
        return (is_kept / (1.0 - self.dropout)).astype(self.settings.dtype)


@compiled
def _limit_step(g: FloatArray, most: float) -> None:
    """Multiplies a gradient g (d,) by min(1, most / |g|^2); one within keeps its bits."""
    if most < np.inf:
        wide = g.astype(np.float64)
        squared = np.dot(wide, wide)
        if squared > most:
            g *= g.dtype.type(most / squared)


class _Shape(NamedTuple):
    """Units of each layer, the inputs first; where each layer's parameters begin; the activation;
    layers that need no gradient; the largest norm of a sample's gradient; and the largest squared
    norm of a batch's over its loss, or infinity.
    """

    sizes: IntArray
    first: IntArray
    activation: int
    frozen: int
    clip: float
    most: float

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
            POLYAK / settings.learning_rate if settings.step_limit == "polyak" else np.inf,
        )


@compiled
def _descend(
    start: FloatArray,
    values: FloatArray,
    rows: IntArray,
    model: IntArray,
    z: FloatArray,
    y: FloatArray,
    orders: IntArray,
    ptr: IntArray,
    size: IntArray,
    rate: float,
    shape: _Shape,
) -> None:
    """Writes to values[rows] updates of plain gradient descent from start[model], in all epochs'
    orders (n, N): a UE ends before the next begins, so all that it needs stays in the cache.
    """
    masks = np.empty((0, 0), start.dtype)
    g = np.zeros(start.shape[1], start.dtype)
    for i in range(len(rows)):
        before = start[model[i]]
        w = before.copy()
        for order in orders:
            for first in range(ptr[i], ptr[i + 1], size[i]):
                chosen = order[first : min(first + size[i], ptr[i + 1])]
                loss = _write_gradient(w, g, z[chosen], y[chosen], masks, shape)
                _limit_step(g, shape.most * loss)
                for j in range(len(w)):
                    w[j] -= rate * g[j]
        row = values[rows[i]]
        for j in range(len(w)):
            row[j] = w[j] - before[j]


@compiled
def _write_gradient(
    w: FloatArray, g: FloatArray, x: FloatArray, y: FloatArray, masks: FloatArray, shape: _Shape
) -> float:
    """Writes g (d,), the gradient of the mean squared error of a network w (d,) on its batch x (n,
    inputs + 1), whose last number is 1, and y (n,); returns the error. Entries of frozen layers are
    left alone.

    masks (B, hidden units) multiply activations; with B = 0 there are none. Weights and biases of a
    layer are one matrix (in + 1, out).
    """
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

"""Local training of a cohort on the mean squared error.

Gradients are those of `fl.networks.mlp`, compiled: one UE follows another, so its weights and
activations stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
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
Layers = tuple[FloatArray, ...]
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

    return train_networks(start.astype(settings.dtype), data, settings, together, begin)


class _Regression(Gradients):
    """Gradients of mean squared errors on data of k UEs, those with the most steps first."""

    settings: RegressionTraining

    def __init__(self, net: Mlp, data: Local, settings: RegressionTraining, rng: Rng) -> None:
        super().__init__(data, settings, rng)
        dtype = settings.dtype
        self.sizes = settings.compute_batch_sizes(data.count)
        batch = self.sizes.max()
        inputs = np.add(net.sizes[:-1], 1)
        outputs = net.sizes[1:]
        both = np.zeros((2, net.n_parameters), dtype)
        parts = np.split(both, np.cumsum(inputs * outputs)[:-1], axis=1)
        # rounding of the norm, of the product and of the sum over a batch must not exceed the bound
        slack = (net.n_parameters + batch + 8) * float(np.finfo(dtype).eps)
        self.work = _Work(
            np.column_stack([data.x, np.ones(len(data.x))]).astype(dtype),
            np.asarray(data.y, dtype),
            ACTIVATIONS.index(net.activation),
            settings.frozen_layers,
            np.inf if settings.sample_clip is None else settings.sample_clip * (1.0 - slack),
            POLYAK / settings.learning_rate if settings.step_limit == "polyak" else np.inf,
            *both,
            *zip(*map(np.reshape, parts, [(2, a, -1) for a in inputs]), strict=True),
            *(
                tuple(np.ones((batch, size), dtype) for size in sizes)
                for sizes in (inputs, outputs, outputs, outputs)
            ),
        )

    def compute(self, w: FloatArray, batches: Batches) -> FloatArray:
        work = self.work
        dropout = self.settings.dropout
        masks = []  # of hidden layers (k, B, units), inverted
        for layer, mask in enumerate(work.masks[:-1] if dropout else ()):
            stream = f"dropout{batches.epoch}.{batches.step}.{layer}"
            unit = self.rng.uniform(stream, self.data.row[: len(w)], mask.shape)
            masks.append((unit >= dropout) / (1.0 - dropout))
        g = np.empty_like(w)
        self.loss = np.empty(len(w))
        for i, now in enumerate(w):
            for mask, drawn in zip(work.masks, masks, strict=False):
                mask[:] = drawn[i]
            work.w[:] = now
            self.loss[i] = _write_gradient(batches.order[batches.start[i] : batches.end[i]], work)
            g[i] = work.g
        return g

    def limit(self, g: FloatArray) -> None:
        work = self.work
        g[:, : sum(layer.size for layer in work.layers[: work.frozen])] = 0.0
        for row, loss in zip(g, self.loss, strict=True):
            _limit_step(row, work.most * loss)

    def train(
        self, start: FloatArray, values: FloatArray, rows: IntArray, offset: FloatArray | None
    ) -> None:
        settings = self.settings
        if (
            settings.proximal
            or settings.weight_decay
            or settings.dropout
            or type(settings.optimiser) is not Sgd
        ):
            return super().train(start, values, rows, offset)
        _descend(
            start,
            values,
            rows,
            self.data.model,
            np.stack([self.draw_order(epoch) for epoch in range(settings.local_epochs)]),
            self.data.ptr,
            self.sizes,
            start.dtype.type(settings.learning_rate),
            self.work,
        )


@compiled
def _limit_step(g: FloatArray, most: float) -> None:
    """Multiplies a gradient g (d,) by min(1, most / |g|^2); one within keeps its bits."""
    if most < np.inf:
        wide = g.astype(np.float64)
        squared = np.dot(wide, wide)
        if squared > most:
            g *= g.dtype.type(most / squared)


class _Work(NamedTuple):
    """What gradients are computed from and in.

    Inputs x (N, p + 1), whose last number is 1, and targets y (N,) of all samples; the activation;
    layers that need no gradient; the largest norm of a sample's gradient; and the largest squared
    norm of a batch's over its loss, or infinity. A network w (d,) and its gradient g (d,). Of every
    layer: views of these two (in + 1, out); its inputs (B, in + 1) of a batch of B samples at most;
    and of its units (B, out) sums, then slopes, dropout masks, and deltas.
    """

    x: FloatArray
    y: FloatArray
    activation: int
    frozen: int
    clip: float
    most: float
    w: FloatArray
    g: FloatArray
    layers: Layers
    gradients: Layers
    values: Layers
    slopes: Layers
    masks: Layers
    deltas: Layers


@compiled
def _descend(
    start: FloatArray,
    values: FloatArray,
    rows: IntArray,
    model: IntArray,
    orders: IntArray,
    ptr: IntArray,
    size: IntArray,
    rate: float,
    work: _Work,
) -> None:
    """Writes to values[rows] updates of plain gradient descent from start[model], in all epochs'
    orders (n, N): a UE ends before the next begins, so all that it needs stays in the cache.
    """
    w = work.w
    for i in range(len(rows)):
        before = start[model[i]]
        for j in range(len(w)):
            w[j] = before[j]
        for order in orders:
            for first in range(ptr[i], ptr[i + 1], size[i]):
                chosen = order[first : min(first + size[i], ptr[i + 1])]
                loss = _write_gradient(chosen, work)
                _limit_step(work.g, work.most * loss)
                for j in range(len(w)):
                    w[j] -= rate * work.g[j]
        row = values[rows[i]]
        for j in range(len(w)):
            row[j] = w[j] - before[j]


@compiled
def _write_gradient(chosen: IntArray, work: _Work) -> float:
    """Writes work.g, the gradient of the mean squared error of the network work.w on its batch,
    samples chosen (n,); returns the error. Entries of frozen layers are left alone.
    """
    n = len(chosen)
    last = len(work.layers) - 1
    value = work.values[0][:n]
    for s in range(n):
        for j in range(value.shape[1]):
            value[s, j] = work.x[chosen[s], j]
    for i in range(last + 1):
        slope = work.slopes[i][:n]
        np.dot(value, work.layers[i], slope)
        if i < last:
            value = work.values[i + 1][:n]
            _activate(slope, value, work.masks[i], work.activation)
    double = value.dtype.type(2.0 / n)
    total = double - double
    for s in range(n):
        error = work.slopes[last][s, 0] - work.y[chosen[s]]
        total += error * error
        work.deltas[last][s, 0] = double * error
    for i in range(last, work.frozen, -1):
        slope = work.slopes[i - 1]
        delta = work.deltas[i - 1][:n]
        np.dot(work.deltas[i][:n], work.layers[i][:-1].T, delta)
        for s in range(n):
            for j in range(delta.shape[1]):
                delta[s, j] *= slope[s, j]
    if work.clip < np.inf:
        _clip_deltas(n, work)
    for i in range(work.frozen, last + 1):
        np.dot(work.values[i][:n].T, work.deltas[i][:n], work.gradients[i])
    return float(value.dtype.type(total / n))


@compiled
def _activate(value: FloatArray, after: FloatArray, masks: FloatArray, activation: int) -> None:
    """Writes activations of value (n, b) to after (n, b + 1) and their slopes to value, both times
    masks (B, b). NaN passes.
    """
    unit = value.dtype.type(1)
    zero = unit - unit
    for s in range(len(value)):
        row = value[s]
        to = after[s]
        mask = masks[s]
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
        for j in range(len(row)):
            to[j] *= mask[j]
            row[j] *= mask[j]


@compiled
def _clip_deltas(n: int, work: _Work) -> None:
    """Deltas of n samples scaled so that no sample's gradient is longer than the clip. One that is
    not finite counts as 0.

    |dF/dw|^2 = sum_l |D_l|^2 (|a_{l-1}|^2 + 1), without frozen layers; no gradient is formed.
    """
    free = range(work.frozen, len(work.deltas))
    for s in range(n):
        squared = 0.0
        for i in free:
            squared += np.square(work.deltas[i][s]).sum() * np.square(work.values[i][s]).sum()
        share = min(1.0, work.clip / n / np.sqrt(squared))
        for i in free:
            row = work.deltas[i][s]
            for j in range(len(row)):
                row[j] = row[j] * share if squared < np.inf else 0.0

"""Local training of a cohort on the mean squared error.

A device takes exactly its own steps, whatever others hold: one that has no more leaves the
computation. Gradients are those of `fl.networks.mlp`, compiled: one device follows another, so its
weights and activations stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from fl.networks.mlp import Mlp
from fl.optimisers import Optimiser, Sgd, compute_batch_sizes, order_by_steps
from fl.types import DenseUpdates, Local
from netsim.columns import split_blocks
from netsim.compiled import compiled
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")
_RELU, _ELU, _TANH = range(3)
# of weights and gradients that take turns: large enough that calls cost little
_BLOCK_BYTES = 2**22
_SGD = Sgd()
POLYAK = 3.0
"""largest learning rate times |gradient|^2 over the loss of a batch: 1 / c of Loizou et al. with c
= 1/3"""


@dataclass(frozen=True)
class SgdSettings:
    """Local training settings: step size, mini-batch (the word all: full batch, or a share of the
    device's samples), epochs, dropout.

    sample_clip is the largest L2 norm of one sample's gradient in the mean of a batch; None leaves
    them as they are. proximal is mu of the term mu/2 |w - w_before|^2 that is added to the loss;
    weight_decay times the weights is added to every gradient; the first `frozen_layers` layers keep
    their weights. Weights, activations and gradients have `precision` bits. With polyak no step is
    longer than that of Polyak's.
    """

    learning_rate: float
    batch_size: int | Literal["all"]
    local_epochs: int
    dropout: float
    sample_clip: float | None = None
    optimiser: Optimiser = _SGD
    proximal: float = 0.0
    frozen_layers: int = 0
    precision: Literal[32, 64] = 64
    polyak: bool = False
    weight_decay: float = 0.0
    batch_share: float | None = None

    @property
    def dtype(self) -> Any:
        """The type of all numbers."""
        if self.precision == 32:
            return np.float32
        return np.float64

    def compute_batch_sizes(self, count: IntArray) -> IntArray:
        """Samples of a full mini-batch of devices with count (n,) samples."""
        return compute_batch_sizes(count, self.batch_size, self.batch_share)


def train_regression(
    net: Mlp,
    start: FloatArray,
    data: Local,
    settings: SgdSettings,
    rng: Rng,
    read: Callable[[Local], Local] = lambda d: d,
) -> DenseUpdates:
    """Updates u = w_after - w_before, rows (n, d), of local SGD from start[data.model] (n_model,
    d).

    `read` makes of some rows of data those whose x (N, p) are the network's inputs, and y (N,) its
    targets: of a few devices at a time, since inputs are many numbers. A row that overflows stays
    non-finite: the round replaces and counts it. A device without samples sends zeros.
    """
    values = np.zeros((len(data.ue), net.n_parameters))
    first = start.astype(settings.dtype)
    if settings.dropout:
        masks = settings.compute_batch_sizes(data.count).max(initial=1) * sum(net.sizes[1:-1])
    else:
        masks = 0
    n_numbers = 2 * net.n_parameters + masks
    together = max(1, _BLOCK_BYTES // (settings.precision // 8 * n_numbers))
    ordered = order_by_steps(data.count, settings.compute_batch_sizes(data.count))
    for rows in (ordered[block] for block in split_blocks(len(ordered), together)):
        before = first[data.model[rows]]
        local = read(data.select(rows))
        inputs = np.column_stack([local.x, np.ones(len(local.x))]).astype(settings.dtype)
        samples = replace(local, x=inputs, y=np.asarray(local.y, dtype=settings.dtype))
        values[rows] = _train(net, before, samples, settings, rng) - before
    return DenseUpdates(data.ue, data.model, data.count.astype(float), values)


def _train(
    net: Mlp, before: FloatArray, data: Local, settings: SgdSettings, rng: Rng
) -> FloatArray:
    """Networks (k, d) after training from before (k, d) on data of k devices, those with the most
    steps first.
    """
    w = before.copy()
    g = np.zeros_like(before)
    loss = np.zeros(len(before))
    memory = settings.optimiser.start(w)
    count = data.count
    owner = data.row
    size = settings.compute_batch_sizes(count)
    y = np.asarray(data.y)
    steps = -(-count // size)
    shape = _Shape.from_settings(net, settings, size[0])
    for epoch in range(settings.local_epochs):
        order = np.arange(len(data.x))
        if settings.batch_size != "all" or settings.batch_share not in (None, 1):
            order = rng.draw_orders(f"order{epoch}m", owner, count) + np.repeat(
                data.ptr[:-1], count
            )
        for step in range(steps[0]):
            k = np.count_nonzero(steps > step)
            taken = step * size[:k]
            start = data.ptr[:k] + taken
            end = data.ptr[:k] + np.minimum(taken + size[:k], count[:k])
            batches = _Batches(order, start, end)
            masks = np.empty((k, 0, 0), dtype=settings.dtype)
            if settings.dropout:
                masks = _draw_masks(
                    net, settings, f"dropout{epoch}.{taken[0]}", owner[:k], size[0], rng
                )
            _write_gradients(w[:k], g[:k], data.x, y, masks, batches, shape, loss)
            if settings.proximal:
                g[:k] += settings.proximal * (w[:k] - before[:k])
            if settings.weight_decay:
                g[:k] += settings.weight_decay * w[:k]
                g[:k, : shape.first[settings.frozen_layers]] = 0.0
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # a device that overflows stays non-finite
                if settings.polyak:
                    _limit_steps(g[:k], POLYAK / settings.learning_rate * loss[:k])
                t = epoch * steps[:k, None] + step + 1
                moments = [m[:k] for m in memory]
                settings.optimiser.step(w[:k], g[:k], moments, settings.learning_rate, t)
    return w


def _draw_masks(
    net: Mlp, settings: SgdSettings, stream: str, owner: IntArray, max_samples: int, rng: Rng
) -> FloatArray:
    """Inverted dropout masks (k, most, hidden units) of a batch of most samples at most."""
    unit = [
        rng.uniform(f"{stream}.{layer}", owner, (max_samples, units))
        for layer, units in enumerate(net.sizes[1:-1])
    ]
    is_kept = np.concatenate(unit, axis=2) >= settings.dropout
    return (is_kept / (1.0 - settings.dropout)).astype(settings.dtype)


def _limit_steps(g: FloatArray, limit: FloatArray) -> None:
    """Multiplies gradients g (k, d) by min(1, most / |g|^2), most (k,); those within keep their
    bits.
    """
    squared = np.einsum("kd,kd->k", g, g, dtype=float)
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
    def from_settings(cls, net: Mlp, settings: SgdSettings, batch: int) -> _Shape:
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


class _Batches(NamedTuple):
    """Samples of each device: order[start:end], start and end (k,)."""

    order: IntArray
    start: IntArray
    end: IntArray


@compiled
def _write_gradients(
    w: FloatArray,
    g: FloatArray,
    z: FloatArray,
    y: FloatArray,
    masks: FloatArray,
    batches: _Batches,
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

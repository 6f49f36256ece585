"""Local training of a cohort on the mean squared error.

A device takes exactly its own steps, whatever others hold: devices are ordered by the number of their steps, and one
that has no more leaves the computation. Cohorts are cut into blocks whose networks stay in a processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from fl.networks import mlp_loops
from fl.networks.mlp import Mlp
from fl.networks.mlp_loops import Batches, Scratch, Shape
from fl.optimisers.base import Optimiser
from fl.optimisers.sgd import Sgd
from fl.types import DenseUpdates, Local
from netsim.columns import row_id
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_BLOCK_BYTES = 2**22  # of weights and gradients that take turns: large enough that calls cost little
_SGD = Sgd()
POLYAK = 3.0
"""largest learning rate times |gradient|^2 over the loss of a batch: 1 / c of Loizou et al. with c = 1/3"""


@dataclass(frozen=True)
class SgdSettings:
    """Local training settings: step size, mini-batch (the word all: full batch), epochs, dropout.

    sample_clip is the largest L2 norm of one sample's gradient in the mean of a batch; None leaves them as they are.
    proximal is mu of the term mu/2 |w - w_before|^2 that is added to the loss; weight_decay times the weights is added
    to every gradient; the first `frozen_layers` layers keep their weights.
    Weights, activations and gradients have `precision` bits. With polyak no step is longer than that of Polyak's.
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

    @property
    def number(self) -> Any:
        """The type of all numbers."""
        return np.float32 if self.precision == 32 else np.float64

    def batch(self, count: IntArray) -> IntArray:
        """Samples of a full mini-batch of devices with count (n,) samples."""
        return count if self.batch_size == "all" else np.minimum(count, self.batch_size)

    def steps(self, count: IntArray) -> IntArray:
        """Steps of an epoch (n,); 0 without samples."""
        return -(-count // np.maximum(self.batch(count), 1))


def train_regression(net: Mlp, start: FloatArray, data: Local, how: SgdSettings, rng: Rng) -> DenseUpdates:
    """Updates u = w_after - w_before, rows (n, d), of local SGD from start[data.model] (n_model, d).

    data.x (N, p) are the network's inputs, data.y (N,) its targets. A row that overflows stays non-finite:
    the round replaces and counts it. A device without samples sends zeros.
    """
    values = np.zeros((len(data.ue), net.n_parameters))
    z, y, before = (np.ascontiguousarray(a, dtype=how.number) for a in (data.x, data.y, start))
    scratch = mlp_loops.scratch(net.sizes, int(how.batch(data.count).max(initial=1)), how.number)
    for rows in _blocks(net, data, how):
        block = _DevicesInStep(net, before[data.model[rows]], data, rows, how, rng)
        values[rows] = block.train(z, y, scratch)
    return DenseUpdates(data.ue, data.model, data.count.astype(np.float64), values)


def _blocks(net: Mlp, data: Local, how: SgdSettings) -> list[IntArray]:
    """Rows that have samples, those with the most steps first, in blocks that fit the cache."""
    steps = how.steps(data.count)
    rows = np.argsort(-steps, kind="stable")[: np.count_nonzero(steps)]
    masks = int(how.batch(data.count).max(initial=1)) * sum(net.sizes[1:-1]) if how.dropout else 0
    size = max(1, _BLOCK_BYTES // (how.precision // 8 * (2 * net.n_parameters + masks)))
    return [rows[i : i + size] for i in range(0, len(rows), size)]


class _DevicesInStep:
    """Networks of some devices in step with each other: before (k, d), those with the most steps first."""

    def __init__(self, net: Mlp, before: FloatArray, data: Local, rows: IntArray, how: SgdSettings, rng: Rng) -> None:
        self.net, self.before, self.how, self.rng = net, before, how, rng
        self.id, self.count = row_id(data.ue[rows], data.model[rows]), data.count[rows]
        self.steps, size = how.steps(self.count), how.batch(self.count)
        self.ptr = np.concatenate([[0], np.cumsum(self.count)])
        order = np.arange(self.ptr[-1]) - np.repeat(self.ptr[:-1], self.count)
        self.batches = Batches(order, self.ptr[:-1], data.ptr[rows], self.count, size)
        self.largest = int(size.max())
        eps = float(np.finfo(how.number).eps)
        self.shape = Shape(
            np.array(net.sizes), mlp_loops.ACTIVATIONS.index(net.activation), how.frozen_layers,
            np.inf if how.sample_clip is None else how.sample_clip,
            # rounding of the norm, of the product and of the sum over a batch must not exceed the bound
            (net.n_parameters + self.largest + 8) * eps,
        )  # fmt: skip

    def train(self, z: FloatArray, y: FloatArray, scratch: Scratch) -> FloatArray:
        """Updates (k, d) of training on samples z (N, p), y (N,)."""
        how, w, g = self.how, self.before.copy(), np.zeros_like(self.before)
        memory, left = how.optimiser.start(w), (how.local_epochs * self.steps).tolist()
        k, parts, loss = len(w), self._parts([w, g, *memory]), np.zeros(len(w))
        for t in range(left[0]):
            if left[k - 1] <= t:  # the last ones have taken all their steps
                k = int(np.count_nonzero(np.array(left) > t))
                parts = self._parts([array[:k] for array in (w, g, *memory)])
            epoch, step = np.divmod(t, self.steps[:k])
            self._shuffle(epoch, step)
            masks = self._masks(epoch, step)
            mlp_loops.gradients(w[:k], g[:k], z, y, masks, self.shape, self.batches, scratch, t, loss)
            if how.proximal:
                g[:k] += how.proximal * (w[:k] - self.before[:k])
            if how.weight_decay:
                g[:k] += how.weight_decay * w[:k]
            if how.polyak:
                mlp_loops.limit(g[:k], loss, POLYAK / how.learning_rate)
            with np.errstate(over="ignore", invalid="ignore"):  # a device that overflows stays non-finite
                for weights, slopes, *own in parts:
                    how.optimiser.step(weights, slopes, own, how.learning_rate, t + 1)
        return w - self.before

    def _parts(self, arrays: list[FloatArray]) -> list[list[FloatArray]]:
        """Views without frozen layers whose rows are contiguous, all networks at once or one after the other."""
        first = sum((a + 1) * b for a, b in list(pairwise(self.net.sizes))[: self.how.frozen_layers])
        if first == 0:
            return [arrays]
        return [[array[i : i + 1, first:] for array in arrays] for i in range(len(arrays[0]))]

    def _shuffle(self, epoch: IntArray, step: IntArray) -> None:
        """A fresh uniform order of the samples of each device that begins an epoch, unless one batch takes all."""
        if self.how.batch_size == "all" or step.all():
            return
        for e, a, b in _runs(epoch, step == 0):
            self.batches.order[self.ptr[a] : self.ptr[b]] = self.rng.orders(f"order{e}m", self.id[a:b], self.count[a:b])

    def _masks(self, epoch: IntArray, step: IntArray) -> FloatArray:
        """Inverted dropout masks of all hidden layers (k, largest batch, units); (k, 0, 0) for none."""
        hidden, how = self.net.sizes[1:-1], self.how
        if how.dropout == 0:
            return np.empty((len(epoch), 0, 0), dtype=how.number)
        masks = np.empty((len(epoch), self.largest, sum(hidden)), dtype=how.number)
        for s in np.unique(step).tolist():
            for e, a, b in _runs(epoch, step == s):
                first, at = 0 if how.batch_size == "all" else s * how.batch_size, 0
                for layer, units in enumerate(hidden):
                    unit = self.rng.uniform(f"dropout{e}.{first}.{layer}", self.id[a:b], (self.largest, units))
                    masks[a:b, :, at : at + units] = (unit >= how.dropout) / (1.0 - how.dropout)
                    at += units
        return masks


def _runs(value: IntArray, which: BoolArray) -> list[tuple[int, int, int]]:
    """(value, first, end) of each run of equal values at the places that are chosen."""
    at = np.flatnonzero(which)
    if len(at) == 0:
        return []
    if len(at) == len(value) and (value == value[0]).all():
        return [(int(value[0]), 0, len(value))]
    cut = np.flatnonzero((np.diff(at) > 1) | (np.diff(value[at]) != 0)) + 1
    return [(int(value[run[0]]), int(run[0]), int(run[-1]) + 1) for run in np.split(at, cut)]

"""Local training of a cohort on the mean squared error, in stacked computations.

Devices differ in how much data they hold; short ones are padded and masked, so every device takes exactly its
own steps. Cohorts are cut into blocks that fit a fixed amount of memory. Where devices take many steps, each is a block
of its own if its network is large (its weights then stay in the cache from step to step, and nothing is padded), or if
a step without samples would move it (memory of an optimiser, a proximal term).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fl.networks.mlp import Mlp
from fl.optimisers.base import Optimiser
from fl.optimisers.sgd import Sgd
from fl.types import DenseUpdates, Local
from netsim.rng import Rng
from netsim.row_id import row_id
from netsim.units import FloatArray, IntArray

_BLOCK_BYTES = 192 * 2**20
_LARGE = 16_384  # parameters from which a network fills a cache better than a processor waits for Python
_SGD = Sgd()
_SAMPLES = 2048  # that are worked on at once: what a network makes of them stays in the cache
_LONG = 4096  # of a batch beyond which its samples are


@dataclass(frozen=True)
class SgdSettings:
    """How a device trains: step size, mini-batch (the word all: full batch), epochs, dropout.

    sample_clip is the largest L2 norm of one sample's gradient in the mean of a batch; None leaves them as they are.
    proximal is mu of the term mu/2 |w - w_before|^2 that is added to the loss; so many first layers are frozen.
    """

    learning_rate: float
    batch_size: int | Literal["all"]
    local_epochs: int
    dropout: float
    sample_clip: float | None = None
    optimiser: Optimiser = _SGD
    proximal: float = 0.0
    frozen_layers: int = 0

    @property
    def moves_without_samples(self) -> bool:
        """Whether a step with a gradient of zero would change weights."""
        return self.proximal > 0 or self.optimiser.kind_name() != "sgd"


def train_regression(net: Mlp, start: FloatArray, data: Local, how: SgdSettings, rng: Rng) -> DenseUpdates:
    """Updates u = w_after - w_before, rows (n, d), of local SGD from start[data.model] (n_model, d).

    data.x (N, p) are the network's inputs, data.y (N,) its targets. A row that overflows stays non-finite:
    the round replaces and counts it.
    """
    values = np.empty((len(data.ue), net.n_parameters))
    for rows in _blocks(net, data, how):
        values[rows] = _train_block(net, start, data, rows, how, rng)
    return DenseUpdates(data.ue, data.model, data.count.astype(np.float64), values)


def _blocks(net: Mlp, data: Local, how: SgdSettings) -> list[IntArray]:
    """Row indices in blocks whose stacked parameters and activations fit the memory budget."""
    if how.batch_size != "all" and (net.n_parameters >= _LARGE or how.moves_without_samples):
        return [np.array([i]) for i in range(len(data.ue))]
    longest = int(data.count.max(initial=1))
    batch = longest if how.batch_size == "all" else min(how.batch_size, longest)
    per_row = 8 * (3 * net.n_parameters + 4 * batch * sum(net.sizes) + 4 * longest)
    size = max(1, _BLOCK_BYTES // per_row)
    return [np.arange(i, min(i + size, len(data.ue))) for i in range(0, len(data.ue), size)]


def _pad(data: Local, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Sample index (k, L), and count (k,), of the rows; slots past the count point at sample 0 of the data."""
    count = data.count[rows]
    slot = np.arange(int(count.max(initial=1)))
    index = data.ptr[rows][:, None] + slot
    return np.where(slot < count[:, None], index, 0), count


@torch.no_grad()
def _train_block(net: Mlp, start: FloatArray, data: Local, rows: IntArray, how: SgdSettings, rng: Rng) -> FloatArray:
    index, count = _pad(data, rows)
    z, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    before = torch.from_numpy(start[data.model[rows]])
    w = before.clone()
    weights, anchors = (_flat(net.unpack(rows_)[how.frozen_layers :]) for rows_ in (w, before))
    memory, longest, t = how.optimiser.start(weights), index.shape[1], 0
    batch = longest if how.batch_size == "all" else min(how.batch_size, longest)
    for epoch in range(how.local_epochs):
        # shuffled even where one batch holds all: a device's order must not hang on what others hold
        order = index if how.batch_size == "all" else _order(index, count, data, rows, epoch, rng)
        for first in range(0, longest, batch):
            t += 1
            chosen = torch.from_numpy(order[:, first : first + batch])
            slot = np.arange(first, min(first + batch, longest))
            live = torch.from_numpy((slot < count[:, None]).astype(np.float64))
            masks = _masks(net, how, data, rows, epoch, first, chosen.shape[1], rng)
            gradients = _gradient(net, w, _alive(z[chosen], live), y[chosen], live, masks, how)
            if how.proximal:
                for g, now, anchor in zip(gradients, weights, anchors, strict=True):
                    g.add_(now - anchor, alpha=how.proximal)
            how.optimiser.step(weights, gradients, memory, how.learning_rate, t)
    return (w - before).numpy()


def _flat(layers: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    return [tensor for pair in layers for tensor in pair]


def _alive(z: Tensor, live: Tensor) -> Tensor:
    """Inputs (k, B, p), zero in slots that are padded: these show somebody else."""
    return z if live.all() else torch.where(live.unsqueeze(-1) > 0, z, 0.0)


def _gradient(
    net: Mlp, w: Tensor, z: Tensor, y: Tensor, live: Tensor, masks: list[Tensor] | None, how: SgdSettings
) -> list[Tensor]:
    """Gradients dW (k, in, out), db (k, 1, out) of the mean squared error over each row's live samples, by layer.

    They are 0 for a row without samples; frozen layers have none. Those of a long batch are summed part by part.
    """
    n = live.sum(dim=1, keepdim=True).clamp(min=1.0)
    if z.shape[1] <= _LONG or masks is not None:
        return _part_gradient(net, w, z, y, live, n, masks, how)
    total = list[Tensor]()
    for some_z, some_y, some_live in zip(*(torch.split(t, _SAMPLES, dim=1) for t in (z, y, live)), strict=True):
        more = _part_gradient(net, w, some_z, some_y, some_live, n, None, how)
        total = [a.add_(b) for a, b in zip(total, more, strict=True)] if total else more
    return total


def _part_gradient(
    net: Mlp, w: Tensor, z: Tensor, y: Tensor, live: Tensor, n: Tensor, masks: list[Tensor] | None, how: SgdSettings
) -> list[Tensor]:
    """The share of some samples in `_gradient`; n (k, 1): live samples of the whole batch."""
    out, activations, slopes = net.forward(w, z, masks)
    residual = torch.where(live > 0, 2.0 * (out - y) / n, torch.zeros_like(out))
    deltas = net.deltas(w, slopes, residual, how.frozen_layers)
    activations = activations[how.frozen_layers :]
    if how.sample_clip is not None:
        deltas = _clipped(net, activations, deltas, how.sample_clip / n)
    return _flat(net.gradients(activations, deltas))


def _clipped(net: Mlp, activations: list[Tensor], deltas: list[Tensor], most: Tensor) -> list[Tensor]:
    """Deltas (k, B, out) scaled so that no sample's gradient is longer than `most` (k, 1); no gradient is formed.

    A sample whose gradient is not finite counts as 0, so the bound holds for whatever was measured.
    """
    size = net.squared_norm(activations, deltas).sqrt()  # (k, B)
    # rounding of the norm, of the product and of the sum over a batch must not exceed the bound
    limit = most * (1.0 - (net.n_parameters + size.shape[1] + 8) * np.finfo(np.float64).eps)
    factor = torch.where(size > limit, limit / size, 1.0)
    good = torch.isfinite(size).unsqueeze(-1)
    return [torch.where(good, delta * factor.unsqueeze(-1), 0.0) for delta in deltas]


def _order(index: IntArray, count: IntArray, data: Local, rows: IntArray, epoch: int, rng: Rng) -> IntArray:
    """A fresh uniform order of each row's own samples, padding last."""
    keys = rng.uniform(f"order{epoch}m", row_id(data.ue[rows], data.model[rows]), (index.shape[1],))
    keys[np.arange(index.shape[1]) >= count[:, None]] = 2.0
    return np.take_along_axis(index, np.argsort(keys, axis=1, kind="stable"), axis=1)


def _masks(
    net: Mlp, how: SgdSettings, data: Local, rows: IntArray, epoch: int, first: int, batch: int, rng: Rng
) -> list[Tensor] | None:
    """Inverted dropout masks of the hidden layers (k, batch, units), or None."""
    if how.dropout == 0:
        return None
    masks = []
    for layer, units in enumerate(net.sizes[1:-1]):
        unit = rng.uniform(f"dropout{epoch}.{first}.{layer}", row_id(data.ue[rows], data.model[rows]), (batch, units))
        masks.append(torch.from_numpy((unit >= how.dropout) / (1.0 - how.dropout)))
    return masks


@torch.no_grad()
def predict(net: Mlp, parameters: FloatArray, model_of: IntArray, z: FloatArray) -> FloatArray:
    """F (N,) of inputs z (N, p), sample i by network model_of[i]."""
    out = np.empty(len(z))
    for m in np.unique(model_of):
        mine = np.flatnonzero(model_of == m)
        w = torch.from_numpy(parameters[m : m + 1])
        for i in range(0, len(mine), _SAMPLES):
            block = mine[i : i + _SAMPLES]
            out[block] = net.values(w, torch.from_numpy(z[block])[None])[0].numpy()
    return out


@torch.no_grad()
def layer_inputs(net: Mlp, parameters: FloatArray, z: FloatArray, layer: int) -> FloatArray:
    """What layer `layer` (from 1) of the network parameters (d,) reads of inputs z (N, p): (N, inputs)."""
    pieces = []
    for i in range(0, len(z), _SAMPLES):
        _, activations, _ = net.forward(torch.from_numpy(parameters)[None], torch.from_numpy(z[i : i + _SAMPLES])[None])
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
        for i in range(0, len(mine), _SAMPLES):
            block = mine[i : i + _SAMPLES]
            out, activations, slopes = net.forward(w, torch.from_numpy(z[block])[None])
            deltas = net.deltas(w, slopes, torch.ones_like(out))
            value[block], squared[block] = out[0].numpy(), net.squared_norm(activations, deltas)[0].numpy()
    return value, squared


@torch.no_grad()
def first_layer_deltas(net: Mlp, parameters: FloatArray, z: FloatArray, y: FloatArray) -> FloatArray:
    """Gradient (n, hidden) of each sample's squared error in the biases of the first layer; parameters (d,)."""
    w, delta = torch.from_numpy(parameters)[None], np.empty((len(z), net.sizes[1]))
    for first in range(0, len(z), _SAMPLES):
        some = slice(first, first + _SAMPLES)
        out, _, slopes = net.forward(w, torch.from_numpy(z[some])[None])
        delta[some] = net.deltas(w, slopes, 2.0 * (out - torch.from_numpy(y[some])[None]))[0][0].numpy()
    return delta

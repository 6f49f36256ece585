"""Local training of a cohort of classifiers: plain SGD on the cross-entropy.

Devices that a network trains together are one stacked computation: short ones are padded and masked, so every device
takes exactly its own steps. Gradients come from torch, of a sum over devices in which no term touches another's
weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fl.networks.base import Network
from fl.types import DenseUpdates, ImageFormat, Local
from netsim.columns import row_id
from netsim.errors import BadInput
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_BLOCK_BYTES = 192 * 2**20
_SAMPLES = 2000  # scored together: batch normalisation takes its statistics from them
Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class DeviceSteps:
    """Local training settings: step size, share of its images in a mini-batch, passes over them.

    sample_clip is the largest L2 norm of one image's gradient in the mean of a batch; None leaves them as they are.
    Weights, activations and gradients have `precision` bits.
    """

    learning_rate: float
    batch_share: float
    local_epochs: int
    sample_clip: float | None = None
    precision: Literal[32, 64] = 32

    @property
    def number(self) -> torch.dtype:
        """The type of all numbers."""
        return torch.float32 if self.precision == 32 else torch.float64

    def batch(self, count: IntArray) -> IntArray:
        """Images of a mini-batch (n,) of devices with count (n,) images, one at least."""
        return np.asarray(np.maximum(np.ceil(self.batch_share * count - 1e-9), 1).astype(np.int64))


def train_classification(
    net: Network, image: ImageFormat, start: FloatArray, data: Local, how: DeviceSteps, where: Device, rng: Rng
) -> DenseUpdates:
    """Updates u = w_after - w_before, rows (n, d), of local SGD from start[data.model] (n_model, d).

    data.x (N, pixels) are bytes, data.y (N,) classes. A row that overflows stays non-finite.
    """
    n, d = len(data.ue), net.n_parameters(image)
    values, place = np.empty((n, d)), device(where)
    of_image = 8 * image.height * image.width + (0 if how.sample_clip is None else 4 * d)
    per_row = how.precision // 8 * (4 * d + int(how.batch(data.count).max(initial=1)) * of_image)
    size = max(1, min(net.together, _BLOCK_BYTES // per_row))
    x = torch.from_numpy(data.x).to(place)
    y = torch.from_numpy(np.zeros(len(data.x)) if data.y is None else data.y).long().to(place)
    for i in range(0, n, size):
        rows = np.arange(i, min(i + size, n))
        before = torch.from_numpy(start[data.model[rows]]).to(place, how.number)
        after = _trained(net, image, before, x, y, data, rows, how, rng)
        values[rows] = (after - before).double().cpu().numpy()
    return DenseUpdates(data.ue, data.model, data.count.astype(np.float64), values)


def device(where: Device) -> torch.device:
    """Where to compute: `auto` is the graphics card if torch sees one."""
    there = torch.cuda.is_available()
    if where == "cuda" and not there:
        raise BadInput("learning.learner.device: torch sees no graphics card here; take auto or cpu")
    return torch.device(("cuda" if there else "cpu") if where == "auto" else where)


def _trained(
    net: Network,
    image: ImageFormat,
    before: Tensor,
    x: Tensor,
    y: Tensor,
    data: Local,
    rows: IntArray,
    how: DeviceSteps,
    rng: Rng,
) -> Tensor:
    """Weights (k, d) of the rows after all their steps."""
    w, count = before, data.count[rows]
    batch = how.batch(count)
    steps = -(-count // batch)
    for epoch in range(how.local_epochs):
        order = _order(data, rows, epoch, rng)
        for step in range(int(steps.max(initial=0))):
            slot = step * batch[:, None] + np.arange(int(np.minimum(batch, count - step * batch).max()))
            use = (slot < np.minimum((step + 1) * batch, count)[:, None]).astype(np.float32)
            chosen = np.take_along_axis(order, np.minimum(slot, order.shape[1] - 1), axis=1)
            at, live = torch.from_numpy(chosen).to(x.device), torch.from_numpy(use).to(x.device, w.dtype)
            pixels = _pixels(x[at], image, w.dtype)
            w = w - how.learning_rate * _gradient(net, image, w, pixels, y[at], live, how.sample_clip)
    return w


def _pixels(x: Tensor, image: ImageFormat, number: torch.dtype = torch.float32) -> Tensor:
    """Bytes (..., pixels) as images (..., height, width) in [0, 1]."""
    return (x.to(number) / 255.0).view(*x.shape[:-1], image.height, image.width)


def _gradient(
    net: Network, image: ImageFormat, w: Tensor, x: Tensor, y: Tensor, live: Tensor, sample_clip: float | None
) -> Tensor:
    """Gradient rows (k, d) of each row's mean cross-entropy over its live images; 0 where there are none."""
    if sample_clip is not None:
        (k, n), d = live.shape, w.shape[1]
        single = w.detach().repeat_interleave(n, dim=0)  # (k n, d): a network for each image
        each = _gradient(net, image, single, x.flatten(0, 1)[:, None], y.view(-1, 1), live.view(-1, 1), None)
        each = each * (sample_clip / each.norm(dim=1, keepdim=True).clamp(min=sample_clip))
        mean: Tensor = each.view(k, n, d).sum(dim=1) / live.sum(dim=1, keepdim=True).clamp(min=1.0)
        return mean
    flat = w.detach().requires_grad_()
    logits = net.forward(net.unpack(flat, image), x, live)  # (k, B, classes)
    losses = functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view_as(live)
    mean = (losses * live).sum(dim=1) / live.sum(dim=1).clamp(min=1.0)
    return torch.autograd.grad(mean.sum(), flat)[0]


def image_gradients(
    net: Network,
    image: ImageFormat,
    parameters: FloatArray,
    model_of: IntArray,
    x: FloatArray,
    y: FloatArray,
    where: Device,
) -> FloatArray:
    """Gradient (N, d) of the cross-entropy of each image x (N, pixels), y (N,), in double precision."""
    found, place = np.empty((len(x), parameters.shape[1])), device(where)
    for i in range(0, len(x), _SAMPLES):
        block = slice(i, i + _SAMPLES)
        w = torch.from_numpy(parameters[model_of[block]]).to(place)
        pixels = _pixels(torch.from_numpy(x[block]).to(place), image, w.dtype)[:, None]
        truth = torch.from_numpy(y[block]).long().to(place)[:, None]
        live = torch.ones(len(w), 1, dtype=w.dtype, device=place)
        found[block] = _gradient(net, image, w, pixels, truth, live, None).cpu().numpy()
    return found


def _order(data: Local, rows: IntArray, epoch: int, rng: Rng) -> IntArray:
    """Sample indices (k, L) of each row in a fresh uniform order, padding last."""
    count = data.count[rows]
    longest = int(count.max(initial=1))
    keys = rng.uniform(f"order{epoch}", row_id(data.ue[rows], data.model[rows]), (longest,))
    keys[np.arange(longest) >= count[:, None]] = 2.0
    order = np.argsort(keys, axis=1, kind="stable")
    return data.ptr[rows][:, None] + np.minimum(order, np.maximum(count[:, None] - 1, 0))


@torch.no_grad()
def scored(
    net: Network,
    image: ImageFormat,
    parameters: FloatArray,
    model_of: IntArray,
    x: FloatArray,
    y: FloatArray,
    where: Device,
) -> tuple[FloatArray, BoolArray]:
    """Cross-entropy (N,) in nats, and whether the likeliest class is the right one (N,), of images x (N, pixels)."""
    loss, right, place = np.empty(len(x)), np.zeros(len(x), dtype=np.bool_), device(where)
    for m in np.unique(model_of):
        mine = np.flatnonzero(model_of == m)
        weights = net.unpack(torch.from_numpy(parameters[m : m + 1]).float().to(place), image)
        for i in range(0, len(mine), _SAMPLES):
            block = mine[i : i + _SAMPLES]
            pixels = _pixels(torch.from_numpy(x[block]).to(place), image)[None]
            logits = net.forward(weights, pixels, torch.ones(1, len(block), device=place))[0]
            truth = torch.from_numpy(y[block]).long().to(place)
            loss[block] = functional.cross_entropy(logits, truth, reduction="none").double().cpu().numpy()
            right[block] = (logits.argmax(dim=1) == truth).cpu().numpy()
    return loss, right

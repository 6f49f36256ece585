"""Local training of a cohort of classifiers: plain SGD on the cross-entropy.

Devices that a network trains together are one stacked computation: short ones are padded and
masked, so every device takes exactly its own steps. Gradients come from torch, of a sum over
devices in which no term touches another's weights.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fl.networks.classifiers import Network
from fl.types import DenseUpdates, Local, SampleFormat
from netsim.columns import split_blocks
from netsim.errors import BadInput
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_BLOCK_BYTES = 192 * 2**20
_SAMPLES = 2000  # scored together: batch normalisation takes its statistics from them
Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class ClassificationSettings:
    """Local training settings: step size, share of its images in a mini-batch, passes over them.

    sample_clip is the largest L2 norm of one image's gradient in the mean of a batch; None leaves
    them as they are. Weights, activations and gradients have `precision` bits; clipped gradients
    are cut and added up in 64.
    """

    learning_rate: float
    batch_share: float
    local_epochs: int
    sample_clip: float | None = None
    precision: Literal[32, 64] = 32

    def compute_batch_sizes(self, count: IntArray) -> IntArray:
        """Images of a mini-batch (n,) of devices with count (n,) images, one at least."""
        return np.maximum(np.ceil(self.batch_share * count - 1e-9), 1).astype(int)


def choose_device(word: Device) -> torch.device:
    """Where to compute: `auto` is the graphics card if torch sees one."""
    has_gpu = torch.cuda.is_available()
    if word == "cuda" and not has_gpu:
        raise BadInput(
            "learning.learner.device: torch sees no graphics card here; take auto or cpu"
        )
    if word == "auto":
        word = "cuda" if has_gpu else "cpu"
    return torch.device(word)


@dataclass(frozen=True)
class Classifier:
    """A network for images of one format, bytes x (N, pixels) of classes y (N,), computed at one
    place.
    """

    net: Network
    image: SampleFormat
    place: torch.device

    def train(
        self, start: FloatArray, data: Local, settings: ClassificationSettings, rng: Rng
    ) -> DenseUpdates:
        """Updates u = w_after - w_before, rows (n, d), of local SGD from start[data.model]
        (n_model, d).

        A row that overflows stays non-finite.
        """
        n = len(data.ue)
        d = self.net.count_parameters(self.image)
        per_image = 8 * self.image.shape[-2] * self.image.shape[-1]
        if settings.sample_clip is not None:
            per_image += 4 * d
        n_images = settings.compute_batch_sizes(data.count).max(initial=1)
        per_row = settings.precision // 8 * (4 * d + n_images * per_image)
        together = max(1, min(self.net.n_together, _BLOCK_BYTES // per_row))
        values = np.empty((n, d))
        number = torch.float32 if settings.precision == 32 else torch.float64
        for rows in (np.arange(n)[block] for block in split_blocks(n, together)):
            before = torch.from_numpy(start[data.model[rows]]).to(self.place, number)
            after = self._train_weights(before, data.select(rows), settings, rng)
            values[rows] = (after - before).double().cpu().numpy()
        return DenseUpdates(data.ue, data.model, data.count.astype(float), values)

    def compute_image_gradients(
        self, parameters: FloatArray, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        """Gradient (N, d) of the cross-entropy of each image under its model, in double
        precision.
        """
        gradients = np.empty((len(x), parameters.shape[1]))
        for block in split_blocks(len(x), _SAMPLES):
            w = torch.from_numpy(parameters[model_of[block]]).to(self.place)
            live = torch.ones(len(w), 1, dtype=w.dtype, device=self.place)
            pixels = self._to_pixels(x[block, None], w.dtype)
            gradient = self._compute_gradient(w, pixels, self._to_classes(y[block, None]), live)
            gradients[block] = gradient.cpu().numpy()
        return gradients

    @torch.no_grad()
    def compute_losses_and_hits(
        self, parameters: FloatArray, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, BoolArray]:
        """Cross-entropy (N,) in nats, and whether the likeliest class is the right one (N,)."""
        loss = np.empty(len(x))
        right = np.zeros(len(x), bool)
        for m in np.unique(model_of):
            of_model = np.flatnonzero(model_of == m)
            w = torch.from_numpy(parameters[m : m + 1]).float().to(self.place)
            for block in (of_model[part] for part in split_blocks(len(of_model), _SAMPLES)):
                live = torch.ones(1, len(block), device=self.place)
                logits = self._compute_logits(w, self._to_pixels(x[None, block], w.dtype), live)[0]
                truth = self._to_classes(y[block])
                loss[block] = (
                    functional.cross_entropy(logits, truth, reduction="none").double().cpu().numpy()
                )
                right[block] = (logits.argmax(dim=1) == truth).cpu().numpy()
        return loss, right

    def _train_weights(
        self, w: Tensor, data: Local, settings: ClassificationSettings, rng: Rng
    ) -> Tensor:
        """Weights (k, d) of k devices after all their steps."""
        count = data.count
        owner = data.row
        batch = settings.compute_batch_sizes(count)
        steps = -(-count // batch)
        number = w.dtype
        for epoch in range(settings.local_epochs):
            order = rng.draw_orders(f"order{epoch}", owner, count) + np.repeat(data.ptr[:-1], count)
            for step in range(steps.max(initial=0)):
                n = np.clip(count - step * batch, 0, batch)
                slot = np.arange(n.max())
                use = slot < n[:, None]
                start = (data.ptr[:-1] + step * batch)[:, None]
                index = order[np.where(use, start + slot, 0)]
                live = torch.from_numpy(use).to(self.place, number)
                y = self._to_classes(np.zeros(index.shape) if data.y is None else data.y[index])
                pixels = self._to_pixels(data.x[index], number)
                gradient = self._compute_gradient(w, pixels, y, live, settings.sample_clip)
                w = w - settings.learning_rate * gradient
        return w

    def _compute_gradient(
        self, w: Tensor, x: Tensor, y: Tensor, live: Tensor, sample_clip: float | None = None
    ) -> Tensor:
        """Gradient rows (k, d) of each row's mean cross-entropy over its live images; 0 where there
        are none.
        """
        k, n = live.shape
        if sample_clip is not None:
            single = w.to(x.dtype).repeat_interleave(n, dim=0)  # (k n, d): a network for each image
            gradients = self._compute_gradient(
                single, x.flatten(0, 1)[:, None], y.view(-1, 1), live.view(-1, 1)
            )
            clipped = torch.stack(
                [_sum_clipped(gradient, sample_clip) for gradient in gradients.view(k, n, -1)]
            )
            return clipped / live.sum(dim=1, keepdim=True).clamp(min=1.0)
        flat = w.detach().requires_grad_()
        logits = self._compute_logits(flat, x, live)
        losses = functional.cross_entropy(
            logits.flatten(0, 1), y.flatten(), reduction="none"
        ).view_as(live)
        mean = (losses * live).sum(dim=1) / live.sum(dim=1).clamp(min=1.0)
        return torch.autograd.grad(mean.sum(), flat)[0]

    def _compute_logits(self, w: Tensor, x: Tensor, live: Tensor) -> Tensor:
        """(k, B, classes) of images (k, B, height, width)."""
        return self.net.forward(self.net.unpack(w, self.image), x, live)

    def _to_pixels(self, x: FloatArray, number: torch.dtype) -> Tensor:
        """Bytes (..., pixels) as images (..., height, width) in [0, 1]."""
        pixels = torch.from_numpy(x).to(self.place, number) / 255.0
        return pixels.view(*x.shape[:-1], self.image.shape[-2], self.image.shape[-1])

    def _to_classes(self, y: FloatArray) -> Tensor:
        return torch.from_numpy(y).long().to(self.place)


def _sum_clipped(gradient: Tensor, clip: float) -> Tensor:
    """Sum (d,) in double precision of gradients (n, d), each cut to norm clip. Numbers that are not
    finite are 0.
    """
    gradients = gradient.nan_to_num_().double()
    # rounding of the norm and of the sum, of a million numbers, must not exceed the bound
    max_norm = 0.999999999 * clip
    return max_norm / torch.linalg.vector_norm(gradients, dim=1).clamp(min=max_norm) @ gradients

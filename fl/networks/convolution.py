"""Convolution and 2x2 max pooling in one, with their gradients, compiled.

Channels stand last, so a window of the image is a few long runs of memory. An image's windows are copied to the rows of
a matrix that stays in the cache, and one product with the kernels gives all channels. A pooled number depends on one
window alone, so gradients follow a quarter of the windows. PyTorch's convolutions are made for more channels than ten
or twenty, and its pooling takes a third of the time of a small CNN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray

_RUN = 32  # numbers that loops take at a time


def pooled_convolution(h: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """The largest of every 2 x 2 numbers of the convolution of h (B, rows, columns, C), without padding.

    kernel (O, C, K, K), bias (O,); the result is (B, (rows - K + 1) // 2, (columns - K + 1) // 2, O): an odd last row
    or column is left out.
    """
    if h.device.type != "cpu":
        wide = torch.nn.functional.conv2d(h.permute(0, 3, 1, 2), kernel, bias)
        return torch.nn.functional.max_pool2d(wide, 2).permute(0, 2, 3, 1)
    pooled: Tensor = _Pooled.apply(h, kernel, bias)  # type: ignore[no-untyped-call]
    return pooled


class _Pooled(torch.autograd.Function):
    """The gradient goes to the first of the largest numbers."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
        rows = kernel.detach().permute(0, 2, 3, 1).flatten(1)  # (O, K K C), as windows lie
        wide = torch.nn.functional.pad(rows, (0, -rows.shape[1] % _RUN))
        image = h.detach().contiguous().numpy()
        most, ctx.which = _forward(image, wide.T.contiguous().numpy(), bias.detach().numpy(), kernel.shape[2])
        ctx.image, ctx.wide, ctx.shape = image, wide.contiguous().numpy(), kernel.shape
        return torch.from_numpy(most)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        g, (o, c, k, _), through = gradients[0].contiguous(), ctx.shape, bool(ctx.needs_input_grad[0])
        to_image, to_kernel = _backward(ctx.image, ctx.wide, g.numpy(), ctx.which, k, through)
        kernel = torch.from_numpy(to_kernel)[:, : k * k * c].view(o, k, k, c).permute(0, 3, 1, 2)
        return torch.from_numpy(to_image) if through else None, kernel, g.sum(dim=(0, 1, 2))


@compiled
def _windows(image: FloatArray, into: FloatArray, line: FloatArray, columns: int, size: int) -> None:
    """Row r * columns + c of `into` (P + 1, W) is the window of the image (rows, columns, C) at (r, c), then zeros.

    Runs are copied in multiples of _RUN: what is too much is overwritten by what follows.
    `line` is memory for the image and a run more.
    """
    n, c_, wide = image.size, image.shape[2], image.shape[1] * image.shape[2]
    line[:n] = image.reshape(n)
    run, flat, width = size * c_, into.reshape(into.size), into.shape[1]
    whole = -(-run // _RUN) * _RUN
    for r in range((len(into) - 1) // columns):
        for c in range(columns):
            for i in range(size):
                target = flat[(r * columns + c) * width + i * run :]  # loops over a view have no index to check
                source = line[(r + i) * wide + c * c_ :]
                for j in range(whole):
                    target[j] = source[j]
            behind = flat[(r * columns + c) * width + size * run :]
            for j in range(width - size * run):
                behind[j] = 0


@compiled
def _forward(image: FloatArray, kernel: FloatArray, bias: FloatArray, size: int) -> tuple[FloatArray, IntArray]:
    """Largest numbers (B, R, S, O), and which of four: 0 1 above 2 3. kernel (W, O). NaN passes."""
    n, o, width = len(image), len(bias), len(kernel)
    rows, columns = (image.shape[1] - size + 1) // 2, (image.shape[2] - size + 1) // 2
    most = np.empty((n, rows, columns, o), image.dtype)
    which = np.empty((n, rows, columns, o), np.int32)
    window, line = _memory(image, 4 * rows * columns, width, size)
    whole = np.empty((4 * rows * columns, o), image.dtype)
    for b in range(n):
        _windows(image[b], window, line, 2 * columns, size)
        np.dot(window[: len(whole)], kernel, whole)
        for r in range(rows):
            for c in range(columns):
                at = 4 * r * columns + 2 * c
                for j in range(o):
                    value, found = whole[at, j], np.int32(0)
                    other = whole[at + 1, j]
                    if other > value or other != other:
                        value, found = other, np.int32(1)
                    other = whole[at + 2 * columns, j]
                    if other > value or other != other:
                        value, found = other, np.int32(2)
                    other = whole[at + 2 * columns + 1, j]
                    if other > value or other != other:
                        value, found = other, np.int32(3)
                    most[b, r, c, j], which[b, r, c, j] = value + bias[j], found
    return most, which


@compiled
def _memory(image: FloatArray, places: int, width: int, size: int) -> tuple[FloatArray, FloatArray]:
    """Windows (places + 1, width), and a line of an image, as `_windows` writes to them."""
    more = size * image.shape[3] + _RUN
    window = np.zeros((places + 1 + more // width, width), image.dtype)
    return window[: places + 1], np.zeros(image.shape[1] * image.shape[2] * image.shape[3] + more, image.dtype)


@compiled
def _backward(
    image: FloatArray, kernel: FloatArray, gradient: FloatArray, which: IntArray, size: int, through: bool
) -> tuple[FloatArray, FloatArray]:
    """Gradients in the images (B, rows, columns, C), none unless `through`, and in the kernels (O, W)."""
    n, rows, columns, o = gradient.shape
    width = kernel.shape[1]
    to_image = np.zeros(image.shape if through else (0, 0, 0, 0), image.dtype)
    to_kernel = np.zeros(kernel.shape, image.dtype)
    window, line = _memory(image, 4 * rows * columns, width, size)
    back = np.empty((4 * rows * columns, width), image.dtype)
    for b in range(n):
        _windows(image[b], window, line, 2 * columns, size)
        if through:
            back[:] = 0
        for r in range(rows):
            for c in range(columns):
                for j in range(o):
                    g, w = gradient[b, r, c, j], which[b, r, c, j]
                    at = (2 * r + w // 2) * 2 * columns + 2 * c + w % 2
                    for i in range(width):
                        to_kernel[j, i] += g * window[at, i]
                    if through:
                        for i in range(width):
                            back[at, i] += g * kernel[j, i]
        if through:
            _put_back(back, to_image[b], 2 * columns, size)
    return to_image, to_kernel


@compiled
def _put_back(windows: FloatArray, image: FloatArray, columns: int, size: int) -> None:
    """Adds windows (P, W) to the places of the image (rows, columns, C) that `_windows` takes them from."""
    channels, wide = image.shape[2], image.shape[1] * image.shape[2]
    run, flat = size * channels, image.reshape(image.size)
    for r in range(len(windows) // columns):
        for c in range(columns):
            for i in range(size):
                target = flat[(r + i) * wide + c * channels :]
                source = windows[r * columns + c, i * run :]
                for m in range(run):
                    target[m] += source[m]

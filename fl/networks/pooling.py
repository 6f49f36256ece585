"""Max pooling of 2 x 2 squares on a processor.

Torch keeps a place of each square as 64 bits and looks squares up one by one, which takes a third
of the time of a network with two convolutions. The largest of equal numbers is the first, row by
row.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray


def pool_max(x: Tensor) -> Tensor:
    """The largest number of each 2 x 2 square of x (B, C, rows, columns): (B, C, rows // 2, columns
    // 2).
    """
    if x.is_cuda:
        return torch.nn.functional.max_pool2d(x, 2)
    return _Pooling.apply(x)  # type: ignore[no-untyped-call]


class _Pooling(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        largest, ctx.place = _find_largest(x.contiguous().numpy().reshape(-1, *x.shape[2:]))
        return torch.from_numpy(largest).view(*x.shape[:2], *largest.shape[1:])

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> Tensor:
        gradient = grad[0].contiguous().numpy().reshape(ctx.place.shape)
        spread = _scatter_gradients(gradient, ctx.place, *ctx.shape[2:])
        return torch.from_numpy(spread).view(ctx.shape)


@compiled
def _find_largest(x: FloatArray) -> tuple[FloatArray, IntArray]:
    """The largest number of each square of images x (n, rows, columns), and its place in the
    square: 0 to 3.
    """
    n = len(x)
    rows = x.shape[1] // 2
    columns = x.shape[2] // 2
    largest = np.empty((n, rows, columns), x.dtype)
    place = np.empty((n, rows, columns), np.uint8)
    for i in range(n):
        for r in range(rows):
            for c in range(columns):
                maximum = x[i, 2 * r, 2 * c]
                index = 0
                for p in range(1, 4):
                    value = x[i, 2 * r + p // 2, 2 * c + p % 2]
                    if value > maximum or value != value:  # what is not a number stays
                        maximum = value
                        index = p
                largest[i, r, c] = maximum
                place[i, r, c] = index
    return largest, place


@compiled
def _scatter_gradients(grad: FloatArray, place: IntArray, rows: int, columns: int) -> FloatArray:
    """Gradients (n, rows // 2, columns // 2) at the places of the largest numbers: (n, rows,
    columns).
    """
    out = np.zeros((len(grad), rows, columns), grad.dtype)
    for i in range(len(grad)):
        for r in range(grad.shape[1]):
            for c in range(grad.shape[2]):
                p = place[i, r, c]
                out[i, 2 * r + p // 2, 2 * c + p % 2] = grad[i, r, c]
    return out

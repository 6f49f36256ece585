r"""Wide Gaussians of motion: products with few singular vectors.

A Gaussian that ends inside the area is the same from both ends of an axis, G(i, j) = G(i', j') with i' = n-1-i, so that
the even part of a map stays even along it, and the odd part odd. With h = ceil(n / 2),

    even_i = p_i + p_i',   odd_i = p_i - p_i'   (i < h; in the middle p_i and 0),
    (p G)_j = E_j + O_j,   (p G)_j' = E_j - O_j,   E = even (G_ij + G_ij') / 2,   O = odd (G_ij - G_ij') / 2,

which halves the work along y. Along x the products after it are small.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fl.tracking.maps import Maps, folded
from netsim.units import Float32Array, FloatArray

_RANK = 3e-7  # of the largest singular value
_ROUND = 8  # numbers that the processor handles at once

Matrix = Float32Array


@dataclass(frozen=True)
class Axis:
    """A matrix (n, n) along one axis, into @ out, with into (n, r) and out (r, n)."""

    into: Matrix
    out: Matrix

    @classmethod
    def of(cls, matrix: FloatArray) -> Axis:
        """The matrix, by its singular vectors."""
        u, s, v = np.linalg.svd(matrix)
        rank = -(-_rank(s) // _ROUND) * _ROUND
        return cls((u[:, :rank] * s[:rank]).astype(np.float32), v[:rank].astype(np.float32))

    @property
    def transposed(self) -> Axis:
        """The transposed matrix."""
        return Axis(np.ascontiguousarray(self.out.T), np.ascontiguousarray(self.into.T))


@dataclass(frozen=True)
class Halves:
    """A matrix that is the same from both ends of an axis, into @ out of its even and its odd part: into (2, h, r) and
    out (2, r, h).
    """

    into: Matrix
    out: Matrix

    @classmethod
    def of(cls, matrix: FloatArray) -> Halves:
        """The parts of a matrix (n, n), by their singular vectors."""
        half = (len(matrix) + 1) // 2
        near, far = matrix[:half, :half], matrix[:half, ::-1][:, :half]
        u, s, v = np.linalg.svd(np.stack([near + far, near - far]) / 2)
        rank = _rank(s)
        return cls((u[:, :, :rank] * s[:, None, :rank]).astype(np.float32), v[:, :rank].astype(np.float32))

    @property
    def transposed(self) -> Halves:
        """The transposed matrix."""
        return Halves(_swapped(self.out), _swapped(self.into))


@dataclass(frozen=True)
class Wide:
    """Gaussians along both axes, of which the ranks of all are R = sum of r_y: into_y (2, R, h) and out_y (2, h, R), x
    of each, and the rows of each among 2 R, in which even and odd ones take turns; whole_y (ny, 2 R) : what into_y
    reads of maps that are not folded.
    """

    into_y: Matrix
    out_y: Matrix
    whole_y: Matrix
    x: list[Axis]
    rows: list[slice]

    @classmethod
    def of(cls, kernels: list[tuple[Halves, Axis]], ny: int) -> Wide:
        """Products of Gaussians along y and x."""
        ends = 2 * np.cumsum([0, *(y.out.shape[1] for y, _ in kernels)])
        none = np.zeros((2, (ny + 1) // 2, 0), dtype=np.float32)
        into = np.concatenate([none, *(y.into for y, _ in kernels)], axis=2)
        out = np.concatenate([none, *(_swapped(y.out) for y, _ in kernels)], axis=2)
        signs = np.array([[[1]], [[-1]]], dtype=np.float32)
        whole = np.concatenate([into, (signs * into)[:, : ny // 2][:, ::-1]], axis=1)  # (2, ny, R)
        whole[1, ny // 2 : (ny + 1) // 2] = 0.0  # nothing is odd in the middle
        whole_y = np.ascontiguousarray(whole.transpose(1, 2, 0).reshape(ny, -1))
        rows = [slice(a, b) for a, b in pairwise(ends.tolist())]
        return cls(_swapped(into), out, whole_y, [x for _, x in kernels], rows)

    def parts(self, p: Maps) -> list[Maps]:
        """Parts that each reads of maps (n_ue, ny, nx): (n_ue, 2 r_y, r_x)."""
        if not self.x:
            return []
        read = np.empty((len(p), self.into_y.shape[1], 2, p.shape[2]), dtype=np.float32)
        np.matmul(self.into_y, folded(p), out=read.swapaxes(1, 2))
        of_each = read.reshape(len(p), -1, p.shape[2])
        return [np.asarray(np.matmul(of_each[:, rows], x.into)) for rows, x in zip(self.rows, self.x, strict=True)]

    def read_product(self, fy: Maps, fx: Maps) -> list[tuple[Maps, Maps]]:
        """`parts` of maps fy fx, fy (n, R, ny), fx (n, R, nx), as the factors (n, R, 2 r_y), (n, R, r_x) of each."""
        return [(fy @ self.whole_y[:, rows], fx @ x.into) for rows, x in zip(self.rows, self.x, strict=True)]

    def spread_out(self, parts: list[Maps], weight: Maps, nx: int) -> Maps:
        """The sum of parts, spread over the grid, by their weights (n_ue, K): even and odd parts (n_ue, 2, h, nx)."""
        half = np.empty((len(weight), self.into_y.shape[1], 2, nx), dtype=np.float32)
        into = half.reshape(len(weight), -1, nx)
        for k, (rows, x, part) in enumerate(zip(self.rows, self.x, parts, strict=True)):
            np.matmul(weight[:, k, None, None] * part, x.out, out=into[:, rows])
        return np.asarray(np.matmul(self.out_y, half.swapaxes(1, 2)))


def _rank(s: FloatArray) -> int:
    """Rank by singular values (..., n); the largest of several matrices."""
    return int((s > _RANK * s.max()).sum(axis=-1).max())


def _swapped(matrices: Matrix) -> Matrix:
    return np.ascontiguousarray(np.swapaxes(matrices, 1, 2))

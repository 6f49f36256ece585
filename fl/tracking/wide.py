"""Wide Gaussians of motion: products with few singular vectors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from netsim.units import FloatArray

_RANK = 3e-7  # of the largest singular value

Matrix = npt.NDArray[np.float32]
Maps = npt.NDArray[np.float32]
"""one number a UE and place: (n_ue, ny, nx)"""


@dataclass(frozen=True)
class Axis:
    """A matrix (n, n) along one axis, into @ out, with into (n, r) and out (r, n)."""

    into: Matrix
    out: Matrix

    @classmethod
    def of(cls, matrix: FloatArray) -> Axis:
        """The matrix, by its singular vectors."""
        u, s, v = np.linalg.svd(matrix)
        rank = int((s > _RANK * s[0]).sum())
        return cls((u[:, :rank] * s[:rank]).astype(np.float32), v[:rank].astype(np.float32))

    @property
    def rank(self) -> int:
        return len(self.out)

    @property
    def transposed(self) -> Axis:
        """Of the transposed matrix."""
        return Axis(np.ascontiguousarray(self.out.T), np.ascontiguousarray(self.into.T))


@dataclass(frozen=True)
class Wide:
    """Gaussians along both axes: into_y (sum of r_y, ny) and out_y (ny, sum of r_y) of all of them, x of each."""

    into_y: Matrix
    out_y: Matrix
    x: list[Axis]
    rows: list[slice]

    @classmethod
    def of(cls, kernels: list[tuple[Axis, Axis]], cells_y: int) -> Wide:
        """Of Gaussians along y and x."""
        ends = np.cumsum([0, *(y.rank for y, _ in kernels)]).tolist()
        none = np.zeros((0, cells_y), dtype=np.float32)
        into = np.concatenate([none, *(y.into.T for y, _ in kernels)])
        out = np.concatenate([none, *(y.out for y, _ in kernels)])
        rows = [slice(a, b) for a, b in pairwise(ends)]
        return cls(into, np.ascontiguousarray(out.T), [x for _, x in kernels], rows)

    def parts(self, p: Maps) -> list[Maps]:
        """What each reads of maps (n_ue, ny, nx): (n_ue, r_y, r_x)."""
        read = np.matmul(self.into_y, p) if self.x else p
        return [np.asarray(np.matmul(read[:, rows], x.into)) for rows, x in zip(self.rows, self.x, strict=True)]

    def read_product(self, fy: Maps, fx: Maps) -> list[tuple[Maps, Maps]]:
        """`parts` of maps fy fx, fy (n, R, ny), fx (n, R, nx), as the factors (n, R, r_y), (n, R, r_x) of each."""
        return [(fy @ self.into_y[rows].T, fx @ x.into) for rows, x in zip(self.rows, self.x, strict=True)]

    def spread_out(self, parts: list[Maps], weight: Maps) -> Maps:
        """The sum (n_ue, ny, nx) of parts, spread over the grid, by their weights (n_ue, K)."""
        half = np.empty((len(weight), self.out_y.shape[1], self.x[0].out.shape[1]), dtype=np.float32)
        for k, (rows, x, part) in enumerate(zip(self.rows, self.x, parts, strict=True)):
            np.matmul(weight[:, k, None, None] * part, x.out, out=half[:, rows])
        return np.asarray(np.matmul(self.out_y, half))

r"""How UEs move from round to round: stay, move by a Gaussian, or turn up somewhere else.

    K = w_0 I + sum_k w_k G_k + w_J 1 pi^T,

with weights w of each UE, which sum to 1. G_k(i, j) is the integral over cell j of a Gaussian of sigma_k a axis around
the middle of cell i, with rows that sum to 1 also at the border: what would leave the area ends inside. pi is where
jumps end. G_k is a product of a matrix along x and one along y; that of a wide Gaussian has a small rank r (singular
values down to 3e-7 of the largest), so that a step is a few small products of matrices.

Maps are (n_ue, ny, nx), float32. Each UE has products of its own: one product for all UEs is no faster, and its sums
would hang on who stands beside whom.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from fl.tracking.place_grid import PlaceGrid
from netsim.units import FloatArray

SIGMA_M = (150.0, 400.0, 1000.0, 2500.0)
_NARROW = 1.0 / 3.0  # of a cell: nothing that a cell tells from staying
_RANK = 3e-7  # of the largest singular value
_WORTH = 0.6  # of the cells: a larger rank is no faster than the matrix itself

Maps = npt.NDArray[np.float32]
"""one number a UE and place: (n_ue, ny, nx)"""


@dataclass(frozen=True)
class Motion:
    """The components of motion on a grid; sigma_m (K,) of the Gaussians; a set of weights is (n_ue, K + 2)."""

    grid: PlaceGrid
    sigma_m: FloatArray

    @staticmethod
    @lru_cache(maxsize=8)
    def over(grid: PlaceGrid, largest_speed_mps: float, round_s: float) -> Motion:
        """Gaussians for rounds of round_s: none wider than half the way at the largest speed, none within a cell."""
        widest_m = largest_speed_mps * round_s / 2 if np.isfinite(round_s) else np.inf
        sigma_m = np.unique(np.minimum(SIGMA_M, widest_m))
        return Motion(grid, sigma_m[sigma_m >= _NARROW * grid.cell_m.max()])

    def step(self, p: Maps, parts: list[Maps], weight: FloatArray, target: Maps) -> Maps:
        """p K: where UEs with maps p, and `parts` of p, are a round later.

        weight (n_ue, K + 2); target (n_ue or 1, ny, nx) : where jumps end.
        """
        scale = weight.astype(np.float32)
        moved = _spread(self._forward, p, parts, scale)
        moved += (scale[:, -1] * totals(p))[:, None, None] * target
        return np.maximum(moved, 0.0, out=moved)

    def back(self, v: Maps, parts: list[Maps], weight: FloatArray, target: Maps) -> Maps:
        """K v, the adjoint of `step`; parts: `back_parts` of v."""
        scale = weight.astype(np.float32)
        moved = _spread(self._backward, v, parts, scale)
        moved += (scale[:, -1] * inner(v, target))[:, None, None]
        return np.maximum(moved, 0.0, out=moved)

    def parts(self, p: Maps) -> list[Maps]:
        """What each Gaussian reads of maps that move on: (n_ue, r_y, r_x)."""
        return _parts(self._forward, p)

    def back_parts(self, v: Maps) -> list[Maps]:
        """What each Gaussian reads of maps v: with `parts` of p, sum(parts * back_parts) = <p, G_k v>."""
        return _parts(self._backward, v)

    def shares(self, p: Maps, v: Maps, parts: list[Maps], weight: FloatArray, target: Maps) -> FloatArray:
        """<p, w_k K_k v> (n_ue, K + 2): how much each component takes part in coming from p to v.

        parts: `back_parts` of v.
        """
        each = [inner(p, v), *(inner(a, b) for a, b in zip(self.parts(p), parts, strict=True))]
        each.append(totals(p) * inner(v, target))
        return np.asarray(weight * np.stack(each, axis=1))

    def read_product(self, fy: Maps, fx: Maps) -> list[tuple[Maps, Maps]]:
        """`back_parts` of maps fy fx, fy (n, R, ny), fx (n, R, nx), as the factors (n, R, r_y), (n, R, r_x) of each."""
        return [(_read(fy, y), _read(fx, x)) for y, x in self._backward]

    @cached_property
    def _forward(self) -> list[tuple[_Axis, _Axis]]:
        sides = zip((self.grid.ny, self.grid.nx), self.grid.cell_m[::-1].tolist(), strict=True)
        y, x = ([_axis(_moves(n, cell_m, s)) for s in self.sigma_m.tolist()] for n, cell_m in sides)
        return list(zip(y, x, strict=True))

    @cached_property
    def _backward(self) -> list[tuple[_Axis, _Axis]]:
        return [(y.transposed, x.transposed) for y, x in self._forward]


@dataclass(frozen=True)
class _Axis:
    """A matrix (n, n) along one axis, into @ out, with into (n, r) and out (r, n); None: the identity."""

    into: npt.NDArray[np.float32] | None
    out: npt.NDArray[np.float32] | None

    @property
    def transposed(self) -> _Axis:
        into, out = (None if m is None else np.ascontiguousarray(m.T) for m in (self.out, self.into))
        return _Axis(into, out)


def totals(p: Maps) -> Maps:
    """Sums over all places (n_ue,)."""
    return np.asarray(p.reshape(len(p), prod(p.shape[1:])).sum(axis=1))


def inner(p: Maps, q: Maps) -> Maps:
    """<p, q> (n_ue,); one of q may serve all."""
    return np.asarray(np.einsum("uyx,uyx->u", p, np.broadcast_to(q, p.shape)))


def resampled(p: Maps, grid: PlaceGrid) -> Maps:
    """Maps on another grid of the same area: the mass of a cell is spread evenly over it."""
    ny, nx = p.shape[1:]
    if (ny, nx) == (grid.ny, grid.nx):
        return p
    return np.asarray(np.matmul(np.matmul(_overlap(ny, grid.ny).T, p), _overlap(nx, grid.nx)))


def _overlap(n: int, m: int) -> npt.NDArray[np.float32]:
    """Share (n, m) of each of n equal cells of an axis that lies in each of m."""
    low, start = np.arange(n)[:, None] / n, np.arange(m) / m
    inside = np.minimum(low + 1 / n, start + 1 / m) - np.maximum(low, start)
    return np.asarray(n * np.maximum(inside, 0.0), dtype=np.float32)


def _moves(n: int, cell_m: float, sigma_m: float) -> FloatArray:
    """Probability (n, n) of coming from the middle of one cell of an axis into another."""
    away = (np.arange(n + 1) - 0.5 - np.arange(n)[:, None]) * (cell_m / sigma_m)
    mass = np.diff(ndtr(-np.abs(away)) * -np.sign(away) + (away > 0), axis=1)
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def _axis(matrix: FloatArray) -> _Axis:
    """The matrix, by its singular vectors where they are few."""
    u, s, v = np.linalg.svd(matrix)
    rank = int((s > _RANK * s[0]).sum())
    if rank > _WORTH * len(s):
        return _Axis(None, matrix.astype(np.float32))
    return _Axis((u[:, :rank] * s[:rank]).astype(np.float32), v[:rank].astype(np.float32))


def _parts(kernels: list[tuple[_Axis, _Axis]], p: Maps) -> list[Maps]:
    """Each kernel's map (n_ue, r_y, r_x) before it is spread out again."""
    rows = [y.into.T for y, _ in kernels if y.into is not None]
    read = np.matmul(np.concatenate(rows), p) if rows else p
    parts, at = list[Maps](), 0
    for y, x in kernels:
        mine = p
        if y.into is not None:
            mine = read[:, at : at + y.into.shape[1]]
            at += y.into.shape[1]
        parts.append(mine if x.into is None else np.asarray(np.matmul(mine, x.into)))
    return parts


def _spread(kernels: list[tuple[_Axis, _Axis]], p: Maps, parts: list[Maps], weight: Maps) -> Maps:
    """w_0 p and the parts of all kernels by their weights, spread over the grid."""
    out = weight[:, :1, None] * p
    rows, spread = list[npt.NDArray[np.float32]](), list[Maps]()
    for k, ((y, x), part) in enumerate(zip(kernels, parts, strict=True)):
        mine = np.asarray(weight[:, k + 1, None, None] * part)
        mine = mine if x.out is None else np.matmul(mine, x.out)
        if y.out is None:
            out += mine
        else:
            rows.append(y.out)
            spread.append(mine)
    if rows:
        out += np.matmul(np.concatenate(rows).T, np.concatenate(spread, axis=1))
    return np.asarray(out)


def _read(f: Maps, axis: _Axis) -> Maps:
    """f (n, R, cells) as an axis reads it."""
    return f if axis.into is None else np.asarray(f @ axis.into)

r"""How UEs move from round to round: stay, move by a Gaussian, or turn up somewhere else.

    K = w_0 I + sum_k w_k G_k + w_J 1 pi^T,

with weights w of each UE, which sum to 1. G_k(i, j) is the integral over cell j of a Gaussian of sigma_k a axis around
the middle of cell i, with rows that sum to 1 also at the border: what would leave the area ends inside. pi is where
jumps end. G_k is a product of a matrix along x and one along y; that of a wide Gaussian has a small rank r (singular
values down to 3e-7 of the largest), so that a step is a few small products of matrices. A narrow one reaches few cells.

Maps are (n_ue, ny, nx), float32. Each UE has products of its own: one product for all UEs is no faster, and its sums
would hang on who stands beside whom.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from fl.tracking.narrow import Narrow, NarrowAxis
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.wide import Axis, Maps, Wide
from netsim.normal import ndtr
from netsim.units import FloatArray

SIGMA_M = (150.0, 400.0, 1000.0, 2500.0)
_WORTH = 0.6  # of the cells: with a larger rank, sums over neighbours are faster
_NARROW = 1.0 / 3.0  # of a cell: nothing that a cell tells from staying


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
        from fl.tracking.map_loops import add_rest

        scale, many = weight.astype(np.float32), len(self._narrow)
        moved = _spread_out(self._forward, p, parts[many:], scale[:, many + 1 : -1])
        for k, kernel in enumerate(self._narrow):
            kernel.add(moved, p, scale[:, k + 1])
        add_rest(moved, p, scale[:, 0], scale[:, -1] * totals(p), target)
        return moved

    def back(self, v: Maps, parts: list[Maps], weight: FloatArray, target: Maps) -> Maps:
        """K v, the adjoint of `step`; parts: `back_parts` of v."""
        from fl.tracking.map_loops import add_rest

        scale, many = weight.astype(np.float32), len(self._narrow)
        moved = _spread_out(self._backward, v, parts[many:], scale[:, many + 1 : -1])
        for k, part in enumerate(parts[:many]):
            moved += scale[:, k + 1, None, None] * part
        add_rest(moved, v, scale[:, 0], scale[:, -1] * inner(v, target), self._everywhere)
        return moved

    def parts(self, p: Maps) -> list[Maps]:
        """What each Gaussian reads of maps that move on: (n_ue, r_y, r_x)."""
        return [p] * len(self._narrow) + self._forward.parts(p)

    def back_parts(self, v: Maps) -> list[Maps]:
        """What each Gaussian reads of maps v: with `parts` of p, sum(parts * back_parts) = <p, G_k v>."""
        return [kernel.back(v) for kernel in self._narrow] + self._backward.parts(v)

    def shares(self, p: Maps, v: Maps, parts: list[Maps], weight: FloatArray, target: Maps) -> FloatArray:
        """<p, w_k K_k v> (n_ue, K + 2): how much each component takes part in coming from p to v.

        parts: `back_parts` of v.
        """
        each = [inner(p, v), *(inner(a, b) for a, b in zip(self.parts(p), parts, strict=True))]
        each.append(totals(p) * inner(v, target))
        return np.asarray(weight * np.stack(each, axis=1))

    def read_product(self, fy: Maps, fx: Maps) -> list[tuple[Maps, Maps]]:
        """`back_parts` of maps fy fx, fy (n, R, ny), fx (n, R, nx), as the factors (n, R, r_y), (n, R, r_x) of each."""
        narrow = [(fy @ kernel.y.matrix, fx @ kernel.x.matrix) for kernel in self._narrow]
        return narrow + self._backward.read_product(fy, fx)

    @cached_property
    def _everywhere(self) -> Maps:
        return np.ones((1, self.grid.ny, self.grid.nx), dtype=np.float32)

    @property
    def _narrow(self) -> list[Narrow]:
        return self._kernels[0]

    @property
    def _forward(self) -> Wide:
        return self._kernels[1]

    @property
    def _backward(self) -> Wide:
        return self._kernels[2]

    @cached_property
    def _kernels(self) -> tuple[list[Narrow], Wide, Wide]:
        """The Gaussians in order of their width: narrow ones, then wide ones, and these transposed."""
        (ny, y_m), (nx, x_m) = zip((self.grid.ny, self.grid.nx), self.grid.cell_m[::-1].tolist(), strict=True)
        narrow, wide = list[Narrow](), list[tuple[Axis, Axis]]()
        for sigma_m in self.sigma_m.tolist():  # ascending
            y, x = Axis.of(_moves(ny, y_m, sigma_m)), Axis.of(_moves(nx, x_m, sigma_m))
            if not wide and (y if ny > nx else x).rank > _WORTH * max(ny, nx):
                narrow.append(Narrow(NarrowAxis.of(ny, y_m, sigma_m), NarrowAxis.of(nx, x_m, sigma_m)))
            else:
                wide.append((y, x))
        return narrow, Wide.of(wide, ny), Wide.of([(y.transposed, x.transposed) for y, x in wide], ny)


def _spread_out(wide: Wide, p: Maps, parts: list[Maps], weight: Maps) -> Maps:
    """Parts of wide Gaussians by their weights; 0 where there are none."""
    return wide.spread_out(parts, weight) if parts else np.zeros_like(p)


def totals(p: Maps) -> Maps:
    """Sums over all places (n_ue,)."""
    return np.asarray(p.reshape(len(p), prod(p.shape[1:])).sum(axis=1))


def inner(p: Maps, q: Maps) -> Maps:
    """<p, q> (n_ue,); one of q may serve all."""
    return np.asarray(np.einsum("uyx,uyx->u", p, q if len(q) == len(p) else np.broadcast_to(q, p.shape)))


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

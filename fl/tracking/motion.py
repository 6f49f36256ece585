r"""Motion of UEs from round to round: stay, move by a Gaussian, or jump.

    K = w_0 I + sum_k w_k G_k + w_J 1 pi^T,

with weights w of each UE, which sum to 1. G_k(i, j) is the integral over cell j of a Gaussian of sigma_k a axis around
the middle of cell i, with rows that sum to 1 also at the border: what would leave the area ends inside. pi is where
jumps end. G_k is a product of a matrix along x and one along y; that of a wide Gaussian has a small rank r (singular
values down to 3e-7 of the largest), so that a step is a few small products of matrices. A narrow one reaches few cells.

Maps are (n_ue, ny, nx), float32. Each UE has products of its own: one product for all UEs is no faster, and its sums
would depend on the order of UEs.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from fl.tracking.maps import Maps, bilinear, inner, sums, unfolded
from fl.tracking.narrow import Narrow, NarrowAxis
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.wide import Axis, Halves, Wide
from netsim.columns import frozen
from netsim.rng import ndtr
from netsim.units import Float32Array, FloatArray

SIGMA_M = (150.0, 400.0, 1000.0, 2500.0)
_WORTH = 0.6  # of the cells: with a larger rank, sums over neighbours are faster
_NARROW = 1.0 / 3.0  # of a cell: nothing that a cell tells from staying


@frozen
class Motion:
    """The components of motion on a grid; sigma_m (K,) of the Gaussians; a set of weights is (n_ue, K + 2)."""

    grid: PlaceGrid
    sigma_m: FloatArray

    @staticmethod
    @lru_cache(maxsize=8)
    def over(grid: PlaceGrid, max_speed_mps: float, round_s: float) -> Motion:
        """Gaussians for rounds of round_s: none wider than half the way at the largest speed, none within a cell."""
        widest_m = max_speed_mps * round_s / 2 if np.isfinite(round_s) else np.inf
        sigma_m = np.unique(np.minimum(SIGMA_M, widest_m))
        return Motion(grid, sigma_m[sigma_m >= _NARROW * grid.cell_m.max()])

    def step(self, p: Maps, parts: list[Maps], weight: FloatArray, target: Maps) -> Maps:
        """p K: where UEs with maps p, of which Gaussians read `parts`, are a round later.

        weight (n_ue, K + 2); target (n_ue or 1, ny, nx) : where jumps end.
        """
        scale = weight.astype(np.float32)
        narrow, forward, _ = self._kernels
        moved = self._spread_out(forward, p, parts, scale, sums(p), target)
        for k, kernel in enumerate(narrow):
            kernel.add(moved, p, scale[:, k + 1])
        return moved

    def back(self, v: Maps, weight: FloatArray, target: Maps, p: Maps) -> tuple[Maps, FloatArray]:
        """K v, the adjoint of `step`; and <p, w_k K_k v> (n_ue, K + 2): how much each component takes part in coming
        from p to v, or none (0, K + 2) of no maps p.
        """
        kernels, forward, backward = self._kernels
        scale, parts, ends = weight.astype(np.float32), backward.parts(v), inner(v, target)
        moved = self._spread_out(backward, v, parts, scale, ends, np.ones((1, *v.shape[1:]), dtype=np.float32))
        narrow = [kernel.add_back(moved, v, scale[:, k + 1], p) for k, kernel in enumerate(kernels)]
        if not len(p):
            return moved, np.zeros((0, weight.shape[1]))
        wide = [inner(a, b) for a, b in zip(forward.parts(p), parts, strict=True)]
        return moved, np.asarray(weight * np.stack([inner(p, v), *narrow, *wide, sums(p) * ends], axis=1))

    def parts(self, p: Maps) -> list[Maps]:
        """Parts that each wide Gaussian reads of maps that move on."""
        return self._kernels[1].parts(p)

    def product_uses(self, p: Maps, parts: list[Maps], read: list[tuple[Maps, Maps]]) -> list[Maps]:
        """<p, G_k v> (n_ue,) of each Gaussian: maps p with `parts`, products v of which `read_product` reads."""
        maps = [p] * len(self._kernels[0]) + parts
        return [bilinear(one, fy, fx) for one, (fy, fx) in zip(maps, read, strict=True)]

    def read_product(self, fy: Maps, fx: Maps) -> list[tuple[Maps, Maps]]:
        """Parts that each Gaussian reads of maps fy fx, fy (n, R, ny), fx (n, R, nx): narrow ones G_k v as factors,
        wide ones factors of their parts.
        """
        narrow, _, backward = self._kernels
        return [(fy @ kernel.y.matrix, fx @ kernel.x.matrix) for kernel in narrow] + backward.read_product(fy, fx)

    @staticmethod
    def _spread_out(wide: Wide, p: Maps, parts: list[Maps], scale: Maps, total: Maps, target: Maps) -> Maps:
        """Spread a step: stays, wide Gaussians and jumps, by their weights (n_ue, K + 2)."""
        q = wide.spread_out(parts, scale[:, scale.shape[1] - 1 - len(parts) : -1], p.shape[2])
        return unfolded(q, p, scale[:, 0], scale[:, -1] * total, target)

    @cached_property
    def _kernels(self) -> tuple[list[Narrow], Wide, Wide]:
        """The Gaussians in order of their width: narrow ones, then wide ones, and these transposed."""
        (ny, y_m), (nx, x_m) = zip((self.grid.ny, self.grid.nx), self.grid.cell_m[::-1].tolist(), strict=True)
        narrow, wide = list[Narrow](), list[tuple[Halves, Axis]]()
        for sigma_m in self.sigma_m.tolist():  # ascending
            y, x = Halves.of(_moves(ny, y_m, sigma_m)), Axis.of(_moves(nx, x_m, sigma_m))
            rank = 2 * y.out.shape[1] if ny > nx else len(x.out)
            if not wide and rank > _WORTH * max(ny, nx):
                narrow.append(Narrow(NarrowAxis.of(ny, y_m, sigma_m), NarrowAxis.of(nx, x_m, sigma_m)))
            else:
                wide.append((y, x))
        across = [(y.transposed, x.transposed) for y, x in wide]
        return narrow, Wide.of(wide, ny), Wide.of(across, ny)


def resampled(p: Maps, grid: PlaceGrid) -> Maps:
    """Maps on another grid of the same area: the mass of a cell is spread evenly over it."""
    ny, nx = p.shape[1:]
    if (ny, nx) == (grid.ny, grid.nx):
        return p
    return np.asarray(np.matmul(np.matmul(_overlap(ny, grid.ny).T, p), _overlap(nx, grid.nx)))


def _overlap(n: int, m: int) -> Float32Array:
    """Share (n, m) of each of n equal cells of an axis that lies in each of m."""
    low, start = np.arange(n)[:, None] / n, np.arange(m) / m
    inside = np.minimum(low + 1 / n, start + 1 / m) - np.maximum(low, start)
    return np.asarray(n * np.maximum(inside, 0.0), dtype=np.float32)


def _moves(n: int, cell_m: float, sigma_m: float) -> FloatArray:
    """Probability (n, n) of coming from the middle of one cell of an axis into another."""
    away = (np.arange(n + 1) - 0.5 - np.arange(n)[:, None]) * (cell_m / sigma_m)
    mass = np.diff(ndtr(-np.abs(away)) * -np.sign(away) + (away > 0), axis=1)
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))

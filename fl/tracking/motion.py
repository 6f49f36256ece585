r"""Motion of UEs from round to round: stay, move by a Gaussian, or jump.

    K = w_0 I + sum_k w_k G_k + w_J 1 pi^T,

with weights w of each UE, which sum to 1. G_k(i, j) is the integral over cell j of a Gaussian of sigma_k per axis
around the middle of cell i, mirrored at the border: what would leave the area comes back. pi is where jumps end.

A mirrored Gaussian is diagonal in cosines: with c_u(i) ~ cos(pi u (i + 1/2) / n) of length 1 and the masses t_j of the
cells at distance j,

    G = sum_u h(u) c_u c_u^T,     h(u) = t_0 + 2 sum_j t_j cos(pi u j / n),

along each axis, so that all Gaussians together are one product in cosines, and G is symmetric. Maps are (n_ue, ny, nx),
float32. [Strang 1999, The Discrete Cosine Transform, Section 2: DCT-2]
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen
from netsim.rng import ndtr
from netsim.units import Float32Array, FloatArray

SIGMA_M = (150.0, 400.0, 1000.0, 2500.0)
_NARROW = 1.0 / 3.0  # of a cell: nothing that a cell tells from staying
_TAIL = 6.0  # standard deviations, beyond which a Gaussian has no mass,
_MIRRORED = 4  # sides of the area, beyond which it is cut off
_NOTHING = 1e-6  # of a cosine is left: it is left out

Maps = Float32Array
"""one number per UE and place: (n_ue, ny, nx)"""


@frozen
class RoundOfMotion:
    """One round of motion: weight (n_ue, K + 2) of the components, and target (n_ue or 1, ny, nx) of jumps."""

    weight: FloatArray
    target: Maps


@frozen
class Motion:
    """The components of motion on a grid; sigma_m (K,) of the Gaussians."""

    grid: PlaceGrid
    sigma_m: FloatArray

    @staticmethod
    @lru_cache(maxsize=8)
    def over(grid: PlaceGrid, max_speed_mps: float, round_s: float) -> Motion:
        """Gaussians for rounds of round_s: none wider than half the way at the largest speed, none within a cell."""
        widest_m = max_speed_mps * round_s / 2 if np.isfinite(round_s) else np.inf
        sigma_m = np.unique(np.minimum(SIGMA_M, widest_m))
        return Motion(grid, sigma_m[sigma_m >= _NARROW * grid.cell_m.max()])

    def step(self, p: Maps, waves: Maps, leg: RoundOfMotion) -> Maps:
        """p K: where UEs with maps p, and their `waves`, are a round later."""
        return self._moved(p, waves, leg, sums(p)[:, None, None] * leg.target)

    def back(self, v: Maps, waves: Maps, leg: RoundOfMotion) -> Maps:
        """K v, the adjoint of `step`."""
        return self._moved(v, waves, leg, sums(v * leg.target)[:, None, None])

    def uses(self, p: Maps, of_p: Maps, leg: RoundOfMotion, v: Maps, of_v: Maps) -> FloatArray:
        """Share (n_ue, K + 2) of each component in coming from p to v: <p, w_k K_k v> / <p, K v>, of maps and their
        `waves`; 0 where that is 0.
        """
        gaussians = self._spectra @ (of_p * of_v).reshape(len(p), self._spectra.shape[1], 1)
        jumps = sums(p) * sums(v * leg.target)
        each = leg.weight * np.column_stack([sums(p * v), gaussians[:, :, 0], jumps])
        total = each.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(each, total, out=np.zeros_like(each), where=total > 0))

    def waves(self, maps: Maps) -> Maps:
        """Products (n_ue, u, v) of maps with cosines along both axes."""
        y, x = self._cosines
        return np.asarray(y @ (maps @ x.T))

    def _moved(self, maps: Maps, waves: Maps, leg: RoundOfMotion, jumped: Maps) -> Maps:
        """Spread maps by the Gaussians, with the part that stays and the part (n_ue, ny, nx) that has jumped."""
        weight = leg.weight.astype(np.float32)
        y, x = self._cosines
        spread = waves * (weight[:, None, 1:-1] @ self._spectra).reshape(waves.shape)
        moved = y.T @ (spread @ x)
        moved += weight[:, 0, None, None] * maps
        moved += weight[:, -1, None, None] * jumped
        return np.asarray(np.maximum(moved, 0, out=moved))

    @cached_property
    def _axes(self) -> list[FloatArray]:
        """h (K, n) of the Gaussians along y and x."""
        cells = (self.grid.ny, float(self.grid.cell_m[1])), (self.grid.nx, float(self.grid.cell_m[0]))
        return [np.array([_spectrum(n, s / side_m) for s in self.sigma_m]).reshape(-1, n) for n, side_m in cells]

    @cached_property
    def _cosines(self) -> list[Float32Array]:
        """The cosines (u, n) along y and x that some Gaussian leaves."""
        ranks = [max(int((np.abs(h) > _NOTHING).any(axis=0).sum()), 1) for h in self._axes]
        return [_cosines(h.shape[1])[:rank].astype(np.float32) for h, rank in zip(self._axes, ranks, strict=True)]

    @cached_property
    def _spectra(self) -> Float32Array:
        """h_k(u) h_k(v) of the Gaussians: (K, u v)."""
        y, x = (h[:, : len(c)] for h, c in zip(self._axes, self._cosines, strict=True))
        return (y[:, :, None] * x[:, None, :]).reshape(len(y), y.shape[1] * x.shape[1]).astype(np.float32)


def _cosines(n: int) -> FloatArray:
    """c_u(i) (n, n), of length 1."""
    c = np.cos(np.pi / n * np.outer(np.arange(n), np.arange(n) + 0.5)) * np.sqrt(2.0 / n)
    c[0] = np.sqrt(1.0 / n)
    return np.asarray(c)


def _spectrum(n: int, sigma: float) -> FloatArray:
    """h(u) (n,) of a Gaussian whose standard deviation is `sigma` cells."""
    distance = np.arange(min(int(np.ceil(_TAIL * sigma)) + 1, _MIRRORED * n) + 1)
    mass = ndtr((distance + 0.5) / sigma) - ndtr((distance - 0.5) / sigma)
    mass[1:] *= 2
    return np.asarray(np.cos(np.pi / n * np.outer(np.arange(n), distance)) @ (mass / mass.sum()))


def blurred(p: Float32Array, grid: PlaceGrid, sigma_m: float) -> Float32Array:
    """Maps (n, G) of a place that was displaced by a Gaussian of sigma_m per axis, and is inside the area."""
    if sigma_m <= 0:
        return p
    y, x = (_gaussian(n, sigma_m / side) for n, side in zip((grid.ny, grid.nx), grid.cell_m[::-1], strict=True))
    return np.asarray((y @ (p.reshape(-1, grid.ny, grid.nx) @ x)).reshape(p.shape))


def _gaussian(n: int, sigma: float) -> Float32Array:
    """G (n, n) along an axis."""
    c = _cosines(n)
    return np.asarray(np.maximum(c.T * _spectrum(n, sigma) @ c, 0), dtype=np.float32)


def sums(p: Maps) -> Float32Array:
    """Sums (n,) of maps (n, ny, nx), each alone, whatever maps stand beside it."""
    return np.asarray(p.sum(axis=1).sum(axis=1, dtype=np.float64).astype(np.float32))


def resampled(p: Maps, grid: PlaceGrid) -> Maps:
    """Maps (..., ny, nx) on another grid of the same area: the mass of a cell is spread evenly over it."""
    ny, nx = p.shape[-2:]
    if (ny, nx) == (grid.ny, grid.nx):
        return p
    return np.asarray(_overlap(ny, grid.ny).T @ (p @ _overlap(nx, grid.nx)))


def _overlap(n: int, m: int) -> Float32Array:
    """Share (n, m) of each of n equal cells of an axis that lies in each of m."""
    low, start = np.arange(n)[:, None] / n, np.arange(m) / m
    inside = np.minimum(low + 1 / n, start + 1 / m) - np.maximum(low, start)
    return np.asarray(n * np.maximum(inside, 0.0), dtype=np.float32)

r"""Motion of UEs from round to round: stay, move by a Gaussian, or jump.

    K = w_0 I + sum_k w_k G_k + w_J 1 pi^T,

with weights w of each UE, which sum to 1. G_k(i, j) is the integral over cell j of a Gaussian of sigma_k per axis
around the middle of cell i, mirrored at the border: what would leave the area comes back. pi is where jumps end.

A mirrored Gaussian is diagonal in cosines: with c_u(i) ~ cos(pi u (i + 1/2) / n) of length 1 and the masses t_j of the
cells at distance j,

    G = sum_u h(u) c_u c_u^T,     h(u) = t_0 + 2 sum_j t_j cos(pi u j / n),

along each axis, so that all Gaussians together are one product in cosines, and G is symmetric. Maps are (n_ue, ny, nx),
float32. [Strang 1999, The Discrete Cosine Transform, Section 2: DCT-2]

Habits are how one UE moves: frequencies of the components, and the places to which it jumps back. With n_c the
expected uses of each component in class c of hours (24 of weekdays, 24 of weekends, or one of all), n their sum, and
w^0 the weights of a UE of which nothing is known,

    w = (n + m_0 w^0) / (|n| + m_0),     w_c = (n_c + m w) / (|n_c| + m).

Borrowed weights alone made tracks worse than the estimates themselves, so that m_0 is small. A UE with places of its
own jumps to

    0.6 o_part + 0.3 o + 0.1 pi,

with o_part the mean of what was believed of the UE in rounds of this part of the day, o that of all parts, and pi the
prior of jumps, which takes the place of a mean that has no round yet. Parts are quarters of a day, on weekdays and on
weekends.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np

from fl.tracking.error_model import Emission
from fl.tracking.place_grid import PlaceGrid
from netsim.columns import frozen
from netsim.rng import ndtr
from netsim.units import Float32Array, FloatArray, IntArray

SIGMA_M = (150.0, 400.0, 1000.0, 2500.0)
CLASSES = 48
PARTS = 8
_BORROWED = 8.0  # m_0, rounds
_POOLED = 20.0  # m, rounds
_PART = 0.6
_ALL = 0.3
_STAY = 0.5
_JUMP = 0.1  # of an unknown UE; the Gaussians share the rest
_UNSEEN = 0.1  # of the weights of shadow UEs
_STEPS = 60
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
        jumps = leg.weight[:, -1].astype(np.float32) * sums(p)
        return self._moved(p, waves, leg, jumps[:, None, None] * leg.target)

    def back(self, v: Maps, waves: Maps, leg: RoundOfMotion) -> Maps:
        """K v, the adjoint of `step`."""
        jumps = leg.weight[:, -1].astype(np.float32) * sums(v * leg.target)
        return self._moved(v, waves, leg, jumps[:, None, None])

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

    def waves_of(self, emission: Emission) -> Maps:
        """`waves` of the maps of an emission, by its factors."""
        y, x = self._cosines
        waves = replace(emission, fy=emission.fy @ y.T, fx=emission.fx @ x.T, floor=0 * emission.floor).maps()
        waves[:, 0, 0] += emission.floor * np.float32(len(self.grid) ** 0.5)
        return waves

    def _moved(self, maps: Maps, waves: Maps, leg: RoundOfMotion, jumped: Maps) -> Maps:
        """Spread maps by the Gaussians, with the part that stays and the part (n_ue, ny or 1, nx or 1) that jumps."""
        weight = leg.weight.astype(np.float32)
        y, x = self._cosines
        spread = waves * (weight[:, None, 1:-1] @ self._spectra).reshape(waves.shape)
        moved = y.T @ (spread @ x)
        moved += weight[:, 0, None, None] * maps
        moved += jumped
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
    low = np.arange(n)[:, None] / n
    start = np.arange(m) / m
    inside = np.minimum(low + 1 / n, start + 1 / m) - np.maximum(low, start)
    return np.asarray(n * np.maximum(inside, 0.0), dtype=np.float32)


@frozen
class Habits:
    """count (n_ue, C, K + 2) : expected uses of each component of motion by class; C = 1: hours are alike. borrowed
    (K + 2,) : the weights of a UE of which nothing is known. beliefs (n_ue, P, ny, nx) : sums by part of the day; P = 0
    where UEs have no places of their own.
    """

    count: FloatArray
    borrowed: FloatArray
    beliefs: Maps

    @classmethod
    def none(cls, n_ue: int, borrowed: FloatArray, grid: PlaceGrid, *, hours: bool, own_places: bool) -> Habits:
        """Before anything is learnt."""
        count = np.zeros((n_ue, CLASSES if hours else 1, len(borrowed)))
        return cls(count, borrowed, np.zeros((n_ue, PARTS if own_places else 0, grid.ny, grid.nx), dtype=np.float32))

    @property
    def own_places(self) -> bool:
        """Whether UEs jump to places of their own."""
        return bool(self.beliefs.shape[1])

    def leg(self, at: int, prior: Maps) -> RoundOfMotion:
        """Motion in a round of a class of hours; prior (1, ny, nx) of jumps."""
        if not self.own_places:
            return RoundOfMotion(self.weight(at), prior)
        part = self.beliefs[:, _part_of_day(at)]
        every = self.beliefs.sum(axis=1)
        mixed = np.float32(_PART) * _mean(part, prior) + np.float32(_ALL) * _mean(every, prior)
        return RoundOfMotion(self.weight(at), np.asarray(mixed + np.float32(1 - _PART - _ALL) * prior))

    def weight(self, at: int) -> FloatArray:
        """Weights (n_ue, K + 2) in a class of hours."""
        n = self.count.sum(axis=1)
        pooled = (n + _BORROWED * self.borrowed) / (n.sum(axis=1, keepdims=True) + _BORROWED)
        if self.count.shape[1] == 1:
            return np.asarray(pooled)
        own = self.count[:, at]
        return np.asarray((own + _POOLED * pooled) / (own.sum(axis=1, keepdims=True) + _POOLED))

    def add_uses(self, at: int, share: FloatArray) -> None:
        """Count one more round of a class, in which components took part by share (n_ue, K + 2)."""
        self.count[:, at if self.count.shape[1] > 1 else 0] += share

    def add_belief(self, at: int, p: Maps) -> None:
        """Add what is believed (n_ue, ny, nx) of a round in a class of hours."""
        if self.own_places:
            self.beliefs[:, _part_of_day(at)] += p

    def of(self, rows: IntArray | slice) -> Habits:
        """Select some UEs (k,); those of a slice stay parts of these."""
        return replace(self, count=self.count[rows], beliefs=self.beliefs[rows])

    def forgotten(self) -> Habits:
        """The same UEs, before anything is learnt."""
        return replace(self, count=np.zeros_like(self.count), beliefs=np.zeros_like(self.beliefs))

    def resampled(self, grid: PlaceGrid) -> Habits:
        """On another grid of the same area."""
        return replace(self, beliefs=resampled(self.beliefs, grid))


def _part_of_day(at: int) -> int:
    """Quarter of the day, and 4 more on weekends, of a class of hours."""
    return at * PARTS // CLASSES


def _mean(total: Maps, prior: Maps) -> Maps:
    """Maps (n, ny, nx) that sum to 1; the prior for one that is 0."""
    mass = total.sum(axis=(1, 2), keepdims=True)
    return np.where(mass > 0, total / np.maximum(mass, np.float32(1e-30)), prior)


def weights_without_knowledge(sigma_m: FloatArray) -> FloatArray:
    """Weights (K + 2,) that are assumed before any motion was observed: in half of the rounds UEs stay."""
    gaussians = np.full(len(sigma_m), (1 - _STAY - _JUMP) / max(len(sigma_m), 1))
    weight = np.concatenate([[_STAY], gaussians, [_JUMP]])
    return np.asarray(weight / weight.sum())


def weights_of(displacement_m: FloatArray, sigma_m: FloatArray, cell_m: float, side_m: FloatArray) -> FloatArray:
    """Weights (K + 2,) most likely for displacements (n,) between successive rounds, by EM.

    A UE that stays moves within a cell; one that jumps ends anywhere in the area. A tenth is left to what is assumed of
    a UE of which nothing is known, since real UEs move otherwise.
    """
    start = weights_without_knowledge(sigma_m)
    if not len(displacement_m):
        return start
    variance_m2 = np.append(cell_m**2 / 6.0, sigma_m**2)  # two places in a cell: cell^2 / 6 per axis
    density = np.exp(-(displacement_m[:, None] ** 2) / (2 * variance_m2)) / (2 * np.pi * variance_m2)
    density = np.column_stack([density, np.full(len(density), 1.0 / float(np.prod(side_m)))])
    weight = start
    for _ in range(_STEPS):
        share = density * weight
        weight = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    return (1 - _UNSEEN) * weight + _UNSEEN * start

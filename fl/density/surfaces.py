"""Surfaces: what a device answers about a grid of points, kept as factors and not as numbers.

At the grid point (x_p, y_q) a device at d answers, for each bandwidth h,

    exact      exp(-((x_p - d_x)^2 + (y_q - d_y)^2) / (2 h^2))
    features   sum_b cos(xi_b . (g_pq - d) / h)        xi_b ~ N(0, I), kept

Both are products of a function of x and one of y: cos(a + b) = cos a cos b - sin a sin b. So a weighted sum over all
devices is one or two products of matrices, (P, terms) by (terms, Q), and no answer is ever written out unless a caller
asks for it. A device with several samples answers with their mean.

Coordinates are subtracted before anything is multiplied, so phases stay exact to a few units of rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from math import erfc, exp, log, pi, sqrt
from statistics import NormalDist
from typing import Self

import numpy as np

from fl.types import Bound, DenseUpdates, Updates
from netsim.columns import frozen
from netsim.units import BoolArray, FloatArray, IntArray

TERMS = 1000  # terms of a sum that are multiplied at once: they stay within the cache
NUMBERS = 4_000_000  # numbers of written-out rows that are made at once

Factors = list[tuple[FloatArray, FloatArray]]
"""Pairs of (..., terms, P) and (..., terms, Q): a surface is the sum over pairs and terms of their outer products."""


def bumps(at_m: FloatArray, bandwidth_m: float, x_m: FloatArray, y_m: FloatArray) -> Factors:
    """Factors of the exact kernel at places (..., 2): one term each."""
    fx, fy = (np.exp(-0.5 * ((axis_m - at_m[..., i, None]) / bandwidth_m) ** 2) for i, axis_m in enumerate((x_m, y_m)))
    return [(fx, fy)]


def waves(at_m: FloatArray, omega: FloatArray, x_m: FloatArray, y_m: FloatArray) -> Factors:
    """Factors of cos(omega . (g - d)) at places d (..., 2) for angular wave numbers omega (..., 2) per metre."""
    a, b = (np.exp(1j * omega[..., i, None] * (axis_m - at_m[..., i, None])) for i, axis_m in enumerate((x_m, y_m)))
    return [(a.real.copy(), b.real.copy()), (-a.imag, b.imag.copy())]


def kernel_density(at_m: FloatArray, bandwidth_m: float, x_m: FloatArray, y_m: FloatArray) -> FloatArray:
    """Mean of the exact kernels of places (n, 2) on the grid: (P, Q)."""
    total = np.zeros((len(x_m), len(y_m)))
    for first in range(0, len(at_m), TERMS):
        [(fx, fy)] = bumps(at_m[first : first + TERMS], bandwidth_m, x_m, y_m)
        total += fx.T @ fy
    return total / max(len(at_m), 1)


@frozen
class SurfaceUpdates(Updates):
    """Answers of n rows about a grid, factored; see the head of this module.

    x_m (P,), y_m (Q,) the grid, bandwidth_m (H,); row i owns the places at_m[ptr[i]:ptr[i + 1]] (N, 2) and the draws
    unit[i] (n, B, 2), None for the exact kernel; scale (n,). A row written out has H * P * Q numbers.
    """

    ue: IntArray
    model: IntArray
    count: FloatArray
    ptr: IntArray
    at_m: FloatArray
    unit: FloatArray | None
    x_m: FloatArray
    y_m: FloatArray
    bandwidth_m: FloatArray
    scale: FloatArray
    phase: str = "all"
    bound: Bound | None = None

    @property
    def n_parameters(self) -> int:
        return len(self.bandwidth_m) * len(self.x_m) * len(self.y_m)

    def rows(self, index: IntArray | slice) -> FloatArray:
        wanted = np.arange(len(self.ue))[index]
        out = np.empty((len(wanted), len(self.bandwidth_m), len(self.x_m), len(self.y_m)))
        for place, samples in self._alike(wanted, NUMBERS // (len(self.x_m) * len(self.y_m)) + 1):
            for k in range(len(self.bandwidth_m)):
                pairs = self._factors(samples, wanted[place], k)
                surface = sum(np.swapaxes(fx, -1, -2) @ fy for fx, fy in pairs)  # (rows, P, Q)
                out[place, k] = surface * (self.scale[wanted[place]] / samples.shape[1])[:, None, None]
        return out.reshape(len(wanted), self.n_parameters)

    def norm(self) -> FloatArray:
        return self._norm

    @cached_property
    def _norm(self) -> FloatArray:
        """|F G^T|^2 = sum of (F^T F) * (G^T G): terms by terms instead of P by Q, where terms are fewer."""
        norm = np.zeros(len(self.ue))
        cells = len(self.x_m) * len(self.y_m)
        few = np.sqrt(cells)  # samples' terms up to which their products are the smaller matrix
        per_sample = 1 if self.unit is None else 2 * self.unit.shape[1]
        for row, samples in self._alike(np.arange(len(self.ue)), TERMS):
            if samples.shape[1] * per_sample > few:
                norm[row] = np.sqrt((self.rows(row) ** 2).sum(axis=1))
                continue
            total = np.zeros(len(row))
            for k in range(len(self.bandwidth_m)):
                pairs = self._factors(samples, row, k)
                f, g = (np.concatenate([pair[i] for pair in pairs], axis=1) for i in (0, 1))  # (rows, terms, P or Q)
                total += ((f @ np.swapaxes(f, 1, 2)) * (g @ np.swapaxes(g, 1, 2))).sum(axis=(1, 2))
            norm[row] = np.abs(self.scale[row]) * np.sqrt(np.maximum(total, 0.0)) / samples.shape[1]
        return norm

    def scaled(self, factor: FloatArray, bound: Bound | None) -> Self:
        return replace(self, scale=self.scale * factor, bound=bound)

    def plus(self, noise: FloatArray) -> DenseUpdates:
        """Rows plus noise are numbers like any others: they are written out."""
        return DenseUpdates(self.ue, self.model, self.count, self.rows(slice(None)) + noise, self.phase)

    def weighted_sum(self, weights: FloatArray, n_model: int) -> FloatArray:
        shape = (n_model, len(self.bandwidth_m), len(self.x_m), len(self.y_m))
        total = np.zeros(shape)
        samples = np.diff(self.ptr)
        share = weights * self.scale / np.maximum(samples, 1)
        row = np.repeat(np.arange(len(self.ue)), samples)
        row = row[share[row] != 0]
        sample = np.arange(len(self.at_m))[np.repeat(share != 0, samples)]
        features = 1 if self.unit is None else max(self.unit.shape[1], 1)
        for m in np.unique(self.model[row]):
            mine = np.flatnonzero(self.model[row] == m)
            for first in range(0, len(mine), max(TERMS // features, 1)):
                some = mine[first : first + max(TERMS // features, 1)]
                for k in range(len(self.bandwidth_m)):
                    for fx, fy in self._factors(sample[some, None], row[some], k):
                        weight = share[row[some], None, None]
                        total[m, k] += (weight * fx).reshape(-1, shape[2]).T @ fy.reshape(-1, shape[3])
        return total.reshape(n_model, -1)

    def _factors(self, samples: IntArray, row: IntArray, k: int) -> Factors:
        """Factors of rows (r,) with samples (r, s) each: (r, terms, P) and (r, terms, Q), terms = s * B."""
        at_m = self.at_m[samples]  # (r, s, 2)
        if self.unit is None:
            return bumps(at_m, float(self.bandwidth_m[k]), self.x_m, self.y_m)
        omega = self.unit[row] / self.bandwidth_m[k]  # (r, B, 2)
        parts = waves(at_m[:, :, None], omega[:, None], self.x_m, self.y_m)  # (r, s, B, P)
        shape = len(row), samples.shape[1] * omega.shape[1]
        return [(fx.reshape(*shape, len(self.x_m)), fy.reshape(*shape, len(self.y_m))) for fx, fy in parts]

    def _alike(self, rows: IntArray, most: int) -> Iterator[tuple[IntArray, IntArray]]:
        """Places (r,) in `rows` that have equally many samples s, and these (r, s), in bounded blocks."""
        first = self.ptr[rows]
        count = np.diff(self.ptr)[rows]
        for s in np.unique(count):
            place = np.flatnonzero(count == s)
            step = max(most // max(int(s), 1), 1)
            for begin in range(0, len(place), step):
                some = place[begin : begin + step]
                yield some, first[some, None] + np.arange(s)


def band_probability(bandwidth_m: float, side_m: float, bands: int, dimensions: int = 2) -> float:
    r"""Probability that `bands` wavelengths fit into a square of that side: P(j 2 pi / |omega| < l).

    With gamma = (2 pi j h / l)^2 it is exactly 1 - C(gamma): exp(-gamma / 2) in the plane, erfc(sqrt(gamma / 2)) on a
    line. [Lemma 3]
    """
    gamma = (2 * pi * bands * bandwidth_m / side_m) ** 2
    return exp(-gamma / 2) if dimensions == 2 else erfc(sqrt(gamma / 2))


def largest_bandwidth_m(side_m: float, bands: int, gamma: float) -> float:
    r"""The bandwidth sqrt(gamma) l / (2 pi j) up to which `bands` fit with probability 1 - C(gamma). [Lemma 3]"""
    return sqrt(gamma) * side_m / (2 * pi * bands)


def in_family(bandwidth_m: FloatArray, base_m: float, multiples: str | tuple[int, ...]) -> BoolArray:
    """Which bandwidths are an allowed whole multiple of the base: 1, 5, 9, ... for `4n+1`. [Lemma 4]

    Any whole multiple k keeps every k-th band in place, for the device's own band is where the wave begins; the
    family 4n + 1 of the paper is one choice.
    """
    ratio = bandwidth_m / base_m
    whole = np.rint(ratio).astype(np.int64)
    exact = np.abs(ratio - whole) <= 1e-9 * np.maximum(ratio, 1.0)
    allowed = (whole >= 1) & (whole % 4 == 1) if isinstance(multiples, str) else np.isin(whole, multiples)
    return exact & allowed


def shortest_interval_s(bandwidth_m: float, speed_m_s: float, share: float, dimensions: int = 2) -> float:
    r"""Time in which a UE at that speed passes the wavelength of a `share` of all waves.

    P(2 pi h / |xi| < s) = share, solved for s, over the speed: |xi| exceeds r with probability exp(-r^2 / 2) in the
    plane and erfc(r / sqrt(2)) on a line. Snapshots that are farther apart leave that share of displacements known
    modulo a wavelength only.
    """
    exceeded = sqrt(2 * log(1 / share)) if dimensions == 2 else -NormalDist().inv_cdf(share / 2)
    return 2 * pi * bandwidth_m / exceeded / speed_m_s

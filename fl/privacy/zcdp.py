r"""Sums that need no root: zero-concentrated privacy, and the epsilons of single rounds added up.

A Gaussian round with noise multiplier z is rho-zCDP with rho = 1 / (2 z^2), and rhos add [Bun and Steinke 2016].
Sampling of users gives zCDP nothing: its sum is that of rounds with all users.
"""

from __future__ import annotations

import math

import numpy as np

from netsim.units import FloatArray


def rho_of(z: FloatArray, count: FloatArray) -> float:
    """rho = sum count / (2 z^2) of rounds with noise multipliers z (n,), each played count (n,) times."""
    with np.errstate(divide="ignore", over="ignore"):
        return float(np.sum(np.asarray(count) / (2 * np.asarray(z, dtype=np.float64) ** 2)))


def epsilon_of(rho: float | FloatArray, delta: float) -> FloatArray:
    """rho + 2 sqrt(rho ln(1 / delta)), of any shape [Bun and Steinke 2016, Proposition 1.3]."""
    _check(delta)
    return rho + 2 * np.sqrt(np.asarray(rho, dtype=np.float64) * math.log(1 / delta))


def naive_epsilon_of(z: FloatArray, q: FloatArray, count: FloatArray, delta: float) -> float:
    """The exact epsilons of all single rounds at delta / rounds each, added up.

    z, q, count (n,): a round that users take part in with probability q spends ln(1 + q (e^eps - 1)) at q delta when
    the round with all of them spends eps at delta [Balle, Barthe, Gaboardi 2018; add-remove].
    """
    _check(delta)
    z, q, count = (np.asarray(x, dtype=np.float64) for x in (z, q, count))
    if not count.sum():
        return 0.0
    with np.errstate(over="ignore"):
        full = _single_epsilons(z, np.minimum(delta / count.sum() / q, 1.0))
        sampled = np.where(full < 50, np.log1p(q * np.expm1(np.minimum(full, 50))), full + np.log(q))
    return float(np.sum(count * np.where(q == 1, full, np.maximum(sampled, 0.0))))


def _single_epsilons(z: FloatArray, delta: FloatArray) -> FloatArray:
    """epsilon (n,) of one Gaussian release each, as `gaussian.epsilon_of`: all roots at once, bisected from above."""
    from scipy.special import erfcx, ndtr

    with np.errstate(divide="ignore", over="ignore"):
        mu = 1 / z
    plain = (mu > 1e-300) & (mu < 1e150) & (delta < 1)
    m, d = np.where(plain, mu, 1.0), np.where(plain, delta, 0.5)

    def delta_at(t: FloatArray) -> FloatArray:
        """delta at eps = m^2 / 2 + m t."""
        factor = np.exp(-t * t / 2) / 2
        first = np.where(t > 0, factor * erfcx(np.maximum(t, 0.0) / math.sqrt(2)), ndtr(-t))
        return np.asarray(first - factor * erfcx((m + t) / math.sqrt(2)))

    low, high = np.maximum(-m / 2, -40.0), np.sqrt(2 * np.log(1 / d))
    free = delta_at(-m / 2) <= d
    for _ in range(52):
        middle = (low + high) / 2
        above = delta_at(middle) > d
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    epsilon = np.where(free, 0.0, np.maximum(m * (m / 2 + high), 0.0))
    return np.where(plain, epsilon, np.where((mu <= 1e-300) | (delta >= 1), 0.0, np.inf))


def _check(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1), got {delta}")

r"""Renyi differential privacy of the Gaussian mechanism on a Poisson sample of the users.

Each user takes part with probability q, by a secret coin of its own; noise of deviation z times the bound hides the
sum. With N the noise and p the density of N + 1 on the bound's scale, order alpha costs

    r(alpha) = ln A / (alpha - 1),    A = E_N[((1 - q) + q p(N) / p_0(N))^alpha]     [Mironov, Talwar, Zhang 2019, 3.3]

and this bounds both directions of add-remove [ibid.]. q = 1 gives alpha / (2 z^2). Costs of rounds add at
each order, also when z depends on what earlier rounds showed, as long as the total is fixed (see `filter`).

ORDERS: 1.1 to 10.9 by 0.1, 11 to 63, 128, 256, 512, 1024, those of dp-accounting. An epsilon is the smallest over them.

Whole orders sum all terms but those that add up to 1, so a small cost keeps its digits. Other orders take the series of
dp-accounting, which adds the absolute values of its terms and so errs upwards, and which low orders leave unconverged
after 1,000 terms when q is large: these count as infinite, silently.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from netsim.units import FloatArray

ORDERS: FloatArray = np.array([1 + x / 10 for x in range(1, 100)] + list(range(11, 64)) + [128, 256, 512, 1024])
_LARGE = 63  # orders above have sums of their own size
_TERMS = 1000  # of the series, where dp-accounting gives up
_NO_LONGER = 30.0  # a term counts whose logarithm is no further below that of the sum
_AT_ONCE = 4096  # rounds, so that their terms fit into memory
_NO_DIGIT = 40.0
_DIGITS_LEFT = 1e-9  # ln A below this is rounding, where it is a difference from 1


@lru_cache(maxsize=64)
def renyi(z: float, q: float = 1.0) -> FloatArray:
    """The cost of one round at ORDERS (n_orders,), for noise multiplier z >= 0 and sampling rate q in [0, 1]."""
    return np.asarray(costs(np.array([z]), np.array([q]))[0])


def costs(z: FloatArray, q: FloatArray) -> FloatArray:
    """The same of rounds (n,): (n, n_orders)."""
    n = len(ORDERS)
    return _at_orders(np.repeat(z, n), np.repeat(q, n), np.tile(ORDERS, len(z))).reshape(len(z), n)


def _at_orders(z: FloatArray, q: FloatArray, order: FloatArray) -> FloatArray:
    """The cost of rounds, each at its own of ORDERS: all (n,)."""
    cost = np.zeros(len(z))
    with np.errstate(over="ignore", divide="ignore"):
        square = z * z
        hides = (q > 0) & np.isfinite(square)
        cost[hides] = order[hides] / (2 * square[hides])  # for q = 1
    sampled = hides & (square > 0) & (q < 1)
    whole = order == np.floor(order)
    small = whole & (order <= _LARGE)
    for law, those in ((_log_a_whole, small), (_log_a_whole, whole & ~small), (_log_a_between, ~whole)):
        rows = np.flatnonzero(sampled & those)
        for at in range(0, len(rows), _AT_ONCE):
            some = rows[at : at + _AT_ONCE]
            cost[some] = law(z[some], q[some], order[some]) / (order[some] - 1)
    rounding = np.flatnonzero(sampled & ~whole & (cost * (order - 1) < _DIGITS_LEFT))
    if len(rounding):  # the next whole order costs no less
        cost[rounding] = _at_orders(z[rounding], q[rounding], np.ceil(order[rounding]))
    return cost


def full(mu2: float | FloatArray) -> FloatArray:
    """The cost of rounds that all users take part in, mu2 = sum 1 / z^2 of any shape: (..., n_orders)."""
    return np.multiply.outer(np.asarray(mu2, dtype=np.float64), ORDERS / 2)


def epsilon_of(cost: FloatArray, delta: float) -> FloatArray:
    """The smallest epsilon (...,) that costs (..., n_orders) at ORDERS allow at this delta.

    r + ln(1 - 1 / alpha) - ln(delta alpha) / (alpha - 1)    [Canonne, Kamath, Steinke 2020, Proposition 12],
    and 0 where delta^2 > 1 - e^-r, as the KL divergence alone says. Raises ValueError for a delta outside (0, 1).
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1), got {delta}")
    offset = np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    least = np.min(cost + offset, axis=-1)
    free = np.any(delta**2 + np.expm1(-cost) > 0, axis=-1)
    return np.where(free, 0.0, np.maximum(least, 0.0))


def _log_a_whole(z: FloatArray, q: FloatArray, order: FloatArray) -> FloatArray:
    """ln A of whole orders: ln(1 + sum over k >= 2 of binomial (1-q)^(a-k) q^k (e^((k^2-k) / 2z^2) - 1)); all (n,)."""
    from scipy.special import gammaln

    k = np.arange(2, int(order.max()) + 1)
    kinds, which = np.unique(order, return_inverse=True)
    a = kinds[:, None]
    log_binomial = gammaln(a + 1) - gammaln(k + 1) - gammaln(np.maximum(a - k, 0) + 1)
    with np.errstate(over="ignore", divide="ignore"):
        y = (k * k - k) / (2 * z * z)[:, None]
        log_grown = np.where(y < _NO_DIGIT, np.log(np.expm1(np.minimum(y, _NO_DIGIT))), y)  # ln(e^y - 1)
    terms = log_binomial[which] + k * np.log(q)[:, None] + (order[:, None] - k) * np.log1p(-q)[:, None] + log_grown
    terms = np.where(k > order[:, None], -np.inf, terms)
    most = terms.max(axis=1)
    return np.asarray(np.logaddexp(0.0, most + np.log(np.exp(terms - most[:, None]).sum(axis=1))))


def _log_a_between(z: FloatArray, q: FloatArray, order: FloatArray) -> FloatArray:
    """ln A of orders that are not whole, inf where the series has not converged; all (n,).

    Two sums of [Mironov, Talwar, Zhang 2019, 3.3], which fall off in the end.
    """
    total = np.full(len(z), -np.inf)
    last = np.full((2, len(z)), np.inf)
    left = np.arange(len(z))  # rounds whose series goes on
    for i in range(_TERMS):
        terms = _series(i, z[left], q[left], order[left])
        total[left] = np.logaddexp(total[left], np.logaddexp(*terms))
        ends = (terms < last[:, left]).all(axis=0) & (terms.max(axis=0) < total[left] - _NO_LONGER)
        last[:, left] = terms
        left = left[~ends]
        if not len(left):
            break
    total[left] = np.inf
    return total


def _series(i: int, z: FloatArray, q: FloatArray, order: FloatArray) -> FloatArray:
    """Logarithms of term i of both sums (2, n)."""
    from scipy.special import gammaln, log_ndtr

    j = order - i
    log_q = np.log(q)
    log_1mq = np.log1p(-q)
    log_binomial = gammaln(order + 1) - gammaln(i + 1) - gammaln(j + 1)
    middle = z * z * (log_1mq - log_q) + 0.5
    half = 0.5 / (z * z)
    below = i * log_q + j * log_1mq + (i * i - i) * half + log_ndtr((middle - i) / z)
    above = j * log_q + i * log_1mq + (j * j - j) * half + log_ndtr((j - middle) / z)
    return np.asarray(log_binomial + np.stack([below, above]))

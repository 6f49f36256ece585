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
_WHOLE = np.floor(ORDERS) == ORDERS
_LARGE = _WHOLE & (ORDERS > 63)
_NEXT_WHOLE = np.searchsorted(ORDERS, np.ceil(ORDERS))
_TERMS = (64, 1000)  # of the series: enough for most, and where dp-accounting gives up
_DIGITS_LEFT = 1e-9  # ln A below this is rounding, where it is a difference from 1


@lru_cache(maxsize=64)
def renyi(z: float, q: float = 1.0) -> FloatArray:
    """The cost of one round at ORDERS (n_orders,), for noise multiplier z >= 0 and sampling rate q in [0, 1]."""
    if q == 0 or math.isinf(z * z):
        return np.zeros(len(ORDERS))
    if z == 0 or z * z == 0:
        return np.full(len(ORDERS), np.inf)
    if q == 1:
        return full(1 / z**2)
    log_a = np.empty(len(ORDERS))
    with np.errstate(over="ignore"):
        for whole in (_WHOLE & ~_LARGE, _LARGE):
            log_a[whole] = _log_a_whole(z, q, ORDERS[whole])
        log_a[~_WHOLE] = _log_a_between(z, q, ORDERS[~_WHOLE])
    cost = log_a / (ORDERS - 1)
    rounding = ~_WHOLE & (log_a < _DIGITS_LEFT)  # the next whole order costs no less
    return np.where(rounding, cost[_NEXT_WHOLE], cost)


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
    least = np.min(cost + at_no_cost(delta), axis=-1)
    free = np.any(delta**2 + np.expm1(-cost) > 0, axis=-1)
    return np.asarray(np.where(free, 0.0, np.maximum(least, 0.0)))


def at_no_cost(delta: float) -> FloatArray:
    """What an epsilon is above its cost at ORDERS (n_orders,)."""
    above: FloatArray = np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return above


@lru_cache(maxsize=8)
def _log_binomial(orders: tuple[float, ...], terms: int) -> FloatArray:
    """ln |binomial(order, k)| for k < terms: (n_orders, terms); -inf beyond a whole order."""
    from scipy.special import gammaln

    a, k = np.array(orders)[:, None], np.arange(terms)[None, :]
    with np.errstate(invalid="ignore"):
        logarithm = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1)
    return np.where((a == np.floor(a)) & (k > a), -np.inf, logarithm)


def _log_a_whole(z: float, q: float, orders: FloatArray) -> FloatArray:
    """ln A of whole orders: ln(1 + sum over k >= 2 of binomial (1-q)^(a-k) q^k (e^((k^2-k) / 2z^2) - 1))."""
    from scipy.special import logsumexp

    k = np.arange(2, int(orders.max()) + 1)
    y = (k * k - k) / (2 * z * z)
    grown = np.where(y < 1, np.log(np.expm1(np.minimum(y, 1.0))), y + np.log1p(-np.exp(-np.maximum(y, 1.0))))
    log_binomial = _log_binomial(tuple(orders), len(k) + 2)[:, 2:]
    terms = log_binomial + k * math.log(q) + np.maximum(orders[:, None] - k, 0) * math.log1p(-q) + grown
    return np.asarray(np.logaddexp(0.0, logsumexp(terms, axis=1)))


def _log_a_between(z: float, q: float, orders: FloatArray) -> FloatArray:
    """ln A of orders that are not whole, inf where the series has not converged."""
    log_a = np.full(len(orders), np.inf)
    for terms in _TERMS:
        left = np.isinf(log_a)
        if left.any():
            log_a[left] = _series(z, q, orders[left], terms)
    return log_a


def _series(z: float, q: float, orders: FloatArray, terms: int) -> FloatArray:
    """The two sums of [Mironov, Talwar, Zhang 2019, 3.3], stopped at the first term that no longer counts."""
    from scipy.special import log_ndtr

    i, a = np.arange(terms)[None, :], orders[:, None]
    j = a - i
    log_q, log_1mq, log_binomial = math.log(q), math.log1p(-q), _log_binomial(tuple(orders), terms)
    z0 = z * z * (log_1mq - log_q) + 0.5
    below = log_binomial + i * log_q + j * log_1mq + (i * i - i) / (2 * z * z) + log_ndtr((z0 - i) / z)
    above = log_binomial + j * log_q + i * log_1mq + (j * j - j) / (2 * z * z) + log_ndtr((j - z0) / z)
    total = np.logaddexp.accumulate(np.logaddexp(below, above), axis=1)
    falls = np.zeros(total.shape, dtype=bool)
    falls[:, 1:] = (below[:, 1:] < below[:, :-1]) & (above[:, 1:] < above[:, :-1])
    done = falls & (np.maximum(below, above) < total - 30)
    first = done.argmax(axis=1)
    return np.where(done.any(axis=1), total[np.arange(len(orders)), first], np.inf)

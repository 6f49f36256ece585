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

from netsim.units import FloatArray, IntArray

ORDERS: FloatArray = np.array([1 + x / 10 for x in range(1, 100)] + list(range(11, 64)) + [128, 256, 512, 1024])
_WHOLE = np.floor(ORDERS) == ORDERS
_LARGE = _WHOLE & (ORDERS > 63)
_NEXT_WHOLE = np.searchsorted(ORDERS, np.ceil(ORDERS))
_TERMS = 1000  # of the series, where dp-accounting gives up
_AT_ONCE = 4096  # rounds, so that their terms fit into memory
_NO_DIGIT = 40.0
_DIGITS_LEFT = 1e-9  # ln A below this is rounding, where it is a difference from 1


@lru_cache(maxsize=64)
def renyi(z: float, q: float = 1.0) -> FloatArray:
    """The cost of one round at ORDERS (n_orders,), for noise multiplier z >= 0 and sampling rate q in [0, 1]."""
    return at_orders(np.full(len(ORDERS), z), np.full(len(ORDERS), q), np.arange(len(ORDERS)))


def at_orders(z: FloatArray, q: FloatArray, at: IntArray) -> FloatArray:
    """The cost of rounds with noise multipliers z >= 0 and rates q in [0, 1], each at its own ORDERS[at]: all (n,)."""
    cost = np.zeros(len(z))
    with np.errstate(over="ignore"):
        square = z * z
        hides = (q > 0) & np.isfinite(square)
    cost[hides & (square == 0)] = np.inf
    whole_q = hides & (square > 0) & (q == 1)
    cost[whole_q] = ORDERS[at[whole_q]] / (2 * square[whole_q])
    left = np.flatnonzero(hides & (square > 0) & (q < 1))
    for some in np.array_split(left, max(-(-len(left) // _AT_ONCE), 1)):
        cost[some] = _sampled(z[some], q[some], at[some])
    return cost


def _sampled(z: FloatArray, q: FloatArray, at: IntArray) -> FloatArray:
    """The cost of rounds with z > 0 and q in (0, 1)."""
    log_a, order = np.empty(len(z)), ORDERS[at]
    for these, law in (
        (_WHOLE[at] & ~_LARGE[at], _log_a_whole), (_LARGE[at], _log_a_whole), (~_WHOLE[at], _log_a_between)
    ):  # fmt: skip
        if these.any():
            with np.errstate(over="ignore"):
                log_a[these] = law(z[these], q[these], order[these])
    cost = log_a / (order - 1)
    rounding = np.flatnonzero(~_WHOLE[at] & (log_a < _DIGITS_LEFT))  # the next whole order costs no less
    if len(rounding):
        cost[rounding] = _sampled(z[rounding], q[rounding], _NEXT_WHOLE[at[rounding]])
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
    least = np.min(cost + at_no_cost(delta), axis=-1)
    free = np.any(delta**2 + np.expm1(-cost) > 0, axis=-1)
    return np.where(free, 0.0, np.maximum(least, 0.0))


def at_no_cost(delta: float) -> FloatArray:
    """Offset of an epsilon above its cost at ORDERS (n_orders,)."""
    above: FloatArray = np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return above


@lru_cache(maxsize=32)
def _log_binomials(orders: tuple[float, ...], terms: int) -> FloatArray:
    """ln |binomial(order, k)| for k < terms: (n_orders, terms); -inf beyond a whole order."""
    from scipy.special import gammaln

    a, k = np.array(orders)[:, None], np.arange(terms)[None, :]
    with np.errstate(invalid="ignore"):
        logarithm = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1)
    return np.where((a == np.floor(a)) & (k > a), -np.inf, logarithm)


def _log_binomial(order: FloatArray, terms: int) -> FloatArray:
    """The same for orders (n,) that repeat: (n, terms), or (1, terms) where there is but one."""
    kinds, which = np.unique(order, return_inverse=True)
    rows = _log_binomials(tuple(kinds.tolist()), terms)
    return rows if len(kinds) == 1 else rows[which]


def _log_a_whole(z: FloatArray, q: FloatArray, order: FloatArray) -> FloatArray:
    """ln A of whole orders: ln(1 + sum over k >= 2 of binomial (1-q)^(a-k) q^k (e^((k^2-k) / 2z^2) - 1)); all (n,)."""
    k = np.arange(2, int(order.max()) + 1)
    y = (k * k - k) / (2 * z * z)[:, None]
    grown = y.copy()  # ln(e^y - 1), which is y where e^-y has no digit
    close = y < _NO_DIGIT
    near = y[close]
    tiny, rest = np.minimum(near, 1.0), np.maximum(near, 1.0)
    grown[close] = np.where(near < 1, np.log(np.expm1(tiny)), rest + np.log1p(-np.exp(-rest)))
    terms = _log_binomial(order, len(k) + 2)[:, 2:] + k * np.log(q)[:, None]
    terms = terms + np.maximum(order[:, None] - k, 0) * np.log1p(-q)[:, None] + grown
    most = terms.max(axis=1)
    return np.asarray(np.logaddexp(0.0, most + np.log(np.exp(terms - most[:, None]).sum(axis=1))))


def _log_a_between(z: FloatArray, q: FloatArray, order: FloatArray) -> FloatArray:
    """ln A of orders that are not whole, inf where the series has not converged; all (n,)."""
    from fl.privacy.rdp_loops import series

    kinds, which = np.unique(order, return_inverse=True)
    return series(z, q, order, _log_binomials(tuple(kinds.tolist()), _TERMS), which)

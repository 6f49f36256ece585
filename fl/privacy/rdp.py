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

from fl.privacy.gaussian import check_delta
from netsim.compiled import compiled
from netsim.units import FloatArray

ORDERS: FloatArray = np.array([1 + x / 10 for x in range(1, 100)] + list(range(11, 64)) + [128, 256, 512, 1024])
_LARGE = 63  # orders above have sums of their own size
_TERMS = 1000  # of the series, where dp-accounting gives up
_AT_ONCE = 4096  # rounds, so that their terms fit into memory
_FEW = 16  # kinds of rounds, whose costs at all orders are kept
_NO_DIGIT = 40.0
_DIGITS_LEFT = 1e-9  # ln A below this is rounding, where it is a difference from 1
_FAR = -30.0  # below, the tail of a normal distribution is taken from its asymptotic series
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_HALF = math.sqrt(0.5)
_NO_LONGER = math.exp(-30.0)  # a term counts that is a larger part of the sum
_GROWS = 300.0  # logarithm of a term, over the scale of the sum, from which the scale grows


@lru_cache(maxsize=64)
def renyi(z: float, q: float = 1.0) -> FloatArray:
    """The cost of one round at ORDERS (n_orders,), for noise multiplier z >= 0 and sampling rate q in [0, 1]."""
    return _at_orders(np.full(len(ORDERS), z), np.full(len(ORDERS), q), ORDERS)


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


def skellam(std: FloatArray, l2: FloatArray, l1: FloatArray) -> FloatArray:
    """Costs (n_orders,) of noise of variance std^2 on whole numbers that a user moves by l2 and l1, all (n,) together.

    a l2^2 / (2 v) + min(((2 a - 1) l2^2 + 6 l1) / (4 v^2), 3 l1 / (2 v)), v = std^2, of order a
    [Agarwal, Kairouz, Liu 2021, "The Skellam Mechanism", Theorem 3.5].
    """
    a = ORDERS[:, None]
    v = std**2
    more = np.minimum(((2 * a - 1) * l2**2 + 6 * l1) / (4 * v**2), 3 * l1 / (2 * v))
    return np.asarray((a * l2**2 / (2 * v) + more).sum(axis=1))


def epsilon_of(cost: FloatArray, delta: float) -> FloatArray:
    """The smallest epsilon (...,) that costs (..., n_orders) at ORDERS allow at this delta.

    r + ln(1 - 1 / alpha) - ln(delta alpha) / (alpha - 1)    [Canonne, Kamath, Steinke 2020, Proposition 12],
    and 0 where delta^2 > 1 - e^-r, as the KL divergence alone says. Raises ValueError for a delta outside (0, 1).
    """
    least = np.min(cost + _offset(ORDERS, delta), axis=-1)
    free = np.any(delta**2 + np.expm1(-cost) > 0, axis=-1)
    return np.where(free, 0.0, np.maximum(least, 0.0))


def _offset(order: FloatArray | float, delta: float) -> FloatArray:
    """What an epsilon is above the cost at orders, of their shape."""
    check_delta(delta)
    return np.log1p(-1 / order) - (math.log(delta) + np.log(order)) / (order - 1)


def least_epsilon(z: FloatArray, q: FloatArray, count: FloatArray, delta: float) -> float:
    """`epsilon_of` of rounds with multipliers z and rates q, played count times (n,), from few of the ORDERS.

    ln A of a sum of rounds is convex in alpha and 0 at alpha = 1 [van Erven and Harremoes 2014, "Renyi divergence and
    Kullback-Leibler divergence", Theorem 11]. So over whole orders the epsilon falls, then rises, and the best order
    lies beside the best whole one. There, lines through two whole orders bound ln A from below, and an order that
    cannot be the best is not computed. Raises ValueError for a delta outside (0, 1).
    """
    certain = q == 1
    with np.errstate(divide="ignore", over="ignore"):
        mu2 = float(np.sum(count[certain] / z[certain] ** 2))
    z = z[~certain]
    q = q[~certain]
    count = count[~certain]
    if len(z) <= _FEW or _may_be_free(z, q, count, mu2, delta):
        spent = full(mu2)
        for one, rate, n in zip(z.tolist(), q.tolist(), count.tolist(), strict=True):
            spent = spent + n * renyi(one, rate)
        return float(epsilon_of(spent, delta))

    def cost(order: float) -> float:
        return float(count @ _at_orders(z, q, np.full(len(z), order))) + mu2 * order / 2

    is_whole = np.floor(ORDERS) == ORDERS
    known = [1.0]
    log_a = [0.0]
    epsilon = [math.inf]
    for order in ORDERS[is_whole].tolist():
        of_all = cost(order)
        known.append(order)
        log_a.append(of_all * (order - 1))
        epsilon.append(of_all + float(_offset(order, delta)))
        if len(known) > 3 and epsilon[-1] >= epsilon[-2] >= epsilon[-3]:
            break
    best = int(np.argmin(epsilon))
    least = epsilon[best]
    if not math.isfinite(least):
        return math.inf
    slope = np.diff(log_a) / np.diff(known)

    def bound(order: float) -> float:
        right = int(np.searchsorted(known, order))
        lines = [log_a[k] + slope[k] * (order - known[k]) for k in (right - 2, right) if 0 <= k < len(slope)]
        return float(max(lines) / (order - 1) + _offset(order, delta))

    least_order = known[best - 1]
    most_order = known[min(best + 1, len(known) - 1)]
    beside = ~is_whole & (least_order < ORDERS) & (most_order > ORDERS)
    for order in sorted(ORDERS[beside].tolist(), key=bound):
        if bound(order) >= least:
            break
        least = min(least, cost(order) + float(_offset(order, delta)))
    return max(least, 0.0)


def _may_be_free(z: FloatArray, q: FloatArray, count: FloatArray, mu2: float, delta: float) -> bool:
    """Whether rounds could cost so little that delta covers them alone, which only the lowest orders can tell.

    Their KL divergence, below which no order lies, is 2 TV^2 at least (Pinsker), with TV = q (2 Phi(1 / 2z) - 1) of
    each round, and mu^2 / 2 of the rounds with all users.
    """
    from scipy.special import erf

    with np.errstate(divide="ignore"):
        apart = q * erf(1 / (2 * math.sqrt(2) * z))
    return float(count @ (2 * apart**2)) + mu2 / 2 < -math.log1p(-(delta**2))


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


@compiled
def _log_ndtr(x: float) -> float:
    """ln Phi(x) of a standard normal distribution, its relative error below 1e-12."""
    if x > 0.0:
        return math.log1p(-0.5 * math.erfc(x * _ROOT_HALF))
    if x > _FAR:
        return math.log(0.5 * math.erfc(-x * _ROOT_HALF))
    u = 1.0 / (x * x)
    tail = u * (-1.0 + u * (3.0 + u * (-15.0 + u * (105.0 - 945.0 * u))))
    return -0.5 * x * x - math.log(-x) - _HALF_LOG_2PI + math.log1p(tail)


@compiled
def _times_ndtr(log_factor: float, x: float) -> float:
    """e^log_factor Phi(x)."""
    if x > _FAR:
        return 0.5 * math.exp(log_factor) * math.erfc(-x * _ROOT_HALF)
    return math.exp(log_factor + _log_ndtr(x))


@compiled
def _log_a_between(z: FloatArray, q: FloatArray, order: FloatArray) -> FloatArray:
    """ln A of orders that are not whole, inf where the series has not converged within 1,000 terms; all (n,).

    Two sums of [Mironov, Talwar, Zhang 2019, 3.3] over e^scale, which fall off in the end.
    """
    found = np.full(len(z), np.inf)
    for n in range(len(z)):
        log_q = math.log(q[n])
        log_1mq = math.log1p(-q[n])
        std = z[n]
        half = 0.5 / (std * std)
        middle = std * std * (log_1mq - log_q) + 0.5
        binomial = ratio = 1.0
        total = scale = log_below = log_above = at_below = at_above = 0.0
        for i in range(_TERMS):
            j = order[n] - i
            last_below = log_below
            last_above = log_above
            last_at_below = at_below
            last_at_above = at_above
            log_below = i * log_q + j * log_1mq + (i * i - i) * half
            log_above = j * log_q + i * log_1mq + (j * j - j) * half
            at_below = (middle - i) / std
            at_above = (j - middle) / std
            more = max(log_below - 0.5 * min(at_below, 0.0) ** 2, log_above - 0.5 * min(at_above, 0.0) ** 2) - scale
            if more > _GROWS:
                scale += more
                total *= math.exp(-more)
            below = binomial * _times_ndtr(log_below - scale, at_below)
            above = binomial * _times_ndtr(log_above - scale, at_above)
            total += below + above
            if i and max(below, above) < total * _NO_LONGER:
                grown = math.log(ratio)  # of binomials
                falls_below = grown + log_below + _log_ndtr(at_below) < last_below + _log_ndtr(last_at_below)
                if falls_below and grown + log_above + _log_ndtr(at_above) < last_above + _log_ndtr(last_at_above):
                    found[n] = scale + math.log(total)
                    break
            ratio = abs(j) / (i + 1)
            binomial *= ratio
    return found

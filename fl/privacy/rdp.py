r"""Renyi differential privacy of the Gaussian mechanism on a Poisson sample of the users.

Each user takes part with probability q, by a secret coin of its own; noise of deviation z times the
bound hides the sum. With N the noise and p the density of N + 1 on the bound's scale, order alpha
costs

    r(alpha) = ln A / (alpha - 1),    A = E_N[((1 - q) + q p(N) / p_0(N))^alpha]     [Mironov,
    Talwar, Zhang 2019, 3.3]

and this bounds both directions of add-remove [ibid.]. q = 1 gives alpha / (2 z^2). Costs of rounds
add at each order, also when z depends on what earlier rounds showed, as long as the total is fixed
(see `filter`).

ORDERS: 1.1 to 10.9 by 0.1, 11 to 63, 128, 256, 512, 1024, those of dp-accounting. An epsilon is the
smallest over them.

Whole orders sum all terms but those that add up to 1, so a small cost keeps its digits. Other
orders take the series of dp-accounting, which adds the absolute values of its terms and so errs
upwards, and which low orders leave unconverged after 1,000 terms when q is large: these count as
infinite, silently.
"""

import math
from functools import lru_cache

import numpy as np

from fl.privacy.gaussian import check_delta
from netsim.compiled import compiled
from netsim.units import FloatArray

ORDERS: FloatArray = np.array(
    [1 + x / 10 for x in range(1, 100)] + list(range(11, 64)) + [128, 256, 512, 1024]
)
_LARGE = 63  # orders above have sums of their own size
_TERMS = 1000  # of the series, where dp-accounting gives up
_NO_DIGIT = 40.0
_DIGITS_LEFT = 1e-9  # ln A below this is rounding, where it is a difference from 1
_FAR = -30.0  # below, the tail of a normal distribution is taken from its asymptotic series
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_HALF = math.sqrt(0.5)
_NO_LONGER = math.exp(-30.0)  # a term counts that is a larger part of the sum
_GROWS = 300.0  # logarithm of a term, over the scale of the sum, from which the scale grows


@lru_cache(maxsize=64)
@np.errstate(over="ignore", divide="ignore")
def compute_renyi_cost(z: float, q: float = 1.0) -> FloatArray:
    """The cost of one round at ORDERS (n_orders,), for noise multiplier z >= 0 and sampling rate q
    in [0, 1].
    """
    square = z * z
    if q == 0 or math.isinf(square):
        return np.zeros(len(ORDERS))
    if q == 1 or square == 0:
        return ORDERS / np.float64(2 * square)
    log_a = np.empty(len(ORDERS))
    is_whole = np.floor(ORDERS) == ORDERS
    is_small = is_whole & (ORDERS <= _LARGE)
    is_large = is_whole & ~is_small
    log_a[is_small] = _compute_log_a_whole(z, q, ORDERS[is_small])
    log_a[is_large] = _compute_log_a_whole(z, q, ORDERS[is_large])
    log_a[~is_whole] = _compute_log_a_between(z, q, ORDERS[~is_whole])
    cost = log_a / (ORDERS - 1)
    is_rounding = ~is_whole & (log_a < _DIGITS_LEFT)  # the next whole order costs no less
    cost[is_rounding] = cost[np.searchsorted(ORDERS, np.ceil(ORDERS[is_rounding]))]
    return cost


def compute_full_cost(mu2: float | FloatArray) -> FloatArray:
    """The cost of rounds that all users take part in, mu2 = sum 1 / z^2 of any shape: (...,
    n_orders).
    """
    return np.multiply.outer(np.asarray(mu2, dtype=np.float64), ORDERS / 2)


def compute_skellam_cost(std: FloatArray, l2: FloatArray, l1: FloatArray) -> FloatArray:
    """Costs (n_orders,) of noise of variance std^2 on whole numbers that a user moves by l2 and l1,
    all (n,) together.

    a l2^2 / (2 v) + min(((2 a - 1) l2^2 + 6 l1) / (4 v^2), 3 l1 / (2 v)), v = std^2, of order a
    [Agarwal, Kairouz, Liu 2021, "The Skellam Mechanism", Theorem 3.5].
    """
    a = ORDERS[:, None]
    v = std**2
    high = ((2 * a - 1) * l2**2 + 6 * l1) / (4 * v**2)
    beyond = np.minimum(high, 3 * l1 / (2 * v))
    gaussian = a * l2**2 / (2 * v)
    return (gaussian + beyond).sum(axis=1)


def compute_renyi_epsilon(cost: FloatArray, delta: float) -> FloatArray:
    """The smallest epsilon (...,) that costs (..., n_orders) at ORDERS allow at this delta.

    r + ln(1 - 1 / alpha) - ln(delta alpha) / (alpha - 1)    [Canonne, Kamath, Steinke 2020,
    Proposition 12], and 0 where delta^2 > 1 - e^-r, as the KL divergence alone says. Raises
    ValueError for a delta outside (0, 1).
    """
    check_delta(delta)
    log_delta_alpha = math.log(delta) + np.log(ORDERS)
    offset = np.log1p(-1 / ORDERS) - log_delta_alpha / (ORDERS - 1)
    is_free = (delta**2 + np.expm1(-cost) > 0).any(axis=-1)
    smallest = (cost + offset).min(axis=-1)
    return np.where(is_free, 0.0, np.maximum(smallest, 0.0))


def _compute_log_a_whole(z: float, q: float, order: FloatArray) -> FloatArray:
    """ln A of whole orders (n,): ln(1 + sum over k >= 2 of binomial (1-q)^(a-k) q^k (e^((k^2-k) /
    2z^2) - 1)).
    """
    from scipy.special import gammaln

    k = np.arange(2, int(order.max()) + 1)
    a = order[:, None]
    log_binomial = gammaln(a + 1) - gammaln(k + 1) - gammaln(np.maximum(a - k, 0) + 1)
    y = (k * k - k) / (2 * z * z)
    log_grown = np.log(np.expm1(np.minimum(y, _NO_DIGIT)))  # ln(e^y - 1)
    log_grown = np.where(y < _NO_DIGIT, log_grown, y)
    terms = log_binomial + k * np.log(q) + (a - k) * np.log1p(-q) + log_grown
    terms = np.where(k > a, -np.inf, terms)
    largest = terms.max(axis=1)
    total = np.exp(terms - largest[:, None]).sum(axis=1)
    return np.logaddexp(0.0, largest + np.log(total))


@compiled
def _compute_log_ndtr(x: float) -> float:
    """ln Phi(x) of a standard normal distribution, its relative error below 1e-12."""
    if x > 0.0:
        return math.log1p(-0.5 * math.erfc(x * _ROOT_HALF))
    if x > _FAR:
        return math.log(0.5 * math.erfc(-x * _ROOT_HALF))
    u = 1.0 / (x * x)
    tail = u * (-1.0 + u * (3.0 + u * (-15.0 + u * (105.0 - 945.0 * u))))
    return -0.5 * x * x - math.log(-x) - _HALF_LOG_2PI + math.log1p(tail)


@compiled
def _multiply_ndtr(log_factor: float, x: float) -> float:
    """e^log_factor Phi(x)."""
    if x > _FAR:
        return 0.5 * math.exp(log_factor) * math.erfc(-x * _ROOT_HALF)
    return math.exp(log_factor + _compute_log_ndtr(x))


@compiled
def _compute_log_a_between(z: float, q: float, order: FloatArray) -> FloatArray:
    """ln A of orders that are not whole, inf where the series has not converged within 1,000 terms:
    (n,).

    Two sums of [Mironov, Talwar, Zhang 2019, 3.3] over e^scale, which fall off in the end.
    """
    log_a = np.full(len(order), np.inf)
    log_q = math.log(q)
    log_1mq = math.log1p(-q)
    half = 0.5 / (z * z)
    middle = z * z * (log_1mq - log_q) + 0.5
    for n in range(len(order)):
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
            at_below = (middle - i) / z
            at_above = (j - middle) / z
            log_tail_below = log_below - 0.5 * min(at_below, 0.0) ** 2
            log_tail_above = log_above - 0.5 * min(at_above, 0.0) ** 2
            excess = max(log_tail_below, log_tail_above) - scale
            if excess > _GROWS:
                scale += excess
                total *= math.exp(-excess)
            below = binomial * _multiply_ndtr(log_below - scale, at_below)
            above = binomial * _multiply_ndtr(log_above - scale, at_above)
            total += below + above
            if i and max(below, above) < total * _NO_LONGER:
                grown = math.log(ratio)  # of binomials
                now_below = grown + log_below + _compute_log_ndtr(at_below)
                now_above = grown + log_above + _compute_log_ndtr(at_above)
                falls_below = now_below < last_below + _compute_log_ndtr(last_at_below)
                falls_above = now_above < last_above + _compute_log_ndtr(last_at_above)
                if falls_below and falls_above:
                    log_a[n] = scale + math.log(total)
                    break
            ratio = abs(j) / (i + 1)
            binomial *= ratio
    return log_a

"""The series of Renyi costs as a compiled loop: it ends with the first term that no longer counts."""

from __future__ import annotations

import math

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray

_FAR = -30.0  # below, the tail of a normal distribution is taken from its asymptotic series
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_HALF = math.sqrt(0.5)
_NO_LONGER = math.exp(-30.0)  # a term counts that is a larger part of the sum
_LARGE = 300.0  # logarithm of a term, over the scale of the sum, from which the scale grows


@compiled
def log_ndtr(x: float) -> float:
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
    return math.exp(log_factor + log_ndtr(x))


@compiled
def series(z: FloatArray, q: FloatArray, order: FloatArray, log_binomial: FloatArray, row: IntArray) -> FloatArray:
    """ln A of orders that are not whole, inf where the series has not converged within its terms; all (n,).

    Two sums of [Mironov, Talwar, Zhang 2019, 3.3], over e^scale. log_binomial (orders, terms) : ln |binomial(order,
    k)|, of which round i takes row[i].
    """
    found = np.empty(len(z))
    for n in range(len(z)):
        a, s, coefficients = order[n], z[n], log_binomial[row[n]]
        log_q, log_1mq, half = math.log(q[n]), math.log1p(-q[n]), 0.5 / (s * s)
        z0 = s * s * (log_1mq - log_q) + 0.5
        total = scale = log_below = log_above = at_below = at_above = 0.0
        found[n] = np.inf
        for i in range(len(coefficients)):
            j, c = a - i, coefficients[i]
            last_below, last_above, last_at_below, last_at_above = log_below, log_above, at_below, at_above
            log_below, at_below = c + i * log_q + j * log_1mq + (i * i - i) * half, (z0 - i) / s
            log_above, at_above = c + j * log_q + i * log_1mq + (j * j - j) * half, (j - z0) / s
            more = max(_size(log_below, at_below), _size(log_above, at_above)) - scale
            if more > _LARGE:
                scale, total = scale + more, total * math.exp(-more)
            below, above = _times_ndtr(log_below - scale, at_below), _times_ndtr(log_above - scale, at_above)
            total += below + above
            if i and max(below, above) < total * _NO_LONGER:
                falls_below = log_below + log_ndtr(at_below) < last_below + log_ndtr(last_at_below)
                if falls_below and log_above + log_ndtr(at_above) < last_above + log_ndtr(last_at_above):
                    found[n] = scale + math.log(total)
                    break
    return found


@compiled
def _size(log_factor: float, x: float) -> float:
    """About the logarithm of e^log_factor Phi(x), never less."""
    return log_factor if x > 0.0 else log_factor - 0.5 * x * x

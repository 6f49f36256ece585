"""The series of Renyi costs at orders between whole ones, compiled: it ends where terms no longer count."""

from __future__ import annotations

import math

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray

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
def log_a(z: FloatArray, q: FloatArray, order: FloatArray, n_terms: int) -> FloatArray:
    """ln A of orders that are not whole, inf where the series has not converged within n_terms; all (n,).

    Two sums of [Mironov, Talwar, Zhang 2019, 3.3] over e^scale, which fall off in the end.
    """
    found = np.full(len(z), np.inf)
    for n in range(len(z)):
        log_q = math.log(q[n])
        log_1mq = math.log1p(-q[n])
        half = 0.5 / (z[n] * z[n])
        middle = z[n] * z[n] * (log_1mq - log_q) + 0.5
        binomial = ratio = 1.0
        total = scale = log_below = log_above = at_below = at_above = 0.0
        for i in range(n_terms):
            j = order[n] - i
            last_below, last_above, last_at_below, last_at_above = log_below, log_above, at_below, at_above
            log_below = i * log_q + j * log_1mq + (i * i - i) * half
            log_above = j * log_q + i * log_1mq + (j * j - j) * half
            at_below = (middle - i) / z[n]
            at_above = (j - middle) / z[n]
            more = max(log_below - 0.5 * min(at_below, 0.0) ** 2, log_above - 0.5 * min(at_above, 0.0) ** 2) - scale
            if more > _LARGE:
                scale += more
                total *= math.exp(-more)
            below = binomial * _times_ndtr(log_below - scale, at_below)
            above = binomial * _times_ndtr(log_above - scale, at_above)
            total += below + above
            if i and max(below, above) < total * _NO_LONGER:
                grown = math.log(ratio)  # of binomials
                falls_below = grown + log_below + log_ndtr(at_below) < last_below + log_ndtr(last_at_below)
                if falls_below and grown + log_above + log_ndtr(at_above) < last_above + log_ndtr(last_at_above):
                    found[n] = scale + math.log(total)
                    break
            ratio = abs(j) / (i + 1)
            binomial *= ratio
    return found

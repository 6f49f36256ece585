"""The Renyi epsilon of many different rounds without their costs at all orders.

ln A(alpha) = (alpha - 1) r(alpha) of a sum of rounds is convex in alpha and 0 at alpha = 1 [van Erven and Harremoes
2014, "Renyi divergence and Kullback-Leibler divergence", Theorem 11]. A line through two known orders therefore bounds
it from below outside of them, and r itself does not fall with alpha [ibid., Theorem 3]. Orders are taken up in the
order of what they could reach, until none that is left can be better than the best: the epsilon is that of all orders,
of which a tenth is looked at. Whole orders alone bound others, for costs of those between err upwards (see `rdp`).
"""

from __future__ import annotations

import math

import numpy as np

from fl.privacy import rdp
from netsim.units import FloatArray

_FIRST = tuple(int(np.flatnonzero(order == rdp.ORDERS)[0]) for order in (2.0, 4.0, 8.0, 24.0))
_WHOLE = np.flatnonzero(np.floor(rdp.ORDERS) == rdp.ORDERS)


def _near(i: int) -> tuple[int, ...]:
    """Whole orders whose lines bound an order that lies between them, two on either side where there are two."""
    at = int(np.searchsorted(_WHOLE, i))
    return () if i in _WHOLE else tuple(int(n) for n in _WHOLE[max(at - 2, 0) : at + 2])


_WHOLE_NEAR = tuple(_near(i) for i in range(len(rdp.ORDERS)))
_FEW = 16  # kinds of rounds, whose costs are kept by `rdp.renyi`


def epsilon_of(z: FloatArray, q: FloatArray, count: FloatArray, delta: float) -> float:
    """The smallest Renyi epsilon of rounds with multipliers z >= 0 and rates q in [0, 1], played count times: (n,).

    Raises ValueError for a delta outside (0, 1).
    """
    certain = q == 1
    with np.errstate(divide="ignore", over="ignore"):
        mu2 = float(np.sum(count[certain] / z[certain] ** 2))
    z, q, count = z[~certain], q[~certain], count[~certain]
    if len(z) <= _FEW or not np.isfinite(mu2) or _may_be_free(z, q, count, mu2, delta):
        cost = rdp.full(mu2)
        for z_, q_, n in zip(z, q, count, strict=True):
            cost = cost + n * rdp.renyi(float(z_), float(q_))
        return float(rdp.epsilon_of(cost, delta))
    above = rdp.at_no_cost(delta)
    log_a: dict[int, float] = {}  # index of a whole order -> ln A, where it is finite

    def look_at(i: int) -> float:
        each = rdp.at_orders(z, q, np.full(len(z), i))
        cost = float(count @ each) + mu2 * float(rdp.ORDERS[i]) / 2
        if math.isfinite(cost) and rdp.ORDERS[i] == math.floor(rdp.ORDERS[i]):
            log_a[i] = cost * float(rdp.ORDERS[i] - 1)
        return cost + float(above[i])

    found = {i: look_at(i) for i in _FIRST}
    while True:
        least = above + _least_costs(log_a)
        least[list(found)] = np.inf
        i = int(np.argmin(least))
        if least[i] >= min(found.values()):
            return max(min(found.values()), 0.0)
        i = next((n for n in _WHOLE_NEAR[i] if n not in found), i)
        found[i] = look_at(i)


def _least_costs(log_a: dict[int, float]) -> FloatArray:
    """Lower bound of each order's cost (n_orders,), by convexity of ln A and because costs do not fall."""
    x = np.array([1.0, *(rdp.ORDERS[i] for i in sorted(log_a))])
    y = np.array([0.0, *(log_a[i] for i in sorted(log_a))])
    if len(x) < 2:
        return np.zeros(len(rdp.ORDERS))
    orders, slope = rdp.ORDERS, np.diff(y) / np.diff(x)
    next_ = np.searchsorted(x, orders)  # of the known ones, the first that is not below
    left, right = np.maximum(next_ - 2, 0), np.minimum(next_, len(slope) - 1)
    from_left = np.where(next_ >= 2, y[next_ - 1] + slope[left] * (orders - x[next_ - 1]), 0.0)
    ahead = np.minimum(next_, len(x) - 1)
    from_right = np.where(next_ < len(slope), y[ahead] - slope[right] * (x[ahead] - orders), 0.0)
    flat = np.concatenate([[0.0], y[1:] / (x[1:] - 1)])[next_ - 1]
    return np.asarray(np.maximum(np.maximum(from_left, from_right) / (orders - 1), flat))


def _may_be_free(z: FloatArray, q: FloatArray, count: FloatArray, mu2: float, delta: float) -> bool:
    """Whether rounds could cost so little that delta covers them alone, which only the lowest orders can tell.

    Their KL divergence, below which no order lies, is 2 TV^2 at least (Pinsker), with TV = q (2 Phi(1 / 2z) - 1) of
    each round, and mu^2 / 2 of the rounds with all users.
    """
    from scipy.special import erf

    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1), got {delta}")
    with np.errstate(divide="ignore"):
        apart = q * erf(1 / (2 * math.sqrt(2) * z))
    return float(count @ (2 * apart**2)) + mu2 / 2 < -math.log1p(-(delta**2))

r"""The exact privacy curve of (compositions of) the Gaussian mechanism.

T adaptive Gaussian releases with sensitivities s_t and deviations sigma_t are together exactly as private as one
with mu^2 = sum_t (s_t / sigma_t)^2 [Dong, Roth, Su 2022, Corollary 3.3], whose curve is

    delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)      [Balle and Wang 2018, Theorem 8].
"""

from __future__ import annotations

import math


def delta_of(epsilon: float, mu: float) -> float:
    """delta(eps) of a mu-Gaussian mechanism; evaluated in logarithms, so a large eps does not overflow."""
    from scipy.special import log_ndtr

    if mu == 0:
        return 0.0
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    if second >= first:
        return 0.0
    return math.exp(first) * -math.expm1(second - first)


def epsilon_of(delta: float, mu: float) -> float:
    """The smallest eps >= 0 with delta(eps) <= delta: one root, by Brent's method.

    Raises ValueError for a delta outside (0, 1). mu = 0 gives 0, mu = inf gives inf.
    """
    from scipy.optimize import brentq

    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1), got {delta}")
    if mu == 0 or delta_of(0.0, mu) <= delta:
        return 0.0
    if math.isinf(mu):
        return math.inf
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1.0  # above the zCDP bound
    return float(brentq(lambda e: delta_of(e, mu) - delta, 0.0, high, xtol=1e-12, rtol=1e-13))

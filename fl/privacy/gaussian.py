r"""The exact privacy curve of (compositions of) the Gaussian mechanism.

T adaptive Gaussian releases with sensitivities s_t and deviations sigma_t are together exactly as
private as one with mu^2 = sum_t (s_t / sigma_t)^2 [Dong, Roth, Su 2022, Corollary 3.3], whose curve
is

    delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)      [Balle and Wang 2018, Theorem
    8].
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

_USABLE = 1 - 1e-9  # of a total: what is kept back covers the rounding of sums


def compute_gaussian_delta(epsilon: float, mu: float) -> float:
    """delta(eps) of a mu-Gaussian mechanism."""
    if mu == 0 or math.isinf(mu):
        return 0.0 if mu == 0 else 1.0
    return _compute_delta_at(epsilon / mu - mu / 2, mu)


def _compute_delta_at(t: float, mu: float) -> float:
    """delta at eps = mu^2 / 2 + mu t, where both terms have the factor e^(-t^2 / 2).

    Taking it out keeps a large eps from overflowing and a large mu from cancelling.
    """
    from scipy.special import erfcx, ndtr

    factor = math.exp(-t * t / 2) / 2
    second = factor * float(erfcx((mu + t) / math.sqrt(2)))
    first = factor * float(erfcx(t / math.sqrt(2))) if t > 0 else float(ndtr(-t))
    return max(first - second, 0.0)  # in this order a NaN stays one


@lru_cache(maxsize=4096)
def compute_gaussian_epsilon(delta: float, mu: float) -> float:
    """The smallest eps >= 0 with delta(eps) <= delta: one root, by Brent's method.

    Raises ValueError for a delta outside (0, 1). mu = 0 gives 0, mu = inf gives inf.
    """
    from scipy.optimize import brentq

    check_delta(delta)
    if mu == 0 or compute_gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if math.isinf(mu):
        return math.inf
    low = max(-mu / 2, -40.0)  # eps = 0, or where delta(eps) rounds to 1
    high = math.sqrt(2 * math.log(1 / delta))  # the zCDP bound
    t = brentq(lambda t: _compute_delta_at(t, mu) - delta, low, high, xtol=1e-13)
    return mu * (mu / 2 + t)


def compute_gaussian_multiplier(epsilon: float, delta: float) -> float:
    """The smallest noise deviation, in units of the sensitivity, of an (eps, delta)-DP release: 1 /
    mu, by Brent.

    This is the analytic Gaussian mechanism [Balle and Wang 2018, Algorithm 1], and
    `compute_gaussian_epsilon(delta, 1 / multiplier)` gives eps back. Raises ValueError for an
    epsilon that is not positive and a delta outside (0, 1).
    """
    from scipy.optimize import brentq

    check_guarantee(epsilon, delta)

    def find_mu(t: float) -> float:  # the positive root of eps = mu^2 / 2 + mu t
        root = math.sqrt(t * t + 2 * epsilon)
        if t > 0:
            return 2 * epsilon / (root + t)
        return root - t

    high = math.sqrt(2 * math.log(1 / delta))  # the zCDP bound
    t = brentq(lambda t: _compute_delta_at(t, find_mu(t)) - delta, -40.0, high, xtol=1e-15)
    return 1 / find_mu(t)


def compute_classic_multiplier(epsilon: float, delta: float) -> float:
    """The older sufficient one, sqrt(2 ln(1.25 / delta)) / eps: proven for eps < 1 [Dwork and Roth
    2014, Thm A.1].

    Beyond, it may not be (eps, delta)-DP. Raises ValueError as `compute_gaussian_multiplier` does.
    """
    check_guarantee(epsilon, delta)
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def check_guarantee(epsilon: float, delta: float) -> None:
    """Raise ValueError for an epsilon that is not positive and finite, or a delta outside (0,
    1).
    """
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be positive and finite, got {epsilon}")
    check_delta(delta)


def check_delta(delta: float) -> None:
    """Raise ValueError for a delta outside (0, 1)."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1), got {delta}")


@dataclass(frozen=True)
class GaussianFilter:
    """The filter for Gaussian rounds that all users take part in: sum 1/z_t^2 may not pass mu^2 of
    the total.

    Adding up what was spent is a valid statement when the noise multipliers were fixed beforehand.
    When a multiplier depends on what earlier rounds showed (a budget that adapts, a channel whose
    noise counts), the sum is a random number and no guarantee by itself; what holds is the total of
    a filter that was fixed before the first round and that refuses a round *before* it is played.
    Fix one filter, ask it before each round, and state its total.

    mu is that of the one Gaussian release which is exactly (epsilon, delta)-DP. No epsilon is lost
    against rounds fixed beforehand: sum mu_t^2 <= mu^2 gives mu-GDP for mu_t chosen from all
    earlier outputs [Smith and Thakurta 2022, "Fully adaptive composition for Gaussian differential
    privacy"]: given the past, the log likelihood ratio moves by a Gaussian step of mean mu_t^2 / 2
    and variance mu_t^2, so it is a Brownian motion at time sum mu_t^2, and what is left of the time
    until mu^2 can be filled up with noise that is never published.
    """

    epsilon: float
    delta: float

    @cached_property
    def total(self) -> float:
        """mu^2 of the whole budget."""
        return compute_gaussian_multiplier(self.epsilon, self.delta) ** -2

    def compute_remainder(self, spent: float) -> float:
        """The largest 1/z^2 that a round after spent = sum 1/z_t^2 may have."""
        return max(self.total * (2 * _USABLE - 1) - spent, 0.0)

    def admits(self, spent: float, next_: float) -> bool:
        """Whether a round with next_ = 1/z^2 may be played after spent = sum 1/z_t^2."""
        return spent + next_ <= self.total * _USABLE

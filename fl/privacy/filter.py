r"""Budgets for noise that is chosen as one goes: a filter lets a round through only if the total still holds after it.

Adding up what was spent is a valid statement when the noise multipliers were fixed beforehand. When a multiplier
depends on what earlier rounds showed (a budget that adapts, a channel whose noise counts), the sum is a random number
and no guarantee by itself; what holds is the total of a filter that was fixed before the first round and that
refuses a round *before* it is played. Fix one filter, ask it before each round, and state its (epsilon, delta).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fl.privacy.gaussian import multiplier_of

_USABLE = 1 - 1e-9  # of a total: what is kept back covers the rounding of sums


@dataclass(frozen=True)
class GaussianFilter:
    """The filter for Gaussian rounds that all users take part in: sum 1/z_t^2 may not pass mu^2 of the total.

    mu is that of the one Gaussian release which is exactly (epsilon, delta)-DP. No epsilon is lost against rounds fixed
    beforehand: sum mu_t^2 <= mu^2 gives mu-GDP for mu_t chosen from all earlier outputs
    [Smith and Thakurta 2022, "Fully adaptive composition for Gaussian differential privacy"]: given the past, the log
    likelihood ratio moves by a Gaussian step of mean mu_t^2 / 2 and variance mu_t^2, so it is a Brownian motion at time
    sum mu_t^2, and what is left of the time until mu^2 can be filled up with noise that is never published.
    """

    epsilon: float
    delta: float

    @cached_property
    def total(self) -> float:
        """mu^2 of the whole budget."""
        return float(multiplier_of(self.epsilon, self.delta) ** -2)

    def left(self, spent: float) -> float:
        """The largest 1/z^2 that a round after spent = sum 1/z_t^2 may have."""
        return max(self.total * (2 * _USABLE - 1) - spent, 0.0)

    def admits(self, spent: float, next_: float) -> bool:
        """Whether a round with next_ = 1/z^2 may be played after spent = sum 1/z_t^2."""
        return spent + next_ <= self.total * _USABLE

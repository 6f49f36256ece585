"""Gaussian mechanism on the update of every UE."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.defenses.base import Defense
from fl.privacy.gaussian import classic_multiplier_of, multiplier_of
from fl.types import Bound, Facts, Local, Spend, State, Updates
from netsim.rng import Rng
from netsim.row_id import row_id


class Gaussian(Defense):
    r"""Adds N(0, std^2) to each number of a bounded update, on the UE.

    The bound is read from the chain (a `clip` before it); the sensitivity is 2 norm under replacement of the user's
    data and norm under adding or removing it. Exactly one of two settings determines the noise::

        noise_multiplier   std = noise_multiplier * sensitivity
        epsilon            std = m(epsilon, delta) * sensitivity: one update is (epsilon, delta)-DP

    where m is the smallest that suffices (`analytic`) or sqrt(2 ln(1.25 / delta)) / epsilon (`classic`), proven for
    epsilon below 1 only: set for delta 1e-5, its true delta is 2.3e-5 at epsilon 10 and 1.5e-3 at 20. `epsilon` is for
    one update, of one model in one round. The ledger composes all of them from std and sensitivity (Gaussian DP with
    mu = sensitivity / std), so it states the true cost, also for `classic`, and in addition the cost if the noise of
    the radio channel counted. The guarantee is local: it holds against the server too.

    The study of location leakage (Bakopoulou et al.) uses `classic` beyond 1 with the clip norm as sensitivity, that is
    `relation: add-remove` in `clip`. This guarantee concerns the presence of a user's whole update; replacing an update
    has twice the sensitivity, and there is no guarantee for a single record.
    """

    kind: Literal["gaussian"] = "gaussian"
    noise_multiplier: float | None = Field(default=None, gt=0, le=1e9)
    """standard deviation of the noise in units of the sensitivity (z)"""
    epsilon: float | None = Field(default=None, gt=0, le=1e9)
    """epsilon of one update at `delta`, instead of noise_multiplier"""
    calibration: Literal["analytic", "classic"] = "analytic"
    """calibration of the noise: exact (analytic), or the classic formula, which is proven for epsilon below 1"""
    classic_beyond_one: bool = False
    """allow classic for epsilon of 1 or more, where the noise may not reach that epsilon"""
    delta: float = Field(default=1e-5, gt=0, lt=1)
    """delta at which epsilon is stated"""

    reference: ClassVar[str] = (
        "Balle and Wang 2018, Theorem 8 and Algorithm 1 (analytic); Dwork and Roth 2014, Theorem A.1 (classic)"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "gaussian", "noise_multiplier": 1.0}
    contracts: ClassVar[bool] = True
    offers: ClassVar[frozenset[str]] = frozenset({"spend"})
    needs: ClassVar[dict[str, str]] = {
        "bound": "noise without a bound on the update protects nothing that can be stated; put a clip before it"
    }

    @model_validator(mode="after")
    def _calibrated(self) -> Self:
        if (self.noise_multiplier is None) == (self.epsilon is None):
            raise ValueError("gaussian: give exactly one of noise_multiplier and epsilon")
        if self.calibration == "classic":
            if self.epsilon is None:
                raise ValueError("gaussian: calibration: classic needs an epsilon, not a noise_multiplier")
            if self.epsilon >= 1 and not self.classic_beyond_one:
                raise ValueError(
                    f"gaussian: classic is proven for epsilon below 1, not {self.epsilon:g}; "
                    "use calibration: analytic, or classic_beyond_one: true"
                )
        elif self.classic_beyond_one:
            raise ValueError("gaussian: classic_beyond_one is for calibration: classic")
        return self

    def std(self, bound: Bound) -> float:
        """Standard deviation of the noise on each number of an update within the bound."""
        if self.noise_multiplier is not None:
            return self.noise_multiplier * bound.sensitivity
        if self.epsilon is None:
            raise ValueError("gaussian: neither noise_multiplier nor epsilon")
        law = classic_multiplier_of if self.calibration == "classic" else multiplier_of
        return law(self.epsilon, self.delta) * bound.sensitivity

    def protect(
        self, updates: Updates, local: Local, facts: Facts, state: State, rng: Rng
    ) -> tuple[Updates, State, list[Spend]]:
        bound = updates.bound
        if bound is None:
            raise ValueError("gaussian: the update has no bound")
        std = self.std(bound)
        noise = rng.normal("noise", row_id(updates.ue, updates.model), (updates.n_parameters,))
        n = len(updates.ue)
        spend = Spend(
            mechanism=self.label,
            ue=updates.ue,
            model=updates.model,
            std=np.full(n, std),
            sensitivity=np.full(n, bound.sensitivity),
            unit=bound.unit,
            relation=bound.relation,
            delta=self.delta,
            channel_std=None if facts.channel is None else facts.channel.thermal_std,
        )
        return updates.plus(std * noise), state, [spend]

"""Gaussian noise on every device's update."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.defenses.base import Defense
from fl.types import Facts, Local, Spend, State, Updates
from netsim.rng import Rng


class Gaussian(Defense):
    r"""Adds N(0, (noise_multiplier * norm)^2) to each number of a bounded update, on the device.

    The bound is read from the chain (a `clip` before it). One round satisfies mu-Gaussian DP with
    mu = sensitivity / (noise_multiplier * norm), where the sensitivity is 2 norm under replacement of the user's
    data and norm under adding or removing it. The guarantee is local: it holds against the server too.
    """

    kind: Literal["gaussian"] = "gaussian"
    noise_multiplier: float = Field(gt=0, le=1e9)
    """standard deviation of the noise in units of the clip norm"""
    delta: float = Field(default=1e-5, gt=0, lt=1)
    """at which epsilon is stated"""

    reference: ClassVar[str] = "Dwork and Roth 2014, Theorem A.1; exact curve: Balle and Wang 2018, Theorem 8"
    example: ClassVar[dict[str, Any]] = {"kind": "gaussian", "noise_multiplier": 1.0}
    needs: ClassVar[dict[str, str]] = {
        "bound": "noise without a bound on the update protects nothing that can be stated; put a clip before it"
    }

    def protect(
        self, updates: Updates, local: Local, facts: Facts, state: State, rng: Rng
    ) -> tuple[Updates, State, list[Spend]]:
        bound = updates.bound
        if bound is None:
            raise ValueError("gaussian: the update has no bound")
        std = self.noise_multiplier * bound.norm
        noise = rng.normal("noise", updates.ue * 4096 + updates.model, (updates.n_parameters,))
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
        )
        return updates.plus(std * noise), state, [spend]

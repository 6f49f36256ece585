"""Updates in a few bits per number."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.defenses.base import Defense
from fl.types import Local, RoundContext, Spend, State, Updates
from netsim.columns import row_id
from netsim.rng import Rng
from netsim.units import FloatArray


class Quantise(Defense):
    """Rounds every number of an update at random to one of a few levels, without bias (QSGD).

    With b bits there are s = 2^(b - 1) - 1 levels beside zero on either side. With scale N (the L2 norm of u, or its
    largest magnitude), the number u_i becomes

        N sign(u_i) L / s,    L = floor(a) + Bernoulli(a - floor(a)),    a = s |u_i| / N,

    so that its mean is u_i. By the norm, the mean squared error is at most min(d / s^2, sqrt(d) / s) |u|^2 [Alistarh et
    al. 2017, Lemma 3.1]. With one bit only signs are sent, times the mean magnitude: sum_i |u_i| / d sign(u), which is
    biased and no longer than u. Norms and distances may grow otherwise. The uplink counts full numbers.
    """

    kind: Literal["quantise"] = "quantise"
    bits: int = Field(default=8, ge=1, le=16)
    """bits per number, its sign included (b); 1: signs alone"""
    scale: Literal["norm", "largest"] = "norm"
    """scale of the levels: the L2 norm of an update, or the largest magnitude in it"""

    reference: ClassVar = (
        "Alistarh et al. 2017, QSGD, Section 3.1; one bit: Karimireddy et al. 2019, Error Feedback Fixes SignSGD, "
        "Section 4"
    )
    example: ClassVar = {"kind": "quantise", "bits": 4}

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: State, rng: Rng
    ) -> tuple[Updates, State, list[Spend]]:
        values = np.array(updates.rows(slice(None)))
        owner = row_id(updates.ue, updates.model)
        for i, row in enumerate(values):  # a row at a time: as many random numbers as an update has
            unit = rng.uniform("rounding", owner[i : i + 1], row.shape)[0] if self.bits > 1 else row
            values[i] = self._quantised(row, unit)
        return updates.replaced(values, None), state, []

    def _quantised(self, row: FloatArray, unit: FloatArray) -> FloatArray:
        """One update (d,), with a uniform number for each of its own."""
        size = np.abs(row)
        if self.bits == 1:
            return np.asarray(size.mean() * np.sign(row))
        scale = float(np.sqrt(row @ row) if self.scale == "norm" else size.max(initial=0.0))
        if scale == 0.0:
            return row
        s = 2 ** (self.bits - 1) - 1
        return np.asarray(scale / s * np.sign(row) * np.floor(s * (size / scale) + unit))

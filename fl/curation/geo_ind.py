"""Geo-indistinguishability: planar Laplace noise on every position."""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.curation import UNTOUCHED, Curation
from fl.types import Curated, Local, MetricSpend, RoundContext, State
from netsim.columns import row_id
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


class GeoIndistinguishable(Curation):
    r"""Adds planar Laplace noise to every position, independently of all others.

    Density (epsilon^2 / 2 pi) e^(-epsilon |noise|): the radius is Gamma(2, 1 / epsilon_per_m), 2 / epsilon_per_m metres
    in the mean, the angle uniform.

    One location: for two true places d metres apart the probabilities of any output differ by at most a factor
    e^(epsilon_per_m d). Places up to about 1 / epsilon_per_m apart are hard to distinguish; distant places can be
    distinguished. All locations of a UE: displaced by d_1, d_2, ... metres, the factor is e^(epsilon_per_m sum d_i), so
    the ledger adds epsilon_per_m for each of them. The guarantee is per location, not per user, and averaging weakens
    it: the error of the mean of n noisy positions is that of one, divided by sqrt(n).

    The guarantee covers positions only. Labels, times and the number of samples do not change, and a label (RSRP)
    measured at the true place depends on it. After a step that selects samples by position the guarantee would not
    cover the selection, so such a chain is refused. It holds for real numbers; rounding to doubles is not analysed.
    """

    kind: Literal["geo-indistinguishable"] = "geo-indistinguishable"
    epsilon_per_m: float = Field(ge=1e-9, le=1e9)
    """privacy level of one location, per metre"""
    inside: Literal["keep", "clip"] = "keep"
    """noisy positions outside the area: keep them, or clip each to the nearest point of the border, which costs no
    privacy and biases the mean towards the centre"""

    reference: ClassVar = "Andrés, Bordenabe, Chatzikokolakis, Palamidessi, Geo-Indistinguishability, CCS 2013"
    example: ClassVar = {"kind": "geo-indistinguishable", "epsilon_per_m": 0.01}
    needs: ClassVar = {
        "positions": "it works on places; these data have none",
        UNTOUCHED: "a step before it depends on the true places, and its epsilon does not cover that; put it first",
    }
    offers: ClassVar = frozenset({"location spend"})

    @property
    def displacement_per_m(self) -> float:
        return self.epsilon_per_m

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        owner = row_id(local.ue, local.model)
        row = local.row_of_sample
        x = local.x + planar_laplace(self.epsilon_per_m, owner[row], np.arange(len(row)) - local.ptr[row], rng)
        if self.inside == "clip":
            x = np.clip(x, facts.public.area.low_m, facts.public.area.high_m)
        spend = MetricSpend(
            mechanism=self.label,
            ue=local.ue,
            model=local.model,
            points=local.count,
            epsilon_per_m=np.full(len(local.ue), self.epsilon_per_m),
        )
        return Curated(replace(local, x=x), state, [spend])


def planar_laplace(epsilon_per_m: float, owner: IntArray, item: IntArray, rng: Rng) -> FloatArray:
    """Displacements in metres (n, 2), one for each owner and item [Andrés 2013, Sec. 4.1]."""
    radius_m = rng.exponential("radius", owner, (2,), item).sum(axis=1) / epsilon_per_m
    angle = 2 * np.pi * rng.uniform("angle", owner, (), item)
    return np.asarray(radius_m[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))

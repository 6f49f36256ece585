"""Gaussian noise at the server, on the merged update."""

from dataclasses import field, replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.defenses.base import Defense
from fl.types import Bound, Local, Metrics, RoundContext, Spend, Updates
from netsim.columns import frozen, no_floats
from netsim.rng import Rng
from netsim.units import FloatArray


@frozen
class CentralState:
    """bound: of the round's updates, None before the first; channel_var (n_model,): variance of the receiver's thermal
    noise on each number of their sum; signal_to_noise: of the last merge.
    """

    bound: Bound | None = None
    channel_var: FloatArray = field(default_factory=no_floats)
    signal_to_noise: float | None = None


class CentralGaussian(Defense):
    r"""Adds N(0, std^2) to each number of the merged update: protects published models, but not against the server.

    With norm bound c (a `clip` before it), sensitivity s = c (add-remove) or 2 c (replace), fixed weight w = 1 / (q K)
    (aggregation `uniform`) and noise multiplier z::

        noise_on: sum       merged = w (sum_k u_k + N(0, (z s)^2))    std on the merge  z s / (q K)
        noise_on: average   merged = w sum_k u_k + N(0, (z s)^2)      std on the merge  z s

    `average` is how Haliloglu et al. print their Algorithm 2 (s = c); only `sum` trains at the multipliers that they
    report. One UE moves the sum by s, and the spend is booked for all UEs at once with the noise as it is on the sum:
    z s, or z s q K for `average`, which is the far stronger noise. Epsilon depends on z, q and the rounds, never on c.
    Every model gets noise in every round, also without any update and without any measurement, so participation is
    protected too.

    One UE may move no update of another in or out of the sum: a fixed share of UEs under add-remove, the first m,
    events on the air and others are refused, and a round with a deadline lasts until it. On a band that UEs share
    losses are taken as given, with a caveat. A later step that may increase the distance of two updates is refused.
    With Poisson sampling of clients (`sampling: poisson`) and add-remove the ledger uses amplification by sampling: one
    draw per UE and round, for all models, phases and mechanisms together. The table `metrics` has
    `signal_to_noise`: norm of the merged update over norm of the noise drawn.
    """

    kind: Literal["central-gaussian"] = "central-gaussian"
    noise_multiplier: float = Field(gt=0, le=1e9)
    """standard deviation of the noise in units of the sensitivity (z)"""
    noise_on: Literal["sum", "average"] = "sum"
    """where noise of std z s is added: to the sum of the updates, or to their average (as printed in the paper)"""
    delta: float = Field(default=1e-7, gt=0, lt=1)
    """delta at which epsilon is stated"""

    reference: ClassVar = (
        "Haliloglu et al., Privacy Preserving Federated RSRP Estimation for Future Mobile Networks, Algorithm 2; "
        "McMahan et al., Learning Differentially Private Recurrent Language Models, 2018, Algorithm 1"
    )
    example: ClassVar = {"kind": "central-gaussian", "noise_multiplier": 1.0}
    keeps_bound: ClassVar = True
    needs_rounds: ClassVar = "its noise hides who took part in a round, and its accounting adds up rounds"
    contracts: ClassVar = True
    offers: ClassVar = frozenset({"spend", "central noise"})
    needs: ClassVar = {
        "bound": "noise without a bound on the update protects nothing that can be stated; put a clip before it",
        "fixed weight": "if weights depend on which UEs arrive, one UE moves all others; take aggregation uniform",
    }

    def start(self, n_ue: int) -> CentralState:
        return CentralState()

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: CentralState, rng: Rng
    ) -> tuple[Updates, CentralState, list[Spend]]:
        if updates.bound is None:
            raise ValueError("central-gaussian: the update has no bound")
        return updates, replace(state, bound=updates.bound, channel_var=_channel_variance(updates, facts)), []

    def finish(
        self, total: FloatArray, n_expected: int, facts: RoundContext, state: CentralState, rng: Rng
    ) -> tuple[FloatArray, CentralState, list[Spend]]:
        if facts.weight is None:
            raise ValueError("central-gaussian: the aggregation has no fixed weight")
        bound = state.bound
        if bound is None:
            raise ValueError("central-gaussian: finish comes after protect")
        std = self.noise_multiplier * bound.sensitivity * (facts.weight if self.noise_on == "sum" else 1.0)
        models = np.arange(len(total))
        noise = std * rng.normal("noise", models, (total.shape[1],))
        spend = Spend(
            mechanism=self.label,
            ue=np.full(len(models), -1),
            model=models,
            std=np.full(len(models), std / facts.weight),
            sensitivity=np.full(len(models), bound.sensitivity),
            unit=bound.unit,
            relation=bound.relation,
            delta=self.delta,
            sampling_rate=facts.sampling_rate,
            channel_std=np.sqrt(state.channel_var),
        )
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # noise too small to square
            ratio = float(np.linalg.norm(total) / np.linalg.norm(noise))
        return total + noise, replace(state, signal_to_noise=ratio), [spend]

    def figures(self, state: CentralState) -> Metrics:
        return {} if state.signal_to_noise is None else {"signal_to_noise": state.signal_to_noise}


def _channel_variance(updates: Updates, facts: RoundContext) -> FloatArray:
    """Variance (n_model,) of the receiver's thermal noise on each number of the sum of the decoded updates."""
    n = facts.public.n_model
    if facts.channel is None:
        return np.zeros(n)
    heard = facts.channel.decoded
    noise_var = facts.channel.thermal_std[heard] ** 2
    return np.bincount(updates.model[heard], weights=noise_var, minlength=n).astype(np.float64)

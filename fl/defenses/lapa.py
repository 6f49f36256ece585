"""LAPA: privacy budgets that adapt to the change of the model and to the angles of updates."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.aggregation import angles, by_angle
from fl.defenses.budgeted import Budgeted, BudgetState, merged, of_ue
from fl.types import Metrics, Received, RoundContext
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import FloatArray


@frozen
class PublishedSum:
    """The sum of a round in units of the clip norm, all models end to end, and the expected square of its noise."""

    sum: FloatArray
    floor: float


@frozen
class SumHistory:
    """The last sums, oldest first; theta (n_ue,): mean angle of each device in radians, over its `rounds` (n_ue,)."""

    theta: FloatArray
    rounds: FloatArray
    sums: tuple[PublishedSum, ...] = ()
    error: float | None = None
    """e of the last round, None before the first"""


class Lapa(Budgeted):
    r"""Adaptive privacy budgets over time and over devices.

    From the sums that were published in rounds i_1 < ... < i_m = t (m - 1 drawn from the last m, and the newest)::

        E_s = dist(g[i_s], g[i_{s-1}]),   e = min(gain_last E_m + gain_mean mean_s E_s, error_max)       (10), (11)
        epsilon[t+1] = exp(-e) (total - spent) / (T - t)                                                (12), (16)
        theta_k = angle between the sum and the update of device k, averaged over its rounds            (13), (14)
        f_k = beta (1 - exp(-exp(-beta (theta_k - 1))))                                                      (15)
        epsilon_k = min(f_k / sum_j f_j epsilon[t+1], epsilon_cap)                                           (16)

    The first round has e = error_max and equal shares. A large change gives a small epsilon, so budgets rise as
    training converges; their sum never exceeds the total. `error` is the distance, in units of the clip norm::

        rms      |d| / sqrt(q)                                   stable under strong noise
        debias   sqrt(max(0, |d|^2 - noise of both sums))        for noise weaker than the signal
        l2       |d|                                             as printed: more noise lowers epsilon, which adds noise

    The text of the source gives devices aligned with the sum the stronger protection; its formula (16), used here, the
    larger epsilon. Budgets depend on earlier noisy updates only. `sensitivity` is as in `uniform-dp`.
    """

    kind: Literal["lapa"] = "lapa"
    error: Literal["rms", "debias", "l2"] = "rms"
    """distance between two sums, see above"""
    gain_last: float = Field(default=0.5, ge=0, le=1e3)
    """weight of the newest change (K_p)"""
    gain_mean: float = Field(default=0.5, ge=0, le=1e3)
    """weight of the mean change (K_s)"""
    window: int = Field(default=5, ge=2, le=1000)
    """number of sums that are compared (m)"""
    error_max: float = Field(default=1.0, gt=0, le=50)
    """upper limit of e (e_max)"""
    beta: float = Field(default=5.0, gt=0, le=100)
    """beta of the angle function: larger values distinguish angles more sharply"""

    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eq. 10-19"
    example: ClassVar = {"kind": "lapa", "epsilon_system_total": 60.0, "rounds": 20}

    def first_share(self) -> float:
        return math.exp(-self.error_max)

    def start_rule(self, n_ue: int) -> SumHistory:
        return SumHistory(np.zeros(n_ue), np.zeros(n_ue))

    def share(
        self, state: BudgetState, total: float, left: float, rounds_left: int, rng: Rng
    ) -> tuple[FloatArray, SumHistory]:
        rule, n = state.rule, len(state.mu2)
        history = rule.sums
        e = self.error_max if len(history) < 2 else min(self._error(history, rng), self.error_max)
        whole = math.exp(-e) * left / rounds_left
        part = np.full(n, 1 / n)
        if history:
            seen = rule.rounds > 0
            theta = np.where(seen, rule.theta, rule.theta[seen].mean() if seen.any() else np.pi / 2)
            f = by_angle(theta, self.beta)
            part = f / f.sum() if f.sum() > 0 else part
        return part * whole, replace(rule, error=e)

    def _error(self, history: tuple[PublishedSum, ...], rng: Rng) -> float:
        """e of the newest sum against some of those before it."""
        earlier = len(history) - 1
        lot = np.argsort(rng.uniform("window", np.arange(earlier)), kind="stable")
        chosen = [*np.sort(lot[: self.window - 1]), earlier]
        steps = [self._distance(history[b], history[a]) for a, b in pairwise(chosen)]
        error = self.gain_last * steps[-1] + self.gain_mean * float(np.mean(steps))
        return error if math.isfinite(error) else self.error_max

    def _distance(self, now: PublishedSum, before: PublishedSum) -> float:
        with np.errstate(all="ignore"):
            away = float(np.linalg.norm(now.sum - before.sum))
            if self.error == "rms":
                return away / math.sqrt(len(now.sum))
            if self.error == "debias":
                return math.sqrt(max(0.0, away**2 - now.floor - before.floor))
            return away

    def remember(self, received: Received, weights: FloatArray, facts: RoundContext, state: BudgetState) -> SumHistory:
        updates, rule, models = received.updates, state.rule, facts.public.n_model
        total = merged(received, weights, models, state.scale)
        noise_var = state.drawn_var / state.scale**2
        floor = float(updates.n_parameters * np.sum(weights**2 * noise_var))
        if not received.decoded.any() or not np.isfinite(total).all():
            return rule
        heard = np.flatnonzero(received.decoded)
        sums = total.reshape(models, -1)[updates.model[heard]]
        angle = of_ue(updates.ue[heard], angles(updates.rows(heard), sums), len(state.mu2))
        there = np.isfinite(angle)
        rounds = rule.rounds + there
        theta = np.where(there, rule.theta + (angle - rule.theta) / np.maximum(rounds, 1), rule.theta)
        kept = (*rule.sums, PublishedSum(total, floor))[-(self.window + 1) :]
        return replace(rule, theta=theta, rounds=rounds, sums=kept)

    def figures(self, state: BudgetState) -> Metrics:
        return super().figures(state) | ({} if state.rule.error is None else {"error": state.rule.error})

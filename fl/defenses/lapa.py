"""LAPA: privacy budgets that adapt to the model and to the angles of updates, and the switch to the
channel's noise.
"""

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fl.aggregation import compute_angle_exponent, measure_angles
from fl.defenses import Defense, Drawing, Protected, Standing
from fl.defenses.budgeted import (
    Arb,
    Budgeted,
    BudgetState,
    UniformDp,
    average_by_ue,
    sum_received,
)
from fl.notice import Prepared, notice
from fl.types import Local, Metrics, Received, RoundContext, Updates
from netsim.columns import frozen
from netsim.notice import Notices
from netsim.part import Needs, OneOf
from netsim.rng import Rng
from netsim.units import FloatArray


@frozen
class PublishedSum:
    """The sum of a round in units of the clip norm, all models end to end, and the expected square
    of its noise.
    """

    sum: FloatArray
    floor: float


@frozen
class SumHistory:
    """The last sums, oldest first; theta (n_ue,): mean angle of each device in radians, over its
    `rounds` (n_ue,).
    """

    theta: FloatArray
    rounds: FloatArray
    sums: tuple[PublishedSum, ...] = ()
    error: float | None = None
    """e of the last round, None before the first"""


class Lapa(Budgeted, kind="lapa"):
    r"""Adaptive privacy budgets over time and over devices.

    From the sums that were published in rounds i_1 < ... < i_m = t (m - 1 drawn from the last m,
    and the newest)::

        E_s = dist(g[i_s], g[i_{s-1}]),   e = min(gain_last E_m + gain_mean mean_s E_s, error_max)
        (10), (11)
        epsilon[t+1] = exp(-e) (total - spent) / (T - t)
        (12), (16)
        theta_k = angle between the sum and the update of device k, averaged over its rounds
        (13), (14)
        f_k = beta (1 - exp(-exp(-beta (theta_k - 1))))
        (15)
        epsilon_k = min(f_k / sum_j f_j epsilon[t+1], epsilon_cap)
        (16)

    The first round has e = error_max and equal shares. A large change gives a small epsilon, so
    budgets rise as training converges; their sum never exceeds the total. `error` is the distance,
    in units of the clip norm::

        rms      |d| / sqrt(q)                                   stable under strong noise
        debias   sqrt(max(0, |d|^2 - noise of both sums))        for noise weaker than the signal
        l2       |d|                                             as printed: more noise lowers
        epsilon, which adds noise

    The text of the source gives devices aligned with the sum the stronger protection; its formula
    (16), used here, the larger epsilon. Budgets depend on earlier noisy updates only. `sensitivity`
    is as in `uniform-dp`.
    """

    error: Literal["rms", "debias", "l2"] = "rms"
    """distance between two sums, see above"""
    gain_last: float = Field(0.5, ge=0, le=1e3)
    """weight of the newest change (K_p)"""
    gain_mean: float = Field(0.5, ge=0, le=1e3)
    """weight of the mean change (K_s)"""
    window: int = Field(5, ge=2, le=1000)
    """number of sums that are compared (m)"""
    error_max: float = Field(1.0, gt=0, le=50)
    """upper limit of e (e_max)"""
    beta: float = Field(5.0, gt=0, le=100)
    """beta of the angle function: larger values distinguish angles more sharply"""

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eq. 10-19"
    example = {"kind": "lapa", "epsilon_system_total": 60.0, "rounds": 20}

    def compute_first_share(self, played: int = 0) -> float:
        return math.exp(-self.error_max) * (self.rounds / (self.rounds - played))

    def start_rule(self, n_ue: int) -> SumHistory:
        return SumHistory(np.zeros(n_ue), np.zeros(n_ue))

    def allot_epsilon(
        self, state: BudgetState, total: float, left: float, rounds_left: int, rng: Rng
    ) -> tuple[FloatArray, SumHistory]:
        rule = state.rule
        n = len(state.mu2)
        history = rule.sums
        if len(history) < 2:
            e = self.error_max
        else:
            e = min(self._compute_error(history, rng), self.error_max)
        whole = math.exp(-e) * left / rounds_left
        part = np.full(n, 1 / n)
        if history:
            seen = rule.rounds > 0
            unseen = rule.theta[seen].mean() if seen.any() else np.pi / 2
            f = compute_angle_exponent(np.where(seen, rule.theta, unseen), self.beta)
            if f.sum() > 0:
                part = f / f.sum()
        return part * whole, replace(rule, error=e)

    def _compute_error(self, history: tuple[PublishedSum, ...], rng: Rng) -> float:
        """e of the newest sum against some of those before it."""
        earlier = len(history) - 1
        lot = np.argsort(rng.uniform("window", np.arange(earlier)), kind="stable")
        chosen = [*np.sort(lot[: self.window - 1]), earlier]
        steps = [self._measure_distance(history[b], history[a]) for a, b in pairwise(chosen)]
        error = self.gain_last * steps[-1] + self.gain_mean * float(np.mean(steps))
        if math.isfinite(error):
            return error
        return self.error_max

    def _measure_distance(self, newest: PublishedSum, before: PublishedSum) -> float:
        with np.errstate(all="ignore"):
            away = float(np.linalg.norm(newest.sum - before.sum))
            if self.error == "rms":
                return away / math.sqrt(len(newest.sum))
            if self.error == "debias":
                return math.sqrt(max(0.0, away**2 - newest.floor - before.floor))
            return away

    def update_rule(
        self, received: Received, weights: FloatArray, facts: RoundContext, state: BudgetState
    ) -> SumHistory:
        rule: SumHistory = state.rule
        updates = received.updates
        models = facts.public.n_model
        total = sum_received(received, weights, models, state.scale)
        noise_var = state.drawn_var / state.scale**2
        floor = updates.n_parameters * (weights**2 * noise_var).sum()
        if not received.decoded.any() or not np.isfinite(total).all():
            return rule
        heard = np.flatnonzero(received.decoded)
        sums = total.reshape(models, -1)[updates.model[heard]]
        angle_of_row = measure_angles(updates.rows(heard), sums)
        angle = average_by_ue(updates.ue[heard], angle_of_row, len(state.mu2))
        has_angle = np.isfinite(angle)
        rounds = rule.rounds + has_angle
        change = (angle - rule.theta) / np.maximum(rounds, 1)
        theta = np.where(has_angle, rule.theta + change, rule.theta)
        kept = (*rule.sums, PublishedSum(total, floor))[-(self.window + 1) :]
        return replace(rule, theta=theta, rounds=rounds, sums=kept)

    def collect_figures(self, state: BudgetState) -> Metrics:
        figures = super().collect_figures(state)
        if state.rule.error is not None:
            figures["error"] = state.rule.error
        return figures


BUDGETED = OneOf("budgeted", Lapa, Arb, UniformDp)


@dataclass(frozen=True)
class SwitchState:
    """noise: of the part whose noise it is; played: rounds so far; crossed: the first round in
    which the criterion held, None before; switch: the last round in which a UE drew noise, 0 before
    any.
    """

    noise: BudgetState
    played: int = 0
    crossed: int | None = None
    switch: int = 0
    figures: Metrics = field(default_factory=dict)


class NoiseSwitch(Defense, kind="noise-switch"):
    r"""Draws the noise that a budget requires only where the channel noise is not sufficient.

    With sigma_k the std that `noise` requires and sigma_ch,k the receiver's thermal noise on each
    number of the update (interference does not count, because a receiver that decodes the other UEs
    can subtract it)::

        planned          artificial noise in rounds up to `until_round` (T_th), none afterwards; the
        `plan` of a study
                         or its learned power policy may determine that round
        first-crossing   none from the first round in which the criterion holds, which may be early
        by chance
        top-up           sqrt(max(0, sigma_k^2 - sigma_ch,k^2)) in every round: both together are
        the required noise

        aggregate        sum_k sigma_ch,k >= sum_k sigma_k    (23); one UE at low power can meet it
        for all
        per-device       sigma_ch,k >= sigma_k for every k that sends

    The ledger counts only noise that is drawn; `with_channel` counts channel noise where it
    replaces artificial noise, for each UE: this holds for the receiver of the scenario, but not
    against a better one. The uplink must decode noisily (`noma` or `oma` with decoding: noisy). The
    figure `switch_round` is the last round in which any UE drew noise.

    Only `top-up` has a guarantee that is fixed before the first round, for this receiver: thermal
    and artificial noise together are at least what `noise` requires in all rounds (figure
    `epsilon_promised_with_channel`).
    """

    needs_rounds = Budgeted.needs_rounds
    needs_plan = True

    noise: Annotated[Budgeted, BUDGETED]
    """defense that determines the required noise"""
    mode: Literal["planned", "top-up", "first-crossing"] = "top-up"
    """when artificial noise is drawn"""
    until_round: int | None = Field(None, ge=0, le=1_000_000)
    """last round with artificial noise, of mode planned (T_th); none: that of the study's plan or
    learned powers"""
    criterion: Literal["aggregate", "per-device"] = "per-device"
    """condition on the channel noise, of mode first-crossing"""

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eq. 23"
    example = {
        "kind": "noise-switch",
        "noise": {"kind": "uniform-dp", "epsilon_system_total": 60.0, "rounds": 20},
    }
    contracts = True
    ties_ues = Budgeted.ties_ues
    offers = frozenset({"spend"})

    def notices(self, prepared: Prepared) -> Notices:
        """Whom the channel's noise does not hold against, and what is promised."""
        yield notice("noise-topped-up" if self.mode == "top-up" else "noise-of-channel", self.label)
        if self.noise.is_claimed:
            yield notice("sensitivity-claimed", self.label, sensitivity=self.noise.sensitivity)

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """Needs of the noise."""
        return self.noise.needs

    @property
    def waits(self) -> bool:  # type: ignore[override]
        return self.mode == "planned" and self.until_round is None

    def draw_all_noise(self) -> Budgeted:
        return self.noise

    def set_switch_round(self, until_round: int) -> "NoiseSwitch":
        if self.waits:
            return self.change("until_round", until_round)
        return self

    def start(self, n_ue: int) -> SwitchState:
        return SwitchState(self.noise.start(n_ue))

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: SwitchState, rng: Rng
    ) -> Protected:
        noise, inner = self.noise.determine_noise(updates, facts, state.noise, rng)
        channel = noise.thermal
        played = state.played + 1
        drawing = self._choose_drawing(played, state.crossed)
        drawn = np.sqrt(compute_artificial_var(drawing, noise.std**2, channel**2))
        crossed = state.crossed
        if drawing == self.criterion and len(drawn) and not drawn.any():
            crossed = played
        counted = np.where(drawn < noise.std, channel, 0.0)
        protected, inner, spends = self.noise.add_noise(
            updates, noise, drawn, counted, inner, rng, self.label
        )
        switch = played if (drawn > 0).any() else state.switch
        n = max(len(drawn), 1)
        figures = {
            "artificial_percent": 100.0 * (drawn > 0).sum() / n,
            "enough_percent": 100.0 * (channel >= noise.std).sum() / n,
            "noise_asked_sum": noise.std.sum(),
            "noise_channel_sum": channel.sum(),
            "switch_round": float(switch),
        }
        return protected, SwitchState(inner, played, crossed, switch, figures), spends

    def _choose_drawing(self, played: int, crossed: int | None) -> Drawing:
        """How noise is drawn in a round, of which `crossed` is the first in which the criterion
        held.
        """
        if self.mode == "top-up":
            return "top-up"
        if self.mode == "planned":
            if self.until_round is None or played <= self.until_round:
                return "all"
            return "none"
        if crossed in (None, played):
            return self.criterion
        return "none"

    def get_standing(self, state: SwitchState) -> Standing:
        drawing = self._choose_drawing(state.played, state.crossed)
        return replace(self.noise.get_standing(state.noise), drawing=drawing)

    def observe(
        self, received: Received, weights: FloatArray, facts: RoundContext, state: SwitchState
    ) -> SwitchState:
        return replace(state, noise=self.noise.observe(received, weights, facts, state.noise))

    def collect_figures(self, state: SwitchState) -> Metrics:
        figures = self.noise.collect_figures(state.noise) | state.figures
        promised = figures.pop("epsilon_promised", None)
        if self.mode == "top-up" and promised is not None:
            figures["epsilon_promised_with_channel"] = promised
        return figures


def compute_artificial_var(
    drawing: Drawing, required_var: FloatArray, channel_var: FloatArray
) -> FloatArray:
    """Variance (..., R) of artificial noise on the R rows of each round, see `NoiseSwitch`."""
    if drawing == "top-up":
        return np.maximum(required_var - channel_var, 0.0)
    if drawing == "aggregate":
        lacking = np.sqrt(channel_var).sum(axis=-1) < np.sqrt(required_var).sum(axis=-1)
    else:
        lacking = (drawing == "all") | (
            (drawing == "per-device") & (channel_var < required_var)
        ).any(axis=-1)
    return np.where(np.expand_dims(lacking, -1), required_var, 0.0)

"""Noise determined by a budget of epsilon: the common base of `lapa`, `arb` and `uniform-dp`.

A budget for the whole system, all devices and all rounds together, is distributed round by round. A
device that may spend epsilon_k in a round adds N(0, sigma_k^2) to each number of its clipped
update,

    sigma_k = c Delta_k / epsilon_k,    c = sqrt(2 ln(1.25 / delta))        [Dwork and Roth 2014,
    Theorem A.1]

in the units of the update: a clip norm N here is eta C of the gradients in the source.

Where a round's budget follows what earlier rounds showed, what a run spent is a random number and
no guarantee. What holds is fixed before the first round, for noise chosen in any way from all
earlier outputs [Smith and Thakurta 2022]: with sum_t (epsilon_k[t] / c)^2 <= mu^2 on every path,
device k has one Gaussian release of mu. The caps alone give mu^2 = epsilon_cap min(T epsilon_cap,
total) / c^2; `epsilon_device_total` sets a filter of its own, which a device never passes because
no round takes more than an even share of what is left::

    epsilon_k[t] <= c sqrt((mu^2 - sum_(s<t) (epsilon_k[s] / c)^2) / (T - t + 1))

The figure `epsilon_promised` is that epsilon, at the sensitivity that the noise is set for. It
holds where all noise that is required is drawn; `noise-switch`, which draws less, states it in
another way or not at all.
"""

import math
from abc import abstractmethod
from dataclasses import field, replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.defenses import NEEDS_BOUND, WHOLE_BOUND, Defense, Protected, Standing
from fl.notice import Prepared, notice
from fl.privacy.gaussian import GaussianFilter, compute_gaussian_epsilon
from fl.types import Bound, Local, Metrics, Received, RoundContext, State, Updates
from netsim import compiled
from netsim.columns import frozen, no_floats
from netsim.notice import Notices
from netsim.part import Count, Needs, Positive, Probability
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, Floats, IntArray

PRINTED = "record-as-printed"
"""the unit of an account that repeats a source's own claim: never added to a true one"""

AS_PRINTED = "{}-as-printed"
"""mechanism of that account"""


@frozen
class BudgetedNoise:
    """Noise that a round's rows (n,) require: its std, and the sensitivity that is claimed behind
    it.

    silent: rows whose budget is gone, without noise: they send zeros. thermal, decoder: noise that
    the radio adds to each number: thermal noise alone, which may count as privacy; and what stays
    on the update, which the merge suffers, with other UEs' signals.
    """

    std: FloatArray
    claimed: FloatArray
    silent: BoolArray
    thermal: FloatArray
    decoder: FloatArray


@frozen
class BudgetState:
    """Where a budget stands, and what the rule that hands it out remembers.

    played: rounds so far; total: epsilon of all devices and rounds, None before the first update
    says what it is; epsilon_spent: of it; mu2 (n_ue,): (epsilon / c)^2 of each device, summed over
    rounds; standing: noise asked for and drawn; scale: norm of a row; drawn_var (n,): noise on the
    rows of the last round, the decoder's included; rule: the memory of the rule.
    """

    total: float | None
    mu2: FloatArray
    standing: Standing
    played: int = 0
    epsilon_spent: float = 0.0
    scale: float = 1.0
    drawn_var: FloatArray = field(default_factory=no_floats)
    figures: Metrics = field(default_factory=dict)
    rule: State = None


class Budgeted(Defense):
    """Gaussian noise by a budget; the method `allot_epsilon` of the subclass distributes it."""

    needs_rounds = "its budget is divided over rounds, each of which learns from the one before"

    epsilon_system_total: float | None = Field(None, gt=0, le=1e12)
    """budget of all devices and rounds together"""
    initial_noise_std: float | None = Field(None, gt=0, le=1e12)
    """instead of the budget: noise std of the first round in which a UE sends, mean over the UEs
    that send in it (of a UE with several models, over its updates), from which the budget is
    computed. A UE with fewer samples in a later round has more noise, where the sensitivity follows
    samples. A line says how much where `epsilon_cap` or `epsilon_device_total` enforce more noise
    than that"""
    rounds: Count = 100
    """number of rounds that the budget is for; afterwards UEs send nothing"""
    epsilon_cap: Positive = 1.0
    """largest epsilon of a UE in a round"""
    epsilon_device_total: Positive | None = None
    """largest epsilon of a UE in all rounds, enforced by a privacy filter; none: as implied by the
    caps"""
    sensitivity: Literal["update", "record-one-step", "mean-clip", "paper"] = "update"
    """sensitivity of an update to one neighbour, see `uniform-dp`"""
    paper_learning_rate: float = Field(0.05, gt=0, le=10)
    """learning rate lambda of `sensitivity: paper`"""
    delta: Probability = 1e-5
    """delta at which epsilon is stated"""

    contracts = True
    ties_ues = (
        "noise by a budget follows how many UEs there are, and what all of them sent; take "
        "gaussian or leave it out"
    )
    adaptive: ClassVar = True
    """whether a round's budget follows what earlier rounds showed"""
    offers = frozenset({"spend"})

    def notices(self, prepared: Prepared) -> Notices:
        """Limits of its epsilon."""
        if self.is_claimed:
            yield notice("sensitivity-claimed", self.label, sensitivity=self.sensitivity)
        if self.adaptive:
            yield notice("budget-follows-rounds", self.label)

    @property
    def is_claimed(self) -> bool:
        """Whether its sensitivity is a claim of the source, and not a true one."""
        return self.sensitivity in ("mean-clip", "paper")

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """A bound, and where one record is to be hidden by its share of one step, a bound on
        that.
        """
        needs = NEEDS_BOUND | {
            "single upload a round": "its budget is shared out over rounds, not over phases of one"
        }
        if self.is_claimed:
            needs[WHOLE_BOUND] = (
                f"sensitivity {self.sensitivity} is said of its norm; put a clip before it"
            )
        if self.sensitivity == "record-one-step":
            needs["record bound"] = (
                "2 C / n holds for one full-batch step on gradients clipped by sample only; take "
                "sample_clip, batch_size: all (of images batch_share: 1) and local_epochs: 1, or "
                "sensitivity: update"
            )
        return needs

    def start(self, n_ue: int) -> BudgetState:
        nothing = np.zeros(n_ue)
        standing = Standing(nothing, nothing, 1.0)
        return BudgetState(self.epsilon_system_total, nothing, standing, rule=self.start_rule(n_ue))

    def start_rule(self, n_ue: int) -> State:
        """The first memory of the rule; None without one."""
        return None

    @abstractmethod
    def allot_epsilon(
        self, state: BudgetState, total: float, left: float, rounds_left: int, rng: Rng
    ) -> tuple[FloatArray, State]:
        """Epsilon of every device (n_ue,) in this round, before the cap, and the next memory of the
        rule.

        Never more than `left`, what is left of `total`, for all devices together.
        """

    @property
    def factor(self) -> float:
        """c = sqrt(2 ln(1.25 / delta))."""
        return math.sqrt(2 * math.log(1.25 / self.delta))

    def compute_claimed_sensitivity(self, bound: Bound, samples: FloatArray) -> FloatArray:
        """Delta_k (n,) of rows learnt from count (n,) samples."""
        if not self.is_claimed:
            return np.full(len(samples), bound.sensitivity)
        factor = 2 * self.paper_learning_rate if self.sensitivity == "paper" else 2
        return factor * bound.norm / np.maximum(samples, 1.0)

    def determine_noise(
        self, updates: Updates, facts: RoundContext, state: BudgetState, rng: Rng
    ) -> tuple[BudgetedNoise, BudgetState]:
        """The noise of this round's rows, and the memory with their epsilon spent."""
        bound = updates.promise
        n = len(state.mu2)
        claimed = self.compute_claimed_sensitivity(bound, updates.count)
        fewest = updates.count.min() if bound.unit == "record" and len(updates.count) else 1.0
        rounds_left = self.rounds - state.played
        epsilon_ue = np.zeros(n)
        rule = state.rule
        # a device that sends to several models shares its epsilon
        rows = np.bincount(updates.ue, minlength=n)
        total = state.total
        first = total is None and len(claimed) > 0 and rounds_left > 0
        if first:
            # with which the first round that has rows, shared equally, has initial_noise_std
            mean = claimed.sum() / np.count_nonzero(rows)
            share = self.compute_first_share(state.played)
            first_std = self.initial_noise_std or 1.0
            total = share**-1 * self.factor * mean / first_std * self.rounds * n
        if total is not None and rounds_left > 0:
            left = max(total - state.epsilon_spent, 0.0)
            epsilon_ue, rule = self.allot_epsilon(state, total, left, rounds_left, rng)
            epsilon_ue = np.minimum(epsilon_ue, self._limit_epsilon(state.mu2, rounds_left))
        epsilon = (epsilon_ue / np.maximum(rows, 1))[updates.ue]
        silent = ~(epsilon > 0)
        std = self.factor * claimed / np.where(silent, np.inf, epsilon)
        if first:
            self._report_other_noise(float(np.nanmean(average_by_ue(updates.ue, std, n))))
        spent = state.epsilon_spent + epsilon.sum()
        figures = {}
        if total is not None:
            figures = {
                "budget_total": total,
                "budget_left": total - spent,
                "epsilon_promised": self.compute_promised_epsilon(total),
            }
        cost = np.bincount(updates.ue, weights=(epsilon / self.factor) ** 2, minlength=n)
        state = replace(
            state,
            total=total,
            played=state.played + 1,
            epsilon_spent=spent,
            rule=rule,
            mu2=state.mu2 + cost,
            scale=bound.norm * max(fewest, 1.0),
            figures=figures | _summarise_noise(epsilon, std),
        )
        thermal = decoder = np.zeros(len(std))
        if facts.channel is not None:
            thermal = facts.channel.thermal_std
            decoder = facts.channel.noise_std
        return BudgetedNoise(std, claimed, silent, thermal, decoder), state

    def _limit_epsilon(self, mu2: FloatArray, rounds_left: int) -> FloatArray:
        """Most that each device (n_ue,) may spend in this round."""
        if self.epsilon_device_total is None:
            return np.full(len(mu2), self.epsilon_cap)
        total = GaussianFilter(self.epsilon_device_total, self.delta).compute_remainder(0.0)
        share = self.factor * np.sqrt(np.maximum(total - mu2, 0.0) / rounds_left)
        return np.minimum(share, self.epsilon_cap)

    def compute_promised_epsilon(self, total: float) -> float:
        """Epsilon that no device passes whatever the rounds show, at the sensitivity that the noise
        is set for.
        """
        mu2 = self.epsilon_cap * min(self.rounds * self.epsilon_cap, total) / self.factor**2
        capped = compute_gaussian_epsilon(self.delta, math.sqrt(mu2))
        if self.epsilon_device_total is None:
            return capped
        return min(capped, self.epsilon_device_total)

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: BudgetState, rng: Rng
    ) -> Protected:
        noise, state = self.determine_noise(updates, facts, state, rng)
        return self.add_noise(updates, noise, noise.std, noise.thermal, state, rng, self.label)

    def add_noise(
        self,
        updates: Updates,
        noise: BudgetedNoise,
        drawn: FloatArray,
        counted: FloatArray,
        state: BudgetState,
        rng: Rng,
        label: str,
    ) -> Protected:
        """Draw noise of std (n,) and book it: truly, and as printed where the source claims a
        smaller sensitivity.

        counted (n,) is the thermal noise of the receiver that `with_channel` may count.
        """
        bound = updates.promise
        heard = ~noise.silent
        before = state.standing
        sent = updates.scale_rows(heard.astype(float), bound).add_noise(drawn, "noise", rng)
        standing = Standing(
            replace_newest(before.required_std, updates.ue, noise.std),
            replace_newest(before.drawn_std, updates.ue, drawn),
            1.0 - state.epsilon_spent / (state.total or 1.0),
            updates.ue,
            updates.model,
            noise.std,
            drawn,
        )
        truth = bound.zeroed.spend(
            label, updates.ue[heard], updates.model[heard], drawn[heard], self.delta
        )
        spends = [replace(truth, channel_std=counted[heard])]
        if self.is_claimed:
            claim = replace(
                spends[0],
                mechanism=AS_PRINTED.format(label),
                sensitivity=noise.claimed[heard],
                unit=PRINTED,
            )
            spends.append(claim)
        state = replace(state, standing=standing, drawn_var=drawn**2 + noise.decoder**2)
        return sent, state, spends

    def observe(
        self, received: Received, weights: FloatArray, facts: RoundContext, state: BudgetState
    ) -> BudgetState:
        return replace(state, rule=self.update_rule(received, weights, facts, state))

    def update_rule(
        self, received: Received, weights: FloatArray, facts: RoundContext, state: BudgetState
    ) -> State:
        """The next memory of the rule, from what was published; the same by default."""
        return state.rule

    def _report_other_noise(self, std: float) -> None:
        """A line where limits on epsilon make the first noise another than the one asked for."""
        wanted_std = self.initial_noise_std or std
        if not math.isclose(std, wanted_std, rel_tol=1e-6):
            compiled.tell(
                f"learning.defenses: {self.label}: the first noise has a std of {std:.4g}, not "
                f"initial_noise_std {wanted_std:g}, which needs {std / wanted_std:.4g} times the "
                f"epsilon that epsilon_cap {self.epsilon_cap:g} and epsilon_device_total allow a "
                "UE; raise them for less noise"
            )

    def get_standing(self, state: BudgetState) -> Standing:
        return state.standing

    def compute_first_share(self, played: int = 0) -> float:
        """Epsilon of a device in the first round with rows, after `played` without, in budget /
        (rounds devices).
        """
        return 1.0


def sum_received(received: Received, weights: FloatArray, n_model: int, scale: float) -> FloatArray:
    """The published sum of the round in units of the clip norm, all models laid end to end."""
    return received.updates.sum_weighted(weights, n_model).ravel() / scale


def _summarise_noise(epsilon: FloatArray, std: FloatArray) -> Metrics:
    if not len(epsilon):
        return {}
    finite = std[np.isfinite(std)]
    return {
        "epsilon_mean": epsilon.mean(),
        "epsilon_largest": epsilon.max(),
        "noise_std_mean": finite.mean() if len(finite) else math.nan,
    }


def average_by_ue(ue: IntArray, values: FloatArray, n_ue: int) -> FloatArray:
    """Mean of row values (n,) per device (n_ue,); NaN for one without a row."""
    count = np.bincount(ue, minlength=n_ue)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.bincount(ue, weights=values, minlength=n_ue) / count


def replace_newest(before: FloatArray, ue: IntArray, values: FloatArray) -> FloatArray:
    """Numbers of each device (n_ue,), those of the rows (n,) in place of what was before."""
    means = average_by_ue(ue, values, len(before))
    return np.where(np.isfinite(means), means, before)


class UniformDp(Budgeted, kind="uniform-dp"):
    """epsilon_k[t] = epsilon_system_total / (T K): the baseline without adaptation.

    `sensitivity` is the largest change of an update of norm N, trained on n samples, by a
    neighbour::

        update            2 N: for any data of the UE (the only valid one for several local steps)
        record-one-step   2 lambda C / n of one full-batch step on gradients clipped by sample
        mean-clip         2 N / n: assumes that the clip of the mean bounds each sample; no
        guarantee
        paper             2 lambda N / n: as printed; no guarantee

    For the last two the ledger has two accounts: the true one, and the source's own claim (unit
    `record-as-printed`).
    """

    adaptive = False
    reference = (
        "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, benchmarks"
    )
    example = {"kind": "uniform-dp", "epsilon_system_total": 60.0, "rounds": 20}

    def allot_epsilon(
        self, state: BudgetState, total: float, left: float, rounds_left: int, rng: Rng
    ) -> tuple[FloatArray, State]:
        n = len(state.mu2)
        return np.full(n, total / (self.rounds * n)), state.rule


_FIRST = 0.6
_STEP = 1.01
_SLACK = 1.05
_LEAST = 0.5
_MOST = 2.0


@frozen
class Changes:
    """epsilon: of a device in the last round; last: the update of the last round, units of the clip
    norm; moved: the last two distances from one update to the next.
    """

    epsilon: float | None = None
    last: FloatArray | None = None
    moved: Floats = ()


class Arb(Budgeted, kind="arb"):
    """Starts at 0.6 of the uniform budget and grows by 1 % after a round in which the change of the
    model did not grow.

    With u = epsilon_system_total / (T K), and d[t] the distance between the updates of rounds t and
    t - 1::

        epsilon <- 1.01 epsilon if d[t] <= 1.05 d[t-1], else epsilon / 1.01;    cut to [u / 2, 2 u]

    and at most twice the remaining budget per device and round. The source names this benchmark
    ("adaptive Rayleigh budgets") without a definition; this is a reconstruction.
    """

    reference = (
        "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, benchmarks"
    )
    example = {"kind": "arb", "epsilon_system_total": 60.0, "rounds": 20}

    def compute_first_share(self, played: int = 0) -> float:
        return _FIRST

    def start_rule(self, n_ue: int) -> Changes:
        return Changes()

    def allot_epsilon(
        self, state: BudgetState, total: float, left: float, rounds_left: int, rng: Rng
    ) -> tuple[FloatArray, Changes]:
        n = len(state.mu2)
        rule = state.rule
        usual = total / (self.rounds * n)
        epsilon = _FIRST * usual if rule.epsilon is None else rule.epsilon
        moved = rule.moved
        if len(moved) >= 2:
            grows = moved[-1] <= _SLACK * moved[-2]
            epsilon *= _STEP if grows else 1 / _STEP
        epsilon = min(max(epsilon, _LEAST * usual), _MOST * usual)
        allowed = min(epsilon, 2 * left / (n * rounds_left), left / n)
        return np.full(n, allowed), replace(rule, epsilon=epsilon)

    def update_rule(
        self, received: Received, weights: FloatArray, facts: RoundContext, state: BudgetState
    ) -> Changes:
        rule: Changes = state.rule
        newest_sum = sum_received(received, weights, facts.public.n_model, state.scale)
        moved = rule.moved
        if rule.last is not None:
            moved = (*moved, float(np.linalg.norm(newest_sum - rule.last)))[-2:]
        return replace(rule, last=newest_sum, moved=moved)

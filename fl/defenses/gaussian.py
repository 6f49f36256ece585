"""Gaussian noise on the update of every UE, or on their sum."""

from dataclasses import field, replace
from typing import Literal

import numpy as np
from numpy.linalg import norm
from pydantic import Field

from fl.defenses import NEEDS_BOUND, Defense, Finished, Protected
from fl.privacy.banded import colour_noise, compute_banded_sensitivity
from fl.privacy.gaussian import (
    compute_classic_multiplier,
    compute_gaussian_epsilon,
    compute_gaussian_multiplier,
)
from fl.types import Bound, Local, Metrics, RoundContext, State, Updates
from netsim.columns import frozen
from netsim.part import Amount, Count, Needs, Probability, Share
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

FIXED_WEIGHT = {
    "fixed weight": (
        "if weights depend on which UEs arrive, one UE moves all others; take aggregation uniform"
    )
}


@frozen
class DailySpend:
    """Cost of a local day so far: its number, and the sum of (sensitivity / std)^2 of each UE
    (n_ue,); costliest: the largest such sum of any UE and day.
    """

    day: int
    mu2: FloatArray
    costliest: float = 0.0


class Gaussian(Defense, kind="gaussian"):
    r"""Adds N(0, std^2) to each number of a bounded update, on the UE.

    The bound is read from the chain (a `clip` before it); the sensitivity is 2 norm under
    replacement of the user's data. With `relation: add-remove` it is norm, and neighbours are
    `zero-out`: the server sees who sends, so a UE sends in both, in one of them zeros. Exactly one
    of two settings determines the noise::

        noise_multiplier   std = noise_multiplier * sensitivity
        epsilon            std = m(epsilon, delta) * sensitivity: one update is (epsilon, delta)-DP

    where m is the smallest that suffices (`analytic`) or sqrt(2 ln(1.25 / delta)) / epsilon
    (`classic`), proven for epsilon below 1 only: set for delta 1e-5, its true delta is 2.3e-5 at
    epsilon 10 and 1.5e-3 at 20. The ledger composes all updates from std and sensitivity (Gaussian
    DP, mu = sensitivity / std), so it states the true cost, also for `classic`, and beside it the
    cost if the noise of the radio channel counted. The guarantee is local: it holds against the
    server too.

    With `updates_a_day` N, epsilon is a budget for all that a UE sends of one local day, in at most
    N updates with a row for each of its R models (both public), which are together one Gaussian
    release::

        std = sqrt(N R) m(epsilon, delta) * sensitivity

    The withholding rule `daily-limit` is required to see to that. The unit is all data of a user
    that a day's updates were learnt from: all data of a user's day with data `memory: round` and
    windows that end at midnight. Days add up in the ledger, about as the square root of their
    number. The table `metrics` has `epsilon_a_day`: what the costliest day of any UE has cost so
    far.

    The study of location leakage (Bakopoulou et al.) uses `classic` beyond 1 with the clip norm as
    sensitivity, that is `relation: add-remove` in `clip`: it concerns a user's whole update against
    zeros, and no single record.
    """

    noise_multiplier: Amount | None = None
    """standard deviation of the noise in units of the sensitivity (z)"""
    epsilon: Amount | None = None
    """epsilon of one update at `delta`, or with updates_a_day of one local day; instead of
    noise_multiplier"""
    updates_a_day: Count | None = None
    """largest number of updates of a UE and a local day, for which epsilon is the budget; none: one
    update"""
    calibration: Literal["analytic", "classic"] = "analytic"
    """calibration of the noise: exact (analytic), or the classic formula, which is proven for
    epsilon below 1"""
    classic_beyond_one: bool = False
    """allow classic for epsilon of 1 or more, where the noise may not reach that epsilon"""
    delta: Probability = 1e-5
    """delta at which epsilon is stated"""

    reference = (
        "Balle and Wang 2018, Theorem 8 and Algorithm 1 (analytic); Dwork and Roth 2014, "
        "Theorem A.1 (classic)"
    )
    example = {"kind": "gaussian", "noise_multiplier": 1.0}
    contracts = True
    adds_noise_only = True
    offers = frozenset({"spend"})

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """A bound, and one upload a round where it counts them."""
        if self.updates_a_day is None:
            return NEEDS_BOUND
        single = (
            "its epsilon is for a number of updates per day, and this learner has several "
            "phases a round"
        )
        return NEEDS_BOUND | {"single upload a round": single}

    @property
    def most_updates_a_day(self) -> int | None:
        return self.updates_a_day

    def compute_std(self, bound: Bound) -> float:
        """Standard deviation of the noise on each number of an update within the bound."""
        law = (
            compute_classic_multiplier
            if self.calibration == "classic"
            else compute_gaussian_multiplier
        )
        if self.epsilon is None:
            multiplier = self.noise_multiplier
        else:
            multiplier = law(self.epsilon, self.delta)
        return (multiplier or 0.0) * bound.sensitivity

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: State, rng: Rng
    ) -> Protected:
        bound = updates.promise
        std = self.compute_std(bound) * self._compute_noise_factors(updates.ue)
        spend = bound.zeroed.spend(self.label, updates.ue, updates.model, std, self.delta)
        if facts.channel is not None:
            spend = replace(spend, channel_std=facts.channel.thermal_std)
        if isinstance(state, DailySpend):
            spent = state.mu2 if facts.day == state.day else np.zeros_like(state.mu2)
            spent = spent + np.bincount(updates.ue, spend.compute_cost(False), len(spent))
            state = DailySpend(facts.day, spent, max(state.costliest, spent.max(initial=0.0)))
        return updates.add_noise(std, "noise", rng), state, [spend]

    def _compute_noise_factors(self, ue: IntArray) -> FloatArray:
        """Factor of each row's (n,) noise over that of a single release: its share of mu^2 is one
        over the square.
        """
        if self.updates_a_day is None:
            return np.ones(len(ue))
        _, of_row, rows = np.unique(ue, return_inverse=True, return_counts=True)
        return np.sqrt(self.updates_a_day * rows[of_row])

    def start(self, n_ue: int) -> DailySpend | None:
        if self.updates_a_day is None:
            return None
        return DailySpend(0, np.zeros(n_ue))

    def collect_figures(self, state: State) -> Metrics:
        if not isinstance(state, DailySpend):
            return {}
        return {
            "epsilon_a_day": compute_gaussian_epsilon(self.delta, float(np.sqrt(state.costliest)))
        }


@frozen
class CentralState:
    """bound: of the round's updates, None before the first; figures: of the last merge;
    past (k, n_model, d): the latest draws of correlated noise, newest first, for multiplier,
    sensitivity and weight 1; rounds: that drew correlated noise.
    """

    bound: Bound | None = None
    figures: Metrics = field(default_factory=dict)
    past: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    rounds: int = 0


class CentralGaussian(Defense, kind="central-gaussian"):
    r"""Adds N(0, std^2) to each number of the merged update: protects published models, but not
    against the server.

    With norm bound c (a `clip` before it), sensitivity s = c (add-remove) or 2 c (replace), fixed
    weight w = 1 / (q K) (aggregation `uniform`) and noise multiplier z::

        noise_on: sum       merged = w (sum_k u_k + N(0, (z s)^2))    std on the merge  z s / (q K)
        noise_on: average   merged = w sum_k u_k + N(0, (z s)^2)      std on the merge  z s

    `average` is how Haliloglu et al. print their Algorithm 2 (s = c); only `sum` trains at the
    multipliers that they report. One UE moves the sum by s; the spend is booked for all UEs at once
    with the noise on the sum, z s, or z s q K for `average`. Epsilon depends on z, q and the
    rounds, never on c. Every model gets noise in every round, also without any update, so
    participation is protected too.

    One UE may move no update of another in or out of the sum: a fixed share of UEs under
    add-remove, the first m, events on the air and others are refused, and a round with a deadline
    lasts until it. On a band that UEs share losses are taken as given, with a caveat. Where cohorts
    take turns (`sampling: cyclic`) neighbours are `zero-out`, since one more UE in their list would
    move others, and a UE pays for the windows of its own cohort. They are `zero-out` beside noise
    of UEs too. A later step that may increase the distance of two updates is refused; so is noise
    of a UE's own, a decoder's included, unless neighbours are `zero-out`: the variance of the sum
    would show who sends.

    With `correlation: banded` the noise of a round is correlated with that of the `bands` - 1
    rounds before (`fl.privacy.banded`), so that the noise on published models, which are sums over
    rounds, is smaller. The whole run is one Gaussian release of multiplier z, booked in the first
    round, for a UE that takes part in all rounds, or with `sampling: cyclic` in every 1 /
    participation-th: the server asks nobody else, so no sampling at random is needed, and UEs may
    stay away at will. The std of the noise is larger by the sensitivity of the correlation.

    With `sampling: poisson` and add-remove the ledger uses amplification by sampling: one draw per
    UE and round, for all models, phases and mechanisms together. The table `metrics` has
    `signal_to_noise`: norm of the merged update over that of the noise.
    """

    noise_multiplier: Amount
    """standard deviation of the noise in units of the sensitivity (z)"""
    noise_on: Literal["sum", "average"] = "sum"
    """where noise of std z s is added: to the sum of the updates, or to their average (as printed
    in the paper)"""
    correlation: Literal["none", "banded"] = "none"
    """correlation of the noise of different rounds"""
    bands: int | None = Field(None, ge=2, le=1000)
    """rounds over which banded noise is correlated, the present one included"""
    delta: Probability = 1e-7
    """delta at which epsilon is stated"""

    reference = (
        "Haliloglu et al., Privacy Preserving Federated RSRP Estimation for Future Mobile "
        "Networks, Algorithm 2; McMahan et al., Learning Differentially Private Recurrent "
        "Language Models, 2018, Algorithm 1; Choquette-Choo et al., (Amplified) Banded Matrix "
        "Factorization, 2023 (banded)"
    )
    example = {"kind": "central-gaussian", "noise_multiplier": 1.0}
    keeps_bound = True
    needs_rounds = "its noise hides who took part in a round, and its accounting adds up rounds"
    contracts = True
    offers = frozenset({"spend", "central noise"})

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """A bound, fixed weights, and for noise correlated over rounds one sum a round."""
        needs = NEEDS_BOUND | FIXED_WEIGHT
        if self.bands is not None:
            needs["single upload a round"] = (
                "noise is correlated from round to round, and this learner has several sums a round"
            )
        return needs

    def start(self, n_ue: int) -> CentralState:
        return CentralState()

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: CentralState, rng: Rng
    ) -> Protected:
        return updates, replace(state, bound=updates.promise), []

    def finish(
        self, total: FloatArray, n_expected: int, facts: RoundContext, state: CentralState, rng: Rng
    ) -> Finished:
        bound = state.bound
        if facts.weight is None or bound is None:
            raise ValueError(
                "central-gaussian: the aggregation has no fixed weight, or finish comes "
                "before protect"
            )
        std = self.noise_multiplier * bound.sensitivity
        if self.noise_on == "sum":
            std *= facts.weight
        models = np.arange(len(total))
        noise = rng.normal("noise", models, (total.shape[1],))
        ue = facts.cohort if self.bands is None else np.array([-1])
        model_of_row = np.tile(models, len(ue))
        on_sum = np.full(len(model_of_row), std / facts.weight)
        spend = facts.adapt_bound(bound).spend(
            self.label, np.repeat(ue, len(models)), model_of_row, on_sum, self.delta
        )
        spends = [replace(spend, sampling_rate=facts.sampling_rate)]
        if self.bands is not None:  # one release, of all rounds
            spends = [] if state.rounds else [spend]
            past = state.past if state.rounds else np.zeros((0, *noise.shape))
            noise, past = colour_noise(noise, past)
            state = replace(state, past=past[: self.bands - 1], rounds=state.rounds + 1)
            std *= compute_banded_sensitivity(facts.rounds, self.bands, facts.separation)
        noise = std * noise
        with np.errstate(
            over="ignore", divide="ignore", invalid="ignore"
        ):  # noise too small to square
            ratio = float(norm(total) / norm(noise))
        return total + noise, replace(state, figures={"signal_to_noise": ratio}), spends


class DistributedGaussian(Defense, kind="distributed-gaussian"):
    r"""Adds a share of noise to each update on the UE: a secure sum of enough of them has all of
    it.

    With norm bound c (a `clip` before it), sensitivity s = c or 2 c, m = `threat.secagg_threshold`
    and the `honest_share` h, a UE adds N(0, (z s)^2 / floor(h m)) to each number. A sum is opened
    only with updates of at least m UEs (of each model). floor(h m) of them are honest, or the
    protected UE alone, and their noise is N(0, (z s)^2) or more: so the guarantee of the sum holds
    against the server as well, which draws nothing and may know the noise of all UEs but these. n
    UEs make the noise larger by the root of n / m. Weights are fixed (aggregation `uniform`), since
    the server cannot weigh what it does not see.

    The server knows who takes part, and whether a sum is opened hangs on how many did. What is
    hidden is the update: neighbours differ in one UE's updates, which are zeros in one of them
    (`zero-out`, of add-remove in `clip`), or any others (`replace`); it takes part in the same
    rounds, and adds its noise. Sampling therefore counts nothing. Every UE pays z for every model
    of each round for which it draws noise, whether its update arrives, and whether the sum is
    opened. An attacker that receives single updates before they are summed sees them masked; such a
    view has no model here.

    Several steps of local training, curation and compression before the noise are covered by the
    clip norm. Later steps are refused unless they add noise and nothing else, because a sum of
    changed updates follows from no noisy sum: a clip takes noise away along the update.
    """

    noise_multiplier: Amount
    """standard deviation of the noise on the sum in units of the sensitivity (z)"""
    honest_share: Share = 1.0
    """share of the UEs of a sum whose noise the server does not know (h)"""
    delta: Probability = 1e-7
    """delta at which epsilon is stated"""

    reference = (
        "Dwork et al., Our Data, Ourselves, 2006; Kairouz, Liu, Steinke, The Distributed "
        "Discrete Gaussian Mechanism for Federated Learning with Secure Aggregation, 2021; "
        "Bonawitz et al., Practical Secure Aggregation, 2017"
    )
    example = {"kind": "distributed-gaussian", "noise_multiplier": 1.0}
    contracts = True
    adds_noise_only = True
    offers = frozenset({"spend", "shared noise"})
    needs = NEEDS_BOUND | FIXED_WEIGHT

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: State, rng: Rng
    ) -> Protected:
        bound = updates.promise
        std = np.full(len(updates.ue), self.noise_multiplier * bound.sensitivity)
        share = std / np.sqrt(facts.count_honest(self.honest_share))
        spend = bound.zeroed.spend(self.label, updates.ue, updates.model, std, self.delta)
        return updates.add_noise(share, "noise", rng), state, [spend]

"""Cost of many noisy rounds to one user: four figures, each with its assumptions in words.

A round is (z, q): z is the noise deviation over the sensitivity *for the relation stated*, 1 / mu
of its spend, and q the probability with which a user takes part by a secret coin of its own. A UE
that is silent because of where it is, of its channel or of a scheduler that others see did not flip
such a coin: for those rounds q = 1.

    naive   every round's exact epsilon at delta / rounds, added up
    zCDP    rho = sum 1 / (2 z^2); takes no account of sampling
    RDP     Renyi costs added at each order
    exact   for rounds with q = 1: one Gaussian with mu^2 = sum 1 / z^2
    PLD     for sampled rounds, numerically, of at most MOST_KINDS kinds; else RDP is the best there
    is

All hold for multipliers that were fixed beforehand; `gaussian.GaussianFilter` is for those that
were not. Under replacement of a user's data, rounds with q < 1 are counted as if q were 1: the
amplification theorems used here are for add-remove, and dropping the coin is safe (mixtures with a
common part are no further apart than what they mix).
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from fl.privacy import rdp
from fl.privacy.gaussian import (
    check_guarantee,
    compute_gaussian_epsilon,
    compute_gaussian_multiplier,
)
from netsim.columns import Columns, frozen
from netsim.units import FloatArray, FloatTriple

ADD_REMOVE = "add-remove"
NO_DIGITS = 1000.0  # an epsilon above is no guarantee at all, and worth no convolution
MOST_KINDS = 16  # of rounds that PLD takes,
MOST_ROUNDS = 100_000  # and how many sampled ones
_POINTS = 10_000  # of the grid of PLD, up to an upper bound of epsilon
_POINTS_A_ROUND = 15_000  # of the grid, over the losses of one round
_WITHIN = 5e-5  # of a multiplier, by which the least one is missed


@frozen
class RoundKinds(Columns):
    """Kinds of rounds, each once: noise multiplier z (n,), sampling rate q (n,), how often played:
    count (n,).
    """

    z: FloatArray
    q: FloatArray
    count: FloatArray

    @classmethod
    def from_rounds(cls, rounds: Iterable[FloatTriple]) -> RoundKinds:
        """From (z, q, count) in any order, the same kind any number of times.

        Raises ValueError for z < 0, q outside [0, 1] or a negative count; q = 0 or count = 0 spends
        nothing.
        """
        rows = np.array(list(rounds), dtype=float).reshape(-1, 3)
        z, q, count = rows.T
        is_valid = (z >= 0) & (q >= 0) & (q <= 1) & (count >= 0)
        if not is_valid.all():
            raise ValueError("a round needs z >= 0, q in [0, 1] and count >= 0")
        rows = rows[(q > 0) & (count > 0)]
        kinds, kind_of_round = np.unique(rows[:, :2], axis=0, return_inverse=True)
        z, q = kinds.T
        played = np.bincount(kind_of_round.reshape(-1), weights=rows[:, 2], minlength=len(kinds))
        return cls(z, q, played.astype(float))

    @property
    def sampled(self) -> bool:
        """Whether any round is played by a random part of the users."""
        return bool((self.q < 1).any())

    @property
    def mu2(self) -> float:
        """Sum of count / z^2: what the exact figure of rounds without sampling depends on."""
        with np.errstate(divide="ignore", over="ignore"):
            return float((self.count / self.z**2).sum())


@dataclass(frozen=True)
class Figure:
    """An epsilon, the accountant it is from, and what that accountant does."""

    accountant: str
    epsilon: float
    words: str


@dataclass(frozen=True)
class Composition:
    """Cost of rounds to one user at this delta. `best` is the figure to state: exact, PLD, or RDP
    and why.
    """

    naive: Figure
    zcdp: Figure
    rdp: Figure
    best: Figure

    @property
    def figures(self) -> list[Figure]:
        """All, the best last; RDP once, where it is the best."""
        figures = (self.naive, self.zcdp, self.rdp, self.best)
        return list({figure.accountant: figure for figure in figures}.values())


def compose_rounds(draws: RoundKinds, delta: float, relation: str = ADD_REMOVE) -> Composition:
    """Compute all four figures. Raises ValueError for a delta outside (0, 1)."""
    note = ""
    if draws.sampled and relation != ADD_REMOVE:
        draws = RoundKinds.from_rounds(
            (z, 1.0, n) for z, n in zip(draws.z, draws.count, strict=True)
        )
        note = f"; sampling counts nothing under {relation}"
    words = "Renyi costs added at each order, the best order taken"
    renyi = Figure("RDP", compute_rdp_epsilon(draws, delta), words + note)
    words = "each round's own epsilon at delta / rounds, added up"
    naive = Figure("naive", compute_naive_epsilon(draws, delta), words + note)
    words = "rho = sum 1 / (2 z^2), epsilon = rho + 2 sqrt(rho ln(1 / delta))"
    if draws.sampled:
        words += "; takes no account of sampling"
    zcdp = Figure("zCDP", compute_zcdp_epsilon(draws.mu2 / 2, delta), words + note)
    return Composition(naive, zcdp, renyi, _choose_best(draws, delta, renyi, note))


def compose_with_skellam(gaussian: RoundKinds, whole: FloatArray, delta: float) -> Composition:
    """Rounds with Skellam noise, rows (std, L2, L1 sensitivity), beside Gaussian ones without
    sampling: by RDP.

    Its zCDP cost is the smallest rho with rho alpha above the Renyi cost of every order alpha from
    1 on.
    """
    std, l2, l1 = whole.T
    cost = rdp.compute_skellam_cost(std, l2, l1) + rdp.compute_full_cost(gaussian.mu2)
    words = "Renyi costs of noise on whole numbers added at each order, the best order taken"
    renyi = Figure("RDP", float(rdp.compute_renyi_epsilon(cost, delta)), words)
    share = delta / len(whole)
    costs = [rdp.compute_skellam_cost(*row[:, None]) for row in whole]
    total = sum(float(rdp.compute_renyi_epsilon(cost, share)) for cost in costs)
    if len(gaussian.z):
        total += compute_naive_epsilon(gaussian, delta)
    naive = Figure("naive", total, "each round's Renyi epsilon at delta / rounds, added up")
    beyond = np.minimum((2 * l2**2 + 6 * l1) / (4 * std**4), 3 * l1 / (2 * std**2))
    rho = l2**2 / (2 * std**2) + beyond
    epsilon = compute_zcdp_epsilon(rho.sum() + gaussian.mu2 / 2, delta)
    return Composition(
        naive, Figure("zCDP", epsilon, "rho above all Renyi costs per order"), renyi, renyi
    )


def _choose_best(draws: RoundKinds, delta: float, renyi: Figure, note: str) -> Figure:
    if not draws.sampled:
        words = "one Gaussian with mu^2 = sum 1 / z^2, all users in every round" + note
        return Figure("exact", compute_gaussian_epsilon(delta, math.sqrt(draws.mu2)), words)
    kinds = (draws.q < 1).sum() + (draws.q == 1).any()
    if kinds > MOST_KINDS:
        reason = f"{kinds} kinds of rounds are more than the {MOST_KINDS} that PLD takes"
    elif draws.count[draws.q < 1].sum() > MOST_ROUNDS:
        reason = f"more sampled rounds than the {MOST_ROUNDS} that PLD takes"
    elif not 0 < renyi.epsilon <= NO_DIGITS:
        reason = f"PLD is not asked at 0 or beyond {NO_DIGITS:.0f}"
    else:
        epsilon = compute_pld_epsilon(draws, delta, renyi.epsilon)
        if epsilon <= renyi.epsilon:
            words = (
                "privacy loss distributions of all rounds convolved (dp-accounting), users "
                "sampled by secret coins"
            )
            return Figure("PLD", epsilon, words)
        reason = "PLD rounds to more than it"
    return Figure("RDP", renyi.epsilon, f"{renyi.words}; {reason}")


def compute_naive_epsilon(draws: RoundKinds, delta: float) -> float:
    """The exact epsilons of all single rounds at delta / rounds each, added up.

    A round that users take part in with probability q spends ln(1 + q (e^eps - 1)) at q delta when
    the round with all of them spends eps at delta [Balle, Barthe, Gaboardi 2018; add-remove].
    """
    total = 0.0
    rounds = draws.count.sum()
    for z, q, count in zip(draws.z.tolist(), draws.q.tolist(), draws.count.tolist(), strict=True):
        share = delta / rounds / q
        epsilon = 0.0
        if share < 1:
            mu = 1 / z if z > 0 else math.inf
            epsilon = compute_gaussian_epsilon(share, mu)
        if q == 1:
            total += count * epsilon
        elif epsilon < 50:
            total += count * math.log1p(q * math.expm1(epsilon))
        else:
            total += count * max(epsilon + math.log(q), 0.0)
    return total


def compute_zcdp_epsilon(rho: float, delta: float) -> float:
    """rho + 2 sqrt(rho ln(1 / delta)) [Bun and Steinke 2016, Proposition 1.3].

    A Gaussian round is rho-zCDP with rho = 1 / (2 z^2), and rhos add. Sampling of users gives zCDP
    nothing.
    """
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def compute_rdp_epsilon(draws: RoundKinds, delta: float) -> float:
    """The smallest Renyi epsilon. Raises ValueError for a delta outside (0, 1)."""
    cost = rdp.compute_full_cost(draws.select(draws.q == 1).mu2)
    sampled = draws.select(draws.q < 1)
    kinds = np.stack([sampled.z, sampled.q, sampled.count], axis=1)
    for z, q, count in kinds.tolist():
        cost += count * rdp.compute_renyi_cost(z, q)
    return float(rdp.compute_renyi_epsilon(cost, delta))


def compute_pld_epsilon(draws: RoundKinds, delta: float, at_most: float) -> float:
    """Epsilon for add-remove of rounds with z > 0 by privacy loss distributions, the tightest
    figure.

    dp-accounting rounds the losses of each kind of round upwards to a grid and convolves them, so
    its epsilon is an upper bound: within some parts in ten thousand of the truth from 0.1 upwards,
    coarser in what hardly costs anything. It takes up to half a second. at_most is a bound that is
    known already (RDP), which sets the grid. Rounds with q = 1 are one Gaussian together.
    """
    s = 1 / float(draws.z.min())
    sampled = draws.q < 1
    # fine against the epsilon, yet few cells over the losses of one round
    losses = s * s / 2 + 8 * s
    cell = max(at_most / _POINTS, losses / _POINTS_A_ROUND)
    with _silence_library():
        from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
        from dp_accounting.pld import PLDAccountant

        accountant = PLDAccountant(value_discretization_interval=cell)
        if not sampled.all():
            accountant.compose(GaussianDpEvent(draws.select(~sampled).mu2 ** -0.5))
        for z, q, n in zip(draws.z[sampled], draws.q[sampled], draws.count[sampled], strict=True):
            accountant.compose(PoissonSampledDpEvent(float(q), GaussianDpEvent(float(z))), int(n))
        return float(accountant.get_epsilon(delta))


@contextmanager
def _silence_library() -> Iterator[None]:
    """Nothing of the library reaches the screen."""
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def find_noise_multiplier(epsilon: float, delta: float, rounds: int, q: float = 1.0) -> float:
    """The smallest noise multiplier with which the rounds cost no more than epsilon, by the best
    figure.

    For q = 1 exact to rounding; otherwise within 0.02 %, from above. 0 where no noise is needed,
    because who takes part is secret enough. Raises ValueError for an epsilon that is not positive
    and finite or a delta outside (0, 1), and where no multiplier between 0.001 and 1e9 is the
    smallest.
    """
    if q == 1:
        return math.sqrt(rounds) * compute_gaussian_multiplier(epsilon, delta)
    check_guarantee(epsilon, delta)
    if -math.expm1(rounds * math.log1p(-q)) <= delta:
        return 0.0
    from scipy.optimize import brentq

    def compute_excess(log_z: float, best: bool = True) -> float:
        """The logarithm of reached over asked epsilon, which is nearly a line in ln z."""
        draws = RoundKinds.from_rounds([(math.exp(log_z), q, rounds)])
        if best:
            reached = compose_rounds(draws, delta).best.epsilon
        else:
            reached = compute_rdp_epsilon(draws, delta)
        return math.log(min(max(reached, 1e-300), 1e300) / epsilon)

    low = 1e-3
    high = 1e9
    log_low = math.log(low)
    log_high = math.log(high)
    if compute_excess(log_high, False) > 0 or compute_excess(log_low, False) <= 0:
        raise ValueError(
            f"no multiplier between {low:g} and {high:g} is the smallest that reaches "
            f"epsilon {epsilon:g}"
        )
    above = brentq(compute_excess, log_low, log_high, args=(False,), xtol=1e-3) + 1e-3
    below = above - 1.0
    while compute_excess(below) <= 0:  # sampling that RDP sees badly
        below -= 1.0
        if below < log_low:
            raise ValueError(f"a multiplier below {low:g} reaches epsilon {epsilon:g} already")
    smallest = brentq(compute_excess, below, above, xtol=_WITHIN)
    while compute_excess(smallest) > 0:
        smallest += _WITHIN
    return math.exp(smallest)

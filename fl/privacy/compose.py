"""Cost of many noisy rounds to one user: four figures, each with its assumptions in words.

A round is (z, q): z is the noise deviation over the sensitivity *for the relation stated*, 1 / mu of its spend, and q
the probability with which a user takes part by a secret coin of its own. A UE that is silent because of where it is, of
its channel or of a scheduler that others see did not flip such a coin: for those rounds q = 1.

    naive   every round's exact epsilon at delta / rounds, added up
    zCDP    rho = sum 1 / (2 z^2); takes no account of sampling
    RDP     Renyi costs added at each order
    exact   for rounds with q = 1: one Gaussian with mu^2 = sum 1 / z^2
    PLD     for sampled rounds, numerically, of at most `pld.MOST_KINDS` kinds; else RDP is the best there is

All hold for multipliers that were fixed beforehand; `filter` is for those that were not. Under replacement of a user's
data, rounds with q < 1 are counted as if q were 1: the amplification theorems used here are for add-remove, and
dropping the coin is safe (mixtures with a common part are no further apart than what they mix).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from fl.privacy import order_search, pld, zcdp
from fl.privacy.gaussian import epsilon_of, multiplier_of
from netsim.columns import frozen
from netsim.units import FloatArray

ADD_REMOVE = "add-remove"
NO_DIGITS = 1000.0  # an epsilon above is no guarantee at all, and worth no convolution


@frozen
class RoundKinds:
    """Kinds of rounds, each once: noise multiplier z (n,), sampling rate q (n,), how often played: count (n,)."""

    z: FloatArray
    q: FloatArray
    count: FloatArray

    @classmethod
    def of(cls, rounds: Iterable[tuple[float, float, float]]) -> RoundKinds:
        """From (z, q, count) in any order, the same kind any number of times.

        Raises ValueError for z < 0, q outside [0, 1] or a negative count; q = 0 or count = 0 spends nothing.
        """
        rows = np.array(list(rounds), dtype=np.float64).reshape(-1, 3)
        z, q, count = rows.T
        if not (np.all(z >= 0) and np.all((q >= 0) & (q <= 1)) and np.all(count >= 0)):
            raise ValueError("a round needs z >= 0, q in [0, 1] and count >= 0")
        rows = rows[(q > 0) & (count > 0)]
        kinds, which = np.unique(rows[:, :2], axis=0, return_inverse=True)
        played = np.zeros(len(kinds))
        np.add.at(played, which.reshape(-1), rows[:, 2])
        return cls(kinds[:, 0], kinds[:, 1], played)

    @property
    def sampled(self) -> bool:
        """Whether any round is played by a random part of the users."""
        return bool(np.any(self.q < 1))

    @property
    def mu2(self) -> float:
        """Sum of count / z^2: what the exact figure of rounds without sampling depends on."""
        with np.errstate(divide="ignore", over="ignore"):
            return float(np.sum(self.count / self.z**2))

    def without_sampling(self) -> RoundKinds:
        """The same rounds, with all users in all of them."""
        return RoundKinds.of((z, 1.0, n) for z, n in zip(self.z, self.count, strict=True))


@dataclass(frozen=True)
class Figure:
    """An epsilon, the accountant it is from, and what that accountant does."""

    accountant: str
    epsilon: float
    words: str


@dataclass(frozen=True)
class Composition:
    """Cost of rounds to one user at this delta. `best` is the figure to state: exact, PLD, or RDP and why."""

    naive: Figure
    zcdp: Figure
    rdp: Figure
    best: Figure

    @property
    def figures(self) -> list[Figure]:
        """All, the best last; RDP once, where it is the best."""
        first = [self.naive, self.zcdp]
        return [*first, self.best] if self.best.accountant == self.rdp.accountant else [*first, self.rdp, self.best]


def compose(draws: RoundKinds, delta: float, relation: str = ADD_REMOVE) -> Composition:
    """Compute all four figures. Raises ValueError for a delta outside (0, 1)."""
    dropped = draws.sampled and relation != ADD_REMOVE
    if dropped:
        draws = draws.without_sampling()
    note = f"; sampling counts nothing under {relation}" if dropped else ""
    coin = "; takes no account of sampling" if draws.sampled else ""
    renyi = Figure(
        "RDP",
        order_search.epsilon_of(draws.z, draws.q, draws.count, delta),
        "Renyi costs added at each order, the best order taken" + note,
    )
    return Composition(
        Figure(
            "naive",
            zcdp.naive_epsilon_of(draws.z, draws.q, draws.count, delta),
            "each round's own epsilon at delta / rounds, added up" + note,
        ),
        Figure(
            "zCDP",
            float(zcdp.epsilon_of(zcdp.rho_of(draws.z, draws.count), delta)),
            "rho = sum 1 / (2 z^2), epsilon = rho + 2 sqrt(rho ln(1 / delta))" + coin + note,
        ),
        renyi,
        _best(draws, delta, renyi, note),
    )


def least_multiplier(epsilon: float, delta: float, rounds: int, q: float = 1.0) -> float:
    """The smallest noise multiplier with which the rounds cost no more than epsilon, by the best figure.

    For q = 1 exact to rounding; otherwise within 0.02 %, from above (the bisection keeps its upper end). 0 where no
    noise is needed, because who takes part is secret enough. Raises ValueError for an epsilon that is not positive and
    finite or a delta outside (0, 1), and where no multiplier between 0.001 and 1e9 is the smallest.
    """
    if q == 1:
        return math.sqrt(rounds) * multiplier_of(epsilon, delta)
    if not 0 < epsilon < math.inf or not 0 < delta < 1:
        raise ValueError(f"epsilon must be positive and delta in (0, 1), got {epsilon} and {delta}")
    if -math.expm1(rounds * math.log1p(-q)) <= delta:
        return 0.0

    def by_rdp(z: float) -> float:
        return order_search.epsilon_of(np.array([z]), np.array([q]), np.array([float(rounds)]), delta)

    def by_best(z: float) -> float:
        return compose(RoundKinds.of([(z, q, rounds)]), delta).best.epsilon

    low, high = 1e-3, 1e9
    if by_rdp(high) > epsilon or by_rdp(low) <= epsilon:
        raise ValueError(f"no multiplier between {low:g} and {high:g} is the smallest that reaches epsilon {epsilon:g}")
    _, above = _bisect(by_rdp, epsilon, low, high, 1e-3)
    below = above / 2
    while by_best(below) <= epsilon:  # sampling that RDP sees badly
        above, below = below, below / 2
        if below < low:
            raise ValueError(f"a multiplier below {low:g} reaches epsilon {epsilon:g} already")
    return _bisect(by_best, epsilon, below, above, 1e-4)[1]


def _bisect(
    epsilon_at: Callable[[float], float], epsilon: float, low: float, high: float, within: float
) -> tuple[float, float]:
    """Multipliers around the smallest that reaches epsilon, the upper one reaching it.

    ln(epsilon) is nearly a line in ln(z): a secant first (false position, its stale end halved), the middle when the
    secant stalls.
    """
    x, y = math.log(low), math.log(high)
    f, g = _miss(epsilon_at(low), epsilon), _miss(epsilon_at(high), epsilon)
    for turn in range(200):
        if y - x <= within:
            break
        step = f / (f - g) if math.isfinite(f) and f > g and turn % 3 != 2 else 0.5
        middle = x + (y - x) * min(max(step, 0.02), 0.98)
        h = _miss(epsilon_at(math.exp(middle)), epsilon)
        if h > 0:
            x, f, g = middle, h, g / 2
        else:
            y, g, f = middle, h, f / 2
    return math.exp(x), math.exp(y)


def _miss(reached: float, epsilon: float) -> float:
    """Excess over the target as a ratio's logarithm; never infinite below."""
    return math.log(max(reached, 1e-300) / epsilon)


def _best(draws: RoundKinds, delta: float, renyi: Figure, note: str) -> Figure:
    """The figure to state."""
    if not draws.sampled:
        words = "one Gaussian with mu^2 = sum 1 / z^2, all users in every round" + note
        return Figure("exact", epsilon_of(delta, math.sqrt(draws.mu2)), words)
    kinds = int(np.sum(draws.q < 1)) + bool(np.any(draws.q == 1))
    if kinds > pld.MOST_KINDS:
        why = f"{kinds} kinds of rounds are more than the {pld.MOST_KINDS} that PLD takes"
    elif draws.count[draws.q < 1].sum() > pld.MOST_ROUNDS:
        why = f"more sampled rounds than the {pld.MOST_ROUNDS} that PLD takes"
    elif not 0 < renyi.epsilon <= NO_DIGITS:
        why = f"PLD is not asked at 0 or beyond {NO_DIGITS:.0f}"
    else:
        epsilon = pld.epsilon_of(draws.z, draws.q, draws.count, delta, renyi.epsilon)
        if epsilon <= renyi.epsilon:
            words = "privacy loss distributions of all rounds convolved (dp-accounting), users sampled by secret coins"
            return Figure("PLD", epsilon, words)
        why = "PLD rounds to more than it"
    return Figure("RDP", renyi.epsilon, f"{renyi.words}; {why}")

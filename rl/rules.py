r"""Rules of power control, each tuned before it is compared.

Powers are in dBW, of UE k with the SNR s_k at 1 W, the required SNR r_k, the strongest other station o_k and the
eavesdropper e_k (see `rl.look`), and as many parameters as stand there:

    constant            p
    fractional          p - alpha s_k                              open loop, on the gain with its fading
    equal SNR           p - s_k
    inverse amplitude   p - s_k / 2                                G / ||h|| for equal weights G
    required SNR        p + r_k - s_k
    capped inversion    min(p - s_k, c)
    rank ladder         p - s_k - d rank_k                         steps of received power, for successive cancellation
    log-linear          p + a s_k + b r_k + c o_k + d e_k + f rank_k

A rule is tuned by the cross-entropy method: parameters are drawn from a normal distribution, which is moved to the best
of them. Where means over rounds are bounded, those that keep their bounds come first.
[Rubinstein and Kroese, The Cross-Entropy Method, 2004]

The best powers of a round, with links, senders and required noise known, are searched from each of some starts: powers
change by steps of decibels, one UE at a time, and pairs of UEs exchange theirs, as long as the cost falls; then with
half of the step. The result is a local optimum, and no policy can reach it in play: the requirement of a round is known
only when it is over. Bounds on means over rounds couple rounds: there multipliers are found on other rounds, and the
search is for the least Lagrangian, a lower bound for every policy that keeps the bounds (see `rl.reward`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fl.power.search import Limits
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import ComplexArray, FloatArray, IntArray
from rl.look import Look, silent
from rl.radio_records import Air, Links, Rounds, Rows, judged, strength
from rl.reward import Figures, Reward, first_prices, over, penalty, priced

_TRIED = 48  # of a generation
_BEST = 8
_MIN = 0.05  # no spread shrinks below this share of its first one
_STEPS_DB = (8.0, 4.0, 2.0, 1.0, 0.5)
_MAX_MOVES = 200  # of one step
_DUAL_STEPS = 40
_DUAL_RATE = 0.5  # it falls as 1 / step
_ACTIONS = 12  # around the start, by which the first multipliers are found
_STD_DB = 5.0


@frozen
class Family:
    """A rule with free parameters: dbw(look, parameters (P,)) -> (S, K); start, spread (P,): where tuning begins."""

    name: str
    dbw: Callable[[Look, FloatArray], FloatArray]
    start: tuple[float, ...]
    spread: tuple[float, ...]


@frozen
class Tuned:
    """A rule with its parameters, its mean cost where it was tuned, and the power vectors that were judged for it."""

    law: Family
    parameters: FloatArray
    cost: float
    evaluations: int

    def dbw(self, look: Look) -> FloatArray:
        """Powers (S, K) in dBW before any limit."""
        return self.law.dbw(look, self.parameters)

    def power_w(self, look: Look) -> FloatArray:
        """Powers (S, K) in W within the limits."""
        return within(self.dbw(look), look.limits)


LAWS = (
    Family("constant", lambda x, p: np.full(x.snr_db.shape, p[0]), (-30.0,), (15.0,)),
    Family("fractional", lambda x, p: p[0] - p[1] * x.snr_db, (-5.0, 0.75), (15.0, 0.3)),
    Family("equal SNR", lambda x, p: p[0] - x.snr_db, (10.0,), (12.0,)),
    Family("inverse amplitude", lambda x, p: p[0] - x.snr_db / 2, (-10.0,), (12.0,)),
    Family("required SNR", lambda x, p: p[0] + x.required_db - x.snr_db, (0.0,), (12.0,)),
    Family("capped inversion", lambda x, p: np.minimum(p[0] - x.snr_db, p[1]), (10.0, -20.0), (12.0, 10.0)),
    Family("rank ladder", lambda x, p: p[0] - x.snr_db - p[1] * x.rank, (20.0, 3.0), (12.0, 3.0)),
    Family(
        "log-linear",
        lambda x, p: (
            p[0] + p[1] * x.snr_db + p[2] * x.required_db + p[3] * x.other_db + p[4] * x.heard_db + p[5] * x.rank
        ),
        (-5.0, -0.75, 0.0, 0.0, 0.0, 0.0),
        (15.0, 0.3, 0.3, 0.2, 0.2, 1.5),
    ),
)


def untuned(name: str) -> Tuned:
    """The rule of a name, as it is before any tuning."""
    law = next(law for law in LAWS if law.name == name)
    return Tuned(law, np.array(law.start), np.inf, 0)


def within(dbw: FloatArray, limits: Limits) -> FloatArray:
    """Powers (n, K) in W, the nearest that keep the limits."""
    n_ue = dbw.shape[1]
    power_w = np.clip(10.0 ** (np.minimum(dbw, 60.0) / 10.0), limits.each_min_w, limits.each_max_w)
    if limits.each_max_w * n_ue <= limits.total_max_w and limits.each_min_w * n_ue >= limits.total_min_w:
        return power_w
    return limits.project(power_w)


@frozen
class Known:
    """Recorded rounds, the knowledge before each, and their costs."""

    rounds: Rounds
    look: Look
    air: Air
    reward: Reward
    multipliers: FloatArray | None = None
    """of the reward's bounds (m,); None: costs are without them"""

    def __len__(self) -> int:
        return len(self.rounds)

    def figures(self, power_w: FloatArray, which: IntArray | None = None) -> Figures:
        """Figures of power vectors (B, K) in rounds which (B,); none: one vector for each round. Powers are limited to
        the maximum of a UE, as live.
        """
        at = np.arange(len(self.rounds)) if which is None else which
        return judged(
            self.rounds, self.air, np.minimum(power_w, self.look.max_power_w), at, self.reward.leak_half_at
        ).figures

    def cost(self, power_w: FloatArray, which: IntArray | None = None) -> FloatArray:
        """Costs (B,) of power vectors, as `figures`."""
        return priced(self.reward, self.figures(power_w, which), self.multipliers)

    def score(self, power_w: Callable[[Look], FloatArray]) -> float:
        """The figure that selects the best policy of a training: mean cost of an episode over worlds, plus a penalty
        for bounds on means that are exceeded.
        """
        return self._compared(power_w(self.look), self.look.first.sum())

    def merit(self, power_w: FloatArray) -> float:
        """The figure that compares policies: mean cost over all rounds, plus a penalty for bounds that are exceeded."""
        return self._compared(power_w, len(self))

    def _compared(self, power_w: FloatArray, n: int) -> float:
        figures = self.figures(power_w)
        return float(self.reward.cost(figures).sum() / n) + penalty(self.reward, figures)


def _merits(known: Known, law: Family, parameters: FloatArray) -> FloatArray:
    return np.array([known.merit(within(law.dbw(known.look, p), known.look.limits)) for p in parameters])


def tuned(law: Family, known: Known, evaluations: int, rng: Rng) -> Tuned:
    """The best parameters found with a number of evaluations of power vectors, on these rounds."""
    mean = np.array(law.start)
    spread = np.array(law.spread)
    least = _MIN * spread
    best = mean
    cost = np.inf
    generations = max(evaluations // (_TRIED * len(known)), 1)
    for g in range(generations):
        drawn = mean + spread * rng.normal(f"tune.{law.name}", np.arange(_TRIED), (len(mean),), item=g)
        drawn[0] = best
        found = _merits(known, law, drawn)
        order = np.argsort(found, kind="stable")
        if found[order[0]] < cost:
            best = drawn[order[0]]
            cost = float(found[order[0]])
        elite = drawn[order[:_BEST]]
        mean = elite.mean(axis=0)
        spread = np.maximum(elite.std(axis=0), least)
    return Tuned(law, best, cost, generations * _TRIED * len(known))


def best_of_random(law: Family, known: Known, evaluations: int, rng: Rng) -> Tuned:
    """The best of random parameters, drawn as tuning begins, with a number of evaluations of power vectors."""
    n = max(evaluations // len(known), 1)
    drawn = np.array(law.start) + np.array(law.spread) * rng.normal(
        f"random.{law.name}", np.arange(n), (len(law.start),)
    )
    found = _merits(known, law, drawn)
    best = found.argmin()
    return Tuned(law, drawn[best], float(found[best]), n * len(known))


# -- the search that knows everything


@frozen
class Found:
    """The best of a search: cost (S,), power_w (S, K), and the number of power vectors evaluated."""

    cost: FloatArray
    power_w: FloatArray
    judged: int


def best_powers(known: Known, starts_dbw: list[FloatArray]) -> Found:
    """The best powers of each round, from several starts (S, K)."""
    found = [_searched(known, start) for start in starts_dbw]
    costs = np.stack([cost for cost, *_ in found])
    best = costs.argmin(axis=0)
    powers_w = np.stack([within(dbw, known.look.limits) for _, dbw, _ in found])
    at = np.arange(len(known))
    return Found(costs[best, at], powers_w[best, at], sum(judged for *_, judged in found))


def best_multipliers(known: Known, start_dbw: FloatArray, rng: Rng) -> FloatArray:
    """Multipliers (m,) at which the best powers of these rounds keep the bounds, from a start (S, K)."""
    limits = known.look.limits
    n = len(known)
    tried = start_dbw[:, None] + _STD_DB * rng.generator("prices").standard_normal((n, _ACTIONS, start_dbw.shape[1]))
    around = known.figures(within(tried.reshape(n * _ACTIONS, -1), limits), np.repeat(np.arange(n), _ACTIONS))
    prices = first_prices(known.reward, around, n)
    dbw = start_dbw
    for step in range(_DUAL_STEPS):
        _, dbw, _ = _searched(
            replace(known, multipliers=prices.multipliers), dbw, _STEPS_DB if step == 0 else _STEPS_DB[2:]
        )
        prices = prices.raised(over(known.reward, known.figures(within(dbw, limits))), _DUAL_RATE * 5 / (5 + step))
    return prices.multipliers


def _searched(
    known: Known, start_dbw: FloatArray, steps_db: tuple[float, ...] = _STEPS_DB
) -> tuple[FloatArray, FloatArray, int]:
    """Costs (S,), powers (S, K) in dBW that no move improves, and the number of vectors evaluated."""
    limits = known.look.limits
    low = 10 * np.log10(limits.each_min_w)
    high = 10 * np.log10(limits.each_max_w)
    dbw = np.clip(start_dbw, low, high)
    cost = known.cost(within(dbw, limits))
    judged = len(cost)
    for step_db in steps_db:
        going = np.arange(len(known))
        for _ in range(_MAX_MOVES):
            tried = np.clip(_moves(dbw[going], step_db), low, high)  # (n, moves, K)
            n, moves, k = tried.shape
            value = known.cost(within(tried.reshape(-1, k), limits), np.repeat(going, moves)).reshape(n, moves)
            judged += value.size
            best = value.argmin(axis=1)
            better = value[np.arange(n), best] < cost[going] - 1e-9
            if not better.any():
                break
            some = going[better]
            dbw[some] = tried[better, best[better]]
            cost[some] = value[better, best[better]]
            going = some
    return cost, dbw, judged


def _moves(dbw: FloatArray, step_db: float) -> FloatArray:
    """One UE up or down by a step, or two exchanged: (n, 2 K + K (K - 1) / 2, K) of powers (n, K)."""
    k = dbw.shape[1]
    up = dbw[:, None] + step_db * np.concatenate([np.eye(k), -np.eye(k)])
    i, j = np.triu_indices(k, 1)
    exchange: IntArray = np.tile(np.arange(k), (len(i), 1))
    exchange[np.arange(len(i)), i] = j
    exchange[np.arange(len(i)), j] = i
    return np.concatenate([up, dbw[:, exchange]], axis=1)


def planned_w(
    look: Look, factor: float, lost_noise: FloatArray, air: Air, reward: Reward, multipliers: FloatArray,
    start_dbw: FloatArray,
) -> tuple[FloatArray, int]:  # fmt: skip
    """Powers (1, K) in W for one round, and the number of power vectors evaluated.

    The start (1, K) in dBW is kept where no requirement is known yet. factor : A^(T-1-t); lost_noise (1,) : kappa;
    multipliers (m,) : of the reward's bounds.
    """
    known = Known(expected(look, factor, lost_noise), look, air, reward, multipliers)
    if not (look.required_std > 0).any():
        return within(start_dbw, look.limits), 0
    found = best_powers(known, [start_dbw])
    return found.power_w, found.judged


def expected(look: Look, factor: float, lost_noise: FloatArray) -> Rounds:
    """The expected round: one row for each UE that is there, with the requirement of its last row; for a UE that never
    sent, the root mean square of the others.
    """
    k = look.there.shape[1]
    asked = look.required_std
    usual = np.sqrt(np.mean(asked[asked > 0] ** 2)) if (asked > 0).any() else 0.0
    there = look.there.astype(int)
    of = np.where(look.there, np.arange(k), -1)
    weight = there / max(there.sum(), 1)
    rows = Rows(of, weight, np.where(asked > 0, asked, usual), look.rho, np.array([factor]), lost_noise)
    return replace(silent(look), links=phaseless(look.links), rows=rows, count=there)


def phaseless(links: Links) -> Links:
    """Links of the same gains whose channels are all aligned alike: |h_k^H h_j|^2 = ||h_k||^2 ||h_j||^2 / M.

    With c = 1 / sqrt(M) rows of L, L L^T = (1 - c) I + c 1 1^T, are unit vectors of K numbers with inner products c.
    """
    return replace(links, h=_alike(links.h), heard=_alike(links.heard))


def _alike(h: ComplexArray) -> ComplexArray:
    """Amplitudes (S, K, n_bs, K) for (S, K, n_bs, M); of one antenna, which has no alignment, as they are."""
    antennas = h.shape[3]
    k = h.shape[1]
    if antennas < 2 or not h.shape[2]:
        return h
    c = 1.0 / np.sqrt(antennas)
    unit = np.linalg.cholesky((1.0 - c) * np.eye(k) + c)
    return np.asarray(np.sqrt(strength(h))[..., None] * unit[:, None, :], dtype=np.complex128)

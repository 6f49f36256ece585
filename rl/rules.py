r"""Rules of power control, each tuned before it is compared.

Powers are in dBW, of UE k with the SNR s_k at 1 W, the required SNR r_k, the strongest other
station o_k and the eavesdropper e_k (see `rl.look`), and as many parameters as stand there:

    constant            p
    fractional          p - alpha s_k                              open loop, on the gain with its
    fading
    equal SNR           p - s_k
    inverse amplitude   p - s_k / 2                                G / ||h|| for equal weights G
    required SNR        p + r_k - s_k
    capped inversion    min(p - s_k, c)
    rank ladder         p - s_k - d rank_k                         steps of received power, for
    successive cancellation
    log-linear          p + a s_k + b r_k + c o_k + d e_k + f rank_k

A rule is tuned by the cross-entropy method: parameters are drawn from a normal distribution, which
is moved to the best of them. [Rubinstein and Kroese, The Cross-Entropy Method, 2004]

The best powers of a round, with links, senders and required noise known, are searched from each of
some starts: powers change by steps of decibels, one UE at a time, and pairs of UEs exchange theirs,
as long as the cost falls; then with half of the step. The result is a local optimum, and no policy
can reach it in play: the requirement of a round is known only when it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fl.power.search import Limits
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from rl.look import Look, silent
from rl.radio_records import Air, Rounds, Rows, judged, lost_noise
from rl.reward import Figures, Reward, cost_of

_TRIED = 48  # of a generation
_BEST = 8
_MIN = 0.05  # no spread shrinks below this share of its first one
_STEPS_DB = (8.0, 4.0, 2.0, 1.0, 0.5)
_ROUNDING = 1.0 + 1e-12  # of a total power
_MAX_MOVES = 200  # of one step


@frozen
class Family:
    """A rule with free parameters: dbw(look, parameters (P,)) -> (S, K); start, spread (P,): where
    tuning begins.
    """

    name: str
    dbw: Callable[[Look, FloatArray], FloatArray]
    start: tuple[float, ...]
    spread: tuple[float, ...]

    def __reduce__(self) -> tuple[Callable[[str], Family], tuple[str]]:
        return law_of, (self.name,)  # its function has no name of its own


@frozen
class Tuned:
    """A rule with its parameters, its mean cost where it was tuned, and the power vectors that were
    judged for it.
    """

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
    Family(
        "capped inversion",
        lambda x, p: np.minimum(p[0] - x.snr_db, p[1]),
        (10.0, -20.0),
        (12.0, 10.0),
    ),
    Family("rank ladder", lambda x, p: p[0] - x.snr_db - p[1] * x.rank, (20.0, 3.0), (12.0, 3.0)),
    Family(
        "log-linear",
        lambda x, p: (
            p[0]
            + p[1] * x.snr_db
            + p[2] * x.required_db
            + p[3] * x.other_db
            + p[4] * x.heard_db
            + p[5] * x.rank
        ),
        (-5.0, -0.75, 0.0, 0.0, 0.0, 0.0),
        (15.0, 0.3, 0.3, 0.2, 0.2, 1.5),
    ),
)


def untuned(name: str, parameters: Sequence[float] = ()) -> Tuned:
    """The rule of a name with parameters; none: those that it has before any tuning."""
    law = law_of(name)
    return Tuned(law, np.array(parameters or law.start), np.inf, 0)


def law_of(name: str) -> Family:
    """The family of a name."""
    return next(law for law in LAWS if law.name == name)


def within(dbw: FloatArray, limits: Limits) -> FloatArray:
    """Powers (n, K) in W, the nearest that keep the limits."""
    n_ue = dbw.shape[1]
    power_w = np.clip(10.0 ** (np.minimum(dbw, 60.0) / 10.0), limits.each_min_w, limits.each_max_w)
    most_w = limits.each_max_w * n_ue
    if most_w <= limits.total_max_w * _ROUNDING and limits.each_min_w * n_ue >= limits.total_min_w:
        return power_w
    return limits.project(power_w)


@frozen
class Known:
    """Recorded rounds, the knowledge before each, and their costs."""

    rounds: Rounds
    look: Look
    air: Air
    reward: Reward

    def __len__(self) -> int:
        return len(self.rounds)

    def figures(self, power_w: FloatArray, which: IntArray | None = None) -> Figures:
        """Figures of power vectors (B, K) in rounds which (B,); none: one vector for each round.
        Powers are limited to the maximum of a UE, as live.
        """
        at = np.arange(len(self.rounds)) if which is None else which
        return judged(
            self.rounds,
            self.air,
            np.minimum(power_w, self.look.max_power_w),
            at,
            self.reward.leak_half_at,
        ).figures

    def cost(self, power_w: FloatArray, which: IntArray | None = None) -> FloatArray:
        """Costs (B,) of power vectors, as `figures`."""
        return cost_of(self.reward, self.figures(power_w, which))

    def score(self, power_w: Callable[[Look], FloatArray]) -> float:
        """The figure that selects the best policy of a training: mean cost of an episode over
        worlds.
        """
        return self.cost(power_w(self.look)).sum() / self.look.first.sum()


def _merits(known: Known, law: Family, parameters: FloatArray) -> FloatArray:
    return np.array(
        [known.cost(within(law.dbw(known.look, p), known.look.limits)).mean() for p in parameters]
    )


def tuned(law: Family, known: Known, evaluations: int, rng: Rng) -> Tuned:
    """The best parameters found with a number of evaluations of power vectors, on these rounds."""
    mean = np.array(law.start)
    spread = np.array(law.spread)
    least = _MIN * spread
    best = mean
    cost = np.inf
    generations = max(evaluations // (_TRIED * len(known)), 1)
    for g in range(generations):
        drawn = mean + spread * rng.normal(
            f"tune.{law.name}", np.arange(_TRIED), (len(mean),), item=g
        )
        drawn[0] = best
        found = _merits(known, law, drawn)
        order = np.argsort(found, kind="stable")
        if found[order[0]] < cost:
            best = drawn[order[0]]
            cost = found[order[0]]
        elite = drawn[order[:_BEST]]
        mean = elite.mean(axis=0)
        spread = np.maximum(elite.std(axis=0), least)
    return Tuned(law, best, cost, generations * _TRIED * len(known))


def best_of_random(law: Family, known: Known, evaluations: int, rng: Rng) -> Tuned:
    """The best of random parameters, drawn as tuning begins, with a number of evaluations of power
    vectors.
    """
    n = max(evaluations // len(known), 1)
    drawn = np.array(law.start) + np.array(law.spread) * rng.normal(
        f"random.{law.name}", np.arange(n), (len(law.start),)
    )
    found = _merits(known, law, drawn)
    best = found.argmin()
    return Tuned(law, drawn[best], found[best], n * len(known))


# -- the search that knows everything


@frozen
class Found:
    """The best of a search: cost (S,), power_w (S, K), and the number of power vectors
    evaluated.
    """

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


def _searched(known: Known, start_dbw: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Costs (S,), powers (S, K) in dBW that no move improves, and the number of vectors
    evaluated.
    """
    limits = known.look.limits
    dbw = kept_dbw(start_dbw, limits)
    cost = known.cost(within(dbw, limits))
    judged = len(cost)
    for step_db in _STEPS_DB:
        going = np.arange(len(known))
        for _ in range(_MAX_MOVES):
            tried = kept_dbw(_moves(dbw[going], step_db), limits)  # (n, moves, K)
            n, moves, k = tried.shape
            value = known.cost(
                within(tried.reshape(-1, k), limits), np.repeat(going, moves)
            ).reshape(n, moves)
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
    """One UE up or down by a step, or two exchanged: (n, 2 K + K (K - 1) / 2, K) of powers (n,
    K).
    """
    k = dbw.shape[1]
    up = dbw[:, None] + step_db * np.concatenate([np.eye(k), -np.eye(k)])
    i, j = np.triu_indices(k, 1)
    exchange = np.tile(np.arange(k), (len(i), 1))
    exchange[np.arange(len(i)), i] = j
    exchange[np.arange(len(i)), j] = i
    return np.concatenate([up, dbw[:, exchange]], axis=1)


# -- the search that knows what a scheduler knows

_OF_DEADLINE = 0.45
"""share of the deadline that a plan may use: it hedges against a loss, which costs more than much
noise"""
_RISE_DB = 1.0
"""by how much a plan raises the noise that was required last: requirements rise from round to
round"""


def best_response(
    look: Look,
    start_dbw: FloatArray,
    steps_db: Sequence[tuple[float, ...]],
    reward: Reward,
    factor: FloatArray,
) -> FloatArray:
    """Powers (S, K) in W by best responses in S expected rounds (see `anticipated`).

    From a start (S, K) in dBW, a sweep for each of steps_db: in the order of falling received power
    each UE tries all its steps given the powers of the others, and takes the best (Gauss-Seidel; of
    equal ones the first). Where no requirement is known yet, the start is kept. factor (S,) :
    A^(T-1-t). [Tseng, Convergence of a block coordinate descent method for nondifferentiable
    minimization, 2001]
    """
    limits = look.limits
    known = anticipated(look, reward, factor)
    at = np.arange(len(start_dbw))
    dbw = kept_dbw(start_dbw, limits)
    for steps in steps_db:
        which = np.repeat(at, len(steps))
        for k in np.argsort(-(dbw + look.snr_db), axis=1, kind="stable").T:
            tried = np.repeat(dbw[:, None], len(steps), axis=1)
            tried[at, :, k] = kept_dbw(tried[at, :, k] + np.array(steps), limits)
            cost = known.cost(within(tried.reshape(len(which), -1), limits), which).reshape(
                -1, len(steps)
            )
            dbw = tried[at, cost.argmin(axis=1)]
    planned = (look.required_std > 0).any(axis=1, keepdims=True)
    return within(np.where(planned, dbw, start_dbw), limits)


def probed(look: Look, dbw: FloatArray, reward: Reward, moves_db: tuple[float, ...]) -> FloatArray:
    """10 times what expected rounds cost more after each move of one UE alone (S, K, M), at powers
    (S, K) in dBW.
    """
    n, k = dbw.shape
    known = anticipated(look, reward, np.ones(n))
    moves = np.eye(k)[:, None] * np.array(moves_db)[:, None]  # (K, M, K)
    tried = dbw[:, None] + np.concatenate([np.zeros((1, k)), moves.reshape(-1, k)])
    of = np.repeat(np.arange(n), tried.shape[1])
    cost = known.cost(within(tried.reshape(-1, k), look.limits), of).reshape(n, -1)
    return 10.0 * (cost[:, 1:] - cost[:, :1]).reshape(n, k, -1)


def anticipated(look: Look, reward: Reward, factor: FloatArray) -> Known:
    """The expected rounds as a plan judges them: with a share of the deadline and a higher
    requirement, as a hedge.
    """
    raised = replace(look, required_std=look.required_std * 10.0 ** (_RISE_DB / 20.0))
    air = look.air._replace(deadline_s=_OF_DEADLINE * look.air.deadline_s)
    return Known(expected(raised, factor), look, air, reward)


def kept_dbw(dbw: FloatArray, limits: Limits) -> FloatArray:
    """Powers in dBW within the limits of a UE."""
    return np.clip(dbw, 10 * np.log10(limits.each_min_w), 10 * np.log10(limits.each_max_w))


def expected(look: Look, factor: FloatArray) -> Rounds:
    """The expected rounds: one row for each UE that is there, with the requirement of its last row;
    for a UE that never sent, the root mean square of the others. Noise is topped up, whatever the
    mode of the switch. factor (S,).
    """
    there = look.there
    asked = look.required_std
    known = (asked > 0).sum(axis=1, keepdims=True)
    usual = np.sqrt((asked**2).sum(axis=1, keepdims=True) / np.maximum(known, 1))
    of = np.where(there, np.arange(there.shape[1]), -1)
    weight = there / np.maximum(there.sum(axis=1, keepdims=True), 1)
    kappa = lost_noise(look.air, look.n_bits)
    drawing = np.zeros(len(there), dtype=int)
    rows = Rows(of, weight, np.where(asked > 0, asked, usual), look.rho, factor, kappa, drawing)
    return replace(silent(look), links=look.links, rows=rows, count=there.astype(int))

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
from netsim.units import FloatArray, Floats, IntArray
from rl.look import Look, build_silent_round
from rl.radio_records import Air, Rounds, Rows, compute_lost_noise, judge_vectors
from rl.reward import Figures, Reward, compute_reward_cost

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
    start: Floats
    spread: Floats

    def __reduce__(self) -> tuple[Callable[[str], Family], tuple[str]]:
        return find_family, (self.name,)  # its function has no name of its own


@frozen
class TunedRule:
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
        return limit_to_w(self.dbw(look), look.limits)


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
            + p[3] * x.best_other_snr_db
            + p[4] * x.eavesdropper_snr_db
            + p[5] * x.rank
        ),
        (-5.0, -0.75, 0.0, 0.0, 0.0, 0.0),
        (15.0, 0.3, 0.3, 0.2, 0.2, 1.5),
    ),
)


def build_rule(name: str, parameters: Sequence[float] = ()) -> TunedRule:
    """The rule of a name with parameters; none: those that it has before any tuning."""
    law = find_family(name)
    return TunedRule(law, np.array(parameters or law.start), np.inf, 0)


def find_family(name: str) -> Family:
    """The family of a name."""
    return next(law for law in LAWS if law.name == name)


def limit_to_w(dbw: FloatArray, limits: Limits) -> FloatArray:
    """Powers (n, K) in W, the nearest that keep the limits."""
    n_ue = dbw.shape[1]
    power_w = 10.0 ** (np.minimum(dbw, 60.0) / 10.0)
    power_w = np.clip(power_w, limits.each_min_w, limits.each_max_w)
    most_w = limits.each_max_w * n_ue
    if most_w <= limits.total_max_w * _ROUNDING and limits.each_min_w * n_ue >= limits.total_min_w:
        return power_w
    return limits.project(power_w)


@frozen
class KnownRounds:
    """Recorded rounds, the knowledge before each, and their costs."""

    rounds: Rounds
    look: Look
    air: Air
    reward: Reward

    def __len__(self) -> int:
        return len(self.rounds)

    def compute_figures(self, power_w: FloatArray, round_index: IntArray | None = None) -> Figures:
        """Figures of power vectors (B, K) in rounds which (B,); none: one vector for each round.
        Powers are limited to the maximum of a UE, as live.
        """
        rounds_of_vectors = np.arange(len(self.rounds)) if round_index is None else round_index
        return judge_vectors(
            self.rounds,
            self.air,
            np.minimum(power_w, self.look.max_power_w),
            rounds_of_vectors,
            self.reward.leak_half_at,
        ).figures

    def compute_costs(self, power_w: FloatArray, round_index: IntArray | None = None) -> FloatArray:
        """Costs (B,) of power vectors, as `compute_figures`."""
        return compute_reward_cost(self.reward, self.compute_figures(power_w, round_index))

    def compute_episode_cost(self, power_w: Callable[[Look], FloatArray]) -> float:
        """The figure that selects the best policy of a training: mean cost of an episode over
        worlds.
        """
        return self.compute_costs(power_w(self.look)).sum() / self.look.is_first.sum()


def _compute_mean_costs(recorded: KnownRounds, law: Family, parameters: FloatArray) -> FloatArray:
    look = recorded.look
    dbw = np.concatenate([law.dbw(look, p) for p in parameters])
    powers_w = np.split(limit_to_w(dbw, look.limits), len(parameters))
    return np.array([recorded.compute_costs(power_w).mean() for power_w in powers_w])


def tune_rule(law: Family, recorded: KnownRounds, evaluations: int, rng: Rng) -> TunedRule:
    """The best parameters found with a number of evaluations of power vectors, on these rounds."""
    mean = np.array(law.start)
    spread = np.array(law.spread)
    min_spread = _MIN * spread
    best = mean
    cost = np.inf
    generations = max(evaluations // (_TRIED * len(recorded)), 1)
    for g in range(generations):
        unit = rng.normal(f"tune.{law.name}", np.arange(_TRIED), (len(mean),), item=g)
        drawn = mean + spread * unit
        drawn[0] = best
        costs = _compute_mean_costs(recorded, law, drawn)
        order = np.argsort(costs, kind="stable")
        if costs[order[0]] < cost:
            best = drawn[order[0]]
            cost = costs[order[0]]
        elite = drawn[order[:_BEST]]
        mean = elite.mean(axis=0)
        spread = np.maximum(elite.std(axis=0), min_spread)
    return TunedRule(law, best, cost, generations * _TRIED * len(recorded))


def draw_best_random(law: Family, recorded: KnownRounds, evaluations: int, rng: Rng) -> TunedRule:
    """The best of random parameters, drawn as tuning begins, with a number of evaluations of power
    vectors.
    """
    n = max(evaluations // len(recorded), 1)
    unit = rng.normal(f"random.{law.name}", np.arange(n), (len(law.start),))
    drawn = np.array(law.start) + np.array(law.spread) * unit
    costs = _compute_mean_costs(recorded, law, drawn)
    best = costs.argmin()
    return TunedRule(law, drawn[best], costs[best], n * len(recorded))


# -- the search that knows everything


@frozen
class BestPowers:
    """The best of a search: cost (S,), power_w (S, K), and the number of power vectors
    evaluated.
    """

    cost: FloatArray
    power_w: FloatArray
    judged: int


def search_best_powers(recorded: KnownRounds, starts_dbw: list[FloatArray]) -> BestPowers:
    """The best powers of each round, from several starts (S, K)."""
    searches = [_search_powers(recorded, start) for start in starts_dbw]
    costs = np.stack([cost for cost, *_ in searches])
    best = costs.argmin(axis=0)
    powers_w = np.stack([limit_to_w(dbw, recorded.look.limits) for _, dbw, _ in searches])
    round_index = np.arange(len(recorded))
    judged = sum(judged for *_, judged in searches)
    return BestPowers(costs[best, round_index], powers_w[best, round_index], judged)


def _search_powers(
    recorded: KnownRounds, start_dbw: FloatArray
) -> tuple[FloatArray, FloatArray, int]:
    """Costs (S,), powers (S, K) in dBW that no move improves, and the number of vectors
    evaluated.
    """
    limits = recorded.look.limits
    dbw = clip_dbw(start_dbw, limits)
    cost = recorded.compute_costs(limit_to_w(dbw, limits))
    judged = len(cost)
    for step_db in _STEPS_DB:
        going = np.arange(len(recorded))
        for _ in range(_MAX_MOVES):
            tried = clip_dbw(_list_moves(dbw[going], step_db), limits)  # (n, moves, K)
            n, moves, k = tried.shape
            tried_w = limit_to_w(tried.reshape(-1, k), limits)
            value = recorded.compute_costs(tried_w, np.repeat(going, moves)).reshape(n, moves)
            judged += value.size
            best = value.argmin(axis=1)
            lowest = value[np.arange(n), best]
            better = lowest < cost[going] - 1e-9
            if not better.any():
                break
            improved = going[better]
            dbw[improved] = tried[better, best[better]]
            cost[improved] = lowest[better]
            going = improved
    return cost, dbw, judged


def _list_moves(dbw: FloatArray, step_db: float) -> FloatArray:
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


def plan_best_responses(
    look: Look,
    start_dbw: FloatArray,
    steps_db: Sequence[Floats],
    reward: Reward,
    factor: FloatArray,
) -> FloatArray:
    """Powers (S, K) in W by best responses in S expected rounds (see `anticipate_rounds`).

    From a start (S, K) in dBW, a sweep for each of steps_db: in the order of falling received power
    each UE tries all its steps given the powers of the others, and takes the best (Gauss-Seidel; of
    equal ones the first). Where no requirement is known yet, the start is kept. factor (S,) :
    A^(T-1-t). [Tseng, Convergence of a block coordinate descent method for nondifferentiable
    minimization, 2001]
    """
    limits = look.limits
    recorded = anticipate_rounds(look, reward, factor)
    row = np.arange(len(start_dbw))
    dbw = clip_dbw(start_dbw, limits)
    for steps in steps_db:
        round_index = np.repeat(row, len(steps))
        for k in np.argsort(-(dbw + look.snr_db), axis=1, kind="stable").T:
            tried = np.repeat(dbw[:, None], len(steps), axis=1)
            tried[row, :, k] = clip_dbw(tried[row, :, k] + np.array(steps), limits)
            tried_w = limit_to_w(tried.reshape(len(round_index), -1), limits)
            cost = recorded.compute_costs(tried_w, round_index).reshape(-1, len(steps))
            dbw = tried[row, cost.argmin(axis=1)]
    planned = (look.required_std > 0).any(axis=1, keepdims=True)
    return limit_to_w(np.where(planned, dbw, start_dbw), limits)


def probe_moves(look: Look, dbw: FloatArray, reward: Reward, moves_db: Floats) -> FloatArray:
    """10 times what expected rounds cost more after each move of one UE alone (S, K, M), at powers
    (S, K) in dBW.
    """
    n, k = dbw.shape
    recorded = anticipate_rounds(look, reward, np.ones(n))
    moves = np.eye(k)[:, None] * np.array(moves_db)[:, None]  # (K, M, K)
    tried = dbw[:, None] + np.concatenate([np.zeros((1, k)), moves.reshape(-1, k)])
    round_index = np.repeat(np.arange(n), tried.shape[1])
    tried_w = limit_to_w(tried.reshape(-1, k), look.limits)
    cost = recorded.compute_costs(tried_w, round_index).reshape(n, -1)
    return 10.0 * (cost[:, 1:] - cost[:, :1]).reshape(n, k, -1)


def anticipate_rounds(look: Look, reward: Reward, factor: FloatArray) -> KnownRounds:
    """The expected rounds as a plan judges them: with a share of the deadline and a higher
    requirement, as a hedge.
    """
    raised = replace(look, required_std=look.required_std * 10.0 ** (_RISE_DB / 20.0))
    air = look.air._replace(deadline_s=_OF_DEADLINE * look.air.deadline_s)
    return KnownRounds(expect_rounds(raised, factor), look, air, reward)


def clip_dbw(dbw: FloatArray, limits: Limits) -> FloatArray:
    """Powers in dBW within the limits of a UE."""
    return np.clip(dbw, 10 * np.log10(limits.each_min_w), 10 * np.log10(limits.each_max_w))


def expect_rounds(look: Look, factor: FloatArray) -> Rounds:
    """The expected rounds: one row for each UE that is there, with the requirement of its last row;
    for a UE that never sent, the root mean square of the others. Noise is topped up, whatever the
    mode of the switch. factor (S,).
    """
    is_served = look.is_served
    required_std = look.required_std
    n_required = (required_std > 0).sum(axis=1, keepdims=True)
    squares = (required_std**2).sum(axis=1, keepdims=True)
    usual = np.sqrt(squares / np.maximum(n_required, 1))
    ue = np.where(is_served, np.arange(is_served.shape[1]), -1)
    weight = is_served / np.maximum(is_served.sum(axis=1, keepdims=True), 1)
    kappa = compute_lost_noise(look.air, look.n_bits)
    required_std = np.where(required_std > 0, required_std, usual)
    rows = Rows(ue, weight, required_std, look.rho, factor, kappa, np.zeros(len(is_served), int))
    return replace(
        build_silent_round(look), links=look.links, rows=rows, count=is_served.astype(int)
    )

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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fl.power.search import Limits
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from rl.look import Look
from rl.radio_records import Air, Rounds, judged
from rl.reward import Figures, Reward, penalty, priced

_TRIED, _BEST, _MIN = 48, 8, 0.05  # of a generation; no spread shrinks below a share of its first one


@frozen
class Law:
    """A rule with free parameters: dbw(look, parameters (P,)) -> (S, K); start, spread (P,): where tuning begins."""

    name: str
    dbw: Callable[[Look, FloatArray], FloatArray]
    start: tuple[float, ...]
    spread: tuple[float, ...]


@frozen
class Tuned:
    """A rule with its parameters, its mean cost where it was tuned, and the power vectors that were judged for it."""

    law: Law
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
    Law("constant", lambda x, p: np.full(x.snr_db.shape, p[0]), (-30.0,), (15.0,)),
    Law("fractional", lambda x, p: p[0] - p[1] * x.snr_db, (-5.0, 0.75), (15.0, 0.3)),
    Law("equal SNR", lambda x, p: p[0] - x.snr_db, (10.0,), (12.0,)),
    Law("inverse amplitude", lambda x, p: p[0] - x.snr_db / 2, (-10.0,), (12.0,)),
    Law("required SNR", lambda x, p: p[0] + x.required_db - x.snr_db, (0.0,), (12.0,)),
    Law("capped inversion", lambda x, p: np.minimum(p[0] - x.snr_db, p[1]), (10.0, -20.0), (12.0, 10.0)),
    Law("rank ladder", lambda x, p: p[0] - x.snr_db - p[1] * x.rank, (20.0, 3.0), (12.0, 3.0)),
    Law(
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
        return judged(self.rounds, self.air, np.minimum(power_w, self.look.max_power_w), at).figures

    def cost(self, power_w: FloatArray, which: IntArray | None = None) -> FloatArray:
        """Costs (B,) of power vectors, as `figures`."""
        return priced(self.reward, self.figures(power_w, which), self.multipliers)

    def at(self, multipliers: FloatArray) -> Known:
        """The same rounds with prices on the reward's bounds."""
        return replace(self, multipliers=multipliers)

    def score(self, power_w: Callable[[Look], FloatArray]) -> float:
        """The figure that selects the best policy of a training: mean cost of an episode over worlds, plus a penalty
        for bounds on means that are exceeded.
        """
        return self._compared(power_w(self.look), self.look.worlds)

    def merit(self, power_w: FloatArray) -> float:
        """The figure that compares policies: mean cost over all rounds, plus a penalty for bounds that are exceeded."""
        return self._compared(power_w, len(self))

    def _compared(self, power_w: FloatArray, n: int) -> float:
        figures = self.figures(power_w)
        return float(self.reward.cost(figures).sum() / n) + penalty(self.reward, figures)


def _merits(known: Known, law: Law, parameters: FloatArray) -> FloatArray:
    """Merit of a rule with each of several parameters (n, P)."""
    return np.array([known.merit(within(law.dbw(known.look, p), known.look.limits)) for p in parameters])


def tuned(law: Law, known: Known, evaluations: int, rng: Rng) -> Tuned:
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


def best_of_random(law: Law, known: Known, evaluations: int, rng: Rng) -> Tuned:
    """The best of random parameters, drawn as tuning begins, with a number of evaluations of power vectors."""
    n = max(evaluations // len(known), 1)
    drawn = np.array(law.start) + np.array(law.spread) * rng.normal(
        f"random.{law.name}", np.arange(n), (len(law.start),)
    )
    found = _merits(known, law, drawn)
    best = int(found.argmin())
    return Tuned(law, drawn[best], float(found[best]), n * len(known))

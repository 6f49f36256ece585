r"""Lower bounds on epsilon, proven by the scores of canaries: `inside` (n,) of runs with one, `outside` (n,) without.

All take a delta and a significance, the largest probability with which a bound exceeds the truth. Scores are independent
draws; larger ones speak for the canary.

    normal           scores N(a, s^2) and N(a + mu s, s^2): mu by the noncentral t
    clopper-pearson  one-sided bounds on both error rates, at ranks of `outside` that are fixed beforehand
    one-run          guesses that a score is of a run with the canary [Steinke, Nasr, Jagielski 2023, Theorem 5.2]
    f-dp             the same guesses against Gaussian DP [Mahloujifar, Melis, Chaudhuri 2024, Algorithm 3]

The last two guess for all scores above a threshold, and take the best vertex of the hull of the ROC curve, each at the
significance over the number of vertices. mu is that of Gaussian DP, which `gaussian.epsilon_of` turns into epsilon: what
is proven of a mechanism whose account is a Gaussian one. `clopper_pearson` with `gaussian=False` and `one_run` prove
epsilon itself, whatever the mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from fl.privacy.gaussian import epsilon_of
from netsim.units import FloatArray, IntArray

Bound = Callable[[FloatArray, FloatArray, float, float], float]
_RANKS = np.array([2, 8, 32])  # n over those at which scores are cut
_MOST = 100.0  # mu, beyond which nothing means anything


def normal(inside: FloatArray, outside: FloatArray, delta: float, significance: float) -> float:
    """Epsilon at delta that equally wide normal scores prove: the smallest mu at which so large a t is not too rare.

    Infinite for scores that differ by more than 100 deviations.
    """
    from scipy.optimize import brentq
    from scipy.stats import nct

    n = len(inside)
    root = math.sqrt(2 / n)
    spread = math.sqrt(np.var([inside, outside], axis=1, ddof=1).mean())
    shift = float(inside.mean() - outside.mean())
    if abs(shift) >= _MOST * spread:
        return math.inf if shift > 0 else 0.0
    shift /= spread

    def excess(mu: float) -> float:
        return float(nct.sf(shift / root, 2 * n - 2, mu / root)) - significance

    return 0.0 if excess(0.0) >= 0 else epsilon_of(delta, float(brentq(excess, 0.0, shift)))


def clopper_pearson(
    inside: FloatArray, outside: FloatArray, delta: float, significance: float, gaussian: bool = True
) -> float:
    """Epsilon at delta by the scores of `inside` above some of `outside`.

    The k-th largest of n scores is exceeded with a probability that is Beta(k, n + 1 - k), so it is bounded exactly at
    ranks k = n/2, n/8, n/32 that do not follow from the scores; and given it the number of `inside` above is binomial.
    Both sides of each rank have a sixth of the significance. gaussian: by mu = Phi^-1(true positives) - Phi^-1(false
    positives); else ln((true positives - delta) / false positives).
    """
    from scipy.special import ndtri
    from scipy.stats import beta

    n = len(inside)
    rank = np.maximum(n // _RANKS, 1)
    share = significance / (2 * len(rank))
    above = n - np.searchsorted(np.sort(inside), np.sort(outside)[n - rank], side="right")
    false = beta.ppf(1 - share, rank, n + 1 - rank)
    true = np.nan_to_num(beta.ppf(share, above, n + 1 - above))
    if gaussian:
        return epsilon_of(delta, float((ndtri(true) - ndtri(false)).max(initial=0.0)))
    return float(np.log(np.maximum(true - delta, 1e-300) / false).max(initial=0.0))


def one_run(inside: FloatArray, outside: FloatArray, delta: float, significance: float) -> float:
    """Epsilon at delta that the best guesses prove."""
    return _by_guesses(inside, outside, significance, lambda *at: _rejects(*at, delta))


def f_dp(inside: FloatArray, outside: FloatArray, delta: float, significance: float) -> float:
    """Epsilon at delta of the largest mu of Gaussian DP that the best guesses refute."""
    return epsilon_of(delta, _by_guesses(inside, outside, significance, _refutes))


def hull(inside: FloatArray, outside: FloatArray) -> IntArray:
    """Scores of either side (2, k) above each threshold that is a vertex of the concave hull of the ROC curve.

    From none to all of them.
    """
    cuts = np.append(np.inf, np.unique([inside, outside])[::-1])
    above = np.array([len(s) - np.searchsorted(np.sort(s), cuts) for s in (inside, outside)])
    convex = np.zeros(1, dtype=np.bool_)
    while not convex.all():
        right, wrong = np.diff(above)
        convex = right[:-1] * wrong[1:] > right[1:] * wrong[:-1]
        above = above[:, np.concatenate([[True], convex, [True]])]
    return above


def _by_guesses(inside: FloatArray, outside: FloatArray, significance: float, refutes: Callable[..., float]) -> float:
    """The largest parameter that any vertex refutes: `refutes` is positive there, and falls with the parameter."""
    from scipy.optimize import brentq

    above = hull(inside, outside)
    best = 0.0
    for correct, wrong in above[:, np.argsort(above[1] / (above[0] + 1))].T.tolist():  # the most precise first
        at = (2 * len(inside), correct + wrong, correct, significance / above.shape[1])
        if correct > wrong and refutes(best, *at) > 0:
            best = float(brentq(refutes, best, _MOST, args=at, xtol=1e-9))
    return best


def _rejects(epsilon: float, m: int, guesses: int, correct: int, significance: float, delta: float) -> float:
    """Significance less the probability of so many correct guesses of m scores, at most, with (epsilon, delta)-DP."""
    from scipy.stats import binom

    fewer = np.arange(correct + 1)
    tail = binom.sf(correct - 1 - fewer, guesses, 1 / (1 + math.exp(-epsilon)))
    slope = (tail - tail[0])[1:] / fewer[1:]
    return float(significance - tail[0] - 2 * m * delta * slope.max())


def _refutes(mu: float, m: int, guesses: int, correct: int, significance: float) -> float:
    """Positive where so many correct guesses of m scores are rarer than the significance, for mu-Gaussian DP.

    r and h are sums over outcomes of at least i correct guesses, the one of correct guesses, the other of wrong ones;
    h may grow no faster than the trade-off function lets it.
    """
    from scipy.special import ndtr, ndtri

    r, h = significance * correct / m, significance * (guesses - correct) / m
    for i in range(correct - 1, -1, -1):
        grown = float(ndtr(ndtri(r) - mu)) - h
        if grown <= 0:
            break
        h += grown
        r = min(r + i / (guesses - i) * grown, 1.0)
    return r + h - guesses / m


GAUSSIAN: dict[str, Bound] = {"clopper-pearson": clopper_pearson, "normal": normal, "f-dp": f_dp, "one-run": one_run}
"""bounds of mechanisms whose account is a Gaussian one"""
ANY: dict[str, Bound] = {"clopper-pearson": partial(clopper_pearson, gaussian=False), "one-run": one_run}
"""bounds of any mechanism"""

r"""Lower bounds on epsilon, proven by scores (2, n): n of runs with a canary, n of runs without.

All take a delta and a significance, the largest probability with which a bound exceeds the truth.
Scores are independent draws; larger ones speak for the canary.

    normal           scores N(a, s^2) and N(a + mu s, s^2): mu by the noncentral t
    clopper-pearson  one-sided bounds on both error rates, at ranks of the second side that are
    fixed beforehand
    one-run          guesses that a score is of a run with the canary [Steinke, Nasr, Jagielski
    2023, Theorem 5.2]
    f-dp             the same guesses against Gaussian DP [Mahloujifar, Melis, Chaudhuri 2024,
    Algorithm 3]

The last two guess for all scores above a threshold, and take the best vertex of the hull of the ROC
curve, each at the significance over the number of vertices. mu is that of Gaussian DP, which
`gaussian.compute_gaussian_epsilon` turns into epsilon: what is proven of a mechanism whose account
is a Gaussian one. `bound_epsilon_by_one_run` proves epsilon itself, whatever the mechanism.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq, isotonic_regression
from scipy.special import nctdtrinc, ndtr, ndtri
from scipy.stats import beta, binom

from fl.privacy.gaussian import compute_gaussian_epsilon
from netsim.columns import compute_bounds
from netsim.units import FloatArray, IntArray

_RANKS = np.array([2, 8, 32])  # n over those at which scores are cut
_MOST = 100.0  # mu, beyond which nothing means anything


def bound_gaussian_epsilon_by_normal(
    scores: FloatArray, delta: float, significance: float
) -> float:
    """Epsilon at delta that equally wide normal scores prove: the smallest mu at which so large a t
    is not too rare.
    """
    n = scores.shape[1]
    root = math.sqrt(2 / n)
    spread = np.sqrt(scores.var(axis=1, ddof=1).mean()) + 1e-100
    t = min((scores[0].mean() - scores[1].mean()) / spread, _MOST)
    mu = root * nctdtrinc(2 * n - 2, 1 - significance, t / root)
    return compute_gaussian_epsilon(delta, max(mu, 0.0))


def bound_gaussian_epsilon_by_clopper_pearson(
    scores: FloatArray, delta: float, significance: float
) -> float:
    """Epsilon at delta by the scores with a canary above some of those without.

    The k-th largest of n scores is exceeded with a probability that is Beta(k, n + 1 - k), so it is
    bounded exactly at ranks k = n/2, n/8, n/32 that do not follow from the scores; and given it the
    number of others above is binomial. Both sides of each rank have a sixth of the significance. mu
    = Phi^-1(true positives) - Phi^-1(false positives).
    """
    inside, outside = np.sort(scores)
    n = len(inside)
    rank = np.maximum(n // _RANKS, 1)
    share = significance / 6
    above = n - np.searchsorted(inside, outside[n - rank], side="right")
    fpr_bound = beta.ppf(1 - share, rank, n + 1 - rank)
    tpr_bound = np.nan_to_num(beta.ppf(share, above, n + 1 - above))
    mu = ndtri(tpr_bound) - ndtri(fpr_bound)
    return compute_gaussian_epsilon(delta, mu.max(initial=0.0))


def bound_epsilon_by_one_run(scores: FloatArray, delta: float, significance: float) -> float:
    """Epsilon at delta that the best guesses prove."""

    def compute_margin(epsilon: float, guesses: int, correct: int, share: float) -> float:
        """Share less the probability of so many correct guesses, at most, with (epsilon,
        delta)-DP.
        """
        fewer = np.arange(correct + 1)
        p_correct = 1 / (1 + math.exp(-epsilon))
        tail = binom.sf(correct - 1 - fewer, guesses, p_correct)
        slope = (tail - tail[0])[1:] / fewer[1:]
        return share - tail[0] - 2 * scores.size * delta * slope.max()

    return _find_largest_refuted(scores, significance, compute_margin)


def bound_gaussian_epsilon_by_f_dp(scores: FloatArray, delta: float, significance: float) -> float:
    """Epsilon at delta of the largest mu of Gaussian DP that the best guesses refute."""

    def compute_margin(mu: float, guesses: int, correct: int, share: float) -> float:
        """Positive where so many correct guesses are rarer than the share, for mu-Gaussian DP.

        r and h are sums over outcomes of at least i correct guesses, the one of correct guesses,
        the other of wrong ones; h may grow no faster than the trade-off function lets it.
        """
        r, h = np.array([correct, guesses - correct]) * share / scores.size
        for i in range(correct - 1, -1, -1):
            grown = ndtr(ndtri(r) - mu) - h
            if grown <= 0:
                break
            h += grown
            r = min(r + i / (guesses - i) * grown, 1.0)
        return r + h - guesses / scores.size

    return compute_gaussian_epsilon(
        delta, _find_largest_refuted(scores, significance, compute_margin)
    )


def find_roc_vertices(scores: FloatArray) -> IntArray:
    """Vertices of the concave hull of the ROC curve: scores above each (k,), and those of them with
    a canary (k,).
    """
    order = np.argsort(-scores[::-1].ravel(), kind="stable")  # of equal ones those without first
    has_canary = order >= scores.shape[1]
    ends = isotonic_regression(1.0 * has_canary, increasing=False).blocks
    return np.array([ends, compute_bounds(has_canary)[ends]])


def _find_largest_refuted(
    scores: FloatArray,
    significance: float,
    compute_margin: Callable[[float, int, int, float], float],
) -> float:
    """The largest parameter that any vertex refutes: there the margin is positive, falling with the
    parameter.
    """
    best = 0.0
    vertices = find_roc_vertices(scores).T.tolist()  # the most precise first
    for guesses, correct in vertices:
        vertex = guesses, correct, significance / len(vertices)
        if 2 * correct > guesses and compute_margin(best, *vertex) > 0:
            best = brentq(compute_margin, best, _MOST, args=vertex, xtol=1e-9)
    return best

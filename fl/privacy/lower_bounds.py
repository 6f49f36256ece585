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

import numpy as np

from fl.privacy.gaussian import epsilon_of
from netsim.units import FloatArray, IntArray

_MOST_MU = 100.0  # no figure means anything beyond


def normal(inside: FloatArray, outside: FloatArray, delta: float, significance: float) -> float:
    """Epsilon at delta that equally wide normal scores prove: the smallest mu at which so large a t is not too rare.

    Infinite for scores without any spread that differ; 0 with less than two scores a side.
    """
    from scipy.optimize import brentq
    from scipy.stats import nct

    freedom = len(inside) + len(outside) - 2
    if min(len(inside), len(outside)) < 2:
        return 0.0
    shift = float(inside.mean() - outside.mean())
    spread = math.sqrt((inside.var() * len(inside) + outside.var() * len(outside)) / freedom)
    root = math.sqrt(1 / len(inside) + 1 / len(outside))
    if spread * _MOST_MU <= shift:
        return math.inf if shift > 0 else 0.0

    def excess(mu: float) -> float:
        return float(nct.sf(shift / (spread * root), freedom, mu / root)) - significance

    return 0.0 if excess(0.0) >= 0 else epsilon_of(delta, float(brentq(excess, 0.0, shift / spread, xtol=1e-9)))


def clopper_pearson(
    inside: FloatArray, outside: FloatArray, delta: float, significance: float, gaussian: bool = True
) -> float:
    """Epsilon at delta by the scores of `inside` above some of `outside`.

    The k-th largest of n scores is exceeded with a probability that is Beta(k, n + 1 - k), so it is bounded exactly at
    ranks k = n/2, n/8, n/32, ... that do not follow from the scores; and given it the number of `inside` above is
    binomial. Both sides of each rank have their share of the significance. gaussian: by mu = Phi^-1(true positives) -
    Phi^-1(false positives); else ln((true positives - delta) / false positives).
    """
    from scipy.special import ndtri
    from scipy.stats import beta

    n, m = len(outside), len(inside)
    rank = np.array([k for k in (n // 2 ** (2 * j + 1) for j in range(n.bit_length())) if k > 0], dtype=np.int64)
    if not len(rank) or not m:
        return 0.0
    share = significance / (2 * len(rank))
    above = m - np.searchsorted(np.sort(inside), np.sort(outside)[n - rank], side="right")
    false = beta.ppf(1 - share, rank, n + 1 - rank)
    true = np.where(above > 0, beta.ppf(share, np.maximum(above, 1), m + 1 - above), 0.0)
    if gaussian:
        return epsilon_of(delta, max(float((ndtri(true) - ndtri(false)).max()), 0.0))
    return max(float(np.log(np.maximum(true - delta, 1e-300) / false).max()), 0.0)


def one_run(inside: FloatArray, outside: FloatArray, delta: float, significance: float) -> float:
    """Epsilon at delta that the best guesses prove."""
    return _by_guesses(inside, outside, significance, lambda *at: _rejects(*at, delta), 50.0)


def f_dp(inside: FloatArray, outside: FloatArray, delta: float, significance: float) -> float:
    """Epsilon at delta of the largest mu of Gaussian DP that the best guesses refute."""
    return epsilon_of(delta, _by_guesses(inside, outside, significance, _refutes, 20.0))


def hull(inside: FloatArray, outside: FloatArray) -> tuple[IntArray, IntArray]:
    """Scores of either side above each threshold (k,) that is a vertex of the concave hull of the ROC curve.

    From none to all of them.
    """
    above = np.unique(np.concatenate([inside, outside]))[::-1]
    right, wrong = (np.append(0, len(s) - np.searchsorted(np.sort(s), above)).tolist() for s in (inside, outside))
    kept = list[int]()
    for i in range(len(right)):
        while len(kept) > 1:
            a, b = kept[-2:]
            turn = (right[b] - right[a]) * (wrong[i] - wrong[a]) - (right[i] - right[a]) * (wrong[b] - wrong[a])
            if turn > 0:
                break
            kept.pop()
        kept.append(i)
    return np.array(right)[kept], np.array(wrong)[kept]


def _by_guesses(
    inside: FloatArray, outside: FloatArray, significance: float, refutes: Callable[..., float], most: float
) -> float:
    """The largest parameter that any vertex refutes: `refutes` is positive there, and falls with the parameter."""
    from scipy.optimize import brentq

    right, wrong = hull(inside, outside)
    best, share = 0.0, significance / len(right)
    order = np.argsort(-right / np.maximum(right + wrong, 1), kind="stable")
    for correct, guesses in zip(right[order].tolist(), (right + wrong)[order].tolist(), strict=True):
        at = (len(inside) + len(outside), guesses, correct, share)
        if 2 * correct <= guesses or refutes(best, *at) <= 0:
            continue
        if refutes(most, *at) > 0:
            return most
        best = float(brentq(refutes, best, most, args=at, xtol=1e-9))
    return best


def _rejects(epsilon: float, m: int, guesses: int, correct: int, significance: float, delta: float) -> float:
    """Significance less the probability of so many correct guesses of m scores, at most, with (epsilon, delta)-DP."""
    from scipy.stats import binom

    tail = binom.sf(correct - 1 - np.arange(correct + 1), guesses, 1 / (1 + math.exp(-epsilon)))
    slope = ((tail[1:] - tail[0]) / np.arange(1, correct + 1)).max(initial=0.0)
    return float(significance - tail[0] - 2 * m * delta * slope)


def _refutes(mu: float, m: int, guesses: int, correct: int, significance: float) -> float:
    """Positive where so many correct guesses of m scores are rarer than the significance, for mu-Gaussian DP.

    r and h are sums over outcomes of at least i correct guesses, the one of correct guesses, the other of wrong ones;
    h may grow no faster than the trade-off function lets it.
    """
    from scipy.special import ndtr, ndtri

    r, h = significance * correct / m, significance * (guesses - correct) / m
    for i in range(correct - 1, -1, -1):
        more = max(h, float(ndtr(ndtri(r) - mu)))
        if more == h:
            break
        r = min(r + i / (guesses - i) * (more - h), 1.0)
        h = more
    return r + h - guesses / m

"""The verdicts of results: a short fixed list of words, and the rule of each.

good          map error at most 0.7 x the constant's, and no worse than a law of three numbers where both are scored
useful        error below the constant's; accuracy above the most frequent class; density rank correlation >= 0.2
not useful    any other model
diverged      model not finite, or RMSE above 1000 dB
found         share: lower end (Wilson, UEs of all seeds) above the largest chance. Distance: 95 % interval of error
              minus baseline below 0. SW1: below the 5 % quantile of random guesses. AUC: lower end above chance
at chance     not found, and share or AUC: upper end within five points of chance; distance: no end more than 10 % of
              the baseline below it; SW1: inside the band of random guesses
inconclusive  neither; of SW1 also where the true centroids fail the same test
prevented     at chance, with a useful model, where another variant of the comparison is found
no meaningful guarantee   epsilon above 20
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isnan

from scenarios.app.results.statistics import MEANINGFUL, wilson

GOOD = "good"
USEFUL = "useful"
NOT_USEFUL = "not useful"
DIVERGED = "diverged"
FOUND = "found"
AT_CHANCE = "at chance"
INCONCLUSIVE = "inconclusive"
PREVENTED = "prevented"
NO_GUARANTEE = "no meaningful guarantee"
USELESS = "Low leakage proves nothing here; high leakage is still real."
"""what leakage means where the model is not useful"""

GOOD_SHARE = 0.7
FAR_DB = 1000.0
USEFUL_RANKS = 0.2
NEAR_POINTS = 5.0
NEAR_SHARE = 0.1
"""how far above chance the end of an interval may lie at chance: percentage points, and as a share of a distance"""


def of_error(value: float, constant: float, good: bool | None = None) -> str:
    """Of a map's error; good: whether it beats its references, None where that is not known."""
    if not isfinite(value) or value > FAR_DB:
        return DIVERGED
    if value >= constant:
        return NOT_USEFUL
    return GOOD if value <= GOOD_SHARE * constant and good is not False else USEFUL


def of_accuracy(value: float, most_frequent: float) -> str:
    """Of a classifier's accuracy, percent."""
    return USEFUL if value > most_frequent else NOT_USEFUL


def of_ranks(value: float) -> str:
    """Of a density's rank correlation."""
    return USEFUL if value >= USEFUL_RANKS else NOT_USEFUL


def is_useful(verdict: str) -> bool:
    """Whether a model's verdict allows to conclude anything from low leakage."""
    return verdict in (GOOD, USEFUL)


def of_interval(low: float, high: float, chance: float, near: float = NEAR_POINTS) -> str:
    """Of a figure that grows with leakage, by its 95 % interval; near: how far above chance it may end at chance."""
    if low > chance:
        return FOUND
    return AT_CHANCE if high <= chance + near else INCONCLUSIVE


def of_share(hits: int, n: int, chances: Sequence[float]) -> str:
    """Of `hits` of `n` UEs of all seeds; chances: percent, of each kind; inconclusive where none is known."""
    known = [chance for chance in chances if not isnan(chance)]
    if not n or not known:
        return INCONCLUSIVE
    _, low, high = wilson(hits, n)
    return of_interval(low, high, max(known))


def of_distance(low: float, high: float, baseline: float) -> str:
    """Of the 95 % interval of error minus baseline."""
    return of_interval(-high, -low, 0.0, NEAR_SHARE * baseline)


def of_sw1(value: float, low: float, high: float, true_centroids: float) -> str:
    """Of a sliced Wasserstein distance against the 5 % and 95 % quantiles of random guesses."""
    if value < low:
        return FOUND
    return AT_CHANCE if value <= high and not true_centroids >= low else INCONCLUSIVE


def of_epsilon(value: float) -> str:
    """Of an epsilon; empty up to 20."""
    return NO_GUARANTEE if value > MEANINGFUL else ""


def prevents(verdict: str, model: str, found: bool) -> str:
    """The verdict of an attack beside that of its model; found: whether another variant of the comparison is found."""
    return PREVENTED if verdict == AT_CHANCE and found and is_useful(model) else verdict

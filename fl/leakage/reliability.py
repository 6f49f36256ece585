r"""Whether probabilities that an attack states can be believed.

Of n statements with probability p_i, and hits y_i in {0, 1}, in bins b of equal width:

    reliability error   sum_b n_b |mean p - mean y| / n      (0: stated is right, on average in each bin)
    Brier score         sum_i (p_i - y_i)^2 / n              (0 at best; 0.25 for a coin that says one half)

Statements about one UE are no independent draws: rounds at one home share one error. So intervals come from drawing
UEs, with all their statements, again and again (bootstrap). Of few UEs the error is large by chance alone: compare with
`by_chance_error`, its mean if hits were drawn with the stated probabilities, one draw a UE and bin.
[Murphy and Winkler 1977; Brier 1950]

An attack may also claim that a UE is near a place, or has moved: the area under the ROC curve of the weights of these
claims is 0.5 for random guessing, and only the order of weights counts.
"""

from __future__ import annotations

import numpy as np

from fl.membership.roc import auc
from netsim.columns import frozen
from netsim.units import BoolArray, FloatArray, IntArray

BINS = 10
DRAWS = 400
_QUANTILES = (0.025, 0.975)


def reliability_error(stated: FloatArray, hit: BoolArray) -> float:
    """Error of statements (n,) that came true or not; NaN of none, and those that are NaN are left out."""
    known = np.isfinite(stated)
    if not known.any():
        return float("nan")
    p, came = stated[known], hit[known].astype(np.float64)
    return float(np.abs(np.bincount(_bins(p), weights=p - came, minlength=BINS)).sum() / len(p))


@frozen
class Reliability:
    """Reliability of n statements about some UEs. stated, hit, count (BINS,) : means by bin, NaN where it is empty;
    error, brier : as above; error_low, error_high : its 95 % interval; by_chance_error : of an attack that is right
    about itself.
    """

    stated: FloatArray
    hit: FloatArray
    count: IntArray
    error: float
    error_low: float
    error_high: float
    by_chance_error: float
    brier: float


def reliability(ue: IntArray, probability: FloatArray, hit: BoolArray, draws: FloatArray) -> Reliability:
    """Measure statements (n,) about UEs ue (n,), and whether they came true; draws (d, k) : uniform, for k distinct
    UEs.

    NaN where there is no statement.
    """
    known = np.isfinite(probability)
    p, y = probability[known], hit[known].astype(np.float64)
    ues, of_ue = np.unique(ue[known], return_inverse=True)
    if not len(ues):
        none, unknown = np.full(BINS, np.nan), float("nan")
        return Reliability(none, none, np.zeros(BINS, dtype=np.int64), unknown, unknown, unknown, unknown, unknown)
    cell = of_ue * BINS + _bins(p)

    def by_ue(weight: FloatArray) -> FloatArray:
        total = np.bincount(cell, weights=weight, minlength=len(ues) * BINS)
        return np.asarray(total.reshape(len(ues), BINS), dtype=np.float64)

    count, stated, hits, square = by_ue(np.ones(len(p))), by_ue(p), by_ue(y), by_ue((p - y) ** 2)
    n = count.sum(axis=0)
    with np.errstate(invalid="ignore"):
        stated_mean, hit_mean = stated.sum(axis=0) / n, hits.sum(axis=0) / n
    error = reliability_error(p, hit[known])
    low, high = np.quantile(_errors(_resampled(len(ues), draws), count, stated - hits), _QUANTILES).tolist()
    by_chance, brier = _by_chance(count, stated, draws), float(square.sum() / len(p))
    return Reliability(stated_mean, hit_mean, n.astype(np.int64), error, low, high, by_chance, brier)


def _bins(p: FloatArray) -> IntArray:
    return np.minimum((p * BINS).astype(np.int64), BINS - 1)


def _errors(times: FloatArray, count: FloatArray, away: FloatArray) -> FloatArray:
    """Error (d,) of samples that weigh each UE by times (d, k); count, away (k, BINS) : sums of a UE."""
    return np.asarray(np.abs(times @ away).sum(axis=1) / (times @ count.sum(axis=1)))


def _resampled(ues: int, draws: FloatArray) -> FloatArray:
    """Draw UEs with replacement: the number of times (d, k) that each UE is in each sample."""
    pick = np.minimum((draws[:, :ues] * ues).astype(np.int64), ues - 1)
    return np.stack([np.bincount(one, minlength=ues) for one in pick]).astype(np.float64)


def _by_chance(count: FloatArray, stated: FloatArray, draws: FloatArray) -> float:
    """Mean error where all statements of a UE in a bin come true together, with their mean probability."""
    with np.errstate(invalid="ignore"):
        p = np.nan_to_num(stated / count)
    # one uniform number a UE and bin: those of a draw, turned by a tenth a bin
    unit = (draws[:, : len(count), None] + np.arange(BINS) / BINS) % 1.0
    away = count * ((unit < p) - p)
    return float(np.abs(away.sum(axis=1)).sum(axis=1).mean() / count.sum())


def near_auc(weight: FloatArray, distance_m: FloatArray) -> float:
    """Probability that a UE nearer than the median has a larger weight (n,) than another, ties half.

    distance_m (n,): true distances to the places named; NaN: unknown, left out. NaN where no distance differs.
    """
    known = np.isfinite(distance_m)
    if not known.any():
        return float("nan")
    near = distance_m[known] < np.median(distance_m[known])
    return auc(weight[known], near)[0]


def moved_auc(weight: FloatArray, moved_m: FloatArray, hit_radius_m: float) -> float:
    """Probability that a UE that has moved by more than hit_radius_m has a larger weight (n,) than another, ties half.

    moved_m (n,): true displacements; NaN: unknown, left out. NaN where all have moved, or none.
    """
    known = np.isfinite(moved_m)
    moved = moved_m[known] > hit_radius_m
    return auc(weight[known], moved)[0]

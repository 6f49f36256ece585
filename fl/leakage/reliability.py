r"""Whether probabilities that an attack states can be believed.

Of n statements with probability p_i, and hits y_i in {0, 1}, in bins b of equal width:

    expected calibration error   sum_b n_b |mean p - mean y| / n      (0: stated is right, on
    average in each bin)

Of few UEs the error is large by chance alone: compare with `by_chance_error`, its mean if hits were
drawn with the stated probabilities, one draw a UE and bin, since rounds at one home share one
error. [Murphy and Winkler 1977]

An attack may also claim that a UE is near a place, or has moved: the area under the ROC curve of
the weights of these claims is 0.5 for random guessing, and only the order of weights counts.
"""

from math import nan

import numpy as np

from fl.membership.roc import compute_auc_with_interval
from netsim.columns import frozen
from netsim.rng import Streams
from netsim.units import BoolArray, FloatArray, IntArray

_BINS = 10
_DRAWS = 400


@frozen
class Reliability:
    """Calibration of `count` statements: the error, and that of an attack that is right about
    itself; NaN of none.
    """

    count: int
    error: float
    by_chance_error: float


def measure_reliability(ue: IntArray, probability: FloatArray, hit: BoolArray) -> Reliability:
    """Measure statements (n,) about UEs ue (n,), and whether they came true; those that are NaN are
    left out.
    """
    is_known = np.isfinite(probability)
    if not is_known.any():
        return Reliability(0, nan, nan)
    p = probability[is_known]
    ues, row = np.unique(ue[is_known], return_inverse=True)
    column = np.minimum((p * _BINS).astype(int), _BINS - 1)
    cell = row * _BINS + column
    shape = len(ues), _BINS
    count = np.bincount(cell, minlength=len(ues) * _BINS).reshape(shape)
    stated = np.bincount(cell, p, len(ues) * _BINS).reshape(shape)
    # one uniform number a UE and bin: those of a draw, turned by a tenth a bin
    drawn = Streams(0).derive_rng("reliability").uniform("ue", np.arange(_DRAWS), (len(ues),))
    unit = (drawn[:, :, None] + np.arange(_BINS) / _BINS) % 1.0
    mean = stated / np.maximum(count, 1)
    excess = (count * ((unit < mean) - mean)).sum(axis=1)
    by_chance = np.abs(excess).sum(axis=1).mean()
    error = np.abs(np.bincount(column, p - hit[is_known])).sum()
    return Reliability(len(p), error / len(p), by_chance / len(p))


def compute_near_auc(weight: FloatArray, distance_m: FloatArray) -> float:
    """Probability that a UE nearer than the median has a larger weight (n,) than another, ties
    half.

    distance_m (n,): true distances to the places named; NaN: unknown, left out. NaN where no
    distance differs.
    """
    is_known = np.isfinite(distance_m)
    if not is_known.any():
        return nan
    return compute_auc_with_interval(
        weight[is_known], distance_m[is_known] < np.median(distance_m[is_known])
    )[0]


def compute_moved_auc(weight: FloatArray, moved_m: FloatArray, hit_radius_m: float) -> float:
    """Probability that a UE that has moved by more than hit_radius_m has a larger weight (n,) than
    another, ties half.

    moved_m (n,): true displacements; NaN: unknown, left out. NaN where all have moved, or none.
    """
    is_known = np.isfinite(moved_m)
    return compute_auc_with_interval(weight[is_known], moved_m[is_known] > hit_radius_m)[0]

"""Success of scores at telling members from non-members: area under the ROC curve, true positives
at a false rate.

Records (N,) have a score, and are members or not. Those that are held out together (all of a
session, a day or a block of ground) are alike, so they are no independent draws; nor are a member
and a non-member that were paired for being alike. `group` numbers what each record belongs to, and
variances are sums over groups.
"""

import math
from math import nan

import numpy as np

from netsim.columns import rank_values
from netsim.units import BoolArray, FloatArray, FloatTriple, IntArray

Z_95 = 1.959963984540054
"""half the width of a normal law's 95 % interval, in standard deviations"""
_TAIL = 0.975
NO_INTERVAL = (nan, nan, nan)


def compute_auc_with_interval(
    score: FloatArray,
    member: BoolArray,
    group: IntArray | None = None,
    before: FloatArray | None = None,
) -> FloatTriple:
    """Probability that a member scores above a non-member, ties half; and its 95 % interval.

    before : of scores of the same records, the probability of which is subtracted.

    The variance is that of DeLong, DeLong, Clarke-Pearson 1988, from the placements of each score
    among the others, or their differences; of records that are no independent draws that of
    Obuchowski 1997, from the sums over groups. The quantile is Student's, with one degree of
    freedom less than the smaller number of groups. Cut to what is possible; NaN where either side
    is empty.
    """
    if member.all() or not member.any():
        return NO_INTERVAL
    placed = _compute_placements(score, member)
    low = 0.0
    if before is not None:
        placed -= _compute_placements(before, member)
        low = -1.0
    n = len(score)
    if group is None:
        group = np.arange(n)
    off = np.zeros(n)
    variance = 0.0
    fewest = n
    for side in (member, ~member):
        n_groups = len(np.unique(group[side]))
        fewest = min(fewest, n_groups)
        if n_groups > 1:
            away = placed[side] - placed[side].mean()
            off[side] = away / side.sum() * math.sqrt(n_groups / (n_groups - 1))
        else:
            variance += ((1.0 - low) / 2) ** 2  # the largest
    variance += (_sum_groups(off, group) ** 2).sum()
    area = placed[member].mean()
    from scipy.special import stdtrit  # here, since it loads for long

    half = stdtrit(max(fewest - 1, 1), _TAIL) * math.sqrt(variance)
    return area, max(area - half, low), min(area + half, 1.0)


def compute_tpr_percent_with_interval(
    score: FloatArray, member: BoolArray, group: IntArray | None = None, fpr: float = 0.01
) -> FloatTriple:
    """Percent of members above a threshold that at most a share `fpr` of non-members exceeds;
    Wilson's 95 % interval.

    The interval is that of the members, of whom as many count as are worth independent ones by the
    variance over their groups; the threshold is taken as given. NaN where either side is empty.
    """
    if member.all() or not member.any():
        return NO_INTERVAL
    outside = np.sort(score[~member])
    threshold = outside[len(outside) - 1 - math.floor(fpr * len(outside))]
    worth = member.sum()
    is_above = (score[member] > threshold).astype(float)
    share = is_above.mean()
    if group is not None:
        sums = _sum_groups(is_above - share, group[member])
        variance = (sums**2).sum() / worth**2
        worth = min(max(share * (1 - share) / variance, 1.0), worth) if variance > 0 else len(sums)
    wide = Z_95**2 / worth
    roots = np.roots((1 + wide, -2 * share - wide, share**2))
    low, high = np.sort(roots).tolist()
    return 100 * share, 100 * max(low, 0.0), 100 * min(high, 1.0)


def _compute_placements(score: FloatArray, member: BoolArray) -> FloatArray:
    """Share of the non-members below each member, and of the members above each non-member, ties
    half: (N,).
    """
    below = rank_values(score)
    for side in (member, ~member):
        below[side] = (below[side] - rank_values(score[side])) / (len(score) - side.sum())
    return np.where(member, below, 1 - below)


def _sum_groups(values: FloatArray, group: IntArray) -> FloatArray:
    """Sum of the values (n,) of each group."""
    _, index = np.unique(group, return_inverse=True)
    return np.asarray(np.bincount(index, weights=values), dtype=float)

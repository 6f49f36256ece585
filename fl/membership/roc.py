"""How well scores tell members from non-members: the area under the ROC curve, and true positives at a false rate."""

from __future__ import annotations

import math

import numpy as np

from netsim.units import FloatArray

_Z = 1.959963984540054  # of a 95 % interval


def auc(member: FloatArray, other: FloatArray) -> tuple[float, float, float]:
    """Probability that a member (m,) scores above a non-member (n,), ties half; and its 95 % interval.

    The interval is normal with the variance of DeLong, DeLong, Clarke-Pearson 1988, from the placements of each score
    among the others; cut to [0, 1]. NaN where either side is empty.
    """
    m, n = len(member), len(other)
    if not m or not n:
        return math.nan, math.nan, math.nan
    of_member = _placed(member, np.sort(other)) / n
    of_other = 1 - _placed(other, np.sort(member)) / m
    area = float(of_member.mean())
    spread = (of_member.var(ddof=1) / m if m > 1 else 0.25) + (of_other.var(ddof=1) / n if n > 1 else 0.25)
    half = _Z * math.sqrt(float(spread))
    return area, max(area - half, 0.0), min(area + half, 1.0)


def tpr_percent(member: FloatArray, other: FloatArray, fpr: float = 0.01) -> tuple[float, float, float]:
    """Percent of members above a threshold that at most a share `fpr` of non-members exceeds; Wilson's 95 % interval.

    The interval is that of the members; the threshold is taken as given. NaN where either side is empty.
    """
    m, n = len(member), len(other)
    if not m or not n:
        return math.nan, math.nan, math.nan
    threshold = np.sort(other)[n - 1 - math.floor(fpr * n)]
    share = float(np.mean(member > threshold))
    centre = (share + _Z**2 / (2 * m)) / (1 + _Z**2 / m)
    half = _Z / (1 + _Z**2 / m) * math.sqrt(share * (1 - share) / m + _Z**2 / (4 * m * m))
    return 100 * share, 100 * max(centre - half, 0.0), 100 * min(centre + half, 1.0)


def _placed(score: FloatArray, ordered: FloatArray) -> FloatArray:
    """How many of the ordered scores lie below each score, ties half."""
    return np.asarray((np.searchsorted(ordered, score, "left") + np.searchsorted(ordered, score, "right")) / 2)

"""Success of scores at telling members from non-members: area under the ROC curve, true positives at a false rate.

Records that are held out together (all of a session, a day or a block of ground) are alike, so they are no independent
draws; nor are a member and a non-member that were paired for being alike. `Whole` numbers what each record belongs to,
and variances are sums over these.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtrit

from netsim.columns import frozen
from netsim.units import FloatArray, IntArray

_Z = 1.959963984540054  # of a 95 % interval
_TAIL = 0.975


@frozen
class RecordGroups:
    """Group of each member (m,) and each non-member (n,): records of one number are one draw."""

    member: IntArray
    other: IntArray

    @classmethod
    def single(cls, m: int, n: int) -> RecordGroups:
        """Every record by itself."""
        return cls(np.arange(m), np.arange(m, m + n))


@frozen
class Scores:
    """Scores of members (m,) and of non-members (n,)."""

    member: FloatArray
    other: FloatArray

    @property
    def placed(self) -> tuple[FloatArray, FloatArray]:
        """Share of the non-members below each member (m,), and of the members above each non-member (n,), ties half."""
        m, n = len(self.member), len(self.other)
        return _placed(self.member, np.sort(self.other)) / n, 1 - _placed(self.other, np.sort(self.member)) / m


def auc(member: FloatArray, other: FloatArray, whole: RecordGroups | None = None) -> tuple[float, float, float]:
    """Probability that a member (m,) scores above a non-member (n,), ties half; and its 95 % interval.

    The variance is that of DeLong, DeLong, Clarke-Pearson 1988, from the placements of each score among the others; of
    records that are no independent draws that of Obuchowski 1997, from the sums over wholes. The quantile is Student's,
    with one degree of freedom less than the smaller number of wholes. Cut to [0, 1]; NaN where either side is empty.
    """
    m, n = len(member), len(other)
    if not m or not n:
        return math.nan, math.nan, math.nan
    of_member, of_other = Scores(member, other).placed
    area, half = float(of_member.mean()), _half_width(of_member, of_other, whole or RecordGroups.single(m, n), 0.25)
    return area, max(area - half, 0.0), min(area + half, 1.0)


def auc_difference(after: Scores, before: Scores, whole: RecordGroups) -> tuple[float, float, float]:
    """AUC of the scores after less that of the scores before, of the same records; and its 95 % interval.

    Paired: the variance is that of the differences of placements, as `auc` takes it. Cut to [-1, 1].
    """
    if not len(after.member) or not len(after.other):
        return math.nan, math.nan, math.nan
    of_member, of_other = (now - then for now, then in zip(after.placed, before.placed, strict=True))
    change, half = float(of_member.mean()), _half_width(of_member, of_other, whole, 1.0)
    return change, max(change - half, -1.0), min(change + half, 1.0)


def tpr_percent(
    member: FloatArray, other: FloatArray, fpr: float = 0.01, whole: IntArray | None = None
) -> tuple[float, float, float]:
    """Percent of members above a threshold that at most a share `fpr` of non-members exceeds; Wilson's 95 % interval.

    The interval is that of the members, of whom as many count as are worth independent ones by the variance over their
    wholes (m,); the threshold is taken as given. NaN where either side is empty.
    """
    m, n = len(member), len(other)
    if not m or not n:
        return math.nan, math.nan, math.nan
    threshold = np.sort(other)[n - 1 - math.floor(fpr * n)]
    found = (member > threshold).astype(np.float64)
    share, worth = float(found.mean()), float(m)
    if whole is not None:
        sums = _sums(found - share, whole)
        spread = float(np.sum(sums**2)) / m**2
        worth = min(max(share * (1 - share) / spread, 1.0), m) if spread > 0 else len(sums)
    centre = (share + _Z**2 / (2 * worth)) / (1 + _Z**2 / worth)
    half = _Z / (1 + _Z**2 / worth) * math.sqrt(share * (1 - share) / worth + _Z**2 / (4 * worth * worth))
    return 100 * share, 100 * max(centre - half, 0.0), 100 * min(centre + half, 1.0)


def _half_width(of_member: FloatArray, of_other: FloatArray, whole: RecordGroups, most: float) -> float:
    """Half of a 95 % interval of the mean placement; `most`: variance of a side that is a single whole."""
    sides, counts, spread = [], [], 0.0
    for of, own in ((of_member, whole.member), (of_other, whole.other)):
        k = len(np.unique(own))
        sides.append((of - of.mean()) / len(of) * math.sqrt(k / (k - 1) if k > 1 else 0.0))
        counts.append(k)
        spread += most * (k == 1)
    spread += float(np.sum(_sums(np.concatenate(sides), np.concatenate([whole.member, whole.other])) ** 2))
    return float(stdtrit(max(min(counts) - 1, 1), _TAIL)) * math.sqrt(spread)


def _sums(values: FloatArray, whole: IntArray) -> FloatArray:
    """Sum of the values (N,) of each whole."""
    _, of = np.unique(whole, return_inverse=True)
    return np.asarray(np.bincount(of.reshape(-1), weights=values), dtype=np.float64)


def _placed(score: FloatArray, ordered: FloatArray) -> FloatArray:
    """Number of ordered scores below each score, ties half."""
    return (np.searchsorted(ordered, score, "left") + np.searchsorted(ordered, score, "right")) / 2

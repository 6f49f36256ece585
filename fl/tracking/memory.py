"""Whether what was believed of a round tells the next estimate better than the estimate of that round alone.

Estimates of one round lie around the truth with errors of their own. So the answer x that lies nearer to the truth than
the estimate z of its round is, on average, also nearer to the estimate z' of the round after. With

    D = mean of |z' - x| - |z' - z|      over UEs and successive rounds,

memory does not help where D is more than one standard error above 0: then the errors that made-up UEs have are not
those of real ones. No true place is read. A UE that returns to where it was makes D smaller than it should be, so that
an attacker believes in its memory too often, not too seldom.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from netsim.columns import frozen, no_ints, no_places
from netsim.units import FloatArray, IntArray

_FEWEST = 30


@frozen
class Memory:
    """count, total_m, square_m2 : of the terms of D; round : the last; ue (k,), place_m, point_m (k, 2) : answers of
    that round and the estimates alone.
    """

    count: int = 0
    total_m: float = 0.0
    square_m2: float = 0.0
    round: int = -1
    ue: IntArray = field(default_factory=no_ints)
    place_m: FloatArray = field(default_factory=no_places)
    point_m: FloatArray = field(default_factory=no_places)

    def plus(self, round_: int, ue: IntArray, place_m: FloatArray, point_m: FloatArray) -> Memory:
        """With answers (k, 2), and estimates alone (k, 2), of UEs (k,) ascending in a round; a second look at it does
        not count.
        """
        if round_ == self.round:
            return self
        known = replace(self, round=round_, ue=ue, place_m=place_m, point_m=point_m)
        if round_ != self.round + 1:
            return known
        _, now, then = np.intersect1d(ue, self.ue, assume_unique=True, return_indices=True)
        next_m = point_m[now]
        term_m = np.hypot(*(next_m - self.place_m[then]).T) - np.hypot(*(next_m - self.point_m[then]).T)
        term_m = term_m[np.isfinite(term_m)]
        return replace(
            known,
            count=self.count + len(term_m),
            total_m=self.total_m + float(term_m.sum()),
            square_m2=self.square_m2 + float((term_m**2).sum()),
        )

    @property
    def misleads(self) -> bool:
        """Whether estimates alone tell the next ones better."""
        if self.count < _FEWEST:
            return False
        mean_m = self.total_m / self.count
        variance_m2 = max(self.square_m2 / self.count - mean_m**2, 0.0)
        return mean_m > float(np.sqrt(variance_m2 / self.count))

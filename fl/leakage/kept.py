"""Sorted projections of sets of points that grow at their end, kept from round to round."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from fl.leakage.distances import sorted_projections
from netsim.units import FloatArray

MOST_KEPT_BYTES = 64 * 2**20
"""of all sets together: 45 of 2,000 points in 90 directions"""


class KeptShadows:
    """Gives what `sorted_projections` gives of finite points, to the bit, and remembers it while there is room.

    A set that begins with the points that were there before has its new ones merged into the old order, in O(n) instead
    of O(n log n); any other set, and one for which there was no room, is sorted anew. So nothing depends on what is
    kept: it is no part of a state, and a run that goes on begins without.
    """

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self.most_bytes, self.bytes = most_bytes, 0
        self._kept: dict[Hashable, tuple[FloatArray, FloatArray]] = {}

    def of(self, key: Hashable, points_m: FloatArray, directions: int) -> FloatArray:
        """Sorted projections (directions, n) of points (n, 2), which are not to be written to; key: whose they are."""
        before_m, before = self._kept.pop(key, (points_m[:0], np.zeros((directions, 0))))
        self.bytes -= before.nbytes + before_m.nbytes
        n = len(before_m)
        if n and len(before) == directions and np.array_equal(points_m[:n], before_m):
            along = _with(before, points_m[n:])
        else:
            along = sorted_projections(points_m, directions)
        taken = along.nbytes + points_m.nbytes
        if self.bytes + taken <= self.most_bytes:
            self._kept[key] = points_m, along
            self.bytes += taken
        return along


def _with(along: FloatArray, more_m: FloatArray) -> FloatArray:
    """Sorted projections (directions, n) with those of more points (k, 2): (directions, n + k)."""
    if not len(more_m):
        return along
    both = np.concatenate([along, sorted_projections(more_m, len(along))], axis=1)
    both.sort(axis=1)
    return both

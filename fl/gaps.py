"""The inner loop of the sliced Wasserstein distance, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from netsim.units import FloatArray


@njit(cache=True)
def mean_gaps(a: FloatArray, sets: FloatArray) -> FloatArray:
    """Mean over directions of int_0^1 |Q_a(u) - Q_b(u)| du for every set b: (n_set,).

    a (directions, n) and sets (n_set, directions, m) are sorted. u runs through the breakpoints of both quantile
    functions, counted in units of 1 / (n m), so that they are whole numbers.
    """
    directions, n = a.shape
    m = sets.shape[2]
    found = np.zeros(sets.shape[0])
    for s in range(sets.shape[0]):
        total = 0.0
        for d in range(directions):
            i, j, u = 0, 0, 0
            while i < n and j < m:
                of_a, of_b = (i + 1) * m, (j + 1) * n
                until = min(of_a, of_b)
                total += abs(a[d, i] - sets[s, d, j]) * (until - u)
                u = until
                i += of_a == until
                j += of_b == until
        found[s] = total / (n * m) / directions
    return found

"""The inner loop of the sliced Wasserstein distance, compiled."""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray


@compiled
def mean_gaps(a: FloatArray, sums: FloatArray, sets: FloatArray) -> FloatArray:
    """Return the mean over directions of int_0^1 |Q_a(u) - Q_b(u)| du for every set b: (n_set,).

    a (directions, n) and sets (directions, n_set, m) are sorted; sums (directions, n + 1): of the points of a so far.

    One stretch of u for each point of b, over which Q_b is constant and Q_a crosses it at most once.

    With G(u) = int_0^u Q_a, known from the sums of a so far, a stretch from u_0 to u_1 that is crossed at u_c gives
    b (u_c - u_0) - (G(u_c) - G(u_0)) + (G(u_1) - G(u_c)) - b (u_1 - u_c). Most are crossed at an end; only among the
    points of a within a stretch is the crossing looked for, by halves.
    """
    directions, n = a.shape
    n_set, m = sets.shape[1:]
    first = np.arange(m + 1) * n  # the stretches, in units of 1 / (n m)
    start, stop = first // m, -(-first // m)  # the points of a that hold their ends
    total, ends = np.zeros(n_set), np.zeros(m + 1)  # ends: G(u_0) of each stretch, and the last G(u_1)
    for d in range(directions):  # not set by set: one row of a stays in the cache
        row, so_far = a[d], sums[d]
        for j in range(m):
            ends[j] = so_far[start[j]] * m + (first[j] - start[j] * m) * row[start[j]]
        ends[m] = so_far[n] * m
        for s in range(n_set):
            values, gaps = sets[d, s], total[s]
            for j in range(m):
                b, low, high = values[j], start[j], stop[j + 1] - 1
                if b < row[low]:
                    crossed, there = first[j], ends[j]
                elif row[high] <= b:
                    crossed, there = first[j + 1], ends[j + 1]
                else:
                    low += 1
                    while low < high:
                        middle = (low + high) // 2
                        if row[middle] <= b:
                            low = middle + 1
                        else:
                            high = middle
                    crossed = low * m
                    there = so_far[low] * m
                gaps += b * (2 * crossed - first[j] - first[j + 1]) - 2 * there + ends[j] + ends[j + 1]
            total[s] = gaps
    mean: FloatArray = np.maximum(total, 0.0) / (n * m) / directions  # sums that cancel may round to less
    return mean

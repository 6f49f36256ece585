"""The inner loop of the sliced Wasserstein distance, compiled."""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray

FEW = 8  # sets so many times smaller than the other side are summed by stretches


def mean_gaps(a: FloatArray, sets: FloatArray) -> FloatArray:
    """Mean over directions of int_0^1 |Q_a(u) - Q_b(u)| du for every set b: (n_set,).

    a (directions, n) and sets (n_set, directions, m) are sorted. Small sets take O(m log(n / m)) a direction, others
    O(n + m).
    """
    few = sets.shape[2] * FEW <= a.shape[1]
    return np.asarray(_by_stretches(a, sets) if few else _point_by_point(a, sets))


@compiled
def _point_by_point(a: FloatArray, sets: FloatArray) -> FloatArray:
    """u runs through the breakpoints of both quantile functions, in units of 1 / (n m): they are whole numbers."""
    directions, n = a.shape
    m = sets.shape[2]
    distance = np.zeros(sets.shape[0])
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
        distance[s] = total / (n * m) / directions
    return distance


@compiled
def _by_stretches(a: FloatArray, sets: FloatArray) -> FloatArray:
    """One stretch of u for each point of b, over which Q_b is constant and Q_a crosses it at most once.

    With G(u) = int_0^u Q_a, known from the sums of a so far, a stretch from u_0 to u_1 that is crossed at u_c gives
    b (u_c - u_0) - (G(u_c) - G(u_0)) + (G(u_1) - G(u_c)) - b (u_1 - u_c).
    """
    directions, n = a.shape
    n_set, m = sets.shape[0], sets.shape[2]
    so_far = np.zeros((directions, n + 1))
    for d in range(directions):
        for i in range(n):
            so_far[d, i + 1] = so_far[d, i] + a[d, i]
    first = np.arange(m + 1) * n  # the stretches, in units of 1 / (n m)
    start, stop = first // m, -(-first // m)  # the points of a that hold their ends
    distance = np.zeros(n_set)
    for s in range(n_set):
        total = 0.0
        for d in range(directions):
            before = 0.0  # G(u_0)
            for j in range(m):
                b, low, high, end = sets[s, d, j], start[j], stop[j + 1], start[j + 1]
                while low < high:
                    middle = (low + high) // 2
                    if a[d, middle] <= b:
                        low = middle + 1
                    else:
                        high = middle
                at, crossed = low, low * m
                if crossed < first[j]:
                    at, crossed = start[j], first[j]
                elif crossed > first[j + 1]:
                    at, crossed = end, first[j + 1]
                there = so_far[d, at] * m + ((crossed - at * m) * a[d, at] if at < n else 0.0)
                after = so_far[d, end] * m + ((first[j + 1] - end * m) * a[d, end] if end < n else 0.0)
                total += b * (2 * crossed - first[j] - first[j + 1]) - 2 * there + before + after
                before = after
        distance[s] = max(total, 0.0) / (n * m) / directions  # sums that cancel may round to less
    return distance

"""The inner loops of the sliced Wasserstein distance, compiled."""

from __future__ import annotations

from functools import cache

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray

FEW = 2  # sets so many times smaller than the other side are summed by stretches
SHORT = 128  # points of a set up to which a network of exchanges sorts them


def mean_gaps(a: FloatArray, sums: FloatArray, sets: FloatArray) -> FloatArray:
    """Mean over directions of int_0^1 |Q_a(u) - Q_b(u)| du for every set b: (n_set,).

    a (directions, n) and sets (directions, n_set, m) are sorted; sums (directions, n + 1): of the points of a so far.
    Small sets take O(m log (n / m)), others O(n + m).
    """
    few = sets.shape[2] * FEW <= a.shape[1]
    return _by_stretches(a, sums, sets) if few else _point_by_point(a, sets)


@compiled
def projected(points: FloatArray, unit: FloatArray) -> FloatArray:
    """Projections of points (n, 2) on unit vectors (directions, 2): (directions, n).

    Element by element: the same bits wherever a point stands among others, which no matrix product promises.
    """
    out = np.empty((len(unit), len(points)))
    for d in range(len(unit)):
        for i in range(len(points)):
            out[d, i] = points[i, 0] * unit[d, 0] + points[i, 1] * unit[d, 1]
    return out


@compiled
def so_far(a: FloatArray) -> FloatArray:
    """Sums of the first 0 to n numbers of rows (directions, n): (directions, n + 1)."""
    out = np.empty((len(a), a.shape[1] + 1))
    for d in range(len(a)):
        total = out[d, 0] = 0.0
        for i in range(a.shape[1]):
            total += a[d, i]
            out[d, i + 1] = total
    return out


@compiled
def merged(a: FloatArray, more: FloatArray) -> FloatArray:
    """Sorted rows of both a (directions, n) and more (directions, k), whose rows are sorted: (directions, n + k)."""
    n, k = a.shape[1], more.shape[1]
    out = np.empty((len(a), n + k))
    for d in range(len(a)):
        row, to, before = a[d], out[d], 0
        for j in range(k):
            low, high = before, n
            while low < high:
                middle = (low + high) // 2
                if row[middle] <= more[d, j]:
                    low = middle + 1
                else:
                    high = middle
            to[before + j : low + j] = row[before:low]
            to[low + j] = more[d, j]
            before = low
        to[before + k :] = row[before:]
    return out


def ordered(sets: FloatArray, unit: FloatArray) -> FloatArray:
    """Projections of sets (n_set, m, 2) on unit vectors (directions, 2), sorted: (directions, n_set, m)."""
    n_set, m = sets.shape[:2]
    if m <= SHORT:
        return _in_order(sets, unit, _exchanges(m))
    along = projected(sets.reshape(-1, 2), unit).reshape(len(unit), n_set, m)
    along.sort(axis=-1)
    return along


@cache
def _exchanges(n: int) -> IntArray:
    """Batcher's network that sorts n values [Knuth 1998, Algorithm 5.2.2 M]: pairs (k, 2) to put in order."""
    pairs, p = list[tuple[int, int]](), 1
    while p < n:
        k = p
        while k:
            near = [i + j for j in range(k % p, n - k, 2 * k) for i in range(min(k, n - j - k))]
            pairs += [(i, i + k) for i in near if i // (2 * p) == (i + k) // (2 * p)]
            k //= 2
        p *= 2
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


@compiled
def _in_order(sets: FloatArray, unit: FloatArray, exchanges: IntArray) -> FloatArray:
    """`ordered`, by exchanges of points in all directions at once."""
    (n_set, m), directions = sets.shape[:2], len(unit)
    x, y = unit[:, 0].copy(), unit[:, 1].copy()
    out, points = np.empty((directions, n_set, m)), np.empty((m, directions))
    for s in range(n_set):
        for j in range(m):
            for d in range(directions):
                points[j, d] = sets[s, j, 0] * x[d] + sets[s, j, 1] * y[d]
        for p in range(len(exchanges)):
            one, other = points[exchanges[p, 0]], points[exchanges[p, 1]]
            for d in range(directions):
                low, high = one[d], other[d]
                one[d] = low if low < high else high
                other[d] = high if low < high else low
        for d in range(directions):
            for j in range(m):
                out[d, s, j] = points[j, d]
    return out


@compiled
def _point_by_point(a: FloatArray, sets: FloatArray) -> FloatArray:
    """u runs through the breakpoints of both quantile functions, in units of 1 / (n m): they are whole numbers.

    Those of as many points are the same.
    """
    directions, n = a.shape
    n_set, m = sets.shape[1:]
    total = np.zeros(n_set)
    for d in range(directions):  # not set by set: one row of a stays in the cache
        for s in range(n_set):
            b = sets[d, s]
            i, j, u, gaps = 0, 0, 0, total[s]
            if n == m:
                for k in range(n):
                    gaps += abs(a[d, k] - b[k]) * m
                i = n
            while i < n and j < m:
                of_a, of_b = (i + 1) * m, (j + 1) * n
                until = min(of_a, of_b)
                gaps += abs(a[d, i] - b[j]) * (until - u)
                u = until
                i += of_a == until
                j += of_b == until
            total[s] = gaps
    mean: FloatArray = total / (n * m) / directions
    return mean


@compiled
def _by_stretches(a: FloatArray, sums: FloatArray, sets: FloatArray) -> FloatArray:
    """One stretch of u for each point of b, over which Q_b is constant and Q_a crosses it at most once.

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

"""The inner loops of the sliced Wasserstein distance, compiled."""

from __future__ import annotations

from functools import cache

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray

FEW = 8  # sets so many times smaller than the other side are summed by stretches
SHORT = 128  # points of a set up to which a network of exchanges sorts them
_BINS = 4  # of a point of the other side, among which its neighbours are looked up


def mean_gaps(a: FloatArray, sets: FloatArray) -> FloatArray:
    """Mean over directions of int_0^1 |Q_a(u) - Q_b(u)| du for every set b: (n_set,).

    a (directions, n) and sets (directions, n_set, m) are sorted. Small sets take O(m), others O(n + m), after the O(n)
    that every direction takes once.
    """
    few = sets.shape[2] * FEW <= a.shape[1]
    return np.asarray(_by_stretches(a, sets) if few else _point_by_point(a, sets))


def ordered(sets: FloatArray) -> FloatArray:
    """Shadows of sets (n_set, m, directions), sorted along m: (directions, n_set, m)."""
    m = sets.shape[1]
    if m > SHORT:
        return np.ascontiguousarray(np.sort(sets, axis=1).transpose(2, 0, 1))
    return np.asarray(_in_order(sets, _exchanges(m)))


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
def _in_order(sets: FloatArray, exchanges: IntArray) -> FloatArray:
    """`ordered`, by exchanges of points in all directions at once."""
    n_set, m, directions = sets.shape
    out, points = np.empty((directions, n_set, m)), np.empty((m, directions))
    for s in range(n_set):
        points[:] = sets[s]
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
    """u runs through the breakpoints of both quantile functions, in units of 1 / (n m): they are whole numbers."""
    directions, n = a.shape
    n_set, m = sets.shape[1:]
    total = np.zeros(n_set)
    for d in range(directions):  # not set by set: one row of a stays in the cache
        for s in range(n_set):
            b = sets[d, s]
            i, j, u, gaps = 0, 0, 0, total[s]
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
def _by_stretches(a: FloatArray, sets: FloatArray) -> FloatArray:
    """One stretch of u for each point of b, over which Q_b is constant and Q_a crosses it at most once.

    With G(u) = int_0^u Q_a, known from the sums of a so far, a stretch from u_0 to u_1 that is crossed at u_c gives
    b (u_c - u_0) - (G(u_c) - G(u_0)) + (G(u_1) - G(u_c)) - b (u_1 - u_c).
    """
    directions, n = a.shape
    n_set, m = sets.shape[1:]
    row, so_far = np.zeros(n + 1), np.zeros(n + 1)  # the last point of a is followed by nothing
    below = np.zeros(_BINS * n + 1, dtype=np.int32)
    first = np.arange(m + 1) * n  # the stretches, in units of 1 / (n m)
    start, stop = first // m, -(-first // m)  # the points of a that hold their ends
    total, ends = np.zeros(n_set), np.zeros(m + 1)  # ends: G(u_0) of each stretch, and the last G(u_1)
    for d in range(directions):  # not set by set: one row of a stays in the cache
        for i in range(n):
            row[i] = a[d, i]
            so_far[i + 1] = so_far[i] + row[i]
        for j in range(1, m + 1):
            ends[j] = so_far[start[j]] * m + (first[j] - start[j] * m) * row[start[j]]
        scale = _binned(row[:n], below)
        for s in range(n_set):
            values, gaps = sets[d, s], total[s]
            for j in range(m):
                b = values[j]
                at = min(max(_not_above(row, below, scale, b), start[j]), stop[j + 1])
                crossed = min(max(at * m, first[j]), first[j + 1])
                at = min(at, start[j + 1])
                there = so_far[at] * m + (crossed - at * m) * row[at]
                gaps += b * (2 * crossed - first[j] - first[j + 1]) - 2 * there + ends[j] + ends[j + 1]
            total[s] = gaps
    mean: FloatArray = np.maximum(total, 0.0) / (n * m) / directions  # sums that cancel may round to less
    return mean


@compiled
def _binned(row: FloatArray, below: IntArray) -> float:
    """Fill in how many values of a sorted row lie before each bin between its ends, (bins + 1,); returns bins a metre.

    0, with all values in the first bin, where they are all but equal or not finite.
    """
    span = row[-1] - row[0]
    scale = (len(below) - 2) / span if 1e-9 < span < 1e300 else 0.0
    below[:] = 0
    for i in range(len(row)):
        below[(int((row[i] - row[0]) * scale) if scale > 0 else 0) + 1] += 1
    for k in range(len(below) - 1):
        below[k + 1] += below[k]
    return float(scale)


@compiled
def _not_above(row: FloatArray, below: IntArray, scale: float, b: float) -> int:
    """How many values of a sorted row do not exceed b: those in the bins before its own, and found by halves there."""
    k = int(min(max((b - row[0]) * scale, 0.0), len(below) - 2.0))
    low, high = below[k], below[k + 1]
    if high - low <= 1:  # most of them, without a jump
        return int(low + ((low < high) & (row[low] <= b)))
    while low < high:
        middle = (low + high) // 2
        if row[middle] <= b:
            low = middle + 1
        else:
            high = middle
    return int(low)

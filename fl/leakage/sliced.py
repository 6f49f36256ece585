"""The inner loops of the sliced Wasserstein distance, compiled."""

from __future__ import annotations

from functools import cache

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray

FEW = 8  # sets so many times smaller than the other side are summed by stretches
SHORT = 32  # points of a set up to which a network of exchanges sorts them
_BINS = 4  # of a point of the other side, among which its neighbours are looked up


def mean_gaps(a: FloatArray, sets: FloatArray, in_order: bool) -> FloatArray:
    """Mean over directions of int_0^1 |Q_a(u) - Q_b(u)| du for every set b: (n_set,).

    a (directions, n) is sorted; sets (n_set, m, directions), sorted along m if `in_order`. Small sets take O(m), others
    O(n + m), after the O(n) and the sorting that every direction takes once.
    """
    m, few = sets.shape[1], sets.shape[1] * FEW <= a.shape[1]
    if not in_order and m > SHORT:
        sets, in_order = np.sort(sets, axis=1), True
    exchanges = _exchanges(1 if in_order else m)
    return np.asarray(_by_stretches(a, sets, exchanges) if few else _point_by_point(a, sets, exchanges))


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
def _take(sets: FloatArray, s: int, d: int, exchanges: IntArray, out: FloatArray) -> None:
    """The sorted shadow of set s in direction d."""
    for j in range(len(out)):
        out[j] = sets[s, j, d]
    for p in range(len(exchanges)):
        i, j = exchanges[p, 0], exchanges[p, 1]
        one, other = out[i], out[j]
        out[i], out[j] = min(one, other), max(one, other)


@compiled
def _point_by_point(a: FloatArray, sets: FloatArray, exchanges: IntArray) -> FloatArray:
    """u runs through the breakpoints of both quantile functions, in units of 1 / (n m): they are whole numbers."""
    directions, n = a.shape
    n_set, m = sets.shape[:2]
    total, b = np.zeros(n_set), np.empty(m)
    for d in range(directions):  # not set by set: one row of a stays in the cache
        for s in range(n_set):
            _take(sets, s, d, exchanges, b)
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
def _by_stretches(a: FloatArray, sets: FloatArray, exchanges: IntArray) -> FloatArray:
    """One stretch of u for each point of b, over which Q_b is constant and Q_a crosses it at most once.

    With G(u) = int_0^u Q_a, known from the sums of a so far, a stretch from u_0 to u_1 that is crossed at u_c gives
    b (u_c - u_0) - (G(u_c) - G(u_0)) + (G(u_1) - G(u_c)) - b (u_1 - u_c).
    """
    directions, n = a.shape
    n_set, m = sets.shape[:2]
    row, so_far = np.zeros(n + 1), np.zeros(n + 1)  # the last point of a is followed by nothing
    below = np.zeros(_BINS * n + 1, dtype=np.int32)
    first = np.arange(m + 1) * n  # the stretches, in units of 1 / (n m)
    start, stop = first // m, -(-first // m)  # the points of a that hold their ends
    total, values = np.zeros(n_set), np.empty(m)
    for d in range(directions):  # not set by set: one row of a stays in the cache
        for i in range(n):
            row[i] = a[d, i]
            so_far[i + 1] = so_far[i] + row[i]
        scale = _binned(row[:n], below)
        for s in range(n_set):
            _take(sets, s, d, exchanges, values)
            before, gaps = 0.0, total[s]  # before: G(u_0)
            for j in range(m):
                b, end = values[j], start[j + 1]
                at = min(max(_not_above(row, below, scale, b), start[j]), stop[j + 1])
                crossed = min(max(at * m, first[j]), first[j + 1])
                at = min(at, end)
                there = so_far[at] * m + (crossed - at * m) * row[at]
                after = so_far[end] * m + (first[j + 1] - end * m) * row[end]
                gaps += b * (2 * crossed - first[j] - first[j + 1]) - 2 * there + before + after
                before = after
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
    while low < high:
        middle = (low + high) // 2
        if row[middle] <= b:
            low = middle + 1
        else:
            high = middle
    return int(low)

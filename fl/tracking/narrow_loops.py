"""Sums over the cells around each cell, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled

Numbers = npt.NDArray[np.float32]

_CHUNK = 512  # numbers, which stay near the processor while neighbours are added


@compiled
def add_spread(
    out: Numbers,
    p: Numbers,
    weight: Numbers,
    tap_y: Numbers,
    tap_x: Numbers,
    before_y: Numbers,
    before_x: Numbers,
    after_y: Numbers,
    after_x: Numbers,
    other: Numbers,
) -> Numbers:
    """out_u += weight_u S_u, S_u = after (T_y (before p_u) T_x), for maps (n, ny, nx); <other_u, S_u> (n,), or none
    (0,) of no others.

    T are symmetric, with taps (h + 1,) at distances 0 ... h, h even; before and after scale rows and columns.
    """
    n, ny, nx = p.shape
    hy, hx = len(tap_y) - 1, len(tap_x) - 1
    wide = nx + hx  # zeros behind each row stand before the next one as well
    low, high = hy * wide + hx, (hy + ny) * wide + hx
    padded = np.zeros((3, high + hy * wide), np.float32)
    a, b, c = padded[0], padded[1], padded[2]
    inner, column = np.zeros(len(other), np.float32), np.empty(nx, np.float32)
    for u in range(n):
        for r in range(ny):
            row, scale = p[u, r], before_y[r]
            into = a[low + r * wide : low + r * wide + nx]
            for k in range(nx):
                into[k] = row[k] * scale * before_x[k]
        _add_neighbours(b, a, low, high - hx, 1, tap_x)
        _add_neighbours(c, b, low, high - hx, wide, tap_y)
        column[:] = 0.0
        for r in range(ny):
            to, scale = out[u, r], after_y[r]
            done = c[low + r * wide : low + r * wide + nx]
            for k in range(nx):
                done[k] *= scale * after_x[k]
                to[k] += weight[u] * done[k]
            if len(other):
                read = other[u, r]
                for k in range(nx):
                    column[k] += read[k] * done[k]
        if len(other):
            for k in range(nx):
                inner[u] += column[k]
    return inner


@compiled
def _add_neighbours(out: Numbers, a: Numbers, low: int, high: int, apart: int, tap: Numbers) -> None:
    """out_i = tap_0 a_i + sum_j tap_j (a_{i - j apart} + a_{i + j apart}), low <= i < high."""
    for start in range(low, high, _CHUNK):
        size = min(_CHUNK, high - start)
        total, own = out[start : start + size], a[start : start + size]
        for i in range(size):
            total[i] = tap[0] * own[i]
        for j in range(1, len(tap), 2):
            one, two, d = tap[j], tap[j + 1], j * apart
            before, after = a[start - d : start - d + size], a[start + d : start + d + size]
            d += apart
            far, farther = a[start - d : start - d + size], a[start + d : start + d + size]
            for i in range(size):
                total[i] += one * (before[i] + after[i]) + two * (far[i] + farther[i])

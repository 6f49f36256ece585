"""Sums over the cells around each cell, compiled."""

from __future__ import annotations

import numpy as np

from fl.tracking.maps import Maps
from netsim.compiled import compiled

_AT_ONCE = 4  # neighbours on each side that are added at once


@compiled
def add_spread(
    out: Maps,
    p: Maps,
    weight: Maps,
    tap_y: Maps,
    tap_x: Maps,
    before_y: Maps,
    before_x: Maps,
    after_y: Maps,
    after_x: Maps,
    other: Maps,
) -> Maps:
    """out_u += weight_u S_u, S_u = after (T_y (before p_u) T_x), for maps (n, ny, nx); <other_u, S_u> (n,), or none
    (0,) of no others.

    T are symmetric, with taps (h + 1,) at distances 0 ... h, h a multiple of 4; before and after scale rows and
    columns.
    """
    n, ny, nx = p.shape
    hy, hx = len(tap_y) - 1, len(tap_x) - 1
    row, rows = np.zeros(nx + 2 * hx, np.float32), np.zeros((ny + 2 * hy) * nx, np.float32)  # with zeros around
    spread, inner, column = np.empty(nx, np.float32), np.zeros(len(other), np.float32), np.empty(nx, np.float32)
    for u in range(n):
        for r in range(ny):
            for k in range(nx):
                row[hx + k] = p[u, r, k] * before_y[r] * before_x[k]
            _sum_neighbours(rows[(hy + r) * nx : (hy + r + 1) * nx], row, hx, 1, tap_x)
        column[:] = 0.0
        for r in range(ny):
            _sum_neighbours(spread, rows, (hy + r) * nx, nx, tap_y)
            for k in range(nx):
                spread[k] *= after_y[r] * after_x[k]
                out[u, r, k] += weight[u] * spread[k]
            if len(other):
                for k in range(nx):
                    column[k] += other[u, r, k] * spread[k]
        if len(other):
            for k in range(nx):
                inner[u] += column[k]
    return inner


@compiled
def _sum_neighbours(total: Maps, a: Maps, first: int, apart: int, tap: Maps) -> None:
    """total_i = tap_0 a_i + sum_j tap_j (a_{i - j apart} + a_{i + j apart}), with i counted from `first`."""
    n = len(total)
    for i in range(n):
        total[i] = tap[0] * a[first + i]
    for j in range(1, len(tap), _AT_ONCE):
        t, low, high = tap[j : j + _AT_ONCE], first - j * apart, first + j * apart
        a1, b1 = a[low : low + n], a[high : high + n]
        a2, b2 = a[low - apart : low - apart + n], a[high + apart : high + apart + n]
        a3, b3 = a[low - 2 * apart : low - 2 * apart + n], a[high + 2 * apart : high + 2 * apart + n]
        a4, b4 = a[low - 3 * apart : low - 3 * apart + n], a[high + 3 * apart : high + 3 * apart + n]
        for i in range(n):
            near, far = t[0] * (a1[i] + b1[i]) + t[1] * (a2[i] + b2[i]), t[2] * (a3[i] + b3[i]) + t[3] * (a4[i] + b4[i])
            total[i] += near + far

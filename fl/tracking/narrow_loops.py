"""Sums over the cells around each cell, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled

Numbers = npt.NDArray[np.float32]

_AT_ONCE = 4  # neighbours on each side that are added at once
_CHUNK = 512  # numbers, which stay near the processor while neighbours are added
_LINE = 16  # numbers of a line of the cache: rows that begin with one are read faster


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

    T are symmetric, with taps (h + 1,) at distances 0 ... h, h a multiple of 4; before and after scale rows and
    columns.
    """
    n, ny, nx = p.shape
    hy, hx = len(tap_y) - 1, len(tap_x) - 1
    wide = _lines(nx + hx)  # zeros behind each row stand before the next one as well
    low, high = hy * wide + _lines(hx), (hy + ny) * wide + _lines(hx)
    size = _lines(high + hy * wide)
    room = np.zeros(3 * size + _LINE, np.float32)
    skip = -(room.ctypes.data // 4) % _LINE
    a, b, c = room[skip : skip + size], room[skip + size : skip + 2 * size], room[skip + 2 * size : skip + 3 * size]
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
def _lines(n: int) -> int:
    """The next multiple of a line."""
    return (n + _LINE - 1) // _LINE * _LINE


@compiled
def _add_neighbours(out: Numbers, a: Numbers, low: int, high: int, apart: int, tap: Numbers) -> None:
    """out_i = tap_0 a_i + sum_j tap_j (a_{i - j apart} + a_{i + j apart}), low <= i < high."""
    for start in range(low, high, _CHUNK):
        size = min(_CHUNK, high - start)
        total, own = out[start : start + size], a[start : start + size]
        for j in range(1, len(tap), _AT_ONCE):
            t, d = tap[j : j + _AT_ONCE], j * apart
            b1, a1 = a[start - d : start - d + size], a[start + d : start + d + size]
            d += apart
            b2, a2 = a[start - d : start - d + size], a[start + d : start + d + size]
            d += apart
            b3, a3 = a[start - d : start - d + size], a[start + d : start + d + size]
            d += apart
            b4, a4 = a[start - d : start - d + size], a[start + d : start + d + size]
            if j == 1:
                for i in range(size):
                    total[i] = tap[0] * own[i] + _four(t, b1[i] + a1[i], b2[i] + a2[i], b3[i] + a3[i], b4[i] + a4[i])
            else:
                for i in range(size):
                    total[i] += _four(t, b1[i] + a1[i], b2[i] + a2[i], b3[i] + a3[i], b4[i] + a4[i])
        if len(tap) == 1:
            total[:] = tap[0] * own


@compiled
def _four(t: Numbers, one: float, two: float, three: float, four: float) -> float:
    total: float = (t[0] * one + t[1] * two) + (t[2] * three + t[3] * four)
    return total

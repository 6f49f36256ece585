"""What is done to every cell of many maps at once, compiled: maps stay in the cache, and none is made in between.

Sums run down the columns first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled

Numbers = npt.NDArray[np.float32]


@compiled
def add_products(out: Numbers, fy: Numbers, fx: Numbers, floor: Numbers) -> None:
    """out_u = floor_u + sum_r fy_ur fx_ur of factors (n, R, ny) and (n, R, nx)."""
    n, ny, nx = out.shape
    for u in range(n):
        for r in range(ny):
            to = out[u, r]
            to[:] = floor[u]
            for k in range(fy.shape[1]):
                a, row = fy[u, k, r], fx[u, k]
                if a == 0:
                    continue
                for c in range(nx):
                    to[c] += a * row[c]


@compiled
def weighed(out: Numbers, p: Numbers, fy: Numbers, fx: Numbers, floor: Numbers) -> Numbers:
    """out_u = p_u e_u / t_u with e = floor + sum_r fy_r fx_r and t (n,) the sums of p e, which are returned.

    Where t is not a positive number, out = p.
    """
    n, ny, nx = p.shape
    totals, column, e = np.empty(n, np.float32), np.empty(nx, np.float32), np.empty(nx, np.float32)
    for u in range(n):
        column[:] = 0.0
        for r in range(ny):
            to, own = out[u, r], p[u, r]
            e[:] = floor[u]
            for k in range(fy.shape[1]):
                a, row = fy[u, k, r], fx[u, k]
                if a == 0:
                    continue
                for c in range(nx):
                    e[c] += a * row[c]
            for c in range(nx):
                value = e[c] * own[c]
                to[c] = value
                column[c] += value
        totals[u] = _sum(column)
        if totals[u] > 0 and np.isfinite(totals[u]):
            _scale(out[u], np.float32(1.0) / totals[u])
        else:
            out[u] = p[u]
    return totals


@compiled
def multiply(p: Numbers, v: Numbers) -> None:
    """p_u = p_u v_u / sum(p_u v_u) of maps (n, ny, nx)."""
    column = np.empty(p.shape[2], np.float32)
    for u in range(len(p)):
        column[:] = 0.0
        for r in range(p.shape[1]):
            to, other = p[u, r], v[u, r]
            for c in range(len(column)):
                to[c] *= other[c]
                column[c] += to[c]
        _scale(p[u], np.divide(np.float32(1.0), np.float32(_sum(column))))


@compiled
def scale_to(v: Numbers, p: Numbers) -> None:
    """v_u = v_u / <p_u, v_u> of maps (n, ny, nx)."""
    each = inner(p, v)
    for u in range(len(v)):
        _scale(v[u], np.divide(np.float32(1.0), each[u]))


@compiled
def sums(p: Numbers) -> Numbers:
    """Of maps (n, ny, nx): (n,)."""
    out, column = np.empty(len(p), np.float32), np.empty(p.shape[2], np.float32)
    for u in range(len(p)):
        column[:] = 0.0
        for r in range(p.shape[1]):
            row = p[u, r]
            for c in range(len(column)):
                column[c] += row[c]
        out[u] = _sum(column)
    return out


@compiled
def inner(p: Numbers, q: Numbers) -> Numbers:
    """<p_u, q_u> (n,) of maps (n, ny, nx); one q may serve all."""
    out, column = np.empty(len(p), np.float32), np.empty(p.shape[2], np.float32)
    for u in range(len(p)):
        column[:] = 0.0
        for r in range(p.shape[1]):
            one, other = p[u, r], q[u if len(q) > 1 else 0, r]
            for c in range(len(column)):
                column[c] += one[c] * other[c]
        out[u] = _sum(column)
    return out


@compiled
def bilinear(p: Numbers, fy: Numbers, fx: Numbers) -> Numbers:
    """sum_r fy_ur p_u fx_ur (n,) of factors (n, R, ny) and (n, R, nx); one map may serve all."""
    n, ranks, ny = fy.shape
    out, column = np.zeros(n, np.float32), np.empty(fx.shape[2], np.float32)
    for u in range(n):
        own = p[u if len(p) > 1 else 0]
        for k in range(ranks):
            column[:] = 0.0
            for r in range(ny):
                a, row = fy[u, k, r], own[r]
                if a == 0:
                    continue
                for c in range(len(column)):
                    column[c] += a * row[c]
            total = 0.0
            for c in range(len(column)):
                total += column[c] * fx[u, k, c]
            out[u] += total
    return out


@compiled
def _sum(row: Numbers) -> float:
    total = 0.0
    for c in range(len(row)):
        total += row[c]
    return total


@compiled
def _scale(p: Numbers, by: float) -> None:
    for r in range(len(p)):
        row = p[r]
        for c in range(len(row)):
            row[c] *= by

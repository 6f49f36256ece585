"""What is done to every cell of many maps at once, compiled: maps stay in the cache, and none is made in between."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled

Numbers = npt.NDArray[np.float32]


@compiled
def add_rest(moved: Numbers, p: Numbers, stay: Numbers, jump: Numbers, target: Numbers) -> None:
    """moved_u = max(moved_u + stay_u p_u + jump_u target_u, 0) for maps (n, ny, nx); one target may serve all."""
    n, ny, nx = moved.shape
    for u in range(n):
        w, j, where = stay[u], jump[u], target[u if len(target) > 1 else 0]
        for r in range(ny):
            to, own, ends = moved[u, r], p[u, r], where[r]
            for c in range(nx):
                value = to[c] + w * own[c] + j * ends[c]
                to[c] = value if value > 0 else np.float32(0.0)


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
def multiply(e: Numbers, p: Numbers) -> Numbers:
    """e_u *= p_u; the sums (n,), of columns first."""
    n, ny, nx = e.shape
    totals, column = np.empty(n, np.float32), np.empty(nx, np.float32)
    for u in range(n):
        column[:] = 0.0
        for r in range(ny):
            to, own = e[u, r], p[u, r]
            for c in range(nx):
                to[c] *= own[c]
                column[c] += to[c]
        total = 0.0
        for c in range(nx):
            total += column[c]
        totals[u] = total
    return totals


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

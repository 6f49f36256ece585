"""Compiled loops over every cell of many maps (n, ny, nx) in float32; sums run down the columns first."""

from __future__ import annotations

import numpy as np

from netsim.units import Float32Array

Maps = Float32Array
"""one number a UE and place: (n_ue, ny, nx)"""


def add_products(out: Maps, fy: Maps, fx: Maps, floor: Maps) -> None:
    """out_u = floor_u + sum_r fy_ur fx_ur of factors (n, R, ny) and (n, R, nx)."""
    out[:] = floor[:, None, None]
    for r in range(fy.shape[1]):
        out += fy[:, r, :, None] * fx[:, r, None, :]


def weighed(out: Maps, p: Maps, fy: Maps, fx: Maps, floor: Maps) -> Maps:
    """out_u = p_u e_u / t_u with e = floor + sum_r fy_r fx_r and t (n,) the sums of p e, which are returned.

    Where t is not a positive number, out = p.
    """
    weighted = np.empty_like(p)
    with np.errstate(all="ignore"):  # estimates may be impossible
        add_products(weighted, fy, fx, floor)
        weighted *= p
        totals = sums(weighted)
    good = (totals > 0) & np.isfinite(totals)
    weighted *= np.divide(1, totals, out=np.ones_like(totals), where=good)[:, None, None]
    weighted[~good] = p[~good]
    out[:] = weighted
    return totals


def multiply(p: Maps, v: Maps) -> None:
    """p_u = p_u v_u / sum(p_u v_u) of maps (n, ny, nx)."""
    p *= v
    p *= (1 / sums(p))[:, None, None]


def scale_to(v: Maps, p: Maps) -> None:
    """v_u = v_u / <p_u, v_u> of maps (n, ny, nx)."""
    v *= (1 / inner(p, v))[:, None, None]


def sums(p: Maps) -> Maps:
    """Sums (n,) of maps (n, ny, nx)."""
    return np.asarray(p.sum(axis=1).sum(axis=1, dtype=np.float64).astype(np.float32))


def inner(p: Maps, q: Maps) -> Maps:
    """<p_u, q_u> (n,) of maps (n, ny, nx); one q may serve all."""
    return sums(p * q)


def bilinear(p: Maps, fy: Maps, fx: Maps) -> Maps:
    """sum_r fy_ur p_u fx_ur (n,) of factors (n, R, ny) and (n, R, nx); one map may serve all."""
    out = np.zeros(len(fy), np.float32)
    for r in range(fy.shape[1]):
        column = (fy[:, r, :, None] * p).sum(axis=1)
        out += (column * fx[:, r]).sum(axis=1, dtype=np.float64)
    return out


def folded(p: Maps) -> Maps:
    """(n, 2, h, nx) of maps (n, ny, nx): sums and differences of rows from both ends; of the middle one it and 0."""
    n, ny, nx = p.shape
    half, out = ny // 2, np.zeros((n, 2, (ny + 1) // 2, nx), np.float32)
    out[:, 0] = p[:, : (ny + 1) // 2]
    far = p[:, ::-1][:, :half]
    out[:, 1, :half] = out[:, 0, :half] - far
    out[:, 0, :half] += far
    return out


def unfolded(q: Maps, p: Maps, stay: Maps, jump: Maps, target: Maps) -> Maps:
    """max(m_u + stay_u p_u + jump_u target_u, 0), with m of which q (n, 2, h, nx) are even and odd parts, for maps
    (n, ny, nx); one target may serve all.
    """
    far = (q[:, 0] - q[:, 1])[:, : p.shape[1] // 2]
    maps = np.concatenate([q[:, 0] + q[:, 1], far[:, ::-1]], axis=1)
    maps += stay[:, None, None] * p
    maps += jump[:, None, None] * target
    return np.asarray(np.maximum(maps, 0, out=maps))

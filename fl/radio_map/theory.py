"""The analysis of descent in a round, and how gradients of heights fall off with distance."""

from __future__ import annotations

import numpy as np

from fl.types import Metrics
from netsim.units import FloatArray

CLIP = 1.0  # C of the printed residual


def dissimilarity2(rows: FloatArray, weight: FloatArray) -> float:
    """B^2 of device gradients (n, d) with weights (n,) that sum to 1; infinite where the mean vanishes."""
    mean = weight @ rows
    energy = float(mean @ mean)
    return float(weight @ np.einsum("nd,nd->n", rows, rows)) / energy if energy > 0 else float("inf")


def smoothness(before: FloatArray, after: FloatArray, step: FloatArray) -> float:
    """L along a step (d,) between two mean gradients (d,)."""
    length = float(np.linalg.norm(step))
    return float(np.linalg.norm(after - before)) / length if length > 0 else float("nan")


def concentration(weight: FloatArray) -> float:
    """J~ of weights (n,) that sum to 1."""
    return float(weight @ weight)


def descent_rate(eta: float, smooth: float, b2: float, mu: float, j: float) -> float:
    """kappa_h."""
    return eta * (0.5 - smooth * eta / 2.0 * b2 * (1.0 + mu * j))


def largest_step(smooth: float, b2: float, mu: float, j: float) -> float:
    """eta*."""
    return 1.0 / (smooth * b2 * (1.0 + mu * j))


def largest_budget(eta: float, smooth: float, b2: float, j: float) -> float:
    """mu_max; negative where not even a step without noise is sure to descend."""
    return (1.0 / (b2 * smooth * eta) - 1.0) / j


def residual(eta: float, smooth: float, b2: float, kappa: float, clip: float = CLIP) -> float:
    """Corollary 1; NaN unless kappa is positive."""
    return float(np.sqrt(eta * b2**2 * smooth**4 / (8.0 * clip**2 * kappa))) if kappa > 0 else float("nan")


RINGS_M = (0.0, 6.0, 12.0, 24.0, 48.0, 96.0)
"""where rings begin; the last has no end"""
_SECTORS = 8


def rings(square: FloatArray, centre_m: FloatArray, place_m: FloatArray) -> FloatArray:
    """Mean of square (n, M) over the cells of each ring and direction around place_m (n, 2): (n, ring, 8).

    NaN where no cell lies.
    """
    n, k = len(square), len(RINGS_M)
    away = centre_m[None] - place_m[:, None]
    ring = np.searchsorted(RINGS_M, np.hypot(away[..., 0], away[..., 1]), "right") - 1
    turn = (np.arctan2(away[..., 1], away[..., 0]) + np.pi) / (2 * np.pi)
    sector = np.minimum((turn * _SECTORS).astype(np.int64), _SECTORS - 1)
    place = ((np.arange(n)[:, None] * k + ring) * _SECTORS + sector).ravel()
    size = n * k * _SECTORS
    total = np.bincount(place, weights=square.ravel(), minlength=size)
    count = np.bincount(place, minlength=size)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (total / count).reshape(n, k, _SECTORS)


def monotone_percent(mean: FloatArray) -> float:
    """Share of all directions (of rings' means (n, ring, 8)) in which no ring has more than the one inside of it."""
    ahead, before = mean[:, 1:], mean[:, :-1]
    known = np.isfinite(ahead) & np.isfinite(before)
    rises = known & (ahead > before)
    some = np.asarray(known.any(axis=1))
    return float(100.0 * np.mean(~np.asarray(rises.any(axis=1))[some])) if some.any() else float("nan")


def figures(rows: FloatArray, centre_m: FloatArray, place_m: FloatArray) -> Metrics:
    """monotone_percent of single devices' directions, and the mean square in each ring over that of the first, dB.

    Every device counts alike: its squares are divided by the largest of them.
    """
    largest = np.abs(rows).max(axis=1, initial=0.0)[:, None]
    square = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0) ** 2
    live = largest[:, 0] > 0
    mean = rings(square[live], centre_m, place_m[live])
    said = {"monotone_percent": monotone_percent(mean)}
    if not live.any():
        return said
    known = np.isfinite(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        profile = np.where(known, mean, 0.0).sum(axis=(0, 2)) / known.sum(axis=(0, 2))
        fall_db = 10 * np.log10(profile / profile[0])
    return said | {f"fall_{start:g}_m_db": float(v) for start, v in zip(RINGS_M[1:], fall_db[1:], strict=True)}

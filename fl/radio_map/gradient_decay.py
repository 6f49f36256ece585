r"""Theorem 1 as an experiment: whether squared gradients of heights fall off with the distance from their device.

The cells around a device are parted into rings and eight directions. The theorem says that E[G_m^2] falls along every
direction; its proof compares sets of links only, so it is looked at rather than assumed.

Reference: Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map Construction, Theorem 1.
"""

from __future__ import annotations

import numpy as np

from fl.types import Metrics
from netsim.units import FloatArray

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

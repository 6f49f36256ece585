r"""The paper's analysis of descent in a round, and Theorem 1 as an experiment.

Reference: Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map Construction, Eqs. 25 to 33 and
Theorem 1.
"""

from __future__ import annotations

import numpy as np

from fl.types import Metrics
from netsim.units import FloatArray

RINGS_M = (0.0, 6.0, 12.0, 24.0, 48.0, 96.0)
"""where rings begin; the last has no end"""
_SECTORS = 8


def descent(rows: FloatArray, weight: FloatArray, step: FloatArray, change: FloatArray, eta: float) -> Metrics:
    r"""Lemma 1 and Corollary 1 for steps without noise, with L and B estimated.

    Device gradients g_i = rows (n, d) with weights w_i = weight (n,) that sum to 1, their mean g, J~ = sum_i w_i^2; the
    step (d,) that was taken with learning rate eta, and the change (d,) of the mean gradient along it::

        dissimilarity_b   B, B^2 = sum_i w_i |g_i|^2 / |g|^2; infinite where the mean vanishes
        smoothness_l      L = |change| / |step|
        kappa_h           eta (1/2 - L eta B^2 / 2): a step lowers F by kappa_h |g|^2 at least
        largest_step      1 / (L B^2)
        largest_mu        (1 / (B^2 L eta) - 1) / J~: the largest budget of noise over gradient for a step that descends
        residual          sqrt(eta B^4 L^4 / (8 kappa_h)): where Corollary 1 leaves the gradient; NaN unless it descends

    The estimates are local: L is no bound on all of space. Corollary 1 bounds a gradient norm by a smoothness constant
    (its Eq. 67 takes B^2 L^2 for |g_i|^2), so the residual is a figure, not a guarantee; and a bound on the average of
    a series is printed there as one on its limit.
    """
    mean = weight @ rows
    length = float(np.linalg.norm(step))
    energy = float(mean @ mean)
    b2 = float(weight @ np.square(rows).sum(axis=1)) / energy if energy > 0 else float("inf")
    smooth = float(np.linalg.norm(change)) / length if length > 0 else float("nan")
    kappa = eta * (0.5 - smooth * eta / 2.0 * b2)
    return {
        "dissimilarity_b": b2**0.5,
        "smoothness_l": smooth,
        "kappa_h": kappa,
        "largest_step": 1.0 / (smooth * b2),
        "largest_mu": (1.0 / (b2 * smooth * eta) - 1.0) / float(weight @ weight),
        "residual": (eta * b2**2 * smooth**4 / (8.0 * kappa)) ** 0.5 if kappa > 0 else float("nan"),
    }


def decay(rows: FloatArray, centre_m: FloatArray, place_m: FloatArray) -> Metrics:
    """Whether squared gradients of heights, rows (n, M) of cells centre_m (M, 2), fall off around devices at place_m.

    Theorem 1 says that E[G_m^2] falls along every direction; its proof compares sets of links only. The cells around a
    device are parted into rings and eight directions: monotone_percent of the directions have no ring with a larger
    mean than the one inside of it; fall_..._m_db is the mean square of a ring over that of the first. Every device
    counts alike: its squares are divided by the largest of them.
    """
    largest = np.abs(rows).max(axis=1, initial=0.0)
    live = largest > 0
    if not live.any():
        return {"monotone_percent": float("nan")}
    mean = _rings((rows[live] / largest[live, None]) ** 2, centre_m, place_m[live])
    known = np.isfinite(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        rises = np.asarray((mean[:, 1:] > mean[:, :-1]).any(axis=1))
        some = (known[:, 1:] & known[:, :-1]).any(axis=1)
        profile = np.where(known, mean, 0.0).sum(axis=(0, 2)) / known.sum(axis=(0, 2))
        fall_db = 10 * np.log10(profile / profile[0])
    monotone = float(100.0 * np.mean(~rises[some])) if some.any() else float("nan")
    falls = {f"fall_{start:g}_m_db": float(v) for start, v in zip(RINGS_M[1:], fall_db[1:], strict=True)}
    return {"monotone_percent": monotone} | falls


def _rings(square: FloatArray, centre_m: FloatArray, place_m: FloatArray) -> FloatArray:
    """Mean of square (n, M) over the cells of each ring and direction (n, ring, 8); NaN where no cell lies."""
    shape = (len(square), len(RINGS_M), _SECTORS)
    away = centre_m[None] - place_m[:, None]
    ring = np.searchsorted(RINGS_M, np.hypot(away[..., 0], away[..., 1]), "right") - 1
    turn = (np.arctan2(away[..., 1], away[..., 0]) + np.pi) / (2 * np.pi)
    sector = np.minimum((turn * _SECTORS).astype(np.int64), _SECTORS - 1)
    place = np.ravel_multi_index((np.arange(len(square))[:, None], ring, sector), shape).ravel()
    size = int(np.prod(shape))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(place, weights=square.ravel(), minlength=size) / np.bincount(place, minlength=size)
    return np.asarray(mean.reshape(shape))

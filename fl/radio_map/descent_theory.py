r"""The paper's analysis of descent in a round: Lemma 1 and Corollary 1, with L and B estimated.

With weights w_i = J_i / J, device gradients g_i, their mean g = sum_i w_i g_i, and J~ = sum_i w_i^2::

    B^2       = sum_i w_i |g_i|^2 / |g|^2                             dissimilarity of the devices
    L         = |grad F(h + d) - grad F(h)| / |d|                     smoothness along the step d that was taken
    kappa_h   = eta (1/2 - (L eta / 2) B^2 (1 + mu J~))               descent: a step lowers F by kappa_h |g|^2 at least
    eta*      = 1 / (L B^2 (1 + mu J~))                               the largest step for a budget
    mu_max    = (1 / (B^2 L eta) - 1) / J~                            the largest budget for a step
    residual  = sqrt(eta B^4 L^4 / (8 C^2 kappa))                     where Corollary 1 leaves the gradient

The estimates are local: L is no bound on all of space. Corollary 1 bounds a gradient norm by a smoothness constant (its
Eq. 67 takes B^2 L^2 for |g_i|^2), so the residual is a figure, not a guarantee; and a bound on the average of a series
is printed there as one on its limit.

Reference: Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map Construction, Eqs. 25 to 33.
"""

from __future__ import annotations

import numpy as np

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

r"""Ordinary kriging: the best linear map of correlated measurements with an unknown constant mean.

y_i = beta + f(x_i) + e_i,   cov f = s^2 exp(-|x - x'| / L),   var e = lambda s^2.

With K = exp(-D / L) + lambda I, beta = 1' K^-1 y / 1' K^-1 1 and s^2 = (y - beta)' K^-1 (y - beta) / N, the map is
beta + k(x)' K^-1 (y - beta). L and lambda are those of a grid with the largest profile likelihood
-(N / 2) log s^2 - (1 / 2) log |K|, found on a part of the samples.

References: [Cressie 1993, Section 3.2] (ordinary kriging), [Gudmundson 1991] (exponential covariance).
"""

from __future__ import annotations

import numpy as np

from fl.references.references import thinned
from netsim.columns import frozen
from netsim.units import FloatArray

LENGTHS_M = (25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0)
NOISES = (0.03, 0.1, 0.3, 1.0)
_FIT = 200  # samples that choose L and lambda
_PLACES = 4096  # that are predicted at once


@frozen
class _Solved:
    """beta, K^-1 (y - beta) (N,), and the profile likelihood."""

    mean: float
    weights: FloatArray
    likelihood: float


def kriging_map(x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
    """The map of samples x (N, 2) in metres, y (N,), at places (k, 2)."""
    if len(x) < 3 or np.ptp(y) == 0:  # nothing that could vary with the place
        return np.full(len(at), y.mean())
    length_m, noise = fitted_covariance(x, y)
    solved = _solve(_distance(x, x), y, length_m, noise)
    out = np.empty(len(at))
    for first in range(0, len(at), _PLACES):
        block = slice(first, first + _PLACES)
        out[block] = solved.mean + np.exp(_distance(at[block], x) / -length_m) @ solved.weights
    return out


def fitted_covariance(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """L in metres and lambda of the largest profile likelihood."""
    keep = thinned(len(x), _FIT)
    distance, y = _distance(x[keep], x[keep]), y[keep]
    tried = [
        (_solve(distance, y, length_m, noise).likelihood, length_m, noise) for length_m in LENGTHS_M for noise in NOISES
    ]
    return max(tried)[1:]


def _solve(distance: FloatArray, y: FloatArray, length_m: float, noise: float) -> _Solved:
    from scipy.linalg import cho_factor, cho_solve

    k = np.exp(distance / -length_m)
    k[np.diag_indices(len(k))] += noise
    factor = cho_factor(k, lower=True, overwrite_a=True, check_finite=False)
    both = cho_solve(factor, np.stack([y, np.ones(len(y))], axis=1), check_finite=False)
    mean = float(both[:, 0].sum() / both[:, 1].sum())
    weights = both[:, 0] - mean * both[:, 1]
    variance = max(float((y - mean) @ weights) / len(y), 1e-300)
    likelihood = -0.5 * len(y) * np.log(variance) - np.log(np.diag(factor[0])).sum()
    return _Solved(mean, weights, float(likelihood))


def _distance(one: FloatArray, other: FloatArray) -> FloatArray:
    """Distances (n, m) of places (n, 2) to places (m, 2)."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(one, other))

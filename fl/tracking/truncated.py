"""Gaussians of the plane that end inside a rectangle."""

from __future__ import annotations

import numpy as np

from netsim.normal import ndtr, ndtri
from netsim.units import FloatArray

_WHOLE = 7.0  # standard deviations: what lies beyond is less than 2e-12
_LEAST = 1e-300  # whose standard score is still a number


def inside_mass(mean_m: FloatArray, sigma_m: FloatArray, low_m: FloatArray, high_m: FloatArray) -> FloatArray:
    """Mass (...) of Gaussians around mean_m (..., 2) between low_m and high_m; sigma_m broadcasts with mean_m."""
    mean_m, sigma_m = np.broadcast_arrays(mean_m, sigma_m)
    low_m, high_m = np.broadcast_to(low_m, mean_m.shape), np.broadcast_to(high_m, mean_m.shape)
    mass, cut = np.ones(mean_m.shape), np.minimum(mean_m - low_m, high_m - mean_m) < _WHOLE * sigma_m
    low, high, _ = _tails(mean_m[cut], sigma_m[cut], low_m[cut], high_m[cut])
    mass[cut] = high - low
    return mass[..., 0] * mass[..., 1]


def truncated_normal(
    mean_m: FloatArray, sigma_m: FloatArray, low_m: FloatArray, high_m: FloatArray, u: FloatArray
) -> FloatArray:
    """Places (..., 2) of such Gaussians by inversion of u (..., 2); sigma_m broadcasts with mean_m.

    Of a Gaussian so far away that nothing is left inside, the nearest place.
    """
    low, high, sign = _tails(mean_m, sigma_m, low_m, high_m)
    below = np.maximum(low + u * (high - low), _LEAST)
    return np.clip(mean_m + sign * sigma_m * ndtri(below), low_m, high_m)


def _tails(
    mean_m: FloatArray, sigma_m: FloatArray, low_m: FloatArray, high_m: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Distribution function at both ends, mirrored (sign -1) where the ends lie to the right of the mean."""
    sign = np.where(low_m > mean_m, -1.0, 1.0)
    one, other = sign * (low_m - mean_m) / sigma_m, sign * (high_m - mean_m) / sigma_m
    return ndtr(np.minimum(one, other)), ndtr(np.maximum(one, other)), sign

r"""Ambiguity of d after one wave cos(omega . (g - d)), and the questions that a device can answer without harm.

omega = xi / h with xi a standard normal vector: in the plane |xi|^2 is chi-square with 2 degrees of freedom, on a line
with 1. All of these laws read public numbers only.
[Zong et al., Privacy by Projection, PoPETs 2023, Lemmas 3 and 4]
"""

from __future__ import annotations

from math import erfc, exp, log, pi, sqrt
from statistics import NormalDist

import numpy as np

from netsim.units import BoolArray, FloatArray


def band_probability(bandwidth_m: float, side_m: float, bands: int, dimensions: int = 2) -> float:
    r"""Probability that `bands` wavelengths fit into a square of that side: P(j 2 pi / |omega| < l).

    With gamma = (2 pi j h / l)^2 it is exactly 1 - C(gamma): exp(-gamma / 2) in the plane, erfc(sqrt(gamma / 2)) on a
    line. [Lemma 3]
    """
    gamma = (2 * pi * bands * bandwidth_m / side_m) ** 2
    return exp(-gamma / 2) if dimensions == 2 else erfc(sqrt(gamma / 2))


def largest_bandwidth_m(side_m: float, bands: int, gamma: float) -> float:
    r"""The bandwidth sqrt(gamma) l / (2 pi j) up to which `bands` fit with probability 1 - C(gamma). [Lemma 3]"""
    return sqrt(gamma) * side_m / (2 * pi * bands)


def in_family(bandwidth_m: FloatArray, base_m: float, multiples: str | tuple[int, ...]) -> BoolArray:
    """Which bandwidths are an allowed whole multiple of the base: 1, 5, 9, ... for `4n+1`. [Lemma 4]

    Any whole multiple k keeps every k-th band in place, for the device's own band is where the wave begins; the
    family 4n + 1 of the paper is one choice.
    """
    ratio = bandwidth_m / base_m
    whole = np.rint(ratio).astype(np.int64)
    exact = np.abs(ratio - whole) <= 1e-9 * np.maximum(ratio, 1.0)
    allowed = (whole >= 1) & (whole % 4 == 1) if isinstance(multiples, str) else np.isin(whole, multiples)
    return exact & allowed


def shortest_interval_s(bandwidth_m: float, speed_m_s: float, share: float, dimensions: int = 2) -> float:
    r"""Time in which a UE at that speed passes the wavelength of a `share` of all waves.

    P(2 pi h / |xi| < s) = share, solved for s, over the speed: |xi| exceeds r with probability exp(-r^2 / 2) in the
    plane and erfc(r / sqrt(2)) on a line. Snapshots that are farther apart leave that share of displacements known
    modulo a wavelength only.
    """
    exceeded = sqrt(2 * log(1 / share)) if dimensions == 2 else -NormalDist().inv_cdf(share / 2)
    return 2 * pi * bandwidth_m / exceeded / speed_m_s

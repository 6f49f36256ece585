r"""A log-distance law, fitted to measurements.

y(x) = a - 10 n log10 d(x),   d^2 = |x - c|^2 + h^2

with intercept a (dBm) and exponent n by least squares. Antenna c and height h are given; or c is the place of a grid
with the least squared error, and h = 10 m.

Reference: [Rappaport 2002, Section 4.9] (log-distance path loss).
"""

from __future__ import annotations

import numpy as np

from fl.references.references import thinned
from netsim.geometry import Area
from netsim.units import FloatArray

HEIGHT_M = 10.0
_PLACES = 21  # of the grid along each side,
_ROUNDS = 3  # which is laid anew, finer, around the best of its places
_SAMPLES = 300  # that choose the place


def path_loss_map(
    x: FloatArray, y: FloatArray, at: FloatArray, area: Area, antenna_m: FloatArray | None = None
) -> FloatArray:
    """The law fitted to samples x (N, 2) in metres, y (N,) in dBm, at places (k, 2).

    antenna_m (3,): place of the antenna, and its height above the UEs; None: sought in the area and half its size
    around it.
    """
    antenna = sought_antenna(x, y, area) if antenna_m is None else np.asarray(antenna_m, dtype=np.float64)
    intercept, slope, _ = _fitted(_log_distance(x, antenna[None]), y)
    return np.asarray(intercept[0] + slope[0] * _log_distance(at, antenna[None])[0])


def sought_antenna(x: FloatArray, y: FloatArray, area: Area) -> FloatArray:
    """The place (3,) with the least squared error, and the height 10 m."""
    keep = thinned(len(x), _SAMPLES)
    x, y = x[keep], y[keep]
    middle, half = area.centre_m, area.side_m  # twice the area's sides in all
    for _ in range(_ROUNDS):
        unit = np.linspace(-1.0, 1.0, _PLACES)
        east, north = np.meshgrid(middle[0] + half[0] * unit, middle[1] + half[1] * unit, indexing="ij")
        places = np.stack([east.ravel(), north.ravel(), np.full(east.size, HEIGHT_M)], axis=1)
        best = places[np.argmin(_fitted(_log_distance(x, places), y)[2])]
        middle, half = best[:2], half / (_PLACES - 1) * 2
    return np.asarray(best)


def _log_distance(x: FloatArray, antenna: FloatArray) -> FloatArray:
    """log10 of the distance in metres, at least 1 m, of places x (N, 2) to antennas (g, 3): (g, N)."""
    square = ((x[None] - antenna[:, None, :2]) ** 2).sum(axis=-1) + antenna[:, 2:] ** 2
    return np.asarray(0.5 * np.log10(np.maximum(square, 1.0)))


def _fitted(log_d: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Intercept, slope and mean squared error (g,) of the regression of y (N,) on each row of log_d (g, N)."""
    off, dev = log_d - log_d.mean(axis=1, keepdims=True), y - y.mean()
    power = (off**2).mean(axis=1)
    slope = (off * dev).mean(axis=1) / np.maximum(power, 1e-12)  # all at one distance: a constant
    intercept = y.mean() - slope * log_d.mean(axis=1)
    return intercept, slope, ((dev - slope[:, None] * off) ** 2).mean(axis=1)

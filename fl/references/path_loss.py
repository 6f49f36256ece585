r"""A log-distance law, fitted to measurements.

y(x) = a - 10 n log10 d(x) + b [x is inside a building],   d^2 = |x - c|^2 + h^2

with intercept a (dBm), exponent n and offset b (dB) by least squares: three numbers. Antenna c and height h are given,
and the nearest of several counts; or c is the place of a grid with the least squared error, and h = 10 m. Without
footprints b is 0.

Reference: [Rappaport 2002, Section 4.9] (log-distance path loss).
"""

from __future__ import annotations

import numpy as np

from fl.references.references import thinned
from netsim.city.buildings import Buildings
from netsim.geometry import Area
from netsim.units import FloatArray

HEIGHT_M = 10.0
_PLACES = 21  # of the grid along each side,
_ROUNDS = 3  # laid again, finer, around the best of its places
_SAMPLES = 300  # that choose the place


def path_loss_map(
    x: FloatArray, y: FloatArray, at: FloatArray, area: Area, antennas_m: FloatArray | None = None,
    buildings: Buildings | None = None,
) -> FloatArray:  # fmt: skip
    """The law fitted to samples x (N, 2) in metres, y (N,) in dBm, at places (k, 2).

    antennas_m (g, 3): places of the antennas, and their heights above the UEs; None: one, sought in the area and half
    its size around it.
    """
    antennas = sought_antenna(x, y, area)[None] if antennas_m is None else antennas_m

    def terms(place_m: FloatArray) -> FloatArray:
        log_d = _log_distance(place_m, antennas).min(axis=0)
        return np.column_stack([log_d] if buildings is None else [log_d, buildings.inside(place_m)])

    own = terms(x)
    middle = own.mean(axis=0)  # a term that is the same for all samples has no slope
    slope = np.linalg.lstsq(own - middle, y - y.mean(), rcond=None)[0]
    return np.asarray(y.mean() + (terms(at) - middle) @ slope)


def sought_antenna(x: FloatArray, y: FloatArray, area: Area) -> FloatArray:
    """The place (3,) with the least squared error, and the height 10 m."""
    keep = thinned(len(x), _SAMPLES)
    x, y = x[keep], y[keep]
    middle, half = area.centre_m, area.side_m  # twice the area's sides in all
    for _ in range(_ROUNDS):
        unit = np.linspace(-1.0, 1.0, _PLACES)
        east, north = np.meshgrid(middle[0] + half[0] * unit, middle[1] + half[1] * unit, indexing="ij")
        places = np.stack([east.ravel(), north.ravel(), np.full(east.size, HEIGHT_M)], axis=1)
        best = places[np.argmin(_squared_error(_log_distance(x, places), y))]
        middle, half = best[:2], half / (_PLACES - 1) * 2
    return np.asarray(best)


def _log_distance(x: FloatArray, antenna: FloatArray) -> FloatArray:
    """log10 of the distance in metres, at least 1 m, of places x (N, 2) to antennas (g, 3): (g, N)."""
    square = ((x[None] - antenna[:, None, :2]) ** 2).sum(axis=-1) + antenna[:, 2:] ** 2
    return np.asarray(0.5 * np.log10(np.maximum(square, 1.0)))


def _squared_error(log_d: FloatArray, y: FloatArray) -> FloatArray:
    """Mean squared error (g,) of the regression of y (N,) on each row of log_d (g, N)."""
    off, dev = log_d - log_d.mean(axis=1, keepdims=True), y - y.mean()
    power = (off**2).mean(axis=1)
    slope = (off * dev).mean(axis=1) / np.maximum(power, 1e-12)  # all at one distance: a constant
    return np.asarray(((dev - slope[:, None] * off) ** 2).mean(axis=1))

r"""Exploration and preferential return (EPR): the next place of a person, and the length of the stay.

With S places visited so far, a person explores a new place with probability rho S^-gamma, else returns to a known one
[Song, Koren, Wang, Barabasi 2010]. A new place j is drawn by gravity [Pappalardo et al. 2015]::

    P(j) ~ weight_j / (r_j + 100 m)^2,   r_j the distance to place j

and a known place in proportion to past visits. Stays last P(t) ~ t^-(1 + beta) exp(-t / tau), t >= 1 h.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from netsim.mobility.venues import Venues
from netsim.units import BoolArray, FloatArray, IntArray

NOWHERE = -1
_NEAR_M = 100.0  # added to distances, so that gravity stays finite
_MIN_STAY_H, _MAX_TAUS = 1.0, 40.0  # of a stay; the tail beyond 40 tau has probability below 1e-17
_GRID = 8192  # points of the tabulated distribution of stays
_BLOCK = 2**16  # weights that are computed at once: what they take stays in the cache


def explores(unit: FloatArray, n_visited: IntArray, rho: float, gamma: float) -> BoolArray:
    """Whether people explore (n,): probability rho S^-gamma, S = n_visited (n,), by uniform numbers `unit` (n,)."""
    return unit < rho * np.maximum(n_visited, 1) ** -gamma


def stay_s(unit: FloatArray, beta: float, tau_h: float) -> FloatArray:
    """Durations of stays (n,), s, by inversion of uniform numbers (n,); at least 1 h."""
    share, hours = _stays(beta, tau_h)
    return 3600.0 * np.interp(unit, share, hours)


@lru_cache(maxsize=8)
def _stays(beta: float, tau_h: float) -> tuple[FloatArray, FloatArray]:
    """Distribution function of stays at durations in h, both (_GRID,)."""
    hours = np.geomspace(_MIN_STAY_H, _MIN_STAY_H + _MAX_TAUS * tau_h, _GRID)
    # density of log t, which is smooth on a logarithmic grid; the factor exp(1 / tau) keeps it from underflow
    density = hours**-beta * np.exp((_MIN_STAY_H - hours) / tau_h)
    area = np.append(0.0, np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(np.log(hours))))
    return area / area[-1], hours


def new_place(unit: FloatArray, hour: FloatArray, from_m: FloatArray, venues: Venues, visited: IntArray) -> IntArray:
    """A place (m,) that each of m people at from_m (m, 2) has not visited, by gravity; NOWHERE if none is open.

    hour (m,) of the day; visited (m, v): places by index, NOWHERE for no place.
    """
    weight, at_m, place = venues.weight, venues.premises.door_m, np.arange(len(venues.weight))
    chosen, block = np.full(len(unit), NOWHERE), max(1, _BLOCK // max(1, len(place)))
    for at in range(0, len(unit), block):
        some = slice(at, at + block)
        east_m, north_m = (from_m[some, None, axis] - at_m[:, axis] for axis in (0, 1))
        away_m = np.sqrt(east_m * east_m + north_m * north_m) + _NEAR_M
        pull = np.where(venues.is_open(place, hour[some, None]), weight / (away_m * away_m), 0.0)
        row, column = np.nonzero(visited[some] >= 0)
        pull[row, visited[some][row, column]] = 0.0
        chosen[some] = drawn(unit[some], pull)
    return chosen


def known_place(unit: FloatArray, visited: IntArray, count: IntArray, allowed: BoolArray) -> IntArray:
    """A visited place (m,) in proportion to its count; NOWHERE if none is allowed.

    visited, count, allowed (m, v) : places by index, numbers of visits, and which of them may be chosen.
    """
    which = drawn(unit, np.where(allowed & (visited >= 0), count, 0).astype(np.float64))
    place = visited[np.arange(len(unit)), which]
    return np.where(which == NOWHERE, NOWHERE, place)


def drawn(unit: FloatArray, weight: FloatArray) -> IntArray:
    """A column (m,) with probability in proportion to weight (m, k) >= 0; NOWHERE for a row of zeros."""
    if not weight.shape[1]:
        return np.full(len(unit), NOWHERE)
    upto = np.cumsum(weight, axis=1)
    total = upto[:, -1]
    # strictly above: a place of weight zero adds nothing to the sum, so it is never the first above
    chosen = np.argmax(upto > (unit * total)[:, None], axis=1)
    return np.where(total > 0, chosen, NOWHERE)

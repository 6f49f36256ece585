"""Home and work of one user, from where the user was at night and in office hours: truth for scoring only."""

from __future__ import annotations

import numpy as np

from netsim.clock import DAY_S, Clock
from netsim.units import BoolArray, FloatArray

SQUARE_M = 100.0
NIGHT_H = (0.0, 6.0)
OFFICE_H = (10.0, 16.0)


def home_and_work(position_m: FloatArray, time_s: FloatArray, clock: Clock) -> tuple[FloatArray, FloatArray]:
    """Claim: people sleep at home and work on weekdays.

    home_m (2,) is the mean of the rows in the 100 m square that holds most of the rows of 00-06 h; work_m
    (2,) likewise of the rows of 10-16 h from Monday to Friday that are more than 100 m from home. Without any
    row at those hours, all rows stand in for them. NaN if no row is left.

    position_m (n, 2), time_s (n,) since the first local midnight; hours are those of the wall clock. Rows with a NaN
    position are passed over.

    Approximate: squares lie on a fixed grid, so a place astride an edge counts half on either side, which is
    also why work keeps a distance from home and not merely to another square.
    """
    known = np.isfinite(position_m).all(axis=1)
    position_m, time_s = position_m[known], time_s[known]
    wall_s = clock.wall_s(time_s)
    day = wall_s // DAY_S
    hour = (wall_s - day * DAY_S) / 3600.0
    weekday = (clock.weekday(0) + day) % 7 < 5
    home_m = _densest(position_m[_those(_between(hour, NIGHT_H))])
    candidate = _those(_between(hour, OFFICE_H) & weekday)
    away = np.hypot(*(position_m - home_m).T) > SQUARE_M
    return home_m, _densest(position_m[candidate & away])


def _between(hour: FloatArray, bounds: tuple[float, float]) -> BoolArray:
    return np.asarray((hour >= bounds[0]) & (hour < bounds[1]))


def _those(rows: BoolArray) -> BoolArray:
    """The rows, or all if there are none."""
    return rows if rows.any() else np.ones_like(rows)


def _densest(position_m: FloatArray) -> FloatArray:
    """Mean (2,) of the points in the square that holds most of them; of equals, the most south-western."""
    if not len(position_m):
        return np.full(2, np.nan)
    square = np.floor(position_m / SQUARE_M)
    # a complex number is sorted as its two coordinates are, in a tenth of the time
    _, which, n_rows = np.unique(square[:, 0] + 1j * square[:, 1], return_inverse=True, return_counts=True)
    return np.asarray(position_m[which == n_rows.argmax()].mean(axis=0))

"""A day of stays at places with walks between them, and the fixes taken during it.

Pure functions over all UEs of a day; the schedule itself comes from a mobility part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.rng import Rng
from netsim.ues import Fixes
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Day:
    """The day of n UEs as a polyline in space and time; skipped stays have length zero.

    With S stays, knot 3k is the arrival at stay k, 3k + 1 the departure, and 3k + 2 the corner of the walk to
    stay k + 1: knot_s (n, 3 S - 1) in seconds of the day, ascending; knot_m (n, 3 S - 1, 2).
    """

    knot_s: FloatArray
    knot_m: FloatArray

    @property
    def arrive_s(self) -> FloatArray:
        """Time of arrival at each stay (n, S)."""
        return self.knot_s[:, 0::3]

    @property
    def leave_s(self) -> FloatArray:
        """Time of departure from each stay (n, S)."""
        return self.knot_s[:, 1::3]

    @property
    def place_m(self) -> FloatArray:
        """Position of each stay (n, S, 2)."""
        return self.knot_m[:, 0::3]

    def at(self, row: IntArray, time_s: FloatArray) -> FloatArray:
        """Positions (m, 2) of UEs `row` (m,) at times (m,); before the day the first place, after it the last."""
        knot_s, knot_m = self.knot_s[row], self.knot_m[row]  # (m, knots), (m, knots, 2)
        after = (knot_s <= time_s[:, None]).sum(axis=1)
        i, j = np.maximum(after - 1, 0), np.minimum(after, knot_s.shape[1] - 1)
        each = np.arange(len(row))
        span_s = knot_s[each, j] - knot_s[each, i]  # 0 before the first knot and after the last
        done = (time_s - knot_s[each, i]) / np.where(span_s > 0, span_s, np.inf)
        return np.asarray((1 - done)[:, None] * knot_m[each, i] + done[:, None] * knot_m[each, j])


def walked(
    place_m: FloatArray,
    corner_m: FloatArray,
    speed_m_s: FloatArray,
    from_s: FloatArray,
    until_s: FloatArray,
    stay_s: FloatArray,
) -> Day:
    """The day that follows from a schedule: departure from stay k at max(until, arrive) + stay, then the walk.

    place_m, until_s, stay_s : per stay, (n, S, 2) and (n, S); corner_m, speed_m_s : per walk, (n, S - 1, 2)
    and (n, S - 1); from_s (n,) is when the first stay begins.
    """
    n, stays = until_s.shape
    first_s = np.linalg.norm(corner_m - place_m[:, :-1], axis=2) / speed_m_s
    second_s = np.linalg.norm(place_m[:, 1:] - corner_m, axis=2) / speed_m_s
    knot_s, knot_m = np.empty((n, 3 * stays - 1)), np.empty((n, 3 * stays - 1, 2))
    knot_m[:, 0::3] = knot_m[:, 1::3] = place_m
    knot_m[:, 2::3] = corner_m
    arrive_s = from_s
    for k in range(stays):
        leave_s = np.maximum(until_s[:, k], arrive_s) + stay_s[:, k]
        knot_s[:, 3 * k], knot_s[:, 3 * k + 1] = arrive_s, leave_s
        if k < stays - 1:
            knot_s[:, 3 * k + 2] = leave_s + first_s[:, k]
            arrive_s = knot_s[:, 3 * k + 2] + second_s[:, k]
    return Day(knot_s, knot_m)


def dwell_fixes(day: Day, rate_per_s: FloatArray, spread_m: FloatArray, ue: IntArray, rng: Rng) -> Fixes:
    """Fixes at places: a Poisson process of rate (n, S), Gaussian spread of standard deviation (n, S).

    Arrivals of a process of rate 1 are mapped through the inverse of the integrated rate of the day, which gives the
    process of varying rate [Cinlar 1975, Ch. 4]. The random numbers of a UE do not depend on other UEs.
    """
    mean = rate_per_s * (day.leave_s - day.arrive_s)
    upto = np.cumsum(mean, axis=1)  # (n, S)
    most = float(upto.max(initial=0.0))
    count = int(most + 8 * np.sqrt(most) + 20)  # a Poisson count above this has probability below 1e-12
    arrival = np.cumsum(rng.exponential("dwell", ue, (count,)), axis=1)  # (n, count)
    stay = (arrival[:, :, None] >= upto[:, None, :]).sum(axis=2)
    row, column = np.nonzero(stay < upto.shape[1])
    k = stay[row, column]
    since_s = (arrival[row, column] - (upto - mean)[row, k]) / rate_per_s[row, k]
    scatter = rng.normal("spread", ue, (count, 2))[row, column]
    position_m = day.place_m[row, k] + spread_m[row, k][:, None] * scatter
    return Fixes(ue[row], day.arrive_s[row, k] + since_s, position_m)


def walk_fixes(day: Day, interval_s: float, noise_m: float, ue: IntArray, rng: Rng) -> Fixes:
    """Fixes on walks: one at the start of each walk and every `interval_s` after it, with Gaussian noise."""
    leave_s = day.leave_s[:, :-1]
    count = np.ceil((day.arrive_s[:, 1:] - leave_s) / interval_s).astype(np.int64)  # (n, S - 1)
    row, walk = np.divmod(np.repeat(np.arange(count.size), count.ravel()), count.shape[1])
    per_ue = count.sum(axis=1)
    time_s = leave_s[row, walk] + interval_s * _rank(count.ravel())
    scatter = rng.normal("walk", ue, (int(per_ue.max(initial=1)), 2))[row, _rank(per_ue)]
    return Fixes(ue[row], time_s, day.at(row, time_s) + noise_m * scatter)


def _rank(count: IntArray) -> IntArray:
    """Concatenation of arange(count[0]), arange(count[1]), and so on."""
    return np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)

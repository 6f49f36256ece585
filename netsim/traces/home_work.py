"""Home and workplace of one user of a trace, or else the place of most time: truth for scoring
only.

Where a user is between two fixes is known for an hour: at the place of the first. A *stay* is a run
of fixes within 200 m of its first one, without a longer pause [Li et al. 2008]. *Places* are made
of stays, of the longest first: all that lie within 200 m of it and belong to no place yet. So no
grid cuts a place in two, and places move with the plane.

    home   the place of more than half of the known time between 0 and 6 h, with two fixes then at
    least, on at least 3
           nights and on more than half of all nights with a fix
    work   the place of most of the known time between 10 and 16 h away from home, that is more than
    200 m from it, with
           two fixes then, on at least 3 and on more than half of all days from Monday to Friday
           with such a fix

At most one place fulfils either. A long night elsewhere weighs no more than any other, and of a
driver who waits in many places, or of a user without a fix at night, nothing is a home.
"""

import numpy as np

from netsim.clock import DAY_S, Clock, compute_rounding_s
from netsim.columns import frozen, no_places
from netsim.geometry import measure_lengths
from netsim.units import BoolArray, FloatArray, FloatPair, IntArray

PLACE_M = 200.0
KNOWN_S = 3600.0
FEWEST_NIGHTS = 3
NIGHT_H = (0.0, 6.0)
OFFICE_H = (10.0, 16.0)
NIGHT_SHARE = 0.5
OFFICE_SHARE = 0.0
_MIN_FIXES = 2  # of a stay: a single one counts as a visit


@frozen
class UserPlaces:
    """Places of a user: home_m, work_m and densest_m (2,), NaN for none; nights with a fix between
    0 and 6 h.

    densest_m : the place of most known time of a user without a home. by_time_m (k, 2) : all places
    of an hour or more, the longest first.
    """

    home_m: FloatArray
    work_m: FloatArray
    densest_m: FloatArray
    nights: int
    by_time_m: FloatArray


def find_user_places(position_m: FloatArray, time_s: FloatArray, clock: Clock) -> UserPlaces:
    """Home, work or the densest place of one user, each the mean of its fixes, weighted by the time
    that it is of.

    position_m (n, 2), time_s (n,) since the first local midnight, ascending; hours are those of the
    wall clock. Rows with a NaN position are passed over.
    """
    is_known = np.isfinite(position_m).all(axis=1)
    position_m = position_m[is_known]
    time_s = time_s[is_known]
    nowhere = np.full(2, np.nan)
    if not len(time_s):
        return UserPlaces(nowhere, nowhere, nowhere, 0, no_places())
    known_s = np.minimum(np.diff(time_s, append=time_s[-1]), KNOWN_S)
    place = _group_places(position_m, time_s, known_s)
    middle_m = _average_groups(position_m, known_s, place)
    spent_s = np.bincount(place, known_s)
    by_time_m = middle_m[np.argsort(-spent_s, kind="stable")[: (spent_s >= KNOWN_S).sum()]]
    wall_s = clock.wall_s(time_s)
    always = np.ones(len(place), bool)
    night, nights = _measure_s_at_usual_place(place, known_s, wall_s, NIGHT_H, NIGHT_SHARE, always)
    if not night.any():
        densest_m = _average_place(position_m, known_s, place == spent_s.argmax())
        return UserPlaces(nowhere, nowhere, densest_m, nights, by_time_m)
    home_m = _average_place(position_m, night, night > 0)
    weekday = (clock.weekday(0) + wall_s // DAY_S) % 7 < 5
    away = measure_lengths(middle_m - home_m)[place] > PLACE_M
    office, _ = _measure_s_at_usual_place(
        place, known_s, wall_s, OFFICE_H, OFFICE_SHARE, weekday & away
    )
    work_m = _average_place(position_m, office, office > 0)
    return UserPlaces(home_m, work_m, nowhere, nights, by_time_m)


def _group_places(position_m: FloatArray, time_s: FloatArray, known_s: FloatArray) -> IntArray:
    """The place (n,) of each fix."""
    from scipy.spatial import cKDTree

    stay = _number_stays(position_m, time_s)
    middle_m = _average_groups(position_m, known_s, stay)
    near = cKDTree(middle_m)
    place = np.full(len(middle_m), -1)
    count = 0
    for stay_index in np.argsort(-np.bincount(stay, known_s), kind="stable").tolist():
        if place[stay_index] < 0:
            members = np.array(near.query_ball_point(middle_m[stay_index], PLACE_M))
            place[members[place[members] < 0]] = count
            count += 1
    return place[stay]


def _number_stays(position_m: FloatArray, time_s: FloatArray) -> IntArray:
    """The stay (n,) of each fix, in order of time."""
    begins = np.zeros(len(time_s), int)
    (x0, y0) = position_m[0].tolist()
    before_s = time_s[0]
    max_s = KNOWN_S + compute_rounding_s(KNOWN_S, time_s[-1])
    for i, (x, y, t) in enumerate(zip(*position_m.T.tolist(), time_s.tolist(), strict=True)):
        if t - before_s > max_s or (x - x0) ** 2 + (y - y0) ** 2 > PLACE_M**2:
            begins[i] = 1
            x0 = x
            y0 = y
        before_s = t
    return np.cumsum(begins)


def _measure_s_at_usual_place(
    place: IntArray,
    known_s: FloatArray,
    wall_s: FloatArray,
    hours: FloatPair,
    share: float,
    is_asked: BoolArray,
) -> tuple[FloatArray, int]:
    """The time (n,) of each fix in these hours at the usual place, 0 for all without one; and the
    days with a fix then.

    share : of the time in these hours, more than which a place has on a day that counts for it.
    is_asked (n,) : which fixes are asked about.
    """
    low_s, high_s = (3600.0 * h for h in hours)
    day = np.floor(wall_s / DAY_S).astype(int)
    at_s = wall_s - day * DAY_S
    fixed = is_asked & (at_s >= low_s) & (at_s < high_s)
    days = np.unique(day[fixed])
    n_days = len(days)
    spent_s, n_fixes = np.zeros((2, n_days, place.max() + 1))
    time_of = np.zeros(len(place))
    for k in (0, 1):  # a fix counts for its day, and one before midnight for the next as well
        ends_s = np.minimum(at_s + known_s, high_s + k * DAY_S)
        begins_s = np.maximum(at_s, low_s + k * DAY_S)
        row = np.searchsorted(days, day + k)
        is_counted = is_asked & np.isin(day + k, days)
        own_s = np.where(is_counted, np.clip(ends_s - begins_s, 0, None), 0.0)
        time_of += own_s
        np.add.at(spent_s, (row[is_counted], place[is_counted]), own_s[is_counted])
    np.add.at(n_fixes, (np.searchsorted(days, day[fixed]), place[fixed]), 1)
    busiest = spent_s.argmax(axis=1)
    best = np.arange(n_days), busiest
    is_long = spent_s[best] > share * spent_s.sum(axis=1)
    times = np.bincount(busiest[is_long & (n_fixes[best] >= _MIN_FIXES)], minlength=1)
    n = times.max()
    if n < FEWEST_NIGHTS or 2 * n <= n_days:
        return np.zeros(len(place)), n_days
    return np.where(place == times.argmax(), time_of, 0.0), n_days


def _average_groups(position_m: FloatArray, weight: FloatArray, group: IntArray) -> FloatArray:
    """The mean (k, 2) of the fixes of each of k groups of (n,); of all alike where a group has no
    weight.
    """
    weight = np.where(np.bincount(group, weight)[group] > 0, weight, 1.0)
    # from the first fix on: coordinates may be large
    origin_m = position_m[0]
    offsets_m = (position_m - origin_m).T
    sums = np.stack([np.bincount(group, weight * axis) for axis in offsets_m], axis=1)
    return origin_m + sums / np.bincount(group, weight)[:, None]


def _average_place(position_m: FloatArray, weight: FloatArray, is_own: BoolArray) -> FloatArray:
    if not is_own.any():
        return np.full(2, np.nan)
    return _average_groups(position_m[is_own], weight[is_own], np.zeros(is_own.sum(), int))[0]

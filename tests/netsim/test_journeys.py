"""Where people are on their journeys, beside interpolation of each alone."""

import numpy as np
import pytest

from netsim.mobility.journey_loops import placed


def journeys(n=300, seed=0):
    """Journeys of 2 to 9 vertices that begin at any time, some with times that are equal; every third UE rests."""
    draw = np.random.default_rng(seed)
    size = np.where(np.arange(n) % 3 == 0, 0, draw.integers(2, 10, n))
    first = np.append(0, np.cumsum(size))
    time_s = [np.append(0.0, np.cumsum(draw.choice([0.0, 7.5, 60.0], k - 1))) for k in size if k]
    depart_s, ends_s = draw.uniform(0, 100, n), np.zeros(n)
    ends_s[size > 0] = [t[-1] for t in time_s]
    share = np.sort(draw.random((n, 4)), axis=1)
    trip_s = depart_s[:, None] + ends_s[:, None] * np.column_stack([np.zeros(n), share, np.ones(n)])
    trip_s[size == 0] = -1.0
    vertex_m = draw.normal(0, 100, (first[-1], 2))
    return draw.normal(0, 100, (n, 2, 2)), trip_s, draw.random(n) < 0.5, first, vertex_m, np.concatenate(time_s)


def between(since_s, time_s, vertex_m):
    """The point on the straight line from the last vertex that was passed to the next one."""
    k = np.flatnonzero(time_s <= since_s)[-1]
    if k == len(time_s) - 1:
        return vertex_m[k]
    return vertex_m[k] + (since_s - time_s[k]) / (time_s[k + 1] - time_s[k]) * (vertex_m[k + 1] - vertex_m[k])


@pytest.mark.parametrize("now_s", [0.0, 50.0, 140.0, 1e4])
def test_positions_are_those_of_interpolation(now_s):
    room_m, trip_s, drives, first, vertex_m, time_s = journeys()
    trip_s[:, 0] = np.minimum(trip_s[:, 0], now_s)
    position_m, inside, in_vehicle = placed(now_s, room_m, trip_s, drives, first, vertex_m, time_s)
    travels = trip_s[:, 5] > now_s
    assert travels.any() == (now_s < 1e4)
    assert (position_m[~travels] == room_m[~travels, 1]).all()
    assert (inside[~travels] == 1).all() and not in_vehicle[~travels].any()
    for u in np.flatnonzero(travels):
        own = slice(first[u], first[u + 1])
        assert position_m[u] == pytest.approx(between(now_s - trip_s[u, 0], time_s[own], vertex_m[own]), abs=1e-9)
        _, out_s, board_s, alight_s, in_s, _ = trip_s[u]
        assert inside[u] == (0 if now_s < out_s else 1 if now_s >= in_s else -1)
        assert in_vehicle[u] == (drives[u] and board_s <= now_s < alight_s)

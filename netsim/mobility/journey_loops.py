"""Positions of people on their journeys, compiled: one loop over UEs."""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import BoolArray, FloatArray, IntArray


@compiled
def placed(
    now_s: float,
    room_m: FloatArray,
    trip_s: FloatArray,
    drives: BoolArray,
    first: IntArray,
    vertex_m: FloatArray,
    time_s: FloatArray,
) -> tuple[FloatArray, IntArray, BoolArray]:
    """Positions (n, 2) at now_s, `Lives.inside` (n,) and `in_vehicle` (n,), of n UEs.

    room_m (n, 2, 2), trip_s (n, 6), drives (n,) : as in `Lives`; first, vertex_m, time_s : as in `Journeys`.
    Raises IndexError where a UE on a trip has no journey.
    """
    n = len(room_m)
    position_m, inside, in_vehicle = room_m[:, 1].copy(), np.ones(n, np.int64), np.zeros(n, np.bool_)
    for u in range(n):
        if trip_s[u, 5] > now_s:
            start, end = first[u], first[u + 1]
            if start < 0 or end < start + 2 or end > len(time_s) or end > len(vertex_m):
                raise IndexError("a UE is on a trip of no vertices")
            since_s, i = now_s - trip_s[u, 0], start
            while i < end - 2 and time_s[i + 1] <= since_s:
                i += 1
            span_s, done = time_s[i + 1] - time_s[i], 1.0
            if span_s > 0.0:
                done = min(max((since_s - time_s[i]) / span_s, 0.0), 1.0)
            # this form, not from + done * way, so that the vertex itself is met exactly
            position_m[u, 0] = (1.0 - done) * vertex_m[i, 0] + done * vertex_m[i + 1, 0]
            position_m[u, 1] = (1.0 - done) * vertex_m[i, 1] + done * vertex_m[i + 1, 1]
            inside[u] = 0 if now_s < trip_s[u, 1] else (1 if now_s >= trip_s[u, 4] else -1)
            in_vehicle[u] = drives[u] and trip_s[u, 2] <= now_s < trip_s[u, 3]
    return position_m, inside, in_vehicle

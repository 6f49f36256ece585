"""Walking along legs, compiled: one loop over times and UEs."""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray


@compiled
def on_legs(
    origin_m: FloatArray, target_m: FloatArray, depart_s: FloatArray, arrive_s: FloatArray, time_s: FloatArray
) -> FloatArray:
    """Positions (k, n, 2) at times (k,) within the legs of UEs (n,), origin_m and target_m (n, 2)."""
    k, n = len(time_s), len(depart_s)
    position_m = np.empty((k, n, 2))
    for t in range(k):
        for u in range(n):
            walk_s = arrive_s[u] - depart_s[u]
            walk_s = 1e-200 if walk_s < 1e-200 else walk_s  # a leg of no length is over at once
            done = (time_s[t] - depart_s[u]) / walk_s
            done = 0.0 if done < 0.0 else done
            done = 1.0 if done > 1.0 else done
            # this form, not origin + done * way, so that the waypoint itself is met exactly
            position_m[t, u, 0] = (1.0 - done) * origin_m[u, 0] + done * target_m[u, 0]
            position_m[t, u, 1] = (1.0 - done) * origin_m[u, 1] + done * target_m[u, 1]
    return position_m

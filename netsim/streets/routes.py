"""Routes by least travel time, and the trips of UEs along them."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.units import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Trips:
    """k trips as polylines in space and time.

    Trip i passes vertex_m[first[i]:first[i + 1]] (v, 2) at time_s (v,), in seconds since its departure, ascending; at
    each vertex speed may change, between two of them it is constant.
    """

    first: IntArray
    vertex_m: FloatArray
    time_s: FloatArray

"""Journeys: the trips that UEs are on, as polylines in space and time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.columns import no_places
from netsim.streets.routes import Trips
from netsim.units import BoolArray, FloatArray, IntArray

INDOOR_M_S = 1.0  # between a room and the door


@dataclass(frozen=True, eq=False)
class Journeys:
    """The current trip of every UE; no vertex for a UE that is not on a trip.

    UE i passes vertex_m[first[i]:first[i + 1]] (v, 2) at time_s (v,), in s since its departure, ascending.
    """

    first: IntArray
    vertex_m: FloatArray
    time_s: FloatArray

    @classmethod
    def none(cls, n_ue: int) -> Journeys:
        """No UE is on a trip."""
        return cls(np.zeros(n_ue + 1, dtype=np.int64), no_places(), np.zeros(0))

    def with_trips(self, row: IntArray, trips: Trips, keep: BoolArray) -> Journeys:
        """UEs `row` (m,) begin the trips (m of them); of the others those with keep (n_ue,) stay on theirs."""
        n = len(self.first) - 1
        own, new = np.diff(self.first), np.diff(trips.first)
        size = np.where(keep, own, 0)
        size[row] = new
        source = np.where(keep, self.first[:-1], 0)
        source[row] = len(self.time_s) + trips.first[:-1]
        first = np.append(0, np.cumsum(size))
        taken = np.repeat(source - first[:-1], size) + np.arange(first[n])
        vertex_m = np.concatenate([self.vertex_m, trips.vertex_m])[taken]
        return Journeys(first, vertex_m, np.concatenate([self.time_s, trips.time_s])[taken])


def between_rooms(trips: Trips, from_m: FloatArray, to_m: FloatArray) -> Trips:
    """The trips with a walk from room from_m (m, 2) to the first door before, and one to room to_m (m, 2) after."""
    size = np.diff(trips.first)
    first = np.append(0, np.cumsum(size + 2))
    inner = np.ones(first[-1], dtype=np.bool_)
    inner[first[:-1]] = inner[first[1:] - 1] = False
    out_s, in_s = indoor_s(trips, from_m, to_m)
    vertex_m, time_s = np.empty((first[-1], 2)), np.zeros(first[-1])
    vertex_m[inner], vertex_m[first[:-1]], vertex_m[first[1:] - 1] = trips.vertex_m, from_m, to_m
    time_s[inner] = trips.time_s + np.repeat(out_s, size)
    time_s[first[1:] - 1] = out_s + trips.duration_s + in_s
    return Trips(first, vertex_m, time_s)


def indoor_s(trips: Trips, from_m: FloatArray, to_m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Time (m,) from rooms from_m (m, 2) to the doors where trips begin, and from where they end to rooms to_m, s."""
    out_m = np.linalg.norm(trips.vertex_m[trips.first[:-1]] - from_m, axis=1)
    in_m = np.linalg.norm(to_m - trips.vertex_m[trips.first[1:] - 1], axis=1)
    return out_m / INDOOR_M_S, in_m / INDOOR_M_S

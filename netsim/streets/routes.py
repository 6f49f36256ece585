"""Routes by least travel time, and the trips of UEs along them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from netsim.streets.doors import Access
from netsim.streets.graph import WALK, StreetGraph
from netsim.streets.nearest import Nearest
from netsim.streets.search import fastest
from netsim.streets.slices import Slices
from netsim.streets.speeds import WALK_M_S
from netsim.streets.trees import MAX_BYTES, Trees
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

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def duration_s(self) -> FloatArray:
        """Travel time of every trip (k,), s."""
        return self.time_s[self.first[1:] - 1]


class Routes:
    """Routes of least travel time on a street graph.

    A trip leads straight from a door to a point of a street at walking speed, along streets to another point, and
    straight to a door. Shortest path trees are kept for later trips to the same nodes, up to `max_bytes`; they change
    no result.

    Raises ValueError for a graph without a street that is open to pedestrians.
    """

    def __init__(self, graph: StreetGraph, max_bytes: int = MAX_BYTES) -> None:
        if not (graph.speed_m_s[:, WALK] > 0).any():
            raise ValueError("no street of the graph is open to pedestrians")
        self.graph = graph
        self._trees = Trees(graph, max_bytes)
        self._nearest: dict[int, Nearest] = {}

    def access(self, position_m: FloatArray, mode: int) -> Access:
        """The nearest point of a street open to a mode for each position (k, 2); edge -1 where there is none."""
        if mode not in self._nearest:
            self._nearest[mode] = Nearest(self.graph, mode)
        return self._nearest[mode].access(position_m)

    def trips(self, origin: Access, destination: Access, mode: IntArray, from_m: FloatArray, to_m: FloatArray) -> Trips:
        """The trips from from_m to to_m (k, 2), doors as a rule.

        mode (k,) : index into `graph.MODES`. origin, destination : points of streets open to that mode, k rows each.
        Where a mode cannot lead from one to the other, or has no street at all, the trip is walked between the nearest
        streets open to pedestrians, and straight where these are not connected. Of equally fast routes the same one is
        always taken.

        A trip begins at from_m and ends at to_m exactly, and its times are strictly ascending; a trip to where it
        begins takes no time and has one vertex.
        """
        plan = self._plan(origin, destination, mode, from_m, to_m)
        graph, slices = self.graph, plan.slices
        speed_m_s = graph.speed_m_s[slices.edge, plan.mode[slices.trip]]
        spent_s = (slices.to_m - slices.from_m) / speed_m_s
        out_s, in_s = _away_m(from_m, plan.leave_m) / WALK_M_S, _away_m(plan.arrive_m, to_m) / WALK_M_S
        before_s, street_s = _before(slices.trip, spent_s, len(from_m))
        owner, position_m, along_m = slices.polyline(graph)
        trip = slices.trip[owner]
        at_s = out_s[trip] + before_s[owner] + along_m / speed_m_s[owner]
        at_s = np.minimum(at_s, out_s[trip] + (before_s + spent_s)[owner])  # against rounding
        arrive_s = out_s + street_s
        ones = np.arange(len(from_m))
        trip = np.concatenate([ones, trip, ones, ones])
        time_s = np.concatenate([np.zeros(len(ones)), at_s, arrive_s, arrive_s + in_s])
        vertex_m = np.concatenate([from_m, position_m, plan.arrive_m, to_m])
        order = np.argsort(trip, kind="stable")
        return _trips(trip[order], vertex_m[order], time_s[order], to_m)

    def _plan(
        self, origin: Access, destination: Access, mode: IntArray, from_m: FloatArray, to_m: FloatArray
    ) -> _Streetwise:
        """The trips by the modes that they can use."""
        street_s, slices = fastest(self.graph, self._trees, origin, destination, mode)
        leave_m, arrive_m = origin.at_m.copy(), destination.at_m.copy()
        row = np.flatnonzero(np.isinf(street_s))
        if row.size:
            mode = mode.copy()
            mode[row] = WALK
            there, back = self.access(from_m[row], WALK), self.access(to_m[row], WALK)
            street_s[row], walked = fastest(self.graph, self._trees, there, back, mode[row])
            slices = Slices.join([slices, replace(walked, trip=row[walked.trip])])
            leave_m[row], arrive_m[row] = there.at_m, back.at_m
        straight = np.isinf(street_s) | (from_m == to_m).all(axis=1)
        street_s[straight], leave_m[straight], arrive_m[straight] = 0.0, to_m[straight], to_m[straight]
        slices = slices.select(~straight[slices.trip])
        return _Streetwise(mode, leave_m, arrive_m, slices)


@dataclass(frozen=True, eq=False)
class _Streetwise:
    """k trips: mode (k,), the points at which they reach and leave streets (k, 2), and slices between these."""

    mode: IntArray
    leave_m: FloatArray
    arrive_m: FloatArray
    slices: Slices


def _away_m(a_m: FloatArray, b_m: FloatArray) -> FloatArray:
    return np.asarray(np.hypot(*(b_m - a_m).T))


def _before(trip: IntArray, spent_s: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Sum of the earlier values of the same trip (s,), and of all values of each trip (count,).

    The values of a trip stand together. Each trip is summed by itself, in order, so others do not change its rounding.
    """
    before_s, total_s = np.zeros(len(trip)), np.zeros(count)
    rank = np.arange(len(trip)) - np.searchsorted(trip, trip)
    order = np.argsort(rank, kind="stable")
    for some in np.split(order, np.cumsum(np.bincount(rank))[:-1]):
        before_s[some] = total_s[trip[some]]
        total_s[trip[some]] += spent_s[some]
    return before_s, total_s


def _trips(trip: IntArray, vertex_m: FloatArray, time_s: FloatArray, to_m: FloatArray) -> Trips:
    """Trips from their vertices, without those at which no time has passed since the one before."""
    kept = np.ones(len(trip), dtype=np.bool_)
    kept[1:] = (trip[1:] != trip[:-1]) | (time_s[1:] > time_s[:-1])
    first = np.append(0, np.cumsum(np.bincount(trip[kept], minlength=len(to_m))))
    vertex_m = vertex_m[kept]
    vertex_m[first[1:] - 1] = to_m
    return Trips(first, vertex_m, time_s[kept])

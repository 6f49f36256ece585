"""Routes as slices of edges, and their polylines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from netsim.columns import Columns
from netsim.streets.graph import StreetGraph
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Slices(Columns):
    """Parts of edges that trips use, s of them.

    trip (s,) : the trip; step (s,) : ascending along a trip; edge (s,) : the edge, used from from_m to to_m (s,),
    distances from its tail.
    """

    trip: IntArray
    step: IntArray
    edge: IntArray
    from_m: FloatArray
    to_m: FloatArray

    @classmethod
    def join(cls, pieces: Sequence[Self]) -> Self:
        """All slices, by trip and step; those of no length are left out."""
        every = super().join(pieces)
        order = np.lexsort((every.step, every.trip))
        return every.select(order[every.to_m[order] > every.from_m[order]])

    def polyline(self, graph: StreetGraph) -> tuple[IntArray, FloatArray, FloatArray]:
        """The vertices of each slice but its last: slice (v,), position (v, 2), distance from its start (v,), m."""
        first, end = graph.first[self.edge], graph.first[self.edge + 1]
        after = _bisect(graph.along_m, first, end - 1, self.from_m, above=True)
        until = _bisect(graph.along_m, first, end, self.to_m, above=False)
        before_m = graph.along_m[after - 1]
        share = (self.from_m - before_m) / (graph.along_m[after] - before_m)
        begin_m = graph.vertex_m[after - 1] + share[:, None] * (graph.vertex_m[after] - graph.vertex_m[after - 1])
        count = 1 + np.maximum(until - after, 0)
        start = np.cumsum(count) - count
        owner = np.repeat(np.arange(len(self.trip)), count)
        vertex = after[owner] + np.arange(len(owner)) - start[owner] - 1
        position_m, along_m = graph.vertex_m[vertex], graph.along_m[vertex] - self.from_m[owner]
        position_m[start], along_m[start] = begin_m, 0.0
        return owner, position_m, along_m


def _bisect(value: FloatArray, low: IntArray, high: IntArray, limit: FloatArray, above: bool) -> IntArray:
    """First index in [low, high) whose value is above (or not below) the limit, high if there is none (k,)."""
    low, high = low.copy(), high.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        found = value[middle] > limit if above else value[middle] >= limit
        high = np.where(open_ & found, middle, high)
        low = np.where(open_ & ~found, middle + 1, low)
    return low

"""The street graph: directed edges with a centre line, a class, and a speed for each mode of travel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from netsim.units import FloatArray, IntArray

MODES = ("walk", "cycle", "drive")
"""Modes of travel, in the order of the columns of `speed_m_s`."""
WALK, CYCLE, DRIVE = range(3)
CLASSES = ("primary", "secondary", "tertiary", "residential", "service", "pedestrian", "path")
"""Street classes from main to minor; names after OpenStreetMap's key highway."""


@dataclass(frozen=True, eq=False)
class StreetGraph:
    """n nodes and e directed edges. A street that is used in both directions is two edges.

    node_m (n, 2) : junctions and ends of streets.
    tail, head (e,) : nodes that an edge leads from and to.
    street_class (e,) : index into `CLASSES`.
    speed_m_s (e, 3) : travel speed of each of `MODES`, 0 where the mode is not allowed.
    vertex_m (v, 2), first (e + 1,) : centre line of edge k from tail to head, vertex_m[first[k]:first[k + 1]].
    """

    node_m: FloatArray
    tail: IntArray
    head: IntArray
    street_class: IntArray
    speed_m_s: FloatArray
    vertex_m: FloatArray
    first: IntArray

    def __len__(self) -> int:
        return len(self.tail)

    @cached_property
    def along_m(self) -> FloatArray:
        """Distance of every vertex from the tail of its edge, along the centre line (v,), m."""
        step = np.append(0.0, np.linalg.norm(np.diff(self.vertex_m, axis=0), axis=1))
        total = np.cumsum(step)
        return np.asarray(total - np.repeat(total[self.first[:-1]], np.diff(self.first)))

    @cached_property
    def length_m(self) -> FloatArray:
        """Length of every edge (e,), m."""
        return self.along_m[self.first[1:] - 1]

    @cached_property
    def twin(self) -> IntArray:
        """The edge of the same centre line in the other direction (e,), -1 for a street of one direction."""
        ends = self.first.tolist()
        edge_of = {self.vertex_m[a:b].tobytes(): k for k, (a, b) in enumerate(pairwise(ends))}
        back = self.vertex_m[::-1]
        n = len(back)
        return np.array([edge_of.get(back[n - b : n - a].tobytes(), -1) for a, b in pairwise(ends)], dtype=np.int64)

    def line_m(self, edge: int) -> FloatArray:
        """Centre line of one edge (k, 2) from tail to head."""
        return self.vertex_m[self.first[edge] : self.first[edge + 1]]

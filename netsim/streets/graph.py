"""The street graph: directed edges with a centre line, a class, and a speed for each mode of travel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from netsim.columns import no_places
from netsim.units import BoolArray, FloatArray, IntArray

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

    @property
    def once(self) -> BoolArray:
        """Which edges stand for their street (e,): of its two directions the first."""
        return np.asarray((self.twin < 0) | (self.twin > np.arange(len(self))))

    def centre_lines(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Lines of all streets, each once: vertices (v, 2), where each line begins (s + 1,), and its edge (s,)."""
        edge = np.flatnonzero(self.once)
        lines = [self.line_m(int(k)) for k in edge]
        return np.concatenate([no_places(), *lines]), np.cumsum([0, *map(len, lines)]), edge

    def pieces(self) -> FloatArray:
        """Straight pieces of all streets (k, 2, 2), each once."""
        pieces = np.stack([self.vertex_m[:-1], self.vertex_m[1:]], axis=1)
        edge = np.repeat(np.arange(len(self)), np.diff(self.first))
        return np.asarray(pieces[(edge[:-1] == edge[1:]) & self.once[edge[:-1]]])

    def line_m(self, edge: int) -> FloatArray:
        """Centre line of one edge (k, 2) from tail to head."""
        return self.vertex_m[self.first[edge] : self.first[edge + 1]]

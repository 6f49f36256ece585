"""Shortest path trees: the next node towards a destination, and the time to it, from every node of the graph."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import numpy.typing as npt

from netsim.streets.graph import MODES, StreetGraph
from netsim.units import FloatArray, IntArray

MAX_BYTES = 80_000_000
_BYTES_PER_NODE = 12  # of a tree
_BLOCK_BYTES = 20_000_000  # of trees computed at once


class Hops:
    """The fastest edge from each node to each neighbour that one mode may use; of equally fast ones the first."""

    def __init__(self, graph: StreetGraph, mode: int) -> None:
        from scipy.sparse import csr_array

        n = len(graph.node_m)
        usable = np.flatnonzero((graph.speed_m_s[:, mode] > 0) & (graph.tail != graph.head))
        time_s = graph.length_m[usable] / graph.speed_m_s[usable, mode]
        pair = graph.tail[usable] * n + graph.head[usable]
        order = np.lexsort((usable, time_s, pair))
        self._pair, first = np.unique(pair[order], return_index=True)
        self._edge = usable[order[first]]
        tail, head = np.divmod(self._pair, max(n, 1))
        self._reversed = csr_array((time_s[order[first]], (head, tail)), shape=(n, n))
        self._n = n

    def edge(self, node: IntArray, following: IntArray) -> IntArray:
        """The edges (k,) from nodes to neighbours of theirs (k,)."""
        return self._edge[np.searchsorted(self._pair, node * self._n + following)]

    def trees(self, destination: IntArray) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """The next node on the way to each destination (k,), and the time to it in s, from all nodes (k, n).

        Dijkstra's algorithm on the reversed graph; the predecessor of a node is then the next one on its way. Where a
        destination cannot be reached the next node is negative and the time infinite.
        """
        from scipy.sparse.csgraph import dijkstra

        time_s, following = dijkstra(self._reversed, indices=destination, return_predecessors=True)
        return following, time_s


class Trees:
    """Shortest path trees by mode and destination; those used least recently give way to new ones.

    Trees take 12 bytes a node, and at most `max_bytes` in total (but there is room for two): 333 trees of 20,000
    nodes.
    """

    def __init__(self, graph: StreetGraph, max_bytes: int = MAX_BYTES) -> None:
        self._graph, self._n = graph, max(len(graph.node_m), 1)
        self._hops: dict[int, Hops] = {}
        self.capacity = min(max(2, max_bytes // (_BYTES_PER_NODE * self._n)), len(MODES) * self._n)
        # memory is taken when a row is written
        self.following: npt.NDArray[np.int32] = np.empty((self.capacity, self._n), dtype=np.int32)
        self.time_s: FloatArray = np.empty((self.capacity, self._n))
        self._row: dict[int, int] = {}  # of mode and destination, the one used least recently first

    def __len__(self) -> int:
        return len(self._row)

    def edges(self, mode: IntArray, node: IntArray, following: IntArray) -> IntArray:
        """The edges (k,) by which a mode each (k,) goes from nodes to neighbours of theirs (k,)."""
        edge = np.empty(len(mode), dtype=np.int64)
        for each in range(len(MODES)):
            if len(own := np.flatnonzero(mode == each)):
                edge[own] = self._of(each).edge(node[own], following[own])
        return edge

    def rows(self, mode: IntArray, destination: IntArray) -> IntArray:
        """The rows of `following` and `time_s` (k,) for destinations (k,) of a mode each, at most `capacity` different.

        They are valid until the next call.
        """
        unique, index = np.unique(mode * self._n + destination, return_inverse=True)
        keys = unique.tolist()
        missing = [key for key in keys if key not in self._row]
        for key in keys:
            if key in self._row:
                self._row[key] = self._row.pop(key)
        for key in missing:
            full = len(self._row) >= self.capacity
            self._row[key] = self._row.pop(next(iter(self._row))) if full else len(self._row)
        block = max(1, _BLOCK_BYTES // (_BYTES_PER_NODE * self._n))
        for each, some in groupby(missing, lambda key: key // self._n):
            own = list(some)
            for at in range(0, len(own), block):
                node, row = np.array(own[at : at + block]) % self._n, [self._row[key] for key in own[at : at + block]]
                self.following[row], self.time_s[row] = self._of(each).trees(node)
        return np.array([self._row[key] for key in keys], dtype=np.int64)[index]

    def _of(self, mode: int) -> Hops:
        """The edges of one mode."""
        if mode not in self._hops:
            self._hops[mode] = Hops(self._graph, mode)
        return self._hops[mode]

"""Connected parts of a street graph: what can be reached from everywhere, and what is left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from netsim.streets.graph import MODES, StreetGraph
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Assembled:
    """A street graph, and what of its lines is not in it.

    loose_parts, loose_km : number and length of parts that are not connected with the largest one.
    closed_km (3,) : length of the streets that pedestrians, cyclists or drivers may enter, but from which they do not
        reach all others and return; they are closed to them.
    """

    graph: StreetGraph
    loose_parts: int
    loose_km: float
    closed_km: FloatArray

    def notes(self, place: str) -> tuple[str, ...]:
        """Notes for the user on what is left out."""
        notes = []
        if self.loose_parts:
            parts = f"{self.loose_parts:,}, {self.loose_km:.3g} km"
            notes.append(f"{place}: unconnected parts of the street network are left out: {parts}")
        names = ("pedestrians", "bicycles", "cars")
        closed = [f"{km:.3g} km to {name}" for name, km in zip(names, self.closed_km.tolist(), strict=True) if km > 0]
        if closed:
            notes.append(f"{place}: streets without a way to all others and back are closed: {', '.join(closed)}")
        return tuple(notes)


def connected(graph: StreetGraph, street: IntArray) -> Assembled:
    """The largest part of a graph; `street` (e,) is the number of the street of which an edge is one direction.

    The largest part is the weakly connected component with the greatest length of streets. In it every mode keeps its
    strongly connected component of the greatest length.
    """
    everywhere = np.ones(len(graph), dtype=np.bool_)
    part, count = _largest(graph, street, everywhere, "weak")
    km = _km(graph, street, everywhere) - _km(graph, street, part)
    speed_m_s = graph.speed_m_s.copy()
    closed_km = np.zeros(len(MODES))
    for mode in range(len(MODES)):
        open_to = part & (speed_m_s[:, mode] > 0)
        kept, _ = _largest(graph, street, open_to, "strong")
        closed_km[mode] = _km(graph, street, open_to) - _km(graph, street, kept)
        speed_m_s[~kept, mode] = 0.0
    kept = part & (speed_m_s > 0).any(axis=1)
    return Assembled(_of_edges(replace(graph, speed_m_s=speed_m_s), kept), max(count - 1, 0), km, closed_km)


def _largest(graph: StreetGraph, street: IntArray, usable: BoolArray, connection: str) -> tuple[BoolArray, int]:
    """The edges (e,) among the usable ones in the component of the greatest length, and the number of components."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edge = np.flatnonzero(usable)
    if not edge.size:
        return usable, 0
    n, tail, head = len(graph.node_m), graph.tail[edge], graph.head[edge]
    matrix = coo_array((np.ones(len(edge), dtype=np.int8), (tail, head)), shape=(n, n))
    _, label = connected_components(matrix, connection=connection)
    inside = label[tail] == label[head]
    edge, label = edge[inside], label[tail[inside]]
    _, first = np.unique(street[edge], return_index=True)  # both directions of a street count once
    length_m = np.bincount(label[first], weights=graph.length_m[edge[first]], minlength=1)
    kept = np.zeros(len(graph), dtype=np.bool_)
    kept[edge[label == int(np.argmax(length_m))]] = True
    return kept, len(np.unique(label))


def _km(graph: StreetGraph, street: IntArray, some: BoolArray) -> float:
    """Length of streets of which an edge is among some (e,)."""
    edge = np.flatnonzero(some)
    _, first = np.unique(street[edge], return_index=True)
    return float(graph.length_m[edge[first]].sum() / 1e3)


def _of_edges(graph: StreetGraph, kept: BoolArray) -> StreetGraph:
    """The graph of some edges (e,) and of the nodes that they touch."""
    edge = np.flatnonzero(kept)
    node, ends = np.unique(np.concatenate([graph.tail[edge], graph.head[edge]]), return_inverse=True)
    count = np.diff(graph.first)
    return StreetGraph(
        node_m=graph.node_m[node],
        tail=ends[: len(edge)],
        head=ends[len(edge) :],
        street_class=graph.street_class[edge],
        speed_m_s=graph.speed_m_s[edge],
        vertex_m=graph.vertex_m[np.repeat(kept, count)],
        first=np.append(0, np.cumsum(count[edge])),
    )

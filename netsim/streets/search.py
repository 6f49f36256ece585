"""The fastest way between points of streets: out of an edge, along a shortest path, into another edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from netsim.streets.doors import Access
from netsim.streets.graph import StreetGraph
from netsim.streets.slices import Slices
from netsim.streets.trees import Trees
from netsim.units import FloatArray, IntArray

_LAST = 2**40  # step of the last slice of a trip


@dataclass(frozen=True, eq=False)
class _Ways:
    """Ways between points of streets and nodes: two of each (k, 2), along the edge and along its twin.

    edge : the edge used, from from_m to to_m, -1 for none; node : where it ends or begins; time_s : infinite for a way
    that is closed.
    """

    edge: IntArray
    from_m: FloatArray
    to_m: FloatArray
    node: IntArray
    time_s: FloatArray


def fastest(
    graph: StreetGraph, trees: Trees, origin: Access, destination: Access, mode: IntArray
) -> tuple[FloatArray, Slices]:
    """Time along streets (k,), infinite where there is no way, and the slices of edges, of trips by a mode each (k,).

    At each end of a trip the edge may be used in both directions, if they are open: the fastest of the four
    combinations and, on one street, of the direct way is taken; of equally fast ones the first.
    """
    out, into = _ways(graph, origin, mode, leaving=True), _ways(graph, destination, mode, leaving=False)
    direct = _direct(out, into)
    time_s = direct.time_s.min(axis=1)
    pieces = []
    # a way that is closed needs no tree
    node = np.where(np.isinf(into.time_s), into.node[:, ::-1], into.node)
    for some in _together(mode, node, trees.capacity // 2, len(graph.node_m)):
        row = trees.rows(np.repeat(mode[some], 2), node[some].ravel()).reshape(-1, 2)
        between_s = trees.time_s[row[:, None, :], out.node[some][:, :, None]]
        total_s = (out.time_s[some][:, :, None] + between_s + into.time_s[some][:, None, :]).reshape(-1, 4)
        best = np.argmin(total_s, axis=1)
        best_s = total_s[np.arange(len(some)), best]
        by_nodes = best_s < time_s[some]
        time_s[some] = np.minimum(best_s, time_s[some])
        if by_nodes.any():
            trip, (i, j) = some[by_nodes], np.divmod(best[by_nodes], 2)
            pieces += [_slices(out, trip, i, 0), _slices(into, trip, j, _LAST)]
            towards = row[by_nodes][np.arange(len(trip)), j]
            pieces.append(_followed(graph, trees, mode, trip, out.node[trip, i], node[trip, j], towards))
    on_edge = np.flatnonzero(np.isfinite(time_s) & (time_s == direct.time_s.min(axis=1)))
    pieces.append(_slices(direct, on_edge, np.argmin(direct.time_s[on_edge], axis=1), 0))
    return time_s, Slices.join(pieces)


def _together(mode: IntArray, node: IntArray, most: int, n: int) -> Iterator[IntArray]:
    """The trips, by modes (k,) to pairs of n nodes (k, 2), in groups of at most `most` different pairs."""
    if len(mode) <= most:
        yield np.arange(len(mode))
        return
    _, pair = np.unique((mode * n + node[:, 0]) * n + node[:, 1], return_inverse=True)
    for at in range(0, pair.max() + 1, most):
        yield np.flatnonzero((pair >= at) & (pair < at + most))


def _ways(graph: StreetGraph, access: Access, mode: IntArray, leaving: bool) -> _Ways:
    """From points of streets to the nodes at which their edges end (leaving), or from the nodes where they begin."""
    known = access.edge >= 0
    edge = np.where(known, access.edge, 0)
    both = np.column_stack([edge, graph.twin[edge]])  # -1 for a street of one direction, where nothing is open
    whole_m = graph.length_m[edge]
    along_m = np.clip(np.where(known, access.along_m, 0.0), 0.0, whole_m)
    at_m = np.column_stack([along_m, whole_m - along_m])
    from_m, to_m = (at_m, np.column_stack([whole_m, whole_m])) if leaving else (np.zeros_like(at_m), at_m)
    speed_m_s = np.where(both >= 0, graph.speed_m_s[both, mode[:, None]], 0.0)
    time_s = np.full(both.shape, np.inf)
    np.divide(to_m - from_m, speed_m_s, out=time_s, where=speed_m_s > 0)
    time_s[to_m == from_m] = 0.0  # at a node, whatever the direction of the edge
    time_s[~known] = np.inf
    ends = graph.tail[edge], graph.head[edge]
    return _Ways(both, from_m, to_m, np.column_stack(ends[::-1] if leaving else ends), time_s)


def _direct(out: _Ways, into: _Ways) -> _Ways:
    """The ways along one edge (k, 2); infinite where the two points are on different streets or the wrong way round.

    Column c uses the edge of `out` in column c, whichever column of `into` it is.
    """
    # a point of a street is known by an edge or by its twin
    column = np.where(out.edge == into.edge, [0, 1], np.where(out.edge == into.edge[:, ::-1], [1, 0], -1))
    to_m = np.take_along_axis(into.to_m, np.maximum(column, 0), axis=1)
    possible = (column >= 0) & (to_m >= out.from_m) & np.isfinite(out.time_s)
    possible &= np.isfinite(np.take_along_axis(into.time_s, np.maximum(column, 0), axis=1))
    left_m = out.to_m - out.from_m
    # the speed of the edge, from the time to its end; at the very end no time passes
    share = np.divide(to_m - out.from_m, left_m, out=np.zeros_like(to_m), where=possible & (left_m > 0))
    time_s = np.where(possible, share * np.where(possible, out.time_s, 0.0), np.inf)
    return _Ways(out.edge, out.from_m, to_m, out.node, time_s)


def _slices(ways: _Ways, trip: IntArray, column: IntArray, step: int) -> Slices:
    """The chosen ways of some trips."""
    at = trip, column
    return Slices(trip, np.full(len(trip), step), ways.edge[at], ways.from_m[at], ways.to_m[at])


def _followed(
    graph: StreetGraph, trees: Trees, mode: IntArray, trip: IntArray, node: IntArray, target: IntArray, row: IntArray
) -> Slices:
    """The edges from nodes to targets (k,) along the trees of rows (k,), of some of the trips by modes."""
    pieces = [(trip[:0], node[:0], node[:0], node[:0])]
    step = 0
    while len(trip := trip[moving := node != target]):
        step += 1
        node, target, row = node[moving], target[moving], row[moving]
        following = trees.following[row, node].astype(np.int64)
        pieces.append((trip, np.full(len(trip), step), node, following))
        node = following
    trip, steps, tail, head = (np.concatenate(column) for column in zip(*pieces, strict=True))
    edge = trees.edges(mode[trip], tail, head)
    return Slices(trip, steps, edge, np.zeros(len(edge)), graph.length_m[edge])

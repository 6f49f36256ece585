"""Routes by least travel time, and the trips of UEs along them.

A trip leads out of a street, along a shortest path, and into another street; it is kept as slices
of streets.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np

from netsim.columns import Columns, compute_bounds, frozen, no_floats, no_ints, split_blocks
from netsim.streets.doors import Access
from netsim.streets.graph import MODES, WALK_M_S, Paths, StreetGraph
from netsim.units import FloatArray, IntArray, IntArrayPair

_MAX_BYTES = 80_000_000  # of shortest path trees of all modes
_BYTES_PER_NODE = 12  # of a tree
_LAST = 2**40  # step of the last slice of a trip


@frozen
class Slices(Columns):
    """Parts of streets that trips use, s of them.

    trip (s,) : the trip; step (s,) : ascending along a trip; street (s,) : the street, used from
    from_m to to_m (s,), distances from its beginning.
    """

    trip: IntArray
    step: IntArray
    street: IntArray
    from_m: FloatArray
    to_m: FloatArray

    @classmethod
    def join_sorted(cls, pieces: Sequence[Self]) -> Self:
        """All slices, by trip and step; those of no length are left out."""
        slices = cls.join(pieces)
        order = np.lexsort((slices.step, slices.trip))
        return slices.select(order[slices.to_m[order] != slices.from_m[order]])

    def list_vertices(self, graph: StreetGraph) -> tuple[IntArray, FloatArray, FloatArray]:
        """The vertices of each slice but its last: slice (v,), position (v, 2), distance from its
        start (v,), m.
        """
        low_m = np.minimum(self.from_m, self.to_m)
        high_m = np.maximum(self.from_m, self.to_m)
        path = graph.path.select(self.street)
        is_above = path.along > low_m[path.owner]
        inner = np.flatnonzero(is_above & (path.along < high_m[path.owner]))
        slice_ = np.concatenate([np.arange(len(self.trip)), path.owner[inner]])
        start_m = path.interpolate_m(np.arange(len(path)), self.from_m)
        position_m = np.concatenate([start_m, path.vertex_m[inner]])
        along_m = np.concatenate([self.from_m, path.along[inner]])
        gone_m = np.abs(along_m - self.from_m[slice_])
        order = np.lexsort((gone_m, slice_))
        return slice_[order], position_m[order], gone_m[order]


class Routes:
    """Routes of least travel time on a street graph.

    A trip leads straight from a door to a point of a street at walking speed, along streets to
    another point, and straight to a door. Shortest path trees are kept for later trips to the same
    nodes; they change no result.
    """

    def __init__(self, graph: StreetGraph) -> None:
        self.graph = graph
        self._trees = [_Trees(graph, mode) for mode in range(len(MODES))]

    def find_trips(
        self,
        origin: Access,
        destination: Access,
        mode: IntArray,
        from_m: FloatArray,
        to_m: FloatArray,
    ) -> Paths:
        """The trips from from_m to to_m (k, 2), doors as a rule, by time since departure in s.

        mode (k,) : index into `graph.MODES`. origin, destination : points of streets open to that
        mode, k rows each. Of equally fast routes the same one is always taken. A trip begins at
        from_m and ends at to_m exactly, and its times are strictly ascending.
        """
        slices = self._find_fastest(origin, destination, mode)
        return self._time_trips(
            slices, mode, np.stack([from_m, origin.at_m, destination.at_m, to_m])
        )

    def _find_fastest(self, origin: Access, destination: Access, mode: IntArray) -> Slices:
        """The slices of the fastest trips, by a mode each (k,)."""
        pieces = [Slices(no_ints(), no_ints(), no_ints(), no_floats(), no_floats())]
        # trips to one node are found together
        order = np.argsort(self.graph.ends[destination.street, 0], kind="stable")
        for number, trees in enumerate(self._trees):
            order_of_mode = order[mode[order] == number]
            for rows in split_blocks(len(order_of_mode), trees.capacity // 2):
                part = order_of_mode[rows]
                pieces += _find_slices_by_part(
                    trees, part, origin.select(part), destination.select(part)
                )
        return Slices.join_sorted(pieces)

    def _time_trips(self, slices: Slices, mode: IntArray, corner_m: FloatArray) -> Paths:
        """Trips by their slices, and by the places (4, k, 2) where they begin, meet streets, leave
        them and end.

        Vertices at which no time has passed since the one before are left out.
        """
        trip_of = slices.trip
        backward = (slices.to_m < slices.from_m).astype(int)
        speed_m_s = self.graph.speed_m_s[slices.street, backward, mode[trip_of]]
        spent_s = np.abs(slices.to_m - slices.from_m) / speed_m_s
        out_s, _, in_s = np.linalg.norm(np.diff(corner_m, axis=0), axis=2) / WALK_M_S
        trips = np.arange(len(mode))
        # each trip is summed by itself, in order, so others do not change its rounding
        rank = np.arange(len(spent_s)) - np.searchsorted(trip_of, trip_of)
        table_s = np.zeros((len(mode), rank.max(initial=0) + 2))
        table_s[trip_of, rank + 1] = spent_s
        upto_s = np.cumsum(table_s, axis=1)
        arrive_s = out_s + upto_s[:, -1]
        owner, position_m, gone_m = slices.list_vertices(self.graph)
        at_s = out_s[trip_of] + upto_s[trip_of, rank]
        gone_s = gone_m / speed_m_s[owner]
        at_s = np.minimum(at_s[owner] + gone_s, (at_s + spent_s)[owner])  # against rounding
        trip = np.concatenate([trips, trip_of[owner], trips, trips])
        time_s = np.concatenate([0.0 * out_s, at_s, arrive_s, arrive_s + in_s])
        vertex_m = np.concatenate([corner_m[0], position_m, corner_m[2], corner_m[3]])
        order = np.argsort(trip, kind="stable")
        is_first = np.diff(trip[order], prepend=-1) != 0
        kept = order[is_first | (np.diff(time_s[order], prepend=0.0) > 0)]
        first = compute_bounds(np.bincount(trip[kept], minlength=len(mode)))
        vertex_m = vertex_m[kept]
        vertex_m[first[1:] - 1] = corner_m[3]
        return Paths(vertex_m, first, time_s[kept])


class _Trees:
    """Shortest path trees of one mode by destination, for at most `capacity` of them.

    A row of `following` and `time_s` (capacity, n) has the next node on the way to a destination,
    negative where there is none, and the time to it in s, from all nodes.
    """

    def __init__(self, graph: StreetGraph, mode: int) -> None:
        from scipy.sparse import csr_array

        self.graph = graph
        self.speed_m_s = graph.speed_m_s[:, :, mode]
        n = len(graph.node_m)
        self.capacity = max(2, _MAX_BYTES // len(MODES) // (_BYTES_PER_NODE * n))
        # memory is taken when a row is written
        self.following = np.empty((self.capacity, n), np.int32)
        self.time_s = np.empty((self.capacity, n))
        self._row: dict[int, int] = {}
        # of each pair of neighbours the fastest street, of equally fast ones the first
        street, backward = np.nonzero(self.speed_m_s > 0)
        tail = graph.ends[street, backward]
        head = graph.ends[street, 1 - backward]
        time_s = graph.length_m[street] / self.speed_m_s[street, backward]
        pair = tail * n + head
        order = np.lexsort((time_s, pair))
        self._pair, first = np.unique(pair[order], return_index=True)
        best = order[first]
        self._street = street[best]
        self._backward = backward[best]
        places = (head[best], tail[best])
        self._reversed = csr_array((time_s[best], places), shape=(n, n))

    def find_streets_and_sides(self, node: IntArray, following: IntArray) -> IntArrayPair:
        """The streets (k,) from nodes to neighbours of theirs (k,), and whether they lead against
        the centre line.
        """
        row = np.searchsorted(self._pair, node * len(self.graph.node_m) + following)
        return self._street[row], self._backward[row]

    def find_rows(self, destination: IntArray) -> IntArray:
        """The rows (k,) of `following` and `time_s` for destinations (k,), at most `capacity`
        different.

        They are valid until the next call. Dijkstra's algorithm on the reversed graph: the
        predecessor of a node is the next one on its way.
        """
        from scipy.sparse.csgraph import dijkstra

        nodes, index = np.unique(destination, return_inverse=True)
        missing = [node for node in nodes.tolist() if node not in self._row]
        if len(self._row) + len(missing) > self.capacity:
            self._row.clear()
            missing = nodes.tolist()
        if missing:
            n = len(self._row)
            row = range(n, n + len(missing))
            self.time_s[row], self.following[row] = dijkstra(
                self._reversed, indices=missing, return_predecessors=True
            )
            self._row |= zip(missing, row, strict=True)
        return np.array([self._row[node] for node in nodes.tolist()], int)[index]


def _find_slices_by_part(
    trees: _Trees, trip: IntArray, origin: Access, destination: Access
) -> list[Slices]:
    """The slices of the fastest trips (k,) of one mode.

    At each end of a trip the street may be used in both directions, if they are open: the fastest
    of the four combinations and, on one street, of the direct way is taken; of equally fast ones
    the first.
    """
    length_m = trees.graph.length_m
    ends = trees.graph.ends
    out_s = _measure_s_along_and_against(trees, origin, leaving=True)
    in_s = _measure_s_along_and_against(trees, destination, leaving=False)
    leaves = ends[origin.street, ::-1]
    enters = ends[destination.street]
    row = trees.find_rows(enters.ravel()).reshape(-1, 2)
    between_s = trees.time_s[row[:, None, :], leaves[:, :, None]]
    sum_s = out_s[:, :, None] + between_s + in_s[:, None, :]
    total_s = sum_s.reshape(-1, 4)
    best = total_s.argmin(axis=1)
    direct = _measure_direct_s(trees, origin, destination) <= total_s.min(axis=1)
    indirect = np.flatnonzero(~direct)
    i, j = np.divmod(best[indirect], 2)
    start = origin.select(indirect)
    end = destination.select(indirect)
    straight = np.flatnonzero(direct)
    return [
        Slices(
            trip[indirect],
            0 * indirect,
            start.street,
            start.along_m,
            length_m[start.street] * (1 - i),
        ),
        _follow_trees(
            trees, trip[indirect], leaves[indirect, i], enters[indirect, j], row[indirect, j]
        ),
        Slices(
            trip[indirect], 0 * indirect + _LAST, end.street, length_m[end.street] * j, end.along_m
        ),
        Slices(
            trip[straight],
            0 * straight,
            origin.street[straight],
            origin.along_m[straight],
            destination.along_m[straight],
        ),
    ]


def _measure_s_along_and_against(trees: _Trees, point: Access, leaving: bool) -> FloatArray:
    """Times (k, 2) from points of streets to their ends, along the centre line and against it, or
    from their ends.

    Infinite for a direction that is closed.
    """
    along_m = point.along_m
    behind_m = trees.graph.length_m[point.street] - along_m
    way_m = np.column_stack([behind_m, along_m] if leaving else [along_m, behind_m])
    with np.errstate(divide="ignore", invalid="ignore"):
        time_s = way_m / trees.speed_m_s[point.street]
    time_s[way_m == 0] = 0.0  # at a node, whatever the direction of the street
    return time_s


def _measure_direct_s(trees: _Trees, origin: Access, destination: Access) -> FloatArray:
    """Time (k,) along one street; infinite where the points are on different streets, or the
    direction is closed.
    """
    way_m = destination.along_m - origin.along_m
    speed_m_s = trees.speed_m_s[origin.street, (way_m < 0).astype(int)]
    same = (origin.street == destination.street) & (speed_m_s > 0)
    never_s = np.full(len(way_m), np.inf)
    return np.divide(np.abs(way_m), speed_m_s, out=never_s, where=same)


def _follow_trees(
    trees: _Trees, trip: IntArray, node: IntArray, target: IntArray, row: IntArray
) -> Slices:
    """The streets from nodes to targets (k,) along the trees of rows (k,)."""
    pieces = [(trip[:0], trip[:0], node[:0], node[:0])]
    while len(trip := trip[moving := node != target]):
        node = node[moving]
        target = target[moving]
        row = row[moving]
        following = trees.following[row, node].astype(int)
        pieces.append((trip, np.full(len(trip), len(pieces)), node, following))
        node = following
    trip, step, tail, head = (np.concatenate(column) for column in zip(*pieces, strict=True))
    street, backward = trees.find_streets_and_sides(tail, head)
    length_m = trees.graph.length_m[street]
    return Slices(trip, step, street, length_m * backward, length_m * (1 - backward))

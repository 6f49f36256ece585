"""A street graph from polylines: junctions where they meet, one edge for each direction in between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.columns import no_ints
from netsim.streets.components import Assembled, connected
from netsim.streets.graph import StreetGraph
from netsim.streets.lines import StreetLines
from netsim.units import BoolArray, FloatArray, IntArray

SNAP_M = 0.5
_ROUNDING_M = 1e-3  # vertices nearer than this are one
_NEIGHBOURS = 8  # vertices that an end is joined to


def assemble(lines: StreetLines, snap_m: float = SNAP_M) -> Assembled:
    """The street graph of polylines.

    Lines are joined at vertices that they share, and at an end of a line that is within snap_m of a vertex of another
    one. Lines that merely cross are not joined, nor are lines of different layers at vertices inside both. Streets that
    cover the same segment become one street that is open to the modes of both. Nodes are vertices where streets meet,
    end, or change class or speed; all other vertices belong to the centre line of an edge. A loop that begins and ends
    at one node has a second node in its middle, so no edge leads from a node to itself.

    The graph is the part that is connected on foot and by vehicle with the largest total length. In it each mode keeps
    the streets on which it reaches every other and returns: the largest strongly connected component.
    """
    vertex, position_m = _joined(lines, snap_m)
    segments = _StraightSegments.of(lines, vertex)
    chains = _chains(segments, len(position_m))
    return connected(*_edges(segments, chains, position_m))


def _joined(lines: StreetLines, snap_m: float) -> tuple[IntArray, FloatArray]:
    """The point (v,) that each vertex stands for, and the positions of the points (p, 2)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    is_end, layer = lines.is_end, lines.layer[lines.owner]
    place = _numbered(*np.round(lines.vertex_m / _ROUNDING_M).T)
    # vertices inside lines of different layers stay apart, unless a line ends there
    has_end = np.zeros(place.max(initial=-1) + 1, dtype=np.bool_)
    has_end[place[is_end]] = True
    point = _numbered(place, np.where(has_end[place], 0, layer))
    _, row = np.unique(point, return_index=True)
    at_m = lines.vertex_m[row]
    ends = np.unique(point[is_end])
    a, b = _near(at_m, ends, layer[row], has_end[place[row]], snap_m)
    near = coo_array((np.ones(len(a), dtype=np.int8), (a, b)), shape=(len(row), len(row)))
    count, group = connected_components(near, directed=False)
    _, first = np.unique(group, return_index=True)
    return np.asarray(group[point], dtype=np.int64), at_m[first[:count]]


def _near(
    at_m: FloatArray, ends: IntArray, layer: IntArray, has_end: BoolArray, snap_m: float
) -> tuple[IntArray, IntArray]:
    """Pairs of an end and a point within snap_m of it: another end, or a vertex of the same layer."""
    from scipy.spatial import cKDTree

    if not len(ends) or snap_m <= 0:
        return ends[:0], ends[:0]
    away_m, other = cKDTree(at_m).query(at_m[ends], k=min(_NEIGHBOURS, len(at_m)), distance_upper_bound=snap_m)
    other, found = other.reshape(len(ends), -1), np.isfinite(away_m).reshape(len(ends), -1)
    row, column = np.nonzero(found)
    a, b = ends[row], other[row, column]
    joined = has_end[b] | (layer[a] == layer[b])
    return a[joined], b[joined]


@dataclass(frozen=True, eq=False)
class _StraightSegments:
    """Straight segments between points `low` < `high` (s,), every pair of points once.

    speed_m_s (s, 2, 3) : from low to high, and from high to low. street_class (s,). kind (s, 2) : number of the
    combination of class and speeds, seen from low to high and from high to low.
    """

    low: IntArray
    high: IntArray
    street_class: IntArray
    speed_m_s: FloatArray
    kind: IntArray

    @classmethod
    def of(cls, lines: StreetLines, vertex: IntArray) -> _StraightSegments:
        """The segments of lines whose vertices stand for the points `vertex` (v,)."""
        step = lines.steps
        a, b = vertex[step], vertex[step + 1]
        proper = a != b
        step, a, b = step[proper], a[proper], b[proper]
        owner = lines.owner[step]
        turned = a > b
        both = np.stack([lines.forward_m_s[owner], lines.backward_m_s[owner]], axis=1)
        both[turned] = both[turned, ::-1]
        low, high = np.minimum(a, b), np.maximum(a, b)
        segment = _numbered(low, high)
        _, row = np.unique(segment, return_index=True)
        speed_m_s = np.zeros((len(row), 2, 3))
        np.maximum.at(speed_m_s, segment, both)
        street_class = np.full(len(row), np.iinfo(np.int64).max)
        np.minimum.at(street_class, segment, lines.street_class[owner])
        return cls(low[row], high[row], street_class, speed_m_s, _kinds(street_class, speed_m_s))


def _kinds(street_class: IntArray, speed_m_s: FloatArray) -> IntArray:
    """Numbers (s, 2) that are equal where class and speeds are, seen in either direction."""
    seen = np.concatenate([speed_m_s.reshape(-1, 6), speed_m_s[:, ::-1].reshape(-1, 6)])
    kind = _numbered(np.tile(street_class, 2), *seen.T)
    return kind.reshape(2, -1).T


def _numbered(*columns: FloatArray | IntArray) -> IntArray:
    """Numbers (n,) from 0 on that are equal where all columns (n,) are, in lexicographic order."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, value = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (value.max(initial=0) + 1) + value, return_inverse=True)
    return number


def _incident(segments: _StraightSegments, n_points: int) -> tuple[list[bool], list[list[int]]]:
    """Whether a point is inside a street (p,), and the two segments at each such point (p, 2).

    At a point inside a street two segments meet that have the same class and speeds in both directions.
    """
    n = len(segments.low)
    point = np.concatenate([segments.low, segments.high])
    order = np.argsort(point, kind="stable")
    start = np.searchsorted(point[order], np.arange(n_points))
    two = np.bincount(point, minlength=n_points) == 2
    pair = np.zeros((n_points, 2), dtype=np.int64)
    pair[two] = order[start[two][:, None] + [0, 1]]  # n and more: the segment ends here, seen from low to high
    segment, ends_here = pair % max(n, 1), pair >= n
    kind = segments.kind[segment, ends_here.astype(np.int64)] if n else pair
    # one seen as it leaves, the other as it arrives
    other = segments.kind[segment[:, 1], 1 - ends_here[:, 1]] if n else pair[:, 1]
    return (two & (kind[:, 0] == other)).tolist(), segment.tolist()


def _chains(segments: _StraightSegments, n_points: int) -> list[tuple[list[int], int]]:
    """Runs of segments from node to node: the points that each passes, and its first segment.

    A loop is cut in its middle.
    """
    inner, incident = _incident(segments, n_points)
    low, high = segments.low.tolist(), segments.high.tolist()
    done = [False] * len(low)
    chains: list[tuple[list[int], int]] = []

    def follow(at: int, segment: int) -> None:
        points, passed = [at], list[int]()
        while not done[segment]:
            done[segment] = True
            at = high[segment] if low[segment] == at else low[segment]
            points.append(at)
            passed.append(segment)
            if not inner[at]:
                break
            one, other = incident[at]
            segment = other if one == segment else one
        if points[0] != points[-1]:
            chains.append((points, passed[0]))
            return
        half = len(passed) // 2
        chains.extend([(points[: half + 1], passed[0]), (points[half:], passed[half])])

    for segment in range(len(low)):
        for end in (low[segment], high[segment]):
            if not inner[end] and not done[segment]:
                follow(end, segment)
    for segment in range(len(low)):  # rings without a node
        if not done[segment]:
            follow(low[segment], segment)
    return chains


def _edges(
    segments: _StraightSegments, chains: list[tuple[list[int], int]], position_m: FloatArray
) -> tuple[StreetGraph, IntArray]:
    """Both directions of every chain, and the chain (e,) of every edge; directions closed to all modes are left out."""
    there = np.array([segment for _, segment in chains], dtype=np.int64)
    ends = np.array([(points[0], points[1], points[-1]) for points, _ in chains], dtype=np.int64).reshape(-1, 3)
    falling = (ends[:, 0] > ends[:, 1]).astype(np.int64)
    speed_m_s = np.stack([segments.speed_m_s[there, falling], segments.speed_m_s[there, 1 - falling]], axis=1)
    chain, back = np.nonzero((speed_m_s > 0).any(axis=2))
    points = [chains[c][0][:: -1 if b else 1] for c, b in zip(chain.tolist(), back.tolist(), strict=True)]
    count = np.array([len(p) for p in points], dtype=np.int64)
    graph = StreetGraph(
        node_m=position_m,
        tail=ends[chain, np.where(back, 2, 0)],
        head=ends[chain, np.where(back, 0, 2)],
        street_class=segments.street_class[there[chain]],
        speed_m_s=speed_m_s[chain, back],
        vertex_m=position_m[np.concatenate([no_ints(), *points]).astype(np.int64)],
        first=np.append(0, np.cumsum(count)),
    )
    return graph, chain

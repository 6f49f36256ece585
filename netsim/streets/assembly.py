"""A street graph from polylines: junctions where they meet, and the largest connected part."""

from __future__ import annotations

import numpy as np

from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.notice import Notices, notice
from netsim.streets.graph import MODES, WALK, Paths, StreetGraph, look_up_default_speeds_m_s
from netsim.units import BoolArray, FloatArray, IntArray, IntArrayPair

SNAP_M = 0.5
_ROUNDING_M = 1e-3  # vertices nearer than this are one
_BORDER_M = 1e-9  # beyond the area, so that lines on its border stay
_NEIGHBOURS = 8  # vertices that an end is joined to


@frozen
class StreetLines:
    """Centre lines of n streets.

    street_class (n,) : index into `graph.CLASSES`. speed_m_s (n, 2, 3) : speed of each of
    `graph.MODES` along the line and against it, 0 where the mode is not allowed. layer (n,) : 0 on
    the ground; lines of different layers (bridges, tunnels) meet at ends of lines only.
    """

    path: Paths
    street_class: IntArray
    speed_m_s: FloatArray
    layer: IntArray

    @classmethod
    def from_two_way_paths(cls, path: Paths, street_class: IntArray) -> StreetLines:
        """Streets on the ground that are used in both directions, at the usual speeds of their
        classes.
        """
        return cls(
            path,
            street_class,
            look_up_default_speeds_m_s(street_class),
            np.zeros_like(street_class),
        )

    def clip_to(self, area: Area) -> StreetLines:
        """The parts of the lines inside the area; a line that leaves and returns becomes
        several.
        """
        import shapely

        around = area.grow(_BORDER_M)
        whole = shapely.clip_by_rect(self.path.to_lines(), *around.low_m, *around.high_m)
        part, line = shapely.get_parts(whole, return_index=True)
        vertex_m, owner = shapely.get_coordinates(part, return_index=True)
        clipped_m = np.clip(vertex_m, area.low_m, area.high_m)
        path = Paths.from_vertices(clipped_m, np.bincount(owner, minlength=len(part)))
        return StreetLines(path, self.street_class[line], self.speed_m_s[line], self.layer[line])


@frozen
class StreetAssembly:
    """A street graph, and what of its lines is not in it.

    loose_parts, loose_km : number and length of parts that are not connected with the largest one.
    closed_km (3,) : length of the streets that pedestrians, cyclists or drivers may enter, but from
    which they do not
        reach all others and return; they are closed to them.
    """

    graph: StreetGraph
    loose_parts: int
    loose_km: float
    closed_km: FloatArray

    def check(self, file: str) -> None:
        """Raises BadInput where pedestrians may enter no street of a file."""
        if not (self.graph.speed_m_s[..., WALK] > 0).any():
            raise BadInput(
                f"{file}: no street in the area is open to pedestrians; give one with "
                f"footways or side streets"
            )

    def notices(self, file: str) -> Notices:
        """What is not open in the streets of a file."""
        if self.loose_parts:
            yield notice(
                "streets-unconnected", file=file, number=self.loose_parts, length_km=self.loose_km
            )
        names = ("pedestrians", "bicycles", "cars")
        closed = [
            f"{km:.3g} km to {name}"
            for name, km in zip(names, self.closed_km.tolist(), strict=True)
            if km > 0
        ]
        if closed:
            yield notice("streets-closed", file=file, closed=", ".join(closed))


def assemble_streets(lines: StreetLines, snap_m: float = SNAP_M) -> StreetAssembly:
    """The street graph of polylines.

    Lines are joined at vertices that they share, and at an end of a line that is within snap_m of a
    vertex of another one. Lines that merely cross are not joined, nor are lines of different layers
    at vertices inside both. Streets that cover the same segment become one street that is open to
    the modes of both. Nodes are vertices where streets meet, end, or change class or speed; all
    other vertices belong to the centre line of a street. A loop that begins and ends at one node
    has a second node in its middle, so no street leads from a node to itself.

    The graph is the weakly connected part with the greatest length of streets. In it each mode
    keeps the streets on which it reaches every other and returns: the strongly connected component
    of the greatest length.
    """
    vertex, position_m = _join_lines(lines, snap_m)
    graph = _build_streets(_StraightSegments.from_lines(lines, vertex), position_m)
    part, count = _keep_largest_component(graph, np.ones((len(graph), 2), bool), "weak")
    loose_km = _measure_km(graph, ~part)
    speed_m_s = graph.speed_m_s * part[:, :, None]
    closed_km = np.zeros(len(MODES))
    for mode in range(len(MODES)):
        open_to = speed_m_s[:, :, mode] > 0
        kept, _ = _keep_largest_component(graph, open_to, "strong")
        closed_km[mode] = _measure_km(graph, open_to) - _measure_km(graph, kept)
        speed_m_s[:, :, mode] *= kept
    street = np.flatnonzero((speed_m_s > 0).any(axis=(1, 2)))
    node, ends = np.unique(graph.ends[street], return_inverse=True)
    path = graph.path.select(street)
    kept_graph = StreetGraph(
        node_m=graph.node_m[node],
        ends=ends.reshape(-1, 2),
        street_class=graph.street_class[street],
        speed_m_s=speed_m_s[street],
        path=path,
    )
    return StreetAssembly(kept_graph, max(count - 1, 0), loose_km, closed_km)


def _join_lines(lines: StreetLines, snap_m: float) -> tuple[IntArray, FloatArray]:
    """The point (v,) that each vertex stands for, and the positions of the points (p, 2)."""
    path = lines.path
    layer = lines.layer[path.owner]
    is_end = np.zeros(len(layer), bool)
    is_end[path.first[:-1]] = is_end[path.first[1:] - 1] = True
    place = _number_rows(*np.round(path.vertex_m / _ROUNDING_M).T)
    # vertices inside lines of different layers stay apart, unless a line ends there
    has_end = np.zeros(place.max(initial=-1) + 1, bool)
    has_end[place[is_end]] = True
    point = _number_rows(place, np.where(has_end[place], 0, layer))
    _, row = np.unique(point, return_index=True)
    at_m = path.vertex_m[row]
    a, b = _find_near_pairs(at_m, np.unique(point[is_end]), layer[row], has_end[place[row]], snap_m)
    group = label_components(a, b, len(row), "weak")
    _, first = np.unique(group, return_index=True)
    return group[point].astype(int), at_m[first]


def label_components(tail: IntArray, head: IntArray, n: int, connection: str) -> IntArray:
    """The number of the component (n,), weak or strong, of each of n nodes that are linked in pairs
    (k,).
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(tail)), (tail, head)), shape=(n, n))
    return connected_components(links, connection=connection)[1]


def _find_near_pairs(
    at_m: FloatArray, ends: IntArray, layer: IntArray, has_end: BoolArray, snap_m: float
) -> IntArrayPair:
    """Pairs of an end and a point nearer than snap_m to it: another end, or a vertex of the same
    layer.
    """
    from scipy.spatial import cKDTree

    nearest = np.arange(1, min(_NEIGHBOURS, len(at_m)) + 1)
    away_m, neighbour = cKDTree(at_m).query(at_m[ends], k=nearest, distance_upper_bound=snap_m)
    row, column = np.nonzero(np.isfinite(away_m))
    a = ends[row]
    b = neighbour[row, column]
    joined = has_end[b] | (layer[a] == layer[b])
    return a[joined], b[joined]


@frozen
class _StraightSegments:
    """Straight segments between points (s, 2), the smaller one first; every pair of points once, in
    order.

    street_class (s,); speed_m_s (s, 2, 3) : from the first point to the second, and back.
    """

    point: IntArray
    street_class: IntArray
    speed_m_s: FloatArray

    @classmethod
    def from_lines(cls, lines: StreetLines, vertex: IntArray) -> _StraightSegments:
        """The segments of lines whose vertices stand for the points `vertex` (v,)."""
        step = lines.path.step_starts
        point = np.stack([vertex[step], vertex[step + 1]], axis=1)
        proper = point[:, 0] != point[:, 1]
        point = point[proper]
        owner = lines.path.owner[step[proper]]
        speed_m_s = lines.speed_m_s[owner]
        turned = point[:, 0] > point[:, 1]
        speed_m_s[turned] = speed_m_s[turned, ::-1]
        point = np.sort(point, axis=1)
        segment = _number_rows(*point.T)
        _, row = np.unique(segment, return_index=True)
        fastest_m_s = np.zeros((len(row), *speed_m_s.shape[1:]))
        np.maximum.at(fastest_m_s, segment, speed_m_s)
        street_class = np.full(len(row), np.iinfo(np.int64).max)
        np.minimum.at(street_class, segment, lines.street_class[owner])
        return cls(point[row], street_class, fastest_m_s)

    def find_inner_points(self, n_points: int) -> BoolArray:
        """Which points (p,) lie inside a street: two segments of equal class and speeds meet
        there.
        """
        back_m_s = self.speed_m_s[:, ::-1]
        leaving = np.concatenate([self.speed_m_s, back_m_s]).reshape(2 * len(self.point), -1)
        kind = _number_rows(np.tile(self.street_class, 2), *leaving.T).reshape(2, -1).T
        end = np.argsort(self.point.ravel(), kind="stable")
        count = np.bincount(self.point.ravel(), minlength=n_points)
        joints = np.flatnonzero(count == 2)
        first = (np.cumsum(count) - count)[joints]
        inner = np.zeros(n_points, bool)
        # one segment as it leaves, the other as it arrives
        leaving_kind = kind.ravel()[end[first]]
        arriving_kind = kind[:, ::-1].ravel()[end[first + 1]]
        inner[joints] = leaving_kind == arriving_kind
        return inner


def _number_rows(*columns: FloatArray | IntArray) -> IntArray:
    """Numbers (n,) from 0 on that are equal where all columns (n,) are, in lexicographic order."""
    number = np.zeros(len(columns[0]), int)
    for column in columns:
        _, value = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (value.max(initial=0) + 1) + value, return_inverse=True)
    return number


def _build_streets(segments: _StraightSegments, position_m: FloatArray) -> StreetGraph:
    """Streets from node to node; points inside of them belong to their centre lines."""
    n = len(position_m)
    inner = segments.find_inner_points(n)
    for _ in range(2):  # loops are cut in their middle
        point, first = _chain_segments(segments, inner)
        starts = first[:-1]
        begin = point[starts]
        end = point[first[1:] - 1]
        loop = begin == end
        middle = (starts + first[1:])[loop] // 2
        inner[begin[loop]] = inner[point[middle]] = False
    following = point[starts + 1]
    key = segments.point[:, 0] * n + segments.point[:, 1]
    segment = np.searchsorted(key, np.minimum(begin, following) * n + np.maximum(begin, following))
    speed_m_s = segments.speed_m_s[segment]
    turned = begin > following
    speed_m_s[turned] = speed_m_s[turned, ::-1]
    path = Paths.from_vertices(position_m[point], np.diff(first))
    return StreetGraph(
        position_m, np.stack([begin, end], axis=1), segments.street_class[segment], speed_m_s, path
    )


def _chain_segments(segments: _StraightSegments, inner: BoolArray) -> IntArrayPair:
    """Runs of segments from node to node: the points (v,) that they pass, and where each begins
    among them (c + 1,).

    Segments are merged as lines between places (point, 0); at a node each has a place of its own,
    (node, end).
    """
    import shapely

    number = np.arange(segments.point.size).reshape(-1, 2)
    level = np.where(inner[segments.point], 0, 1 + number)
    line = shapely.linestrings(np.stack([segments.point, level], axis=2))
    path = Paths.from_lines(shapely.get_parts(shapely.line_merge(shapely.multilinestrings(line))))
    return path.vertex_m[:, 0].astype(int), path.first


def _keep_largest_component(
    graph: StreetGraph, open_to: BoolArray, connection: str
) -> tuple[BoolArray, int]:
    """The open directions (s, 2) in the component of the greatest length, and the number of
    components.
    """
    head = graph.ends[:, ::-1][open_to]
    label = label_components(graph.ends[open_to], head, len(graph.node_m), connection)
    begin, end = label[graph.ends].T
    inside = open_to & (begin == end)[:, None]
    street = inside.any(axis=1)
    length_m = np.bincount(begin[street], weights=graph.length_m[street], minlength=1)
    return inside & (begin == length_m.argmax())[:, None], len(np.unique(begin[street]))


def _measure_km(graph: StreetGraph, open_to: BoolArray) -> float:
    return graph.length_m[open_to.any(axis=1)].sum() / 1e3

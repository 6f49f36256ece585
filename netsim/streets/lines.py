"""Streets as polylines, before they are connected to a graph."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from netsim.geometry import Area
from netsim.streets.speeds import usual_m_s
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class StreetLines:
    """Centre lines of n streets.

    vertex_m (v, 2), first (n + 1,) : line k has the vertices vertex_m[first[k]:first[k + 1]], two at least.
    street_class (n,) : index into `graph.CLASSES`.
    forward_m_s, backward_m_s (n, 3) : speed of each of `graph.MODES` along the line and against it, 0 where the mode
        is not allowed.
    layer (n,) : 0 on the ground; lines of different layers (bridges, tunnels) meet at ends of lines only.
    """

    vertex_m: FloatArray
    first: IntArray
    street_class: IntArray
    forward_m_s: FloatArray
    backward_m_s: FloatArray
    layer: IntArray

    def __len__(self) -> int:
        return len(self.first) - 1

    @classmethod
    def two_way(cls, vertex_m: FloatArray, first: IntArray, street_class: IntArray) -> StreetLines:
        """Streets on the ground that are used in both directions, at the usual speeds of their classes."""
        speed_m_s = usual_m_s(street_class)
        return cls(vertex_m, first, street_class, speed_m_s, speed_m_s, np.zeros(len(first) - 1, dtype=np.int64))

    @property
    def owner(self) -> IntArray:
        """The line of every vertex (v,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    @property
    def is_end(self) -> BoolArray:
        """Which vertices (v,) are ends of lines."""
        ends = np.zeros(len(self.vertex_m), dtype=np.bool_)
        ends[self.first[:-1]] = ends[self.first[1:] - 1] = True
        return ends

    @property
    def steps(self) -> IntArray:
        """The first vertex (s,) of every straight segment; the second one follows it."""
        inner = np.ones(len(self.vertex_m), dtype=np.bool_)
        inner[self.first[1:] - 1] = False
        return np.flatnonzero(inner)

    def _pieces(self, vertex_m: FloatArray, first: IntArray, line: IntArray) -> StreetLines:
        """Lines of new vertices, each with the attributes of the old line (m,) that it belongs to."""
        attributes = {
            name: getattr(self, name)[line] for name in ("street_class", "forward_m_s", "backward_m_s", "layer")
        }
        return replace(self, vertex_m=vertex_m, first=first, **attributes)

    def clipped(self, area: Area) -> StreetLines:
        """The parts of the lines inside the area; a line that leaves and returns becomes several."""
        step = self.steps
        a_m, b_m = self.vertex_m[step], self.vertex_m[step + 1]
        enter, leave = _inside(a_m, b_m, area)
        kept = leave > enter
        step, a_m, b_m, enter, leave = step[kept], a_m[kept], b_m[kept], enter[kept], leave[kept]
        way_m = b_m - a_m
        from_m = np.where(enter[:, None] > 0, a_m + enter[:, None] * way_m, a_m)
        to_m = np.where(leave[:, None] < 1, a_m + leave[:, None] * way_m, b_m)
        follows = np.zeros(len(step), dtype=np.bool_)  # the segment before is of the same line, and ends here
        follows[1:] = (step[1:] == step[:-1] + 1) & (enter[1:] == 0) & (leave[:-1] == 1)
        begins = np.flatnonzero(~follows)
        at = np.arange(len(step)) + np.cumsum(~follows) - 1  # place of from_m among the new vertices
        vertex_m = np.empty((len(step) + len(begins), 2))
        vertex_m[at], vertex_m[at + 1] = from_m, to_m
        vertex_m[at] = from_m
        first = np.append(at[begins], len(vertex_m))
        return self._pieces(vertex_m, first, self.owner[step[begins]])


def _inside(a_m: FloatArray, b_m: FloatArray, area: Area) -> tuple[FloatArray, FloatArray]:
    """Shares of the way from a_m to b_m (s, 2) at which it enters and leaves the area (s,), none if leave <= enter.

    Clipping of lines against a rectangle after Liang and Barsky, ACM Trans. Graph. 3(1), 1984.
    """
    way_m = b_m - a_m
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (area.low_m - a_m) / way_m, (area.high_m - a_m) / way_m
    still = way_m == 0
    within = (a_m >= area.low_m) & (a_m <= area.high_m)
    near = np.where(still, np.where(within, -np.inf, np.inf), np.minimum(low, high))
    far = np.where(still, np.where(within, np.inf, -np.inf), np.maximum(low, high))
    return np.maximum(near.max(axis=1), 0.0), np.minimum(far.min(axis=1), 1.0)

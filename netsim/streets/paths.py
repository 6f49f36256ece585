"""Polylines of any number of vertices, and positions on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netsim.columns import frozen
from netsim.maps.geojson import Shapes
from netsim.units import FloatArray, IntArray


@frozen
class Paths:
    """Polylines, n of them: path i passes vertex_m[first[i]:first[i + 1]] (v, 2).

    along (v,) : what has passed since the beginning of the path, ascending: a distance in m, or a time in s.
    """

    vertex_m: FloatArray
    first: IntArray
    along: FloatArray

    @classmethod
    def measured(cls, vertex_m: FloatArray, count: IntArray) -> Paths:
        """Paths of so many vertices each (n,), by distance."""
        first = np.append(0, np.cumsum(count))
        step_m = np.linalg.norm(np.diff(vertex_m, axis=0, prepend=vertex_m[:1]), axis=1)
        total_m = np.cumsum(step_m)
        return cls(vertex_m, first, total_m - np.repeat(total_m[first[:-1]], count))

    @classmethod
    def of(cls, line: Shapes) -> Paths:
        """The paths of shapely lines (n,), by distance."""
        import shapely

        vertex_m, owner = shapely.get_coordinates(line, return_index=True)
        return cls.measured(vertex_m, np.bincount(owner, minlength=len(line)))

    @classmethod
    def none(cls, count: int) -> Paths:
        """Paths without vertices."""
        return cls(np.zeros((0, 2)), np.zeros(count + 1, dtype=np.int64), np.zeros(0))

    @classmethod
    def join(cls, pieces: Sequence[Paths]) -> Paths:
        """All paths, one after the other."""
        count = np.concatenate([np.diff(each.first) for each in pieces])
        vertex_m = np.concatenate([each.vertex_m for each in pieces])
        return cls(vertex_m, np.append(0, np.cumsum(count)), np.concatenate([each.along for each in pieces]))

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def owner(self) -> IntArray:
        """The path of every vertex (v,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    @property
    def span(self) -> FloatArray:
        """Length or duration of every path (n,)."""
        return self.along[self.first[1:] - 1]

    @property
    def steps(self) -> IntArray:
        """The vertices (k,) that another one of the same path follows."""
        inner = np.ones(len(self.vertex_m), dtype=np.bool_)
        inner[self.first[1:] - 1] = False
        return np.flatnonzero(inner)

    def lines(self) -> Shapes:
        """Shapely lines (n,)."""
        import shapely

        return np.asarray(shapely.linestrings(self.vertex_m, indices=self.owner))

    def select(self, rows: IntArray) -> Paths:
        """The paths of these indices (k,)."""
        count = np.diff(self.first)[rows]
        first = np.append(0, np.cumsum(count))
        vertex = np.arange(first[-1]) + np.repeat(self.first[rows] - first[:-1], count)
        return Paths(self.vertex_m[vertex], first, self.along[vertex])

    def position(self, row: IntArray, passed: FloatArray) -> FloatArray:
        """Positions (k, 2) on paths `row` (k,), of two vertices or more, after a distance or time each."""
        i = self.first[row]
        last = self.first[row + 1] - 2
        while (i < last).any():  # bisection: the last vertex that has been reached
            middle = (i + last + 1) // 2
            reached = self.along[middle] <= passed
            i = np.where(reached, middle, i)
            last = np.where(reached, last, middle - 1)
        span = self.along[i + 1] - self.along[i]
        done = np.divide(passed - self.along[i], span, out=np.ones(len(i)), where=span > 0)
        done = np.clip(done, 0.0, 1.0)[:, None]
        # this form, not from + done * way, so that a vertex itself is met exactly
        return np.asarray((1.0 - done) * self.vertex_m[i] + done * self.vertex_m[i + 1])

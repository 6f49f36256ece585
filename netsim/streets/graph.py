"""Polylines, and the street graph: streets with a centre line, a class, and a speed by mode of
travel and direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from netsim.columns import compute_bounds, divide_or, frozen, no_floats, no_places, select_groups
from netsim.maps import Shapes
from netsim.units import FloatArray, IntArray


@frozen
class Paths:
    """Polylines, n of them: path i passes vertex_m[first[i]:first[i + 1]] (v, 2).

    along (v,) : what has passed since the beginning of the path, ascending: a distance in m, or a
    time in s.
    """

    vertex_m: FloatArray
    first: IntArray
    along: FloatArray

    @classmethod
    def from_vertices(cls, vertex_m: FloatArray, count: IntArray) -> Paths:
        """Paths of so many vertices each (n,), by distance."""
        first = compute_bounds(count)
        step_m = np.linalg.norm(np.diff(vertex_m, axis=0, prepend=vertex_m[:1]), axis=1)
        total_m = np.cumsum(step_m)
        return cls(vertex_m, first, total_m - np.repeat(total_m[first[:-1]], count))

    @classmethod
    def from_lines(cls, line: Shapes) -> Paths:
        """The paths of shapely lines (n,), by distance."""
        import shapely

        vertex_m, owner = shapely.get_coordinates(line, return_index=True)
        return cls.from_vertices(vertex_m, np.bincount(owner, minlength=len(line)))

    @classmethod
    def none(cls, count: int) -> Paths:
        """Paths without vertices."""
        return cls(no_places(), np.zeros(count + 1, int), no_floats())

    @classmethod
    def join(cls, pieces: Sequence[Paths]) -> Paths:
        """All paths, one after the other."""
        count = np.concatenate([np.diff(paths.first) for paths in pieces])
        vertex_m = np.concatenate([paths.vertex_m for paths in pieces])
        along = np.concatenate([paths.along for paths in pieces])
        return cls(vertex_m, compute_bounds(count), along)

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
    def step_starts(self) -> IntArray:
        """The vertices (k,) that another one of the same path follows."""
        inner = np.ones(len(self.vertex_m), bool)
        inner[self.first[1:] - 1] = False
        return np.flatnonzero(inner)

    def to_lines(self) -> Shapes:
        """Shapely lines (n,)."""
        import shapely

        return shapely.linestrings(self.vertex_m, indices=self.owner)

    def select(self, rows: IntArray) -> Paths:
        """The paths of these indices (k,)."""
        first, vertex = select_groups(self.first, rows)
        return Paths(self.vertex_m[vertex], first, self.along[vertex])

    def interpolate_m(self, row: IntArray, passed: FloatArray) -> FloatArray:
        """Positions (k, 2) on paths `row` (k,), of two vertices or more, after a distance or time
        each.
        """
        i = self.first[row]
        last = self.first[row + 1] - 2
        while (i < last).any():  # bisection: the last vertex that has been reached
            middle = (i + last + 1) // 2
            reached = self.along[middle] <= passed
            i = np.where(reached, middle, i)
            last = np.where(reached, last, middle - 1)
        span = self.along[i + 1] - self.along[i]
        done = np.clip(divide_or(passed - self.along[i], span, 1.0), 0.0, 1.0)[:, None]
        # this form, not from + done * way, so that a vertex itself is met exactly
        return (1.0 - done) * self.vertex_m[i] + done * self.vertex_m[i + 1]


MODES = ("walk", "cycle", "drive")
"""Modes of travel, in the order of the columns of `speed_m_s`."""
WALK, CYCLE, DRIVE = range(3)
CLASSES = ("primary", "secondary", "tertiary", "residential", "service", "pedestrian", "path")
"""Street classes from main to minor; names after OpenStreetMap's key highway."""
KM_H = 1 / 3.6
"""one kilometre per hour in m/s"""
WALK_M_S = 1.4
CYCLE_M_S = 4.5
DRIVE_M_S = np.array([50, 50, 40, 30, 15, 0, 0]) * KM_H
"""Speed of cars on each of `CLASSES` where no limit is known; 0 where cars are not allowed."""


@frozen
class StreetGraph:
    """n nodes, and s streets between them.

    node_m (n, 2) : junctions and ends of streets. ends (s, 2) : nodes at which the centre line of a
    street begins and ends. street_class (s,) : index into `CLASSES`. speed_m_s (s, 2, 3) : travel
    speed of each of `MODES` along the centre line and against it, 0 where the mode is not
        allowed.
    path : the centre lines.
    """

    node_m: FloatArray
    ends: IntArray
    street_class: IntArray
    speed_m_s: FloatArray
    path: Paths

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def length_m(self) -> FloatArray:
        """Length of every street (s,), m."""
        return self.path.span

    def to_pieces(self) -> FloatArray:
        """Straight pieces of all streets (k, 2, 2)."""
        step = self.path.step_starts
        vertex_m = self.path.vertex_m
        return np.stack([vertex_m[step], vertex_m[step + 1]], axis=1)


def look_up_default_speeds_m_s(street_class: IntArray) -> FloatArray:
    """Speeds (n, 2, 3) of `MODES` in both directions of streets of classes (n,), without a speed
    limit.

    Pedestrians use all classes at 1.4 m/s, bicycles all except `pedestrian` at 4.5 m/s, and cars
    `DRIVE_M_S`.
    """
    table = np.zeros((len(CLASSES), 2, len(MODES)))
    table[:, :, WALK] = WALK_M_S
    table[:, :, CYCLE] = CYCLE_M_S
    table[CLASSES.index("pedestrian"), :, CYCLE] = 0.0
    table[:, :, DRIVE] = DRIVE_M_S[:, None]
    return table[street_class]

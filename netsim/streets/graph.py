"""The street graph: streets with a centre line, a class, and a speed for each mode of travel and direction."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from netsim.columns import frozen
from netsim.streets.paths import Paths
from netsim.units import FloatArray, IntArray

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

    node_m (n, 2) : junctions and ends of streets.
    ends (s, 2) : nodes at which the centre line of a street begins and ends.
    street_class (s,) : index into `CLASSES`.
    speed_m_s (s, 2, 3) : travel speed of each of `MODES` along the centre line and against it, 0 where the mode is not
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

    def pieces(self) -> FloatArray:
        """Straight pieces of all streets (k, 2, 2)."""
        step = self.path.steps
        return np.stack([self.path.vertex_m[step], self.path.vertex_m[step + 1]], axis=1)


def usual_m_s(street_class: IntArray) -> FloatArray:
    """Speeds (n, 2, 3) of `MODES` in both directions of streets of classes (n,), without a speed limit.

    Pedestrians use all classes at 1.4 m/s, bicycles all except `pedestrian` at 4.5 m/s, and cars `DRIVE_M_S`.
    """
    table = np.zeros((len(CLASSES), 2, len(MODES)))
    table[:, :, WALK] = WALK_M_S
    table[:, :, CYCLE] = CYCLE_M_S
    table[CLASSES.index("pedestrian"), :, CYCLE] = 0.0
    table[:, :, DRIVE] = DRIVE_M_S[:, None]
    return table[street_class]

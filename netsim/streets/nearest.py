"""Nearest points of streets that are open to a mode of travel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.columns import no_ints
from netsim.streets.doors import Access
from netsim.streets.graph import StreetGraph
from netsim.units import FloatArray, IntArray


class Nearest:
    """Finds the nearest points of the streets of a graph that are open to one mode.

    mode : index into `graph.MODES`.
    """

    def __init__(self, graph: StreetGraph, mode: int) -> None:
        import shapely

        is_open = graph.speed_m_s[:, mode] > 0
        # of the two directions of a street, the one that stands first
        again = (graph.twin >= 0) & (graph.twin < np.arange(len(graph))) & is_open[graph.twin]
        self.edge = np.flatnonzero(is_open & ~again)
        count = np.diff(graph.first)
        row = np.repeat(np.isin(np.arange(len(graph)), self.edge), count)
        owner = np.repeat(np.arange(len(self.edge)), count[self.edge])
        self.line: npt.NDArray[Any] = shapely.linestrings(graph.vertex_m[row], indices=owner)
        self._tree = shapely.STRtree(self.line)

    def access(self, position_m: FloatArray) -> Access:
        """The nearest point to each position (k, 2); edge -1 and NaN where no street is open to the mode."""
        import shapely

        point = shapely.points(position_m)
        row, line = self.pairs(point, np.inf)
        edge, along_m = np.full(len(point), -1), np.full(len(point), np.nan)
        at_m = np.full((len(point), 2), np.nan)
        edge[row] = self.edge[line]
        along_m[row] = shapely.line_locate_point(self.line[line], point[row])
        at_m[row] = shapely.get_coordinates(shapely.line_interpolate_point(self.line[line], along_m[row]))
        return Access(edge, along_m, at_m)

    def pairs(self, shape: npt.NDArray[Any], within_m: float) -> tuple[IntArray, IntArray]:
        """Pairs of a shape (k,) and its nearest line, for shapes that have one within that distance."""
        if not len(self.line) or not len(shape):
            nothing = no_ints()
            return nothing, nothing
        limit = None if np.isinf(within_m) else within_m
        row, line = self._tree.query_nearest(shape, max_distance=limit, all_matches=False)
        return row, line

"""Look-ups in fields on a grid, compiled: a field has a row of numbers per node, one per site."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled
from netsim.units import BoolArray, FloatArray, IntArray

Table = npt.NDArray[np.float32]


@compiled
def weights(x: float, y: float, side: float, diagonal: float) -> tuple[float, float, float, float]:
    """Bilinear weights at (x, y) of a unit cell, scaled to variance 1 for corners with such covariances.

    With b = 2 x (1 - x) on each axis the variance is
    (1 - b_x)(1 - b_y) + c_side (b_x (1 - b_y) + (1 - b_x) b_y) + c_diagonal b_x b_y.
    """
    left, down = 1.0 - x, 1.0 - y
    bx, by = 2.0 * x * left, 2.0 * y * down
    variance = 1.0 + (side - 1.0) * (bx + by) + (1.0 - 2.0 * side + diagonal) * (bx * by)
    scale = 1.0 / np.sqrt(variance)
    left, x = left * scale, x * scale
    return left * down, x * down, left * y, x * y


@compiled
def _cell(at: float, top: float) -> tuple[int, float]:
    """The cell of a place on an axis in cells, the last node of which is `top`, and where in the cell; NaN of NaN."""
    at = 0.0 if at < 0.0 else at
    at = top if at > top else at
    cell = int(at if at < top - 1.0 else top - 1.0)  # a NaN takes any cell: its weights are NaN
    return cell, at - cell


@compiled
def interpolated(
    table: Table,
    nx: int,
    position_m: FloatArray,
    low_m: FloatArray,
    step_m: float,
    side: float,
    diagonal: float,
    column: IntArray,
) -> FloatArray:
    """Values (n, n_bs) at positions (n, 2): `weights` times the rows (nodes, n_site) of the four corners of the cell.

    In single precision. nx: nodes of a grid row; low_m (2,), step_m: its first node, and the distance of nodes; column
    (n_bs,): the site of each base station, empty where every site has one. Outside: the value at the edge; NaN of NaN.
    """
    n, n_site = len(position_m), table.shape[1]
    top_x, top_y = nx - 1.0, len(table) // nx - 1.0
    node, weight = np.empty(n, np.int64), np.empty((n, 4), np.float32)
    for i in range(n):
        x, in_x = _cell((position_m[i, 0] - low_m[0]) / step_m, top_x)
        y, in_y = _cell((position_m[i, 1] - low_m[1]) / step_m, top_y)
        node[i] = y * nx + x
        weight[i, 0], weight[i, 1], weight[i, 2], weight[i, 3] = weights(in_x, in_y, side, diagonal)
    out, row = np.empty((n, len(column) or n_site)), np.empty(n_site, np.float32)
    for i in range(n):
        a, b, c, d = weight[i, 0], weight[i, 1], weight[i, 2], weight[i, 3]
        p, q, r, s = table[node[i]], table[node[i] + 1], table[node[i] + nx], table[node[i] + nx + 1]
        for j in range(n_site):
            row[j] = a * p[j] + b * q[j] + c * r[j] + d * s[j]
        if len(column):
            for j in range(len(column)):
                out[i, j] = row[column[j]]
        else:
            for j in range(n_site):
                out[i, j] = row[j]
    return out


@compiled
def below(
    table: Table,
    nx: int,
    position_m: FloatArray,
    low_m: FloatArray,
    step_m: float,
    column: IntArray,
    most: FloatArray,
) -> BoolArray:
    """Where the value at the nearest node is below `most`, both (n, n_bs); arguments as those of `interpolated`."""
    n, n_bs = most.shape
    top_x, top_y = nx - 1.0, len(table) // nx - 1.0
    node, out = np.empty(n, np.int64), np.empty((n, n_bs), np.bool_)
    for i in range(n):
        x = (position_m[i, 0] - low_m[0]) / step_m + 0.5
        y = (position_m[i, 1] - low_m[1]) / step_m + 0.5
        x = x if x < top_x else top_x  # a NaN takes any node: nothing is below it
        y = y if y < top_y else top_y
        node[i] = int(0.0 if y < 0.0 else y) * nx + int(0.0 if x < 0.0 else x)
    for i in range(n):
        row = table[node[i]]
        if len(column):
            for b in range(n_bs):
                out[i, b] = row[column[b]] < most[i, b]
        else:
            for b in range(n_bs):
                out[i, b] = row[b] < most[i, b]
    return out

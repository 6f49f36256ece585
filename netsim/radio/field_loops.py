"""Look-ups in fields on a grid, compiled: a field has a row of numbers a node, one a site.

No cache holds such a table, and where UEs are follows no order, so the rows of UEs that come soon are asked for while
those of others are worked on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from netsim.compiled import compiled
from netsim.units import BoolArray, FloatArray, IntArray

Table = npt.NDArray[np.float32]

_AHEAD = 8  # UEs between the one whose rows are asked for and the one that is worked on
_LINE = 16  # numbers of a cache line


def _asking(typing: Any, table: Any, row: Any, column: Any) -> Any:
    """Asks the memory for table[row, column], which must exist, and goes on."""
    pointer: Any = cgutils.get_item_pointer

    def made(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = signature.args[0]
        array = context.make_array(kind)(context, builder, values[0])
        at = pointer(context, builder, kind, array, values[1:], wraparound=False)
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        law = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        read, kept, data = (ir.Constant(whole, n) for n in (0, 3, 1))
        asked = builder.module.declare_intrinsic("llvm.prefetch", (byte,), law)
        builder.call(asked, [builder.bitcast(at, byte), read, kept, data])
        return context.get_dummy_value()

    return types.void(table, row, column), made


_ask: Any = intrinsic(_asking)


@compiled
def _ask_rows(table: Table, row: int, many: int) -> None:
    """Asks for so many rows that follow one another."""
    for k in range(row, row + many):
        for j in range(0, table.shape[1], _LINE):
            _ask(table, k, j)
    _ask(table, row + many - 1, table.shape[1] - 1)


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
        if i + _AHEAD < n:
            _ask_rows(table, node[i + _AHEAD], 2)
            _ask_rows(table, node[i + _AHEAD] + nx, 2)
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
        if i + _AHEAD < n:
            _ask_rows(table, node[i + _AHEAD], 1)
        row = table[node[i]]
        if len(column):
            for b in range(n_bs):
                out[i, b] = row[column[b]] < most[i, b]
        else:
            for b in range(n_bs):
                out[i, b] = row[b] < most[i, b]
    return out

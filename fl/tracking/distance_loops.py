"""The point of least expected distance from a map of probabilities, compiled.

Sums run in float32 over many numbers side by side (a column, or one place of each chunk), which the processor adds at
once: they are right to a millionth.
"""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import Float32Array, FloatArray

Maps = Float32Array
"""maps (k, ny, nx), one of them (ny, nx), or numbers of places (n,)"""

_OWN = 0.3826  # mean distance from the middle of a unit square
_BLOCKS = 25  # a side, into which cells are gathered for the first steps
_FIRST, _LATER = 25, 12  # steps of the median, at most
_SURE = 0.05
_CHUNK = 64  # places, of which each has a sum of its own


@compiled
def block_side(ny: int, nx: int) -> int:
    """Cells a side of a block: at most 25 x 25 blocks cover a map."""
    return max((max(nx, ny) + _BLOCKS - 1) // _BLOCKS, 1)


@compiled
def gather(p: Maps, side: int, mass: FloatArray, at_x: FloatArray, at_y: FloatArray, top: Maps) -> None:
    """Mass, centre of mass in cells and largest probability of blocks of side x side cells."""
    ny, nx = p.shape
    column, moment, high = np.empty(nx, np.float32), np.empty(nx, np.float32), np.empty(nx, np.float32)
    for b in range(mass.shape[0]):
        column[:], moment[:], high[:] = 0.0, 0.0, 0.0
        for r in range(b * side, min((b + 1) * side, ny)):
            row, middle = p[r], np.float32(r - b * side + 0.5)
            for c in range(nx):
                value = row[c]
                column[c] += value
                moment[c] += value * middle
                high[c] = value if value > high[c] else high[c]
        for d in range(mass.shape[1]):
            whole, x, y, best = 0.0, 0.0, 0.0, np.float32(0.0)
            for c in range(d * side, min((d + 1) * side, nx)):
                whole += column[c]
                x += column[c] * (c + 0.5)
                y += moment[c]
                best = max(best, high[c])
            mass[b, d], top[b, d] = whole, best
            at_x[b, d] = x / whole if whole > 0 else 0.0
            at_y[b, d] = b * side + y / whole if whole > 0 else 0.0


@compiled
def median(
    p: Maps, side: int, mass: FloatArray, at_x: FloatArray, at_y: FloatArray, cx: float, cy: float
) -> tuple[float, float]:
    """Weiszfeld's iteration: on blocks, then with single cells in the blocks around the point."""
    x, y, whole = 0.0, 0.0, 0.0
    for b in range(mass.shape[0]):
        for d in range(mass.shape[1]):
            x += mass[b, d] * at_x[b, d] * cx
            y += mass[b, d] * at_y[b, d] * cy
            whole += mass[b, d]
    x, y = x / whole, y / whole
    most = mass.size + 9 * side * side + _CHUNK
    places = np.empty((3, most), np.float32)
    n = _fill(p, side, mass, at_x, at_y, cx, cy, -9, -9, places)
    fine, row, column = False, -9, -9
    for step in range(_FIRST + _LATER):
        now_row, now_column = int(y / cy) // side, int(x / cx) // side
        if fine and (now_row != row or now_column != column):
            row, column = now_row, now_column
            n = _fill(p, side, mass, at_x, at_y, cx, cy, row, column, places)
        move_x, move_y = _pull(places, n, x, y, _OWN**2 * cx * cy)
        x, y = x + move_x, y + move_y
        moved = abs(move_x) + abs(move_y)
        if fine and moved < 0.01 * (cx + cy):
            break
        fine = fine or step >= _FIRST or moved < 0.1 * (cx + cy)
    return x, y


@compiled
def _fill(
    p: Maps,
    side: int,
    mass: FloatArray,
    at_x: FloatArray,
    at_y: FloatArray,
    cx: float,
    cy: float,
    row: int,
    column: int,
    places: Maps,
) -> int:
    """x, y and mass (3, n) of blocks, and of the cells instead of the blocks around one; n, a multiple of the chunk."""
    n = 0
    for b in range(mass.shape[0]):
        for d in range(mass.shape[1]):
            if abs(b - row) <= 1 and abs(d - column) <= 1:
                for r in range(b * side, min((b + 1) * side, p.shape[0])):
                    for c in range(d * side, min((d + 1) * side, p.shape[1])):
                        places[0, n], places[1, n], places[2, n] = (c + 0.5) * cx, (r + 0.5) * cy, p[r, c]
                        n += 1
            else:
                places[0, n], places[1, n], places[2, n] = at_x[b, d] * cx, at_y[b, d] * cy, mass[b, d]
                n += 1
    while n % _CHUNK:
        places[:, n] = 0.0
        n += 1
    return n


@compiled
def _pull(places: Maps, n: int, x: float, y: float, own: float) -> tuple[float, float]:
    """One step of Weiszfeld's iteration from a point."""
    at_x, at_y, least = np.float32(x), np.float32(y), np.float32(own)
    sums = np.zeros((3, _CHUNK), np.float32)
    to_x, to_y, total = sums[0], sums[1], sums[2]
    for start in range(0, n, _CHUNK):
        px, py, mass = (
            places[0, start : start + _CHUNK],
            places[1, start : start + _CHUNK],
            places[2, start : start + _CHUNK],
        )
        for j in range(_CHUNK):
            dx, dy = px[j] - at_x, py[j] - at_y
            square = dx * dx + dy * dy
            w = np.divide(mass[j], np.sqrt(square if square > least else least))
            to_x[j] += w * dx
            to_y[j] += w * dy
            total[j] += w
    whole = 0.0
    move_x, move_y = 0.0, 0.0
    for j in range(_CHUNK):
        move_x += to_x[j]
        move_y += to_y[j]
        whole += total[j]
    return move_x / whole, move_y / whole


@compiled
def expected_distance(p: Maps, cx: float, cy: float, x: float, y: float) -> float:
    """sum_c p_c d(point, c): beyond the own cell the distance to the middle, within it that to a square."""
    ny, nx = p.shape
    own = np.float32(_OWN**2 * cx * cy)
    across, part = np.empty(nx, np.float32), np.zeros(nx, np.float32)
    for c in range(nx):
        across[c] = ((c + 0.5) * cx - x) ** 2
    for r in range(ny):
        row, along = p[r], np.float32(((r + 0.5) * cy - y) ** 2)
        for c in range(nx):
            square = across[c] + along
            part[c] += row[c] * np.sqrt(square if square > own else own)
    total = 0.0
    for c in range(nx):
        total += part[c]
    return total


@compiled
def distances_to(maps: Maps, cx: float, cy: float, at: FloatArray) -> FloatArray:
    """Expected distance (k,) of each map to its place (k, 2)."""
    out = np.empty(len(maps))
    for i in range(len(maps)):
        out[i] = expected_distance(maps[i], cx, cy, at[i, 0], at[i, 1])
    return out


@compiled
def medians(maps: Maps, cx: float, cy: float) -> FloatArray:
    """The point of least expected distance of each map, metres from its corner, and that distance: (k, 3)."""
    k, ny, nx = maps.shape
    out, side = np.empty((k, 3)), block_side(ny, nx)
    by, bx = (ny + side - 1) // side, (nx + side - 1) // side
    mass, at_x, at_y, top = np.empty((by, bx)), np.empty((by, bx)), np.empty((by, bx)), np.empty((by, bx), np.float32)
    for i in range(k):
        gather(maps[i], side, mass, at_x, at_y, top)
        x, y = median(maps[i], side, mass, at_x, at_y, cx, cy)
        error = expected_distance(maps[i], cx, cy, x, y)
        if top.max() > _SURE:  # the iteration reaches a point of much mass only in the limit
            row, column = np.divmod(np.argmax(maps[i]), nx)
            mode_x, mode_y = (column + 0.5) * cx, (row + 0.5) * cy
            at_mode = expected_distance(maps[i], cx, cy, mode_x, mode_y)
            if at_mode < error:
                x, y, error = mode_x, mode_y, at_mode
        out[i, 0], out[i, 1], out[i, 2] = x, y, error
    return out

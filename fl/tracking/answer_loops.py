"""The inner loops of `fl.tracking.answers`, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled
from netsim.units import FloatArray

Maps = npt.NDArray[np.float32]

_OWN = 0.3826  # mean distance from the middle of a unit square
_BLOCKS = 25  # a side, into which cells are gathered for the first steps
_FIRST, _LATER = 25, 12  # steps of the median, at most
_SURE = 0.05
_LEAST_BITS, _SHIFT = 0x2B800000, 16  # of a float of 2^-40; 128 steps an octave
_BUCKETS = (0x3F800000 - 0x2B800000 >> 16) + 2


@compiled
def answered(maps: Maps, cx: float, cy: float, share: FloatArray) -> FloatArray:
    """Columns as `fl.tracking.answers.answers` reads them, metres from the south-western corner: (k, 13)."""
    k, ny, nx = maps.shape
    out = np.empty((k, 13))
    side = max((max(nx, ny) + _BLOCKS - 1) // _BLOCKS, 1)
    by, bx = (ny + side - 1) // side, (nx + side - 1) // side
    mass, at_x, at_y = np.empty((by, bx)), np.empty((by, bx)), np.empty((by, bx))
    count, weight = np.empty(_BUCKETS, np.int64), np.empty(_BUCKETS)
    for i in range(k):
        p = maps[i]
        _gather(p, side, mass, at_x, at_y)
        x, y = _median(p, side, mass, at_x, at_y, cx, cy)
        best, mode_y, mode_x = p[0, 0], 0, 0
        for r in range(ny):
            for c in range(nx):
                value = p[r, c]
                if value > best:
                    best, mode_y, mode_x = value, r, c
        error = _expected(p, cx, cy, x, y)
        if best > _SURE:  # the iteration reaches a point of much mass only in the limit
            at_mode = _expected(p, cx, cy, (mode_x + 0.5) * cx, (mode_y + 0.5) * cy)
            if at_mode < error:
                error, x, y = at_mode, (mode_x + 0.5) * cx, (mode_y + 0.5) * cy
        out[i, 0], out[i, 1], out[i, 2] = x, y, error
        held, disc_y, disc_x = _best_disc(p, share, best)
        out[i, 3], out[i, 4], out[i, 5] = (disc_x + 0.5) * cx, (disc_y + 0.5) * cy, held
        _buckets(p, count, weight)
        out[i, 6], out[i, 7], out[i, 8] = (mode_x + 0.5) * cx, (mode_y + 0.5) * cy, _entropy(count, weight)
        for j, wanted in enumerate((0.5, 0.9)):
            cells, least = _credible(count, weight, wanted)
            out[i, 9 + j], out[i, 11 + j] = cells * cx * cy, least
    return out


@compiled
def distances_to(maps: Maps, cx: float, cy: float, at: FloatArray) -> FloatArray:
    """Expected distance (k,) of each map to its place (k, 2)."""
    out = np.empty(len(maps))
    for i in range(len(maps)):
        out[i] = _expected(maps[i], cx, cy, at[i, 0], at[i, 1])
    return out


@compiled
def _expected(p: Maps, cx: float, cy: float, x: float, y: float) -> float:
    own = _OWN**2 * cx * cy
    total = 0.0
    for r in range(p.shape[0]):
        dy = (r + 0.5) * cy - y
        part = 0.0
        for c in range(p.shape[1]):
            dx = (c + 0.5) * cx - x
            square = dx * dx + dy * dy
            # within the own cell the distance is that to a square, beyond it that to the middle
            part += p[r, c] * np.sqrt(square if square > own else own)
        total += part
    return total


@compiled
def _gather(p: Maps, side: int, mass: FloatArray, at_x: FloatArray, at_y: FloatArray) -> None:
    """Mass and centre of mass, in cells, of blocks of side x side cells."""
    mass[:], at_x[:], at_y[:] = 0.0, 0.0, 0.0
    for r in range(p.shape[0]):
        for c in range(p.shape[1]):
            b, d = r // side, c // side
            mass[b, d] += p[r, c]
            at_x[b, d] += p[r, c] * (c + 0.5)
            at_y[b, d] += p[r, c] * (r + 0.5)
    for b in range(mass.shape[0]):
        for d in range(mass.shape[1]):
            if mass[b, d] > 0:
                at_x[b, d] /= mass[b, d]
                at_y[b, d] /= mass[b, d]


@compiled
def _median(
    p: Maps, side: int, mass: FloatArray, at_x: FloatArray, at_y: FloatArray, cx: float, cy: float
) -> tuple[float, float]:
    """Weiszfeld's iteration: on blocks, then with single cells in the blocks around the point."""
    own = _OWN**2 * cx * cy
    x, y, whole = 0.0, 0.0, 0.0
    for b in range(mass.shape[0]):
        for d in range(mass.shape[1]):
            x += mass[b, d] * at_x[b, d] * cx
            y += mass[b, d] * at_y[b, d] * cy
            whole += mass[b, d]
    x, y = x / whole, y / whole
    fine = False
    for step in range(_FIRST + _LATER):
        to_x, to_y, total = 0.0, 0.0, 0.0
        row, column = int(y / cy) // side, int(x / cx) // side
        for b in range(mass.shape[0]):
            for d in range(mass.shape[1]):
                if mass[b, d] <= 0:
                    continue
                if fine and abs(b - row) <= 1 and abs(d - column) <= 1:
                    for r in range(b * side, min((b + 1) * side, p.shape[0])):
                        for c in range(d * side, min((d + 1) * side, p.shape[1])):
                            dx, dy = (c + 0.5) * cx - x, (r + 0.5) * cy - y
                            square = dx * dx + dy * dy
                            w = p[r, c] / np.sqrt(square if square > own else own)
                            to_x += w * (c + 0.5) * cx
                            to_y += w * (r + 0.5) * cy
                            total += w
                else:
                    dx, dy = at_x[b, d] * cx - x, at_y[b, d] * cy - y
                    square = dx * dx + dy * dy
                    w = mass[b, d] / np.sqrt(square if square > own else own)
                    to_x += w * at_x[b, d] * cx
                    to_y += w * at_y[b, d] * cy
                    total += w
        moved = abs(to_x / total - x) + abs(to_y / total - y)
        x, y = to_x / total, to_y / total
        if fine and moved < 0.01 * (cx + cy):
            break
        fine = fine or step >= _FIRST or moved < 0.1 * (cx + cy)
    return x, y


@compiled
def _best_disc(p: Maps, share: FloatArray, best: float) -> tuple[float, int, int]:
    """Mass and middle of the best disc.

    One whose cells all have less than best / (its cells) holds less than the disc around the mode.
    """
    ny, nx = p.shape
    ry, rx = share.shape[0] // 2, share.shape[1] // 2
    least = best / share.size
    y0, y1, x0, x1 = ny, -1, nx, -1
    for r in range(ny):
        for c in range(nx):
            if p[r, c] >= least:
                y0, y1, x0, x1 = min(y0, r), max(y1, r), min(x0, c), max(x1, c)
    held, at_y, at_x = np.float32(-1.0), 0, 0
    total = np.empty(nx, np.float32)
    low, high = max(x0 - rx, 0), min(x1 + rx, nx - 1) + 1
    for r in range(max(y0 - ry, 0), min(y1 + ry, ny - 1) + 1):
        total[low:high] = 0.0
        for dy in range(max(-ry, -r), min(ry, ny - 1 - r) + 1):
            for dx in range(-rx, rx + 1):
                part, row = np.float32(share[dy + ry, dx + rx]), p[r + dy]
                for c in range(max(low, -dx), min(high, nx - dx)):
                    total[c] += part * row[c + dx]
        for c in range(low, high):
            if total[c] > held:
                held, at_y, at_x = total[c], r, c
    return float(held), at_y, at_x


@compiled
def _buckets(p: Maps, count: npt.NDArray[np.int64], weight: FloatArray) -> None:
    """How many cells have a probability in each bucket of floats, and how much they have together."""
    count[:], weight[:] = 0, 0.0
    bits = p.view(np.int32)
    for r in range(p.shape[0]):
        for c in range(p.shape[1]):
            at = ((bits[r, c] - _LEAST_BITS) >> _SHIFT) + 1
            at = max(at, 0)
            count[at] += 1
            weight[at] += p[r, c]


@compiled
def _entropy(count: npt.NDArray[np.int64], weight: FloatArray) -> float:
    """Entropy in bits; the cells of a bucket, equal to a hundredth, are taken as equal."""
    total = 0.0
    for at in range(len(count)):
        if weight[at] > 0:
            total -= weight[at] * np.log2(weight[at] / count[at])
    return total


@compiled
def _credible(count: npt.NDArray[np.int64], weight: FloatArray, wanted: float) -> tuple[float, float]:
    """Number of cells of the smallest set with a probability, and the least probability of a cell in it."""
    held, cells = 0.0, 0.0
    wanted *= weight.sum()
    for at in range(len(count) - 1, -1, -1):
        if held + weight[at] >= wanted and count[at] > 0:
            each = weight[at] / count[at]
            more = np.ceil((wanted - held) / each) if each > 0 else 0.0
            return cells + more, _least(at)
        held += weight[at]
        cells += count[at]
    return cells, 0.0


@compiled
def _least(bucket: int) -> float:
    """The smallest float in a bucket."""
    if bucket == 0:
        return 0.0
    octave, part = divmod((bucket - 1) + (_LEAST_BITS >> _SHIFT), 128)
    return float(2.0 ** (octave - 127) * (1.0 + part / 128.0))

"""The inner loops of `fl.tracking.answers`, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fl.tracking.distance_loops import Maps, block_side, expected_distance, gather, median
from netsim.compiled import compiled
from netsim.units import FloatArray

_SURE = 0.05
_LARGE = 0.9  # the probability of the larger credible area
_LEAST_BITS, _SHIFT = 0x2B800000, 16  # of a float of 2^-40; 128 steps an octave
_BUCKETS = (0x3F800000 - 0x2B800000 >> 16) + 2
_ONE_BITS, _MANTISSA = 0x3F800000, 0x007FFFFF


@compiled
def answered(maps: Maps, cx: float, cy: float, share: FloatArray) -> FloatArray:
    """Columns as `fl.tracking.answers.answers` reads them, metres from the south-western corner: (k, 11)."""
    k, ny, nx = maps.shape
    out = np.empty((k, 11))
    side = block_side(ny, nx)
    by, bx = (ny + side - 1) // side, (nx + side - 1) // side
    mass, at_x, at_y, top = np.empty((by, bx)), np.empty((by, bx)), np.empty((by, bx)), np.empty((by, bx), np.float32)
    count, weight = np.empty(_BUCKETS, np.int64), np.empty(_BUCKETS)
    for i in range(k):
        p = maps[i]
        gather(p, side, mass, at_x, at_y, top)
        best = top.max()
        mode_y, mode_x = _first(p, side, top, best)
        out[i, 0], out[i, 1], out[i, 2] = _middle(p, side, mass, at_x, at_y, best, mode_y, mode_x, cx, cy)
        held, disc_y, disc_x = _best_disc(p, share, side, top, best)
        out[i, 3], out[i, 4], out[i, 5], out[i, 6] = (disc_x + 0.5) * cx, (disc_y + 0.5) * cy, held, _entropy(p)
        whole = mass.sum()
        low, high = _buckets(p, side, top, whole, best, count, weight)
        for j, wanted in enumerate((0.5, _LARGE)):
            cells, least = _credible(count, weight, low, high, wanted * whole)
            out[i, 7 + j], out[i, 9 + j] = cells * cx * cy, least
    return out


@compiled
def middles(maps: Maps, cx: float, cy: float) -> FloatArray:
    """The first two columns of `answered`: (k, 2)."""
    k, ny, nx = maps.shape
    out, side = np.empty((k, 2)), block_side(ny, nx)
    by, bx = (ny + side - 1) // side, (nx + side - 1) // side
    mass, at_x, at_y, top = np.empty((by, bx)), np.empty((by, bx)), np.empty((by, bx)), np.empty((by, bx), np.float32)
    for i in range(k):
        gather(maps[i], side, mass, at_x, at_y, top)
        best = top.max()
        mode_y, mode_x = _first(maps[i], side, top, best)
        out[i, 0], out[i, 1], _ = _middle(maps[i], side, mass, at_x, at_y, best, mode_y, mode_x, cx, cy)
    return out


@compiled
def _middle(
    p: Maps,
    side: int,
    mass: FloatArray,
    at_x: FloatArray,
    at_y: FloatArray,
    best: float,
    mode_y: int,
    mode_x: int,
    cx: float,
    cy: float,
) -> tuple[float, float, float]:
    """The point of least expected distance, and that distance."""
    x, y = median(p, side, mass, at_x, at_y, cx, cy)
    error = expected_distance(p, cx, cy, x, y)
    if best > _SURE:  # the iteration reaches a point of much mass only in the limit
        at_mode = expected_distance(p, cx, cy, (mode_x + 0.5) * cx, (mode_y + 0.5) * cy)
        if at_mode < error:
            return (mode_x + 0.5) * cx, (mode_y + 0.5) * cy, at_mode
    return x, y, error


@compiled
def _first(p: Maps, side: int, top: Maps, best: float) -> tuple[int, int]:
    """Row and column of the first cell with the largest probability."""
    for b in range(top.shape[0]):
        if top[b].max() < best:
            continue
        for r in range(b * side, min((b + 1) * side, p.shape[0])):
            for c in range(p.shape[1]):
                if p[r, c] >= best:
                    return r, c
    return 0, 0


@compiled
def _best_disc(p: Maps, share: FloatArray, side: int, top: Maps, best: float) -> tuple[float, int, int]:
    """Mass and middle of the best disc.

    One whose cells all have less than best / (its cells) holds less than the disc around the mode.
    """
    ny, nx = p.shape
    ry, rx = share.shape[0] // 2, share.shape[1] // 2
    least = best / share.size
    y0, y1, x0, x1 = ny, -1, nx, -1
    for b in range(top.shape[0]):
        for d in range(top.shape[1]):
            if top[b, d] >= least:
                y0, y1 = min(y0, b * side), max(y1, (b + 1) * side - 1)
                x0, x1 = min(x0, d * side), max(x1, (d + 1) * side - 1)
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
def _entropy(p: Maps) -> float:
    """- sum_c p_c log2 p_c, with log2 of the mantissa m as (m - 1) times a polynomial: right to 1.4e-6 bits."""
    ny, nx = p.shape
    bits, power, mantissa = p.view(np.int32), np.empty(nx, np.int32), np.empty(nx, np.int32)
    m, part = mantissa.view(np.float32), np.zeros(nx, np.float32)
    for r in range(ny):
        row, code = p[r], bits[r]
        for c in range(nx):
            power[c] = (code[c] >> 23) - 127
            mantissa[c] = code[c] & _MANTISSA | _ONE_BITS
        for c in range(nx):
            t = m[c] - np.float32(1.0)
            high = np.float32(0.21558853) + t * (np.float32(-0.09606625) + t * np.float32(0.02049035))
            low = np.float32(0.47770593) + t * (np.float32(-0.33924777) + t * high)
            log2 = np.float32(power[c]) + t * (np.float32(1.44269326) + t * (np.float32(-0.72116273) + t * low))
            part[c] -= row[c] * log2
    total = 0.0
    for c in range(nx):
        total += part[c]
    return total


@compiled
def _bucket(bits: int) -> int:
    """That of a float with these bits."""
    return max(((bits - _LEAST_BITS) >> _SHIFT) + 1, 0)


@compiled
def _buckets(
    p: Maps, side: int, top: Maps, whole: float, best: float, count: npt.NDArray[np.int64], weight: FloatArray
) -> tuple[int, int]:
    """How many cells have a probability in each bucket of floats, and how much they have together; the least bucket
    and the one after the largest. Cells in no credible area are left out: all of them hold less than 0.05.
    """
    ends = np.array([0.5 * (1.0 - _LARGE) * whole / p.size, best], np.float32)
    at = ends.view(np.int32)
    least, low, high = ends[0], _bucket(at[0]), _bucket(at[1]) + 1
    count[low:high], weight[low:high] = 0, 0.0
    bits = p.view(np.int32)
    for b in range(top.shape[0]):
        for d in range(top.shape[1]):
            if top[b, d] < least:
                continue
            for r in range(b * side, min((b + 1) * side, p.shape[0])):
                for c in range(d * side, min((d + 1) * side, p.shape[1])):
                    if p[r, c] >= least:
                        i = _bucket(bits[r, c])
                        count[i] += 1
                        weight[i] += p[r, c]
    return low, high


@compiled
def _credible(
    count: npt.NDArray[np.int64], weight: FloatArray, low: int, high: int, wanted: float
) -> tuple[float, float]:
    """Number of cells of the smallest set with a probability, and the least probability of a cell in it.

    The cells of a bucket, equal to a hundredth, are taken as equal.
    """
    held, cells = 0.0, 0.0
    for at in range(high - 1, low - 1, -1):
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

"""The log-likelihood of places for an update of a radio map, compiled; see `fl.radio_map.link_patterns`."""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray

_SEEN = 1e-3  # of a link's energy over the noise: what is weaker moves no likelihood
_RIDGE = 1e-12  # of links that touch the same cells alike


@compiled
def score(
    first: IntArray,
    links: int,
    cell: IntArray,
    link: IntArray,
    value: FloatArray,
    update: FloatArray,
    precision: FloatArray,
) -> FloatArray:
    """Log-likelihood of each place (n,), whose crossings by cell are first[i] to first[i + 1]; link: of the place."""
    out = np.empty(len(first) - 1)
    for i in range(len(out)):
        at = first[i]
        end = first[i + 1]
        energy = np.zeros(links)
        place = np.full(links, -1)
        for p in range(at, end):
            energy[link[p]] += value[p] * value[p] * precision[cell[p]]
        n = 0
        for p in range(links):
            if energy[p] > _SEEN:
                place[p] = n
                n += 1
        h = np.zeros((n, n))
        b = np.zeros(n)
        same = at  # the first crossing of the cell
        for p in range(at, end):
            if cell[p] != cell[same]:
                same = p
            row = place[link[p]]
            if row >= 0:
                weighted = value[p] * precision[cell[p]]
                b[row] += weighted * update[cell[p]]
                for q in range(same, p + 1):
                    if place[link[q]] >= 0:
                        h[row, place[link[q]]] += weighted * value[q]
        out[i] = _gain(h, b)
    return out


@compiled
def _gain(h: FloatArray, b: FloatArray) -> float:
    """b' (I + h)^-1 b / 2 - log det(I + h) / 2 of the lower half of h (n, n), which is overwritten, as b (n,).

    By the Cholesky factor of I + h, scaled to a unit diagonal.
    """
    n = len(b)
    unit = np.empty(n)
    gain = 0.0
    for p in range(n):
        unit[p] = 1.0 / np.sqrt(1.0 + h[p, p])
        gain += np.log(unit[p])
    for p in range(n):
        for q in range(p):
            h[p, q] *= unit[p] * unit[q]
        h[p, p] = 1.0 + _RIDGE
        b[p] *= unit[p]
    for p in range(n):
        mine = h[p]
        for q in range(p):
            other, inner = h[q], 0.0
            for k in range(q):
                inner += mine[k] * other[k]
            mine[q] = (mine[q] - inner) / other[q]
        square, along = 0.0, 0.0
        for k in range(p):
            square += mine[k] * mine[k]
            along += mine[k] * b[k]
        mine[p] = np.sqrt(max(mine[p] - square, _RIDGE))
        b[p] = (b[p] - along) / mine[p]
        gain += b[p] * b[p] / 2 - np.log(mine[p])
    return gain

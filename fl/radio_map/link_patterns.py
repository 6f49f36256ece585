r"""Patterns that a device at a place would send about its links, and their likelihood given an
update.

An update of a device at u is y = A(u) e + n: column j of A(u) is the gradient by an error of one
unit on link j alone, e ~ N(0, I) are the errors of the links, n ~ N(0, Sigma), Sigma diagonal, is
noise. With b = A' Sigma^-1 y and H = I + A' Sigma^-1 A the log-likelihood of u, less that of noise
alone, is

    b' H^-1 b / 2 - log det(H) / 2.
"""

from __future__ import annotations

import numpy as np

from fl.radio_map.obstacles import Incidence
from netsim.columns import frozen
from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray

_LEAST = 1e-3  # of the strongest crossing of a link: weaker ones change no likelihood
_SEEN = 1e-3  # of a link's energy over the noise: what is weaker moves no likelihood
_RIDGE = 1e-12  # of links that touch the same cells alike


@frozen
class LinkPatterns:
    """A(u) of n places with as many `links` each: crossings (k,), by place and cell: cell, link of
    all, value.
    """

    n: int
    links: int
    cell: IntArray
    link: IntArray
    value: FloatArray

    @classmethod
    def join(cls, parts: list[LinkPatterns]) -> LinkPatterns:
        """Join parts of all places."""
        before = np.cumsum([0, *(part.n * part.links for part in parts)])
        link = [part.link + first for part, first in zip(parts, before[:-1], strict=True)]
        cell, value = ([getattr(part, name) for part in parts] for name in ("cell", "value"))
        n = sum(part.n for part in parts)
        return cls(
            n, parts[0].links, np.concatenate(cell), np.concatenate(link), np.concatenate(value)
        )

    def log_likelihood(self, update: FloatArray, variance: FloatArray, scale: float) -> FloatArray:
        """Log-likelihood of each place (n,) for an update (M,) and its noise variance (M,), both of
        A times `scale`.
        """
        first = np.searchsorted(self.link // self.links, np.arange(self.n + 1))
        link = self.link % self.links
        return _score(
            first, self.links, self.cell, link, self.value * scale, update, 1.0 / variance
        )


def patterns_of(
    under: Incidence, value: FloatArray, n: int, links: int, normalised: bool
) -> LinkPatterns:
    """Patterns of n places with `links` links each, link after link; normalised: each place has
    norm 1.
    """
    cell, link, value = _ordered(
        under.first, under.cell, value, n, links, under.cell.max(initial=0) + 1
    )
    if normalised:
        place = link // links
        largest = np.zeros(n)
        np.maximum.at(largest, place, np.abs(value))
        value = value / largest[place]
        value = value / np.sqrt(np.bincount(place, weights=value**2, minlength=n))[place]
    return LinkPatterns(n, links, cell, link, value)


@compiled
def _ordered(
    first: IntArray, cell: IntArray, value: FloatArray, n: int, links: int, cells: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Cell, link and value of the crossings (k,) that count, by place and cell, of one cell by
    link.
    """
    cell_of = np.empty_like(cell)
    link_of = np.empty_like(cell)
    value_of = np.empty_like(value)
    least = np.empty(n * links)
    place = np.empty(cells + 1, np.int64)  # where the next crossing of each cell goes
    at = 0
    for i in range(n):
        place[:] = 0
        rows = range(i * links, (i + 1) * links)
        for row in rows:
            most = 0.0
            for p in range(first[row], first[row + 1]):
                most = max(most, abs(value[p]))
            least[row] = _LEAST * most
            for p in range(first[row], first[row + 1]):
                if abs(value[p]) > least[row]:
                    place[cell[p] + 1] += 1
        for c in range(cells):
            place[c + 1] += place[c]
        total = place[cells]
        for row in rows:
            for p in range(first[row], first[row + 1]):
                if abs(value[p]) > least[row]:
                    q = at + place[cell[p]]
                    place[cell[p]] += 1
                    cell_of[q] = cell[p]
                    link_of[q] = row
                    value_of[q] = value[p]
        at += total
    return cell_of[:at], link_of[:at], value_of[:at]


@compiled
def _score(
    first: IntArray,
    links: int,
    cell: IntArray,
    link: IntArray,
    value: FloatArray,
    update: FloatArray,
    precision: FloatArray,
) -> FloatArray:
    """Log-likelihood of each place (n,), whose crossings by cell are first[i] to first[i + 1];
    link: of the place.
    """
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
    """b' (I + h)^-1 b / 2 - log det(I + h) / 2 of the lower half of h (n, n), which is overwritten,
    as b (n,).

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
            other = h[q]
            inner = 0.0
            for k in range(q):
                inner += mine[k] * other[k]
            mine[q] = (mine[q] - inner) / other[q]
        square = 0.0
        along = 0.0
        for k in range(p):
            square += mine[k] * mine[k]
            along += mine[k] * b[k]
        mine[p] = np.sqrt(max(mine[p] - square, _RIDGE))
        b[p] = (b[p] - along) / mine[p]
        gain += b[p] * b[p] / 2 - np.log(mine[p])
    return gain

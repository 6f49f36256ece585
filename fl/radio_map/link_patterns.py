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
        links = parts[0].links
        n = 0
        link = []
        for part in parts:
            link.append(part.link + n * links)
            n += part.n
        cell = np.concatenate([part.cell for part in parts])
        return cls(
            n, links, cell, np.concatenate(link), np.concatenate([part.value for part in parts])
        )

    def compute_log_likelihood(
        self, update: FloatArray, variance: FloatArray, scale: float
    ) -> FloatArray:
        """Log-likelihood of each place (n,) for an update (M,) and its noise variance (M,), both of
        A times `scale`.
        """
        first = np.searchsorted(self.link // self.links, np.arange(self.n + 1))
        link = self.link % self.links
        return _score_places(
            first, self.links, self.cell, link, self.value * scale, update, 1.0 / variance
        )


def build_patterns(
    under: Incidence, value: FloatArray, n: int, links: int, normalised: bool
) -> LinkPatterns:
    """Patterns of n places with `links` links each, link after link; normalised: each place has
    norm 1.
    """
    n_cells = under.cell.max(initial=0) + 1
    cell, link, value = _order_crossings(under.first, under.cell, value, n, links, n_cells)
    if normalised:
        place = link // links
        largest = np.zeros(n)
        np.maximum.at(largest, place, np.abs(value))
        value /= largest[place]
        value /= np.sqrt(np.bincount(place, weights=value**2, minlength=n))[place]
    return LinkPatterns(n, links, cell, link, value)


@compiled
def _order_crossings(
    first: IntArray, cell: IntArray, value: FloatArray, n: int, links: int, cells: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Cell, link and value of the crossings (k,) that count, by place and cell, of one cell by
    link.
    """
    cell_of = np.empty_like(cell)
    link_of = np.empty_like(cell)
    value_of = np.empty_like(value)
    size = np.abs(value)
    is_strong = np.zeros(len(value), np.bool_)
    place = np.empty(cells + 1, np.int64)  # where the next crossing of each cell goes
    start = 0
    for i in range(n):
        place[:] = 0
        rows = range(i * links, (i + 1) * links)
        for row in rows:
            crossings = range(first[row], first[row + 1])
            strongest = 0.0
            for p in crossings:
                strongest = max(strongest, size[p])
            threshold = _LEAST * strongest
            for p in crossings:
                if size[p] > threshold:
                    is_strong[p] = True
                    place[cell[p] + 1] += 1
        for c in range(cells):
            place[c + 1] += place[c]
        total = place[cells]
        for row in rows:
            for p in range(first[row], first[row + 1]):
                if is_strong[p]:
                    c = cell[p]
                    q = start + place[c]
                    place[c] += 1
                    cell_of[q] = c
                    link_of[q] = row
                    value_of[q] = value[p]
        start += total
    return cell_of[:start], link_of[:start], value_of[:start]


@compiled
def _score_places(
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
        start = first[i]
        end = first[i + 1]
        energy = np.zeros(links)
        place = np.full(links, -1)
        for p in range(start, end):
            energy[link[p]] += value[p] * value[p] * precision[cell[p]]
        n = 0
        for p in range(links):
            if energy[p] > _SEEN:
                place[p] = n
                n += 1
        h = np.zeros((n, n))
        b = np.zeros(n)
        same = start  # the first crossing of the cell
        for p in range(start, end):
            c = cell[p]
            if c != cell[same]:
                same = p
            row = place[link[p]]
            if row >= 0:
                weighted = value[p] * precision[c]
                b[row] += weighted * update[c]
                for q in range(same, p + 1):
                    column = place[link[q]]
                    if column >= 0:
                        h[row, column] += weighted * value[q]
        out[i] = _compute_gain(h, b)
    return out


@compiled
def _compute_gain(h: FloatArray, b: FloatArray) -> float:
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
        row = h[p]
        for q in range(p):
            upper = h[q]
            inner = 0.0
            for k in range(q):
                inner += row[k] * upper[k]
            row[q] = (row[q] - inner) / upper[q]
        square = 0.0
        along = 0.0
        for k in range(p):
            x = row[k]
            square += x * x
            along += x * b[k]
        diagonal = np.sqrt(max(row[p] - square, _RIDGE))
        row[p] = diagonal
        solved = (b[p] - along) / diagonal
        b[p] = solved
        gain += solved * solved / 2 - np.log(diagonal)
    return gain

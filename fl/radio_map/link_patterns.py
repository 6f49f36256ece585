r"""Patterns that a device at a place would send about its links, and their likelihood given an update.

An update of a device at u is y = A(u) e + n: column j of A(u) is the gradient by an error of one unit on link j alone,
e ~ N(0, I) are the errors of the links, n ~ N(0, Sigma), Sigma diagonal, is noise. With b = A' Sigma^-1 y and
H = I + A' Sigma^-1 A the log-likelihood of u, less that of noise alone, is

    b' H^-1 b / 2 - log det(H) / 2.
"""

from __future__ import annotations

import numpy as np

from fl.radio_map.obstacles import Incidence
from netsim.columns import frozen
from netsim.units import FloatArray, IntArray

_LEAST = 1e-3  # of the strongest crossing of a link: weaker ones change no likelihood


@frozen
class LinkPatterns:
    """A(u) of n places: crossings first[i] to first[i + 1] of place i by cell, and `links` (n,), how many it has.

    cell (k,), link (k,) from 0 within the place, value (k,).
    """

    first: IntArray
    links: IntArray
    cell: IntArray
    link: IntArray
    value: FloatArray

    @classmethod
    def join(cls, parts: list[LinkPatterns]) -> LinkPatterns:
        """Join parts of all places."""
        ends = np.cumsum([0, *(part.first[-1] for part in parts)])
        first = [part.first[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)]
        columns = ([getattr(part, name) for part in parts] for name in ("links", "cell", "link", "value"))
        return cls(np.concatenate([*first, ends[-1:]]), *(np.concatenate(column) for column in columns))

    def log_likelihood(self, update: FloatArray, variance: FloatArray, scale: float) -> FloatArray:
        """Log-likelihood of each place (n,) for an update (M,) and its noise variance (M,), both of A times
        `scale`.
        """
        from fl.radio_map.link_score import score  # compiled: not needed to read a scenario

        out = np.empty(len(self.links))
        score(self.first, self.links, self.cell, self.link, self.value * scale, update, 1.0 / variance, out)
        return out


def patterns_of(under: Incidence, value: FloatArray, n: int, links: int, normalised: bool) -> LinkPatterns:
    """Patterns of n places with `links` links each, link after link; normalised: each place has norm 1."""
    of_link, size = under.link, np.abs(value)
    most = np.zeros(n * links)
    np.maximum.at(most, of_link, size)
    row, link = np.divmod(of_link, links)
    keep = np.flatnonzero((size > _LEAST * most[of_link]) & (size > 0))
    keep = keep[np.lexsort((link[keep], under.cell[keep], row[keep]))]
    row, link, value, first = row[keep], link[keep], value[keep], np.searchsorted(row[keep], np.arange(n + 1))
    if normalised:
        share = value / most.reshape(n, links).max(axis=1)[row]
        value = share / np.sqrt(np.bincount(row, weights=share**2, minlength=n))[row]
    return LinkPatterns(first, np.full(n, links), under.cell[keep], link, value)

r"""Two more parts of a fingerprint: the serving cell, and the direction of the update.

An update comes through the cell of the track's last one with probability rho, else through any cell c by its share f_c
of all updates: f(c | track) / f(c) = rho 1[c = last] / f_c + 1 - rho.

The cosine between an update and the mean of a track's updates, from all of which the mean of their round is taken, is
normal with one mean and variance for updates of one UE and with others for those of two. Updates are projected at
random to few numbers first, which keeps cosines up to 1 / sqrt(numbers).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.columns import frozen, no_ints
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_PRIOR = 10.0  # pairs that first guesses count
NUMBERS = 256
"""numbers of a projected update"""


@frozen
class CellRarity:
    """last (m,) : cell of each track's last update, -1 unknown; every (C,) : updates through each cell; same, pairs :
    how many of the pairs that belong together had the same cell by more than chance.
    """

    last: IntArray
    every: FloatArray
    same: float
    pairs: float

    @classmethod
    def none(cls) -> CellRarity:
        """Before the first update."""
        return cls(no_ints(), np.zeros(0), _PRIOR / 2, _PRIOR)

    def heard(self, cell: IntArray) -> CellRarity:
        """After updates through cells (k,), -1 for unknown ones."""
        known = cell[cell >= 0]
        every = np.zeros(max(len(self.every), int(known.max(initial=-1)) + 1))
        every[: len(self.every)] = self.every
        return replace(self, every=every + np.bincount(known, minlength=len(every)))

    def _shares(self, cell: IntArray) -> FloatArray:
        """f_c (k,) of cells; 1 of unknown ones."""
        share = np.ones(len(cell))
        share[cell >= 0] = self.every[cell[cell >= 0]] / self.every.sum()
        return share

    def log_ratios(self, cell: IntArray) -> FloatArray:
        """log f(c_i | track j) / f(c_i) of cells (k,): (m, k)."""
        rho = self.same / self.pairs
        ratio = rho * (self.last[:, None] == cell) / self._shares(cell) + 1.0 - rho
        return np.where((self.last[:, None] >= 0) & (cell >= 0), np.log(np.maximum(ratio, 1e-3)), 0.0)

    def learnt(self, cell: IntArray, together: FloatArray) -> CellRarity:
        """After updates (k,) that belong to tracks with probabilities (m, k): one step of EM for rho."""
        known = (self.last[:, None] >= 0) & (cell >= 0)
        rho, equal = self.same / self.pairs, self.last[:, None] == cell
        chance = rho * equal / self._shares(cell)
        weight = np.where(known, together, 0.0)
        stuck = np.divide(chance, chance + 1.0 - rho, out=np.zeros_like(chance), where=chance > 0)
        return replace(self, same=self.same + float((weight * stuck).sum()), pairs=self.pairs + float(weight.sum()))

    def plus(self, track: IntArray, cell: IntArray) -> CellRarity:
        """With updates of tracks (n,), each once."""
        last = self.last.copy()
        last[track] = np.where(cell >= 0, cell, last[track])
        return replace(self, last=last)

    def resized(self, kept: IntArray, new: int) -> CellRarity:
        """Select the tracks `kept` (an index each), and append new ones."""
        return replace(self, last=np.concatenate([self.last[kept], np.full(new, -1)]))


@frozen
class Directions:
    """total (m, D) : sum of the projected updates of each track; same, other (3,) : number, sum and sum of squares of
    cosines of pairs that belong together, and of all pairs.
    """

    total: FloatArray
    same: FloatArray
    other: FloatArray

    @classmethod
    def none(cls) -> Directions:
        """Before the first update."""
        return cls(np.zeros((0, NUMBERS)), np.zeros(3), np.zeros(3))

    def cosines(self, unit: FloatArray) -> FloatArray:
        """Cosines (m, k) of tracks and updates (k, D); NaN where one of them has no direction."""
        length = np.linalg.norm(self.total, axis=1)[:, None]
        mean = np.divide(self.total, length, out=np.full_like(self.total, np.nan), where=length > 0)
        return np.asarray(mean @ unit.T)

    def log_ratios(self, unit: FloatArray) -> FloatArray:
        """log f(cos | same UE) / f(cos) of updates (k, D): (m, k); 0 before enough is known."""
        cosine = self.cosines(unit)
        if self.other[0] < _PRIOR:
            return np.zeros_like(cosine)
        mean, var = _moments(self.other)
        var = max(var, 1e-6)
        std = np.sqrt(var)
        first = mean + std  # the first guess: a little more alike than others
        own, own_var = _moments(self.same + _PRIOR * np.array([1.0, first, first**2 + var]))
        own_var = max(own_var, 1e-6)
        ratio = (cosine - mean) ** 2 / (2 * var) - (cosine - own) ** 2 / (2 * own_var) + 0.5 * np.log(var / own_var)
        return np.asarray(np.nan_to_num(ratio))

    def learnt(self, unit: FloatArray, together: FloatArray) -> Directions:
        """After updates (k, D) that belong to tracks with probabilities (m, k)."""
        cosine = self.cosines(unit)
        there = np.isfinite(cosine)
        c, weight = np.nan_to_num(cosine), np.where(there, together, 0.0)
        same = np.array([weight.sum(), (weight * c).sum(), (weight * c**2).sum()])
        other = np.array([float(there.sum()), c.sum(), (c**2).sum()])
        return replace(self, same=self.same + same, other=self.other + other)

    def plus(self, track: IntArray, unit: FloatArray) -> Directions:
        """With updates (n, D) of tracks (n,), each once."""
        total = self.total.copy()
        total[track] += np.nan_to_num(unit)
        return replace(self, total=total)

    def resized(self, kept: IntArray, new: int) -> Directions:
        """Select the tracks `kept` (an index each), and append new ones."""
        return replace(self, total=np.concatenate([self.total[kept], np.zeros((new, self.total.shape[1]))]))


def _moments(sums: FloatArray) -> tuple[float, float]:
    """Mean and variance of number, sum and sum of squares."""
    n, total, square = sums.tolist()
    return total / n, square / n - (total / n) ** 2


def projected(update: FloatArray, model: IntArray, of: IntArray, n: int, rng: Rng) -> FloatArray:
    """Directions (n, D) of n senders from updates (k, d), of models (k,) and senders (k,), without their mean.

    Each number is added to one of D sums, by a random sign; NaN for a sender without a direction.
    """
    total = np.zeros((n, NUMBERS))
    good = np.isfinite(update).all(axis=1)
    for m in np.unique(model[good]).tolist():
        rows = np.flatnonzero(good & (model == m))
        drawn = 2.0 * NUMBERS * rng.uniform("bucket", [m], (update.shape[1],))[0]
        bucket, sign = (drawn // 2).astype(np.int64), np.where(drawn.astype(np.int64) % 2 == 0, 1.0, -1.0)
        order = np.argsort(bucket, kind="stable")
        some, first = np.unique(bucket[order], return_index=True)
        np.add.at(total, (of[rows][:, None], some), np.add.reduceat((update[rows] * sign)[:, order], first, axis=1))
    total = total - total[np.unique(of[good])].mean(axis=0) if good.any() else total
    length = np.linalg.norm(total, axis=1)[:, None]
    there = np.isin(np.arange(n), of[good])[:, None] & (length > 0)
    return np.asarray(np.divide(total, length, out=np.full_like(total, np.nan), where=there))

r"""Tracks, and fingerprints of their UEs besides the place: numbers, the serving cell, and the direction of updates.

Each number x (the logarithm of the amount of data, of the time per bit, ...) is normal around a mean of the UE, with
variance w, and these means are normal around one mean of all, with variance b = t - w (t: variance of all that was
seen). Of a track with n updates of mean x_j, the next one is normal with

    1 / v = n / w + 1 / b,    mean v (n x_j / w + mean / b),    variance v + w,

and log f(x | track) / f(x) adds up over numbers, which are taken as independent. The attacker does not know w: it
begins at t / 2 and is the weighted mean of (x_i - x_j)^2 n / (n + 1) over all pairs, with the probabilities that they
belong together. Where UEs are all alike, w becomes t and the ratio 1.

An update comes through the cell of the track's last one with probability rho, else through any cell c by its share f_c
of all updates: f(c | track) / f(c) = rho 1[c = last] / f_c + 1 - rho.

The cosine between an update and the mean of a track's updates, from all of which the mean of their round is taken, is
normal with one mean and variance for updates of one UE and with others for those of two. Updates are projected at
random to few numbers first, which keeps cosines up to 1 / sqrt(numbers).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.types import RoundContext
from netsim.columns import Columns, frozen
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

DIRECTION = 256
"""numbers of a projected update"""
_PRIOR = 10.0  # pairs that first guesses count
_LEAST = 1e-3
_MOST = 1.0 - 1e-9  # of w / t


@frozen
class Clues(Columns):
    """Known facts of the senders (k,) of a round; NaN or -1 if unknown.

    z_m (k, R, 2) : places that are estimated of each; x (k, F), cell (k,), unit (k, D) : fingerprints.
    """

    z_m: FloatArray
    x: FloatArray
    cell: IntArray
    unit: FloatArray


@frozen
class KeptTracks(Columns):
    """Tracks (m,) that are kept: number of each; mean_m, var_m2 : where it was last, a Gaussian; seen_s, round : when.
    Of its updates: count (m, F) and mean x (m, F) of the numbers, the last cell, and the sum unit (m, D) of directions.
    """

    number: IntArray
    mean_m: FloatArray
    var_m2: FloatArray
    seen_s: FloatArray
    round: IntArray
    count: FloatArray
    x: FloatArray
    cell: IntArray
    unit: FloatArray

    @classmethod
    def begun(cls, number: IntArray, numbers: int) -> KeptTracks:
        """Tracks (n,) of which nothing is known."""
        m = len(number)
        none = np.full(m, -1)
        no_x = np.zeros((m, numbers))
        return cls(number, np.zeros((m, 2)), np.zeros(m), np.zeros(m), none, no_x, no_x, none, np.zeros((m, DIRECTION)))

    def with_updates(self, rows: IntArray, clues: Clues) -> KeptTracks:
        """With fingerprints of updates (n,) of the tracks at rows (n,), each once."""
        there = np.isfinite(clues.x)
        count = self.count.copy()
        x = self.x.copy()
        cell = self.cell.copy()
        unit = self.unit.copy()
        count[rows] += there
        x[rows] += np.where(there, np.nan_to_num(clues.x) - x[rows], 0.0) / np.maximum(count[rows], 1.0)
        cell[rows] = np.where(clues.cell >= 0, clues.cell, cell[rows])
        unit[rows] += np.nan_to_num(clues.unit)
        return replace(self, count=count, x=x, cell=cell, unit=unit)

    def seen_at(self, rows: IntArray, mean_m: FloatArray, var_m2: FloatArray, facts: RoundContext) -> KeptTracks:
        """With the tracks at rows (n,) at places mean_m (n, 2), var_m2 (n,) in this round."""
        mean = self.mean_m.copy()
        var = self.var_m2.copy()
        seen_s = self.seen_s.copy()
        number = self.round.copy()
        mean[rows] = mean_m
        var[rows] = var_m2
        seen_s[rows] = facts.time_s
        number[rows] = facts.round
        return replace(self, mean_m=mean, var_m2=var, seen_s=seen_s, round=number)


@frozen
class Numbers:
    """Of F numbers of all updates: every, total, square (F,), sums; within (F,), the sum of the squares within tracks
    relative to t, of pairs (F,) pairs.
    """

    every: FloatArray
    total: FloatArray
    square: FloatArray
    within: FloatArray
    pairs: FloatArray

    @classmethod
    def none(cls, n: int) -> Numbers:
        """Before the first update, for n numbers."""
        zero = np.zeros(n)
        return cls(zero, zero, zero, np.full(n, _PRIOR / 2), np.full(n, _PRIOR))

    def heard(self, clues: Clues) -> Numbers:
        """After updates (k,), whatever their tracks."""
        there = np.isfinite(clues.x).sum(axis=0)
        x = np.nan_to_num(clues.x)
        total = self.total + x.sum(axis=0)
        square = self.square + (x**2).sum(axis=0)
        return replace(self, every=self.every + there, total=total, square=square)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance t (F,) of all that was seen."""
        n = np.maximum(self.every, 1.0)
        mean = self.total / n
        return mean, np.maximum(self.square / n - mean**2, 0.0)

    def log_ratios(self, tracks: KeptTracks, clues: Clues) -> FloatArray:
        """log f(x_i | track j) / f(x_i) of updates (k,): (m, k)."""
        mean, t = self._moments()
        tell = t > 1e-12 * np.maximum(mean**2, 1.0)
        t = np.where(tell, t, 1.0)
        w = t * np.clip(self.within / self.pairs, _LEAST, _MOST)
        v = 1.0 / (tracks.count / w + 1.0 / (t - w))
        centre = v * (tracks.count * tracks.x / w + mean / (t - w))  # (m, F)
        away = (clues.x - centre[:, None]) ** 2 / (v + w)[:, None] - (clues.x - mean) ** 2 / t
        ratio = -0.5 * (away + np.log((v + w) / t)[:, None])
        return np.asarray(np.where(np.isfinite(ratio) & tell, ratio, 0.0).sum(axis=2))

    def learnt(self, tracks: KeptTracks, clues: Clues, together: FloatArray) -> Numbers:
        """After updates (k,) that belong to tracks with probabilities (m, k)."""
        _, t = self._moments()
        count = tracks.count[:, None]
        square = (clues.x - tracks.x[:, None]) ** 2 * count / (count + 1.0) / np.where(t > 0, t, 1.0)
        weight = np.where(np.isfinite(square) & (count > 0), together[..., None], 0.0)
        within = self.within + (weight * np.nan_to_num(square)).sum(axis=(0, 1))
        return replace(self, within=within, pairs=self.pairs + weight.sum(axis=(0, 1)))


@frozen
class ServingCells:
    """every (C,) : updates through each cell; same, pairs : how many of the pairs that belong together had the same
    cell by more than chance.
    """

    every: FloatArray
    same: float = _PRIOR / 2
    pairs: float = _PRIOR

    def heard(self, clues: Clues) -> ServingCells:
        """After updates (k,), whatever their tracks."""
        known = clues.cell[clues.cell >= 0]
        more = np.bincount(known, minlength=len(self.every))
        return replace(self, every=np.pad(self.every, (0, len(more) - len(self.every))) + more)

    def _chances(self, tracks: KeptTracks, clues: Clues) -> tuple[FloatArray, FloatArray]:
        """rho 1[c = last] / f_c and 1 - rho (m, k) of tracks and updates; 0 and 1 where a cell is unknown."""
        known = (tracks.cell[:, None] >= 0) & (clues.cell >= 0)
        share = np.where(clues.cell >= 0, self.every[clues.cell] / self.every.sum(), 1.0) if len(self.every) else 1.0
        rho = self.same / self.pairs
        stuck = rho * (tracks.cell[:, None] == clues.cell) / share
        return np.where(known, stuck, 0.0), np.where(known, 1.0 - rho, 1.0)

    def log_ratios(self, tracks: KeptTracks, clues: Clues) -> FloatArray:
        """log f(c_i | track j) / f(c_i) of updates (k,): (m, k)."""
        stuck, other = self._chances(tracks, clues)
        return np.asarray(np.log(np.maximum(stuck + other, 1e-3)))

    def learnt(self, tracks: KeptTracks, clues: Clues, together: FloatArray) -> ServingCells:
        """After updates (k,) that belong to tracks with probabilities (m, k): one step of EM for rho."""
        stuck, other = self._chances(tracks, clues)
        weight = np.where(other < 1.0, together, 0.0)
        same = float((weight * stuck / (stuck + other)).sum())
        return replace(self, same=self.same + same, pairs=self.pairs + float(weight.sum()))


@frozen
class Directions:
    """same, other (3,) : number, sum and sum of squares of cosines of pairs that belong together, and of all pairs."""

    same: FloatArray
    other: FloatArray

    def _cosines(self, tracks: KeptTracks, clues: Clues) -> FloatArray:
        """Cosines (m, k) of tracks and updates; NaN where one of them has no direction."""
        length = np.linalg.norm(tracks.unit, axis=1)[:, None]
        mean = np.divide(tracks.unit, length, out=np.full_like(tracks.unit, np.nan), where=length > 0)
        return np.asarray(mean @ clues.unit.T)

    def log_ratios(self, tracks: KeptTracks, clues: Clues) -> FloatArray:
        """log f(cos | same UE) / f(cos) of updates (k,): (m, k); 0 before enough is known."""
        cosine = self._cosines(tracks, clues)
        if self.other[0] < _PRIOR:
            return np.zeros_like(cosine)
        mean, var = _moments(self.other)
        first = mean + np.sqrt(var)  # the first guess: a little more alike than others
        own, own_var = _moments(self.same + _PRIOR * np.array([1.0, first, first**2 + var]))
        ratio = (cosine - mean) ** 2 / (2 * var) - (cosine - own) ** 2 / (2 * own_var) + 0.5 * np.log(var / own_var)
        return np.asarray(np.nan_to_num(ratio))

    def learnt(self, tracks: KeptTracks, clues: Clues, together: FloatArray) -> Directions:
        """After updates (k,) that belong to tracks with probabilities (m, k)."""
        cosine = self._cosines(tracks, clues)
        there = np.isfinite(cosine).astype(np.float64)
        c = np.nan_to_num(cosine)
        powers = np.stack([np.ones_like(c), c, c**2])
        same, other = ((powers * weight).sum(axis=(1, 2)) for weight in (there * together, there))
        return Directions(self.same + same, self.other + other)


def _moments(sums: FloatArray) -> tuple[float, float]:
    """Mean and variance of number, sum and sum of squares."""
    n, total, square = sums.tolist()
    return total / n, max(square / n - (total / n) ** 2, 1e-6)


@frozen
class Prints:
    """What is known of all fingerprints."""

    numbers: Numbers
    cells: ServingCells
    directions: Directions

    @classmethod
    def none(cls, numbers: int) -> Prints:
        """Before the first update."""
        return cls(Numbers.none(numbers), ServingCells(np.zeros(0)), Directions(np.zeros(3), np.zeros(3)))

    def heard(self, clues: Clues) -> Prints:
        """After updates, whatever their tracks."""
        return replace(self, numbers=self.numbers.heard(clues), cells=self.cells.heard(clues))

    def log_ratios(self, tracks: KeptTracks, clues: Clues) -> FloatArray:
        """log f(x_i | track j) / f(x_i): (m, k)."""
        numbers = self.numbers.log_ratios(tracks, clues)
        cells = self.cells.log_ratios(tracks, clues)
        return numbers + cells + self.directions.log_ratios(tracks, clues)

    def learnt(self, tracks: KeptTracks, clues: Clues, together: FloatArray) -> Prints:
        """After updates that belong to tracks with probabilities (m, k)."""
        return Prints(
            self.numbers.learnt(tracks, clues, together),
            self.cells.learnt(tracks, clues, together),
            self.directions.learnt(tracks, clues, together),
        )


def projected(update: FloatArray, model: IntArray, of: IntArray, n: int, rng: Rng) -> FloatArray:
    """Directions (n, D) of n senders from updates (k, d), of models (k,) and senders (k,), without their mean.

    Each number is added to one of D sums, by a random sign; NaN for a sender without a direction.
    """
    total = np.zeros((n, DIRECTION))
    good = np.isfinite(update).all(axis=1)
    for m in np.unique(model[good]).tolist():
        rows = np.flatnonzero(good & (model == m))
        drawn = (2.0 * DIRECTION * rng.uniform("bucket", [m], (update.shape[1],))[0]).astype(np.int64)
        bucket = drawn // 2
        sign = np.where(drawn % 2 == 0, 1.0, -1.0)
        order = np.argsort(bucket, kind="stable")
        some, first = np.unique(bucket[order], return_index=True)
        np.add.at(total, (of[rows][:, None], some), np.add.reduceat((update[rows] * sign)[:, order], first, axis=1))
    total = total - total[np.unique(of[good])].mean(axis=0) if good.any() else total
    length = np.linalg.norm(total, axis=1)[:, None]
    there = np.isin(np.arange(n), of[good])[:, None] & (length > 0)
    return np.asarray(np.divide(total, length, out=np.full_like(total, np.nan), where=there))

r"""Tracks, and fingerprints of their UEs besides the place: numbers, the serving cell, and the
direction of updates.

Each number x (the logarithm of the amount of data, of the time per bit, ...) is normal around a
mean of the UE, with variance w, and these means are normal around one mean of all, with variance b
= t - w (t: variance of all that was seen). Of a track with n updates of mean x_j, the next one is
normal with

    1 / v = n / w + 1 / b,    mean v (n x_j / w + mean / b),    variance v + w,

and log f(x | track) / f(x) adds up over numbers, which are taken as independent. The attacker does
not know w: it begins at t / 2 and is the weighted mean of (x_i - x_j)^2 n / (n + 1) over all pairs,
with the probabilities that they belong together. Where UEs are all alike, w becomes t and the ratio
1.

An update comes through the cell of the track's last one with probability rho, else through any cell
c by its share f_c of all updates: f(c | track) / f(c) = rho 1[c = last] / f_c + 1 - rho.

The cosine between an update and the mean of a track's updates, from all of which the mean of their
round is taken, is normal with one mean and variance for updates of one UE and with others for those
of two. Updates are projected at random to few numbers first, which keeps cosines up to 1 /
sqrt(numbers).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.linalg import norm

from netsim.columns import Columns, frozen, no_floats
from netsim.rng import Rng
from netsim.units import ArrayPair, FloatArray, IntArray

DIRECTION = 256
"""numbers of a projected update"""
_PRIOR = 10.0  # pairs that first guesses count
_LEAST = 1e-3
_MOST = 1.0 - 1e-9  # of w / t


@frozen
class Clues(Columns):
    """Known facts of the senders (k,) of a round; NaN or -1 if unknown.

    z_m (k, R, 2) : places that are estimated of each; x (k, F), cell (k,), unit (k, D) :
    fingerprints.
    """

    z_m: FloatArray
    x: FloatArray
    cell: IntArray
    unit: FloatArray


@frozen
class KeptTracks(Columns):
    """Tracks (m,) that are kept: number of each; mean_m, var_m2 : where it was last, a Gaussian;
    seen_s, round : when. Of its updates: count (m, F) and mean x (m, F) of the numbers, the last
    cell, and the sum unit (m, D) of directions.
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
    def from_numbers(cls, number: IntArray, numbers: int) -> KeptTracks:
        """Tracks (n,) of which nothing is known."""
        m = len(number)
        none = np.full(m, -1)
        no_x = np.zeros((m, numbers))
        zero = np.zeros(m)
        place_m = np.zeros((m, 2))
        return cls(number, place_m, zero, zero, none, no_x, no_x, none, np.zeros((m, DIRECTION)))

    def add_updates(self, clues: Clues) -> KeptTracks:
        """With the fingerprint of one more update of each (m,)."""
        is_known = np.isfinite(clues.x)
        count = self.count + is_known
        change = np.where(is_known, np.nan_to_num(clues.x) - self.x, 0.0)
        x = self.x + change / np.maximum(count, 1.0)
        cell = np.where(clues.cell >= 0, clues.cell, self.cell)
        unit = self.unit + np.nan_to_num(clues.unit)
        return replace(self, count=count, x=x, cell=cell, unit=unit)


@frozen
class Prints:
    """What is known of all fingerprints.

    numbers (3, F) : powers of the numbers of all updates; within (2, F) : squares within tracks
    relative to t, and of how many pairs; cells (C,) : updates through each cell; stuck (2,) : pairs
    that belong together with the same cell by more than chance, and all of them; same, other (3,) :
    powers of the cosines of pairs that belong together, and of all pairs. Powers are number, sum
    and sum of squares.
    """

    numbers: FloatArray
    within: FloatArray
    cells: FloatArray
    stuck: FloatArray
    same: FloatArray
    other: FloatArray

    @classmethod
    def empty(cls, numbers: int) -> Prints:
        """Before the first update."""
        guess = np.array([_PRIOR / 2, _PRIOR])
        within = np.repeat(guess[:, None], numbers, axis=1)
        powers = np.zeros(3)
        return cls(np.zeros((3, numbers)), within, no_floats(), guess, powers, powers)

    def count_updates(self, clues: Clues) -> Prints:
        """After updates (k,), whatever their tracks."""
        counted = np.bincount(clues.cell[clues.cell >= 0], minlength=len(self.cells))
        cells = np.pad(self.cells, (0, len(counted) - len(self.cells))) + counted
        numbers = self.numbers + _compute_powers(clues.x).sum(axis=1)
        return replace(self, numbers=numbers, cells=cells)

    def compute_log_ratios(self, tracks: KeptTracks, clues: Clues) -> FloatArray:
        """log f(x_i | track j) / f(x_i) of updates (k,): (m, k)."""
        stuck, elsewhere = self._compute_cell_chances(tracks, clues)
        cells = np.log(np.maximum(stuck + elsewhere, 1e-3))
        return (
            self._compare_numbers(tracks, clues) + cells + self._compare_directions(tracks, clues)
        )

    def learn_pairs(self, tracks: KeptTracks, clues: Clues, together: FloatArray) -> Prints:
        """After updates (k,) that belong to tracks with probabilities (m, k): one step of EM."""
        _, t = _compute_moments(self.numbers)
        count = tracks.count[:, None]
        square = (clues.x - tracks.x[:, None]) ** 2 * count / (count + 1.0)
        square /= np.where(t > 0, t, 1.0)
        is_pair = np.isfinite(square) & (count > 0)
        pairs = np.where(is_pair, together[..., None], 0.0)
        within = np.stack([pairs * np.nan_to_num(square), pairs]).sum(axis=(1, 2))
        stuck, elsewhere = self._compute_cell_chances(tracks, clues)
        certain = np.where(elsewhere < 1.0, together, 0.0)
        powers = _compute_powers(_compute_cosines(tracks, clues))
        stuck_pairs = certain * stuck / (stuck + elsewhere)
        counted = np.array([stuck_pairs.sum(), certain.sum()])
        return replace(
            self,
            within=self.within + within,
            stuck=self.stuck + counted,
            same=self.same + (powers * together).sum(axis=(1, 2)),
            other=self.other + powers.sum(axis=(1, 2)),
        )

    def _compare_numbers(self, tracks: KeptTracks, clues: Clues) -> FloatArray:
        """The part of numbers (m, k)."""
        mean, t = _compute_moments(self.numbers)
        tell = t > 1e-12 * np.maximum(mean**2, 1.0)
        t = np.where(tell, t, 1.0)
        w = t * np.clip(self.within[0] / self.within[1], _LEAST, _MOST)
        b = t - w
        v = 1.0 / (tracks.count / w + 1.0 / b)
        centre = v * (tracks.count * tracks.x / w + mean / b)  # (m, F)
        from_track = (clues.x - centre[:, None]) ** 2 / (v + w)[:, None]
        from_all = (clues.x - mean) ** 2 / t
        log_var = np.log((v + w) / t)[:, None]
        ratio = -0.5 * (from_track - from_all + log_var)
        return np.where(np.isfinite(ratio) & tell, ratio, 0.0).sum(axis=2)

    def _compute_cell_chances(self, tracks: KeptTracks, clues: Clues) -> ArrayPair:
        """rho 1[c = last] / f_c and 1 - rho (m, k) of tracks and updates; 0 and 1 where a cell is
        unknown.
        """
        is_known = (tracks.cell[:, None] >= 0) & (clues.cell >= 0)
        share: FloatArray | float = 1.0
        if len(self.cells):
            shares = self.cells[clues.cell] / self.cells.sum()
            share = np.where(clues.cell >= 0, shares, 1.0)
        rho = self.stuck[0] / self.stuck[1]
        stuck = rho * (tracks.cell[:, None] == clues.cell) / share
        return np.where(is_known, stuck, 0.0), np.where(is_known, 1.0 - rho, 1.0)

    def _compare_directions(self, tracks: KeptTracks, clues: Clues) -> FloatArray:
        """The part of cosines (m, k); 0 before enough is known."""
        cosine = _compute_cosines(tracks, clues)
        if self.other[0] < _PRIOR:
            return np.zeros_like(cosine)
        mean, var = _compute_moments(self.other, 1e-6)
        first = mean + np.sqrt(var)  # the first guess: a little more alike than others
        guess = np.array([1.0, first, first**2 + var])
        same_mean, same_var = _compute_moments(self.same + _PRIOR * guess, 1e-6)
        from_all = (cosine - mean) ** 2 / (2 * var)
        from_same = (cosine - same_mean) ** 2 / (2 * same_var)
        ratio = from_all - from_same + 0.5 * np.log(var / same_var)
        return np.nan_to_num(ratio)


def _compute_powers(x: FloatArray) -> FloatArray:
    """Number, value and square (3, ...) of each of x (...), 0 where it is unknown."""
    values = np.nan_to_num(x)
    return np.stack([np.isfinite(x), values, values**2])


def _compute_moments(powers: FloatArray, min_variance: float = 0.0) -> ArrayPair:
    """Mean and variance (...), at least `min_variance`, of summed powers (3, ...)."""
    n = np.maximum(powers[0], 1.0)
    mean = powers[1] / n
    return mean, np.maximum(powers[2] / n - mean**2, min_variance)


def _compute_cosines(tracks: KeptTracks, clues: Clues) -> FloatArray:
    """Cosines (m, k) of tracks and updates; NaN where one of them has no direction."""
    length = norm(tracks.unit, axis=1)[:, None]
    mean = np.full_like(tracks.unit, np.nan)
    np.divide(tracks.unit, length, out=mean, where=length > 0)
    return mean @ clues.unit.T


def project_directions(
    update: FloatArray, model: IntArray, sender: IntArray, n: int, rng: Rng
) -> FloatArray:
    """Directions (n, D) of n senders from updates (k, d), of models (k,) and senders (k,), without
    their mean.

    Each number is added to one of D sums, by a random sign; NaN for a sender without a direction.
    """
    total = np.zeros((n, DIRECTION))
    good = np.isfinite(update).all(axis=1)
    for m in np.unique(model[good]).tolist():
        rows = np.flatnonzero(good & (model == m))
        unit = rng.uniform("bucket", [m], (update.shape[1],))[0]
        drawn = (2.0 * DIRECTION * unit).astype(int)
        bucket = drawn // 2
        sign = np.where(drawn % 2 == 0, 1.0, -1.0)
        order = np.argsort(bucket, kind="stable")
        buckets, first = np.unique(bucket[order], return_index=True)
        sums = np.add.reduceat((update[rows] * sign)[:, order], first, axis=1)
        np.add.at(total, (sender[rows][:, None], buckets), sums)
    if good.any():
        total -= total[np.unique(sender[good])].mean(axis=0)
    length = norm(total, axis=1)[:, None]
    is_sender = np.isin(np.arange(n), sender[good])[:, None]
    unit = np.full_like(total, np.nan)
    return np.divide(total, length, out=unit, where=is_sender & (length > 0))

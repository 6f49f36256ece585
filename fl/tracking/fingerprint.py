r"""Fingerprints of UEs besides their place: numbers that are much the same in all updates of a UE.

Each number x (the logarithm of the amount of data, of the time per bit, ...) is normal around a mean of the UE, with
variance w, and these means are normal around one mean of all, with variance b = t - w (t: variance of all that was
seen). Of a track with n updates of mean x_j, the next one is normal with

    1 / v = n / w + 1 / b,    mean v (n x_j / w + mean / b),    variance v + w,

and log f(x | track) / f(x) adds up over numbers, which are taken as independent. The attacker does not know w: it
begins at t / 2 and is the weighted mean of (x_i - x_j)^2 n / (n + 1) over all pairs, with the probabilities that they
belong together. Where UEs are all alike, w becomes t and the ratio 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.columns import frozen
from netsim.units import FloatArray, IntArray

_PRIOR = 10.0  # pairs that the first guess of w counts
_LEAST, _MOST = 1e-3, 1.0 - 1e-9  # of w / t


@frozen
class Numbers:
    """Sums over F numbers: of tracks, count and mean (m, F); of all updates, every, total, square (F,); within (F,),
    the sum of the squares within tracks relative to t, of pairs (F,) pairs.
    """

    count: FloatArray
    mean: FloatArray
    every: FloatArray
    total: FloatArray
    square: FloatArray
    within: FloatArray
    pairs: FloatArray

    @classmethod
    def none(cls, n: int) -> Numbers:
        """Before the first update, for n numbers."""
        zero, nothing = np.zeros(n), np.zeros((0, n))
        return cls(nothing, nothing, zero, zero, zero, np.full(n, _PRIOR / 2), np.full(n, _PRIOR))

    def heard(self, x: FloatArray) -> Numbers:
        """After updates (k, F), NaN where a number is not known, of whomever."""
        there, x = np.isfinite(x), np.nan_to_num(x)
        return replace(
            self, every=self.every + there.sum(axis=0), total=self.total + x.sum(axis=0),
            square=self.square + (x**2).sum(axis=0),
        )  # fmt: skip

    @property
    def _all(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance t (F,) of all that was seen."""
        n = np.maximum(self.every, 1.0)
        mean = self.total / n
        return mean, np.maximum(self.square / n - mean**2, 0.0)

    def log_ratios(self, x: FloatArray) -> FloatArray:
        """log f(x_i | track j) / f(x_i) of updates x (k, F): (m, k)."""
        mean, t = self._all
        tell = t > 1e-12 * np.maximum(mean**2, 1.0)
        t = np.where(tell, t, 1.0)
        w = t * np.clip(self.within / self.pairs, _LEAST, _MOST)
        b = t - w
        v = 1.0 / (self.count / w + 1.0 / b)
        centre, var = v * (self.count * self.mean / w + mean / b), v + w  # (m, F)
        away = (x[None] - centre[:, None]) ** 2 / var[:, None] - (x - mean) ** 2 / t
        ratio = -0.5 * (away + np.log(var / t)[:, None])
        return np.asarray(np.where(np.isfinite(ratio) & tell, ratio, 0.0).sum(axis=2))

    def learnt(self, x: FloatArray, together: FloatArray) -> Numbers:
        """After updates x (k, F) that belong to tracks with probabilities (m, k)."""
        _, t = self._all
        count = self.count[:, None]
        square = (x[None] - self.mean[:, None]) ** 2 * count / (count + 1.0) / np.where(t > 0, t, 1.0)
        weight = np.where(np.isfinite(square) & (count > 0), together[..., None], 0.0)
        return replace(
            self, within=self.within + (weight * np.nan_to_num(square)).sum(axis=(0, 1)),
            pairs=self.pairs + weight.sum(axis=(0, 1)),
        )  # fmt: skip

    def plus(self, track: IntArray, x: FloatArray) -> Numbers:
        """With updates x (n, F) of tracks (n,), each once."""
        there = np.isfinite(x)
        count, mean = self.count.copy(), self.mean.copy()
        count[track] += there
        mean[track] += np.where(there, np.nan_to_num(x) - mean[track], 0.0) / np.maximum(count[track], 1.0)
        return replace(self, count=count, mean=mean)

    def resized(self, kept: IntArray, new: int) -> Numbers:
        """Select the tracks `kept` (an index each), and append new ones."""
        more = np.zeros((new, self.count.shape[1]))
        return replace(
            self, count=np.concatenate([self.count[kept], more]), mean=np.concatenate([self.mean[kept], more])
        )

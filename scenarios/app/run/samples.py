"""Distributions of a radio study: samples of UEs, exact up to a number, counted in narrow bins beyond it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from netsim.units import BoolArray, FloatArray, IntArray

MOST_EXACT = 500_000  # samples that are kept one by one: 20 MB
BINS = 12_000
_LOWEST_DB, _STEP_DB = -300.0, 0.05  # of bins of decibels


@dataclass(frozen=True, eq=False)
class Sampled:
    """What has been sampled so far, of q quantities.

    count, los (2,) : samples outdoors and indoors, and those of them in line of sight.
    values (n, q), inside (n,) : samples one by one; none once they are in bins.
    binned (2, q, BINS) : number of samples in each bin, outdoors and indoors; (2, q, 0) while samples are kept.
    """

    count: IntArray
    los: IntArray
    values: FloatArray
    inside: BoolArray
    binned: IntArray

    @classmethod
    def none(cls, quantities: int) -> Sampled:
        """Nothing yet."""
        zero = np.zeros(2, dtype=np.int64)
        return cls(
            zero, zero, np.zeros((0, quantities)), np.zeros(0, dtype=np.bool_),
            np.zeros((2, quantities, 0), dtype=np.int64),
        )  # fmt: skip

    @property
    def exact(self) -> bool:
        """Whether all samples are kept."""
        return not self.binned.size


@dataclass(eq=False)
class Samples:
    """Collects samples (m, q) of q quantities in bounded memory.

    highest (q,) : NaN for decibels, whose bins are 0.05 dB wide from -300 to 300 dB; else values lie between 0 and
    `highest`, which 12,000 bins divide. A quantile from bins is off by half a bin at most.
    """

    highest: FloatArray
    sampled: Sampled
    _pieces: list[tuple[FloatArray, BoolArray]] = field(default_factory=list)

    def check(self, sampled: Sampled) -> None:
        """Raise ValueError where what was sampled before has arrays of other shapes."""
        nothing, n = Sampled.none(len(self.highest)), len(sampled.values)
        shapes = {"count": (2,), "los": (2,), "values": (n, *nothing.values.shape[1:]), "inside": (n,)}
        for name, shape in shapes.items():
            if (has := getattr(sampled, name).shape) != shape:
                raise ValueError(f"samples: {name} of shape {has}, expected {shape}")
        if sampled.binned.size and sampled.binned.shape != (2, len(self.highest), BINS):
            raise ValueError(f"samples: binned of shape {sampled.binned.shape}")

    def add(self, values: FloatArray, inside: BoolArray, los: BoolArray) -> None:
        """Add samples (m, q), with whether each was indoors and whether its cell was in line of sight (m,)."""
        now = self.sampled
        kinds = inside.astype(np.int64)
        count, seen = np.bincount(kinds, minlength=2), np.bincount(kinds[los], minlength=2)
        binned = now.binned
        if now.exact:
            self._pieces.append((values, inside))
        else:
            binned = binned + self._binned(values, inside)
        self.sampled = Sampled(now.count + count, now.los + seen, now.values, now.inside, binned)
        if now.exact and self.sampled.count.sum() > MOST_EXACT:
            whole = self.memory()
            nothing = Sampled.none(len(self.highest))
            self.sampled = Sampled(
                whole.count, whole.los, nothing.values, nothing.inside, self._binned(whole.values, whole.inside)
            )

    def memory(self) -> Sampled:
        """All samples so far, as a value."""
        now = self.sampled
        if self._pieces:
            values = np.concatenate([now.values, *(v for v, _ in self._pieces)])
            inside = np.concatenate([now.inside, *(i for _, i in self._pieces)])
            self.sampled = now = Sampled(now.count, now.los, values, inside, now.binned)
            self._pieces.clear()
        return now

    def quantiles(self, selection: str, share: FloatArray) -> FloatArray:
        """Quantiles (p, q) at shares (p,) in [0, 1] of all, indoor or outdoor samples; NaN where there are none.

        Values that are not finite are left out.
        """
        now, n = self.memory(), len(self.highest)
        result = np.full((len(share), n), np.nan)
        mine = {"all": [0, 1], "outdoor": [0], "indoor": [1]}[selection]
        for k in range(n):
            if now.exact:
                of = now.values[np.isin(now.inside.astype(np.int64), mine), k]
                of = of[np.isfinite(of)]
                if len(of):
                    result[:, k] = np.quantile(of, share)
            else:
                result[:, k] = self._from_bins(now.binned[mine, k].sum(axis=0), k, share)
        return result

    def _low_step(self) -> tuple[FloatArray, FloatArray]:
        """Lower end and width of the bins of each quantity (q,)."""
        decibels = np.isnan(self.highest)
        return np.where(decibels, _LOWEST_DB, 0.0), np.where(decibels, _STEP_DB, self.highest / BINS)

    def _binned(self, values: FloatArray, inside: BoolArray) -> IntArray:
        """Samples in each bin (2, q, BINS)."""
        low, step = self._low_step()
        n = len(self.highest)
        counts = np.zeros((2, n, BINS), dtype=np.int64)
        for k in range(n):
            good = np.isfinite(values[:, k])
            at = np.clip(np.floor((values[good, k] - low[k]) / step[k]), 0, BINS - 1).astype(np.int64)
            for kind in range(2):
                counts[kind, k] = np.bincount(at[inside[good] == bool(kind)], minlength=BINS)
        return counts

    def _from_bins(self, counts: IntArray, k: int, share: FloatArray) -> FloatArray:
        """Quantiles (p,) of quantity k: middles of the bins that hold them."""
        total = int(counts.sum())
        if not total:
            return np.full(len(share), np.nan)
        low, step = self._low_step()
        at = np.searchsorted(np.cumsum(counts), share * (total - 1), side="right")
        return np.asarray(low[k] + (at + 0.5) * step[k])

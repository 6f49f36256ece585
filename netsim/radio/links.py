"""Links: one immutable snapshot of every (UE, base station) pair."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from netsim.units import BoolArray, FloatArray, IntArray, w_from_dbm

_COLUMNS = ("distance_m", "gain", "rsrp_dbm", "los", "received_w")


@dataclass(frozen=True, eq=False)
class RadioLinks:
    """The radio links between all UEs and all base stations at one time.

    time_s; distance_m (n_ue, n_bs), 3D; gain (n_ue, n_bs), linear, of path loss, shadowing and
    antenna; rsrp_dbm, los (n_ue, n_bs); received_w is rsrp_dbm in watts. NaN for an absent UE. A world without base
    stations (a replayed measurement trace) has n_bs = 0.
    """

    time_s: float
    distance_m: FloatArray
    gain: FloatArray
    rsrp_dbm: FloatArray
    los: BoolArray
    received_w: FloatArray
    _whole: tuple[RadioLinks, slice] | None = field(default=None, repr=False, compare=False)
    _sinr: dict[float, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def empty(cls, time_s: float, n_ue: int, n_bs: int) -> Self:
        """Links whose rows are still to be filled in."""
        distance, gain, rsrp, received = (np.empty((n_ue, n_bs)) for _ in range(4))
        return cls(time_s, distance, gain, rsrp, np.empty((n_ue, n_bs), dtype=np.bool_), received)

    def fill(self, rows: slice, some: RadioLinks) -> None:
        """Write rows, before they are read."""
        for name in _COLUMNS:
            getattr(self, name)[rows] = getattr(some, name)

    def part(self, first: int, n: int, time_s: float) -> Self:
        """Rows first to first + n as the links of another time; derived arrays are shared, not recomputed."""
        rows = slice(first, first + n)
        part = object.__new__(type(self))  # writing fields of a frozen class one by one takes as long
        vars(part).update(
            time_s=time_s, distance_m=self.distance_m[rows], gain=self.gain[rows], rsrp_dbm=self.rsrp_dbm[rows],
            los=self.los[rows], received_w=self.received_w[rows], _whole=(self, rows), _sinr={},
            serving=self.serving[rows],
        )  # fmt: skip
        return part

    def with_rows(self, index: IntArray, some: RadioLinks) -> Self:
        """These links with the rows of others in place of rows index (k,), at their time."""

        def merged(name: str) -> Any:
            value = getattr(self, name).copy()
            value[index] = getattr(some, name)
            return value

        return type(self)(some.time_s, *(merged(name) for name in _COLUMNS))

    @cached_property
    def serving(self) -> IntArray:
        """The strongest base station of each UE (n_ue,), -1 for none."""
        return strongest(self.received_w)

    @cached_property
    def interference_w(self) -> FloatArray:
        """Sum of the received powers of all other cells (n_ue, n_bs), W."""
        if self._whole is not None:
            whole, rows = self._whole
            return whole.interference_w[rows]
        return interference(self.received_w, self.serving, 0.0)

    def sinr(self, noise_dbm: float) -> FloatArray:
        """Downlink SINR (n_ue, n_bs), linear: interference from all other cells at full load, and noise.

        noise_dbm is the noise in the bandwidth of RSRP (one resource element).
        """
        if noise_dbm not in self._sinr:
            if self._whole is not None:
                whole, rows = self._whole
                ratio = whole.sinr(noise_dbm)[rows]
            else:
                ratio = self.received_w / interference(self.received_w, self.serving, float(w_from_dbm(noise_dbm)))
            self._sinr[noise_dbm] = ratio
        return self._sinr[noise_dbm]


def strongest(received_w: FloatArray) -> IntArray:
    """The first of the strongest base stations (n,) by powers received (n, n_bs); -1 for an absent UE."""
    n, n_bs = received_w.shape
    if not n_bs:
        return np.full(n, -1)
    return np.where(np.isnan(received_w[:, 0]), -1, np.argmax(received_w, axis=1))


def interference(received_w: FloatArray, strongest: IntArray, noise_w: float) -> FloatArray:
    """Sum of noise and the powers of all other base stations (n, n_bs), W, of powers received (n, n_bs).

    Of the strongest one (n,) it is the sum of the others: a difference of sums would lose weak interference.
    """
    if not received_w.shape[1]:
        return received_w
    own = np.maximum(strongest, 0)[:, None]
    is_own = np.arange(received_w.shape[1]) == own
    others_w = np.cumsum(np.where(is_own, 0.0, received_w), axis=1)[:, -1:]  # one after the other, however many
    rest_w = others_w + (np.take_along_axis(received_w, own, axis=1) - received_w)
    return np.where(is_own, others_w, rest_w) + noise_w

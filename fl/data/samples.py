"""Samples of signals that devices keep, and what they recall of them in a later round."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from fl.types import Local
from netsim.columns import Columns, frozen, no_ints, no_places, row_id, ue_and_model
from netsim.rng import Rng
from netsim.ues import Observations
from netsim.units import FloatArray, IntArray


@frozen
class Signals(Columns):
    """Measurements of signals, in order of row and time: row id (N,), x (N, 2), y (N,), time_s
    (N,), cell (N,).
    """

    bounds: ClassVar = dict.fromkeys(("x", "y"), (-1e9, 1e9))
    row: IntArray
    x: FloatArray
    y: FloatArray
    time_s: FloatArray
    cell: IntArray

    @classmethod
    def none(cls) -> Self:
        """No measurement."""
        nothing = no_ints()
        return cls(nothing, no_places(), np.zeros(0), np.zeros(0), nothing)

    @classmethod
    def observed(cls, observed: Observations, model: IntArray) -> Self:
        """Observations (N,) of models (N,), in their own order."""
        row = row_id(observed.ue, model)
        return cls(row, observed.position_m, observed.rsrp_dbm, observed.time_s, observed.cell)

    @classmethod
    def of(cls, local: Local) -> Self:
        """Samples of local data, which have labels and cells."""
        row = local.row[local.row_of_sample]
        return cls(row, local.x, np.asarray(local.y), local.time_s, np.asarray(local.cell))

    def plus(self, more: Signals) -> Signals:
        """With more of them, in order of row and time; of equal rows and times these come first."""
        row, time_s = (
            np.concatenate(pair) for pair in ((self.row, more.row), (self.time_s, more.time_s))
        )
        return self.merge([self, more], np.lexsort((time_s, row)))

    def strongest(self) -> IntArray:
        """The place of the strongest sample of each row and moment."""
        order = np.lexsort((-self.y, self.time_s, self.row))
        row = self.row[order]
        time_s = self.time_s[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (np.diff(row) != 0) | (np.diff(time_s) != 0)
        return order[first]

    def local(self, rows: IntArray | None = None) -> Local:
        """Local data of the rows of these samples, or of `rows` (n,), sorted, some of which may
        have none.
        """
        rows = np.unique(self.row) if rows is None else rows
        ptr = np.searchsorted(self.row, np.append(rows, np.iinfo(np.int64).max)).astype(int)
        return Local(*ue_and_model(rows), ptr, self.x, self.y, self.time_s, self.cell)


def recalled(fresh: Signals, past: Signals, rows: IntArray, most: int | None, rng: Rng) -> Local:
    """Samples that each of `rows` (n,), sorted, learns from: those measured now, and `most` earlier
    ones.

    Of more earlier samples than that, one is drawn at random from each of `most` equal stretches of
    them, again in every round and for each row by itself. None: all of them.
    """
    first = np.searchsorted(past.row, rows, side="left")
    end = np.searchsorted(past.row, rows, side="right")
    chosen = [no_ints(), *(np.arange(a, b) for a, b in zip(first, end, strict=True))]
    if most is not None:
        for i in np.flatnonzero(end - first > most):  # only they draw
            unit = rng.uniform("recall", rows[i : i + 1], (most,))[0]
            chosen[i + 1] = first[i] + _spread(end[i] - first[i], most, unit)
    return past.select(np.concatenate(chosen)).plus(fresh).local(rows)


def _spread(count: int, most: int, unit: FloatArray) -> IntArray:
    """Draw `most` of the numbers below count in order: one of each stretch, by unit (most,)."""
    edge = np.arange(most + 1) * count // most
    return edge[:-1] + (unit * np.diff(edge)).astype(np.int64)

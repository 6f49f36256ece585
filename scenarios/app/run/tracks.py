"""Tracks of the first UEs of a radio study: a row wherever something changed, up to a number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.units import BoolArray, FloatArray, IntArray

MOST_TRACKED, MOST_ROWS = 40, 1000  # UEs, and rows of each


@dataclass(frozen=True, eq=False)
class Trail:
    """The last row of each tracked UE: at_m (t, 2), inside (t,), cell (t,); and how many it has, rows (t,)."""

    at_m: FloatArray
    inside: BoolArray
    cell: IntArray
    rows: IntArray

    @classmethod
    def start(cls, n_ue: int) -> Trail:
        """Nobody has a row."""
        t = min(n_ue, MOST_TRACKED)
        zero = np.zeros(t, dtype=np.int64)
        return cls(np.full((t, 2), np.nan), np.zeros(t, dtype=np.bool_), zero - 1, zero)

    def step(self, at_m: FloatArray, inside: BoolArray, cell: IntArray) -> tuple[Trail, IntArray]:
        """The next state, and the tracked UEs (k,) that get a row.

        at_m (n_ue, 2), NaN for an absent UE; inside, cell (n_ue,). A UE gets a row when its place, its cell or whether
        it is indoors has changed, when it appears, and an empty one when it disappears.
        """
        t = len(self.rows)
        at_m, inside, cell = at_m[:t], inside[:t], cell[:t]
        same_place = ((at_m == self.at_m) | (np.isnan(at_m) & np.isnan(self.at_m))).all(axis=1)
        gone = np.isnan(at_m).any(axis=1)
        changed = ~same_place | (~gone & ((inside != self.inside) | (cell != self.cell)))
        written = changed & (self.rows < MOST_ROWS)
        return Trail(at_m, inside, cell, self.rows + written), np.flatnonzero(written)


def joined(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows of several moments as one set of columns."""
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

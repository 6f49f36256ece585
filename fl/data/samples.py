"""Samples that devices own or keep, and what they recall of them in a later round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from fl.types import SAMPLE_BOUNDS, Local, SampleFormat
from netsim.columns import Columns, frozen, no_floats, no_ints, no_places, number_row, split_row_id
from netsim.rng import Rng
from netsim.ues import Observations
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class StoredRows:
    """Rows `index` (n,) of an array (N, p), which are read when this becomes an array."""

    array: npt.NDArray[Any]
    index: IntArray

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: IntArray | BoolArray | slice) -> StoredRows:
        return StoredRows(self.array, self.index[rows])

    select = __getitem__

    @classmethod
    def join(cls, pieces: Sequence[Self]) -> Self:
        """Rows of pieces of one array, one after the other."""
        return cls(pieces[0].array, np.concatenate([piece.index for piece in pieces]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.array[self.index], dtype or self.array.dtype.newbyteorder("="))


@frozen
class SampleSet(Columns):
    """N samples: x (N, p) of a format; without one x are places (N, 2), m, and y RSRP, dBm.

    y (N,) : labels. time_s (N,) : simulated time from which a sample is there. held_out (N,) :
    samples that are not trained on; none at all: they are drawn. owner (N,) : number of the UE;
    place (N, 2) : m, or where `is_globe` degrees, latitude first; None: not known.
    """

    format: SampleFormat | None
    x: Any
    y: FloatArray
    time_s: FloatArray
    held_out: BoolArray
    owner: IntArray | None = None
    place: FloatArray | None = None
    is_globe: bool = False

    @property
    def label(self) -> IntArray | None:
        """Classes (N,); None where labels are numbers."""
        if self.format is not None and self.format.classes:
            return self.y.astype(int)
        return None

    def __len__(self) -> int:
        return len(self.y)


@frozen
class Signals(Columns):
    """Measurements of signals, in order of row and time: row id (N,), x (N, 2), y (N,), time_s
    (N,), cell (N,).
    """

    bounds: ClassVar = SAMPLE_BOUNDS
    row: IntArray
    x: Any
    y: FloatArray
    time_s: FloatArray
    cell: IntArray

    @classmethod
    def empty(cls) -> Self:
        """No measurement."""
        nothing = no_ints()
        return cls(nothing, no_places(), no_floats(), no_floats(), nothing)

    @classmethod
    def from_observations(cls, observed: Observations, model: IntArray) -> Self:
        """Observations (N,) of models (N,), in their own order."""
        row = number_row(observed.ue, model)
        return cls(row, observed.position_m, observed.rsrp_dbm, observed.time_s, observed.cell)

    @classmethod
    def from_local(cls, local: Local) -> Self:
        """Samples of local data, which have labels and cells."""
        row = local.row[local.row_of_sample]
        return cls(row, local.x, np.asarray(local.y), local.time_s, np.asarray(local.cell))

    def add(self, other_samples: Signals) -> Signals:
        """With more of them, in order of row and time; of equal rows and times these come first."""
        row = np.concatenate([self.row, other_samples.row])
        time_s = np.concatenate([self.time_s, other_samples.time_s])
        return self.merge([self, other_samples], np.lexsort((time_s, row)))

    def find_strongest_indices(self) -> IntArray:
        """The place of the strongest sample of each row and moment."""
        order = np.lexsort((-self.y, self.time_s, self.row))
        is_other_row = np.diff(self.row[order], prepend=-1) != 0
        is_other_moment = np.diff(self.time_s[order], prepend=0.0) != 0
        return order[is_other_row | is_other_moment]

    def to_local(self, rows: IntArray | None = None) -> Local:
        """Local data of the rows of these samples, or of `rows` (n,), sorted, some of which may
        have none.
        """
        if rows is None:
            rows = np.unique(self.row)
        ends = np.append(rows, np.iinfo(np.int64).max)
        ptr = np.searchsorted(self.row, ends).astype(int)
        return Local(*split_row_id(rows), ptr, self.x, self.y, self.time_s, self.cell)


def recall_samples(
    fresh: Signals, past: Signals, rows: IntArray, max_earlier: int | None, rng: Rng
) -> Local:
    """Samples that each of `rows` (n,), sorted, learns from: those measured now, and `max_earlier`
    earlier ones.

    Of more earlier samples than that, one is drawn at random from each of `max_earlier` equal
    stretches of them, again in every round and for each row by itself. None: all of them.
    """
    first = np.searchsorted(past.row, rows, side="left")
    end = np.searchsorted(past.row, rows, side="right")
    chosen = [no_ints(), *(np.arange(a, b) for a, b in zip(first, end, strict=True))]
    if max_earlier is not None:
        for i in np.flatnonzero(end - first > max_earlier):  # only they draw
            unit = rng.uniform("recall", rows[i : i + 1], (max_earlier,))[0]
            edge = np.arange(max_earlier + 1) * (end[i] - first[i]) // max_earlier
            chosen[i + 1] = first[i] + edge[:-1] + (unit * np.diff(edge)).astype(np.int64)
    return past.select(np.concatenate(chosen)).add(fresh).to_local(rows)

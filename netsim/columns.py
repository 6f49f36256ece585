"""Data classes of columns, which are selected and joined together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, Self, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt

from netsim.units import BoolArray, FloatArray, IntArray

T = TypeVar("T")
Array = TypeVar("Array", bound=np.ndarray)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """A frozen data class that is compared by identity: whether two arrays are equal has no single
    answer.
    """
    return dataclass(frozen=True, eq=False)(cls)


class Columns:
    """Base of data classes whose fields have equally many rows: arrays, lists, other columns, or
    None: missing.

    What is none of these, as text, is the same in all rows.
    """

    def select(self, rows: IntArray | BoolArray | slice) -> Self:
        """Rows by index, mask or slice."""
        of: Any = self
        return type(self)(*(_select(getattr(self, f.name), rows) for f in fields(of)))

    def replaced(self, rows: IntArray, new: Self) -> Self:
        """A copy with new values in some rows; all columns are arrays."""
        of: Any = self
        return type(self)(
            *(replaced(getattr(self, f.name), rows, getattr(new, f.name)) for f in fields(of))
        )

    @classmethod
    def join(cls, pieces: Sequence[Self]) -> Self:
        """All pieces, one after the other; a column that a piece lacks is missing in the result."""
        if len(pieces) == 1:
            return pieces[0]
        of: Any = cls
        return cls(*(_join([getattr(piece, f.name) for piece in pieces]) for f in fields(of)))

    @classmethod
    def merge(cls, pieces: Sequence[Self], rows: IntArray) -> Self:
        """Rows of all pieces, of which the first has the first numbers; one column at a time, to
        bound memory.
        """
        of: Any = cls
        return cls(
            *(
                _select(_join([getattr(piece, f.name) for piece in pieces]), rows)
                for f in fields(of)
            )
        )


def _select(column: Any, rows: IntArray | BoolArray | slice) -> Any:
    if isinstance(column, list):
        return [column[i] for i in np.arange(len(column))[rows].tolist()]
    if isinstance(column, np.ndarray):
        return column[rows]
    if hasattr(column, "select"):
        return column.select(rows)
    return column


def _join(columns: Sequence[Any]) -> Any:
    if any(column is None for column in columns):
        return None
    if isinstance(columns[0], list):
        return list(chain.from_iterable(columns))
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    if hasattr(columns[0], "select"):
        return type(columns[0]).join(columns)
    return columns[0]


def replaced(column: Array, rows: IntArray, value: npt.ArrayLike) -> Array:
    """A copy of an array with new values in some rows."""
    new = column.copy()
    new[rows] = value
    return new


def evenly(count: int, most: int) -> IntArray:
    """At most `most` numbers of 0..count - 1, ascending: all, or evenly spaced ones with both
    ends.
    """
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(int)


def blocks(count: int, most: int) -> list[slice]:
    """Slices of at most `most` that cover 0..count - 1 in order: what is computed piece by piece,
    to bound memory.
    """
    return [slice(at, at + most) for at in range(0, count, most)]


def no_ints() -> IntArray:
    """A column of whole numbers without rows."""
    return np.zeros(0, dtype=int)


def no_floats() -> FloatArray:
    """A column of numbers without rows."""
    return np.zeros(0)


def no_places() -> FloatArray:
    """A column of places in the plane without rows."""
    return np.zeros((0, 2))


Value = TypeVar("Value")


def altered(value: Value, **fields: object) -> Value:
    """A copy with these fields: `dataclasses.replace` in a fifth of the time, for what is copied
    every tick.

    Nothing of the class is called: its checks are the caller's, and cached properties would be
    copied with the rest.
    """
    copy: Value = object.__new__(type(value))
    vars(copy).update(vars(value), **fields)
    return copy


MAX_STATIONS = 4096
"""cells of a world, and models of a run"""

_Ids = TypeVar("_Ids", int, IntArray)


def row_id(ue: _Ids, model: _Ids) -> _Ids:
    """The number of (ue, model), of one pair or of arrays (n,)."""
    return ue * MAX_STATIONS + model


def ue_and_model(row: IntArray) -> tuple[IntArray, IntArray]:
    """The pairs that `row_id` numbered: ue (n,), model (n,)."""
    return divmod(row, MAX_STATIONS)

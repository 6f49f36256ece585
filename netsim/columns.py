"""Data classes of columns, which are selected and joined together."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from math import nan
from typing import Any, Self, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt

from netsim.units import BoolArray, FloatArray, IntArray, IntArrayPair

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
        return type(self)(
            *(_select_column(getattr(self, name), rows) for name in _list_names(self))
        )

    def replace_rows(self, rows: IntArray, new: Self) -> Self:
        """A copy with new values in some rows; all columns are arrays."""
        return type(self)(
            *(
                replace_values(getattr(self, name), rows, getattr(new, name))
                for name in _list_names(self)
            )
        )

    @classmethod
    def join(cls, pieces: Sequence[Self]) -> Self:
        """All pieces, one after the other; a column that a piece lacks is missing in the result."""
        if len(pieces) == 1:
            return pieces[0]
        return cls(*(join_columns(pieces, name) for name in _list_names(cls)))

    @classmethod
    def merge(cls, pieces: Sequence[Self], rows: IntArray) -> Self:
        """Rows of all pieces, of which the first has the first numbers; one column at a time, to
        bound memory.
        """
        return cls(*(_select_column(join_columns(pieces, name), rows) for name in _list_names(cls)))


def _list_names(columns: Any) -> list[str]:
    """Names of the columns, of a class of them or a table."""
    return [field.name for field in fields(columns)]


def _select_column(column: Any, rows: IntArray | BoolArray | slice) -> Any:
    if isinstance(column, list):
        return [column[i] for i in np.arange(len(column))[rows].tolist()]
    if isinstance(column, np.ndarray):
        return column[rows]
    if hasattr(column, "select"):
        return column.select(rows)
    return column


def join_columns(pieces: Sequence[Any], name: str) -> Any:
    """A column of all pieces, one after the other; None where one lacks it."""
    columns = [getattr(piece, name) for piece in pieces]
    if any(column is None for column in columns):
        return None
    first = columns[0]
    if isinstance(first, list):
        return list(chain.from_iterable(columns))
    if isinstance(first, np.ndarray):
        return np.concatenate(columns)
    if hasattr(first, "select"):
        return type(first).join(columns)
    return first


def replace_values(column: Array, rows: IntArray, value: npt.ArrayLike) -> Array:
    """A copy of an array with new values in some rows."""
    new = column.copy()
    new[rows] = value
    return new


def match_rows(these: IntArray, those: IntArray) -> IntArrayPair:
    """Where numbers that stand in both arrays, each once, stand in each of them: (k,), (k,)."""
    _, here, there = np.intersect1d(these, those, assume_unique=True, return_indices=True)
    return here, there


def compute_bounds(count: IntArray) -> IntArray:
    """Where the members of each group begin and end (n + 1,), of their numbers (n,)."""
    return np.append(0, np.cumsum(count)).astype(int)


def select_groups(bounds: IntArray, groups: IntArray) -> IntArrayPair:
    """Bounds (k + 1,) of groups (k,) that are laid one after the other, and their members (m,)."""
    count = np.diff(bounds)[groups]
    new = compute_bounds(count)
    return new, np.arange(new[-1]) + np.repeat(bounds[groups] - new[:-1], count)


def rank_in_groups(count: IntArray) -> IntArray:
    """The number of each member (m,) in its group, of groups of so many members (n,)."""
    return np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)


def divide_or_zero(values: FloatArray, by: FloatArray | IntArray) -> FloatArray:
    """values / by (n, ...), which broadcasts to values; 0 where `by` is not above 0."""
    return np.divide(values, by, out=np.zeros_like(values), where=by > 0)


def divide_or(
    values: FloatArray | float, by: FloatArray | IntArray, otherwise: float
) -> FloatArray:
    """values / by, of shapes that broadcast; `otherwise` where `by` is not above 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by > 0, values / by, otherwise)


def average_or_nan(values: FloatArray | BoolArray) -> float:
    """Mean of values (n,); NaN of none."""
    return float(values.mean()) if len(values) else nan


def rank_values(values: FloatArray) -> FloatArray:
    """Ranks (n,) from 1 of values (n,), ties at their mean; all NaN where a value is."""
    _, index, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[index]
    return np.where(np.isnan(values).any(), nan, rank)


def pick_even_indices(count: int, max_count: int) -> IntArray:
    """At most `max_count` numbers of 0..count - 1, ascending: all, or evenly spaced ones with both
    ends.
    """
    if count <= max_count:
        return np.arange(count)
    return np.linspace(0, count - 1, max_count).astype(int)


def split_blocks(count: int, max_size: int) -> list[slice]:
    """Slices of at most `max_size` that cover 0..count - 1 in order: what is computed piece by
    piece, to bound memory.
    """
    return [slice(start, start + max_size) for start in range(0, count, max_size)]


def no_ints() -> IntArray:
    """A column of whole numbers without rows."""
    return np.zeros(0, int)


def no_floats() -> FloatArray:
    """A column of numbers without rows."""
    return np.zeros(0)


def no_places() -> FloatArray:
    """A column of places in the plane without rows."""
    return np.zeros((0, 2))


Value = TypeVar("Value")


def copy_with(value: Value, **fields: object) -> Value:
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


def number_row(ue: _Ids, model: _Ids) -> _Ids:
    """The number of (ue, model), of one pair or of arrays (n,)."""
    return ue * MAX_STATIONS + model


def split_row_id(row: IntArray) -> IntArrayPair:
    """The pairs that `number_row` numbered: ue (n,), model (n,)."""
    return divmod(row, MAX_STATIONS)


def find_last_rows(keys: IntArray, numbers: IntArray) -> IntArray:
    """The last row (n,) of keys (k,), none of them negative, where each of the numbers (n,) stands;
    -1 where it stands nowhere.
    """
    order = np.argsort(keys, kind="stable")
    last = np.append(order, -1)[np.searchsorted(keys[order], numbers, "right") - 1]
    is_known = np.append(keys, -1)[last] == numbers
    return np.where(is_known, last, -1)


def look_up_or_nan(keys: IntArray, value: FloatArray | IntArray, numbers: IntArray) -> FloatArray:
    """Values (n, ...) of numbers (n,), from value (k, ...) of an ascending list (k,):
    NaN if unknown.
    """
    recalled = np.full((len(numbers), *value.shape[1:]), np.nan)
    is_known = np.isin(numbers, keys)
    recalled[is_known] = value[np.searchsorted(keys, numbers[is_known])]
    return recalled


@frozen
class ByKey:
    """Values (k, ...) by key (k,), ascending."""

    key: IntArray
    value: FloatArray

    @classmethod
    def empty(cls, columns: int) -> Self:
        """Before the first: what is recalled is NaN (n, columns)."""
        return cls(no_ints(), np.zeros((0, columns)))

    def look_up(self, key: IntArray) -> FloatArray:
        """Values (n, ...) of keys (n,): NaN if unknown."""
        return look_up_or_nan(self.key, self.value, key)

    def overwrite_values(self, key: IntArray, value: FloatArray) -> Self:
        """Overwrite the values (n, ...) of keys (n,), or add those that are new."""
        keys, first = np.unique(np.concatenate([key, self.key]), return_index=True)
        before = self.value if len(self.key) else value[:0]
        return type(self)(keys, np.concatenate([value, before])[first])


def update_means(
    past: ByKey, key: IntArray, value: FloatArray, memory: float
) -> tuple[FloatArray, ByKey]:
    """Running means (n, p) of keys (n,) after values (n, p), and what is remembered: weights w,
    then the means.

    mean_t = mean_{t-1} + (x_t - mean_{t-1}) / w_t,    w_t = 1 + (1 - 1 / memory) w_{t-1},    w_0 =
    0
    """
    old = past.look_up(key)
    weight = 1.0 + (1.0 - 1.0 / memory) * np.nan_to_num(old[:, :1])
    mean = old[:, 1:]
    mean = np.where(np.isfinite(mean), mean + (value - mean) / weight, value)
    return mean, past.overwrite_values(key, np.concatenate([weight, mean], axis=1))

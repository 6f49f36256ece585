"""Rows by user and time, without sorting and without copies where they already are."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from netsim.traces.values import Codes
from netsim.units import BoolArray, FloatArray, IntArray

Index = npt.NDArray[np.integer]
_Column = TypeVar("_Column", FloatArray, IntArray, Codes)


def by_user_and_time(user: Index, time_s: FloatArray) -> IntArray | None:
    """The order of rows, None if they are in order; rows of one user and time stay as in the file."""
    in_order: BoolArray = user[1:] > user[:-1]
    in_order |= (user[1:] == user[:-1]) & (time_s[1:] >= time_s[:-1])
    return None if in_order.all() else np.asarray(np.lexsort((time_s, user)))


def arranged(column: _Column, order: IntArray | None) -> _Column:
    """The column in an order."""
    return column if order is None else column[order]


def taken(column: _Column, rows: IntArray) -> _Column:
    """column[rows], without a copy when that is all of it (`rows` rise, without repetition)."""
    return column if len(rows) == len(column) else column[rows]


def first_backwards(user: Codes, time_s: FloatArray) -> tuple[int, int] | None:
    """The rows (before, after) of a user between which time runs backwards; equal times are fine."""
    if np.all(time_s[1:] >= time_s[:-1]):
        return None
    order = None if np.all(user[1:] >= user[:-1]) else np.argsort(user, kind="stable")
    user, time_s = arranged(user, order), arranged(time_s, order)
    back = np.flatnonzero((user[1:] == user[:-1]) & (time_s[1:] < time_s[:-1]))
    if not back.size:
        return None
    before, after = int(back[0]), int(back[0]) + 1
    return (before, after) if order is None else (int(order[before]), int(order[after]))

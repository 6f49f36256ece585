"""The row of a (UE, model) pair as one number, which keys random draws and what parts remember of the pair.

A world has at most `MAX_STATIONS` cells and a run as many models, so the number is unique: ue * MAX_STATIONS + model.
Measurements of cells are numbered in the same way, with the cell in place of the model.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from netsim.units import IntArray

MAX_STATIONS = 4096
"""cells of a world, and models of a run"""

_Ids = TypeVar("_Ids", int, IntArray)


def row_id(ue: _Ids, model: _Ids) -> _Ids:
    """The number of (ue, model), of one pair or of arrays (n,)."""
    return ue * MAX_STATIONS + model


def ue_and_model(row: IntArray) -> tuple[IntArray, IntArray]:
    """The pairs that `row_id` numbered: ue (n,), model (n,)."""
    return np.asarray(row // MAX_STATIONS), np.asarray(row % MAX_STATIONS)

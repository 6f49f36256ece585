"""A trace file as columns, whatever its format.

In memory a row takes 33 bytes (time 8, user 4, place 16, usable 1, and 4 for its line while a CSV is read), and 8, 4
and 8 more for RSRP, cell and speed where the file has them; names are held once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from netsim.errors import BadInput
from netsim.traces.points import Points
from netsim.traces.times import LATEST_EPOCH_S, RELATIVE_BELOW_S
from netsim.traces.values import Codes
from netsim.units import BoolArray, FloatArray, IntArray

PLACELESS, USERLESS = "position_missing", "user_missing"
"""the reasons for which rows without a position, or without a user, are left out"""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in the order of the file.

    path, n_bytes, format : the file or folder as it was named, its size, and what it was read as.
    time_s (n,) since 1970-01-01 UTC, or since a midnight without a date where `relative`.
    points : where the rows are; finite and within bounds.
    user (n,) and cell (n,) index `users` and `cells`, both in order of first appearance; cell is -1 where it
    is missing. rsrp_dbm (n,), speed_mps (n,) : NaN where missing. None stands for a column the file lacks.
    usable (n,) : the row has all the signal columns that the file has; counts : the others, by reason, each
    row under one reason.
    skipped : rows of the file that are not here, by reason.
    header_of : our name -> header in the file; ignored : headers that nothing reads; likely : our name -> header
    that probably means it, for optional columns that the file lacks. Only a CSV has headers.
    """

    path: str
    n_bytes: int
    format: str
    time_s: FloatArray
    user: Codes
    users: tuple[str, ...]
    points: Points
    usable: BoolArray
    rsrp_dbm: FloatArray | None = None
    cell: Codes | None = None
    cells: tuple[str, ...] = ()
    speed_mps: FloatArray | None = None
    counts: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    header_of: dict[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    likely: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.time_s)

    def at(self, rows: IntArray) -> Table:
        """Some of the rows."""
        return replace(
            self,
            time_s=self.time_s[rows],
            user=self.user[rows],
            points=self.points.at(rows),
            usable=self.usable[rows],
            rsrp_dbm=None if self.rsrp_dbm is None else self.rsrp_dbm[rows],
            cell=None if self.cell is None else self.cell[rows],
            speed_mps=None if self.speed_mps is None else self.speed_mps[rows],
        )

    @property
    def relative(self) -> bool:
        """Whether times are so small that they count from a midnight of their own (below 1e8 s, March 1973)."""
        return bool(self.time_s.max() < RELATIVE_BELOW_S)


def moves(
    path: str,
    n_bytes: int,
    format: str,
    time_s: FloatArray,
    user: Codes,
    users: Sequence[str],
    points: Points,
    notes: Sequence[str] = (),
    n_placeless: int = 0,
) -> Table:
    """The table of a file of positions; n_placeless further rows have none.

    Raises `BadInput` if there is no position, or a time out of bounds.
    """
    if not len(time_s):
        raise BadInput(f"{path}: has no positions with a time; give a {format} file that has some")
    if not (np.all(time_s >= 0.0) and np.all(time_s <= LATEST_EPOCH_S)):
        odd = time_s[~((time_s >= 0.0) & (time_s <= LATEST_EPOCH_S))][0]
        raise BadInput(f"{path}: time {odd:g} s is not between 1970 and 2100; correct or remove it")
    return Table(
        path,
        n_bytes,
        format,
        time_s,
        user,
        tuple(users),
        points,
        np.ones(len(time_s), np.bool_),
        skipped={PLACELESS: n_placeless},
        notes=tuple(notes),
    )

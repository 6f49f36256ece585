"""CSV or CSV.gz with a header, checked value by value; what cannot be read is refused by line.

A row that would make the trace wrong (no time, a place that cannot be, time running backwards) stops the reading. A
row without a place or a user is left out, one that is merely of no use (no signal measured) stays in the table and is
marked unusable; all are counted.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.traces import headers
from netsim.traces.crs import in_degrees, in_metres
from netsim.traces.csv_reader import Sheet, read_sheets
from netsim.traces.order import first_backwards
from netsim.traces.points import Points
from netsim.traces.source import Source
from netsim.traces.table import PLACELESS, USERLESS, Table
from netsim.traces.times import Times
from netsim.traces.values import (
    Codes,
    ColumnNames,
    Refused,
    bounded_or_missing,
    numbers,
    shown,
    with_points,
    without_missing,
)
from netsim.units import BoolArray, FloatArray

_MANY = 10  # rows that run backwards, from which on the whole file does
_TURNED = "the rows are newest first and were read from the end"
_NO_CELL = ("-1", "2147483647")  # what Android has for a number that is unavailable
RSRP_BOUNDS_DBM = (-160.0, -20.0)
_BOUNDS = {"lat": (-90.0, 90.0), "lon": (-180.0, 180.0), "x_m": (-1e9, 1e9), "y_m": (-1e9, 1e9)}


def read_csv(path: str, columns: Mapping[str, str], crs: str, zone: tzinfo | None) -> Table:
    """`columns` maps our names to headers, e.g. ``{"lat": "Latitude"}``; `zone` is that of times without one."""
    sheets = read_sheets(path)
    first = next(sheets)
    header_of = headers.match(path, first.header, columns, crs)
    grown = _CsvColumns(header_of, zone)
    grown.add(first)
    for sheet in sheets:
        grown.add(sheet)
    users, skipped = grown.keep_placed(path)
    time_s, line, user = (grown.column(ours) for ours in ("time_s", "line", "user"))
    back = first_backwards(user, time_s)
    turned = back is not None and len(user) >= _MANY and first_backwards(user[::-1], time_s[::-1]) is None
    if turned:
        grown.turn()
        time_s, user = grown.column("time_s"), grown.column("user")
    elif back is not None:
        where = f"line {line[back[1]]}, column {shown(header_of['time_s'], quote=False)}"
        problem = f"its time is before that of line {line[back[0]]}, of the same user"
        raise BadInput(f"{path}: {where}: {problem}; sort the rows of each user by time")
    rsrp_dbm = grown.column("rsrp_dbm") if "rsrp_dbm" in header_of else None
    cells, cell = (
        without_missing(grown.names["cell"].all(), grown.column("cell"), _NO_CELL)
        if "cell" in header_of
        else ((), None)
    )
    usable, counts = _usable(len(time_s), cell, rsrp_dbm)
    likely = headers.optional(first.header, header_of)
    return Table(
        path=path,
        n_bytes=Source(path).n_bytes,
        format="csv",
        time_s=time_s,
        user=user,
        users=users,
        points=_points(path, grown, crs),
        usable=usable,
        rsrp_dbm=rsrp_dbm,
        cell=cell,
        cells=cells,
        speed_mps=grown.column("speed_mps") if "speed_mps" in header_of else None,
        counts=counts,
        skipped=skipped,
        header_of=header_of,
        ignored=tuple(h for h in first.header if h not in header_of.values()),
        likely=likely,
        notes=(*headers.notes(header_of, likely), *grown.notes(), *([_TURNED] if turned else [])),
    )


class _CsvColumns:
    """The columns that the file has, growing sheet by sheet."""

    def __init__(self, header_of: Mapping[str, str], zone: tzinfo | None) -> None:
        self.header_of = header_of
        self.names = {"user": ColumnNames(), "cell": ColumnNames()}
        self._times = Times(zone, header_of["time_s"])
        codes = ("line", "user", "cell")
        self._grown = {ours: array("i" if ours in codes else "d") for ours in ("line", *headers.OURS)}

    def add(self, sheet: Sheet) -> None:
        """Check and keep the rows of a sheet. Raises `BadInput` with one line."""
        self._grow("line", np.asarray(sheet.line, dtype=np.int32))
        if "user" not in self.header_of:
            self._grow("user", self.names["user"].read(["all"] * len(sheet.line)))
        for ours, header in self.header_of.items():
            try:
                self._grow(ours, self._values(ours, sheet.values(header), sheet))
            except Refused as refusal:
                sheet.refuse(refusal.row, header, str(refusal))

    def column(self, ours: str) -> Any:
        """A whole column (n,)."""
        return np.frombuffer(self._grown[ours], dtype=np.int32 if self._grown[ours].typecode == "i" else np.float64)

    def _grow(self, ours: str, values: FloatArray | Codes) -> None:
        # an array of Python moves its memory instead of copying it, and leaves no holes behind
        self._grown[ours].frombytes(values.tobytes())

    def keep_placed(self, path: str) -> tuple[tuple[str, ...], dict[str, int]]:
        """Forget the rows without a position or a user; returns the users, and the number of rows left out, by reason.

        Times of day that came twice are settled before.
        """
        if (settled_s := self._times.settled(time_s := self.column("time_s"), self.column("user"))) is not time_s:
            self._replace("time_s", settled_s)
        users, user = without_missing(self.names["user"].all(), self.column("user"))
        first, second = (self.column(ours) for ours in _BOUNDS if ours in self.header_of)
        placed = np.isfinite(first) & np.isfinite(second)
        there = placed & (user >= 0)
        if not there.any():
            missing = "a user" if placed.any() else "a position"
            raise BadInput(f"{path}: no row has {missing}; give a file with some, or other --columns")
        if len(users) < len(self.names["user"].all()):
            self._replace("user", user)
        if not there.all():
            for ours in dict.fromkeys(("line", "user", *self.header_of)):
                self._replace(ours, self.column(ours)[there])
        skipped = {PLACELESS: int((~placed).sum()), USERLESS: int((placed & ~there).sum())}
        return users, skipped

    def turn(self) -> None:
        """The last row first."""
        for ours in dict.fromkeys(("line", "user", *self.header_of)):
            self._replace(ours, self.column(ours)[::-1])

    def notes(self) -> tuple[str, ...]:
        """Notes for the user on how names and times were read."""
        joined = [note for ours, names in self.names.items() for note in names.notes(self.header_of.get(ours, ours))]
        return (*joined, *self._times.notes)

    def _replace(self, ours: str, values: FloatArray | Codes) -> None:
        self._grown[ours] = array(self._grown[ours].typecode)
        self._grow(ours, values)

    def _values(self, ours: str, text: list[str], sheet: Sheet) -> FloatArray | Codes:
        if ours in self.names:
            return self.names[ours].read(text)
        text = with_points(text, sheet.delimiter)
        if ours == "time_s":
            return self._times.read(text, sheet.line[0])
        return bounded_or_missing(text, *_BOUNDS[ours]) if ours in _BOUNDS else numbers(text)


def _points(path: str, grown: _CsvColumns, crs: str) -> Points:
    if "x_m" in grown.header_of:
        return in_metres(path, crs, grown.column("x_m"), grown.column("y_m"))
    return in_degrees(path, crs, grown.column("lat"), grown.column("lon"))


def _usable(n: int, cell: Codes | None, rsrp_dbm: FloatArray | None) -> tuple[BoolArray, dict[str, int]]:
    usable = np.ones(n, dtype=np.bool_)
    counts: dict[str, int] = {}
    reasons: list[tuple[str, BoolArray]] = []
    if cell is not None:
        reasons.append(("cell_missing", cell < 0))
    if rsrp_dbm is not None:
        low, high = RSRP_BOUNDS_DBM
        reasons.append(("rsrp_missing", np.isnan(rsrp_dbm)))
        reasons.append(("rsrp_out_of_range", ~((rsrp_dbm >= low) & (rsrp_dbm <= high))))
    for reason, holds in reasons:
        counts[reason] = int((usable & holds).sum())
        usable &= ~holds
    return usable, counts

"""CSV or CSV.gz with a header, checked value by value; what cannot be read is refused by line.

A row that would make the trace wrong (no time, no place, time running backwards) stops the reading. A row
that is merely of no use (no signal measured) stays in the table, is marked unusable, and is counted.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.traces import headers
from netsim.traces.crs import in_degrees, in_metres
from netsim.traces.order import first_backwards
from netsim.traces.points import Points
from netsim.traces.sheet import Sheet, read_sheets
from netsim.traces.source import Source
from netsim.traces.table import Table
from netsim.traces.values import (
    Codes,
    Names,
    Refused,
    Times,
    bounded,
    numbers,
    shown,
    without_missing,
)
from netsim.units import BoolArray, FloatArray

RSRP_BOUNDS_DBM = (-160.0, -20.0)
_BOUNDS = {"lat": (-90.0, 90.0), "lon": (-180.0, 180.0), "x_m": (-1e9, 1e9), "y_m": (-1e9, 1e9)}


def read_csv(path: str, columns: Mapping[str, str], crs: str) -> Table:
    """`columns` maps our names to headers, e.g. ``{"lat": "Latitude"}``."""
    sheets = read_sheets(path)
    first = next(sheets)
    found = headers.match(path, first.header, columns, crs)
    grown = _Columns(found)
    grown.add(first)
    for sheet in sheets:
        grown.add(sheet)
    time_s, line = grown.column("time_s"), grown.column("line")
    users, user = grown.names["user"].all(), grown.column("user")
    _refuse_backwards(path, found["time_s"], user, time_s, line)
    rsrp_dbm = grown.column("rsrp_dbm") if "rsrp_dbm" in found else None
    cells, cell = without_missing(grown.names["cell"].all(), grown.column("cell")) if "cell" in found else ((), None)
    usable, counts = _usable(len(time_s), cell, rsrp_dbm)
    likely = headers.optional(first.header, found)
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
        speed_mps=grown.column("speed_mps") if "speed_mps" in found else None,
        counts=counts,
        found=found,
        ignored=tuple(h for h in first.header if h not in found.values()),
        likely=likely,
        notes=headers.notes(found, likely),
    )


class _Columns:
    """The columns that were found, growing sheet by sheet."""

    def __init__(self, found: Mapping[str, str]) -> None:
        self.found = found
        self.names = {"user": Names(), "cell": Names()}
        self._times = Times()
        codes = ("line", "user", "cell")
        self._grown = {ours: array("i" if ours in codes else "d") for ours in ("line", *headers.OURS)}

    def add(self, sheet: Sheet) -> None:
        """Check and keep the rows of a sheet. Raises `BadInput` with one line."""
        self._grow("line", np.asarray(sheet.line, dtype=np.int32))
        if "user" not in self.found:
            self._grow("user", self.names["user"].read(["all"] * len(sheet.line)))
        for ours, header in self.found.items():
            try:
                self._grow(ours, self._values(ours, sheet.values(header), sheet.line[0]))
            except Refused as refusal:
                sheet.refuse(refusal.row, header, str(refusal))

    def column(self, ours: str) -> Any:
        """A whole column (n,)."""
        return np.frombuffer(self._grown[ours], dtype=np.int32 if self._grown[ours].typecode == "i" else np.float64)

    def _grow(self, ours: str, values: FloatArray | Codes) -> None:
        # an array of Python moves its memory instead of copying it, and leaves no holes behind
        self._grown[ours].frombytes(values.tobytes())

    def _values(self, ours: str, text: list[str], line: int) -> FloatArray | Codes:
        if ours == "time_s":
            return self._times.read(text, line)
        if ours in _BOUNDS:
            return bounded(text, *_BOUNDS[ours])
        if ours in self.names:
            if ours == "user":
                _refuse_nobody(text)
            return self.names[ours].read(text)
        return numbers(text)


def _points(path: str, grown: _Columns, crs: str) -> Points:
    if "x_m" in grown.found:
        return in_metres(path, crs, grown.column("x_m"), grown.column("y_m"))
    return in_degrees(path, crs, grown.column("lat"), grown.column("lon"))


def _refuse_nobody(text: list[str]) -> None:
    """Every row has a user."""
    for name in dict.fromkeys(text):
        if not name.strip():
            raise Refused(text.index(name), f"{shown(name)} is no user; name one or remove the line")


def _refuse_backwards(path: str, header: str, user: Codes, time_s: FloatArray, line: Codes) -> None:
    """The texts are not kept, so the file is read again to quote them."""
    rows = first_backwards(user, time_s)
    if rows is None:
        return
    before, after = (_quoted(path, header, row) for row in rows)
    problem = f"{after} is before {before} of the same user at line {line[rows[0]]}"
    where = f"line {line[rows[1]]}, column {shown(header, quote=False)}"
    raise BadInput(f"{path}: {where}: {problem}; sort the rows of each user by time")


def _quoted(path: str, header: str, row: int) -> str:
    for sheet in read_sheets(path):
        if row < len(sheet.line):
            return shown(sheet.values(header)[row])
        row -= len(sheet.line)
    raise BadInput(f"{path}: changed while it was read; try again")


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

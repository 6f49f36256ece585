"""A trace file as columns: CSV or CSV.gz, checked value by value; what cannot be read is refused by line.

A row that would make the trace wrong (no time, no place, time running backwards) stops the reading. A row
that is merely of no use (no signal measured) stays in the table, is marked unusable, and is counted.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

import numpy as np

from netsim.errors import BadInput
from netsim.units import BoolArray, FloatArray, IntArray

REQUIRED = ("time_s", "lat", "lon")
OPTIONAL = ("user", "rsrp_dbm", "cell", "speed_mps")
LATEST_EPOCH_S = 4_102_444_800.0  # 2100-01-01: beyond it a number is no epoch time but another format
MILLISECONDS_FROM = 1e11  # epoch seconds reach this in the year 5138, epoch milliseconds did in 1973
RSRP_BOUNDS_DBM = (-160.0, -20.0)
_TIME_REMEDY = "write epoch seconds, epoch milliseconds, or ISO 8601 with a zone such as 2021-04-21T14:19:53Z"
_MISSING = frozenset(("", "nan", "none", "null", "na", "n/a", "-"))
_SYNONYMS = {
    "time_s": "time timestamp timestamps timems datetime date utc timeutc epoch unixtime ts gpstime",
    "user": "userid uid imei imsi device deviceid phone phoneid ue ueid node nodeid vehicle taxi id",
    "lat": "latitude latdeg gpslat",
    "lon": "lng long longitude londeg gpslon gpslong",
    "rsrp_dbm": "rsrp ltersrp ssrsrp nrrsrp signalstrength",
    "cell": "cellid rawcellid ci eci cgi ecgi nci pci cellname basestation",
}  # without speed_mps: a column called speed may well be in km/h


@dataclass(frozen=True)
class Table:
    """Rows in the order of the file.

    path, n_bytes : the file as it was named, and its size.
    found : our name -> header in the file; ignored : headers that nothing reads; likely : our name -> header
    that probably means it, for optional columns that were not found.
    time_s (n,) since 1970-01-01 UTC, lat_deg (n,), lon_deg (n,) : finite and within bounds.
    user (n,) and cell (n,) index `users` and `cells`, both in order of first appearance; cell is -1 where it
    is missing. rsrp_dbm (n,), speed_mps (n,) : NaN where missing. None stands for a column the file lacks.
    usable (n,) : the row has all the signal columns that the file has; counts : the others, by reason, each
    row under one reason.
    """

    path: str
    n_bytes: int
    found: dict[str, str]
    ignored: tuple[str, ...]
    likely: dict[str, str]
    time_s: FloatArray
    user: IntArray
    users: tuple[str, ...]
    lat_deg: FloatArray
    lon_deg: FloatArray
    rsrp_dbm: FloatArray | None
    cell: IntArray | None
    cells: tuple[str, ...]
    speed_mps: FloatArray | None
    usable: BoolArray
    counts: dict[str, int]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.time_s)


def read_table(path: str | Path, columns: Mapping[str, str] | None = None) -> Table:
    """Read and check a trace file; `columns` maps our names to headers, e.g. ``{"lat": "Latitude"}``.

    Raises `BadInput` with one line: file, place, value, bound, remedy.
    """
    sheet, n_bytes = _read_sheet(str(path))
    found = _match(sheet, columns or {})
    likely = {ours: header for ours, header in _likely(sheet, found).items() if ours in OPTIONAL}
    text = {ours: sheet.values(header) for ours, header in found.items()}
    n = len(sheet.line)
    time_s = _times(sheet, found["time_s"])
    users, user = _named_users(sheet, found["user"]) if "user" in found else (("all",), np.zeros(n, np.int64))
    _refuse_backwards(sheet, found["time_s"], user, time_s)
    rsrp_dbm = _numbers(text["rsrp_dbm"]) if "rsrp_dbm" in text else None
    cells, cell = _named_cells(text["cell"]) if "cell" in text else ((), None)
    usable, counts = _usable(n, cell, rsrp_dbm)
    return Table(
        path=sheet.path,
        n_bytes=n_bytes,
        found=found,
        ignored=tuple(h for h in sheet.header if h not in found.values()),
        likely=likely,
        time_s=time_s,
        user=user,
        users=users,
        lat_deg=_bounded(sheet, found["lat"], -90.0, 90.0),
        lon_deg=_bounded(sheet, found["lon"], -180.0, 180.0),
        rsrp_dbm=rsrp_dbm,
        cell=cell,
        cells=cells,
        speed_mps=_numbers(text["speed_mps"]) if "speed_mps" in text else None,
        usable=usable,
        counts=counts,
        notes=_notes(found, likely),
    )


def epoch_s(text: str) -> float:
    """Seconds since 1970-01-01 UTC of one time, in any form that a file may use; ValueError if none."""
    value = _number(text)
    if np.isnan(value):
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            raise ValueError(f"{_shown(text)} has no time zone")
        value = moment.timestamp()
    elif value > MILLISECONDS_FROM:
        value /= 1000.0
    if not 0.0 <= value <= LATEST_EPOCH_S:
        raise ValueError(f"{_shown(text)} is not between 1970 and 2100")
    return value


# --- the file as text --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sheet:
    """Text by column; `line` (n,) is where each row ends."""

    path: str
    header: list[str]
    columns: list[list[str]]
    line: IntArray

    def values(self, header: str) -> list[str]:
        return self.columns[self.header.index(header)]

    def refuse(self, row: int, header: str, problem: str) -> NoReturn:
        raise BadInput(f"{self.path}: line {self.line[row]}, column {_shown(header, quote=False)}: {problem}")


def _read_sheet(path: str) -> tuple[_Sheet, int]:
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    text = _decode(path, _unpack(path, raw)).replace("\r\n", "\n")
    first = text.partition("\n")[0]
    if not first.strip():
        raise BadInput(f"{path}: line 1 is empty; begin the file with a header such as time_s,user,lat,lon")
    delimiter = max(",;\t", key=first.count)
    flat, line, width = _regular_cells(text, delimiter) or _csv_cells(path, text, delimiter)
    if not line:
        raise BadInput(f"{path}: has a header but no rows; give a file with at least one row")
    header = [name.strip() for name in flat[:width]]
    columns = [flat[width + at :: width] for at in range(width)]
    return _Sheet(path, header, columns, np.array(line, dtype=np.int64)), len(raw)


_Cells = tuple[list[str], Sequence[int], int]  # the header's and all rows' cells, line of each row, width


def _regular_cells(text: str, delimiter: str) -> _Cells | None:
    """The cells of a file without quotes and without odd lines, four times as fast as `_csv_cells`."""
    if '"' in text or "\r" in text:
        return None
    text = text.removesuffix("\n")
    lines = text.split("\n")
    widths = {line.count(delimiter) + 1 for line in lines}
    if len(widths) > 1 or "" in lines:
        return None
    return text.replace("\n", delimiter).split(delimiter), range(2, len(lines) + 1), widths.pop()


def _csv_cells(path: str, text: str, delimiter: str) -> _Cells:
    # strict: a quote that is never closed would otherwise swallow the rest of the file
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    flat: list[str] = []
    line: list[int] = []
    try:
        flat += next(reader)
        width = len(flat)
        for row in reader:
            if row and len(row) != width:
                raise BadInput(
                    f"{path}: line {reader.line_num}: {len(row)} fields, but the header has {width}; "
                    "correct or remove the line (is the file cut short?)"
                )
            if row:  # a blank line is no row
                flat += row
                line.append(reader.line_num)
    except csv.Error as error:
        raise BadInput(f"{path}: line {reader.line_num}: not CSV ({error}); correct the quoting") from error
    return flat, line, width


def _unpack(path: str, raw: bytes) -> bytes:
    if not raw:
        raise BadInput(f"{path}: the file is empty (0 bytes); give a CSV file with a header and rows")
    if not raw.startswith(b"\x1f\x8b"):
        if path.endswith(".gz"):
            raise BadInput(f"{path}: named .gz but not gzip (begins with {raw[:4]!r}); rename or compress it")
        return raw
    try:
        return gzip.decompress(raw)
    except EOFError as error:
        raise BadInput(f"{path}: gzip data cut short after {len(raw)} bytes; copy the file again") from error
    except (OSError, zlib.error) as error:
        raise BadInput(f"{path}: gzip data damaged ({error}); copy the file again") from error


def _decode(path: str, raw: bytes) -> str:
    nul = raw.find(b"\0")
    if nul >= 0:
        where = raw.count(b"\n", 0, nul) + 1
        raise BadInput(f"{path}: line {where}: holds a NUL byte: binary or UTF-16; give a UTF-8 CSV file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = raw.count(b"\n", 0, error.start) + 1
        byte = f"0x{raw[error.start]:02x}"
        raise BadInput(f"{path}: line {where}: byte {byte} is not UTF-8; save the file as UTF-8") from error


# --- headers -----------------------------------------------------------------------------------------------


def _match(sheet: _Sheet, columns: Mapping[str, str]) -> dict[str, str]:
    """Our name -> header, for all columns that the file has."""
    for ours, header in columns.items():
        if ours not in REQUIRED + OPTIONAL:
            known = ", ".join(REQUIRED + OPTIONAL)
            raise BadInput(f"{sheet.path}: columns: {_shown(ours)} is not one of our names; use {known}")
        if header not in sheet.header:
            raise BadInput(f"{sheet.path}: columns: {ours}={header}: {_no_such(sheet, header)}")
    found = {ours: columns.get(ours, ours) for ours in REQUIRED + OPTIONAL}
    found = {ours: header for ours, header in found.items() if header in sheet.header}
    missing = [ours for ours in REQUIRED if ours not in found]
    if missing:
        raise BadInput(_missing_columns(sheet, missing, found))
    for header in found.values():
        if sheet.header.count(header) > 1:
            raise BadInput(f"{sheet.path}: line 1: {_shown(header)} stands twice in the header; rename one")
    return found


def _no_such(sheet: _Sheet, header: str) -> str:
    near = get_close_matches(header, sheet.header, 3, 0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "use one of these"
    return f"the file has no such column (it has {_listed(sheet.header)}); {hint}"


def _missing_columns(sheet: _Sheet, missing: list[str], found: dict[str, str]) -> str:
    start = f"{sheet.path}: line 1: no column {', '.join(missing)}; the file has {_listed(sheet.header)}; "
    if not any(np.isnan(_number(name)) for name in sheet.header):
        return start + "these are data: put a header such as time_s,user,lat,lon above them"
    likely = _likely(sheet, found)
    if not set(missing) & set(likely):
        shown = ",".join(f"{ours}=HEADER" for ours in missing)
        return f"{start}add what is missing, or name its header with --columns {shown}"
    shown = ",".join(f"{ours}={likely.get(ours, 'HEADER')}" for ours in missing)
    optional = "".join(f",{ours}={header}" for ours, header in likely.items() if ours not in REQUIRED)
    return f"{start}try --columns {shown}{optional}"


def _likely(sheet: _Sheet, found: Mapping[str, str]) -> dict[str, str]:
    """For each of our names that was not found, the unused header that most probably means it."""
    plain = {"".join(c for c in h.lower() if c.isalnum()): h for h in reversed(sheet.header)}
    free = {key: header for key, header in plain.items() if header not in found.values()}
    likely: dict[str, str] = {}
    for ours, words in _SYNONYMS.items():
        if ours in found:
            continue
        names = [ours.replace("_", ""), *words.split()]
        same = [name for name in names if name in free]
        near = [hit for name in names if len(name) > 3 for hit in get_close_matches(name, free, 1, 0.8)]
        if same or near:
            likely[ours] = free.pop((same or near)[0])
    return likely


def _notes(found: Mapping[str, str], likely: Mapping[str, str]) -> tuple[str, ...]:
    notes = []
    if "user" not in found:
        notes.append("the file has no column user: all rows belong to one user, called all")
    if likely:
        shown = ",".join(f"{ours}={header}" for ours, header in likely.items())
        notes.append(f"columns not read that may be meant: --columns {shown}")
    return tuple(notes)


# --- values ------------------------------------------------------------------------------------------------


def _number(text: str) -> float:
    """A float, NaN if it is none (Python alone would read 1_000 as a number)."""
    try:
        return float("nan") if "_" in text else float(text)
    except ValueError:
        return float("nan")


def _numbers(text: list[str]) -> FloatArray:
    """Floats (n,), NaN where there is no number."""
    if "_" not in "".join(text):
        try:
            return np.array([float(value or "nan") for value in text])
        except ValueError:
            pass
    return np.array([_number(value) for value in text])


def _bounded(sheet: _Sheet, header: str, low: float, high: float) -> FloatArray:
    text = sheet.values(header)
    value = _numbers(text)
    bad = ~((value >= low) & (value <= high))
    if bad.any():
        row = int(bad.argmax())
        # said of text, of NaN and of a number out of bounds alike
        problem = f"{_shown(text[row])} is not a number in [{low:g}, {high:g}]"
        sheet.refuse(row, header, f"{problem}; correct or remove the line")
    return value


def _times(sheet: _Sheet, header: str) -> FloatArray:
    """Epoch seconds (n,). One form for the whole column, that of the first row."""
    text = sheet.values(header)
    if np.isnan(_number(text[0])):
        return _iso_times(sheet, header, text)
    value = _numbers(text)
    scale = 1000.0 if value[0] > MILLISECONDS_FROM else 1.0
    value /= scale
    bad = ~((value >= 0.0) & (value <= LATEST_EPOCH_S))
    if bad.any():
        row = int(bad.argmax())
        unit = "milliseconds" if scale > 1.0 else "seconds"
        problem = f"{_shown(text[row])} is not a time between 1970 and 2100 in epoch {unit}, as line"
        sheet.refuse(row, header, f"{problem} {sheet.line[0]} is taken to be; {_TIME_REMEDY}")
    return value


def _iso_times(sheet: _Sheet, header: str, text: list[str]) -> FloatArray:
    known: dict[str, float] = {}
    for row, value in enumerate(text):
        if value in known:
            continue
        try:
            if not np.isnan(_number(value)):
                raise ValueError(f"{_shown(value)} is a number among ISO 8601 times")
            known[value] = epoch_s(value)
        except ValueError as error:
            # fromisoformat quotes the value itself, at any length
            problem = str(error) if "isoformat" not in str(error) else f"{_shown(value)} is not a time"
            sheet.refuse(row, header, f"{problem}; {_TIME_REMEDY}")
    return np.array([known[value] for value in text])


def _codes(text: Sequence[str]) -> tuple[tuple[str, ...], IntArray]:
    """Names in order of first appearance, and the index of each row's name (n,)."""
    names = {name: code for code, name in enumerate(dict.fromkeys(text))}
    return tuple(names), np.array([names[name] for name in text], dtype=np.int64)


def _named_cells(text: list[str]) -> tuple[tuple[str, ...], IntArray]:
    """As `_codes`, with -1 where the cell is missing."""
    names, code = _codes(text)
    given = np.array([name.strip().lower() not in _MISSING for name in names])
    renumbered = np.where(given, np.cumsum(given) - 1, -1)
    return tuple(name for name, kept in zip(names, given, strict=True) if kept), renumbered[code]


def _named_users(sheet: _Sheet, header: str) -> tuple[tuple[str, ...], IntArray]:
    """As `_codes`; every row has a user."""
    names, code = _codes(sheet.values(header))
    for name in names:
        if not name.strip():
            row = sheet.values(header).index(name)
            sheet.refuse(row, header, f"{_shown(name)} is no user; name one or remove the line")
    return names, code


def _refuse_backwards(sheet: _Sheet, header: str, user: IntArray, time_s: FloatArray) -> None:
    """Equal times are fine: a phone measures several cells at once."""
    order = np.argsort(user, kind="stable")
    same_user = user[order][1:] == user[order][:-1]
    back = np.flatnonzero(same_user & (time_s[order][1:] < time_s[order][:-1]))
    if back.size:
        before, after = (int(order[back[0] + step]) for step in (0, 1))
        text = sheet.values(header)
        earlier = f"before {_shown(text[before])} of the same user at line {sheet.line[before]}"
        sheet.refuse(after, header, f"{_shown(text[after])} is {earlier}; sort the rows of each user by time")


def _usable(n: int, cell: IntArray | None, rsrp_dbm: FloatArray | None) -> tuple[BoolArray, dict[str, int]]:
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


def _shown(value: str, quote: bool = True) -> str:
    """A value in a message: one line, at most 40 characters."""
    short = value if len(value) <= 40 else value[:37] + "..."
    return repr(short) if quote else " ".join(short.split())


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(_shown(name, quote=False) for name in names[:30])
    return shown + (f" and {len(names) - 30} more" if len(names) > 30 else "")

"""Records: one CSV table a record type, appended and flushed every round. No wall time in any of
them.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import numpy as np

from netsim.safe import OURS_MOST_BYTES, open_own_file, open_replacement, read_content

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")

Row = dict[str, Any]
"""column -> cell of one row of a table."""
TableRows = list[Row]
"""rows of one table."""


def format_cell(value: object) -> str:
    """One CSV cell: 9 significant digits, empty for what is not finite, 0/1 for booleans; text as
    `guard_cell` has it.
    """
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "1" if value else "0"
    if isinstance(value, float | np.floating):
        if math.isfinite(value):
            return f"{value:.9g}"
        return ""
    return guard_cell(str(value))


def guard_cell(text: str) -> str:
    """Text for a CSV cell: what a spreadsheet would take for a formula gets a ' before it; numbers
    stay.
    """
    return f"'{text}" if _is_formula(text) else text


def unguard_cell(cell: str) -> str:
    """The text of a guarded cell."""
    if cell[:1] == "'" and _is_formula(cell):
        return cell[1:]
    return cell


def _is_formula(text: str) -> bool:
    """Whether text starts, but for ', like a formula, and is no number."""
    if text[:1] not in _FORMULA:
        return False
    bare = text.lstrip("'")
    try:
        float(bare)
    except ValueError:
        return bare[:1] in _FORMULA
    return False


def format_column(values: Sequence[object] | np.ndarray) -> list[str]:
    """The cells of a column; an array's all have one type, which is looked at once."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "f":
            # of what is not finite: NaN
            return [f"{v:.9g}" if v - v == 0 else "" for v in values.tolist()]
        if values.dtype.kind in "iu":
            return [str(v) for v in values.tolist()]
    return [format_cell(v) for v in values]


@dataclass(frozen=True)
class Column:
    """Column of one table. A flag is 1 (yes) or 0 (no); an integer is below 2^53."""

    meaning: str
    unit: str = ""
    type: Literal["number", "integer", "text", "flag"] = "number"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its values as an array: objects for text, else float64."""
        return np.dtype(object if self.type == "text" else float)

    def read(self, cells: Sequence[str]) -> list[Any]:
        """Values of cells: text as it was before it was guarded, else floats, NaN of an empty cell.

        Raises ValueError for a cell that is no number.
        """
        if self.type == "text":
            return [unguard_cell(cell) for cell in cells]
        return [float(cell or "nan") for cell in cells]


Schemas = Mapping[str, Mapping[str, Column]]
"""table -> its columns by name, in order"""
Values = dict[str, "list[str] | array[float]"]
"""column -> values of a table that grows"""


@dataclass
class _Written:
    """A table so far: the size of its file, SHA-256 over its bytes, and the values of its columns
    as they are read.
    """

    size: int
    digest: Any
    values: Values


@dataclass(frozen=True)
class Recorder:
    """Writes rows of known tables into a folder. A table has a file from its first row on."""

    folder: Path
    schemas: Schemas
    written: dict[str, _Written] = field(default_factory=dict, repr=False, compare=False)

    def write(self, table: str, rows: Mapping[str, Sequence[object] | np.ndarray]) -> None:
        """Append rows given as columns; every column of the table must be there, and no other."""
        columns = self.schemas[table]
        if set(rows) != set(columns):
            raise KeyError(
                f"{table}: columns {sorted(set(rows) ^ set(columns))} missing or unknown"
            )
        cells = [format_column(rows[name]) for name in columns]
        lines = _format_lines(zip(*cells, strict=True))
        if not lines:
            return
        if table in self.written:
            with os.fdopen(open_own_file(self._path(table)), "ab") as file:
                file.write(lines)
        else:
            lines = _format_lines([columns]) + lines
            with open_replacement(self._path(table)) as file:
                file.write(lines)
            self.written[table] = _Written(0, hashlib.sha256(), _make_empty_values(columns))
        table_written = self.written[table]
        table_written.size += len(lines)
        table_written.digest.update(lines)
        _extend_values(table_written.values, columns, cells)

    def write_row(self, table: str, **values: object) -> None:
        """Append one row."""
        self.write(table, {k: [v] for k, v in values.items()})

    def read_columns(self, table: str) -> dict[str, np.ndarray]:
        """What was written of a table, as it is read back: 9 digits of a number, NaN for an empty
        cell.
        """
        columns = self.schemas[table]
        if table in self.written:
            values = self.written[table].values
        else:
            values = _make_empty_values(columns)
        return {name: np.array(values[name], column.dtype) for name, column in columns.items()}

    def count_rows(self) -> dict[str, int]:
        """Rows of every table that has some."""
        return {
            table: len(next(iter(written.values.values())))
            for table, written in self.written.items()
        }

    def compute_marks(self) -> dict[str, list[int | str]]:
        """Bytes of every table with rows, and SHA-256 over them: what a resumed run must find, and
        where it cuts.
        """
        return {
            table: [written.size, written.digest.hexdigest()]
            for table, written in self.written.items()
        }

    def resume(self, marks: object) -> None:
        """Go on after marks (see `compute_marks`), if every table begins with what was written
        until then; nothing is changed yet.

        Raises ValueError that names the table, or says that these are no marks of our tables.
        """
        if not isinstance(marks, dict) or not set(marks) <= set(self.schemas):
            raise ValueError(f"{self.folder}: the checkpoint is damaged, or not of these tables")
        for table, mark in marks.items():
            path = self._path(table)
            try:
                size, expected = mark
                text = read_content(path, OURS_MOST_BYTES, is_ours=True)[: int(size)]
            except (OSError, OverflowError, TypeError, ValueError):
                size = 1
                text = b""
            if len(text) < size:
                raise ValueError(f"{path}: is missing or shorter than when the run was interrupted")
            digest = hashlib.sha256(text)
            if digest.hexdigest() != expected:
                raise ValueError(f"{path}: is not what the interrupted run wrote")
            _, *rows = csv.reader(StringIO(text.decode(), newline=""))
            self.written[table] = _Written(size, digest, _make_empty_values(self.schemas[table]))
            _extend_values(
                self.written[table].values, self.schemas[table], [*zip(*rows, strict=True)]
            )

    def cut(self) -> None:
        """Forget whatever was written after the marks that the run goes on from."""
        for table in self.schemas:
            if table in self.written:
                with os.fdopen(open_own_file(self._path(table)), "ab") as file:
                    file.truncate(self.written[table].size)
            else:
                self._path(table).unlink(missing_ok=True)

    def _path(self, table: str) -> Path:
        return self.folder / f"{table}.csv"


def _make_empty_values(columns: Mapping[str, Column]) -> Values:
    return {name: [] if column.type == "text" else array("d") for name, column in columns.items()}


def _extend_values(
    values: Values, columns: Mapping[str, Column], cells: Sequence[Sequence[str]]
) -> None:
    """Add the cells of every column to its values."""
    for (name, column), texts in zip(columns.items(), cells, strict=True):
        values[name].extend(column.read(texts))


def _format_lines(rows: Iterable[Iterable[str]]) -> bytes:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def write_json(path: Path, value: object) -> None:
    """Write JSON with sorted keys, whole or not at all; numbers that are not finite become null."""
    text = (
        json.dumps(_to_plain(value), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        + "\n"
    )
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; of names that are no UTF-8 each such byte becomes an
    escape.
    """
    with open_replacement(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def _to_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(k): _to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(v) for v in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        if math.isfinite(value):
            return float(f"{value:.9g}")
        return None
    return value

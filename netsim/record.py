"""Records: one CSV table a record type, appended and flushed every round. No wall time in any of them.

Where they are wanted as Parquet, the finished tables are converted at the end (`netsim.parquet`).
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from netsim.safe import OURS_MOST_BYTES, opened, replacing, writable

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")

Schemas = Mapping[str, Collection[str]]
"""table -> its columns, in order."""
Row = dict[str, Any]
"""column -> cell of one row of a table."""


def cell_text(value: Any) -> str:
    """One CSV cell: 9 significant digits, empty for what is not finite, 0/1 for booleans; text as `guarded` has it."""
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "1" if value else "0"
    if isinstance(value, float | np.floating):
        return f"{value:.9g}" if math.isfinite(value) else ""
    return guarded(str(value))


def guarded(text: str) -> str:
    """Text for a CSV cell: what a spreadsheet would take for a formula gets a ' before it; numbers stay."""
    return f"'{text}" if _is_formula(text) else text


def unguarded(cell: str) -> str:
    """The text of a guarded cell."""
    return cell[1:] if cell[:1] == "'" and _is_formula(cell) else cell


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


def column_text(values: Sequence[Any] | np.ndarray) -> list[str]:
    """The cells of a column; an array's all have one type, which is looked at once."""
    kind = values.dtype.kind if isinstance(values, np.ndarray) else ""
    if kind == "f":
        return [f"{v:.9g}" if v - v == 0 else "" for v in np.asarray(values).tolist()]  # of what is not finite: NaN
    if kind in ("i", "u"):
        return [str(v) for v in np.asarray(values).tolist()]
    return [cell_text(v) for v in values]


@dataclass
class _Written:
    """Size of a table so far, and SHA-256 over its bytes."""

    size: int
    digest: Any


@dataclass(frozen=True)
class Recorder:
    """Writes rows of known tables into a folder."""

    folder: Path
    schemas: Schemas
    written: dict[str, _Written] = field(default_factory=dict, repr=False, compare=False)

    def open(self) -> None:
        """Create every table with its header."""
        for table, columns in self.schemas.items():
            header = _lines([columns])
            with replacing(self._path(table)) as f:
                f.write(header)
            self.written[table] = _Written(len(header), hashlib.sha256(header))

    def write(self, table: str, rows: Mapping[str, Sequence[Any] | np.ndarray]) -> None:
        """Append rows given as columns; every column of the table must be there, and no other."""
        columns = list(self.schemas[table])
        if set(rows) != set(columns):
            raise KeyError(f"{table}: columns {sorted(set(rows) ^ set(columns))} missing or unknown")
        lines = _lines(zip(*(column_text(rows[c]) for c in columns), strict=True))
        with os.fdopen(writable(self._path(table)), "ab") as f:
            f.write(lines)
        self.written[table].size += len(lines)
        self.written[table].digest.update(lines)

    def row(self, table: str, **values: Any) -> None:
        """Append one row."""
        self.write(table, {k: [v] for k, v in values.items()})

    def marks(self) -> dict[str, list[Any]]:
        """Bytes of every table and SHA-256 over them: where a resumed run cuts them, and what it must find."""
        return {table: [of.size, of.digest.hexdigest()] for table, of in self.written.items()}

    def resume(self, marks: Any) -> None:
        """Go on after `marks`, if every table begins with what was written until then; nothing is changed yet.

        Raises ValueError that names the table, or says that these are no marks of our tables.
        """
        if not isinstance(marks, dict) or set(marks) != set(self.schemas):
            raise ValueError(f"{self.folder}: the checkpoint is damaged, or not of these tables")
        for table in self.schemas:
            path = self._path(table)
            try:
                size, digest = marks[table]
                hasher = _digest(path, size)
            except (OSError, OverflowError, TypeError, ValueError):
                hasher = None
            if hasher is None:
                raise ValueError(f"{path}: is missing or shorter than when the run was interrupted")
            if hasher.hexdigest() != digest:
                raise ValueError(f"{path}: is not what the interrupted run wrote")
            self.written[table] = _Written(size, hasher)

    def cut(self) -> None:
        """Forget whatever was written after the marks that the run goes on from."""
        for table, of in self.written.items():
            self.folder.joinpath(f"{table}.parquet").unlink(missing_ok=True)  # of a run that ended, or nearly did
            fd = writable(self._path(table))
            try:
                os.ftruncate(fd, of.size)
            finally:
                os.close(fd)

    def _path(self, table: str) -> Path:
        return self.folder / f"{table}.csv"


def _lines(rows: Iterable[Iterable[str]]) -> bytes:
    """Rows of a CSV as they are written."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _digest(path: Path, size: int) -> Any:
    """SHA-256 over the first `size` bytes of a file; None where there are fewer."""
    digest, left = hashlib.sha256(), int(size)
    with opened(path, OURS_MOST_BYTES, own=True) as file:
        while left > 0 and (block := file.read(min(left, 2**20))):
            digest.update(block)
            left -= len(block)
    return None if left else digest


def write_json(path: Path, value: Any) -> None:
    """Write JSON with sorted keys, whole or not at all; numbers that are not finite become null."""
    text = json.dumps(_plain(value), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; of names that are no UTF-8 each such byte becomes an escape."""
    with replacing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.9g}") if math.isfinite(value) else None
    return value

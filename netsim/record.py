"""Records: one CSV table a record type, appended and flushed every round. No wall time in any of them."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")

Schemas = Mapping[str, Mapping[str, str]]
"""table -> column -> what it says, with its unit."""


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


@dataclass(frozen=True)
class Recorder:
    """Writes rows of known tables into a folder."""

    folder: Path
    schemas: Schemas

    def open(self) -> None:
        """Create every table with its header."""
        for table, columns in self.schemas.items():
            with self._path(table).open("w", newline="", encoding="utf-8") as f:
                csv.writer(f, lineterminator="\n").writerow(columns)

    def write(self, table: str, rows: Mapping[str, Sequence[Any] | np.ndarray]) -> None:
        """Append rows given as columns; every column of the table must be there, and no other."""
        columns = list(self.schemas[table])
        if set(rows) != set(columns):
            raise KeyError(f"{table}: columns {sorted(set(rows) ^ set(columns))} missing or unknown")
        lines = zip(*(column_text(rows[c]) for c in columns), strict=True)
        with self._path(table).open("a", newline="", encoding="utf-8") as f:
            csv.writer(f, lineterminator="\n").writerows(lines)

    def row(self, table: str, **values: Any) -> None:
        """Append one row."""
        self.write(table, {k: [v] for k, v in values.items()})

    def sizes(self) -> dict[str, int]:
        """Bytes of every table: where a resumed run cuts them."""
        return {table: self._path(table).stat().st_size for table in self.schemas}

    def shorter(self, sizes: Mapping[str, int]) -> str:
        """The first table that is not there, or ends before its size; empty if there is none."""
        there = {table: self._path(table).stat().st_size for table in sizes if self._path(table).exists()}
        return next((self._path(table).name for table, size in sizes.items() if there.get(table, -1) < size), "")

    def cut(self, sizes: Mapping[str, int]) -> None:
        """Forget whatever was written after `sizes`."""
        for table, size in sizes.items():
            os.truncate(self._path(table), size)

    def _path(self, table: str) -> Path:
        return self.folder / f"{table}.csv"


def write_json(path: Path, value: Any) -> None:
    """Write JSON with sorted keys, whole or not at all; numbers that are not finite become null."""
    text = json.dumps(_plain(value), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


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

"""Records: one CSV table a record type, appended and flushed every round. No wall time in any of them.

Where they are wanted as Parquet, the finished tables are converted at the end, and read back as columns: a Parquet file
ends with its index, so rows can neither be appended to it nor cut off again, as a run does that is interrupted and goes
on. That needs pyarrow, imported when used.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from netsim.errors import BadInput
from netsim.safe import OURS_MOST_BYTES, opened, replacing, writable

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")

Schemas = Mapping[str, Collection[str]]
"""table -> its columns, in order."""
Row = dict[str, Any]
"""column -> cell of one row of a table."""


def cell_text(value: object) -> str:
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


def column_text(values: Sequence[object] | np.ndarray) -> list[str]:
    """The cells of a column; an array's all have one type, which is looked at once."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "f":
            return [f"{v:.9g}" if v - v == 0 else "" for v in values.tolist()]  # of what is not finite: NaN
        if values.dtype.kind in "iu":
            return [str(v) for v in values.tolist()]
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

    def write(self, table: str, rows: Mapping[str, Sequence[object] | np.ndarray]) -> None:
        """Append rows given as columns; every column of the table must be there, and no other."""
        columns = list(self.schemas[table])
        if set(rows) != set(columns):
            raise KeyError(f"{table}: columns {sorted(set(rows) ^ set(columns))} missing or unknown")
        lines = _lines(zip(*(column_text(rows[c]) for c in columns), strict=True))
        with os.fdopen(writable(self._path(table)), "ab") as f:
            f.write(lines)
        self.written[table].size += len(lines)
        self.written[table].digest.update(lines)

    def row(self, table: str, **values: object) -> None:
        """Append one row."""
        self.write(table, {k: [v] for k, v in values.items()})

    def marks(self) -> dict[str, list[int | str]]:
        """Bytes of every table and SHA-256 over them: where a resumed run cuts them, and what it must find."""
        return {table: [of.size, of.digest.hexdigest()] for table, of in self.written.items()}

    def resume(self, marks: object) -> None:
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
            with os.fdopen(writable(self._path(table)), "ab") as f:
                f.truncate(of.size)

    def _path(self, table: str) -> Path:
        return self.folder / f"{table}.csv"


def _lines(rows: Iterable[Iterable[str]]) -> bytes:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _digest(path: Path, size: int) -> hashlib._Hash | None:
    """SHA-256 over the first `size` bytes of a file; None where there are fewer."""
    digest = hashlib.sha256()
    left = int(size)
    with opened(path, OURS_MOST_BYTES, own=True) as file:
        while left > 0 and (block := file.read(min(left, 2**20))):
            digest.update(block)
            left -= len(block)
    return None if left else digest


def write_json(path: Path, value: object) -> None:
    """Write JSON with sorted keys, whole or not at all; numbers that are not finite become null."""
    text = json.dumps(_plain(value), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; of names that are no UTF-8 each such byte becomes an escape."""
    with replacing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def _plain(value: object) -> object:
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


Type = Literal["number", "integer", "text", "flag"]
"""of a column: float64, int64, string, bool; a cell that is empty in the CSV is null"""

REMEDY = 'pip install "netsim-fl[parquet]"'
_BLOCK_BYTES = 2**23  # of a CSV that become a row group: some hundred thousand rows
_MAX_CELLS = OURS_MOST_BYTES // 4  # that are read of a table: a CSV of the bytes that are read has no more


def check_installed(what: str) -> None:
    """Refuse, as `what` asks for it, where pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise BadInput(f"{what}: pyarrow is not installed; {REMEDY}, or leave it out")


def convert(folder: Path, types: Mapping[str, Mapping[str, Type]]) -> None:
    """Write the tables of a folder as Parquet beside their CSVs; types : of their columns, in order."""
    for table, columns in types.items():
        write_parquet(folder / f"{table}.csv", folder / f"{table}.parquet", columns)


def write_parquet(source: Path, path: Path, types: Mapping[str, Type]) -> None:
    """Write the CSV `source` of ours as Parquet, whole or not at all, with the very numbers of its cells.

    types : of its columns, in order. Raises ValueError for a cell that is not of the type of its column.
    """
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    kinds = {"number": pa.float64(), "integer": pa.int64(), "text": pa.string(), "flag": pa.bool_()}
    schema = pa.schema([pa.field(name, kinds[of]) for name, of in types.items()])
    texts = [name for name, of in types.items() if of == "text"]
    read_as = {name: pa.float64() if of == "integer" else schema.field(name).type for name, of in types.items()}
    with opened(source, sys.maxsize, own=True) as file, replacing(path) as out:
        blocks = pc.open_csv(
            file,
            read_options=pc.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pc.ParseOptions(newlines_in_values=True),
            convert_options=pc.ConvertOptions(
                column_types=read_as, null_values=[""], strings_can_be_null=True, true_values=["1"],
                false_values=["0"],
            ),
        )  # fmt: skip
        writer = pq.ParquetWriter(out, schema, compression="zstd", store_schema=False)
        with writer:
            for block in blocks:
                if block.num_rows:
                    writer.write_batch(_cast(block, schema, texts))


def _cast(block: Any, schema: Any, texts: list[str]) -> Any:
    """Rows of a CSV with whole numbers as integers, and text as it was before it was guarded."""
    import pyarrow as pa
    import pyarrow.compute as compute

    columns = []
    for name, column in zip(schema.names, block.columns, strict=True):
        if name in texts and compute.any(compute.starts_with(column, "'")).as_py():
            column = pa.array([None if v is None else unguarded(v) for v in column.to_pylist()], pa.string())
        columns.append(column.cast(schema.field(name).type))
    return pa.record_batch(columns, schema=schema)


def read_parquet(path: Path) -> dict[str, np.ndarray]:
    """A table as columns: text as objects, empty where null, everything else float64 with NaN where null.

    Raises OSError where it cannot be opened, ValueError where it is damaged, BadInput where pyarrow is missing.
    """
    check_installed(str(path))
    with opened(path, OURS_MOST_BYTES, own=True) as file:
        return _read(file)


def _read(file: BinaryIO) -> dict[str, np.ndarray]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file)
        schema = table.schema_arrow
        names = schema.names
        if table.metadata.num_rows * max(len(names), 1) > _MAX_CELLS:
            raise ValueError(f"more than {_MAX_CELLS:,} cells, the most that are read")
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        others = [field for field in schema if field.name not in texts]
        wrong = [f for f in others if f.type not in (pa.float64(), pa.int64(), pa.bool_())]
        if wrong or len(set(names)) < len(names):
            raise ValueError(f"column {wrong[0].name} is {wrong[0].type}" if wrong else "two columns of one name")
        file.seek(0)
        rows = pq.ParquetFile(file, read_dictionary=texts).read(use_threads=False)
        columns = zip(rows.column_names, rows.columns, strict=True)
        return {name: _text(column) if name in texts else _numbers(column) for name, column in columns}
    except (pa.ArrowException, OSError, OverflowError, MemoryError, UnicodeError) as error:
        raise ValueError(" ".join((str(error) or type(error).__name__).split())[:120]) from None


def _text(column: Any) -> np.ndarray:
    pieces = [np.zeros(0, dtype=object)]
    for chunk in column.chunks:
        known = np.array([*chunk.dictionary.to_pylist(), ""], dtype=object)
        pieces.append(known[chunk.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)])
    return np.concatenate(pieces)


def _numbers(column: Any) -> np.ndarray:
    """Numbers; integers beyond 2^53 lose bits."""
    import pyarrow as pa

    if column.type == pa.bool_():
        column = column.cast(pa.uint8())
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy())

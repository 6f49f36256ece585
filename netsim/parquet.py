"""Record tables as Parquet: written from finished CSVs, read back as columns. Needs pyarrow, imported when used.

A Parquet file ends with its index: rows can neither be appended to it nor cut off again, as a run does that is
interrupted and goes on. So tables are CSVs while a run grows, and are converted when it has ended.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from netsim.errors import BadInput
from netsim.record import unguarded
from netsim.safe import OURS_MOST_BYTES, opened, replacing

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

    schema = _schema(types)
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


def _schema(types: Mapping[str, Type]) -> Any:
    """The Arrow schema of a table."""
    import pyarrow as pa

    of: dict[Type, Any] = {"number": pa.float64(), "integer": pa.int64(), "text": pa.string(), "flag": pa.bool_()}
    return pa.schema([pa.field(name, of[kind]) for name, kind in types.items()])


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
        names, schema = table.schema_arrow.names, table.schema_arrow
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
        said = " ".join((str(error) or type(error).__name__).split())[:120]
        raise ValueError(said) from None


def _text(column: Any) -> np.ndarray:
    """Text of dictionaries; each different one is one object."""
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
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)

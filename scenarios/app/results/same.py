"""Two folders of results, number by number: what differs between a run and its repetition."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from netsim.checkpoint import read_arrays
from netsim.errors import BadInput, one_line
from netsim.parquet import read_parquet
from netsim.safe import OURS_MOST_BYTES, content, what_is
from scenarios.app.results.folder import read_json, text_of

_SHOWN = 40  # characters of a text


@dataclass(frozen=True)
class ValueDifference:
    """Where two folders differ: a file, what in it (a key, a column, an array), and how.

    size : the largest difference relative to the larger of two numbers; infinite where something is no number, is
    missing or has another length.
    """

    file: str
    what: str
    how: str
    size: float

    def text(self) -> str:
        """A line."""
        return one_line(f"{self.file}{f', {self.what}' if self.what else ''}: {self.how}")


def differences_in(first: Path, second: Path, names: Sequence[str]) -> list[ValueDifference]:
    """What differs in the files of these names, in their order; of a file those that differ most come first.

    Files with the same bytes are the same, and are not looked into.
    """
    found: list[ValueDifference] = []
    for name in names:
        a = first / name
        b = second / name
        if not what_is(a) and not what_is(b):
            continue
        if not what_is(a) or not what_is(b):
            found.append(ValueDifference(name, "", f"is missing in {(b if what_is(a) else a).parent}", np.inf))
        elif _bytes(a) != _bytes(b):
            of = sorted(_looked_into(a, b), key=lambda d: -d.size)
            found += of or [ValueDifference(name, "", "other bytes, the same numbers", 0.0)]
    return found


def check_whole(folder: Path, names: Sequence[str]) -> None:
    """Refuse (BadInput) a folder of which one of these files is there and cannot be read as what it is."""
    for path in (folder / name for name in names):
        if path.suffix in _KINDS and what_is(path):
            values_in(path)


def _bytes(path: Path) -> bytes:
    try:
        return content(path, OURS_MOST_BYTES, own=True)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); run the study again") from None


def _looked_into(a: Path, b: Path) -> list[ValueDifference]:
    """The differences of two files of one name."""
    kind = _KINDS.get(a.suffix)
    return [] if kind is None else _of_values(a.name, values_in(a), values_in(b), kind)


_KINDS = {".json": "", ".csv": "column ", ".parquet": "column ", ".npz": "array "}


def values_in(path: Path) -> dict[str, list[Any]]:
    """What a file of results holds: key, column or array -> its values; cells of a table as they are written."""
    try:
        if path.suffix == ".json":
            return {key: [value] for key, value in flattened(read_json(path)).items()}
        if path.suffix == ".csv":
            with text_of(path) as file:
                columns = zip(*csv.reader(file), strict=True)
                return {name: cells for name, *cells in columns}
        read = read_parquet if path.suffix == ".parquet" else read_arrays
        return {key: array.reshape(-1).tolist() for key, array in read(path).items()}
    except (OSError, ValueError, csv.Error) as error:
        raise BadInput(f"{path}: damaged ({error}); run the study again") from None


def flattened(value: Any, path: str = "") -> dict[str, Any]:
    """Path -> value of everything in a JSON object."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        return {path: value}
    return {k: v for key, one in inner for k, v in flattened(one, f"{path}.{key}".lstrip(".")).items()}


def _of_values(
    file: str, a: Mapping[str, Sequence[Any]], b: Mapping[str, Sequence[Any]], kind: str
) -> list[ValueDifference]:
    found = [
        ValueDifference(file, f"{kind}{name}", "only in one of the two", np.inf) for name in sorted(set(a) ^ set(b))
    ]
    for name in (name for name in a if name in b):
        one = _compared(a[name], b[name])
        found += [] if one is None else [ValueDifference(file, f"{kind}{name}", *one)]
    return found


def _compared(a: Sequence[Any], b: Sequence[Any]) -> tuple[str, float] | None:
    """How two columns differ, and by how much; None where they are the same."""
    if len(a) != len(b):
        return f"{len(a):,} rows and {len(b):,} rows", np.inf
    sizes = {k: _size(x, y) for k, (x, y) in enumerate(zip(a, b, strict=True)) if x != y and not (x != x and y != y)}
    if not sizes:
        return None
    at = max(sizes, key=lambda k: sizes[k])
    values = f"{str(a[at])[:_SHOWN]!r} and {str(b[at])[:_SHOWN]!r}"
    if len(a) == 1:
        return values, sizes[at]
    return f"{len(sizes):,} of {len(a):,} rows differ, most in row {at + 1:,}: {values}", sizes[at]


def _size(x: Any, y: Any) -> float:
    """The relative difference of two numbers; infinite where one is none."""
    try:
        one = float(x)
        two = float(y)
    except (TypeError, ValueError):
        return np.inf
    most = max(abs(one), abs(two))
    size = abs(one - two) / most if most else 0.0
    return float(size) if np.isfinite(size) else np.inf

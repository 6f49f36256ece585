"""Rows of text in columns, in pieces, so that a long file never stands in memory as Python objects.

The standard library's `csv` reads a CSV: it is strict about quotes, knows every line, and refuses none of the dialects.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NoReturn

import numpy as np

from netsim.errors import BadInput
from netsim.traces.source import Source
from netsim.traces.values import Refused, bounded, number, shown
from netsim.units import FloatArray

_ROWS = 20_000
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SEPARATOR = re.compile(r"sep=([,;\t|])\s*", re.IGNORECASE)  # how a spreadsheet says what separates columns
Rows = Iterator[tuple[int, list[str]]]
"""the line at which each row ends, and its cells"""


@dataclass(frozen=True)
class Sheet:
    """Some consecutive rows; `line` (n,) is where each ends."""

    path: str
    header: tuple[str, ...]
    columns: tuple[list[str], ...]
    line: Sequence[int]
    delimiter: str = ","

    def values(self, header: str) -> list[str]:
        return self.columns[self.header.index(header)]

    def refuse(self, row: int, header: str, problem: str) -> NoReturn:
        raise BadInput(f"{self.path}: line {self.line[row]}, column {shown(header, quote=False)}: {problem}")


@dataclass(frozen=True)
class Field:
    """A number in a row of text: its place, its name in messages, and its bounds."""

    at: int
    name: str
    low: float
    high: float
    required: bool = True


LAT, LON = Field(0, "lat", -90.0, 90.0, required=False), Field(1, "lon", -180.0, 180.0, required=False)


def read_sheets(path: str) -> Iterator[Sheet]:
    """The pieces of a CSV with a header and at least one row. Raises `BadInput` with one line."""
    delimiter, rows = read_rows(Source(path, "CSV"), "time_s,user,lat,lon")
    line, header = next(rows)
    if not is_header(header):
        example = "time_s,user,lat,lon".replace(",", " TAB " if delimiter == "\t" else delimiter)
        problem = f"line {line} ({shown(delimiter.join(header))}) is a row, and the file has no header"
        raise BadInput(f"{path}: {problem}; put one above it, such as {example}")
    empty = True
    for sheet in _sheets(path, tuple(name.strip() for name in header), rows, delimiter):
        empty = False
        yield sheet
    if empty:
        raise BadInput(f"{path}: has a header but no rows; give a file with at least one row")


def read_fields(
    source: Source, fields: Sequence[Field], skip: int = 0, delimiter: str | None = None
) -> tuple[FloatArray, ...]:
    """The line of each row (n,), and columns (n,) of numbers, of a file without a header, below `skip` lines.

    delimiter : None for blanks. Raises `BadInput` with one line.
    """
    split = ((line, text.split(delimiter)) for line, text in enumerate(source.lines(), 1) if text.strip())
    width = 1 + max(field.at for field in fields)
    rows = _first_cells(source, ((line, cells) for line, cells in split if line > skip), width)
    pieces = [[np.zeros(0)] for _ in range(1 + len(fields))]
    for sheet in _sheets(source.path, ("",) * width, rows, ","):
        pieces[0].append(np.array(sheet.line))
        for field, column in zip(fields, pieces[1:], strict=True):
            try:
                column.append(bounded(sheet.columns[field.at], field.low, field.high, field.required))
            except Refused as refusal:
                sheet.refuse(refusal.row, field.name, str(refusal))
    return tuple(np.concatenate(column) for column in pieces)


def read_rows(source: Source, example: str) -> tuple[str, Rows]:
    """The delimiter of a CSV, and its rows that are not blank, from the header on.

    example : of a header, for messages. Above it there may be ``sep=;``, as spreadsheets write it, and comments; a
    comment right above rows is the header.
    """
    lines, delimiter, comment = source.lines(), "", ""
    at, first = 0, ""
    for line in lines:
        at += 1
        if found := _SEPARATOR.fullmatch(line):
            delimiter = found[1]
        elif line.startswith("#"):
            comment = line.lstrip("# ")
        elif line.strip():
            first = line
            break
    if not first:
        raise BadInput(f"{source.path}: the file is empty; begin it with a header such as {example}")
    above = [first]
    delimiter = delimiter or max(",;\t", key=first.count)
    if comment.count(delimiter) == first.count(delimiter) > 0 and not is_header(first.split(delimiter)):
        at, above = at - 1, [comment, first]
    return delimiter, _records(source.path, chain(above, lines), at - 1, delimiter)


def is_header(cells: Sequence[str]) -> bool:
    """Whether a row has names: at least half of its cells are no number and no date."""
    texts = [cell.strip().strip('"') for cell in cells]
    return 2 * sum(math.isnan(number(text)) and not _DATE.match(text) for text in texts) >= len(texts)


def _records(path: str, lines: Iterable[str], above: int, delimiter: str) -> Rows:
    # strict: a quote that is never closed would otherwise swallow the rest of the file
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield above + reader.line_num, row
    except csv.Error as error:
        raise BadInput(f"{path}: line {above + reader.line_num}: not CSV ({error}); correct the quoting") from error


def _first_cells(source: Source, rows: Iterable[tuple[int, list[str]]], width: int) -> Rows:
    """The first cells of all rows."""
    for line, cells in rows:
        if len(cells) < width:
            problem = f"{len(cells)} fields, but {source.wanted} has {width} or more"
            source.refuse(line, f"{problem}; correct or remove the line (is it cut short?)")
        yield line, cells[:width]


def _sheets(path: str, header: tuple[str, ...], rows: Rows, delimiter: str) -> Iterator[Sheet]:
    """The rows in pieces, if all are as wide as the header."""
    line, flat, width = list[int](), list[str](), len(header)
    for at, cells in rows:
        if len(cells) != width:
            why = "is the file cut short?" if len(cells) < width else "does it end with a delimiter, or hold one?"
            problem = f"{len(cells)} fields, but the header has {width}; correct or remove the line ({why})"
            raise BadInput(f"{path}: line {at}: {problem}")
        line.append(at)
        flat += cells
        if len(line) == _ROWS:
            yield Sheet(path, header, _columns(flat, width), line, delimiter)
            line, flat = [], []
    if line:
        yield Sheet(path, header, _columns(flat, width), line, delimiter)


def _columns(flat: list[str], width: int) -> tuple[list[str], ...]:
    return tuple(flat[at::width] for at in range(width))

"""A CSV file as pieces of text columns, so that a long file never stands in memory as Python objects."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NoReturn

from netsim.errors import BadInput
from netsim.traces.source import Source
from netsim.traces.values import number, shown

_ROWS = 20_000
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_Blocks = Iterator[tuple[int, str]]


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


def read_sheets(path: str) -> Iterator[Sheet]:
    """The pieces of a file with a header and at least one row. Raises `BadInput` with one line."""
    blocks = Source(path, "CSV").blocks()
    at, first, text, delimiter = _first_line(next(blocks, (1, ""))[1])
    if not first.strip():
        raise BadInput(f"{path}: line {at} is empty; begin the file with a header such as time_s,user,lat,lon")
    delimiter = delimiter or max(",;\t", key=first.count)
    header = tuple(name.strip() for name in next(_records(path, iter([(at, first)]), delimiter))[1])
    if not _is_header(header):
        problem = f"line {at} ({shown(first.strip())}) is a row, and the file has no header"
        example = "time_s,user,lat,lon".replace(",", " TAB " if delimiter == "\t" else delimiter)
        raise BadInput(f"{path}: {problem}; put one above it, such as {example}")
    empty = True
    for line, flat in _pieces(path, chain([(at + 1, text)], blocks), delimiter, len(header)):
        empty = False
        yield Sheet(path, header, tuple(flat[at :: len(header)] for at in range(len(header))), line, delimiter)
    if empty:
        raise BadInput(f"{path}: has a header but no rows; give a file with at least one row")


def _first_line(text: str) -> tuple[int, str, str, str]:
    """The number of the header's line, the header, the text below it, and the delimiter if the file names one.

    Above it there may be ``sep=;``, as spreadsheets write it, and comments; a comment right above rows is the header.
    """
    at, delimiter, comment = 1, "", ""
    while True:
        first, _, below = text.partition("\n")
        if len(first.strip()) == len("sep=;") and first.lower().startswith("sep="):
            delimiter = first.strip()[-1]
        elif first.startswith("#"):
            comment = first.lstrip("# ")
        else:
            break
        at, text = at + 1, below
    cells = delimiter or max(",;\t", key=first.count)
    if comment.count(cells) == first.count(cells) > 0 and not _is_header(first.split(cells)):
        return at - 1, comment, text, delimiter
    return at, first, below, delimiter


def _is_header(cells: Sequence[str]) -> bool:
    """Whether a line has names: at least half of its cells are no number and no date."""
    texts = [cell.strip().strip('"') for cell in cells]
    return 2 * sum(math.isnan(number(text)) and not _DATE.match(text) for text in texts) >= len(texts)


def _pieces(path: str, blocks: _Blocks, delimiter: str, width: int) -> Iterator[tuple[Sequence[int], list[str]]]:
    """Lines and the cells of all their rows, one after another."""
    line: list[int] = []
    flat: list[str] = []
    for at, row in _records(path, blocks, delimiter):
        if len(row) != width:
            why = "is the file cut short?" if len(row) < width else "does it end with a delimiter, or hold one?"
            raise BadInput(
                f"{path}: line {at}: {len(row)} fields, but the header has {width}; correct or remove the line ({why})"
            )
        line.append(at)
        flat += row
        if len(line) == _ROWS:
            yield line, flat
            line, flat = [], []
    if line:
        yield line, flat


def _records(path: str, blocks: _Blocks, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The line at which each row ends, and its cells; a blank line is no row."""
    at, text = next(blocks)
    # strict: a quote that is never closed would otherwise swallow the rest of the file
    reader = csv.reader(_lines(chain([(at, text)], blocks)), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield at - 1 + reader.line_num, row
    except csv.Error as error:
        line = at - 1 + reader.line_num
        raise BadInput(f"{path}: line {line}: not CSV ({error}); correct the quoting") from error


def _lines(blocks: _Blocks) -> Iterator[str]:
    for _, text in blocks:
        lines = text.split("\n")
        last = lines.pop()
        yield from (line + "\n" for line in lines)
        if last:
            yield last

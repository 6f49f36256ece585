"""A file of a trace as bytes, lines, XML and rows: unpacked while it is read, never held as a
whole, refused by line.

What reaches a reader is bounded: a gzip file may unpack to 4 GiB, a line may be 1 MiB long. Rows
come in pieces, so that a long file never stands in memory as Python objects. The standard library's
`csv` reads a CSV: it is strict about quotes, and knows every line.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from io import StringIO
from itertools import chain, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn, cast
from xml.parsers import expat

import numpy as np

from netsim.errors import BadInput, counted
from netsim.safe import files_below, opened, size_text, what_is
from netsim.traces.values import (
    Refused,
    bounded,
    listed,
    missing,
    number,
    one_line,
    other_unit,
    shown,
    with_points,
)
from netsim.units import FloatArray

if TYPE_CHECKING:
    from pandas import DataFrame

CHUNK_BYTES = 2**20
MAX_UNPACKED_BYTES = 4 * 2**30  # 1e8 rows of a CSV; beyond it a small file is more likely a bomb
MAX_LINE_BYTES = 2**20
MOST_FILE_BYTES = 64 * 2**30  # as it lies there; no memory holds the rows of a larger one
_TABLE_BYTES = 500 * 2**20  # of one that is held as a whole
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Source:
    """A file by its path, and what it should have been, for messages (CSV, PLT ...)."""

    path: str
    wanted: str = "text"

    @property
    def n_bytes(self) -> int:
        return Path(self.path).stat().st_size

    def refuse(self, line: int, problem: str) -> NoReturn:
        raise BadInput(f"{self.path}: line {line}: {problem}")

    def chunks(self) -> Iterator[bytes]:
        """The unpacked text in pieces. Raises `BadInput` with one line."""
        line = 1
        for chunk in self._unpacked():
            if (nul := chunk.find(b"\0")) >= 0:
                at = line + chunk.count(b"\n", 0, nul)
                self.refuse(
                    at, f"holds a NUL byte: binary or UTF-16; give a UTF-8 {self.wanted} file"
                )
            yield chunk
            line += chunk.count(b"\n")

    def _unpacked(self) -> Iterator[bytes]:
        total = 0
        packed = self._packed()
        with opened(self.path, MOST_FILE_BYTES) as raw:
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
            while chunk := self._read(file):
                total += len(chunk)
                if packed and total > MAX_UNPACKED_BYTES:
                    most = size_text(MAX_UNPACKED_BYTES)
                    remedy = "unpack it if you trust it, and split it"
                    raise BadInput(
                        f"{self.path}: unpacks to more than {most}, the most that is read; {remedy}"
                    )
                yield chunk

    def lines(self) -> Iterator[str]:
        r"""Lines with their ends, all of which are \n."""
        line = 1
        rest = b""
        for chunk in self._one_newline():
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            yield from StringIO(self._decoded(whole + newline, line), newline="\n")
            line += len(newline) + whole.count(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                self.refuse(
                    line,
                    f"longer than {size_text(MAX_LINE_BYTES)}; give a {self.wanted} file of rows",
                )
        if rest:
            yield self._decoded(rest, line)

    def head(self) -> str:
        """The beginning, for telling formats apart; what is no UTF-8 is replaced."""
        return next(self._unpacked(), b"").decode("utf-8-sig", "replace")

    def _packed(self) -> bool:
        try:
            with opened(self.path, MOST_FILE_BYTES) as file:
                first = file.read(4)
        except OSError as error:
            raise BadInput(
                f"{self.path}: cannot be read ({error.strerror or error}); check the path"
            ) from error
        if not first:
            raise BadInput(f"{self.path}: the file is empty (0 bytes); give a file with rows")
        if self.path.endswith(".gz") and not first.startswith(_GZIP):
            raise BadInput(
                f"{self.path}: named .gz but not gzip (begins with {first!r}); rename or "
                f"compress it"
            )
        return first.startswith(_GZIP)

    def _read(self, file: BinaryIO) -> bytes:
        try:
            return file.read(CHUNK_BYTES)
        except EOFError:
            problem = f"cut short after {self.n_bytes} bytes"
        except (OSError, zlib.error) as error:
            problem = f"damaged ({error})"
        raise BadInput(f"{self.path}: gzip data {problem}; copy the file again")

    def _one_newline(self) -> Iterator[bytes]:
        r"""The chunks with \n for \r\n and for \r; a pair may straddle two chunks."""
        held = b""
        for chunk in self.chunks():
            chunk = held + chunk
            held = b"\r" if chunk.endswith(b"\r") else b""
            yield chunk[: len(chunk) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if held:
            yield b"\n"

    def _decoded(self, raw: bytes, line: int) -> str:
        try:
            return raw.decode("utf-8-sig" if line == 1 else "utf-8")
        except UnicodeDecodeError as error:
            where = line + raw.count(b"\n", 0, error.start)
            self.refuse(
                where, f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8"
            )


class XmlFile:
    """A file of XML, read as a stream of elements; it may declare no document type, and so no
    entity.
    """

    def __init__(self, path: str, wanted: str) -> None:
        self.source = Source(path, wanted)
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._begin_doctype

    def refuse(self, problem: str) -> NoReturn:
        self.source.refuse(self.parser.CurrentLineNumber, problem)

    def read(
        self,
        begin: Callable[[str, dict[str, str]], None],
        end: Callable[[str, str], None] | None = None,
    ) -> None:
        """Call `begin` with the name, without prefix, and the attributes of each element, and `end`
        with the name and the text directly before the end of it. Raises `BadInput` with one line.
        """
        text: list[str] = []

        def started(name: str, attributes: dict[str, str]) -> None:
            begin(name.rpartition(":")[2] if ":" in name else name, attributes)
            text.clear()

        self.parser.StartElementHandler = started
        if end is not None:
            self.parser.CharacterDataHandler = text.append
            self.parser.EndElementHandler = lambda name: end(name.rpartition(":")[2], "".join(text))
        rest = b""
        for chunk in self.source.chunks():
            tags, bracket, rest = (rest + chunk).rpartition(b">")
            self._parse(tags + bracket)
            if len(rest) > MAX_LINE_BYTES:  # the parser would hold all of a tag that never ends
                self.refuse(f"a tag or a text longer than 1 MiB; give a {self.source.wanted} file")
        self._parse(rest, last=True)

    def _begin_doctype(self, *_: object) -> None:
        problem = (
            "declares a document type (DOCTYPE), which can hide entity bombs and outside files"
        )
        self.refuse(f"{problem}; remove the DOCTYPE")

    def _parse(self, piece: bytes, last: bool = False) -> None:
        try:
            self.parser.Parse(piece, last)
        except expat.ExpatError as error:
            problem = (
                f"not XML ({expat.ErrorString(error.code)}); correct it, or copy the file "
                f"again if it is cut short"
            )
            self.source.refuse(error.lineno, problem)
        except BadInput:
            raise
        except (
            LookupError,
            ValueError,
        ) as error:  # an encoding that the parser does not know, or one of several bytes
            self.refuse(
                f"not XML in UTF-8 ({shown(str(error), quote=False)}); save the file as UTF-8"
            )


def files_in(path: str, pattern: str) -> list[str]:
    """The file, or all files of a folder and below that fit the pattern in any case, in order of
    name.

    Raises `BadInput` for a folder that `files_below` refuses.
    """
    if what_is(path) != "folder":
        return [path]
    try:
        return [str(file) for file in files_below(path) if fnmatch(file.name.lower(), pattern)]
    except OSError as error:
        raise BadInput(
            f"{error.filename}: {error.strerror}; give the folder of the traces alone"
        ) from None


def others_in(path: str, pattern: str) -> str:
    """The files of a folder that do not fit the pattern, counted by their endings; empty for
    none.
    """
    others = {*files_in(path, "*")}.difference(files_in(path, pattern))
    n_of = Counter(Path(file).suffix for file in others)
    return listed([counted(n, f"{ending} file") for ending, n in n_of.most_common()])


def relative(path: str, owner: str) -> str:
    """A file or folder as it is called below the path that was named, without endings."""
    below = Path(os.path.relpath(owner, path) if what_is(path) == "folder" else Path(owner).name)
    if what_is(owner) == "file":
        return str(below.parent / stem(owner))
    return str(below)


def stem(path: str) -> str:
    """The name of a file without folders and endings."""
    return one_line(Path(path).name.removesuffix(".gz").rsplit(".", 1)[0])


COLUMNS_REMEDY = (
    "name each column once, such as time_s=timestamp, or all in their order: user,time_s,lat,lon"
)
_ROWS = 20_000
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SIDES = {
    90.0: (
        {"N", "NORTH", "S", "SOUTH"},
        re.compile(r"(?i)(?<![a-z])n[^a-z]?s(?![a-z])|north|hemis|lat.*(dir|hem|ref|_h)"),
    ),
    180.0: (
        {"E", "EAST", "W", "WEST", "O"},
        re.compile(r"(?i)(?<![a-z])e[^a-z]?w(?![a-z])|east|hemis|(lon|lng).*(dir|hem|ref|_h)"),
    ),
}
"""what a column has that says on which side of the equator or of Greenwich degrees up to a bound
are, and its name"""
_SIGNS = dict.fromkeys(("N", "NORTH", "E", "EAST"), "+") | dict.fromkeys(
    ("S", "SOUTH", "W", "WEST"), "-"
)
_SEPARATOR = re.compile(
    r"sep=([,;\t|])\s*", re.IGNORECASE
)  # how a spreadsheet says what separates columns
Rows = Iterator[tuple[int, list[str]]]
"""the line at which each row ends, and its cells"""


@dataclass(frozen=True)
class Sheet:
    """Some consecutive rows; `line` (n,) is where each ends."""

    path: str
    header: tuple[str, ...]
    columns: tuple[list[str], ...]
    line: Sequence[int]
    delimiter: str
    sides: dict[
        str, list[int]
    ]  # header of degrees -> the column of its sides, if any, as the first piece has it
    used: set[str]  # headers of columns that were read

    @property
    def unread(self) -> list[str]:
        return [name for name in self.header if name not in self.used]

    def values(self, header: str) -> list[str]:
        """The texts of a column, or of several joined by blanks: DATE+TIME."""
        if header not in self.header:
            return list(map(" ".join, zip(*map(self.values, header.split("+")), strict=True)))
        self.used.add(header)
        return self.columns[self.header.index(header)]

    def degrees(self, header: str, high: float) -> list[str]:
        """The texts of a column, with the signs of its sides if another has these: N and S, or E
        and W.

        That one stands beside it, or is called so (N/S, lat_dir); `high` : of latitudes or
        longitudes, else none.
        """
        text = self.values(header)
        if header not in self.sides:
            every = range(len(self.header))
            self.sides[header] = [
                k for k in every if high in _SIDES and self._has_sides(k, header, *_SIDES[high])
            ][:1]
        for side in self.sides[header]:
            self.used.add(self.header[side])
            both = zip(text, self.columns[side], strict=True)
            text = [_with_sign(value.strip(), letter.strip().upper()) for value, letter in both]
        return text

    def _has_sides(self, k: int, header: str, words: set[str], name: re.Pattern[str]) -> bool:
        given = {value.strip().upper() for value in set(self.columns[k])} - {""}
        beside = given <= words and abs(k - self.header.index(header)) == 1
        return bool(given & words) and (beside or name.search(self.header[k]) is not None)

    def numbers(self, header: str, low: float, high: float, required: bool = True) -> FloatArray:
        """Floats (n,) of a column within bounds, NaN for a missing one unless it is required;
        raises `BadInput` with one line.
        """
        text = with_points(self.degrees(header, high), self.delimiter)
        return self.bounded(text, header, low, high, required)

    def bounded(
        self, text: Sequence[str], header: str, low: float, high: float, required: bool
    ) -> FloatArray:
        """As `numbers`, of the texts of a column."""
        try:
            return bounded(text, low, high, required)
        except Refused as refusal:
            self.refuse(refusal.row, header, str(refusal))

    def refuse(self, row: int, header: str, problem: str) -> NoReturn:
        raise BadInput(
            f"{self.path}: line {self.line[row]}, column {shown(header, quote=False)}: {problem}"
        )


@dataclass(frozen=True)
class Field:
    """A number in a row of text: its place, its name in messages, and its bounds."""

    at: int
    name: str
    low: float
    high: float
    required: bool = True


LAT = Field(0, "lat", -90.0, 90.0, required=False)
LON = Field(1, "lon", -180.0, 180.0, required=False)


def _with_sign(value: str, side: str) -> str:
    """The text of a number, which no reader takes where it has the other sign, or the side is
    unknown.
    """
    if missing(value):
        return value
    return f"{_SIGNS.get(side, f'{side}?')}{value}".replace("--", "-")


def read_sheets(path: str, names: Mapping[int, str] | None = None) -> Iterator[Sheet]:
    """The pieces of a CSV with at least one row. Raises `BadInput` with one line.

    names : of columns by number, from 0, of a file that may lack a header; its other columns are
    called by their numbers. None: it must have a header.
    """
    delimiter, rows = read_rows(Source(path, "CSV"), "time_s,user,lat,lon")
    line, header = next(rows)
    if names and not all(map(_is_word, [header[k] for k in names if k < len(header)])):
        rows = chain([(line, header)], rows)
        header = [names.get(k, str(k)) for k in range(len(header))]
    elif not is_header(header):
        example = "time_s,user,lat,lon".replace(",", " TAB " if delimiter == "\t" else delimiter)
        problem = (
            f"line {line} ({shown(delimiter.join(header))}) is a row, and the file has no header"
        )
        remedy = (
            ""
            if names is None
            else ", or name its columns in their order: --columns user,time_s,lat,lon"
        )
        raise BadInput(f"{path}: {problem}; put one above it, such as {example}{remedy}")
    sheet = None
    for sheet in _sheets(path, tuple(name.strip() for name in header), rows, delimiter):
        yield sheet
    if sheet is None:
        raise BadInput(f"{path}: has a header but no rows; give a file with at least one row")


def matched(
    path: str, header: Sequence[str], columns: Mapping[str, str], ours: Sequence[str]
) -> dict[str, str]:
    """Our name -> header of each column that a CSV has, called or numbered as `columns` says, or
    called as we do; for columns that are joined by + their headers so.

    Raises `BadInput`.
    """
    header_of = {str(k): name for k, name in enumerate(header)} | dict(
        zip(header, header, strict=True)
    )
    for called in columns.values():
        if called not in header_of and header_of.keys() >= {*called.split("+")}:
            header_of[called] = "+".join(header_of[part] for part in called.split("+"))
    for name, called in columns.items():
        if name not in ours:
            raise BadInput(
                f"{path}: columns: {shown(name)} is none of {', '.join(ours)}; {COLUMNS_REMEDY}"
            )
        if called not in header_of:
            problem = f"the file has no such column (it has {listed(header)})"
            raise BadInput(f"{path}: columns: {name}={called}: {problem}; use one of these")
    given = {
        header_of[called] for called in columns.values()
    }  # which are no other of our names as well
    found = {
        name: header_of[called]
        for name in ours
        if (called := columns.get(name, name)) in header_of
        and (name in columns or header_of[called] not in given)
    }
    for called in found.values():
        if list(header).count(called) > 1:
            raise BadInput(
                f"{path}: line 1: {shown(called)} appears twice in the header; rename one"
            )
    for name, called in product(ours, header):
        alike = (
            name not in found and name.rpartition("_")[0] == called.lower().rpartition("_")[0] != ""
        )
        if (alike or found.get(name) == called) and (unit := other_unit(name, called)):
            raise BadInput(
                f"{path}: column {shown(called)}: is in {unit}, but {name} is not; "
                f"convert the column"
            )
    return found


def read_table(
    path: str,
    bounds: Mapping[str, tuple[float, float] | None],
    needed: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
) -> DataFrame:
    """The columns of a CSV that have bounds: numbers within them, NaN for a missing one; texts
    where bounds are None.

    Rows are indexed by their line; `attrs["unread"]` has the other headers of the file. needed :
    columns with a value in every row; columns : our name -> header, for others than ours. Raises
    `BadInput` with one line.
    """
    from pandas import DataFrame, concat

    pieces = []
    try:
        opened(path, _TABLE_BYTES).close()
        for sheet in read_sheets(path):
            header_of = matched(path, sheet.header, columns or {}, [*bounds])
            if missing := [name for name in needed if name not in header_of]:
                problem = f"no column {', '.join(missing)}; the file has {listed(sheet.header)}"
                raise BadInput(f"{path}: {problem}; name one of these so")
            values = {
                ours: [one_line(text) for text in sheet.values(called)]
                if (span := bounds[ours]) is None
                else sheet.numbers(called, *span, ours in needed)
                for ours, called in header_of.items()
            }
            pieces.append(DataFrame(values, index=sheet.line))
    except OSError as error:
        raise BadInput(
            f"{path[:200]}: cannot be read ({error.strerror}); give the path of a CSV file"
        ) from None
    table = concat(pieces)
    table.attrs["unread"] = sheet.unread
    return table


def read_fields(
    source: Source, fields: Sequence[Field], skip: int = 0, delimiter: str | None = None
) -> tuple[FloatArray, ...]:
    """The line of each row (n,), and columns (n,) of numbers, of a file without a header, below
    `skip` lines.

    delimiter : None for blanks. Raises `BadInput` with one line.
    """
    width = 1 + max(field.at for field in fields)
    pieces = [tuple(np.zeros(0) for _ in range(1 + len(fields)))]
    for sheet in _sheets(
        source.path, ("",) * width, _first_cells(source, width, skip, delimiter), ","
    ):
        pieces.append(
            (
                np.array(sheet.line),
                *(
                    sheet.bounded(sheet.columns[f.at], f.name, f.low, f.high, f.required)
                    for f in fields
                ),
            )
        )
    return tuple(map(np.concatenate, zip(*pieces, strict=True)))


def _first_cells(source: Source, width: int, skip: int, delimiter: str | None) -> Rows:
    for line, text in enumerate(source.lines(), 1):
        cells = text.split(delimiter)
        if line <= skip or not text.strip():
            continue
        if len(cells) < width:
            problem = f"{len(cells)} fields, but {source.wanted} has {width} or more"
            source.refuse(line, f"{problem}; correct or remove the line (is it cut short?)")
        yield line, cells[:width]


def read_rows(source: Source, example: str) -> tuple[str, Rows]:
    """The delimiter of a CSV, and its rows that are not blank, from the header on.

    example : of a header, for messages. Above it there may be ``sep=;``, as spreadsheets write it,
    and comments; a comment right above rows is the header.
    """
    lines = source.lines()
    at = 0
    delimiter = comment = first = ""
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
        raise BadInput(
            f"{source.path}: the file is empty; begin it with a header such as {example}"
        )
    above = [first]
    delimiter = delimiter or max(",;\t", key=first.count)
    if comment.count(delimiter) == first.count(delimiter) > 0 and not is_header(
        first.split(delimiter)
    ):
        at -= 1
        above = [comment, first]
    return delimiter, _records(source.path, chain(above, lines), at - 1, delimiter)


def is_header(cells: Sequence[str]) -> bool:
    """Whether a row has names: at least half of its cells are no number and no date."""
    return 2 * sum(map(_is_word, cells)) >= len(cells)


def _is_word(cell: str) -> bool:
    text = cell.strip().strip('"')
    return math.isnan(number(text)) and not _DATE.match(text)


def _records(path: str, lines: Iterable[str], above: int, delimiter: str) -> Rows:
    # strict: a quote that is never closed would otherwise swallow the rest of the file
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield above + reader.line_num, row
    except csv.Error as error:
        raise BadInput(
            f"{path}: line {above + reader.line_num}: not CSV ({error}); correct the quoting"
        ) from error


def _sheets(path: str, header: tuple[str, ...], rows: Rows, delimiter: str) -> Iterator[Sheet]:
    """The rows in pieces, if all are as wide as the header."""
    width = len(header)
    sides = dict[str, list[int]]()
    used = set[str]()
    while some := list(islice(rows, _ROWS)):
        for at, cells in some:
            if len(cells) != width:
                why = (
                    "is the file cut short?"
                    if len(cells) < width
                    else "does it end with a delimiter, or hold one?"
                )
                problem = (
                    f"{len(cells)} fields, but the rows above have {width}; correct or "
                    f"remove the line ({why})"
                )
                raise BadInput(f"{path}: line {at}: {problem}")
        columns = tuple(map(list, zip(*(cells for _, cells in some), strict=True)))
        yield Sheet(path, header, columns, [at for at, _ in some], delimiter, sides, used)

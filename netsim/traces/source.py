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

from netsim.errors import BadInput, format_count
from netsim.safe import describe_file_kind, format_size, list_files_below, open_regular
from netsim.traces.values import (
    Refused,
    find_other_unit,
    is_missing,
    join_texts,
    parse_bounded,
    quote_text,
    replace_commas,
    squeeze_blanks,
    to_number,
)
from netsim.units import FloatArray, FloatPair, Texts

if TYPE_CHECKING:
    from pandas import DataFrame

CHUNK_BYTES = 2**20
MAX_UNPACKED_BYTES = 4 * 2**30  # 1e8 rows of a CSV; beyond it a small file is more likely a bomb
MAX_LINE_BYTES = 2**20
MOST_FILE_BYTES = 64 * 2**30  # as it lies there; no memory holds the rows of a larger one
_TABLE_BYTES = 500 * 2**20  # of one that is held as a whole
_GZIP = b"\x1f\x8b"


Attributes = dict[str, str]
"""of an element of XML"""
Headers = Mapping[str, str]
"""our name -> header of the file"""


@dataclass(frozen=True)
class Source:
    """A file by its path, and what it should have been, for messages (CSV, PLT ...)."""

    path: str
    expected: str = "text"

    @property
    def n_bytes(self) -> int:
        return Path(self.path).stat().st_size

    def refuse(self, line: int, problem: str) -> NoReturn:
        raise BadInput(f"{self.path}: line {line}: {problem}")

    def read_chunks(self) -> Iterator[bytes]:
        """The unpacked text in pieces. Raises `BadInput` with one line."""
        line = 1
        for chunk in self.unpack():
            if (nul := chunk.find(b"\0")) >= 0:
                nul_line = line + chunk.count(b"\n", 0, nul)
                self.refuse(
                    nul_line,
                    f"holds a NUL byte: binary or UTF-16; give a UTF-8 {self.expected} file",
                )
            yield chunk
            line += chunk.count(b"\n")

    def unpack(self) -> Iterator[bytes]:
        """The unpacked bytes in pieces. Raises `BadInput` with one line."""
        total = 0
        packed = self._is_packed()
        with open_regular(self.path, MOST_FILE_BYTES) as raw:
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
            while chunk := self._read_chunk(file):
                total += len(chunk)
                if packed and total > MAX_UNPACKED_BYTES:
                    limit = format_size(MAX_UNPACKED_BYTES)
                    raise BadInput(
                        f"{self.path}: unpacks to more than {limit}, the most that is read; "
                        f"unpack it if you trust it, and split it"
                    )
                yield chunk

    def read_lines(self) -> Iterator[str]:
        r"""Lines with their ends, all of which are \n."""
        line = 1
        rest = b""
        for chunk in self._unify_newlines():
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            yield from StringIO(self._decode(whole + newline, line), newline="\n")
            line += len(newline) + whole.count(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                self.refuse(
                    line,
                    f"longer than {format_size(MAX_LINE_BYTES)}; give a {self.expected} "
                    f"file of rows",
                )
        if rest:
            yield self._decode(rest, line)

    def read_head(self) -> str:
        """The beginning, for telling formats apart; what is no UTF-8 is replaced."""
        return next(self.unpack(), b"").decode("utf-8-sig", "replace")

    def _is_packed(self) -> bool:
        try:
            with open_regular(self.path, MOST_FILE_BYTES) as file:
                first = file.read(4)
        except OSError as error:
            raise BadInput(
                f"{self.path}: cannot be read ({error.strerror or error}); check the path"
            ) from error
        if not first:
            raise BadInput(f"{self.path}: the file is empty (0 bytes); give a file with rows")
        if first == b"PK\3\4":
            self.refuse(1, "begins a zip archive, as a KMZ is; unpack it, and give what is in it")
        if self.path.endswith(".gz") and not first.startswith(_GZIP):
            raise BadInput(
                f"{self.path}: named .gz but not gzip (begins with {first!r}); rename or "
                f"compress it"
            )
        return first.startswith(_GZIP)

    def _read_chunk(self, file: BinaryIO) -> bytes:
        try:
            return file.read(CHUNK_BYTES)
        except EOFError:
            problem = f"cut short after {self.n_bytes} bytes"
        except (OSError, zlib.error) as error:
            problem = f"damaged ({error})"
        raise BadInput(f"{self.path}: gzip data {problem}; copy the file again")

    def _unify_newlines(self) -> Iterator[bytes]:
        r"""The chunks with \n for \r\n and for \r; a pair may straddle two chunks."""
        held = b""
        for chunk in self.read_chunks():
            chunk = held + chunk
            held = b"\r" if chunk.endswith(b"\r") else b""
            yield chunk[: len(chunk) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if held:
            yield b"\n"

    def _decode(self, raw: bytes, line: int) -> str:
        try:
            return raw.decode("utf-8-sig" if line == 1 else "utf-8")
        except UnicodeDecodeError as error:
            bad_line = line + raw.count(b"\n", 0, error.start)
            self.refuse(
                bad_line, f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8"
            )


class XmlFile:
    """A file of XML, read as a stream of elements; it may declare no document type, and so no
    entity.
    """

    def __init__(self, path: str, expected: str) -> None:
        self.source = Source(path, expected)
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._begin_doctype

    def refuse(self, problem: str) -> NoReturn:
        self.source.refuse(self.parser.CurrentLineNumber, problem)

    def read(
        self,
        begin: Callable[[str, Attributes], None],
        end: Callable[[str, str], None] | None = None,
    ) -> None:
        """Call `begin` with the name, without prefix, and the attributes of each element, and `end`
        with the name and the text directly before the end of it. Raises `BadInput` with one line.
        """
        text: list[str] = []

        def start(name: str, attributes: Attributes) -> None:
            begin(name.rpartition(":")[2] if ":" in name else name, attributes)
            text.clear()

        self.parser.StartElementHandler = start
        if end is not None:
            self.parser.CharacterDataHandler = text.append
            self.parser.EndElementHandler = lambda name: end(name.rpartition(":")[2], "".join(text))
        rest = b""
        for chunk in self.source.read_chunks():
            tags, bracket, rest = (rest + chunk).rpartition(b">")
            self._parse(tags + bracket)
            if len(rest) > MAX_LINE_BYTES:  # the parser would hold all of a tag that never ends
                self.refuse(
                    f"a tag or a text longer than 1 MiB; give a {self.source.expected} file"
                )
        self._parse(rest, last=True)

    def _begin_doctype(self, *_: object) -> None:
        self.refuse(
            "declares a document type (DOCTYPE), which can hide entity bombs and outside files; "
            "remove the DOCTYPE"
        )

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
                f"not XML in UTF-8 ({quote_text(str(error), quote=False)}); save the file as UTF-8"
            )


def find_files(path: str, pattern: str) -> list[str]:
    """The file, or all files of a folder and below that fit the pattern in any case, in order of
    name.

    Raises `BadInput` for a folder that `list_files_below` refuses.
    """
    if describe_file_kind(path) != "folder":
        return [path]
    try:
        return [str(file) for file in list_files_below(path) if fnmatch(file.name.lower(), pattern)]
    except OSError as error:
        raise BadInput(
            f"{error.filename}: {error.strerror}; give the folder of the traces alone"
        ) from None


def count_other_files(path: str, pattern: str) -> str:
    """The files of a folder that do not fit the pattern, counted by their endings; empty for
    none.
    """
    other_files = {*find_files(path, "*")}.difference(find_files(path, pattern))
    n_of = Counter(Path(file).suffix for file in other_files)
    return join_texts([format_count(n, f"{ending} file") for ending, n in n_of.most_common()])


def to_relative(path: str, owner: str) -> str:
    """A file or folder as it is called below the path that was named, without endings."""
    below = Path(
        os.path.relpath(owner, path) if describe_file_kind(path) == "folder" else Path(owner).name
    )
    if describe_file_kind(owner) == "file":
        return str(below.parent / strip_endings(owner))
    return str(below)


def strip_endings(path: str) -> str:
    """The name of a file without folders and endings."""
    return squeeze_blanks(Path(path).name.removesuffix(".gz").rsplit(".", 1)[0])


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
# how a spreadsheet says what separates columns
_SEPARATOR = re.compile(r"sep=([,;\t|])\s*", re.IGNORECASE)
Rows = Iterator[tuple[int, list[str]]]
"""the line at which each row ends, and its cells"""


@dataclass(frozen=True)
class Sheet:
    """Some consecutive rows; `line` (n,) is where each ends."""

    path: str
    header: Texts
    columns: tuple[list[str], ...]
    line: Sequence[int]
    delimiter: str
    # header of degrees -> the column of its sides, if any, as the first piece has it
    sides: dict[str, list[int]]
    used: set[str]  # headers of columns that were read

    @property
    def unread(self) -> list[str]:
        return [name for name in self.header if name not in self.used]

    def get_texts(self, header: str) -> list[str]:
        """The texts of a column, or of several joined by blanks: DATE+TIME."""
        if header not in self.header:
            return list(map(" ".join, zip(*map(self.get_texts, header.split("+")), strict=True)))
        self.used.add(header)
        return self.columns[self.header.index(header)]

    def get_signed_texts(self, header: str, high: float) -> list[str]:
        """The texts of a column, with the signs of its sides if another has these: N and S, or E
        and W.

        That one stands beside it, or is called so (N/S, lat_dir); `high` : of latitudes or
        longitudes, else none.
        """
        text = self.get_texts(header)
        if header not in self.sides:
            columns = range(len(self.header))
            self.sides[header] = [
                k for k in columns if high in _SIDES and self._has_sides(k, header, *_SIDES[high])
            ][:1]
        for side in self.sides[header]:
            self.used.add(self.header[side])
            both = zip(text, self.columns[side], strict=True)
            text = [_add_sign(value.strip(), letter.strip().upper()) for value, letter in both]
        return text

    def _has_sides(self, k: int, header: str, words: set[str], name: re.Pattern[str]) -> bool:
        sides = {value.strip().upper() for value in set(self.columns[k])} - {""}
        is_beside = sides <= words and abs(k - self.header.index(header)) == 1
        return bool(sides & words) and (is_beside or name.search(self.header[k]) is not None)

    def parse_numbers(
        self, header: str, low: float, high: float, required: bool = True
    ) -> FloatArray:
        """Floats (n,) of a column within bounds, NaN for a missing one unless it is required;
        raises `BadInput` with one line.
        """
        text = replace_commas(self.get_signed_texts(header, high), self.delimiter)
        return self.parse_bounded(text, header, low, high, required)

    def parse_bounded(
        self, text: Sequence[str], header: str, low: float, high: float, required: bool
    ) -> FloatArray:
        """As `numbers`, of the texts of a column."""
        try:
            return parse_bounded(text, low, high, required)
        except Refused as refusal:
            self.refuse(refusal.row, header, str(refusal))

    def refuse(self, row: int, header: str, problem: str) -> NoReturn:
        quoted = quote_text(header, quote=False)
        raise BadInput(f"{self.path}: line {self.line[row]}, column {quoted}: {problem}")


@dataclass(frozen=True)
class Field:
    """A number in a row of text: its place, its name in messages, and its bounds."""

    index: int
    name: str
    low: float
    high: float
    required: bool = True


LAT = Field(0, "lat", -90.0, 90.0, required=False)
LON = Field(1, "lon", -180.0, 180.0, required=False)


def _add_sign(value: str, side: str) -> str:
    """The text of a number, which no reader takes where it has the other sign, or the side is
    unknown.
    """
    if is_missing(value):
        return value
    return f"{_SIGNS.get(side, f'{side}?')}{value}".replace("--", "-")


def read_sheets(path: str, names: Mapping[int, str] | None = None) -> Iterator[Sheet]:
    """The pieces of a CSV with at least one row. Raises `BadInput` with one line.

    names : of columns by number, from 0, of a file that may lack a header; its other columns are
    called by their numbers. None: it must have a header.
    """
    delimiter, rows = read_delimited_rows(Source(path, "CSV"), "time_s,user,lat,lon")
    line, header = next(rows)
    if names and not all(map(_is_word, [header[k] for k in names if k < len(header)])):
        rows = chain([(line, header)], rows)
        header = [names.get(k, str(k)) for k in range(len(header))]
    elif not is_header(header):
        example = "time_s,user,lat,lon".replace(",", " TAB " if delimiter == "\t" else delimiter)
        problem = (
            f"line {line} ({quote_text(delimiter.join(header))}) is a row, "
            f"and the file has no header"
        )
        if names is None:
            remedy = ""
        else:
            remedy = ", or name its columns in their order: --columns user,time_s,lat,lon"
        raise BadInput(f"{path}: {problem}; put one above it, such as {example}{remedy}")
    sheet = None
    for sheet in _split_sheets(path, tuple(name.strip() for name in header), rows, delimiter):
        yield sheet
    if sheet is None:
        raise BadInput(f"{path}: has a header but no rows; give a file with at least one row")


def match_columns(
    path: str, header: Sequence[str], columns: Headers, ours: Sequence[str]
) -> dict[str, str]:
    """Our name -> header of each column that a CSV has, called or numbered as `columns` says, or
    called as we do; for columns that are joined by + their headers so.

    Raises `BadInput`.
    """
    named = dict(zip(header, header, strict=True))
    header_of = {str(k): name for k, name in enumerate(header)} | named
    for called in columns.values():
        if called not in header_of and header_of.keys() >= {*called.split("+")}:
            header_of[called] = "+".join(header_of[part] for part in called.split("+"))
    for name, called in columns.items():
        if name not in ours:
            raise BadInput(
                f"{path}: columns: {quote_text(name)} is none of {', '.join(ours)}; "
                f"{COLUMNS_REMEDY}"
            )
        if called not in header_of:
            problem = f"the file has no such column (it has {join_texts(header)})"
            raise BadInput(f"{path}: columns: {name}={called}: {problem}; use one of these")
    # which are no other of our names as well
    taken_headers = {header_of[called] for called in columns.values()}
    header_of_ours = {
        name: header_of[called]
        for name in ours
        if (called := columns.get(name, name)) in header_of
        and (name in columns or header_of[called] not in taken_headers)
    }
    for called in header_of_ours.values():
        if list(header).count(called) > 1:
            raise BadInput(
                f"{path}: line 1: {quote_text(called)} appears twice in the header; rename one"
            )
    for name, called in product(ours, header):
        alike = (
            name not in header_of_ours
            and name.rpartition("_")[0] == called.lower().rpartition("_")[0] != ""
        )
        if (alike or header_of_ours.get(name) == called) and (
            unit := find_other_unit(name, called)
        ):
            raise BadInput(
                f"{path}: column {quote_text(called)}: is in {unit}, but {name} is not; "
                f"convert the column"
            )
    return header_of_ours


def read_number_table(
    path: str,
    bounds: Mapping[str, FloatPair | None],
    needed: Sequence[str] = (),
    columns: Headers | None = None,
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
        open_regular(path, _TABLE_BYTES).close()
        for sheet in read_sheets(path):
            header_of = match_columns(path, sheet.header, columns or {}, [*bounds])
            if missing := [name for name in needed if name not in header_of]:
                problem = f"no column {', '.join(missing)}; the file has {join_texts(sheet.header)}"
                raise BadInput(f"{path}: {problem}; name one of these so")
            values = {
                ours: [squeeze_blanks(text) for text in sheet.get_texts(called)]
                if (span := bounds[ours]) is None
                else sheet.parse_numbers(called, *span, ours in needed)
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


def read_lines_and_fields(
    source: Source, fields: Sequence[Field], skip: int = 0, delimiter: str | None = None
) -> tuple[FloatArray, ...]:
    """The line of each row (n,), and columns (n,) of numbers, of a file without a header, below
    `skip` lines.

    delimiter : None for blanks. Raises `BadInput` with one line.
    """
    width = 1 + max(field.index for field in fields)
    pieces = [tuple(np.zeros(0) for _ in range(1 + len(fields)))]
    for sheet in _split_sheets(
        source.path, ("",) * width, _split_lines(source, width, skip, delimiter), ","
    ):
        pieces.append(
            (
                np.array(sheet.line),
                *(
                    sheet.parse_bounded(sheet.columns[f.index], f.name, f.low, f.high, f.required)
                    for f in fields
                ),
            )
        )
    return tuple(map(np.concatenate, zip(*pieces, strict=True)))


def _split_lines(source: Source, width: int, skip: int, delimiter: str | None) -> Rows:
    for line, text in enumerate(source.read_lines(), 1):
        cells = text.split(delimiter)
        if line <= skip or not text.strip():
            continue
        if len(cells) < width:
            problem = f"{len(cells)} fields, but {source.expected} has {width} or more"
            source.refuse(line, f"{problem}; correct or remove the line (is it cut short?)")
        yield line, cells[:width]


def read_delimited_rows(source: Source, example: str) -> tuple[str, Rows]:
    """The delimiter of a CSV, and its rows that are not blank, from the header on.

    example : of a header, for messages. Above it there may be ``sep=;``, as spreadsheets write it,
    and comments; a comment right above rows is the header.
    """
    lines = source.read_lines()
    n_lines = 0
    delimiter = comment = first = ""
    for line in lines:
        n_lines += 1
        if separator := _SEPARATOR.fullmatch(line):
            delimiter = separator[1]
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
        n_lines -= 1
        above = [comment, first]
    return delimiter, _read_records(source.path, chain(above, lines), n_lines - 1, delimiter)


def is_header(cells: Sequence[str]) -> bool:
    """Whether a row has names: at least half of its cells are no number and no date."""
    return 2 * sum(map(_is_word, cells)) >= len(cells)


def _is_word(cell: str) -> bool:
    text = cell.strip().strip('"')
    return math.isnan(to_number(text)) and not _DATE.match(text)


def _read_records(path: str, lines: Iterable[str], above: int, delimiter: str) -> Rows:
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


def _split_sheets(path: str, header: Texts, rows: Rows, delimiter: str) -> Iterator[Sheet]:
    """The rows in pieces, if all are as wide as the header."""
    width = len(header)
    sides = dict[str, list[int]]()
    used = set[str]()
    while pieces := list(islice(rows, _ROWS)):
        for line, cells in pieces:
            if len(cells) != width:
                if len(cells) < width:
                    reason = "is the file cut short?"
                else:
                    reason = "does it end with a delimiter, or hold one?"
                problem = (
                    f"{len(cells)} fields, but the rows above have {width}; correct or "
                    f"remove the line ({reason})"
                )
                raise BadInput(f"{path}: line {line}: {problem}")
        columns = tuple(map(list, zip(*(cells for _, cells in pieces), strict=True)))
        yield Sheet(path, header, columns, [line for line, _ in pieces], delimiter, sides, used)

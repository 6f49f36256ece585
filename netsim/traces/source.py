"""A file of a trace as bytes, as lines and as XML: unpacked while it is read, never held as a whole, refused by line.

What reaches a reader is bounded: a gzip file may unpack to 4 GiB, a line may be 1 MiB long.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from io import StringIO
from pathlib import Path
from typing import BinaryIO, NoReturn, cast
from xml.parsers import expat

from netsim.errors import BadInput
from netsim.safe import opened, size_text, what_is
from netsim.traces.values import one_line, shown

CHUNK_BYTES = 2**20
MAX_UNPACKED_BYTES = 4 * 2**30  # 1e8 rows of a CSV; beyond it a small file is more likely a bomb
MAX_LINE_BYTES = 2**20
MOST_FILE_BYTES = 64 * 2**30  # as it lies there; no memory holds the rows of a larger one
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Source:
    """A file by its path, and what it should have been, for messages (CSV, PLT ...)."""

    path: str
    wanted: str = "text"

    @property
    def n_bytes(self) -> int:
        """Size of the file as it lies there."""
        return Path(self.path).stat().st_size

    def refuse(self, line: int, problem: str) -> NoReturn:
        """Stop at a line."""
        raise BadInput(f"{self.path}: line {line}: {problem}")

    def chunks(self) -> Iterator[bytes]:
        """The unpacked file in pieces. Raises `BadInput` with one line."""
        line, total, packed = 1, 0, self._packed()
        with opened(self.path, MOST_FILE_BYTES) as raw:
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
            while chunk := self._read(file):
                total += len(chunk)
                if packed and total > MAX_UNPACKED_BYTES:
                    most = size_text(MAX_UNPACKED_BYTES)
                    remedy = "unpack it if you trust it, and split it"
                    self.refuse(line, f"unpacks to more than {most}, the most that is read; {remedy}")
                if (nul := chunk.find(b"\0")) >= 0:
                    at = line + chunk.count(b"\n", 0, nul)
                    self.refuse(at, f"holds a NUL byte: binary or UTF-16; give a UTF-8 {self.wanted} file")
                yield chunk
                line += chunk.count(b"\n")

    def lines(self) -> Iterator[str]:
        r"""Lines with their ends, all of which are \n."""
        line, rest = 1, b""
        for chunk in self._one_newline():
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            yield from StringIO(self._decoded(whole + newline, line), newline="\n")
            line += len(newline) + whole.count(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                self.refuse(line, f"longer than {size_text(MAX_LINE_BYTES)}; give a {self.wanted} file of rows")
        if rest:
            yield self._decoded(rest, line)

    def head(self) -> str:
        """The beginning, for telling formats apart; what is no UTF-8 is replaced."""
        return next(self.chunks(), b"").decode("utf-8-sig", "replace")

    def _packed(self) -> bool:
        try:
            with opened(self.path, MOST_FILE_BYTES) as file:
                first = file.read(4)
        except OSError as error:
            raise BadInput(f"{self.path}: cannot be read ({error.strerror or error}); check the path") from error
        if not first:
            raise BadInput(f"{self.path}: the file is empty (0 bytes); give a CSV file with a header and rows")
        if self.path.endswith(".gz") and not first.startswith(_GZIP):
            raise BadInput(f"{self.path}: named .gz but not gzip (begins with {first!r}); rename or compress it")
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
            self.refuse(where, f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8")


class XmlFile:
    """A file of XML, read as a stream of elements; it may declare no document type, and so no entity."""

    def __init__(self, path: str, wanted: str) -> None:
        self.source, self.parser = Source(path, wanted), expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._begin_doctype

    def refuse(self, problem: str) -> NoReturn:
        """Stop with the line that is being read."""
        self.source.refuse(self.parser.CurrentLineNumber, problem)

    def read(self, begin: Callable[[str, dict[str, str]], None], end: Callable[[str, str], None] | None = None) -> None:
        """Call `begin` with the name, without prefix, and the attributes of each element, and `end` with the name and
        the text directly before the end of it. Raises `BadInput` with one line.
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
        problem = "declares a document type (DOCTYPE), which can hide entity bombs and outside files"
        self.refuse(f"{problem}; remove the DOCTYPE")

    def _parse(self, piece: bytes, last: bool = False) -> None:
        try:
            self.parser.Parse(piece, last)
        except expat.ExpatError as error:
            problem = (
                f"not XML ({expat.ErrorString(error.code)}); correct it, or copy the file again if it is cut short"
            )
            self.source.refuse(error.lineno, problem)
        except BadInput:
            raise
        except (LookupError, ValueError) as error:  # an encoding that the parser does not know, or one of several bytes
            self.refuse(f"not XML in UTF-8 ({shown(str(error), quote=False)}); save the file as UTF-8")


def files_in(path: str, pattern: str) -> list[str]:
    """The file, or all files of a folder and below that fit the pattern in any case, in order of name.

    Hidden files and folders are passed over, and files that archives of macOS add.
    """
    if what_is(path) != "folder":
        return [path]
    below = [p for p in sorted(Path(path).rglob("*")) if fnmatch(p.name.lower(), pattern) and what_is(p) == "file"]
    return [str(p) for p in below if not any(part.startswith((".", "__MACOSX")) for part in p.relative_to(path).parts)]


def relative(path: str, owner: str) -> str:
    """A file or folder as it is called below the path that was named, without endings."""
    below = Path(os.path.relpath(owner, path) if what_is(path) == "folder" else Path(owner).name)
    return str(below.parent / stem(owner)) if what_is(owner) == "file" else str(below)


def stem(path: str) -> str:
    """The name of a file without folders and endings."""
    return one_line(Path(path).name.removesuffix(".gz").rsplit(".", 1)[0])

"""A trace file as bytes and as text: unpacked while it is read, never held as a whole, refused by line.

What reaches a reader is bounded: a gzip file may unpack to 4 GiB, a line may be 1 MiB long.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from netsim.errors import BadInput
from netsim.safe import opened, size_text

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

    def chunks(self) -> Iterator[bytes]:
        """The unpacked file in pieces. Raises `BadInput` with one line."""
        line, total, packed = 1, 0, self._packed()
        with opened(self.path, MOST_FILE_BYTES) as raw, _unpacked(raw, packed) as file:
            while chunk := self._read(file):
                total += len(chunk)
                if packed and total > MAX_UNPACKED_BYTES:
                    problem = f"unpacks to more than {size_text(MAX_UNPACKED_BYTES)}, the most that is read"
                    raise BadInput(f"{self.path}: line {line}: {problem}; unpack it if you trust it, and split it")
                nul = chunk.find(b"\0")
                if nul >= 0:
                    line += chunk.count(b"\n", 0, nul)
                    remedy = f"give a UTF-8 {self.wanted} file"
                    raise BadInput(f"{self.path}: line {line}: holds a NUL byte: binary or UTF-16; {remedy}")
                yield chunk
                line += chunk.count(b"\n")

    def blocks(self) -> Iterator[tuple[int, str]]:
        r"""Whole lines as text, with the number of the first; all line ends are \n."""
        line, rest = 1, b""
        for chunk in _one_newline(self.chunks()):
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                yield line, self._decoded(whole + newline, line)
                line += whole.count(b"\n") + 1
            if len(rest) > MAX_LINE_BYTES:
                raise BadInput(
                    f"{self.path}: line {line}: longer than {size_text(MAX_LINE_BYTES)}; give a {self.wanted} file of "
                    "rows"
                )
        if rest:
            yield line, self._decoded(rest, line)

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
        except EOFError as error:
            raise BadInput(
                f"{self.path}: gzip data cut short after {self.n_bytes} bytes; copy the file again"
            ) from error
        except (OSError, zlib.error) as error:
            raise BadInput(f"{self.path}: gzip data damaged ({error}); copy the file again") from error

    def _decoded(self, raw: bytes, line: int) -> str:
        try:
            return raw.decode("utf-8-sig" if line == 1 else "utf-8")
        except UnicodeDecodeError as error:
            where = line + error.object.count(b"\n", 0, error.start)
            byte = f"0x{error.object[error.start]:02x}"
            raise BadInput(f"{self.path}: line {where}: byte {byte} is not UTF-8; save the file as UTF-8") from error


def _unpacked(raw: BinaryIO, packed: bool) -> BinaryIO:
    return cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw


def _one_newline(chunks: Iterator[bytes]) -> Iterator[bytes]:
    r"""The same bytes with \n for \r\n and for \r; a pair may straddle two chunks."""
    held = b""
    for chunk in chunks:
        chunk = held + chunk
        held = b"\r" if chunk.endswith(b"\r") else b""
        yield chunk[: len(chunk) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if held:
        yield b"\n"

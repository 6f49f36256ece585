"""What the command prints: control characters are escaped, complaints are cut to a sensible length.

Text for people, or with `--json` one JSON object a line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from netsim.errors import BadInput, one_line
from scenarios.app.study import Record

WIDTH = 100  # columns of tables
MOST_LINES, LONGEST = 50, 2000  # of complaints; a longer one loses its middle


class Lenient:
    """A stream for libraries that write: no error without a reader, no character that its encoding lacks."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write text as `write` does."""
        write(_encodable(text, self.stream), self.stream)
        return len(text)

    def flush(self) -> None:
        """Do nothing: `write` flushes."""


class Unwritable(BadInput):
    """Stdout cannot be written, so this is said on stderr, whatever a command says elsewhere."""


def say(text: str, end: str = "\n", errors: bool = False) -> None:
    """Print lines; what files say is shown without the codes by which it could steer a terminal.

    Characters that the encoding of the stream does not have are written as escapes.
    """
    lines, stream = "\n".join(one_line(line) for line in text.split("\n")), sys.stderr if errors else sys.stdout
    write(_encodable(lines, stream) + end, stream)


def _encodable(text: str, stream: TextIO) -> str:
    """A text with escapes for the characters that a stream cannot write."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def write(text: str, stream: TextIO, flush: bool = False) -> bool:
    """Write text; returns whether anybody reads it.

    Text without a reader is dropped, as `head` leaves it, and so is what cannot be written on stderr. Raises Unwritable
    where stdout cannot be written.
    """
    try:
        if text:
            stream.write(text)
        if flush or stream is not sys.stdout:
            stream.flush()
    except OSError as error:
        silence(stream)
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            raise Unwritable(
                f"stdout: cannot be written ({error.strerror}); make room, or send it elsewhere; what was written into "
                "folders stays"
            ) from None
        return False
    return True


def silence(stream: TextIO) -> None:
    """Send what is still to be written nowhere, so that the interpreter does not complain of it when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows below their heads, if any, as text; `left`: how many columns are words, and not numbers."""
    from scenarios.app.results.shown import drawn

    lines = drawn(head, rows, right=range(left, len(head)))
    return "\n".join(lines if any(head) else lines[1:])


def say_fitted(lines: Sequence[str]) -> None:
    """Print result lines, indented and wrapped at 100 columns."""
    from scenarios.app.results.shown import fitted

    for line in fitted(lines):
        say(f"  {line}")


def emit(event: Record) -> bool:
    """Print an event as a line of JSON; what is not finite is null, as JSON knows no such numbers. As `write`."""
    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(event, inf_nan_mode="null", fallback=_plain)
    return write(json.dumps(plain, allow_nan=False) + "\n", sys.stdout, flush=True)


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python; of anything else its text."""
    return value.item() if hasattr(value, "item") else str(value)


def complain(lines: Sequence[str]) -> None:
    """Complaints, each on a line of a length that can be read: whole at both ends, where place and remedy stand."""
    for line in lines[:MOST_LINES]:
        cut = len(line) > LONGEST
        said = f"{line[: LONGEST - 300]} [... {len(line) - LONGEST:,} characters ...] {line[-300:]}" if cut else line
        say(" ".join(f"netsim: {said}".splitlines()), errors=True)
    if len(lines) > MOST_LINES:
        say(f"netsim: and {len(lines) - MOST_LINES:,} more", errors=True)

"""A block of lines at the end of a terminal, rewritten in place.

Each line is cut to the width of the terminal, so that none wraps and the block has as many rows as lines. A block goes
out in one write, which begins by moving up to its first line; the cursor is hidden during that write only, so nothing
has to be restored whenever a command ends. Where the terminal has become narrower than what stands there, nobody knows
how many rows that now takes: then the block is written anew below it, and no line of others is ever erased.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TextIO

from scenarios.app.cli.output import write

Line = Sequence[tuple[str, str]]
"""Pieces of text, each with its style: '', 'bold', 'dim' or 'colour'."""

_UP, _ERASE_LINE, _ERASE_BELOW = "\r\033[{}A", "\033[K", "\033[J"
_HIDE, _SHOW, _PLAIN = "\033[?25l", "\033[?25h", "\033[0m"
_STYLES = {"bold": "\033[1m", "dim": "\033[2m", "colour": "\033[36m"}


def can_rewrite(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether lines that were written can be written over: on a terminal that says that it is more than dumb."""
    return stream.isatty() and environment.get("TERM", "") not in ("", "dumb")


class Screen:
    """The block, and how wide its lines are that stand there now."""

    def __init__(self, stream: TextIO, environment: Mapping[str, str]) -> None:
        self.stream = stream
        self.styles = {} if environment.get("NO_COLOR") else _STYLES
        self.more = "…" if _writes(stream, "…") else "~"
        self.drawn: list[int] = []

    def size(self) -> tuple[int, int]:
        """Columns and rows; those that nobody knows are 80 and 24."""
        try:
            columns, rows = os.get_terminal_size(self.stream.fileno())
        except (OSError, ValueError):
            columns = rows = 0
        usual = shutil.get_terminal_size((80, 24))
        return columns or usual.columns, rows or usual.lines

    def draw(self, lines: Sequence[Line]) -> None:
        """Write these lines where those of the block stand; of more than there are rows the first."""
        columns, rows = self.size()
        shown = [fitted(line, columns - 1, self.more) for line in lines[: max(rows - 1, 1)]]
        body = "".join(f"{self._styled(line)}{_ERASE_LINE}\n" for line in shown)
        self._write(f"{self._back(columns)}{body}{_ERASE_BELOW}")
        self.drawn = [sum(cells(text) for text, _ in line) for line in shown]

    def clear(self) -> None:
        """Take the block away."""
        if self.drawn:
            self._write(f"{self._back(self.size()[0])}{_ERASE_BELOW}")
        self.drawn = []

    def _back(self, columns: int) -> str:
        """To the first line of the block, if it is known where that is."""
        return _UP.format(len(self.drawn)) if self.drawn and max(self.drawn) < columns else ""

    def _styled(self, line: Line) -> str:
        return "".join(
            f"{self.styles[style]}{text}{_PLAIN}" if style in self.styles and text else text for text, style in line
        )

    def _write(self, text: str) -> None:
        write(f"{_HIDE}{text}{_SHOW}", self.stream)


def cells(text: str) -> int:
    """How many columns of a terminal a text takes: none for a combining character, two for a wide one."""
    return sum(_cell(c) for c in text)


def _cell(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(line: Line, columns: int, more: str = "…") -> Line:
    """A line cut to a number of columns; `more` says that something is left out."""
    if sum(cells(text) for text, _ in line) <= columns:
        return line
    kept, room = list[tuple[str, str]](), columns - cells(more)
    for text, style in line:
        piece = ""
        for character in text:
            if cells(piece) + _cell(character) > room:
                return [*kept, (piece + more, style)] if room >= 0 else []
            piece += character
        kept, room = [*kept, (text, style)], room - cells(text)
    return kept


def bar(share: float, columns: int, stream: TextIO) -> Line:
    """A bar of so many columns, filled to a share from 0 to 1."""
    full, empty = ("━", "─") if _writes(stream, "━─") else ("#", "-")
    filled = round(min(max(share, 0.0), 1.0) * columns)
    return [(full * filled, "colour"), (empty * (columns - filled), "dim")]


def _writes(stream: TextIO, text: str) -> bool:
    """Whether the encoding of a stream has these characters."""
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True

"""Lines that fit a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

COLUMNS = 100  # of a terminal line


def fitted(lines: Sequence[str], columns: int = COLUMNS) -> list[str]:
    """Lines broken at blanks to a number of columns; what goes on is indented."""
    return [
        piece for line in lines
        for piece in textwrap.wrap(line, columns, subsequent_indent="  ", break_long_words=False,
                                   break_on_hyphens=False) or [""]
    ]  # fmt: skip

"""Tables of cases as text."""

import re
from ast import literal_eval
from string import Template
from textwrap import dedent
from typing import Any


def cases(text: str, **names: str) -> list[tuple[Any, ...]]:
    """The rows of a table: Python literals, a row a line; lines that are indented continue a row; a
    comment may end a row.

    In a cell of text $name stands for one of the names.
    """
    lines = re.sub(r"\n +", " ", dedent(text).strip("\n")).split("\n")
    rows = [literal_eval(f"({line}\n,)") for line in lines]
    if not names:
        return rows
    return [tuple(map(lambda cell: _fill(cell, names), row)) for row in rows]


def name_cases(text: str, **names: str) -> dict[str, list[Any]]:
    """The rows of a table by their first cell."""
    return {name: row for name, *row in cases(text, **names)}


def _fill(cell: Any, names: dict[str, str]) -> Any:
    return Template(cell).substitute(names) if isinstance(cell, str) else cell

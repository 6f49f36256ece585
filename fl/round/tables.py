"""Every record table of a run, column by column: meaning, unit and type, as `tables.toml` declares them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Literal


@dataclass(frozen=True)
class Column:
    """Column of one table. A flag is 1 (yes) or 0 (no); an integer is below 2^53."""

    meaning: str
    unit: str = ""
    type: Literal["number", "integer", "text", "flag"] = "number"


_TEXT = resources.files(__package__).joinpath("tables.toml").read_text(encoding="utf-8")
TABLES: dict[str, dict[str, Column]] = {
    table: {name: Column(**of) for name, of in columns.items()} for table, columns in tomllib.loads(_TEXT).items()
}

"""Every record table of a run, column by column, as `tables.toml` declares them, and rows as
columns of a table.
"""

from typing import Any

import numpy as np

from netsim.fit import read_toml
from netsim.record import Column, TableRows
from netsim.units import FloatArray, IntArray

Cells = dict[str, Any]
"""column -> cells of rows of a table"""

Tables = list[tuple[str, Cells]]
"""rows of tables, each with its name"""


def read_tables(package: str, name: str) -> dict[str, dict[str, Column]]:
    """Columns of tables, as a TOML file of a package declares them."""
    return {
        table: {name: Column(**column) for name, column in columns.items()}
        for table, columns in read_toml(package, name).items()
    }


TABLES = read_tables(__package__, "tables.toml")


def build_columns(table: str, rows: int | IntArray, *sources: object, **values: object) -> Cells:
    """Columns of a table: each is what is given, or the attribute of its name of the first source
    with one.

    rows: their number, or which of those of the arrays. What is neither an array nor a list is the
    same in all rows.
    """
    columns = {}
    n = rows if isinstance(rows, int) else len(rows)
    for name in TABLES[table]:
        if name in values:
            value = values[name]
        else:
            value = next(getattr(s, name) for s in sources if hasattr(s, name))
        if isinstance(value, np.ndarray) and not isinstance(rows, int):
            value = value[rows]
        columns[name] = value if isinstance(value, np.ndarray | list) else [value] * n
    return columns


def to_columns(table: str, rows: TableRows) -> Cells:
    """Rows of a table as its columns."""
    return {name: [row[name] for row in rows] for name in TABLES[table]}


def to_xy_columns(place_m: FloatArray, prefix: str = "") -> Cells:
    """Columns x_m and y_m of places (n, 2)."""
    return {f"{prefix}x_m": place_m[:, 0], f"{prefix}y_m": place_m[:, 1]}

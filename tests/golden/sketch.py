"""A folder of results in few numbers, and two such sketches compared: every bit, or what holds on
every processor.

Vector units and libraries of linear algebra sum in other orders on other processors. What follows
from last digits may then be anything: ranks of near ties, steps of an optimiser until it stands
still, whom an attack names. What holds is the world: where UEs are, and what they measure. Those
are continuous functions of seeded draws (the RSRP of the strongest cell is one; which cell is the
strongest is none), and no training comes before them.
"""

import hashlib
from typing import Any

import numpy as np

from netsim.safe import describe_file_kind
from scenarios.app.rerun import read_values

WORLD = {"links.csv": ("x_m", "y_m", "rsrp_dbm"), "tracks.csv": ("time_s", "x_m", "y_m")}
"""file -> its columns that are the same on every processor but for rounding"""
TOLERANCE = 1e-3
"""share of a mean by which one of them may move: room for a row that observes past a corner on one
processor alone"""
_DIGITS = 9

Sketch = dict[str, dict[str, Any]]
"""file -> rows, and columns: name -> [digest of what is written, mean of the finite numbers if
there are any]"""


def sketch(folder, files):
    """Of those files that are there and hold anything."""
    result = {}
    for name in files:
        if describe_file_kind(folder / name):
            columns = read_values(folder / name)
            rows = max(map(len, columns.values()), default=0)
            if rows:
                result[name] = {
                    "rows": rows,
                    "columns": {key: column(values) for key, values in columns.items()},
                }
    return result


def column(values):
    """The sketch of a column."""
    texts = ["" if v is None or v != v else str(v) for v in values]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]
    try:
        numbers = np.array([float(text) for text in texts if text])
    except ValueError:
        return [digest]
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers):
        return [digest, float(f"{numbers.mean():.{_DIGITS}g}")]
    return [digest]


def differences(study, golden, result):
    """A line for each file, and each column, of which anything differs."""
    lines = [
        f"{study}: {name}: only in {_name_side(golden, name)} run"
        for name in sorted(golden.keys() ^ result.keys())
    ]
    for name in (name for name in golden if name in result):
        was = golden[name]
        current = result[name]
        if was["rows"] != current["rows"]:
            lines.append(f"{study}: {name}: had {was['rows']:,} rows, has {current['rows']:,}")
        columns = was["columns"]
        rest = current["columns"]
        for key in sorted(columns.keys() ^ rest.keys()):
            lines.append(f"{study}: {name}, column {key}: only in {_name_side(columns, key)} run")
        lines += [
            f"{study}: {name}, column {key}: {_describe_move(columns[key], rest[key])}"
            for key in columns
            if key in rest and columns[key] != rest[key]
        ]
    return lines


def compare_worlds(study, golden, result):
    """A line for each column of the world whose mean differs by more than a processor can make
    it."""
    lines = []
    for name, key in (
        (file, key) for file, keys in WORLD.items() if file in golden for key in keys
    ):
        was, current = (
            values.get(name, {"columns": {}})["columns"].get(key, []) for values in (golden, result)
        )
        same = len(was) == len(current)
        if same and len(was) > 1:
            same = abs(was[1] - current[1]) <= TOLERANCE * abs(was[1])
        if not same:
            lines.append(f"{study}: {name}, column {key}: {_describe_move(was, current)}")
    return lines


def _name_side(golden, name):
    return "the golden" if name in golden else "this"


def _describe_move(was, current):
    if len(was) != len(current):
        return f"other kinds of values: was {was}, is {current}"
    if len(was) == 1 or was[1] == current[1]:
        return "other values"
    return f"mean was {was[1]:.{_DIGITS}g}, is {current[1]:.{_DIGITS}g}"

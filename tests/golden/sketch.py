"""A folder of results in few numbers, and two such sketches compared: every bit, or what holds on
every processor.

Vector units and libraries of linear algebra sum in other orders on other processors. What follows
from last digits may then be anything: ranks of near ties, steps of an optimiser until it stands
still, whom an attack names. What holds is the world: where UEs are, and what they measure. Those
are continuous functions of seeded draws (the RSRP of the strongest cell is one; which cell is the
strongest is none), and no training comes before them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.safe import what_is
from scenarios.app.rerun import values_in

WORLD = {"links.csv": ("x_m", "y_m", "rsrp_dbm"), "tracks.csv": ("time_s", "x_m", "y_m")}
"""file -> its columns that are the same on every processor but for rounding"""
TOLERANCE = 1e-3
"""share of a mean by which one of them may move: room for a row that observes past a corner on one
processor alone"""
_DIGITS = 9

Sketch = dict[str, dict[str, Any]]
"""file -> rows, and columns: name -> [digest of what is written, mean of the finite numbers if
there are any]"""


def sketch(folder: Path, files: Sequence[str]) -> Sketch:
    """Of those files that are there and hold anything."""
    found: Sketch = {}
    for name in files:
        if what_is(folder / name):
            columns = values_in(folder / name)
            rows = max(map(len, columns.values()), default=0)
            if rows:
                found[name] = {
                    "rows": rows,
                    "columns": {key: column(values) for key, values in columns.items()},
                }
    return found


def column(values: Sequence[Any]) -> list[Any]:
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


def differences(study: str, golden: Sketch, found: Sketch) -> list[str]:
    """A line for each file, and each column, of which anything differs."""
    lines = [
        f"{study}: {name}: only in {_one(golden, name)} run"
        for name in sorted(golden.keys() ^ found.keys())
    ]
    for name in (name for name in golden if name in found):
        was = golden[name]
        now = found[name]
        if was["rows"] != now["rows"]:
            lines.append(f"{study}: {name}: had {was['rows']:,} rows, has {now['rows']:,}")
        columns = was["columns"]
        others = now["columns"]
        for key in sorted(columns.keys() ^ others.keys()):
            lines.append(f"{study}: {name}, column {key}: only in {_one(columns, key)} run")
        lines += [
            f"{study}: {name}, column {key}: {_moved(columns[key], others[key])}"
            for key in columns
            if key in others and columns[key] != others[key]
        ]
    return lines


def other_world(study: str, golden: Sketch, found: Sketch) -> list[str]:
    """A line for each column of the world whose mean differs by more than a processor can make
    it."""
    lines = []
    for name, key in (
        (file, key) for file, keys in WORLD.items() if file in golden for key in keys
    ):
        was, now = (of.get(name, {"columns": {}})["columns"].get(key, []) for of in (golden, found))
        same = len(was) == len(now) and (
            len(was) < 2 or abs(was[1] - now[1]) <= TOLERANCE * abs(was[1])
        )
        if not same:
            lines.append(f"{study}: {name}, column {key}: {_moved(was, now)}")
    return lines


def _one(golden: Mapping[str, Any], name: str) -> str:
    return "the golden" if name in golden else "this"


def _moved(was: Sequence[Any], now: Sequence[Any]) -> str:
    if len(was) != len(now):
        return f"other kinds of values: was {was}, is {now}"
    if len(was) == 1 or was[1] == now[1]:
        return "other values"
    return f"mean was {was[1]:.{_DIGITS}g}, is {now[1]:.{_DIGITS}g}"

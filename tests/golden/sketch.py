"""A folder of results in few numbers, and two such sketches compared.

What no processor may change - texts, whole numbers, which cells are empty - is compared exactly, by a digest. Other
numbers hang on the processor in their last digits: vector units and libraries of linear algebra sum in other orders. A
column of them is told by its mean, its largest magnitude, and a sum in which every row has a weight of its own, so that
rows that change places are seen; these are compared within a share of the largest magnitude.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.safe import what_is
from scenarios.app.results.same import values_in

TOLERANCE = 1e-6
"""share of the largest magnitude of a column by which its numbers may move"""
NOTHING = 1e-12
"""by how much more, whatever the column: differences of equal numbers are rounding alone"""
FLOORS = {
    r".*_m(\..*)?": 1e-5,  # positions and errors in metres: exact reconstructions miss by so little
    r".*sqrt_sw1(\..*)?": 4e-3,  # the root of that
}
"""pattern of a column or key -> the same of it"""
LOOSE = {
    r".*(evaluations|iterations)(\..*)?": 0.25,  # steps of an optimiser until it stands still hang on last digits
    r".*self_test_m(\..*)?": 1e9,  # what an attack misses of an update of its own making: rounding, magnified
    r".*cross_entropy_nats(\..*)?": 1e-4,  # of networks in single precision
}
"""pattern of a column or key -> its own share; also of whole numbers, whose sum is then compared"""
STUDIES = {
    r".*\(training\)": 1e-4,  # networks of agents are in single precision, and gradients add up
    # raw labels in the hundreds and rectified units: rounding of 1e-13 of an update grows to 1e-5 within few steps
    r"rsrp-dp/(cork|labels|santa-monica)": 1e-2,
}
"""pattern of a study -> the share of its columns that have none of their own"""
_WHOLE = re.compile(r"-?\d+")
_DIGITS = 9
_TURN = 0.6180339887498949  # the golden ratio, less 1: its multiples fill the unit interval evenly
NAMES = ("mean", "largest magnitude", "weighted sum")

Sketch = dict[str, dict[str, Any]]
"""file -> rows, and columns: name -> [digest] of texts, [digest, sum] of whole numbers, [value] of a single other one,
[digest of which cells are empty or infinite ("": none), mean, largest magnitude, weighted sum] of several
"""


def sketch(folder: Path, files: Sequence[str]) -> Sketch:
    """Of those files that are there and hold anything."""
    found: Sketch = {}
    for name in files:
        if what_is(folder / name):
            columns = values_in(folder / name)
            rows = max(map(len, columns.values()), default=0)
            if rows:
                found[name] = {"rows": rows, "columns": {key: column(values) for key, values in columns.items()}}
    return found


def column(values: Sequence[Any]) -> list[Any]:
    """The sketch of a column."""
    texts = ["" if v is None or v != v else str(v) for v in values]
    if all(_WHOLE.fullmatch(text) for text in texts if text):
        whole = [int(text) for text in texts if text]
        return [_digest(texts), sum(whole)] if whole else [_digest(texts)]
    try:
        numbers = np.array([float(text) for text in texts if text])
    except ValueError:
        return [_digest(texts)]
    where = np.array([k for k, text in enumerate(texts) if text])
    infinite = ~np.isfinite(numbers)
    exact = [text if text and not np.isfinite(float(text)) else "x" * bool(text) for text in texts]
    numbers, where = numbers[~infinite], where[~infinite]
    weighted = ((where * _TURN % 1.0) * 2 - 1) @ numbers
    told = (numbers.mean(), np.abs(numbers).max(), weighted / max(len(numbers), 1)) if len(numbers) else (0, 0, 0)
    short = [float(f"{x:.{_DIGITS}g}") for x in told]
    if exact == ["x"]:
        return short[:1]
    return ["" if set(exact) == {"x"} else _digest(exact), *short]


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]


def differences(study: str, golden: Sketch, found: Sketch) -> list[str]:
    """A line for each file, and each column, that moved."""
    usual = next((of for pattern, of in STUDIES.items() if re.fullmatch(pattern, study)), TOLERANCE)
    lines = [f"{study}: {name}: only in {_one(golden, name)} run" for name in sorted(golden.keys() ^ found.keys())]
    for name in (name for name in golden if name in found):
        was, now = golden[name], found[name]
        if was["rows"] != now["rows"]:
            lines.append(f"{study}: {name}: had {was['rows']:,} rows, has {now['rows']:,}")
        columns, others = was["columns"], now["columns"]
        for key in sorted(columns.keys() ^ others.keys()):
            lines.append(f"{study}: {name}, column {key}: only in {_one(columns, key)} run")
        for key in (key for key in columns if key in others):
            if said := _moved(key, columns[key], others[key], usual):
                lines.append(f"{study}: {name}, column {key}: {said}")
    return lines


def _one(golden: Mapping[str, Any], name: str) -> str:
    return "the golden" if name in golden else "this"


def _four(of: Sequence[Any], loose: bool) -> Sequence[Any]:
    """The sketch of a single number as that of a column; so is that of whole numbers that are loose, or all zero."""
    alone = of[0] if len(of) == 1 and isinstance(of[0], float) else None
    if len(of) == 2 and (loose or of[1] == 0):
        alone = of[1]
    return of if alone is None else ["", alone, abs(alone), 0.0]


def _moved(key: str, was: Sequence[Any], now: Sequence[Any], usual: float) -> str:
    """How a column moved; empty: it did not. usual : the share of columns that have none of their own."""
    share = next((of for pattern, of in LOOSE.items() if re.fullmatch(pattern, key)), None)
    floor = next((of for pattern, of in FLOORS.items() if re.fullmatch(pattern, key)), NOTHING)
    if share is not None or len(was) != len(now) or (len(was) == 1 and isinstance(was[0], float)):
        was, now = _four(was, share is not None), _four(now, share is not None)
    if len(was) != len(now):
        return f"other kinds of values: was {was}, is {now}"
    if len(was) < len(NAMES):
        sums = f": the sum was {was[1]}, is {now[1]}" if len(was) == 2 and was[1] != now[1] else ""
        return f"other values{sums}" if list(was) != list(now) else ""
    if was[0] != now[0]:
        return "other cells are empty or infinite"
    most = max(was[2], now[2])
    allowed = (usual if share is None else share) * most + floor
    moved = [abs(a - b) for a, b in zip(was[1:], now[1:], strict=True)]
    worst = int(np.argmax(moved))
    if moved[worst] <= allowed:
        return ""
    a, b = was[1 + worst], now[1 + worst]
    return f"{NAMES[worst]} was {a:.9g}, is {b:.9g}: by {moved[worst]:.2g}, at most {allowed:.2g} is rounding"

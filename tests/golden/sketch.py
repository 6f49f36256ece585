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
_WHOLE = re.compile(r"-?\d+")
_DIGITS = 9
_TURN = 0.6180339887498949  # the golden ratio, less 1: its multiples fill the unit interval evenly
NAMES = ("mean", "largest magnitude", "weighted sum")

Sketch = dict[str, dict[str, Any]]
"""file -> rows, and columns: name -> [digest of what is exact, mean, largest, weighted], or the digest and a sum"""


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
    return [_digest(exact), *(float(f"{x:.{_DIGITS}g}") for x in told)]


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]


def differences(study: str, golden: Sketch, found: Sketch, tolerances: Mapping[str, float] | None = None) -> list[str]:
    """A line for each file, and each column, that moved. tolerances : pattern of `file:column` -> its own."""
    lines = [
        f"{study}: {name}: only in {'the golden' if name in golden else 'this'} run"
        for name in golden.keys() ^ found.keys()
    ]
    for name in (name for name in golden if name in found):
        was, now = golden[name], found[name]
        if was["rows"] != now["rows"]:
            lines.append(f"{study}: {name}: had {was['rows']:,} rows, has {now['rows']:,}")
        for key in sorted(was["columns"].keys() ^ now["columns"].keys()):
            lines.append(
                f"{study}: {name}, column {key}: only in {'the golden' if key in was['columns'] else 'this'} run"
            )
        for key in (key for key in was["columns"] if key in now["columns"]):
            allowed = _allowed(f"{name}:{key}", tolerances or {})
            if said := _moved(was["columns"][key], now["columns"][key], allowed):
                lines.append(f"{study}: {name}, column {key}: {said}")
    return lines


def _allowed(place: str, tolerances: Mapping[str, float]) -> float:
    return next((of for pattern, of in tolerances.items() if re.fullmatch(pattern, place)), TOLERANCE)


def _moved(was: Sequence[Any], now: Sequence[Any], allowed: float) -> str:
    """How a column moved; empty: it did not."""
    if allowed == np.inf:
        return ""
    if len(was) != len(now):
        return f"other values: was {was}, is {now}"
    if len(was) < 4:
        sums = f": the sum was {was[1]}, is {now[1]}" if len(was) == 2 and was[1] != now[1] else ""
        return f"other values{sums}" if list(was) != list(now) else ""
    most = max(was[2], now[2])
    moved = [abs(a - b) / most if most else 0.0 for a, b in zip(was[1:], now[1:], strict=True)]
    worst = int(np.argmax(moved))
    if moved[worst] > allowed:
        of, a, b = NAMES[worst], was[1 + worst], now[1 + worst]
        return f"{of} was {a:.9g}, is {b:.9g}: by {moved[worst]:.2g} of the largest magnitude, at most {allowed:g}"
    return "other cells are empty or infinite" if was[0] != now[0] else ""

"""Text to numbers, times and codes; what is none is told by its place in the column, not by the file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt

from netsim.units import FloatArray

Codes = npt.NDArray[np.int32]
LATEST_EPOCH_S = 4_102_444_800.0  # 2100-01-01: beyond it a number is no epoch time but another format
MILLISECONDS_FROM = 1e11  # epoch seconds reach this in the year 5138, epoch milliseconds did in 1973
RELATIVE_BELOW_S = 1e8  # epoch seconds passed this in March 1973, a simulation of three years never does
MISSING = frozenset(("", "nan", "none", "null", "na", "n/a", "-"))
TIME_REMEDY = "write epoch seconds, epoch milliseconds, or ISO 8601 with a zone such as 2021-04-21T14:19:53Z"


class Refused(ValueError):
    """The value at `row` of a column cannot be used."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row = row


def number(text: str) -> float:
    """A float, NaN if it is none (Python alone would read 1_000 as a number)."""
    try:
        return float("nan") if "_" in text else float(text)
    except ValueError:
        return float("nan")


def numbers(text: Sequence[str]) -> FloatArray:
    """Floats (n,), NaN where there is no number."""
    if "_" not in "".join(text):
        try:
            return np.array([float(value or "nan") for value in text], dtype=np.float64)
        except ValueError:
            pass
    return np.array([number(value) for value in text], dtype=np.float64)


def bounded(text: Sequence[str], low: float, high: float) -> FloatArray:
    """Floats (n,) within bounds; raises `Refused` at the first that is not, be it text or NaN."""
    value = numbers(text)
    bad = ~((value >= low) & (value <= high))
    if bad.any():
        row = int(bad.argmax())
        problem = f"{shown(text[row])} is not a number in [{low:g}, {high:g}]"
        raise Refused(row, f"{problem}; correct or remove the line")
    return value


class Times:
    """Epoch seconds of a column that comes in pieces: one form for all of it, that of its first value."""

    def __init__(self) -> None:
        self._scale: float | None = None  # 0 for ISO 8601
        self._first_line = 0

    def read(self, text: Sequence[str], line: int) -> FloatArray:
        """Times (n,) since 1970-01-01 UTC; `line` is that of the first. Raises `Refused`."""
        if self._scale is None:
            first = number(text[0])
            self._scale = 0.0 if np.isnan(first) else 1000.0 if first > MILLISECONDS_FROM else 1.0
            self._first_line = line
        return self._numeric(text) if self._scale else _iso_times(text)

    def _numeric(self, text: Sequence[str]) -> FloatArray:
        value = numbers(text) / (self._scale or 1.0)
        bad = ~((value >= 0.0) & (value <= LATEST_EPOCH_S))
        if bad.any():
            row = int(bad.argmax())
            unit = "milliseconds" if self._scale == 1000.0 else "seconds"
            problem = f"{shown(text[row])} is not a time between 1970 and 2100 in epoch {unit}, as line"
            raise Refused(row, f"{problem} {self._first_line} is taken to be; {TIME_REMEDY}")
        return value


def _iso_times(text: Sequence[str]) -> FloatArray:
    known: dict[str, float] = {}
    for row, value in enumerate(text):
        if value in known:
            continue
        try:
            if not np.isnan(number(value)):
                raise ValueError(f"{shown(value)} is a number among ISO 8601 times")
            known[value] = epoch_s(value)
        except ValueError as error:
            # fromisoformat quotes the value itself, at any length
            problem = str(error) if "isoformat" not in str(error) else f"{shown(value)} is not a time"
            raise Refused(row, f"{problem}; {TIME_REMEDY}") from error
    return np.array([known[value] for value in text], dtype=np.float64)


def epoch_s(text: str) -> float:
    """Seconds since 1970-01-01 UTC of one time, in any form that a file may use; ValueError if none."""
    value = number(text)
    if np.isnan(value):
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            raise ValueError(f"{shown(text)} has no time zone")
        value = moment.timestamp()
    elif value > MILLISECONDS_FROM:
        value /= 1000.0
    if not 0.0 <= value <= LATEST_EPOCH_S:
        raise ValueError(f"{shown(text)} is not between 1970 and 2100")
    return value


class Names:
    """Names of a column that comes in pieces, numbered in order of first appearance."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}

    def read(self, text: Sequence[str]) -> Codes:
        """The number of each name (n,)."""
        code = self._code
        return np.array([code.setdefault(name, len(code)) for name in text], dtype=np.int32)

    def all(self) -> tuple[str, ...]:
        return tuple(self._code)


def without_missing(names: tuple[str, ...], code: Codes) -> tuple[tuple[str, ...], Codes]:
    """The names that say something, and each row's code among them (n,), -1 where it says nothing."""
    given = np.array([name.strip().lower() not in MISSING for name in names])
    renumbered = np.where(given, np.cumsum(given) - 1, -1).astype(np.int32)
    return tuple(name for name, kept in zip(names, given, strict=True) if kept), renumbered[code]


def shown(value: str, quote: bool = True) -> str:
    """A value in a message: one line, at most 40 characters."""
    short = value if len(value) <= 40 else value[:37] + "..."
    return repr(short) if quote else " ".join(short.split())


def listed(names: Sequence[str]) -> str:
    """Names in a message: 30 at most."""
    text = ", ".join(shown(name, quote=False) for name in names[:30])
    return text + (f" and {len(names) - 30} more" if len(names) > 30 else "")

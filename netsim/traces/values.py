"""Text to numbers, times and codes; what is none is told by its place in the column, not by the file."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from datetime import datetime, tzinfo

import numpy as np
import numpy.typing as npt

from netsim.units import FloatArray

Codes = npt.NDArray[np.int32]
LATEST_EPOCH_S = 4_102_444_800.0  # 2100-01-01: beyond it a number is no epoch time but another format
MILLISECONDS_FROM = 1e11  # epoch seconds reach this in the year 5138, epoch milliseconds did in 1973
RELATIVE_BELOW_S = 1e8  # epoch seconds passed this in March 1973, a simulation of three years never does
MISSING = frozenset(("", "nan", "none", "null", "na", "n/a", "-"))
TIME_REMEDY = "write epoch seconds, epoch milliseconds, or ISO 8601 with a zone such as 2021-04-21T14:19:53Z"
ZONE_REMEDY = "name the zone in which it was written (--timezone Europe/Berlin), or write one such as"
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


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


def missing(text: str) -> bool:
    """Whether a cell says that there is no value."""
    return text.strip().lower() in MISSING


def with_points(text: list[str], delimiter: str) -> list[str]:
    """Numbers with a decimal point for those with a decimal comma; the rest as it is.

    In a file whose columns are separated by commas 12,345 may mean thousands, and stays what cannot be read.
    """
    if "," not in "".join(text):
        return text
    return [_with_point(value.strip(), delimiter) for value in text]


def _with_point(value: str, delimiter: str) -> str:
    if not _DECIMAL_COMMA.fullmatch(value) or (delimiter == "," and _THOUSANDS.fullmatch(value)):
        return value
    return value.replace(",", ".")


def bounded(text: Sequence[str], low: float, high: float) -> FloatArray:
    """Floats (n,) within bounds; raises `Refused` at the first that is not, be it text or NaN."""
    value = bounded_or_missing(text, low, high)
    if (absent := np.isnan(value)).any():
        raise _out_of_bounds(text, int(absent.argmax()), low, high)
    return value


def bounded_or_missing(text: Sequence[str], low: float, high: float) -> FloatArray:
    """Floats (n,) within bounds, NaN where a cell says that there is none; raises `Refused` at the first other."""
    value = numbers(text)
    for row in np.flatnonzero(~((value >= low) & (value <= high))).tolist():
        if not missing(text[row]):
            raise _out_of_bounds(text, row, low, high)
        value[row] = np.nan
    return value


def _out_of_bounds(text: Sequence[str], row: int, low: float, high: float) -> Refused:
    problem = f"{shown(text[row])} is not a number in [{low:g}, {high:g}]"
    return Refused(row, f"{problem}; correct or remove the line")


class Times:
    """Epoch seconds of a column that comes in pieces: one form for all of it, that of its first value.

    zone : where times of day without a zone were written; without it they are refused.
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self.zone = zone
        self._scale: float | None = None  # 0 for ISO 8601
        self._first_line = 0
        self._n_rows = 0
        self._twice_row, self._later_s = array("q"), array("d")

    @property
    def twice(self) -> dict[int, float]:
        """Rows whose time of day came twice, as clocks went back: taken for the former, and how much later the other
        is.
        """
        return dict(zip(self._twice_row, self._later_s, strict=True))

    def read(self, text: Sequence[str], line: int) -> FloatArray:
        """Times (n,) since 1970-01-01 UTC; `line` is that of the first. Raises `Refused`."""
        if self._scale is None:
            first = number(text[0])
            self._scale = 0.0 if np.isnan(first) else 1000.0 if first > MILLISECONDS_FROM else 1.0
            self._first_line = line
        time_s = self._numeric(text) if self._scale else self._iso(text)
        self._n_rows += len(text)
        return time_s

    def _numeric(self, text: Sequence[str]) -> FloatArray:
        value = numbers(text) / (self._scale or 1.0)
        bad = ~((value >= 0.0) & (value <= LATEST_EPOCH_S))
        if bad.any():
            row = int(bad.argmax())
            unit = "milliseconds" if self._scale == 1000.0 else "seconds"
            problem = f"{shown(text[row])} is not a time between 1970 and 2100 in epoch {unit}, as line"
            raise Refused(row, f"{problem} {self._first_line} is taken to be; {TIME_REMEDY}")
        return value

    def _iso(self, text: Sequence[str]) -> FloatArray:
        known: dict[str, tuple[float, float]] = {}
        for row, value in enumerate(text):
            if value not in known:
                try:
                    if not np.isnan(number(value)):
                        raise ValueError(f"{shown(value)} is a number among ISO 8601 times; {TIME_REMEDY}")
                    known[value] = _moment_s(value, self.zone)
                except ValueError as error:
                    raise Refused(row, str(error)) from error
            if known[value][1]:
                self._twice_row.append(self._n_rows + row)
                self._later_s.append(known[value][1])
        return np.array([known[value][0] for value in text], dtype=np.float64)


def epoch_s(text: str, zone: tzinfo | None = None) -> float:
    """Seconds since 1970-01-01 UTC of one time, in any form that a file may use; ValueError if none.

    zone : where a time of day without a zone was written; one that comes twice is the former.
    """
    value = number(text)
    if np.isnan(value):
        return _moment_s(text, zone)[0]
    return _within(value / 1000.0 if value > MILLISECONDS_FROM else value, text)


def _moment_s(text: str, zone: tzinfo | None) -> tuple[float, float]:
    """Epoch seconds of an ISO 8601 time, and how much later it came once more, 0 for never."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:  # it quotes the text itself, at any length
        raise ValueError(f"{shown(text)} is not a time; {TIME_REMEDY}") from None
    if moment.tzinfo is not None:
        return _within(moment.timestamp(), text), 0.0
    if zone is None:
        raise ValueError(f"{shown(text)} has no time zone; {ZONE_REMEDY} 2021-04-21T14:19:53Z")
    former_s = moment.replace(tzinfo=zone).timestamp()
    later_s = moment.replace(tzinfo=zone, fold=1).timestamp() - former_s
    if later_s < 0:  # of an hour that clocks skip, Python takes the offset before, then the one after
        raise ValueError(f"{shown(text)} never was in {zone}, where clocks skipped it; was it written in that zone?")
    return _within(former_s, text), later_s


def _within(time_s: float, text: str) -> float:
    if not 0.0 <= time_s <= LATEST_EPOCH_S:
        raise ValueError(f"{shown(text)} is not between 1970 and 2100; {TIME_REMEDY}")
    return time_s


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
    given = np.array([not missing(name) for name in names])
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

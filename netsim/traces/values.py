"""Text to numbers and codes. Errors give the row of the column; callers add the file."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from netsim.units import FloatArray

Codes = npt.NDArray[np.int32]
MISSING = frozenset(("", "nan", "none", "null", "na", "n/a", "#n/a", "<na>", "-", "--", "\\n"))
_WHOLE = re.compile(r"(-?\d+)\.0+")  # a number of a name, as tables with gaps write it
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

    In a file whose columns are separated by commas 12,345 may mean thousands, and is left unreadable.
    """
    if "," not in "".join(text):
        return text
    return [_with_point(value.strip(), delimiter) for value in text]


def _with_point(value: str, delimiter: str) -> str:
    if not _DECIMAL_COMMA.fullmatch(value) or (delimiter == "," and _THOUSANDS.fullmatch(value)):
        return value
    return value.replace(",", ".")


def bounded(text: Sequence[str], low: float, high: float, required: bool = False) -> FloatArray:
    """Floats (n,) within bounds, NaN where a cell says that there is none, which `required` forbids.

    Raises `Refused` at the first other value.
    """
    value = numbers(text)
    for row in np.flatnonzero(~((value >= low) & (value <= high))).tolist():
        if required or not missing(text[row]):
            problem = f"{shown(text[row])} is not a number in [{low:g}, {high:g}]"
            raise Refused(row, f"{problem}; correct or remove the line")
        value[row] = np.nan
    return value


class Names:
    """Names of a column that comes in pieces, without blanks around them and 7 for 7.0, numbered in order of first
    appearance.
    """

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._as_written: dict[str, int] = {}

    def read(self, text: Sequence[str]) -> Codes:
        """The number of each name (n,)."""
        code = self._as_written
        if not code.keys() >= set(text):
            for name in text:
                if name not in code:
                    plain = _WHOLE.sub(r"\1", name.strip()) if name[-1:] in "0 " else name.strip()
                    code[name] = self._code.setdefault(plain, len(self._code))
        return np.fromiter(map(code.__getitem__, text), dtype=np.int32, count=len(text))

    def all(self) -> tuple[str, ...]:
        return tuple(self._code)

    @property
    def n_joined(self) -> int:
        """How many names differ from others by blanks or .0 alone."""
        return len(self._as_written) - len(self._code)


def without_missing(names: Sequence[str], code: Codes, more: Sequence[str] = ()) -> tuple[tuple[str, ...], Codes]:
    """The names that are not missing nor in `more`, and each row's code among them (n,), -1 for the others."""
    given = np.array([not missing(name) and name not in more for name in names], dtype=np.bool_)
    if given.all():
        return tuple(names), code
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


def one_line(name: str) -> str:
    """A name without line breaks and runs of blanks."""
    return " ".join(name.split())

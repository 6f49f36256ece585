"""Text to numbers, codes and times. Errors give the row of the column; callers add the file."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from math import nan
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.errors import cut_text, format_count
from netsim.notice import Notice, notice
from netsim.units import BoolArray, FloatArray, FloatPair, IntArray, Texts

Codes = npt.NDArray[np.int32]
Column = npt.NDArray[Any]
MISSING = frozenset(
    ("", "nan", "none", "null", "na", "n/a", "#n/a", "<na>", "-", "--", "\\n", "?", "unknown")
)
_LATITUDE = 90.0  # largest, degrees
_LONGITUDE = 180.0  # largest, degrees
_NO_IDS = (
    "-1",
    "2147483647",
    "4294967295",
    "268435455",
    "68719476735",
    "9223372036854775807",
)  # bits set, and Android's
EASTING_M = 6.1e7  # largest of projected systems, some of which begin with the number of a zone
NORTHING_M = 2.1e7  # largest
_WHOLE = re.compile(r"(-?\d+)\.0+")  # a number of a name, as tables with gaps write it
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]+")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


class Refused(ValueError):
    """The value at `row` of a column cannot be used."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row = row


def to_number(text: str) -> float:
    """A float, NaN if it is none (Python alone would read 1_000 as a number)."""
    try:
        if "_" in text:
            return nan
        return float(text)
    except ValueError:
        return nan


def to_numbers(text: Sequence[str]) -> FloatArray:
    """Floats (n,), NaN where there is no number."""
    if "_" not in "".join(text):
        try:
            return np.array([float(value or "nan") for value in text])
        except ValueError:
            pass
    return np.array([to_number(value) for value in text])


def is_missing(text: str) -> bool:
    """Whether a cell says that there is no value."""
    return text.strip().lower() in MISSING


_OF_DEGREES = """m km ft rad radian radians gon mil mils arcmin arcsec microdeg microdegrees udeg
mdeg e5 e6 e7 semicircle semicircles gcj gcj02 bd09 ed50 nad27 osgb36 tokyo s south w west"""
_OTHER_UNITS = {
    "lat": _OF_DEGREES,
    "lon": _OF_DEGREES,
    "deg": _OF_DEGREES,
    "m": """km cm mm dm ft feet foot usft inch inches yd yard yards mi mile miles nmi nm px
    pixel pixels hdop pdop deg degree degrees rad radian radians e5 e6 e7
    semicircle semicircles amsl asl msl""",
    "dbm": "dbw w watt watts mw milliwatt milliwatts kw kilowatt dbuv dbmv asu eirp erp",
}
"""words for units, of latitudes and longitudes datums and sides, of heights and powers what they
are above and of, that are not those of our columns, by ends of their names"""
_UNIT_WORD = re.compile(r"[A-Z]?[a-zµ]+\d*|[A-Z]+(?![a-z])\d*")


def find_other_unit(ours: str, header: str) -> str:
    """The unit that a header names, as in mast_ft, heightFt, lat [rad] or Powerdbw, where that of
    our column is another: degrees on WGS84 of lat and lon, and what other names end with; empty
    where it names none.
    """
    variants = f"{header} {header.lower()} {header[-3:]}"
    words = map(str.lower, _UNIT_WORD.findall(variants))
    other_units = _OTHER_UNITS.get(ours.rpartition("_")[2], "").split()
    return min({*other_units}.intersection(words), default="")


def replace_commas(text: list[str], delimiter: str) -> list[str]:
    """Numbers with a decimal point for those with a decimal comma; the rest as it is.

    In a file whose columns are separated by commas 12,345 may mean thousands, and is left
    unreadable.
    """
    if "," not in "".join(text):
        return text
    return [_replace_comma(value.strip(), delimiter) for value in text]


def _replace_comma(value: str, delimiter: str) -> str:
    if not _DECIMAL_COMMA.fullmatch(value) or (delimiter == "," and _THOUSANDS.fullmatch(value)):
        return value
    return value.replace(",", ".")


def suggest_remedy(text: object, high: float) -> str:
    """What to do about a number out of bounds, of a latitude or a longitude if `high` is the
    largest of these.
    """
    size = abs(to_numbers([str(text)])[0])
    if high == _LATITUDE and _LATITUDE < size <= _LONGITUDE:
        return (
            "are lat and lon swapped (--columns lat=HEADER,lon=HEADER)? Else correct or "
            "remove the line"
        )
    if high in (_LATITUDE, _LONGITUDE) and size > _LONGITUDE:
        return (
            "are these degrees times 1e6 or 1e7 (E7), semicircles, degrees and minutes "
            "(ddmm.mmmm), or metres (--columns x_m=HEADER,y_m=HEADER)? Else correct or remove the "
            "line"
        )
    if high in (EASTING_M, NORTHING_M):
        return (
            "are these degrees times 1e7 (E7), or semicircles (to be converted)? Else "
            "correct or remove the line"
        )
    return "correct or remove the line"


def parse_bounded(
    text: Sequence[str], low: float, high: float, required: bool = False
) -> FloatArray:
    """Floats (n,) within bounds, NaN where a cell says that there is none, which `required`
    forbids.

    Raises `Refused` at the first other value.
    """
    value = to_numbers(text)
    for row in np.flatnonzero(~((value >= low) & (value <= high))).tolist():
        if required or not is_missing(text[row]):
            problem = f"{quote_text(text[row])} is not a number in [{low:g}, {high:g}]"
            raise Refused(row, f"{problem}; {suggest_remedy(text[row], high)}")
        value[row] = nan
    return value


def _strip_point(name: str) -> str:
    """A name without blanks around it, and 7 for 7.0."""
    whole = _WHOLE.fullmatch(name.strip())
    if whole:
        return whole[1]
    return name.strip()


def normalise_id(text: str) -> str:
    """The identity of a cell as others write it: in decimal for 0x1F, without blanks between
    digits, 7 for 7.0; empty where it is unknown.
    """
    bare = "".join(text.split())
    if _HEXADECIMAL.fullmatch(bare):
        bare = str(int(bare, 16))
    elif not bare.isdecimal():
        bare = _strip_point(text)
    if is_missing(bare) or bare in _NO_IDS:
        return ""
    return bare


class NameCodes:
    """Names of a column that comes in pieces, without blanks around them and 7 for 7.0, or as
    `plain` writes them; numbered in order of first appearance.
    """

    def __init__(self, plain: Callable[[str], str] = _strip_point) -> None:
        self._plain = plain
        self._code: dict[str, int] = {}
        self._as_written: dict[str, int] = {}

    def number_names(self, text: Sequence[str]) -> Codes:
        """The number of each name (n,)."""
        code = self._as_written
        if not code.keys() >= set(text):
            for name in text:
                if name not in code:
                    code[name] = self._code.setdefault(self._plain(name), len(self._code))
        return np.fromiter(map(code.__getitem__, text), dtype=np.int32, count=len(text))

    def list_names(self) -> Texts:
        return tuple(self._code)

    @property
    def n_joined(self) -> int:
        """How many names differ from others by blanks or .0 alone."""
        return len(self._as_written) - len(self._code)


def renumber_names(
    names: Sequence[str], code: Column, is_given: Sequence[bool] | BoolArray
) -> tuple[Texts, IntArray]:
    """The names that are given, in the old order, and each row's code among them (n,), -1 for the
    others.
    """
    place = np.where(is_given, np.cumsum(is_given) - 1, -1)
    return tuple(name for name, kept in zip(names, is_given, strict=True) if kept), place[code]


def quote_text(value: str, quote: bool = True) -> str:
    """A value in a message: one line, at most 40 characters."""
    short = cut_text(value, 40)
    if quote:
        return repr(short)
    return " ".join(short.split())


def join_texts(names: Sequence[str]) -> str:
    """Names in a message: 30 at most."""
    text = ", ".join(quote_text(name, quote=False) for name in names[:30])
    return text + (f" and {len(names) - 30} more" if len(names) > 30 else "")


def squeeze_blanks(name: str) -> str:
    """A name without line breaks and runs of blanks."""
    return " ".join(name.split())


# 2100-01-01: beyond it a number is no epoch time but another format
LATEST_EPOCH_S = 4_102_444_800.0
# epoch seconds passed this in March 1973, a simulation of three years never does
RELATIVE_BELOW_S = 1e8
TIME_REMEDY = (
    "write epoch seconds, epoch milliseconds, or ISO 8601 with a zone such as 2021-04-21T14:19:53Z"
)
ZONE_REMEDY = (
    "name the zone in which it was written (--timezone Europe/Berlin), or write one such as"
)
ORDER_REMEDY = "say which number is the day: --dates dmy, or --dates mdy (a scenario: dates: dmy)"
BOTH_REMEDY = (
    "name the columns of both, such as --columns time_s=DATE+TIME, or write 2021-04-21T14:19:53Z"
)
DATE_REMEDY = "write ISO 8601 such as 2021-04-21T14:19:53Z, or seconds from another beginning"

_PER_S = {
    "seconds": 1.0,
    "milliseconds": 1e3,
    "microseconds": 1e6,
    "nanoseconds": 1e9,
    "minutes": 1 / 60,
    "hours": 1 / 3600,
    "days": 1 / 86_400,
}
_SHORT = {
    "seconds": "s sec secs second",
    "milliseconds": "ms msec msecs millis millisecond",
    "microseconds": "us µs μs usec micros microsecond",
    "nanoseconds": "ns nsec nanos nanosecond",
    "minutes": "min mins minute",
    "hours": "h hr hrs hour",
    "days": "d day",
}
_UNITS = {short: unit for unit, shorts in _SHORT.items() for short in (unit, *shorts.split())}
_WORD = re.compile(r"[A-Z]?[a-zµμ]+|[A-Z]+(?![a-z])")
_DAY = r"(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"
_CLOCK = r"([01]\d|2[0-3])([0-5]\d([0-5]\d(\d{3})?)?)?"
_COMPACT = re.compile(rf"(19[7-9]\d|20\d\d){_DAY}({_CLOCK})?(\.0*)?")
_SHORT_COMPACT = re.compile(rf"\d\d{_DAY}{_CLOCK}(\.0*)?")  # with two digits of the year
_TO_THE_SECOND = 14  # digits of a compact date that can mean nothing else; 17 with milliseconds
# characters of a date without a time of day, 2024-02-28 or 2024-W09-3, or of a time without a date
_A_HALF = 10
_AFTER_NOW_S = 2e9  # 2033
_SLASHES = re.compile(r"\d{4}[/.]\d\d[/.]\d\d[ _T]\d\d[:.]\d\d")
# 13/04/2021 14:19:53 and the like, up to the time of day
_OF_A_LOCALE = re.compile(r"\s*(\d\d?)([/.-])(\d\d?)\2(\d{4})[ ,T_]+(?=\d)")
_ORDERS = {"dmy": r"\4-\3-\1T", "mdy": r"\4-\1-\3T"}
# a number above 12 is a day; of dates with points the day comes first in all locales (CLDR)
_SAYS_ORDER = re.compile(
    r"\s*(?:(?P<dmy>(?:1[3-9]|[23]\d)[/-]|\d\d?\.\d\d?\.)|(?P<mdy>\d\d?[/-](?:1[3-9]|[23]\d)[/-]))"
)
_ONE_DIGIT = re.compile(r"(?<!\d)(\d)(?=[/:])")
_UTC = re.compile(r"\s*(UTC|GMT|Z)$")
_OF_CHECKINS = "%a %b %d %H:%M:%S %z %Y"  # Tue Apr 03 18:00:09 +0000 2012
_SERIAL_DAYS = (
    25_569.0,
    73_050.0,
)  # of 1970 and 2100 in spreadsheets, which count days since 1899-12-30
_SERIAL_DECIMALS = 4  # of a day: 9 s
_SERIAL_STEP = 0.05  # more than an hour in days; clocks in seconds seldom tick as fast


def parse_header_unit(header: str) -> str | None:
    """The unit that a header names, as in time_ms, timestampMs or t [s]; None if it names none, or
    several.
    """
    units = {_UNITS[word.lower()] for word in _WORD.findall(header) if word.lower() in _UNITS}
    if len(units) == 1:
        return units.pop()
    return None


class Times:
    """Epoch seconds of a column that comes in pieces: one form for all of it, that of its first
    value.

    zone : where times of day without a zone were written; without it they are refused.
    dates : order of dates in numbers, dmy or mdy; auto: as the first with a number above 12 says.
    header : of the column; the unit that it names decides what a number counts.
    notices : how numbers were read.
    """

    def __init__(
        self, zone: tzinfo | None = None, header: str = "time_s", dates: str = "auto"
    ) -> None:
        self.zone = zone
        self._dates = dates
        self.notices: tuple[Notice, ...] = ()
        self._header = header
        self._unit: str | None = None  # "" for texts
        self._first_line = 0
        self._n_rows = 0
        # row of an hour that came twice -> how much later it was, if the second
        self._later_s: dict[int, float] = {}

    def read_times(self, text: Sequence[str], line: int) -> FloatArray:
        """Times (n,) since 1970-01-01 UTC; `line` is that of the first. Raises `Refused`."""
        if self._unit is None:
            try:
                self._unit, self.notices = _guess_unit(text, self._header)
            except ValueError as error:
                raise Refused(0, str(error)) from error
            self._first_line = line
        time_s = self._read_numbers(text, self._unit) if self._unit else self._read_texts(text)
        self._n_rows += len(text)
        return time_s

    def settle_passes(self, time_s: FloatArray, user: Column) -> FloatArray:
        """All times (n,) that were read, of `user` (n,); those of day that came twice are settled
        as `assign_passes` does.
        """
        if not self._later_s:
            return time_s
        time_s, n_second = assign_passes(time_s, user, self._later_s)
        rows = format_count(len(self._later_s), "row")
        self.notices += (notice("trace-hour-twice", rows=rows, zone=self.zone, number=n_second),)
        return time_s

    def _read_numbers(self, text: Sequence[str], unit: str) -> FloatArray:
        value = to_numbers(text) / _PER_S[unit]
        bad = ~((value >= 0.0) & (value <= LATEST_EPOCH_S))
        if bad.any():
            row = int(bad.argmax())
            problem = (
                f"{quote_text(text[row])} is not a time between 1970 and 2100 in epoch {unit}, "
                f"as line"
            )
            raise Refused(row, f"{problem} {self._first_line} is taken to be; {TIME_REMEDY}")
        return value

    def _read_texts(self, text: Sequence[str]) -> FloatArray:
        time_of = {}
        later_s = {}
        says = next(filter(None, map(_SAYS_ORDER.match, text)), None)
        if says and self._dates == "auto":
            self._dates = says.lastgroup or "auto"
        for value in dict.fromkeys(text):
            try:
                if not (np.isnan(to_number(value)) or _count_date_digits(value) >= _TO_THE_SECOND):
                    raise ValueError(
                        f"{quote_text(value)} is a number among ISO 8601 times; {TIME_REMEDY}"
                    )
                if len(value.strip()) <= _A_HALF and value[:1].isdigit():
                    raise ValueError(
                        f"{quote_text(value)} is a date or a time of day alone; {BOTH_REMEDY}"
                    )
                time_of[value], later_s[value] = _parse_moment_s(value, self.zone, self._dates)
            except ValueError as error:
                raise Refused(list(text).index(value), str(error)) from error
        if any(later_s.values()):
            self._later_s |= {
                self._n_rows + row: s for row, value in enumerate(text) if (s := later_s[value])
            }
        return np.array([time_of[value] for value in text])


def parse_epoch_s(text: str, zone: tzinfo | None = None) -> float:
    """Seconds since 1970-01-01 UTC of one time, in any form that a file may use; ValueError if
    none, or if two.

    zone : where a time of day without a zone was written; one that comes twice is the former.
    """
    unit, _ = _guess_unit([text], "")
    if unit:
        return _check_epoch(to_number(text) / _PER_S[unit], text)
    return _parse_moment_s(text, zone)[0]


def assign_passes(
    time_s: FloatArray, user: Column, later_s: Mapping[int, float]
) -> tuple[FloatArray, int]:
    """Times of day that came twice, as clocks went back: which rows are of the second pass.

    time_s (n,), user (n,) : rows in the order of the file, those that came twice at the former;
    later_s : row -> how much later it was if it is of the second pass. Returns the times, and how
    many rows are of the second.

    In such an hour a user's rows are of the first pass until time would run backwards, and of the
    second from there.
    """
    settled_s = time_s.copy()
    n_second = 0
    # user -> the time of its latest row in such an hour, and its pass
    latest: dict[int, tuple[float, bool]] = {}
    for row, shift_s in sorted(later_s.items()):
        at_s = time_s[row]
        user_code = user[row]
        before_s, second = latest.get(user_code, (at_s, False))
        second = abs(at_s - before_s) <= 86_400.0 and (second or at_s < before_s)
        latest[user_code] = at_s, second
        settled_s[row] += shift_s * second
        n_second += second
    return settled_s, n_second


def _guess_unit(text: Sequence[str], header: str) -> tuple[str, tuple[Notice, ...]]:
    """The unit of a column that begins so, "" for dates, and notices on it; ValueError if it is
    ambiguous.
    """
    first = text[0]
    value = to_number(first)
    unit = parse_header_unit(header)
    if np.isnan(value):
        return "", ()
    if unit == "days" and _SERIAL_DAYS[0] <= value < _SERIAL_DAYS[1]:
        raise ValueError(
            f"{quote_text(first)} could count days since 1970, "
            f"or be {_format_serial(value)}; {DATE_REMEDY}"
        )
    if unit not in (None, "seconds"):
        return unit, ()
    if _count_date_digits(first) >= _TO_THE_SECOND:
        return "", ()
    if date := _describe_date(text, value, header):
        raise ValueError(f"{quote_text(first)} could count seconds, or be {date}; {DATE_REMEDY}")
    for larger in ("milliseconds", "microseconds", "nanoseconds"):
        if value > LATEST_EPOCH_S and value / _PER_S[larger] <= LATEST_EPOCH_S:
            return larger, (notice("trace-time-unit", unit=larger),)
    return "seconds", ()


def _count_date_digits(text: str) -> int:
    """Digits of a date that is written as one number, such as 20240228 or 202402282200.0; 0 if it
    is none.
    """
    text = text.strip()
    if _COMPACT.fullmatch(text):
        return len(text.partition(".")[0])
    return 0


def _describe_date(text: Sequence[str], value: float, header: str) -> str:
    """The date that the first number of a column may be; empty if it is none."""
    first = text[0].strip()
    digits, _, decimals = first.partition(".")
    late = (len(digits) == 10 and value >= _AFTER_NOW_S) or len(digits) == 12
    if late and _SHORT_COMPACT.fullmatch(first) and not _count_date_digits(first):
        digits = f"20{digits}"
    if _count_date_digits(digits):
        clock = f" {digits[8:10]}:{digits[10:12] or '00'}" if digits[8:] else ""
        return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}{clock}"
    step = np.abs(np.diff(to_numbers(text[:1000])))
    finely = len(decimals) >= _SERIAL_DECIMALS and (step[step > 0] < _SERIAL_STEP).all()
    is_in_range = _SERIAL_DAYS[0] <= value < _SERIAL_DAYS[1]
    if is_in_range and (finely or "date" in header.lower()):
        return _format_serial(value)
    return ""


def _format_serial(value: float) -> str:
    """The date of a number of days as spreadsheets count them, in words."""
    day = np.datetime64("1899-12-30") + np.timedelta64(round(value * 86_400.0), "s")
    return f"{str(day).replace('T', ' ')} as spreadsheets count days"


def _parse_moment_s(text: str, zone: tzinfo | None, dates: str = "auto") -> FloatPair:
    """Epoch seconds of a text, and how much later it came once more, 0 for never."""
    try:
        moment = _read_date(text.strip(), dates)
    except ValueError:  # it quotes the text itself, at any length
        remedy = ORDER_REMEDY if _OF_A_LOCALE.match(text) else TIME_REMEDY
        raise ValueError(f"{quote_text(text)} is not a time; {remedy}") from None
    if moment.tzinfo is not None:
        return _check_epoch(moment.timestamp(), text), 0.0
    if zone is None:
        raise ValueError(f"{quote_text(text)} has no time zone; {ZONE_REMEDY} 2021-04-21T14:19:53Z")
    former_s = moment.replace(tzinfo=zone).timestamp()
    later_s = moment.replace(tzinfo=zone, fold=1).timestamp() - former_s
    if (
        later_s < 0
    ):  # of an hour that clocks skip, Python takes the offset before, then the one after
        raise ValueError(
            f"{quote_text(text)} never was in {zone}, where clocks skipped it; was it written "
            f"in that zone?"
        )
    return _check_epoch(former_s, text), later_s


def _read_date(text: str, dates: str) -> datetime:
    """A date in ISO 8601, as one number, with slashes or points (2024/05/01, 2024.05.01_08.00.00),
    as check-ins have it (Tue Apr 03 18:00:09 +0000 2012), or with day and month in the order
    `dates` (13/04/2021 14:19, 04/13/2021 02:19:53 PM), with or without UTC; ValueError if it is
    none.
    """
    text = _UTC.sub("+00:00", text)
    text = _OF_A_LOCALE.sub(_ORDERS.get(dates, r"\g<0>"), _ONE_DIGIT.sub(r"0\1", text))
    if text.upper().endswith("M"):
        return datetime.strptime(text, "%Y-%m-%dT%I:%M:%S %p")
    if text[:3].isalpha():
        return datetime.strptime(text, _OF_CHECKINS)
    plain, plus, zone = text.partition("+")
    if _count_date_digits(plain) >= _TO_THE_SECOND:
        plain = plain.partition(".")[0]
        text = f"{plain[:8]}T{plain[8:14]}.{plain[14:] or '0'}{plus}{zone}"
    elif _SLASHES.match(text):
        date = text[:10].replace("/", "-").replace(".", "-")
        text = f"{date}T{text[11:19].replace('.', ':')}{text[19:]}"
    return datetime.fromisoformat(text)


def _check_epoch(time_s: float, text: str) -> float:
    if not 0.0 <= time_s <= LATEST_EPOCH_S:
        raise ValueError(f"{quote_text(text)} is not between 1970 and 2100; {TIME_REMEDY}")
    return time_s

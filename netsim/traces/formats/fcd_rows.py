"""Rows of SUMO floating car data as SUMO writes them, read by a compiled loop; whatever else there is, it leaves.

What is read, in a timestep that is open: any number of

    <vehicle id="TEXT" x="NUMBER" y="NUMBER" NAME="TEXT" .../>      also person, container
    </timestep> <timestep time="NUMBER"/> ... <timestep time="NUMBER">

with white space between tags. TEXT is printable ASCII without < & ", a NUMBER has at most 15 digits and no exponent, so
that its digits and the power of ten that divides them are exact, and their quotient is the nearest double.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray

Bytes = npt.NDArray[np.uint8]
SHORTEST = len('<person id="" x="1" y="2"/>')  # no row has fewer bytes
_TENS = 10.0 ** np.arange(16)
_MOST_NAMES = 32  # attributes of a row
_MOST_LOOKS = 64  # at places of the table of users, beyond which it is not searched
_WORDS = tuple(np.frombuffer(word, dtype=np.uint8) for word in (
    b"<vehicle ", b"<person ", b"<container ", b'id="', b' x="', b' y="', b"</timestep>", b'<timestep time="',
))  # fmt: skip
_VEHICLE, _PERSON, _CONTAINER, _ID, _X, _Y, _END, _STEP = _WORDS


class FcdRows(NamedTuple):
    """What was read: time_s, x, y, user (n,), where each user's kind and name, ``person id="7``, begin and end
    (n_user, 2), the time of the timestep that is open, and the byte after all of this.
    """

    time_s: FloatArray
    x: FloatArray
    y: FloatArray
    user: IntArray
    name: IntArray
    now_s: float
    end: int


def read(data: Bytes, begin: int, now_s: float) -> FcdRows:
    """The rows from a byte on, in a timestep of that time. `end` lies before the first tag that is not such a row."""
    most = len(data) // SHORTEST + 1
    time_s, x, y = np.empty(most), np.empty(most), np.empty(most)
    user, name = np.empty(most, dtype=np.int64), np.empty((most, 2), dtype=np.int64)
    table = np.full(1 << (2 * most - 1).bit_length(), -1, dtype=np.int64)
    n, n_user, now_s, end = _read(data, begin, now_s, time_s, x, y, user, name, table)
    return FcdRows(time_s[:n], x[:n], y[:n], user[:n], name[:n_user], now_s, end)


@compiled
def _read(
    data: Bytes, at: int, now_s: float, time_s: FloatArray, x: FloatArray, y: FloatArray, user: IntArray,
    name: IntArray, table: IntArray,
) -> tuple[int, int, float, int]:  # fmt: skip
    n, n_user, end = 0, 0, at
    names = np.zeros((2, _MOST_NAMES, 2), dtype=np.int64)  # attributes of this row, and of the one that was checked
    n_checked = -1
    while True:
        at = _space(data, at)
        after, at_kind = _mover(data, at), at
        if after < 0:
            at, next_s, stepped = _steps(data, at)
            if not stepped:
                break
            now_s, end = next_s, at
            continue
        id_to = _text(data, after)
        if id_to < 0 or not _is(data, id_to + 1, _X):
            break
        x_at, x[n] = _number(data, id_to + 1 + len(_X))
        if x_at < 0 or not _is(data, x_at + 1, _Y):
            break
        y_at, y[n] = _number(data, x_at + 1 + len(_Y))
        if y_at < 0:
            break
        at, n_names, same = _rest(data, y_at + 1, names, n_checked)
        if at < 0:
            break
        if not same:
            if not _distinct(data, names[0], n_names):
                break
            names[1], n_checked = names[0], n_names
        who = _user(data, at_kind + 1, after, id_to, name, n_user, table)
        if who < 0:
            break
        n_user, user[n], time_s[n] = max(n_user, who + 1), who, now_s
        n, end = n + 1, at
    return n, n_user, now_s, end


@compiled
def _is(data: Bytes, at: int, word: Bytes) -> bool:
    if at + len(word) > len(data):
        return False
    for i in range(len(word)):  # noqa: SIM110 - compiled
        if data[at + i] != word[i]:
            return False
    return True


@compiled
def _space(data: Bytes, at: int) -> int:
    while at < len(data) and (data[at] == 32 or 9 <= data[at] <= 10 or data[at] == 13):
        at += 1
    return at


@compiled
def _mover(data: Bytes, at: int) -> int:
    """Where the id begins; -1 for another tag."""
    after = at
    if _is(data, at, _VEHICLE):
        after = at + len(_VEHICLE)
    elif _is(data, at, _PERSON):
        after = at + len(_PERSON)
    elif _is(data, at, _CONTAINER):
        after = at + len(_CONTAINER)
    return after + len(_ID) if after > at and _is(data, after, _ID) else -1


@compiled
def _text(data: Bytes, at: int) -> int:
    """Where the quote is that ends a text; -1 for one that needs a parser."""
    while at < len(data):
        byte = data[at]
        if byte == 34:
            return at
        if byte < 32 or byte > 126 or byte == 38 or byte == 60:
            break
        at += 1
    return -1


@compiled
def _number(data: Bytes, at: int) -> tuple[int, float]:
    """Where the quote is that ends a number, and the number; -1 for one that is written otherwise."""
    minus = at < len(data) and data[at] == 45
    at += minus
    digits, whole, decimals = 0, np.int64(0), -1
    while at < len(data):
        byte = np.int64(data[at])
        if 48 <= byte <= 57:
            digits, whole = digits + 1, 10 * whole + byte - 48
            decimals += decimals >= 0
            if digits > 15:
                break
        elif byte == 46 and decimals < 0 and digits > 0:
            decimals = 0
        elif byte == 34 and digits > 0 and decimals != 0:
            value = whole / _TENS[max(decimals, 0)]
            return at, -value if minus else value
        else:
            break
        at += 1
    return -1, 0.0


@compiled
def _rest(data: Bytes, at: int, names: IntArray, n_checked: int) -> tuple[int, int, bool]:
    """The byte after a row whose further attributes begin here, their number, and whether they have the names of the
    row that was checked; -1 for a row that needs a parser.
    """
    n, same = 0, n_checked >= 0
    while at + 1 < len(data) and data[at] == 32 and n < _MOST_NAMES:
        begin = at + 1
        at = begin
        while at < len(data) and _in_name(data[at], at == begin):
            at += 1
        if at == begin or at + 1 >= len(data) or data[at] != 61 or data[at + 1] != 34:
            return -1, 0, False
        names[0, n] = begin, at
        same = same and n < n_checked and _equal(data, begin, at, names[1, n, 0], names[1, n, 1])
        at = _text(data, at + 2) + 1
        if at == 0:
            return -1, 0, False
        n += 1
    if at + 1 < len(data) and data[at] == 47 and data[at + 1] == 62:
        return at + 2, n, same and n == n_checked
    return -1, 0, False


@compiled
def _in_name(byte: int, first: bool) -> bool:
    letter = 65 <= byte <= 90 or 97 <= byte <= 122 or byte == 95
    return letter or (not first and (48 <= byte <= 57 or byte == 45 or byte == 46))


@compiled
def _equal(data: Bytes, begin: int, end: int, other: int, other_end: int) -> bool:
    if end - begin != other_end - other:
        return False
    for i in range(end - begin):  # noqa: SIM110 - compiled
        if data[begin + i] != data[other + i]:
            return False
    return True


@compiled
def _distinct(data: Bytes, names: IntArray, n: int) -> bool:
    """Whether no two attributes have one name, which XML forbids."""
    for i in range(n):
        begin, end = names[i]
        if (end - begin == 2 and data[begin] == 105 and data[begin + 1] == 100) or (  # id
            end - begin == 1 and (data[begin] == 120 or data[begin] == 121)  # x, y
        ):
            return False
        for j in range(i):
            if _equal(data, begin, end, names[j, 0], names[j, 1]):
                return False
    return True


@compiled
def _user(data: Bytes, begin: int, id_from: int, end: int, name: IntArray, n_user: int, table: IntArray) -> int:
    """Number of a user by its kind and name, n_user for a new one; -1 where the table is crowded."""
    mixed = np.uint64(14695981039346656037) ^ np.uint64(data[begin])  # FNV-1a, of the kind's first letter and the name
    for i in range(id_from, end):
        mixed = (mixed ^ np.uint64(data[i])) * np.uint64(1099511628211)
    place = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(len(table) - 1))
    for _ in range(_MOST_LOOKS):
        who = table[place]
        if who < 0:
            table[place] = n_user
            name[n_user] = begin, end
            return n_user
        if _equal(data, begin, end, name[who, 0], name[who, 1]):
            return int(who)
        place = (place + 1) & (len(table) - 1)
    return -1


@compiled
def _steps(data: Bytes, at: int) -> tuple[int, float, bool]:
    """After the end of a timestep and the begin of one, its time, and whether they are there."""
    if not _is(data, at, _END):
        return at, 0.0, False
    at = _space(data, at + len(_END))
    while _is(data, at, _STEP):
        at, time_s = _number(data, at + len(_STEP))
        if at < 0 or time_s < 0 or at + 1 >= len(data):
            break
        if data[at + 1] == 62:
            return at + 2, time_s, True
        if at + 2 >= len(data) or data[at + 1] != 47 or data[at + 2] != 62:
            break
        at = _space(data, at + 3)
    return at, 0.0, False

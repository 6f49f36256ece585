"""A directory of people and their homes, as an attacker may have it: an address book, or places shared before."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import numpy as np

from fl.types import Directory, Public
from netsim.errors import BadInput
from netsim.maps.plane import projected
from netsim.safe import opened
from netsim.traces.source import Sheet, read_sheets
from netsim.traces.values import shown
from netsim.units import FloatArray

_MOST_PEOPLE = 20_000
_MOST_BYTES = 16 * 2**20
_MOST_NAME = 200  # characters
_METRES, _DEGREES = ("x_m", "y_m"), ("lat", "lon")
_BOUNDS = {"x_m": 1e8, "y_m": 1e8, "lat": 90.0, "lon": 180.0}


KNOWN = "known"
"""in place of a file: the homes of all UEs"""


def directory_of(homes: str, public: Public, label: str) -> Directory:
    """Directory of a file, or of the UEs of the world where these are known. Raises BadInput with one line."""
    if homes != KNOWN:
        try:
            return read_directory(homes, public.origin_deg)
        except BadInput as error:
            raise BadInput(f"learning.attacks: {label}: homes: {error}") from None
    if public.residents is None:
        raise BadInput(
            f"learning.attacks: {label}: homes: known needs homes in threat.knowledge; add it, or give a file"
        )
    return public.residents


@lru_cache(maxsize=4)
def read_directory(file: str, origin_deg: tuple[float, float] | None) -> Directory:
    """A CSV file with a column user, and x_m and y_m (metres of the world) or lat and lon (WGS84).

    Raises BadInput with one line.
    """
    users, places = list[str](), list[FloatArray]()
    columns = _METRES
    try:
        opened(file, _MOST_BYTES).close()
        for sheet in read_sheets(file):
            columns = _columns(sheet, origin_deg)
            users += _users(sheet)
            places.append(np.stack([_numbers(sheet, column) for column in columns], axis=1))
            if len(users) > _MOST_PEOPLE:
                raise BadInput(f"{file}: more than {_MOST_PEOPLE:,} people; take at most that many")
    except OSError as error:
        raise BadInput(f"{file}: cannot be read ({error.strerror}); give a CSV file of homes") from None
    if len(set(users)) < len(users):
        twice = next(user for user, n in Counter(users).items() if n > 1)
        raise BadInput(f"{file}: user {shown(twice)} stands twice; give each user one home")
    place = np.concatenate(places)
    if columns == _DEGREES and origin_deg is not None:
        place = projected(place[:, ::-1], origin_deg)
    return Directory(tuple(users), place)


def _columns(sheet: Sheet, origin_deg: tuple[float, float] | None) -> tuple[str, str]:
    """The two that tell where homes are."""
    if "user" not in sheet.header:
        raise BadInput(f"{sheet.path}: no column user; a file of homes has user, and x_m and y_m, or lat and lon")
    there = [pair for pair in (_METRES, _DEGREES) if set(pair) <= set(sheet.header)]
    if len(there) != 1:
        raise BadInput(f"{sheet.path}: give either columns x_m and y_m, or lat and lon, beside user")
    if there[0] == _DEGREES and origin_deg is None:
        raise BadInput(f"{sheet.path}: lat and lon mean nothing in a world of local metres; give x_m and y_m")
    return there[0]


def _users(sheet: Sheet) -> list[str]:
    """Names of people."""
    users = [user.strip() for user in sheet.values("user")]
    for row, user in enumerate(users):
        if not 0 < len(user) <= _MOST_NAME:
            sheet.refuse(row, "user", f"{len(user)} characters; give a name of 1 to {_MOST_NAME}")
    return users


def _numbers(sheet: Sheet, column: str) -> FloatArray:
    """Finite numbers (n,) within their bounds."""
    values, most = sheet.values(column), _BOUNDS[column]
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = float(value)
        except ValueError:
            numbers[row] = np.nan
        if not abs(numbers[row]) <= most:
            sheet.refuse(row, column, f"must be a number from {-most:g} to {most:g}, got {shown(value)}; correct it")
    return numbers

"""A trace in memory: structure of arrays in a local frame (metres, seconds from a local
midnight).
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from difflib import get_close_matches
from importlib import resources
from math import dist, log, sqrt
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from netsim.clock import DAY_S, Clock
from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.notice import Notice, notice
from netsim.traces.values import quote_text
from netsim.units import BoolArray, FloatArray, IntArray, LatLon, Texts

STDS_OF_RADIUS = sqrt(-2 * log(1 - 0.68))


class LocalTime(NamedTuple):
    """The first local day, the epoch time of its midnight, the time zone, its name, and a note if
    it was guessed.
    """

    first_day: date
    midnight_s: float
    zone: tzinfo
    name: str
    notices: list[Notice]

    @classmethod
    def from_zone(cls, name: str, lon_deg: float | None, begins_s: float) -> LocalTime:
        """The local time of a trace that begins at an epoch time, in the zone of that name."""
        zone, label, notices = find_local_zone(name, lon_deg)
        return cls(*find_midnight(begins_s, zone), zone, label, notices)

    def build_clock(self, until_s: float) -> Clock:
        """The wall clock from midnight on, with the changes of its zone up to a time."""
        return build_wall_clock(self.first_day, self.midnight_s, self.zone, until_s)


@frozen
class Trace:
    """Rows sorted by (user, time).

    users, cells : names; `user` and `cell` index them. user (n,), time_s (n,) from local midnight
    of the first day, position_m (n, 2) in the local plane. cell (n,), rsrp_dbm (n,) : None where
    the file has no such column. due (n,) : which rows are measured and reported; None: all. The
    others still tell where a user was. accuracy_m (n,) : radius that holds 68 % of the errors of
    each fix, m; None where the file has no such column. origin_deg : latitude and longitude of (0,
    0); None for a plane that is nowhere on the globe. area : bounding box of the rows, or the one
    that was stated; ends_s : the end that was stated, None for none. counts : rows read, used, and
    left out, by reason: for the manifest. format : of the file. notices : choices that were made,
    and doubts about rows.
    """

    users: Texts
    cells: Texts
    user: IntArray
    time_s: FloatArray
    position_m: FloatArray
    cell: IntArray | None
    rsrp_dbm: FloatArray | None
    area: Area
    origin_deg: LatLon | None
    local: LocalTime
    counts: dict[str, int]
    notices: tuple[Notice, ...]
    ends_s: float | None
    due: BoolArray | None = None
    accuracy_m: FloatArray | None = None
    format: str = ""

    def look_up_error_m(self, user: IntArray, time_s: FloatArray) -> FloatArray:
        """Standard deviation per axis (n,), m, of fixes of users (n,) at times (n,): r / 1.51 of a
        radius accuracy_m, which holds 1 - exp(-1.51^2 / 2) = 68 % of an isotropic Gaussian.
        """
        if self.accuracy_m is None:
            raise ValueError("the trace has no column accuracy_m")
        apart_s = self.time_s.max() + 1.0
        key = self.user * apart_s + self.time_s
        return self.accuracy_m[np.searchsorted(key, user * apart_s + time_s)] / STDS_OF_RADIUS


def find_local_zone(name: str, lon_deg: float | None) -> tuple[tzinfo, str, list[Notice]]:
    """The time zone, its name, and a notice if it was guessed from the longitude, None for local
    metres.
    """
    if name != "auto":
        return find_zone(name), name, []
    if lon_deg is None:
        return UTC, "UTC", [notice("trace-zone", zone="UTC, as local metres have none")]
    hours = round(lon_deg / 15.0)
    label = f"UTC{hours:+03d}:00"
    guess = notice("trace-zone", zone=f"{label} by longitude, without daylight saving")
    return timezone(timedelta(hours=hours)), label, [guess]


def find_zone(name: str) -> tzinfo:
    """The zone of an IANA name, or of an offset such as UTC+01:00."""
    try:
        if name.startswith(("UTC+", "UTC-")):
            return datetime.strptime(name, "UTC%z").tzinfo or UTC
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        near = get_close_matches(name, sorted(available_timezones()), 3, 0.5)
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        else:
            hint = "use a name such as Europe/Paris, or auto"
        raise BadInput(f"timezone: {quote_text(name)} is no IANA time zone; {hint}") from error


def find_nearest_zone(lat_deg: float, lon_deg: float) -> str:
    """The zone whose city is nearest in IANA's table, by whole degrees: a guess, and near a border
    perhaps the neighbour's.
    """
    table = resources.files("tzdata.zoneinfo").joinpath("zone1970.tab").read_text()
    cities = re.findall(r"([+-]\d\d)\d+([+-]\d{3})\d+\t(\S+)", table)
    return min(cities, key=lambda city: dist((lat_deg, lon_deg), map(float, city[:2])))[2]


def find_midnight(time_s: float, zone: tzinfo) -> tuple[date, float]:
    """The local day of an epoch time, and the epoch time of the midnight at which it began."""
    day = datetime.fromtimestamp(time_s, zone).date()
    return day, datetime.combine(day, time.min, zone).timestamp()


def build_wall_clock(first_day: date, midnight_s: float, zone: tzinfo, until_s: float) -> Clock:
    """The clock that begins at an epoch time, with all changes of its zone's offset until `until_s`
    later.

    Offsets are compared a day apart: two changes within a day that cancel would be missed, and no
    zone has such.
    """
    if isinstance(zone, timezone):  # a fixed offset
        return Clock(first_day)
    # where clocks skip midnight itself, the first day begins with a change
    first_s = datetime.combine(first_day, time.min, UTC).timestamp() - midnight_s
    shift_s = _find_offset_s(zone, midnight_s) - first_s
    changes = [(0.0, shift_s)] if shift_s else []
    before_s = midnight_s
    while before_s < midnight_s + until_s:
        after_s = before_s + DAY_S
        if (now_s := _find_offset_s(zone, after_s) - first_s) != shift_s:
            changes.append((_find_change_s(zone, before_s, after_s) - midnight_s, now_s))
            shift_s = now_s
        before_s = after_s
    return Clock(first_day, tuple(change for change in changes if change[0] <= until_s))


def _find_change_s(zone: tzinfo, before_s: float, after_s: float) -> float:
    """The epoch second from which on the offset is that of `after_s` and no longer that of
    `before_s`.
    """
    new = _find_offset_s(zone, after_s)
    while after_s - before_s > 1.0:
        middle_s = (before_s + after_s) // 2
        before_s, after_s = (
            (before_s, middle_s) if _find_offset_s(zone, middle_s) == new else (middle_s, after_s)
        )
    return after_s


def _find_offset_s(zone: tzinfo, time_s: float) -> float:
    return (datetime.fromtimestamp(time_s, zone).utcoffset() or timedelta()).total_seconds()

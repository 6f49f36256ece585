"""A trace in memory: structure of arrays in a local frame (metres, seconds from a local midnight)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from difflib import get_close_matches
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from netsim.clock import DAY_S, Clock
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.traces.values import shown
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Trace:
    """Rows sorted by (user, time).

    users, cells : names; `user` and `cell` index them.
    user (n,), time_s (n,) from local midnight of `first_day`, position_m (n, 2) in the local plane whose
    origin is (origin_lat, origin_lon); NaN for a local plane without one.
    cell (n,), rsrp_dbm (n,) : None where the file has no such column.
    area : bounding box of the rows, or the one that was stated; ends_s : the end that was stated, None for none.
    zone, midnight_s : the time zone, and when time 0 is, in seconds since 1970-01-01 UTC.
    counts : rows read, used, and left out, by reason: for the manifest.
    notes : sentences for the user on choices that were made; doubts : those of them on doubtful rows.
    """

    users: tuple[str, ...]
    cells: tuple[str, ...]
    user: IntArray
    time_s: FloatArray
    position_m: FloatArray
    cell: IntArray | None
    rsrp_dbm: FloatArray | None
    area: Area
    first_day: date
    timezone: str
    origin_lat: float
    origin_lon: float
    zone: tzinfo = UTC
    midnight_s: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    ends_s: float | None = None
    doubts: tuple[str, ...] = ()

    @property
    def origin_deg(self) -> tuple[float, float] | None:
        """Latitude and longitude of (0, 0); None for a plane that is nowhere on the globe."""
        return (self.origin_lat, self.origin_lon) if math.isfinite(self.origin_lat) else None

    def clock(self, until_s: float) -> Clock:
        """The wall clock of the trace's zone, with its changes up to a time."""
        return wall_clock(self.first_day, self.midnight_s, self.zone, until_s)


class LocalTime(NamedTuple):
    """The first local day, the epoch time of its midnight, the time zone, and a note if it was guessed."""

    first_day: date
    midnight_s: float
    zone: tzinfo
    name: str
    notes: list[str]

    @classmethod
    def of(cls, name: str, lon_deg: float, begins_s: float) -> LocalTime:
        """The local time of a trace that begins at an epoch time, in the zone of that name."""
        zone, label, notes = local_zone(name, lon_deg)
        return cls(*first_midnight(begins_s, zone), zone, label, notes)

    def clock(self, until_s: float) -> Clock:
        """The wall clock from midnight on."""
        return wall_clock(self.first_day, self.midnight_s, self.zone, until_s)


def local_zone(name: str, lon_deg: float) -> tuple[tzinfo, str, list[str]]:
    """The time zone, its name, and a note if it was guessed from the longitude (NaN for none)."""
    if name == "auto" and not math.isfinite(lon_deg):
        return UTC, "UTC", ["time zone: UTC, as local metres have none; an IANA name sets another"]
    if name == "auto":
        hours = round(lon_deg / 15.0)
        label = f"UTC{hours:+03d}:00"
        note = f"time zone: {label} by longitude, without daylight saving; an IANA name sets another"
        return timezone(timedelta(hours=hours)), label, [note]
    return named_zone(name), name, []


def named_zone(name: str) -> tzinfo:
    """The zone of an IANA name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        near = get_close_matches(name, sorted(available_timezones()), 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "use a name such as Europe/Paris, or auto"
        raise BadInput(f"timezone: {shown(name)} is no IANA time zone; {hint}") from error


def first_midnight(time_s: float, zone: tzinfo) -> tuple[date, float]:
    """The local day of an epoch time, and the epoch time of the midnight at which it began."""
    day = datetime.fromtimestamp(time_s, zone).date()
    return day, datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()


def wall_clock(first_day: date, midnight_s: float, zone: tzinfo, until_s: float) -> Clock:
    """The clock that begins at an epoch time, with all changes of its zone's offset until `until_s` later.

    Offsets are compared a day apart: two changes within a day that cancel would be missed, and no zone has such.
    """
    if isinstance(zone, timezone):  # a fixed offset
        return Clock(first_day)
    # where clocks skip midnight itself, the first day begins with a change
    first_s = datetime(first_day.year, first_day.month, first_day.day, tzinfo=UTC).timestamp() - midnight_s
    shift_s = _offset_s(zone, midnight_s) - first_s
    changes = [(0.0, shift_s)] if shift_s else []
    before_s = midnight_s
    while before_s < midnight_s + until_s:
        after_s = before_s + DAY_S
        if (now_s := _offset_s(zone, after_s) - first_s) != shift_s:
            changes.append((_changed_s(zone, before_s, after_s) - midnight_s, now_s))
            shift_s = now_s
        before_s = after_s
    return Clock(first_day, tuple(change for change in changes if change[0] <= until_s))


def _changed_s(zone: tzinfo, before_s: float, after_s: float) -> float:
    """The epoch second from which on the offset is that of `after_s` and no longer that of `before_s`."""
    new = _offset_s(zone, after_s)
    while after_s - before_s > 1.0:
        middle_s = float((before_s + after_s) // 2)
        before_s, after_s = (before_s, middle_s) if _offset_s(zone, middle_s) == new else (middle_s, after_s)
    return after_s


def _offset_s(zone: tzinfo, time_s: float) -> float:
    """Offset of the wall clock from UTC at an epoch time."""
    ahead = datetime.fromtimestamp(time_s, zone).utcoffset()
    return 0.0 if ahead is None else ahead.total_seconds()

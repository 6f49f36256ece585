"""A trace in memory: structure of arrays in a local frame (metres, seconds from a local midnight)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True)
class Trace:
    """Rows sorted by (user, time).

    users, cells : names; `user` and `cell` index them.
    user (n,), time_s (n,) from local midnight of `first_day`, position_m (n, 2) in the local plane whose
    origin is (origin_lat, origin_lon); NaN for a plane that is nowhere on the globe.
    cell (n,), rsrp_dbm (n,) : None where the file has no such column.
    area : bounding box of the rows.
    counts : rows read, used, and left out, by reason: for the manifest.
    notes : sentences that a person should read (what was chosen for them, and why).
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
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def local_zone(name: str, lon_deg: float) -> tuple[tzinfo, str, list[str]]:
    """The time zone, its name, and a note if it was guessed from the longitude (NaN for none)."""
    if name == "auto" and not math.isfinite(lon_deg):
        return UTC, "UTC", ["time zone: UTC, for a plane of its own has none; an IANA name sets another"]
    if name == "auto":
        hours = round(lon_deg / 15.0)
        label = f"UTC{hours:+03d}:00"
        note = f"time zone: {label} by longitude, without daylight saving; an IANA name sets another"
        return timezone(timedelta(hours=hours)), label, [note]
    try:
        return ZoneInfo(name), name, []
    except (KeyError, ValueError, OSError) as error:
        near = get_close_matches(name, sorted(available_timezones()), 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "use a name such as Europe/Paris, or auto"
        raise BadInput(f"timezone: {name!r} is no IANA time zone; {hint}") from error


def first_midnight(time_s: float, zone: tzinfo) -> tuple[date, float]:
    """The local day of an epoch time, and the epoch time of the midnight at which it began."""
    day = datetime.fromtimestamp(time_s, zone).date()
    return day, datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()

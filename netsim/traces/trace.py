"""A trace in memory: structure of arrays, local metres, seconds from a local midnight."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from netsim.geometry import Area
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True)
class Trace:
    """Rows sorted by (user, time).

    users, cells : names; `user` and `cell` index them.
    user (n,), time_s (n,) from local midnight of `first_day`, position_m (n, 2) in the local plane whose
    origin is (origin_lat, origin_lon).
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

"""From a trace file to a `Trace`: select rows, project them to a local plane and a local clock, define the users.

Counts: every row left out is counted under one reason, so that ``rows_read`` is ``rows_used`` plus all others.

Users: "id" is the user column; "all" is one user with all rows; "day" is one user for each local day; "chain" takes ids
as drives and joins those that begin where another ended (within a mile) into one user, the rest being `background`;
"segments" divides all rows, sorted by time, into `segments` equal parts; "rows" makes every row a user; "auto" is "id",
unless no id has rows in two rounds of `round_s` seconds, and then "all".

Outliers: without `outlier_sigmas` all rows with finite values within bounds are kept.

Resampling: only a trace without RSRP and cells can be resampled, because measurements cannot be interpolated.

Plane: azimuthal equidistant on WGS84, centred on the median of the rows kept (outliers included, which hardly change a
median), or, with a stated extent, on the middle of its box. Distances from the centre are exact, others nearly so
within tens of kilometres. Local metres are not changed.

Time: elapsed seconds since local midnight of the first row's day; `Trace.clock` gives the wall clock, on which the day
of the change from summer time has 90,000 s. Times that are all below 1e8 s count from the midnight of a day without
a date, which is called 1970-01-01 (a Thursday).

Memory: `Table` states the bytes of a row while it is read; the trace adds 32 (user 8, time 8, place 16), 16 more with
RSRP and cell, and temporarily about as much again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, tzinfo
from pathlib import Path
from typing import NamedTuple

from netsim.clock import DAY_S
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.traces.crs import AUTO
from netsim.traces.doubts import doubts, steps_of
from netsim.traces.files import Format, read_table
from netsim.traces.order import arranged, by_user_and_time, taken
from netsim.traces.points import Box, Plane
from netsim.traces.resample import Moves, resampled
from netsim.traces.select import (
    Extent,
    Users,
    Window,
    choose_cell,
    in_scope,
    kept,
    name_users,
    outlying,
    renumbered,
    repeated,
)
from netsim.traces.table import Table
from netsim.traces.times import epoch_s
from netsim.traces.trace import Trace, first_midnight, local_zone, named_zone, wall_clock
from netsim.units import IntArray

GAP_S = 600.0


def read_trace(
    path: str | Path,
    *,
    format: Format = "auto",
    crs: str = AUTO,
    columns: Mapping[str, str] | None = None,
    cell: str | None = None,
    users: Users = "auto",
    segments: int | None = None,
    timezone: str = "auto",
    outlier_sigmas: float | None = None,
    area_deg: Box | None = None,
    area_m: Box | None = None,
    since: float | str | None = None,
    until: float | str | None = None,
    extent: Extent = "rows",
    sample_s: float = 1.0,
    resample_s: float | None = None,
    gap_s: float = GAP_S,
    round_s: float = DAY_S,
) -> Trace:
    """Reads a trace into local metres and seconds from a local midnight.

    Parameters
    ----------
    format, crs, columns, sample_s : see `read_table`.
    cell : keep the rows of this cell; "all": every cell; None: the cell with most rows, stated in a note.
    users, segments : what a user of the trace is, see above.
    timezone : IANA name, also of times of day without a zone; "auto" refuses such times, and is a fixed offset of
        round(longitude / 15) hours, or UTC for local metres.
    outlier_sigmas : leave out rows further than this many standard deviations from the mean of their cell, in x or y.
    area_deg, area_m : keep the rows in (lat_min, lon_min, lat_max, lon_max) or (x_min, y_min, x_max, y_max), in the
        coordinates of the file.
    since, until : keep the rows with since <= time < until; epoch seconds, or text as in a trace file.
    extent : "stated": area, middle of the plane, first day and end are those of area_deg or area_m, since and until,
        whatever the rows are; "rows": as the rows show them.
    resample_s : interpolate the rows of a trip at the multiples of this time on the local clock; not for measurements.
    gap_s : a longer pause between two rows of a user ends a trip.
    round_s : length of a round, for users "auto".

    Raises `BadInput` with one line. The arrays are read-only, because they may be shared.
    """
    _check_segments(path, users, segments)
    _check_boxes(path, area_deg, area_m)
    zone = None if timezone == "auto" else named_zone(timezone)
    table = read_table(path, columns, format=format, crs=crs, sample_s=sample_s, timezone=timezone)
    counts = {"rows_read": len(table) + sum(table.skipped.values()), **table.skipped, **table.counts}
    scope = in_scope(table, (since, until), zone, area_deg, area_m, counts)
    rows, cell_notes = _chosen(table, scope, cell, counts)
    stated = None if extent == "rows" else _stated(table, area_deg or area_m, (since, until), zone)
    rows, plane = _placed(table, rows, outlier_sigmas, counts, stated)
    local, zone_notes = _calendar(table, rows, timezone, plane.lon_deg, stated)
    moves = Moves(taken(table.user, rows), taken(table.time_s, rows) - local.midnight_s, plane.xy_m)
    doubtful = doubts(table.points.at(rows), moves, steps_of(moves))
    moves, resample_notes = _resampled(table, moves, resample_s, gap_s)
    naming, notes = _UserNaming(users, segments, round_s), [*cell_notes, *zone_notes, *resample_notes]
    trace = _trace(table, rows, moves, plane, local, naming, counts, notes, doubtful)
    return trace if stated is None else stated.of(trace)


# --- steps -------------------------------------------------------------------------------------------------


def _chosen(table: Table, rows: IntArray, cell: str | None, counts: dict[str, int]) -> tuple[IntArray, list[str]]:
    """The rows of the cell, each once, and notes."""
    chosen, notes = choose_cell(table, rows, cell)
    if chosen is not None and table.cell is not None:
        rows = kept(rows, taken(table.cell, rows) == chosen, "other_cell", counts)
    return kept(rows, ~repeated(table, rows), "duplicate", counts), notes


def _placed(
    table: Table, rows: IntArray, sigmas: float | None, counts: dict[str, int], stated: _Stated | None
) -> tuple[IntArray, Plane]:
    """The rows without outliers, and their places in local metres."""
    plane = table.points.at(rows).plane(None if stated is None else stated.border)
    inside = ~outlying(plane.xy_m, None if table.cell is None else taken(table.cell, rows), sigmas)
    rows = kept(rows, inside, "outlier", counts)
    if not rows.size:
        raise BadInput(f"{table.path}: outlier_sigmas: {sigmas} leaves no row; use 4, say, or none to keep all")
    return rows, plane if inside.all() else replace(plane, xy_m=plane.xy_m[inside])


class _LocalTime(NamedTuple):
    """The first local day, the epoch time of its midnight, and the time zone."""

    first_day: date
    midnight_s: float
    zone: tzinfo
    name: str


class _Stated(NamedTuple):
    """The extent that a scenario states: the border of the area in its own plane, and epoch times of begin and end."""

    border: Plane
    begins_s: float
    ends_s: float

    def of(self, trace: Trace) -> Trace:
        """The trace in that area, up to that end."""
        return replace(trace, area=Area.around(self.border.xy_m), ends_s=self.ends_s - trace.midnight_s)


def _stated(table: Table, box: Box | None, window: Window, zone: tzinfo | None) -> _Stated:
    """The extent of a box and a window of time. Raises `BadInput` where one is missing."""
    since, until = window
    if box is None or since is None or until is None:
        raise BadInput(f"{table.path}: extent: stated needs area_deg or area_m, since and until; give them")
    return _Stated(table.points.outline(box).plane(), epoch_s(str(since), zone), epoch_s(str(until), zone))


class _UserNaming(NamedTuple):
    """Definition of users: the settings `users`, `segments` and `round_s`."""

    users: Users
    segments: int | None
    round_s: float


def _trace(
    table: Table,
    rows: IntArray,
    moves: Moves,
    plane: Plane,
    local: _LocalTime,
    naming: _UserNaming,
    counts: dict[str, int],
    notes: list[str],
    doubtful: tuple[str, ...],
) -> Trace:
    """The trace of the rows (n,) of a table, which are at `moves`, sorted by (user, time)."""
    if naming.segments is not None and naming.segments > len(moves.user):
        raise BadInput(
            f"{table.path}: segments: {naming.segments} are more than the {len(moves.user)} rows; take fewer"
        )
    clock = wall_clock(local.first_day, local.midnight_s, local.zone, float(moves.time_s.max()))
    names, user, user_notes = name_users(
        naming.users, table.users, moves.user, moves.time_s, moves.xy_m, clock, naming.round_s, naming.segments
    )
    as_ids = naming.users == "id" or (naming.users == "auto" and not user_notes)
    order = moves.order if as_ids else by_user_and_time(user, moves.time_s)
    cells, cell_of_row = ((), None) if table.cell is None else renumbered(table.cells, taken(table.cell, rows))
    counts["rows_used"] = len(rows)
    trace = Trace(
        users=names,
        cells=cells,
        user=arranged(user, order),
        time_s=arranged(moves.time_s, order),
        position_m=arranged(moves.xy_m, order),
        cell=None if cell_of_row is None else arranged(cell_of_row, order),
        rsrp_dbm=None if table.rsrp_dbm is None else arranged(taken(table.rsrp_dbm, rows), order),
        area=Area.around(moves.xy_m),
        first_day=local.first_day,
        timezone=local.name,
        origin_lat=plane.lat_deg,
        origin_lon=plane.lon_deg,
        zone=local.zone,
        midnight_s=local.midnight_s,
        counts=counts,
        notes=(*table.notes, *doubtful, *notes, *user_notes),
        doubts=doubtful,
    )
    for array in (trace.user, trace.time_s, trace.position_m, trace.cell, trace.rsrp_dbm):
        if array is not None:
            array.setflags(write=False)
    return trace


def _calendar(
    table: Table, rows: IntArray, timezone: str, lon_deg: float, stated: _Stated | None
) -> tuple[_LocalTime, list[str]]:
    """The beginning of local time, and notes: the day of the first row, or of the time that is stated."""
    first_s = float(taken(table.time_s, rows).min()) if stated is None else stated.begins_s
    zone, zone_name, notes = local_zone(timezone, lon_deg)
    if table.relative:
        zone, zone_name = UTC, "UTC" if timezone == "auto" else zone_name
        notes = ["times below 1e8 s count from midnight of a day without a date, called 1970-01-01"]
    return _LocalTime(*first_midnight(first_s, zone), zone, zone_name), notes


def _resampled(table: Table, moves: Moves, every_s: float | None, gap_s: float) -> tuple[Moves, list[str]]:
    if every_s is None:
        return moves, []
    if table.rsrp_dbm is not None or table.cell is not None:
        has = "rsrp_dbm" if table.rsrp_dbm is not None else "cell"
        problem = f"the trace has {has}, and a measurement in between was never made"
        raise BadInput(f"{table.path}: resample_s: {problem}; leave resample_s out")
    regular, n_trips = resampled(moves, every_s, gap_s)
    if not len(regular.user):
        raise BadInput(f"{table.path}: resample_s: {every_s:g} s is longer than every trip; take less")
    return regular, [f"resampled: {len(regular.user):,} rows, every {every_s:g} s of {n_trips:,} trips"]


def _check_segments(path: str | Path, users: str, segments: int | None) -> None:
    if (users == "segments") != (segments is not None):
        raise BadInput(f"{path}: segments: {segments!r} with users: {users!r}; give users: segments and their number")
    if segments is not None and segments < 1:
        raise BadInput(f"{path}: segments: {segments!r} is not 1 or more; give the number of users")


def _check_boxes(path: str | Path, area_deg: Box | None, area_m: Box | None) -> None:
    names = {"area_deg": ("lat_min", "lon_min", "lat_max", "lon_max"), "area_m": ("x_min", "y_min", "x_max", "y_max")}
    for key, box in (("area_deg", area_deg), ("area_m", area_m)):
        if box is not None and not (box[0] < box[2] and box[1] < box[3]):
            a, b, c, d = names[key]
            raise BadInput(f"{path}: {key}: {box} is not {a},{b},{c},{d}; give {a} < {c} and {b} < {d}")

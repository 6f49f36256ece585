"""From a trace file to a `Trace`: choose rows, put them on a local plane and a local clock, name the users.

Every row left out is counted under one reason, so that ``rows_read`` is ``rows_used`` plus all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import numpy as np

from netsim.clock import DAY_S
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.traces.table import Table, epoch_s, read_table
from netsim.traces.trace import Trace, first_midnight, local_metres, local_zone
from netsim.units import BoolArray, FloatArray, IntArray

Users = Literal["auto", "all", "id", "day"]


def read_trace(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    cell: str | None = None,
    users: Users = "auto",
    timezone: str = "auto",
    outlier_sigmas: float | None = 4.0,
    area_deg: tuple[float, float, float, float] | None = None,
    since: float | str | None = None,
    until: float | str | None = None,
    round_s: float = DAY_S,
) -> Trace:
    """Read a trace file into local metres and seconds from a local midnight.

    Parameters
    ----------
    columns : our name -> header in the file, for headers that are not called as ours.
    cell : keep the rows of this cell; "all" keeps every cell; None takes the busiest and says so in a note.
    users : who is a user of the trace. "all": one target to which all rows belong; "id": the user column;
        "day": one user per local day; "auto": "id", unless no id has rows in two rounds of `round_s` seconds.
    timezone : IANA name; "auto" is a fixed offset of round(longitude / 15) hours, without daylight saving.
    outlier_sigmas : rows further than this many standard deviations from the mean of their cell, in x or in
        y, are left out; None keeps them.
    area_deg : keep the rows in (lat_min, lon_min, lat_max, lon_max).
    since, until : keep the rows with since <= time < until; epoch seconds, or text as in a trace file.
    round_s : length of a round, for users "auto".

    Plane: azimuthal equidistant on WGS84, centred on the median of the rows kept (outliers included, which
    hardly move a median): distances from the centre are true, others nearly so within tens of kilometres.

    Time: elapsed seconds since local midnight of the first row's day. Days have 86,400 s, so after a change
    to or from daylight saving time, midnight on this clock is one hour off the wall clock.

    Raises `BadInput` with one line. The arrays are read-only, for they may be shared.
    """
    _check(path, users, outlier_sigmas, area_deg, round_s)
    table = read_table(path, columns)
    counts = {"rows_read": len(table), **table.counts}
    notes = list(table.notes)

    rows = _in_scope(table, since, until, area_deg, counts)
    chosen, note = _choose_cell(table, rows, cell)
    notes += note
    if chosen is not None and table.cell is not None:
        rows = _kept(rows, table.cell[rows] == chosen, "other_cell", counts)
    rows = _kept(rows, ~repeated(table, rows), "duplicate", counts)

    xy_m, lat_deg, lon_deg = local_metres(table.lat_deg[rows], table.lon_deg[rows])
    inside = ~_outlying(xy_m, None if table.cell is None else table.cell[rows], outlier_sigmas)
    rows, xy_m = _kept(rows, inside, "outlier", counts), xy_m[inside]
    if not rows.size:
        raise BadInput(f"{path}: outlier_sigmas: {outlier_sigmas} leaves no row; use 4, or none to keep all")

    zone, zone_name, note = local_zone(timezone, lon_deg)
    notes += note
    first_day, midnight_s = first_midnight(float(table.time_s[rows].min()), zone)
    time_s = table.time_s[rows] - midnight_s
    names, user, note = _name_users(users, table, rows, time_s, first_day, round_s)
    notes += note

    order = np.lexsort((time_s, user))  # stable: rows of one user and time stay as in the file
    rows = rows[order]
    cells, cell_of_row = _renumber(table.cells, None if table.cell is None else table.cell[rows])
    counts["rows_used"] = len(rows)
    trace = Trace(
        users=names,
        cells=cells,
        user=user[order],
        time_s=time_s[order],
        position_m=xy_m[order],
        cell=cell_of_row,
        rsrp_dbm=None if table.rsrp_dbm is None else table.rsrp_dbm[rows],
        area=Area.around(xy_m),
        first_day=first_day,
        timezone=zone_name,
        origin_lat=lat_deg,
        origin_lon=lon_deg,
        counts=counts,
        notes=tuple(notes),
    )
    for array in (trace.user, trace.time_s, trace.position_m, trace.cell, trace.rsrp_dbm):
        if array is not None:
            array.setflags(write=False)
    return trace


def repeated(table: Table, rows: IntArray) -> BoolArray:
    """Which of `rows` (n,) equal an earlier one in user, time, cell, place and RSRP."""
    # a missing RSRP (NaN) equals another; no phone measures 0 dBm
    rsrp_dbm = None if table.rsrp_dbm is None else np.nan_to_num(table.rsrp_dbm, nan=0.0)
    keys = [table.lat_deg, table.lon_deg, rsrp_dbm, table.cell, table.time_s, table.user]
    columns = [key[rows] for key in keys if key is not None]
    order = np.lexsort(columns)
    same = np.ones(max(len(rows) - 1, 0), dtype=np.bool_)
    for column in columns:
        same &= column[order][1:] == column[order][:-1]
    out = np.zeros(len(rows), dtype=np.bool_)
    out[order[1:]] = same
    return out


def busiest_cells(table: Table, rows: IntArray, most: int) -> list[tuple[int, int]]:
    """(cell, rows) of the cells with most rows; equals in order of first appearance."""
    if table.cell is None:
        return []
    n_rows = np.bincount(table.cell[rows], minlength=len(table.cells))
    return [(int(c), int(n_rows[c])) for c in np.argsort(-n_rows, kind="stable")[:most] if n_rows[c]]


def rounds_apart(user: IntArray, time_s: FloatArray, round_s: float) -> bool:
    """Whether any user has rows in two rounds."""
    pairs = np.unique(np.column_stack([user, (time_s // round_s).astype(np.int64)]), axis=0)
    return bool(np.any(pairs[1:, 0] == pairs[:-1, 0]))


# --- steps -------------------------------------------------------------------------------------------------


def _check(
    path: str | Path,
    users: str,
    outlier_sigmas: float | None,
    area_deg: tuple[float, float, float, float] | None,
    round_s: float,
) -> None:
    if users not in ("auto", "all", "id", "day"):
        raise BadInput(f"{path}: users: {users!r} is none of auto, all, id, day; use one of these")
    if outlier_sigmas is not None and not outlier_sigmas > 0:
        raise BadInput(f"{path}: outlier_sigmas: {outlier_sigmas!r} is not above 0; use 4, or none to keep all")
    if not 0 < round_s < np.inf:
        raise BadInput(f"{path}: round_s: {round_s!r} is not above 0 and finite; use 86400 for a day")
    if area_deg is not None and not (area_deg[0] < area_deg[2] and area_deg[1] < area_deg[3]):
        order = "lat_min < lat_max and lon_min < lon_max"
        raise BadInput(f"{path}: area_deg: {area_deg} is not lat_min,lon_min,lat_max,lon_max; give {order}")


def _in_scope(
    table: Table,
    since: float | str | None,
    until: float | str | None,
    area_deg: tuple[float, float, float, float] | None,
    counts: dict[str, int],
) -> IntArray:
    """The usable rows in the time window and the box."""
    rows = np.flatnonzero(table.usable)
    if not rows.size:
        raise BadInput(f"{table.path}: no row is usable ({_reasons(counts)}); check those columns of the file")
    rows = _kept(rows, _in_window(table, rows, since, until), "outside_window", counts)
    rows = _kept(rows, _in_area(table, rows, area_deg), "outside_area", counts)
    if not rows.size:
        raise BadInput(_nothing_left(table, counts))
    return rows


def _kept(rows: IntArray, keep: BoolArray, reason: str, counts: dict[str, int]) -> IntArray:
    counts[reason] = int((~keep).sum())
    return np.asarray(rows[keep])


def _in_window(table: Table, rows: IntArray, since: float | str | None, until: float | str | None) -> BoolArray:
    low, high = (_edge(table.path, name, edge) for name, edge in (("since", since), ("until", until)))
    if low is not None and high is not None and not low < high:
        raise BadInput(f"{table.path}: since: {since!r} is not before until: {until!r}; swap or move them")
    time_s = table.time_s[rows]
    keep = np.ones(len(rows), dtype=np.bool_)
    if low is not None:
        keep &= time_s >= low
    if high is not None:
        keep &= time_s < high
    return keep


def _edge(path: str, name: str, edge: float | str | None) -> float | None:
    try:
        return None if edge is None else epoch_s(str(edge))
    except ValueError as error:
        remedy = "write epoch seconds or ISO 8601 with a zone such as 2021-04-21T14:19:53Z"
        raise BadInput(f"{path}: {name}: {edge!r} is not a time ({error}); {remedy}") from error


def _in_area(table: Table, rows: IntArray, area_deg: tuple[float, float, float, float] | None) -> BoolArray:
    if area_deg is None:
        return np.ones(len(rows), dtype=np.bool_)
    box = Area(*area_deg)  # latitude takes the place of x
    return box.contains(np.column_stack([table.lat_deg[rows], table.lon_deg[rows]]))


def _nothing_left(table: Table, counts: dict[str, int]) -> str:
    first, last = (datetime.fromtimestamp(float(t), UTC) for t in (table.time_s.min(), table.time_s.max()))
    south, west, north, east = (f(v) for f in (np.min, np.max) for v in (table.lat_deg, table.lon_deg))
    span = f"{first:%Y-%m-%dT%H:%M:%SZ} to {last:%Y-%m-%dT%H:%M:%SZ}"
    box = f"lat {south:.5f} to {north:.5f}, lon {west:.5f} to {east:.5f}"
    why = f"no row is left ({_reasons(counts)})"
    return f"{table.path}: {why}; the file covers {span}, {box}; widen since, until or area_deg"


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items() if n)


def _choose_cell(table: Table, rows: IntArray, cell: str | None) -> tuple[int | None, list[str]]:
    """The cell to keep, None for all, and notes."""
    if cell == "all" or (cell is None and table.cell is None):
        return None, []
    if table.cell is None:
        remedy = f"leave cell out, or try --columns cell={table.likely.get('cell', 'HEADER')}"
        raise BadInput(f"{table.path}: cell: {cell!r} asked for, but the file has no column cell; {remedy}")
    ten = busiest_cells(table, rows, 10)
    shown = ", ".join(f"{table.cells[c]} ({n})" for c, n in ten)
    if cell is None:
        return ten[0][0], [f"cell: {table.cells[ten[0][0]]} chosen, the busiest; busiest cells (rows): {shown}"]
    present = {table.cells[c]: c for c in np.unique(table.cell[rows])}
    if cell in present:
        return int(present[cell]), []
    near = get_close_matches(cell, present, 3, 0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise BadInput(f"{table.path}: cell: no row of {cell!r}; {hint}busiest cells (rows): {shown}; use one, or all")


def _outlying(xy_m: FloatArray, cell: IntArray | None, sigmas: float | None) -> BoolArray:
    """|z| > sigmas in x or y, with the mean and standard deviation of the cell's rows."""
    out = np.zeros(len(xy_m), dtype=np.bool_)
    if sigmas is None:
        return out
    group = np.zeros(len(xy_m), np.int64) if cell is None else np.unique(cell, return_inverse=True)[1]
    n_rows = np.bincount(group)
    for axis_m in xy_m.T:
        offset_m = axis_m - (np.bincount(group, axis_m) / n_rows)[group]
        sigma_m = np.sqrt(np.bincount(group, offset_m**2) / n_rows)[group]
        out |= np.abs(offset_m) > sigmas * sigma_m
    return out


def _name_users(
    users: Users, table: Table, rows: IntArray, time_s: FloatArray, first_day: date, round_s: float
) -> tuple[tuple[str, ...], IntArray, list[str]]:
    """Names, the user of each row (n,), and notes."""
    ids = table.user[rows]
    notes = []
    if users == "auto":
        users = "id" if rounds_apart(ids, time_s, round_s) else "all"
        if users == "all":
            notes = [f"users: all rows are one target: no user has rows in two rounds of {round_s:g} s"]
    if users == "id":
        names, user = _renumber(table.users, ids)
        return names, np.zeros(len(rows), np.int64) if user is None else user, notes
    if users == "all":
        return ("all",), np.zeros(len(rows), dtype=np.int64), notes
    days, user = np.unique(time_s // DAY_S, return_inverse=True)
    return tuple(str(first_day + timedelta(days=int(day))) for day in days), user.astype(np.int64), notes


def _renumber(names: tuple[str, ...], code: IntArray | None) -> tuple[tuple[str, ...], IntArray | None]:
    """Only the names that still occur, in the old order."""
    if code is None:
        return (), None
    still, renumbered = np.unique(code, return_inverse=True)
    return tuple(names[c] for c in still), renumbered.astype(np.int64)

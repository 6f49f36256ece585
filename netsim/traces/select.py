"""Selection of rows of a table, and definition of users. Rows left out are counted by reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from typing import Literal

import numpy as np

from netsim.clock import DAY_S, Clock
from netsim.errors import BadInput
from netsim.traces.order import Index, taken
from netsim.traces.points import Box
from netsim.traces.table import Table
from netsim.traces.times import epoch_s
from netsim.units import BoolArray, FloatArray, IntArray

Users = Literal["auto", "all", "id", "day", "chain", "segments", "rows"]
Extent = Literal["rows", "stated"]
Window = tuple[float | str | None, float | str | None]


def in_scope(
    table: Table,
    window: Window,
    zone: tzinfo | None,
    area_deg: Box | None,
    area_m: Box | None,
    counts: dict[str, int],
) -> IntArray:
    """The usable rows in the time window and the box; `zone` is that of a window's times without one."""
    rows = np.flatnonzero(table.usable)
    if not rows.size:
        raise BadInput(f"{table.path}: no row is usable ({_reasons(counts)}); check those columns of the file")
    rows = kept(rows, _in_window(table, rows, zone, *window), "outside_window", counts)
    rows = kept(rows, _in_area(table, rows, area_deg, area_m), "outside_area", counts)
    if not rows.size:
        raise BadInput(_nothing_left(table, counts))
    return rows


def kept(rows: IntArray, keep: BoolArray, reason: str, counts: dict[str, int]) -> IntArray:
    """The rows to keep; the others are counted."""
    counts[reason] = int((~keep).sum())
    return rows if not counts[reason] else np.asarray(rows[keep])


def repeated(table: Table, rows: IntArray) -> BoolArray:
    """Which of `rows` (n,) equal an earlier one in user, time, cell, place and RSRP."""
    # a missing RSRP (NaN) equals another; no phone measures 0 dBm
    rsrp_dbm = None if table.rsrp_dbm is None else np.nan_to_num(table.rsrp_dbm, nan=0.0)
    keys = [*table.points.columns, rsrp_dbm, table.cell, table.time_s, table.user]
    columns = [key[rows] for key in keys if key is not None]
    order = np.lexsort(columns)
    same = np.ones(max(len(rows) - 1, 0), dtype=np.bool_)
    for column in columns:
        same &= column[order][1:] == column[order][:-1]
    out = np.zeros(len(rows), dtype=np.bool_)
    out[order[1:]] = same
    return out


def choose_cell(table: Table, rows: IntArray, cell: str | None) -> tuple[int | None, list[str]]:
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


def busiest_cells(table: Table, rows: IntArray, most: int) -> list[tuple[int, int]]:
    """(cell, rows) of the cells with most rows; equals in order of first appearance."""
    if table.cell is None:
        return []
    n_rows = np.bincount(table.cell[rows], minlength=len(table.cells))
    return [(int(c), int(n_rows[c])) for c in np.argsort(-n_rows, kind="stable")[:most] if n_rows[c]]


def outlying(xy_m: FloatArray, cell: Index | None, sigmas: float | None) -> BoolArray:
    """|z| > sigmas in x or y, with the mean and standard deviation of the cell's rows."""
    out = np.zeros(len(xy_m), dtype=np.bool_)
    if sigmas is None:
        return out
    group = np.zeros(len(xy_m), np.int32) if cell is None else cell
    n_rows = np.maximum(np.bincount(group), 1)
    for axis_m in xy_m.T:
        offset_m = axis_m - (np.bincount(group, axis_m) / n_rows)[group]
        sigma_m = np.sqrt(np.bincount(group, offset_m**2) / n_rows)
        out |= np.abs(offset_m) > (sigmas * sigma_m)[group]
    return out


def rounds_apart(user: Index, time_s: FloatArray, round_s: float, clock: Clock) -> bool:
    """Whether any user has rows in two rounds."""
    round_ = clock.round_of(time_s, round_s)
    n_users = int(user.max()) + 1
    first, last = np.full(n_users, np.iinfo(np.int64).max), np.full(n_users, np.iinfo(np.int64).min)
    np.minimum.at(first, user, round_)
    np.maximum.at(last, user, round_)
    return bool(np.any(last > first))


CHAIN_M = 1609.344  # a mile
BACKGROUND = "background"


def chained(ids: Index, time_s: FloatArray, xy_m: FloatArray, reach_m: float) -> IntArray:
    """Chain of each id (n_ids,): 0 for the background, then 1, 2, ... by falling number of rows.

    An id (a file, a drive) goes on with the chain that ended nearest to where it begins, if that is within reach_m
    and the chain had ended by then. Ids that nothing precedes or follows are the
    background.
    """
    order = np.lexsort((time_s, ids))
    edge = np.flatnonzero(np.diff(ids[order], prepend=-1))
    first, last = order[edge], order[np.append(edge[1:], len(order)) - 1]
    who = ids[first]
    chain_of = np.full(int(ids.max()) + 1, -1)
    ends_s: list[float] = []
    ends_m: list[FloatArray] = []
    for k in np.argsort(time_s[first], kind="stable"):
        begins_m, best = xy_m[first[k]], -1
        if ends_s:
            away_m = np.linalg.norm(np.array(ends_m) - begins_m, axis=1)
            away_m[np.array(ends_s) > time_s[first[k]]] = np.inf
            best = int(np.argmin(away_m)) if away_m.min() <= reach_m else -1
        if best < 0:
            best = len(ends_s)
            ends_s.append(0.0)
            ends_m.append(begins_m)
        ends_s[best], ends_m[best] = time_s[last[k]], xy_m[last[k]]
        chain_of[who[k]] = best
    n_ids = np.bincount(chain_of[who], minlength=len(ends_s))
    n_rows = np.bincount(chain_of[ids], minlength=len(ends_s))
    real = np.flatnonzero(n_ids > 1)
    number = np.zeros(len(ends_s), dtype=np.int64)
    number[real[np.argsort(-n_rows[real], kind="stable")]] = np.arange(1, len(real) + 1)
    return np.where(chain_of >= 0, number[chain_of], 0)


def consecutive(time_s: FloatArray, segments: int) -> IntArray:
    """The segment of each row (n,): rows in order of time, cut into equal parts; sizes differ by one at most."""
    user = np.empty(len(time_s), dtype=np.int64)
    user[np.argsort(time_s, kind="stable")] = np.arange(len(time_s)) * segments // len(time_s)
    return user


def name_users(
    users: Users,
    names: tuple[str, ...],
    ids: Index,
    time_s: FloatArray,
    xy_m: FloatArray,
    clock: Clock,
    round_s: float,
    segments: int | None = None,
) -> tuple[tuple[str, ...], IntArray, list[str]]:
    """Names, the user of each row (n,), and notes; `ids` (n,) index `names` of the file."""
    notes = []
    if users == "segments" and segments is not None:
        user = consecutive(time_s, segments)
        few, many = np.bincount(user, minlength=segments).min(), np.bincount(user).max()
        notes = [f"users: all rows in order of time, cut into {segments} segments of {few} to {many} rows"]
        return tuple(f"segment{k}" for k in range(1, segments + 1)), user, notes
    if users == "rows":
        return tuple(f"row{k}" for k in range(1, len(ids) + 1)), np.arange(len(ids)), ["users: every row is a user"]
    if users == "auto":
        users = "id" if rounds_apart(ids, time_s, round_s, clock) else "all"
        if users == "all":
            notes = [f"users: all rows are one target: no user has rows in two rounds of {round_s:g} s"]
    if users == "id":
        return *renumbered(names, ids), notes
    if users == "all":
        return ("all",), np.zeros(len(ids), dtype=np.int64), notes
    if users == "chain":
        chain = chained(ids, time_s, xy_m, CHAIN_M)
        labels = (BACKGROUND, *(f"chain{k}" for k in range(1, int(chain.max()) + 1)))
        n_alone = int((chain[np.unique(ids)] == 0).sum())
        notes = [
            f"users: {len(labels) - 1} chains of drives, each beginning within a mile of where the last ended; "
            f"{n_alone} other drives are one background user"
        ]
        return *renumbered(labels, chain[ids]), notes
    days, user = np.unique(clock.wall_s(time_s) // DAY_S, return_inverse=True)
    return tuple(str(clock.first_day + timedelta(days=int(day))) for day in days), user.astype(np.int64), notes


def renumbered(names: tuple[str, ...], code: Index) -> tuple[tuple[str, ...], IntArray]:
    """Only the names that still occur, in the old order, and each row's place among them (n,)."""
    still = np.bincount(code, minlength=len(names)) > 0
    return tuple(name for name, here in zip(names, still, strict=True) if here), (np.cumsum(still) - 1)[code]


def _in_window(
    table: Table, rows: IntArray, zone: tzinfo | None, since: float | str | None, until: float | str | None
) -> BoolArray:
    low, high = (_edge(table.path, name, edge, zone) for name, edge in (("since", since), ("until", until)))
    if low is not None and high is not None and not low < high:
        raise BadInput(f"{table.path}: since: {since!r} is not before until: {until!r}; swap or move them")
    keep = np.ones(len(rows), dtype=np.bool_)
    if low is not None:
        keep &= taken(table.time_s, rows) >= low
    if high is not None:
        keep &= taken(table.time_s, rows) < high
    return keep


def _edge(path: str, name: str, edge: float | str | None, zone: tzinfo | None) -> float | None:
    try:
        return None if edge is None else epoch_s(str(edge), zone)
    except ValueError as error:
        raise BadInput(f"{path}: {name}: {error}") from error


def _in_area(table: Table, rows: IntArray, area_deg: Box | None, area_m: Box | None) -> BoolArray:
    asked = {("lat", "lon"): area_deg, ("x_m", "y_m"): area_m}
    box = asked.pop(table.points.names)
    if any(asked.values()):
        wrong, right = ("area_m", "area_deg") if area_m is not None else ("area_deg", "area_m")
        has = " and ".join(table.points.names)
        raise BadInput(f"{table.path}: {wrong}: the trace has {has}; give {right}, or leave it out")
    return np.ones(len(rows), dtype=np.bool_) if box is None else table.points.at(rows).inside(box)


def _nothing_left(table: Table, counts: dict[str, int]) -> str:
    first, last = (datetime.fromtimestamp(float(t), UTC) for t in (table.time_s.min(), table.time_s.max()))
    span = f"{first:%Y-%m-%dT%H:%M:%SZ} to {last:%Y-%m-%dT%H:%M:%SZ}"
    why = f"no row is left ({_reasons(counts)})"
    area = "area_deg" if table.points.names == ("lat", "lon") else "area_m"
    return f"{table.path}: {why}; the file covers {span}, {table.points.extent()}; widen since, until or {area}"


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items() if n)

"""Hourly series of places, from a trace file or from the movement of a world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from netsim.clock import Clock
from netsim.errors import BadInput
from netsim.mobility.base import Ground, Mobility, State
from netsim.mobility.statistics import UNKNOWN, WEEK_H, Series, cells, filled
from netsim.traces.files import TraceFile
from netsim.traces.inspect import view_of
from netsim.units import FloatArray, IntArray

_HOUR_S = 3600.0
_MAX_HOURS = 20_000_000  # of all UEs together: 24 bytes each


def trace_series(
    path: str | Path, cell_m: float, fill_h: float, columns: Mapping[str, str] | None = None, **settings: Any
) -> Iterator[Series]:
    """The series of every user of a trace: the last row of each hour of the wall clock.

    cell_m : side of a place; 0: every distinct position is one, for check-ins. fill_h : see `statistics.filled`.
    settings : of a `TraceFile`. Raises `BadInput` with one line.
    """
    file = TraceFile(trace=str(path), columns=dict(columns or {}), **settings)
    view = view_of(file.table(), file.timezone)
    user, xy_m = view.moves.user[view.fixes], view.moves.xy_m[view.fixes]
    place = cells(xy_m, cell_m)
    hour = np.floor(view.local_s[view.fixes] / _HOUR_S).astype(np.int64)
    for own in np.split(np.arange(len(user)), np.flatnonzero(np.diff(user)) + 1):
        hours = np.arange(hour[own].min(), hour[own].max() + 1)
        row = np.full(len(hours), UNKNOWN)
        row[hour[own] - hours[0]] = own  # of several rows in an hour the last one written stays
        row = filled(row, fill_h)
        yield Series(np.where(row >= 0, place[row], UNKNOWN), xy_m[row], _of_week(hours, view.clock))


def played_series(
    mobility: Mobility, state: State, ground: Ground, duration_s: float, cell_m: float, fill_h: float
) -> Iterator[Series]:
    """The series of all UEs that move from `state` at time 0: where they are at the end of each hour.

    cell_m : side of a place; 0: the building a UE is in, unknown outdoors. fill_h : see `statistics.filled`.
    """
    n_hours = int(duration_s // _HOUR_S)
    if cell_m == 0 and state.indoors() is None:
        raise BadInput(
            f"--cell-m 0: mobility {mobility.kind_name()} puts no UE into buildings; give the side of a cell in m, "
            "such as 250"
        )
    if n_hours * len(state.position_m) > _MAX_HOURS:
        most = max(1, _MAX_HOURS // n_hours)
        raise BadInput(
            f"world.ues.count: {len(state.position_m):,} UEs for {n_hours:,} hours are too many to keep; give "
            f"--set world.ues.count={most} or less"
        )
    position_m, building = np.empty((n_hours, len(state.position_m), 2)), []
    for h in range(n_hours):
        state, _ = mobility.advance(state, h * _HOUR_S, (h + 1) * _HOUR_S, ground)
        position_m[h] = state.position_m
        inside = state.indoors()
        if cell_m == 0 and inside is not None:
            building.append(inside.building)
    place = cells(position_m, cell_m) if cell_m > 0 else np.array(building)
    wall_s = ground.clock.wall_s(np.asarray((np.arange(n_hours) + 0.5) * _HOUR_S, dtype=np.float64))
    week = _of_week(np.floor(wall_s / _HOUR_S).astype(np.int64), ground.clock)
    for ue in range(len(state.position_m)):
        yield Series(filled(place[:, ue], fill_h), _carried(position_m[:, ue]), week)


def _carried(position_m: FloatArray) -> FloatArray:
    """Positions (h, 2), of an absent UE the last known one."""
    known = np.isfinite(position_m).all(axis=1)
    last = np.maximum.accumulate(np.where(known, np.arange(len(position_m)), 0))
    return position_m[last]


def _of_week(hour: IntArray, clock: Clock) -> IntArray:
    """Hours of the week of hours counted from the first local midnight."""
    return (24 * clock.weekday(0) + hour) % WEEK_H

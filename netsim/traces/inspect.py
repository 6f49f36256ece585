"""Summary of a trace file, for the user before a first run."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import numpy as np

from netsim.clock import DAY_S, Clock
from netsim.traces.crs import AUTO
from netsim.traces.doubts import TraceSteps, doubts, steps_of
from netsim.traces.files import Format, read_table
from netsim.traces.formats.detect import TITLES
from netsim.traces.resample import Moves
from netsim.traces.select import busiest_cells, outlying, repeated
from netsim.traces.table import Table
from netsim.traces.trace import first_midnight, local_zone, wall_clock
from netsim.units import FloatArray, IntArray

LONG_GAP_S = 600.0
FAR_SIGMAS = 4.0  # deviations from the mean of a cell, beyond which it is worth looking
OUTLIERS_KEY = "world.ues.mobility.outlier_sigmas"
FEWEST_ROUNDS = 6
_ROUNDS = {
    "1s": 1.0, "10s": 10.0, "30s": 30.0, "1min": 60.0, "5min": 300.0, "10min": 600.0, "30min": 1800.0, "1h": 3600.0,
    "3h": 10_800.0, "6h": 21_600.0,
}  # fmt: skip
_QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def inspect_trace(
    path: str | Path,
    columns: Mapping[str, str] | None = None,
    *,
    format: Format = "auto",
    crs: str = AUTO,
    timezone: str = "auto",
) -> str:
    """A plain-text summary of under 40 lines. Raises `BadInput` as `read_table` does."""
    table = read_table(path, columns, format=format, crs=crs, timezone=timezone)
    used = np.flatnonzero(table.usable)
    used = used[~repeated(table, used)]
    view = view_of(table.at(used) if used.size else table, timezone)
    facts = [
        *_file(table, len(used)),
        *_span(view),
        *_users(view),
        *_steps(view),
        *_signal(table),
        *_cells(view),
        *_outliers(view),
        ("try", _command(view, columns or {}, timezone)),
    ]
    return "\n".join(_fitted(name, text) for name, text in facts)


def _fitted(name: str, text: str) -> str:
    """A fact beside its name, on lines of 100 columns; a command stays on one line, so that it can be copied."""
    if name == "try":
        return f"{name:<17}{text}"
    lines = textwrap.wrap(text, 83, break_long_words=False, break_on_hyphens=False, drop_whitespace=False)
    return "\n".join(f"{name if i == 0 else '':<17}{line}".rstrip() for i, line in enumerate(lines or [""]))


_Facts = Iterator[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class TraceView:
    """The table with derived columns that several facts share.

    local_s (n,) from the first local midnight by the wall clock; fixes : rows sorted by (user, time), one per user and
    time; gap_s (m,) between consecutive fixes of one user, whose index is `walker` (m,).
    """

    table: Table
    zone: tzinfo
    zone_name: str
    zone_notes: list[str]
    clock: Clock
    local_s: FloatArray
    xy_m: FloatArray
    fixes: IntArray
    gap_s: FloatArray
    walker: IntArray
    steps: TraceSteps
    doubts: tuple[str, ...]


def view_of(table: Table, timezone: str) -> TraceView:
    """The view of all rows of a table."""
    plane = table.points.plane()
    zone, zone_name, notes = local_zone("auto" if table.relative else timezone, plane.lon_deg)
    if table.relative:
        zone, zone_name, notes = UTC, "UTC", []
    first_day, midnight_s = first_midnight(float(table.time_s.min()), zone)
    clock = wall_clock(first_day, midnight_s, zone, float(table.time_s.max()) - midnight_s)
    order = np.lexsort((table.time_s, table.user))
    user, time_s = table.user[order], table.time_s[order]
    new = np.append(True, (np.diff(user) != 0) | (np.diff(time_s) > 0))
    fixes = order[new]
    user = table.user[fixes]
    same = user[1:] == user[:-1]
    moves = Moves(table.user, table.time_s, plane.xy_m)
    steps = steps_of(moves)
    return TraceView(
        table=table,
        zone=zone,
        zone_name=zone_name,
        zone_notes=notes,
        clock=clock,
        local_s=clock.wall_s(table.time_s - midnight_s),
        xy_m=plane.xy_m,
        fixes=fixes,
        gap_s=np.diff(table.time_s[fixes])[same],
        walker=user[1:][same],
        steps=steps,
        doubts=doubts(table.points, moves, steps),
    )


def _file(table: Table, n_usable: int) -> _Facts:
    yield "file", f"{table.path} ({table.n_bytes / 1e6:.1f} MB)"
    yield "format", f"{table.format}: {TITLES[table.format]}"
    n_repeated = int(repeated(table, np.arange(len(table))).sum())
    n_rows = len(table) + sum(table.skipped.values())
    yield "rows", f"{n_rows:,}, of which usable {n_usable:,}, exact duplicates {n_repeated:,}"
    unusable = ", ".join(f"{reason} {n:,}" for reason, n in (table.skipped | table.counts).items() if n)
    yield "unusable", unusable or "none"
    if table.header_of:
        yield "columns", ", ".join(o if o == h else f"{o}={h}" for o, h in table.header_of.items())
        yield "ignored", _clipped(", ".join(table.ignored)) or "none"
    for note in table.notes:
        yield "note", note


def _span(view: TraceView) -> _Facts:
    first, last = float(view.table.time_s.min()), float(view.table.time_s.max())
    if view.table.relative:
        yield "time", f"{first:g} s to {last:g} s, counted from a midnight without a date"
    else:
        for name, zone in {"UTC": UTC, view.zone_name: view.zone}.items():
            ends = " to ".join(f"{datetime.fromtimestamp(t, zone):%Y-%m-%d %H:%M:%S}" for t in (first, last))
            yield (f"time {name}", ends) if len(name) < 12 else ("time local", f"{ends} ({name})")
    for note in view.zone_notes:
        yield "", f"guessed {note.replace('an IANA name sets another', '--timezone NAME sets another')}"
    if view.clock.changes:
        yield "", f"clocks change on {', '.join(view.clock.text(at_s)[:10] for at_s, _ in view.clock.changes[:4])}"
    days = len(np.unique(view.local_s // DAY_S))
    yield "", f"{(last - first) / DAY_S:.1f} days from first to last, rows on {days} local day{'s' * (days != 1)}"
    yield "area", view.table.points.extent()
    width_m, height_m = np.ptp(view.xy_m, axis=0)
    yield "", f"{width_m:,.0f} m east-west, {height_m:,.0f} m north-south"


def _users(view: TraceView) -> _Facts:
    n_rows = np.bincount(view.table.user)
    n_rows = n_rows[n_rows > 0]
    yield "users", f"{len(n_rows):,}; rows per user: {_spread(n_rows)}"


def _steps(view: TraceView) -> _Facts:
    for doubt in view.doubts:
        yield "doubtful", doubt
    if not len(view.gap_s):
        yield "gaps", "no user has two fixes at different times"
        return
    long = view.gap_s > LONG_GAP_S
    yield "sampling", f"median interval per user, s: {_spread(_medians(view.walker, view.gap_s))}"
    share = f"{100 * long.mean():.2f} % of gaps exceed {LONG_GAP_S / 60:.0f} min"
    yield "gaps", f"{share}; the longest is {_duration(float(view.gap_s.max()))}"
    recorded = view.table.speed_mps
    known = np.zeros(0) if recorded is None else recorded[np.isfinite(recorded)]
    median = f"; recorded median {np.median(known):.1f} m/s" if known.size else ""
    yield "speed", f"{view.steps.speed}{median}"


def _signal(table: Table) -> _Facts:
    if table.rsrp_dbm is None:
        yield "RSRP", "no column rsrp_dbm"
    elif table.usable.any():
        low, middle, high = np.quantile(table.rsrp_dbm[table.usable], (0.0, 0.5, 1.0))
        yield "RSRP dBm", f"from {low:.1f} to {high:.1f}, median {middle:.1f}"


def _cells(view: TraceView) -> _Facts:
    table = view.table
    if table.cell is None:
        yield "cells", "no column cell"
        return
    usable = np.flatnonzero(table.usable)
    yield "cells", f"{len(table.cells):,}; the busiest:"
    for cell, n in busiest_cells(table, usable, 10):
        rows = usable[table.cell[usable] == cell]
        users, days = len(np.unique(table.user[rows])), len(np.unique(view.local_s[rows] // DAY_S))
        name = _clipped(table.cells[cell], 24)
        yield "", f"{name:<24} {n:>9,} rows {users:>6,} users {days:>4,} days"


def _outliers(view: TraceView) -> _Facts:
    """The effect of leaving out far rows of the busiest cell, which a replay takes by default."""
    table, rows = view.table, np.flatnonzero(view.table.usable)
    if not rows.size:
        return
    busiest = busiest_cells(table, rows, 1)
    if busiest and table.cell is not None:
        rows = rows[table.cell[rows] == busiest[0][0]]
    xy_m = view.xy_m[rows]
    far = outlying(xy_m, None, FAR_SIGMAS)
    of = f"of cell {_clipped(table.cells[busiest[0][0]], 24)}" if busiest else "of the file"
    if not far.any():
        yield "outliers", f"no row {of} is further than {FAR_SIGMAS:g} standard deviations from its mean"
        return
    before, after = (" x ".join(f"{side:,.0f}" for side in np.ptp(at, axis=0)) for at in (xy_m, xy_m[~far]))
    share = f"{far.sum():,} of {len(far):,} rows {of} are further than {FAR_SIGMAS:g} standard deviations from its mean"
    yield "outliers", share
    yield "", f"all are kept; --set {OUTLIERS_KEY}={FAR_SIGMAS:g} drops them: {before} m becomes {after} m"


def _command(view: TraceView, columns: Mapping[str, str], timezone: str) -> str:
    """A first run: the busiest cell, and rounds that suit the length of the trace."""
    table = view.table
    words = ["netsim", "replay", table.path]
    if columns:
        words += ["--columns", ",".join(f"{ours}={header}" for ours, header in columns.items())]
    busiest = busiest_cells(table, np.flatnonzero(table.usable), 1)
    if busiest:
        words += ["--cell", table.cells[busiest[0][0]]]
    if timezone != "auto":
        words += ["--timezone", timezone]
    return shlex.join([*words, "--round", _round(view)])


def _round(view: TraceView) -> str:
    """A day for a trace of more than two; else the longest usual round of which it has six, and in which most users
    have two fixes.
    """
    span_s = float(np.ptp(view.table.time_s))
    if span_s > 2 * DAY_S:
        return "24h"
    fixes_s = 2.0 * float(np.median(_medians(view.walker, view.gap_s))) if len(view.gap_s) else 0.0
    suits = [name for name, length_s in _ROUNDS.items() if fixes_s <= length_s <= span_s / FEWEST_ROUNDS]
    longer = [name for name, length_s in _ROUNDS.items() if length_s >= fixes_s]
    return suits[-1] if suits else longer[0] if longer else "24h"


def _medians(group: IntArray, value: FloatArray) -> FloatArray:
    """The median of each group."""
    order = np.lexsort((value, group))
    pieces = np.split(value[order], np.flatnonzero(np.diff(group[order])) + 1)
    return np.array([np.median(piece) for piece in pieces])


def _spread(value: FloatArray | IntArray) -> str:
    """Minimum, quartiles and maximum."""
    low, q1, q2, q3, high = (f"{v:,.0f}" if abs(v) >= 100 else f"{v:.3g}" for v in np.quantile(value, _QUANTILES))
    return high if len(value) == 1 else f"min {low}, quartiles {q1}, {q2}, {q3}, max {high}"


def _duration(time_s: float) -> str:
    for unit, length_s in (("days", DAY_S), ("h", 3600.0), ("min", 60.0)):
        if time_s >= length_s:
            return f"{time_s / length_s:.1f} {unit}"
    return f"{time_s:g} s"


def _clipped(text: str, most: int = 90) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."

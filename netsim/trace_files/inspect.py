"""Summary of a trace file, for the user before a first run."""

import shlex
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np

from netsim.clock import DAY_S, Clock
from netsim.columns import frozen
from netsim.errors import format_count
from netsim.notice import list_doubts
from netsim.trace_files.read import (
    TraceFile,
    count_rows_by_cell,
    find_outliers,
    find_repeated,
    list_formats,
    make_trace_file,
)
from netsim.traces.moves import Index, Moves, measure_steps, report_doubts
from netsim.traces.source import Headers
from netsim.traces.table import TraceTable
from netsim.traces.trace import LocalTime
from netsim.units import FloatArray, IntArray

LONG_GAP_S = 600.0
FAR_SIGMAS = 4.0  # deviations from the mean of a cell, beyond which it is worth looking
OUTLIERS_KEY = "world.ues.mobility.outlier_sigmas"
FEWEST_ROUNDS = 6
FEWEST_ROWS = 30  # of a map
_ROUNDS = {
    "1s": 1,
    "10s": 10,
    "30s": 30,
    "1min": 60,
    "5min": 300,
    "10min": 600,
    "30min": 1800,
    "1h": 3600,
    "3h": 10_800,
    "6h": 21_600,
}
_Facts = Iterator[tuple[str, str]]


def inspect_trace(path: str | Path, columns: Headers | str = "", **settings: object) -> str:
    """A plain-text summary of under 40 lines; settings : of a `TraceFile`. Raises `BadInput` with
    one line.
    """
    file = make_trace_file(path, columns, **settings)
    table = file.read_fixes(guesses=True)
    file = file.model_copy(update={"timezone": table.facts.get("guessed zone", file.timezone)})
    again = find_repeated(table)
    columns = table.facts.pop("option", "")
    view = build_view(table.keep_rows(~again, "duplicate"), file.timezone)
    facts = [
        *_describe_file(table, again.sum()),
        *_describe_span(view),
        *_describe_users(view),
        *_describe_signal(table),
        *_describe_cells(view),
        *_describe_outliers(view),
        *_suggest_command(view, file, columns),
    ]
    return "\n".join(_wrap_fact(name, text) for name, text in facts)


def _wrap_fact(name: str, text: str) -> str:
    """A fact beside its name, on lines of 100 columns; a command stays on one line, so that it can
    be copied.
    """
    if name == "try":
        return f"{name:<17}{text}"
    lines = textwrap.wrap(
        text,
        initial_indent=f"{name:<17}",
        width=100,
        subsequent_indent="                 ",
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=False,
    )
    return "\n".join(map(str.rstrip, lines)) or name


@frozen
class TraceView:
    """A table on a local plane and clock.

    local_s (n,) from the first local midnight by the wall clock; fixes (m,) : rows sorted by (user,
    time), one per user and time.
    """

    table: TraceTable
    local: LocalTime
    clock: Clock
    local_s: FloatArray
    moves: Moves
    fixes: IntArray

    @cached_property
    def doubts(self) -> list[str]:
        return list_doubts([*self.table.notices, *report_doubts(self.table, self.moves)])


def _find_gaps(user: Index, time_s: FloatArray) -> tuple[Index, FloatArray]:
    """The user of each step between consecutive fixes of one user, and its seconds."""
    same = user[1:] == user[:-1]
    return user[1:][same], np.diff(time_s)[same]


def build_view(table: TraceTable, timezone: str) -> TraceView:
    """The view of all rows of a table."""
    plane = table.coordinates.to_plane(table.fixes.place)
    user = table.fixes.user
    time_s = table.fixes.time_s
    local = LocalTime.from_zone(table.choose_zone(timezone), plane.lon_deg, time_s.min())
    clock = local.build_clock(time_s.max() - local.midnight_s)
    order = np.lexsort((time_s, user))
    is_new_user = np.diff(user[order]) != 0
    new = np.append(True, is_new_user | (np.diff(time_s[order]) > 0))
    local_s = clock.wall_s(time_s - local.midnight_s)
    return TraceView(table, local, clock, local_s, Moves(user, time_s, plane.xy_m), order[new])


def _describe_file(table: TraceTable, n_repeated: int) -> _Facts:
    yield "file", table.path
    yield "format", f"{table.format}: {list_formats()[table.format].title()}"
    yield (
        "rows",
        f"{table.n_read:,}, of which usable {len(table) - n_repeated:,}, exact "
        f"duplicates {n_repeated:,}",
    )
    yield "unusable", table.format_reasons() or "none"
    for word, text in table.facts.items():
        yield word, _clip_text(text)
    for notice in table.notices:
        if notice.severity == "note":
            yield "note", notice.line


def _describe_span(view: TraceView) -> _Facts:
    first = view.moves.time_s.min()
    last = view.moves.time_s.max()
    if view.table.relative:
        yield "time", f"{first:g} s to {last:g} s, counted from a midnight without a date"
    else:
        for name, zone in {"UTC": UTC, view.local.name: view.local.zone}.items():
            ends = " to ".join(
                f"{datetime.fromtimestamp(t, zone):%Y-%m-%d %H:%M:%S}" for t in (first, last)
            )
            yield (f"time {name}", ends) if len(name) < 12 else ("time local", f"{ends} ({name})")
    for guess in view.local.notices:
        yield "", f"guessed {guess.says}; --timezone NAME sets another"
    if view.clock.changes:
        yield (
            "",
            f"clocks change on "
            f"{', '.join(view.clock.to_text(at_s)[:10] for at_s, _ in view.clock.changes[:4])}",
        )
    days = len(np.unique(view.local_s // DAY_S))
    yield (
        "",
        f"{(last - first) / DAY_S:.1f} days from first to last, rows on "
        f"{format_count(days, 'local day')}",
    )
    yield "area", view.table.coordinates.describe_extent(view.table.fixes.place)
    width_m, height_m = np.ptp(view.moves.xy_m, axis=0)
    yield "", f"{width_m:,.0f} m east-west, {height_m:,.0f} m north-south"


def _describe_users(view: TraceView) -> _Facts:
    _, n_rows = np.unique(view.moves.user, return_counts=True)
    yield "users", f"{len(n_rows):,}; rows per user: {_format_spread(n_rows)}"
    for doubt in view.doubts:
        yield "doubtful", doubt
    walker, gap_s = _find_gaps(view.moves.user[view.fixes], view.moves.time_s[view.fixes])
    if not len(gap_s):
        yield "gaps", "no user has two fixes at different times"
        return
    yield (
        "sampling",
        f"median interval per user, s: {_format_spread(_compute_medians(walker, gap_s))}",
    )
    share = f"{100 * (gap_s > LONG_GAP_S).mean():.2f} % of gaps exceed {LONG_GAP_S / 60:.0f} min"
    yield "gaps", f"{share}; the longest is {_format_duration(gap_s.max())}"
    yield "speed", measure_steps(view.moves).speed


def _describe_signal(table: TraceTable) -> _Facts:
    if table.fixes.rsrp_dbm is None:
        yield "RSRP", "no column rsrp_dbm: replay would simulate the signals of base stations"
    else:
        low, middle, high = np.quantile(table.fixes.rsrp_dbm, (0.0, 0.5, 1.0))
        yield "RSRP dBm", f"from {low:.1f} to {high:.1f}, median {middle:.1f}"


def _describe_cells(view: TraceView) -> _Facts:
    cells = view.table.cells
    cell = view.table.fixes.cell
    if cell is None:
        yield "cells", "no column cell"
        return
    yield "cells", f"{len(cells):,}; the busiest (--cell all takes every one):"
    for number, n in count_rows_by_cell(view.table)[:10]:
        rows = cell == number
        users = len(np.unique(view.moves.user[rows]))
        days = len(np.unique(view.local_s[rows] // DAY_S))
        counts = (
            f"{format_count(n, 'row'):>14} {format_count(users, 'user'):>12} "
            f"{format_count(days, 'day'):>9}"
        )
        yield "", f"{_clip_text(cells[number], 24):<24} {counts}"


def _describe_outliers(view: TraceView) -> _Facts:
    """The effect of leaving out far rows of the busiest cell, which a replay takes by default."""
    xy_m = view.moves.xy_m
    source = "of the file"
    if busiest := count_rows_by_cell(view.table):
        xy_m = xy_m[view.table.fixes.cell == busiest[0][0]]
        source = f"of cell {_clip_text(view.table.cells[busiest[0][0]], 24)}"
    yield "positions", f"{len(np.unique(xy_m, axis=0)):,} distinct {source}"
    far = find_outliers(xy_m, None, FAR_SIGMAS)
    yield (
        "outliers",
        f"{far.sum():,} of {len(far):,} rows {source} are further than {FAR_SIGMAS:g} standard "
        f"deviations from its mean",
    )
    if far.any():
        width_m, height_m = np.ptp(xy_m[~far], axis=0)
        yield (
            "",
            f"all are kept; --set {OUTLIERS_KEY}={FAR_SIGMAS:g} drops them, and leaves "
            f"{width_m:,.0f} x {height_m:,.0f} m",
        )


def _suggest_command(view: TraceView, file: TraceFile, columns: str) -> _Facts:
    """A command of the file, with the columns that it probably means, and the choice among its
    cells.
    """
    words = ["netsim", "replay", file.trace]
    for option in ("format", "timezone", "dates"):
        if (value := getattr(file, option)) != "auto":
            words += [f"--{option}", value]
    words += [*shlex.split(columns), *["--survey"] * file.survey]
    table = view.table
    fixes = view.fixes
    n_rows = len(table)
    cells = table.fixes.cell
    if cells is not None and (busiest := count_rows_by_cell(table)):
        words += ["--cell", "all"]
        if busiest[0][1] > 1:
            cell, n_rows = busiest[0]
            words[-1] = table.cells[cell]
            fixes = fixes[cells[fixes] == cell]
    if n_rows < FEWEST_ROWS:
        yield (
            "hopeless",
            f"a map of {n_rows} rows; log hundreds, along kilometres, or try --cell all",
        )
    moves = view.moves.select(fixes)
    if view.doubts:
        yield (
            "first",
            "mend what is doubtful above: until then the command below plays such rows as true",
        )
    yield (
        "try",
        shlex.join([*words, "--round", choose_round(moves.user, moves.time_s)]),
    )


def choose_round(user: Index, time_s: FloatArray) -> str:
    """A day for a trace of more than two; else the longest usual round of which it has six, and in
    which most users have two fixes.

    user, time_s (n,) : fixes sorted by (user, time), one per user and time.
    """
    walker, gap_s = _find_gaps(user, time_s)
    span_s = np.ptp(time_s)
    fixes_s = 0.0
    if len(gap_s):
        fixes_s = 2.0 * np.median(_compute_medians(walker, gap_s))
    longer = [name for name, length_s in _ROUNDS.items() if length_s >= fixes_s]
    if span_s > 2 * DAY_S or not longer:
        return "24h"
    return [
        name for name in longer if name == longer[0] or _ROUNDS[name] <= span_s / FEWEST_ROUNDS
    ][-1]


def _compute_medians(group: Index, value: FloatArray) -> FloatArray:
    from scipy.ndimage import median

    return median(value, group, np.unique(group))


def _format_spread(value: FloatArray | IntArray) -> str:
    quantiles = np.quantile(value, (0.0, 0.25, 0.5, 0.75, 1.0))
    low, q1, q2, q3, high = (f"{v:,.0f}" if abs(v) >= 100 else f"{v:.3g}" for v in quantiles)
    if len(value) == 1:
        return high
    return f"min {low}, quartiles {q1}, {q2}, {q3}, max {high}"


def _format_duration(time_s: float) -> str:
    for unit, length_s in (("days", DAY_S), ("h", 3600.0), ("min", 60.0)):
        if time_s >= length_s:
            return f"{time_s / length_s:.1f} {unit}"
    return f"{time_s:g} s"


def _clip_text(text: str, max_length: int = 90) -> str:
    if len(text) <= max_length:
        return text
    return text[: max_length - 3] + "..."

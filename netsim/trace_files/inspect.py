"""Summary of a trace file, for the user before a first run."""

import shlex
import textwrap
from datetime import UTC, datetime
from functools import cached_property
from itertools import starmap
from pathlib import Path

import numpy as np

from netsim.clock import DAY_S, Clock
from netsim.columns import frozen
from netsim.notice import list_doubts
from netsim.texts import render_facts
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

FAR_SIGMAS = 4.0  # deviations from the mean of a cell, beyond which it is worth looking
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
    busiest = count_rows_by_cell(view.table)
    xy_m = view.moves.xy_m
    if busiest:
        xy_m = xy_m[view.table.fixes.cell == busiest[0][0]]
    walker, gap_s = _find_gaps(view.moves.user[view.fixes], view.moves.time_s[view.fixes])
    n_rows, command = _suggest_command(view, file, columns)
    facts = render_facts(
        __package__,
        "inspect.txt",
        table=table,
        view=view,
        title=list_formats()[table.format].title(),
        n_repeated=again.sum(),
        rows_of_users=np.unique(view.moves.user, return_counts=True)[1],
        gap_s=gap_s,
        walker=walker,
        compute_medians=_compute_medians,
        measure_steps=measure_steps,
        busiest=busiest,
        xy_m=xy_m,
        far=find_outliers(xy_m, None, FAR_SIGMAS),
        far_sigmas=FAR_SIGMAS,
        n_rows=n_rows,
        fewest_rows=FEWEST_ROWS,
        day_s=DAY_S,
        utc=UTC,
        to_date=datetime.fromtimestamp,
        np=np,
    )
    # the command stays on one line, so that it can be copied
    return "\n".join([*starmap(_wrap_fact, facts), f"{'try':<17}{command}"])


def _wrap_fact(name: str, text: str) -> str:
    """A fact beside its name, on lines of 100 columns."""
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


def _suggest_command(view: TraceView, file: TraceFile, columns: str) -> tuple[int, str]:
    """How many rows a first run plays, and its command: of the file, with the columns that it
    probably means, and the choice among its cells.
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
    moves = view.moves.select(fixes)
    return n_rows, shlex.join([*words, "--round", choose_round(moves.user, moves.time_s)])


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

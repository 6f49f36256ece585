"""From a trace file of any format to a `TraceTable`, and to a `Trace`: rows, plane, clock and
users.

Counts: every row left out is counted under one reason, so that ``rows_read`` is ``rows_used`` plus
all others.

Plane: azimuthal equidistant on WGS84, centred on the median of the rows kept (outliers included,
which hardly change a median), or, with a stated extent, on the middle of its box. Distances from
the centre are exact, others nearly so within tens of kilometres. Local metres are not changed.

Time: elapsed seconds since local midnight of the first row's day; `Trace.clock` gives the wall
clock, on which the day of the change from summer time has 90,000 s. Times that are all below 1e8 s
count from the midnight of a day without a date, which is called 1970-01-01 (a Thursday).

Memory: `FixRows` states the bytes of a row while it is read; the trace adds 32 (user 8, time 8,
place 16), 16 more with RSRP and cell, and temporarily about as much again.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal, Self, cast

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PositiveFloat,
    ValidationError,
    model_validator,
)

from netsim.clock import DAY_S, Clock
from netsim.errors import BadInput, format_count, squeeze_text
from netsim.geometry import Area
from netsim.notice import Notice, notice
from netsim.part import Amount, FileName, Part
from netsim.safe import describe_file_kind
from netsim.trace_files.formats import TRACE_FORMATS
from netsim.trace_files.formats.base import TraceFormat
from netsim.traces.moves import (
    CHAIN_M,
    Moves,
    add_walk_times,
    chain_drives,
    has_two_rounds,
    keep_occurring,
    report_doubts,
    resample_trips,
    sample_rows,
)
from netsim.traces.source import COLUMNS_REMEDY, Headers, Source, count_other_files, find_files
from netsim.traces.table import (
    AUTO,
    GLOBE,
    Box,
    FixBuilder,
    Label,
    Plane,
    TraceTable,
    check_crs,
    sample_box_border,
)
from netsim.traces.trace import LocalTime, Trace, find_zone
from netsim.traces.values import Codes, parse_epoch_s, quote_text
from netsim.units import BoolArray, FloatArray, IntArray, IntPair, Texts


def list_formats() -> Mapping[str, type[TraceFormat]]:
    """All formats of traces by their kinds."""
    return cast(Mapping[str, type[TraceFormat]], TRACE_FORMATS.parts)


def _check_format(format: str) -> str:
    if format not in ("auto", *list_formats()):
        raise ValueError(
            f"{format!r} is none of auto, {', '.join(list_formats())}; use one of these"
        )
    return format


def _parse_columns(columns: object) -> object:
    """Our name -> header or number, of a text: OURS=HEADER,... or our names in the order of the
    columns.
    """
    if not isinstance(columns, str):
        return columns
    pieces = columns.split(",")
    if "=" not in columns:
        pieces = [f"{name}={k}" for k, name in enumerate(pieces) if name.strip(" -")]
    parts = [piece.partition("=") for piece in pieces]
    columns_of = {ours.strip(): header.strip() for ours, _, header in parts}
    if len({*columns_of.values()} - {""}) < len(pieces):
        raise ValueError(f"{columns}: {COLUMNS_REMEDY}")
    return columns_of


ColumnNames = Annotated[
    dict[str, Annotated[str, BeforeValidator(str)]],
    BeforeValidator(_parse_columns, json_schema_input_type=dict[str, str | int] | str),
]


class TraceFile(Part):
    """A file of a trace, or a folder of them, and how it is read."""

    trace: FileName
    """path of the trace: a file, or a folder of PLT, GPX or Cabspotting files"""
    format: Annotated[str, AfterValidator(_check_format)] = "auto"
    """format of the file; auto: detected from its content"""
    crs: str = AUTO
    """coordinate system of x and y: local (metres), EPSG:4326 (degrees), or one in metres such as
    EPSG:25832; auto: that of the format"""
    columns: ColumnNames = Field(default_factory=dict)
    """column name: header in the file, or number of the column from 0, for headers that differ or
    are missing; or a text: time_s=1,lat=2, or the names in the order of the columns, - for one that
    is not read. time_s=DATE+TIME: two columns that are read together"""
    survey: bool = False
    """the file has no times: its rows get those of a walk at 1.4 m/s in their order"""
    timezone: str = "auto"
    """IANA name of the time zone, also used for times in the file without a zone; auto: an offset
    derived from the longitude, or UTC for local metres"""
    dates: Literal["auto", "dmy", "mdy"] = "auto"
    """order of dates such as 03/04/2021: dmy (3 April), mdy (4 March); auto: as a number above 12
    among the first 20,000 rows says"""
    sample_s: Amount | None = None
    """sampling interval, s: of the rows of a user in each such period, from the first local
    midnight, only the first are measured and reported; none: all"""

    @property
    def zone(self) -> tzinfo | None:
        if self.timezone == "auto":
            return None
        return find_zone(self.timezone)

    def read_fixes(self, guesses: bool = False) -> TraceTable:
        """The checked fixes. Raises `BadInput` with one line: file, place, value, bound, remedy.

        guesses : whether a CSV's columns, order of dates and zone are guessed where not stated.
        """
        path = self.trace
        check_crs(path, self.crs)
        kind = detect_format(path) if self.format == "auto" else self.format
        part = list_formats()[kind]
        for key in ("columns", "survey"):
            if getattr(self, key) and key not in part.model_fields:
                raise BadInput(
                    f"{path}: {key}: only a CSV takes it, and this is read as "
                    f"{kind}; leave {key} out"
                )
        taken = {"columns", "survey"} & {*part.model_fields}
        format = part.model_validate(self.model_dump(include=taken, exclude_none=True))
        fixes = FixBuilder(path, self.crs, self.zone)
        fixes.dates = self.dates
        fixes.guesses = guesses
        if other_files := count_other_files(path, part.folder):
            fixes.notices.append(notice("trace-files-unread", files=other_files))
        try:
            format.read(fixes)
        except (BadInput, OSError, MemoryError):
            raise
        except Exception as error:  # of a library that reads the file
            problem = f"{type(error).__name__}: {squeeze_text(error, 100)}"
            raise BadInput(
                f"{path}: is no {kind} file ({problem}); correct it, or name its format"
            ) from error
        if self.survey:
            return add_walk_times(fixes.build_table(kind))
        return fixes.build_table(kind)


def make_trace_file(path: str | Path, columns: Headers | str = "", **settings: object) -> TraceFile:
    """A file and how it is read, as a user names them. Raises `BadInput` with one line."""
    try:
        return TraceFile.model_validate({"trace": str(path), "columns": columns, **settings})
    except ValidationError as error:
        wrong = error.errors()[0]
        raise BadInput(
            f"{path}: {wrong['loc'][0]}: {wrong['msg'].removeprefix('Value error, ')}"
        ) from None


def read_trace_table(
    path: str | Path, columns: Headers | str = "", **settings: object
) -> TraceTable:
    """The checked fixes of a file or folder; settings : of a `TraceFile`."""
    return make_trace_file(path, columns, **settings).read_fixes()


def read_labels(path: str | Path, **settings: object) -> list[Label]:
    """The home and the workplace that a phone itself named last in its log, of the user as
    `read_trace_table` calls them; settings : of a `TraceFile`.
    """
    return list(read_trace_table(path, "", **settings).labels)


def list_trace_files(path: str) -> list[str]:
    """The file, or the files of a folder that some format reads. Raises `BadInput` for a folder
    that is too large.
    """
    return sorted(
        {
            file
            for part in list_formats().values()
            if part.folder
            for file in find_files(path, part.folder)
        },
        key=Path,
    )


def detect_format(path: str) -> str:
    """The format of a file or a folder, by what it holds and then by its name; a CSV holds nothing
    that tells it.

    Raises `BadInput` with one line that lists the formats.
    """
    parts = list_formats()
    if describe_file_kind(path) == "folder":
        fits = [
            kind for kind, part in parts.items() if part.folder and find_files(path, part.folder)
        ]
        if len(fits) > 1:
            raise BadInput(
                f"{path}: the folder holds files of {' and '.join(fits)}; say which to "
                f"read with --format"
            )
        patterns = ", ".join(part.folder for part in parts.values() if part.folder)
        problem = (
            f"cannot be read (a folder without files such as {patterns}, but with "
            f"{count_other_files(path, '') or 'none'})"
        )
    else:
        head = Source(path).read_head()
        name = path.lower().removesuffix(".gz")
        holds = [kind for kind, part in parts.items() if part.fits(head)]
        named = [kind for kind, part in parts.items() if name.endswith(part.endings)]
        fits = [*(kind for kind in holds if kind != "csv"), *named, *holds]
        problem = (
            f"its format is not recognised (begins with {quote_text(head.partition(chr(10))[0])})"
        )
    if fits:
        return fits[0]
    formats = "; ".join(f"{kind}: {part.title()}" for kind, part in parts.items())
    raise BadInput(f"{path}: {problem}; name its format if it is one of {formats}")


GAP_S = 600.0
Users = Literal["auto", "all", "id", "day", "chain", "segments", "rows"]


class TraceSetting(TraceFile):
    """A file of a trace, its rows that are taken, and its users."""

    cell: str | None = None
    """the cell whose rows are replayed; all: every cell; none: the cell with most rows"""
    users: Users = "auto"
    """what a user of the trace is: an entry of the user column (id), a local day (day), all rows
    together (all), a chain of drives that start where another ended (chain), one of `segments`
    equal parts of the rows in order of time (segments), or a single row (rows); auto: id, unless no
    id has rows in two rounds, then all"""
    segments: int | None = Field(None, ge=1, le=100_000)
    """number of users into which `users: segments` divides the trace"""
    outlier_sigmas: PositiveFloat | None = None
    """rows further than this many standard deviations from the mean of their cell are left out;
    none: all are kept"""
    area_deg: Box | None = None
    """only rows in this box: south, west, north, east in degrees"""
    area_m: Box | None = None
    """only rows in this box: x_min, y_min, x_max, y_max, in metres of the file"""
    since: float | str | None = None
    """only rows at or after this time: epoch seconds, or ISO 8601 with a time zone unless timezone
    names one"""
    until: float | str | None = None
    """only rows before this time, in the same forms"""
    extent: Literal["rows", "stated"] = "rows"
    """public area, first day and end: those of the rows, which one user can move; or stated by
    area_deg or area_m, since and until, which no user can move"""
    resample_s: PositiveFloat | None = None
    """interpolate each trip at the multiples of this time, s; none: the rows of the file. Not for
    measured RSRP"""
    gap_s: PositiveFloat = GAP_S
    """a pause longer than this between two rows ends a trip, s; there is no interpolation across
    it"""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        stated = {"area_deg or area_m": self.box, "since": self.since, "until": self.until}
        missing = [name for name, value in stated.items() if value is None]
        if self.extent == "stated" and missing:
            raise ValueError(
                f"extent: stated needs {', '.join(missing)}; give them, or leave extent out"
            )
        for key, box in {"area_deg": self.area_deg, "area_m": self.area_m}.items():
            if box is not None and not (box[0] < box[2] and box[1] < box[3]):
                raise ValueError(
                    f"{key}: {list(box)} is empty; give the lower values and then the higher ones"
                )
        return self

    @property
    def box(self) -> Box | None:
        return self.area_m if self.area_deg is None else self.area_deg

    def read(self, round_s: float, without: Texts = ()) -> Trace:
        """The trace for rounds of round_s, which users "auto" depends on. Raises `BadInput` with
        one line.

        without : users whose rows are dropped before anything is derived from rows; they stay
        users, without a row, and rows keep their users, unless "auto" decides otherwise of what is
        left. The arrays are read-only, because they may be shared.
        """
        file = self.read_fixes()
        whole, table, user = self._read_rows(file, round_s)
        if not without:
            return whole
        setting = self
        if (
            self.users not in ("auto", "id") and self.resample_s is None
        ):  # what a user is, is settled
            setting = self.model_copy(update={"users": "id", "segments": None})
            file = replace(
                table, fixes=replace(table.fixes, user=user.astype(np.int32)), users=whole.users
            )
        is_left_out = np.isin(np.array(file.users), without)[file.fixes.user]
        if is_left_out.all() or not is_left_out.any():
            raise BadInput(
                f"{self.trace}: world.ues.without: {without[0]!r} has no row or all of "
                f"them; name other users"
            )
        left, _, _ = setting._read_rows(file.keep_rows(~is_left_out, "without"), round_s)
        if not set(left.users) <= set(whole.users):
            return left
        number = np.array([whole.users.index(u) for u in left.users])
        return replace(
            left,
            users=whole.users,
            user=number[left.user],
        )

    def _read_rows(self, file: TraceTable, round_s: float) -> tuple[Trace, TraceTable, IntArray]:
        """The trace, and its rows with the user of each."""
        table = self._cut_area(self._cut_window(file))
        if not len(table):
            raise BadInput(_explain_empty(file, table))
        table, chosen = self._select_cell(table)
        table = table.keep_rows(~find_repeated(table), "duplicate")
        border = None
        if self.extent == "stated" and self.box is not None:
            border = table.coordinates.to_plane(sample_box_border(self.box))
        table, plane = self._place_rows(table, border)
        fixes = table.fixes
        begins_s = fixes.time_s.min() if border is None else self._parse_edge_s("since")
        local = LocalTime.from_zone(table.choose_zone(self.timezone), plane.lon_deg, begins_s)
        zone = [notice("trace-relative")] if table.relative else local.notices
        moves = Moves(fixes.user, fixes.time_s - local.midnight_s, plane.xy_m)
        doubtful = [*report_doubts(table, moves)]
        moves, resampling = self._resample_moves(table, moves)
        due, sampling = self._sample_moves(moves)
        accuracy_m = fixes.accuracy_m if self.resample_s is None else None
        if accuracy_m is not None and (is_unknown := np.isnan(accuracy_m)).any():
            rows = format_count(is_unknown.sum(), "row")
            usual_m = np.nan
            if is_unknown.all():
                accuracy_m = None
            else:
                usual_m = np.nanmedian(accuracy_m)
                accuracy_m = np.where(is_unknown, usual_m, accuracy_m)
            sampling += [notice("trace-accuracy-missing", rows=rows, usual_m=usual_m)]
        if self.segments is not None and self.segments > len(moves.user):
            raise BadInput(
                f"{self.trace}: segments: {self.segments} are more than the {len(moves.user)} "
                f"rows; take fewer"
            )
        clock = local.build_clock(moves.time_s.max())
        names, user, naming = self._name_users(table.users, moves, clock, round_s)
        if not np.array_equal(user, moves.user):
            moves = replace(moves, user=user)
        cells, cell = ((), None) if fixes.cell is None else keep_occurring(table.cells, fixes.cell)
        counts = {"rows_read": table.n_read, **table.left_out}
        n_used = len(table)
        if due is not None:
            counts["not_sampled"] = (~due).sum()
            n_used = due.sum()
        counts["rows_used"] = n_used
        area = Area.from_points(moves.xy_m if border is None else border.xy_m)
        sort = moves.sort_column
        trace = Trace(
            users=names,
            cells=cells,
            user=sort(user),
            time_s=sort(moves.time_s),
            position_m=sort(moves.xy_m),
            cell=sort(cell),
            rsrp_dbm=sort(fixes.rsrp_dbm),
            accuracy_m=sort(accuracy_m),
            due=sort(due),
            area=area,
            origin_deg=plane.origin_deg,
            format=table.format,
            local=local,
            counts=counts,
            notices=(*table.notices, *doubtful, *chosen, *zone, *resampling, *sampling, *naming),
            ends_s=None if border is None else self._parse_edge_s("until") - local.midnight_s,
        )
        for column in vars(trace).values():
            if isinstance(column, np.ndarray):
                column.setflags(write=False)
        return trace, table, user

    def _name_users(
        self, ids: Texts, moves: Moves, clock: Clock, round_s: float
    ) -> tuple[Texts, IntArray, list[Notice]]:
        """Names of users, the user of each row (n,), and notices."""
        user_of_row = moves.user
        n = len(user_of_row)
        users = self.users
        notices = list[Notice]()
        if users == "auto":
            users = "id"
            if not has_two_rounds(moves, round_s, clock):
                users = "all"
                notices = [
                    notice(
                        "trace-users",
                        how=f"all rows are one target: no user has rows in two rounds of "
                        f"{round_s:,.10g} s",
                    )
                ]
        if users == "id":
            return *keep_occurring(ids, user_of_row), notices
        if users == "all":
            return ("all",), np.zeros(n, int), notices
        if users == "rows":
            names = tuple(f"row{k}" for k in range(1, n + 1))
            return names, np.arange(n), [notice("trace-users", how="every row is a user")]
        if users == "segments":
            count = self.segments or 1
            user = np.argsort(np.argsort(moves.time_s, kind="stable")) * count // n
            text = (
                f"all rows in order of time, cut into {count} segments of {n // count} to "
                f"{-(-n // count)} rows"
            )
            names = tuple(f"segment{k}" for k in range(1, count + 1))
            return names, user, [notice("trace-users", how=text)]
        if users == "chain":
            chain = chain_drives(user_of_row, moves.time_s, moves.xy_m, CHAIN_M)
            labels = ("background", *(f"chain{k}" for k in range(1, int(chain.max()) + 1)))
            n_alone = (chain[np.unique(user_of_row)] == 0).sum()
            text = (
                f"{len(labels) - 1} chains of drives, each beginning within a mile of where "
                f"the last ended; {n_alone} other drives are one background user"
            )
            return *keep_occurring(labels, chain[user_of_row]), [notice("trace-users", how=text)]
        days, user = np.unique(clock.wall_s(moves.time_s) // DAY_S, return_inverse=True)
        return tuple(str(clock.first_day + timedelta(days=int(day))) for day in days), user, notices

    def _parse_edge_s(self, name: str) -> float:
        """The epoch time of `since` or `until`; infinite where it is not set."""
        edge = getattr(self, name)
        if edge is None:
            return -np.inf if name == "since" else np.inf
        try:
            return parse_epoch_s(str(edge), self.zone)
        except ValueError as error:
            raise BadInput(f"{self.trace}: {name}: {error}") from error

    def _cut_window(self, table: TraceTable) -> TraceTable:
        low_s = self._parse_edge_s("since")
        high_s = self._parse_edge_s("until")
        if not low_s < high_s:
            raise BadInput(
                f"{self.trace}: since: {self.since!r} is not before until: {self.until!r}; "
                f"swap or move them"
            )
        time_s = table.fixes.time_s
        return table.keep_rows((time_s >= low_s) & (time_s < high_s), "outside_window")

    def _cut_area(self, table: TraceTable) -> TraceTable:
        right, wrong = (
            ("area_deg", "area_m") if table.coordinates.crs == GLOBE else ("area_m", "area_deg")
        )
        if getattr(self, wrong) is not None:
            has = " and ".join(table.coordinates.names)
            raise BadInput(
                f"{self.trace}: {wrong}: the trace has {has}; give {right}, or leave it out"
            )
        if self.box is None:
            return table
        low = np.array(self.box[:2])
        high = np.array(self.box[2:])
        place = table.fixes.place
        return table.keep_rows(np.all((place >= low) & (place <= high), axis=1), "outside_area")

    def _select_cell(self, table: TraceTable) -> tuple[TraceTable, list[Notice]]:
        """The rows of the cell, and notices."""
        fixes = table.fixes
        cells = table.cells
        cell = self.cell
        if cell == "all" or (cell is None and fixes.cell is None):
            return table, []
        if fixes.cell is None:
            raise BadInput(
                f"{self.trace}: cell: {cell!r} asked for, but the file has no column cell; leave "
                f"cell out, or try --columns cell=HEADER"
            )
        rows_of = {cells[c]: n for c, n in count_rows_by_cell(table)}
        busiest = islice(rows_of.items(), 10)
        shown = "busiest cells (rows): " + ", ".join(f"{name} ({n})" for name, n in busiest)
        notices = []
        if cell is None:
            cell = next(iter(rows_of))
            notices = [notice("trace-cell-chosen", cell=cell, cells=shown)]
        elif cell not in rows_of:
            near = get_close_matches(cell, rows_of, 3, 0.5)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise BadInput(
                f"{self.trace}: cell: no row of {cell!r}; {hint}{shown}; use one, or all"
            )
        return table.keep_rows(fixes.cell == cells.index(cell), "other_cell"), notices

    def _place_rows(self, table: TraceTable, border: Plane | None) -> tuple[TraceTable, Plane]:
        """The rows without outliers, and their places in local metres."""
        plane = table.coordinates.to_plane(
            table.fixes.place, None if border is None else border.origin_deg
        )
        if self.outlier_sigmas is None:
            return table, plane
        inside = ~find_outliers(plane.xy_m, table.fixes.cell, self.outlier_sigmas)
        if not inside.any():
            raise BadInput(
                f"{self.trace}: outlier_sigmas: {self.outlier_sigmas} leaves no row; use 4, say, "
                f"or none to keep all"
            )
        return table.keep_rows(inside, "outlier"), replace(plane, xy_m=plane.xy_m[inside])

    def _resample_moves(self, table: TraceTable, moves: Moves) -> tuple[Moves, list[Notice]]:
        """The moves at regular times, and notices; measurements cannot be interpolated."""
        every_s = self.resample_s
        if every_s is None:
            return moves, []
        measured = [name for name in ("rsrp_dbm", "cell") if getattr(table.fixes, name) is not None]
        if measured:
            raise BadInput(
                f"{self.trace}: resample_s: the trace has {measured[0]}, and a measurement in "
                f"between was never made; leave resample_s out"
            )
        regular, n_trips = resample_trips(moves, every_s, self.gap_s)
        if not len(regular.user):
            raise BadInput(
                f"{self.trace}: resample_s: {every_s:,.10g} s is longer than every trip; take less"
            )
        rows = format_count(len(regular.user), "row")
        trips = format_count(n_trips, "trip")
        return regular, [notice("trace-resampled", rows=rows, every_s=every_s, trips=trips)]

    def _sample_moves(self, moves: Moves) -> tuple[BoolArray | None, list[Notice]]:
        """Which rows (n,) are reported, None for all, and how often, for the user."""
        if self.resample_s is not None:
            return None, []
        if self.sample_s is None:
            usual_s = moves.usual_interval_s
            return None, [
                notice("trace-sampling", how=f"a fix every {usual_s:,g} s, as logged")
            ] if usual_s else []
        due = sample_rows(moves, self.sample_s)
        text = (
            f"every {self.sample_s:g} s: {due.sum():,} of {len(due):,} fixes, the first of each "
            f"user in each such period; homes and tracks are those of all"
        )
        return due, [notice("trace-sampling", how=text)]


def read_trace(path: str | Path, round_s: float = DAY_S, **settings: object) -> Trace:
    """The trace of a file or folder; settings : of a `TraceSetting`."""
    return TraceSetting.model_validate({"trace": str(path), **settings}).read(round_s)


def find_repeated(table: TraceTable) -> BoolArray:
    """Which rows (n,) equal an earlier one in user, time, cell, place and RSRP."""
    fixes = table.fixes
    columns = [
        key
        for key in (*fixes.place.T, fixes.rsrp_dbm, fixes.cell, fixes.time_s, fixes.user)
        if key is not None
    ]
    order = np.lexsort(columns)
    out = np.zeros(len(table), bool)
    out[order[1:]] = np.all([np.diff(column[order]) == 0 for column in columns], axis=0)
    return out


def count_rows_by_cell(table: TraceTable) -> list[IntPair]:
    """(cell, rows) of the cells that have rows, most first; equals in order of first appearance."""
    if table.fixes.cell is None:
        return []
    n_rows = np.bincount(table.fixes.cell, minlength=len(table.cells))
    return [(c, n_rows[c]) for c in np.argsort(-n_rows, kind="stable") if n_rows[c]]


def find_outliers(xy_m: FloatArray, cell: Codes | None, sigmas: float) -> BoolArray:
    """|z| > sigmas in x or y, with the mean and standard deviation of the rows of each cell; None:
    of all.
    """
    out = np.zeros(len(xy_m), bool)
    group = np.zeros(len(xy_m), np.int32) if cell is None else cell
    n_rows = np.maximum(np.bincount(group), 1)
    for axis_m in xy_m.T:
        offset_m = axis_m - (np.bincount(group, axis_m) / n_rows)[group]
        sigma_m = np.sqrt(np.bincount(group, offset_m**2) / n_rows)
        out |= np.abs(offset_m) > (sigmas * sigma_m)[group]
    return out


def _explain_empty(file: TraceTable, table: TraceTable) -> str:
    times_s = (file.fixes.time_s.min(), file.fixes.time_s.max())
    span = " to ".join(f"{datetime.fromtimestamp(t, UTC):%Y-%m-%dT%H:%M:%SZ}" for t in times_s)
    covers = f"the file covers {span}, {file.coordinates.describe_extent(file.fixes.place)}"
    area = "area_deg" if file.coordinates.crs == GLOBE else "area_m"
    return (
        f"{file.path}: no row is left ({table.format_reasons()}); {covers}; "
        f"widen since, until or {area}"
    )

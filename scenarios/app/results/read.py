"""Run folders read back for a page, and what their tables say together; what is damaged is refused
in one line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from fl.round.tables import TABLES
from netsim.checkpoint import read_arrays
from netsim.clock import DAY_S, Clock
from netsim.columns import frozen, no_places
from netsim.errors import BadInput
from netsim.fit import read_toml
from netsim.notice import Notice
from netsim.record import Column
from netsim.safe import describe_file_kind
from netsim.units import ArrayPair, BoolArray, FloatArray, FloatPair, IntArray
from scenarios.app.results.folder import (
    EVERY,
    GRID,
    MANIFEST,
    MAP,
    RADIO,
    RADIO_STUDY,
    RUNS,
    STUDY,
    SUMMARY,
    SURFACES,
    SWEEP,
    LabelledRuns,
    Tables,
    check_version,
    list_written_tables,
    read_csv_rows,
    read_finished_manifest,
    read_json,
    read_marker,
    read_record_table,
    read_summary,
)
from scenarios.app.results.folder import (
    Table as Table,
)
from scenarios.app.results.statistics import group_by_label
from scenarios.app.results.summary_keys import BY_KEY
from scenarios.app.study import Fields, Record
from scenarios.app.study.yaml_document import read_document

Folders = Mapping[str, Path]
"""scenario -> the folder of its runs"""
Labelled = Mapping[str, Mapping[int, Record]]
"""label -> seed -> summary of its run"""

if TYPE_CHECKING:
    import pandas


def select_rows(rows: Table, index: IntArray | BoolArray | slice | Sequence[int]) -> Table:
    """Select some rows of a table, by flags, indices or a slice."""
    return {name: column[index] for name, column in rows.items()}


def build_row(**values: object) -> Table:
    """Build a row of single values."""
    return {name: np.array([value]) for name, value in values.items()}


def iterate_cells(rows: Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Iterate over the cells of some columns, row by row, as plain values."""
    return zip(*(rows[name].tolist() for name in names), strict=True)


def stack_places_m(rows: Table) -> FloatArray:
    """Stack the places (n, 2) of rows."""
    return np.column_stack([rows["x_m"], rows["y_m"]])


# once around the Earth, in metres
_Number = Annotated[float, Field(allow_inf_nan=False, ge=-4.1e7, le=4.1e7)]
_Pair = Annotated[list[_Number], Field(min_length=2, max_length=2)]
_LONGEST_S = 400 * 365.25 * DAY_S
_Seconds = Annotated[float, Field(gt=0, le=_LONGEST_S)]
Model = TypeVar("Model", bound=BaseModel)


def parse_model(values: Fields, model: type[Model], path: Path, remedy: str) -> Model:
    """Parse what a file of ours says, as its model. BadInput: what is missing or damaged; remedy:
    what helps.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        wrong = ".".join(map(str, error.errors()[0]["loc"]))
        raise BadInput(f"{path}: {wrong} is missing or damaged; {remedy}") from None


class _Sampling(BaseModel, strict=True):
    every_s: _Seconds


class _KeptViews(BaseModel, strict=True):
    """Last window of a run with views, and when it ended."""

    round: int
    time_s: _Seconds


_NOTICE = TypeAdapter(Notice)


def _parse_notice(value: object) -> Notice:
    """Parse a notice of a manifest; version 1.0 kept sentences."""
    if isinstance(value, str):
        return Notice("earlier", "doubt", value)
    return _NOTICE.validate_python(value)


class Manifest(BaseModel, strict=True):
    """What is read of a run's manifest.json."""

    title: str
    seed: int
    kind: str = ""
    command: str
    versions: dict[str, str]
    notices: list[Annotated[Notice, BeforeValidator(_parse_notice)]]
    channel_card: dict[str, str]
    timing: Fields
    trace: Fields | None
    cells: list[str]
    first_day: Annotated[date, Field(strict=False, lt=date(9000, 1, 1))]
    clock_changes: list[_Pair]
    duration_s: _Seconds
    round_s: _Seconds
    tracks: _Sampling
    area_m: Annotated[list[_Number], Field(min_length=4, max_length=4)]
    origin_deg: _Pair | None
    tables: dict[str, int] | None = None
    empty_rounds: int = 0
    stopped_by_budget: bool = False
    views: _KeptViews | None = None

    @classmethod
    def from_folder(cls, folder: Path) -> Manifest:
        """Read that of a run folder. BadInput: it is of another version, missing or damaged."""
        values = read_json(folder / MANIFEST)
        check_version(folder, values)
        values.setdefault("notices", values.get("warnings"))
        return parse_model(values, cls, folder / MANIFEST, "run the study again")

    @property
    def is_radio(self) -> bool:
        """Whether the run is a radio study."""
        return self.kind == RADIO_STUDY

    @property
    def clock(self) -> Clock:
        """The wall clock of the run."""
        return Clock(
            self.first_day, tuple((time_s, shift_s) for time_s, shift_s in self.clock_changes)
        )

    @property
    def period(self) -> str:
        """First and last moment."""
        return f"{self.clock.to_text(0.0)} to {self.clock.to_text(self.duration_s)}"


@frozen
class Run:
    """Everything that a page is made from. Files of the folder are read once, when they are first
    asked for.

    resolved : the study as plain data, where it is known; None: that of the folder.
    """

    manifest: Manifest
    summary: Fields
    tables: Tables
    folder: Path
    resolved: Fields | None = None

    @cached_property
    def study(self) -> Fields:
        """The study with every default."""
        if self.resolved is None:
            return read_document(self.folder / STUDY).data
        return self.resolved

    @cached_property
    def ground(self) -> Table:
        """What map.npz holds, indices as integers; nothing where there is none."""
        return _read_ground(self.folder / MAP)

    @cached_property
    def surfaces(self) -> Table:
        """What surfaces.npz holds; nothing where there is none."""
        return read_surfaces(self.folder)

    @cached_property
    def grid(self) -> Table:
        """What grid.npz holds; nothing where there is none."""
        return _read_arrays(self.folder / GRID, "grid", 6)

    @property
    def attacks(self) -> list[str]:
        """Names of the attacks, in the order of the records."""
        names = map(BY_KEY["attack.NAME.centroid_error_m.median"].parse_name, self.summary)
        attacks = map(str, self.tables["leakage"]["attack"])
        return list(dict.fromkeys([*attacks, *filter(None, names)]))

    @cached_property
    def names(self) -> dict[int, str]:
        """The name of each UE."""
        return {
            int(ue): name
            for ue, name in iterate_cells(self.tables["ues"], "ue", "name")
            if np.isfinite(ue)
        }

    @property
    def n_ue(self) -> int:
        """Number of UEs."""
        return len(self.tables["ues"]["ue"])

    @property
    def hit_radius_m(self) -> float:
        """Within this distance a place is found."""
        value = get_section(self.study, "learning", "leakage").get("hit_radius_m")
        if isinstance(value, int | float):
            return float(value)
        return 100.0

    @property
    def stations(self) -> list[tuple[str, float, float]]:
        """Name and place of each base station of map.npz; numbers for names where cells are those
        of a trace.
        """
        at_m = self.ground.get("station_m", no_places())
        cells = self.manifest.cells
        names = range(len(at_m)) if self.is_replayed or len(cells) != len(at_m) else cells
        return [(str(name), float(x), float(y)) for name, (x, y) in zip(names, at_m, strict=True)]

    @property
    def is_replayed(self) -> bool:
        """Whether a trace replaced the radio: then its RSRP is of no base station that was
        placed.
        """
        serving = self.tables["links"]["base_station"]
        from_trace = self.manifest.channel_card.get("RSRP measurement", "").startswith(
            "read from the trace"
        )
        return from_trace or (len(serving) > 0 and not any(serving))

    def find_merge_times_s(self, number: FloatArray) -> FloatArray:
        """Find when rounds (n,) were merged, seconds."""
        rounds = self.get_rows("rounds")
        if len(number):
            return np.interp(number, rounds["round"], rounds["time_s"])
        return number

    def get_rows(self, table: str, column: str = "", value: str = "") -> Table:
        """Get rows of a table that have a time, a UE and a round; those with `value` in a text
        column.
        """
        columns = self.tables[table]
        keep = np.isfinite(columns["time_s"])
        for name in ("ue", "round"):
            if name in columns:
                keep &= np.isfinite(columns[name])
        if column:
            keep &= np.array([v == value for v in columns[column]], dtype=bool)
        return select_rows(columns, keep)

    def format_dates(self, time_s: FloatArray, between: str = " ") -> list[str]:
        """Format simulated local time, as plotly's date axes read it; between: day and time."""
        clock = self.manifest.clock
        shown_s = np.floor(clock.wall_s(time_s)).astype("timedelta64[s]")
        dates = np.datetime64(clock.first_day, "s") + shown_s
        return [str(date).replace("T", between) for date in dates]


def get_section(inside: object, *keys: str) -> Fields:
    """Get a mapping inside mappings, or an empty one."""
    for key in keys:
        inside = inside.get(key) if isinstance(inside, dict) else None
    return inside if isinstance(inside, dict) else {}


# -- the table tracking

FILTER = "filter"
SMOOTHER = "smoother"
PLAIN = "plain"
PRIOR = "prior"
KINDS = (PLAIN, FILTER, SMOOTHER, PRIOR)
"""the wrapped attack alone; what the tracker knows in a round; what it knows of it at the end; the
prior alone"""


def list_tracking_attacks(run: Run) -> list[str]:
    """List attacks that track, in the order of the records."""
    return list(dict.fromkeys(map(str, run.get_rows("tracking")["attack"])))


def select_tracking(run: Run, attack: str) -> Tables:
    """Select rows of the filter and of the smoother of an attack."""
    rows = run.get_rows("tracking", "attack", attack)
    return {
        kind: select_rows(rows, rows["hindsight"] == flag)
        for flag, kind in enumerate((FILTER, SMOOTHER))
    }


def select_known_values(
    rows: Mapping[str, Table], kind: str, column: str
) -> tuple[Table, FloatArray]:
    """Select rows that know a quantity (`error_m`, `near`, `expected_distance_m`) of one of KINDS,
    and their values.
    """
    if kind in rows:
        return rows[kind], rows[kind][column]
    return rows[FILTER], rows[FILTER][f"{kind}_{column}"]


def accumulate_known_hours(run: Run, rows: Mapping[str, Table], kind: str) -> ArrayPair:
    """Numbers of rounds (n,), and the hours (n,) of a UE up to each in which it was known within
    leakage.hit_radius_m.

    Mean over all UEs with a row; a row stands for the window of its round.
    """
    table, near = select_known_values(rows, kind, "near")
    number, index = np.unique(table["round"], return_inverse=True)
    n_ue = len(np.unique(np.concatenate([table["ue"] for table in rows.values()])))
    hours = np.bincount(index, near == 1, minlength=len(number)) * run.manifest.round_s / 3600.0
    return number, np.cumsum(hours) / max(n_ue, 1)


_INDICES = frozenset({"ue", "other", "model", "round", "rank"})
"""columns of whole numbers that say which one"""


class RunTables(Tables):
    """The record tables of a run, each read and checked once, when it is first asked for, and then
    kept.

    listed : tables of which the run wrote rows; others have none. known : those that are at hand.
    """

    def __init__(self, folder: Path, listed: Collection[str], known: Tables) -> None:
        super().__init__(known)
        self.folder = folder
        self.listed = listed

    def __missing__(self, name: str) -> Table:
        columns = read_record_table(self.folder, name, self.listed)
        path = self.folder / f"{name}.csv"
        if missing := [column for column in EVERY[name] if column not in columns]:
            raise BadInput(f"{path}: column {missing[0]} is missing; run the study again")
        numbers = [column for column in columns if columns[column].dtype != object]
        _check_limits(path, columns, dict.fromkeys(numbers, (-_MOST, _MOST)) | _LIMITS)
        self[name] = columns
        return columns

    def __reduce__(self) -> tuple[type, tuple[Path, Collection[str], Tables]]:
        return RunTables, (self.folder, self.listed, {})  # another process reads what it needs


class Frames(Mapping[str, "pandas.DataFrame"]):
    """The tables of a run by name, each made when it is first asked for; without rows where the run
    wrote none.

    Columns are those of the records. Besides, a table of UEs has `ue_name`, and one with times has
    `time`: local time, as the wall clock of the simulated place shows it. Indices are whole numbers
    and flags are truth values where no cell is empty.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._names = RADIO if run.manifest.is_radio else TABLES
        self._made: dict[str, pandas.DataFrame] = {}

    def __getitem__(self, name: str) -> pandas.DataFrame:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(
                    f"no table {name!r} in {self._run.folder}; there are: {', '.join(self)}"
                )
            self._made[name] = self._frame(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"tables of {self._run.folder}: {', '.join(self)}"

    def _frame(self, name: str) -> pandas.DataFrame:
        import pandas

        frame = pandas.DataFrame(self._run.tables[name])
        for column in frame.columns[frame.notna().all()]:
            declared = EVERY[name].get(column)
            if declared is not None and declared.type == "flag":
                frame[column] = frame[column].astype(bool)
            elif column in _INDICES:
                frame[column] = frame[column].astype(np.int64)
        if "ue" in frame and name != "ues":
            names = frame["ue"].map(self._run.names)
            frame.insert(frame.columns.get_loc("ue") + 1, "ue_name", names.fillna(""))
        if "time_s" in frame:
            clock = self._run.manifest.clock
            shown_s = pandas.to_timedelta(clock.wall_s(frame["time_s"].to_numpy()), unit="s")
            frame.insert(
                frame.columns.get_loc("time_s") + 1,
                "time",
                pandas.Timestamp(clock.first_day) + shown_s,
            )
        return frame


_PTR = ("footprint_ptr", "footprint_building", "street_ptr", "scenery_ptr")
_ARRAYS = read_toml(__package__, "arrays.toml")
"""what the npz files of a folder hold, with dimensions; the first six of the map always"""


def open_finished_run(folder: Path, study: Fields | None = None) -> Run:
    """Open the finished run of a folder; its tables and maps are checked when they are first asked
    for.

    study : where it is known, as of a run of the same label.
    """
    read_finished_manifest(folder)
    manifest = Manifest.from_folder(folder)
    return Run(
        manifest,
        read_summary(folder),
        RunTables(folder, list_written_tables(vars(manifest)), {}),
        folder,
        study,
    )


def load_finished_run(folder: Path, study: Fields | None = None) -> Run:
    """Load the finished run of a folder, everything read and checked."""
    return read_all_files(open_finished_run(folder, study))


def read_all_files(run: Run) -> Run:
    """Read the run itself, all files of which are read. BadInput: one is damaged."""
    ues = {"ue": (-1.0, run.n_ue - 1.0)}
    for name, columns in EVERY.items():
        rows = run.tables[name]
        if columns.get("ue", Column("")).type != "text":
            _check_limits(run.folder / f"{name}.csv", rows, ues)
    _ = run.study, run.ground, run.surfaces, run.grid
    return run


_MOST = float(np.finfo(np.float64).max)
_LIMITS = {
    **dict.fromkeys(
        ("time_s", "requested_s", "ready_s", "granted_s", "ended_s"), (0.0, _LONGEST_S)
    ),
    **dict.fromkeys(
        ("probability", "disc_probability"), (0.0, 1.000001)
    ),  # sums of single precision
    "round": (0.0, 1e6),
    "cell_m": (1e-3, 4.1e7),
}


def _check_limits(path: Path, columns: Table, limits: Mapping[str, FloatPair]) -> None:
    """Refuse values of a column that are not within its limits."""
    for column in columns.keys() & limits:
        low, high = limits[column]
        wrong = np.flatnonzero((columns[column] < low) | (columns[column] > high))
        if len(wrong):
            mistake = (
                f"row {wrong[0] + 1}: {column} {columns[column][wrong[0]]:g} is not in "
                f"[{low:g}, {high:g}]"
            )
            raise BadInput(f"{path}: {mistake}; run the study again")


def _read_ground(path: Path) -> Table:
    """Read what map.npz holds, indices as integers; nothing where there is none."""
    ground = _read_arrays(path, "map", 6)
    ground |= {name: ground[name].astype(np.int64) for name in _PTR if name in ground}
    for layer in ("footprint", "street", "scenery"):
        ptr = ground.get(f"{layer}_ptr", np.zeros(1))
        points_m = ground.get(f"{layer}_m", ())
        if len(ptr) == 0 or ptr[0] or ptr[-1] != len(points_m) or (np.diff(ptr) < 0).any():
            raise BadInput(f"{path}: its parts do not fit together; run the study again")
    return ground


def _read_arrays(path: Path, kind: str, n_needed: int) -> Table:
    """Read the arrays of an npz file of a kind; only the first ones must be there. Nothing where
    there is no file.
    """
    dimensions = _ARRAYS[kind]
    if not describe_file_kind(path):
        return {}
    try:
        arrays = {name: np.asarray(array, np.float64) for name, array in read_arrays(path).items()}
    except (ValueError, TypeError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); run the study again") from None
    checked = {name: arrays[name] for name in dimensions if name in arrays}
    wrong = [name for name in [*dimensions][:n_needed] if name not in checked] or [
        n for n in checked if checked[n].ndim != dimensions[n]
    ]
    if wrong:
        raise BadInput(f"{path}: {wrong[0]} is missing or has the wrong shape; run the study again")
    return checked


def read_sweep_value(folder: Path, key: str) -> Any:
    """Read what sweep.json says under a key; None where there is no file, or it says nothing."""
    if describe_file_kind(folder / SWEEP):
        return read_json(folder / SWEEP).get(key)
    return None


def list_run_folders(folder: Path) -> LabelledRuns:
    """Label and folder of each run of a sweep, or else of each run that lies directly in the
    folder.
    """
    if describe_file_kind(folder / RUNS):
        return _list_sweep_runs(folder)
    if describe_file_kind(folder / SWEEP) or read_marker(folder) == "sweep":
        raise BadInput(f"{folder}: this sweep is not finished; start it again and it goes on")
    runs = [(p.name, p) for p in sorted(folder.iterdir()) if (p / MANIFEST).exists()]
    if not runs:
        raise BadInput(
            f"{folder}: neither the folder of a run (no {MANIFEST}) nor of a sweep (no {RUNS}); "
            "give a folder that netsim wrote"
        )
    return runs


def list_finished_runs(folder: Path) -> LabelledRuns:
    """List those of them that are finished; of a sweep, runs may have failed."""
    return [
        (label, path)
        for label, path in list_run_folders(folder)
        if describe_file_kind(path / SUMMARY)
    ]


def _list_sweep_runs(folder: Path) -> LabelledRuns:
    path = folder / RUNS
    try:
        runs = [
            (row["label"] or "as written", folder / row["folder"]) for row in read_csv_rows(path)
        ]
    except KeyError as error:
        raise BadInput(f"{path}: has no column {error}; start the sweep again") from None
    if not runs:
        raise BadInput(f"{path}: lists no run; start the sweep again")
    for _, run in runs:
        if not run.resolve().is_relative_to(folder.resolve()):
            raise BadInput(f"{path}: the run {run} lies outside of {folder}; move it inside")
    return runs


def read_curves(folder: Path) -> dict[str, list[str]]:
    """Read curve -> its labels in the order of strength, of a sweep."""
    path = folder / RUNS
    rows = [row for row in read_csv_rows(path) if row.get("curve")]
    try:
        rows.sort(key=lambda row: float(row["strength"]))
    except (KeyError, ValueError) as error:
        raise BadInput(f"{path}: damaged ({error}); start the sweep again") from None
    labels = group_by_label((row["curve"], row["label"]) for row in rows)
    return {curve: [*dict.fromkeys(along)] for curve, along in labels.items()}


# -- surfaces.npz

MAPS = ("estimate", "exact", "law", "answer")


def read_surfaces(folder: Path) -> Table:
    """Read what was written, checked; nothing where nothing was.

    x_m (P,), y_m (Q,), and those of MAPS that there are, (P, Q) each; answer_at_m (2,).
    """
    path = folder / SURFACES
    arrays = _read_arrays(path, "surfaces", 2)
    shapes = {arrays[name].shape for name in MAPS if name in arrays}
    if shapes - {(len(arrays.get("x_m", ())), len(arrays.get("y_m", ())))}:
        raise BadInput(f"{path}: its maps do not fit the grid; run the study again")
    return arrays

"""A run folder: where it lies, who may write it, what may be replaced, and its tables read back."""

import csv
import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, fields
from io import StringIO, TextIOWrapper
from math import isfinite
from pathlib import Path
from shutil import rmtree
from typing import Literal, TextIO, get_args

import numpy as np

from fl.round.tables import TABLES, read_tables
from netsim import compiled
from netsim.errors import BadInput, RunsFailed, format_count, to_one_line
from netsim.record import Column, format_cell, unguard_cell, write_text
from netsim.safe import (
    KEPT,
    OURS_MOST_BYTES,
    check_own,
    describe_file_kind,
    find_whole_name,
    open_own_file,
    open_regular,
    read_content,
    remove_parts,
)
from scenarios.app.results.sentences import read_sentences
from scenarios.app.study import SCHEMA_VERSION, Fields, Record

Table = dict[str, np.ndarray]
"""columns by name"""
Row = dict[str, str]
"""cells of a row of a CSV as text, by column"""
Tables = dict[str, Table]
"""tables by name"""
LabelledRuns = list[tuple[str, Path]]
"""label and folder of each run"""
SHOWN = {
    "rsrp_dbm": ("RSRP", "dBm", 1.0),
    "gain_db": ("gain", "dB", 1.0),
    "geometry_db": ("geometry", "dB", 1.0),
    "sinr_db": ("SINR", "dB", 1.0),
    "rate_bps": ("rate", "Mbit/s", 1e-6),
}
"""quantity of a radio study -> its name and unit in figures, and the factor to that unit"""
QUANTITIES = tuple(SHOWN)
RUNS = "runs.csv"
SWEEP = "sweep.json"
RADIO_STUDY = "radio"
"""the `kind` in the manifest of a run without learning"""
SELECTIONS = ("all", "indoor", "outdoor")
"""samples that a distribution is made of"""

_SHARED = ("ues", "handovers", "tracks", "coverage")
RADIO = {name: TABLES[name] for name in _SHARED} | read_tables(__package__, "radio_tables.toml")
"""tables of a radio study"""
EVERY = TABLES | RADIO
"""tables of all kinds of run"""


MANIFEST = "manifest.json"
SUMMARY = "summary.json"
STUDY = "study.yaml"
CHECKPOINT = "checkpoint.npz"
POINTS = "points.npz"
MAP = "map.npz"
GRID = "grid.npz"
SURFACES = "surfaces.npz"
PLAN = "plan.json"
PAGE = "report.html"
ERROR = "error.txt"
"""the traceback of a run that failed"""
VIEWS = "views"
"""the folder of what the attacker received"""
EXPORT = "tracks.geojson"
"""the file of `netsim export`"""
RESULTS = (
    SUMMARY,
    CHECKPOINT,
    MANIFEST,
    PLAN,
    POINTS,
    MAP,
    GRID,
    SURFACES,
    *(f"{name}.csv" for name in EVERY),
    PAGE,
    ERROR,
    EXPORT,
)
"""the files of a run besides its study; without the first, which is written last, it is not
finished"""

_MOST_JSON_BYTES = 2**28


# -- marker and lock: one file, written before anything else, that says what the folder is
#
# A folder with a marker is ours, whatever else is missing: a run that is killed at any moment
# leaves a folder that the same command takes up. The marker is locked (`flock`) while the folder is
# written. The system lets go of the lock when its process ends, in whatever way, so no lock
# outlives its owner, and no two processes hold it.

MARKER = ".netsim"
Mark = Literal["run", "sweep", "training"]
"""what a folder is"""
# a process that was told to end, or whose parent ended, lets go of a lock within this
PATIENCE_S = 2.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, a quota, a bound on files
_NO_ACCESS = (
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ESTALE,
    errno.ENODEV,
)  # taken away, or broken
_MOST_BYTES = 100


def read_marker(folder: Path) -> str:
    """Read what the marker says that a folder is; empty where there is none, or nothing in it yet.

    Raises BadInput for a marker that is none of ours.
    """
    path = folder / MARKER
    try:
        text = read_content(path, _MOST_BYTES, is_ours=True).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; give --out another folder") from None
    if text and text not in get_args(Mark):
        raise BadInput(f"{path}: is no marker of netsim; give --out another folder")
    return text


@contextmanager
def lock_folder(
    folder: Path, mark: Mark, admit: Callable[[], object], waits: Callable[[], bool] = bool
) -> Generator[None]:
    """Create a folder if need be, mark and lock it; only one process at a time does so.

    `admit` raises BadInput for a folder that may not be had. It is asked before anything is
    written, and again under the lock, when nobody else can change the answer. waits : whether to
    wait for another process as long as it takes, since it does the same work; else it is refused
    after PATIENCE_S.
    """
    admit()
    kept = KEPT[-1]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = kept.get(folder) or open_own_file(folder / MARKER, create=True)
    except OSError as error:
        raise BadInput(
            f"{folder}: cannot be written ({error.strerror}); give --out another place"
        ) from None
    try:
        if folder not in kept:
            _wait_for_lock(fd, folder, mark, waits)
        if not kept:
            kept[folder] = fd
        if read_marker(folder) != mark:
            admit()
            os.ftruncate(fd, 0)
            os.write(fd, f"{mark}\n".encode())
        admit()
        remove_parts(folder)
        yield
    except OSError as error:
        elsewhere = error.filename is not None and not Path(str(error.filename)).is_relative_to(
            folder
        )
        if error.errno not in _NO_ROOM and (elsewhere or error.errno not in _NO_ACCESS):
            raise
        remedy = "make room" if error.errno in _NO_ROOM else "see that it can be written"
        raise BadInput(
            f"{folder}: cannot be written any more ({error.strerror}); {remedy}, and the same "
            "command goes on where it stopped"
        ) from None
    finally:
        if folder not in kept:
            os.close(fd)  # and with it the lock goes


def refuse_irregular_files(folder: Path, ours: Callable[[str], bool]) -> None:
    """Refuse a folder in which one of our names is a link, a folder or a device; nothing is written
    through it.
    """
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if ours(path.name):
            try:
                check_own(path)
            except OSError as error:
                raise BadInput(
                    f"{path}: {error.strerror}; give --out another folder, or move it away"
                ) from None


def _wait_for_lock(fd: int, folder: Path, mark: str, waits: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    patient = False
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until and not patient:
                patient = waits()
                if not patient:
                    raise BadInput(
                        f"{folder}: another process is writing this {mark}; "
                        "wait for it, or give --out another folder"
                    ) from None
                compiled.tell(
                    f"netsim: {folder}: another process is writing this {mark}; waiting for it"
                )
            time.sleep(0.05)
        except OSError as error:
            raise BadInput(
                f"{folder}: its file system cannot lock files ({error.strerror}); "
                "give --out a folder on another one"
            ) from None


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files of a folder, where they are there."""
    for name in names:
        (folder / name).unlink(missing_ok=True)


def clear_results(folder: Path) -> None:
    """Forget the results of a run; its study stays until another one is written."""
    remove_files(folder, RESULTS)
    remove_views(folder)


def remove_views(folder: Path) -> None:
    """Remove the views that a run kept; not through a link, which stays and is refused."""
    rmtree(folder / VIEWS, ignore_errors=True)


def remove_run(folder: Path) -> None:
    """Remove a run, and its folder and the one above it where nothing else is in them."""
    with lock_folder(folder, "run", lambda: None):
        clear_results(folder)
        remove_files(folder, (STUDY, MARKER))
    with suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()


def has_our_marker(folder: Path, kind: Mark) -> bool:
    """Whether a folder is ours, `kind` its marker says; False: it is empty.

    Raises BadInput for a folder that holds something else.
    """
    names = [name for name in list_names(folder) if name != MARKER]
    mark = read_marker(folder)
    if mark not in ("", kind):
        raise BadInput(f"{folder}: holds a {mark}, not a {kind}; give --out an empty or new folder")
    if names and not mark:
        raise BadInput(
            f"{folder}: exists and holds something that is not a {kind}; give --out an "
            f"empty or new folder"
        )
    return bool(mark)


def refuse_foreign_names(folder: Path, names: Collection[str], owner: str) -> None:
    """Refuse a folder for several runs that holds anything but these names; `what` it should be."""
    if foreign := sorted(name for name in list_names(folder) if find_whole_name(name) not in names):
        raise BadInput(
            f"{folder}: exists and holds {foreign[0]!r}, which does not belong to {owner}; give "
            "--out an empty or new folder"
        )


def refuse_links(out: Path, inner: Iterable[str]) -> None:
    """Refuse a folder of ours in which a folder on the way to one of `inner` is a link: it leads
    elsewhere.
    """
    for place in inner:
        path = out
        for name in Path(place).parts:
            path /= name
            if path.is_symlink():
                raise BadInput(
                    f"{path}: is a symbolic link, and runs belong into folders; remove it"
                )


def list_names(folder: Path) -> list[str]:
    """List names in a folder; none where there is none yet. Raises BadInput for what is no folder,
    or cannot be read.
    """
    try:
        return [p.name for p in folder.iterdir()]
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise BadInput(f"{folder}: is a file; give --out another name") from None
    except OSError as error:
        raise BadInput(
            f"{folder}: cannot be read ({error.strerror}); give --out another place"
        ) from None


def has_text(path: Path, text: str) -> bool:
    """Whether a file of ours holds exactly this text."""
    expected = text.encode()
    try:
        return read_content(path, len(expected), is_ours=True) == expected
    except OSError:
        return False


def read_json(path: Path) -> Fields:
    """Read a JSON object of a run folder."""
    try:
        value = json.loads(
            read_content(path, _MOST_JSON_BYTES, is_ours=True),
            parse_int=_parse_whole,
            parse_float=_parse_finite,
            parse_constant=_parse_finite,
        )
    except FileNotFoundError:
        raise BadInput(
            f"{path}: no such file; is {path.parent} the folder of a finished run?"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(
            f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from None
    if not isinstance(value, dict):
        raise BadInput(f"{path}: not a JSON object")
    return value


def _parse_finite(text: str) -> float:
    """Parse a number of JSON. Raises ValueError for one that no float holds."""
    value = float(text)
    if not isfinite(value):
        raise ValueError(
            f"{text:.20}{'...' * (len(text) > 20)} is no finite number; run the study again"
        )
    return value


def _parse_whole(text: str) -> int:
    _parse_finite(text)
    return int(text)


def find_record_file(folder: Path) -> Path:
    """Find what a run, or a training, says of itself."""
    return folder / (TRAINING if describe_file_kind(folder / TRAINING) else MANIFEST)


def read_summary(folder: Path) -> Fields:
    """Read the summary of a finished run or training, checked: written with the names of this
    version, and numbers only.
    """
    check_version(folder, read_json(find_record_file(folder)))
    summary = read_json(folder / SUMMARY)
    wrong = [key for key, value in summary.items() if not isinstance(value, int | float | None)]
    if wrong:
        raise BadInput(f"{folder / SUMMARY}: {wrong[0]} is not a number; run the study again")
    return summary


def read_finished_manifest(folder: Path) -> Fields:
    """Read the manifest of a finished run. BadInput for one that is not finished, with how it goes
    on.
    """
    if describe_file_kind(folder / SUMMARY):
        return read_json(folder / MANIFEST)
    begun = read_marker(folder) == "run" and not describe_file_kind(folder / MANIFEST)
    manifest = {} if begun else read_json(folder / MANIFEST)
    check_version(folder, manifest)
    command = str(manifest.get("command") or "")
    lines = [""]
    if describe_file_kind(folder / ERROR):
        trace = read_content(folder / ERROR, OURS_MOST_BYTES).decode("utf-8", "replace")
        lines += trace.strip().splitlines()
    raise BadInput(read_sentences().unfinished(folder, command, lines[-1]))


def get_played_version(manifest: Record) -> str:
    """Get the version of netsim that played a run, as its manifest says."""
    versions = manifest.get("versions")
    version = versions.get("netsim") if isinstance(versions, dict) else manifest.get("program")
    return to_one_line(str(version or "of another version"))


def check_version(folder: Path, manifest: Record) -> None:
    """Refuse a run whose records have another schema: other tables, columns or keys."""
    if manifest.get("schema", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise BadInput(
            f"{folder}: records of schema {manifest['schema']}, written by netsim "
            f"{get_played_version(manifest)}; this one reads schema {SCHEMA_VERSION}; "
            "run the study again"
        )


def refuse_mixed_versions(folders: Mapping[str, Path]) -> None:
    """Refuse results of several versions of netsim side by side. folders : version -> one that it
    made.
    """
    if len(folders) > 1:
        (version, path), (other_version, other_path), *_ = folders.items()
        raise BadInput(
            f"{path} was made by netsim {version} and {other_path} by {other_version}, whose "
            "figures may differ by themselves; make both with one version, or look at each alone"
        )


def list_written_tables(manifest: Record) -> Collection[str]:
    """List the tables of which a finished run wrote rows; of a manifest that lists none, which is
    older, all of its kind.
    """
    listed = manifest.get("tables")
    if isinstance(listed, dict):
        return listed
    if manifest.get("kind") == RADIO_STUDY:
        return RADIO
    return TABLES


def read_record_table(folder: Path, table: str, listed: Collection[str] | None = None) -> Table:
    """Read a record table as columns: text as it is, everything else float64 with NaN for empty
    cells.

    One without a file has no rows. listed : tables that have some, where that is known; None: by
    the manifest.

    Raises BadInput: it is damaged, or listed and has no file.
    """
    path = folder / f"{table}.csv"
    try:
        with open_table_text(path) as f:
            return {
                name: _parse_column(table, name, cells)
                for name, *cells in zip(*csv.reader(f), strict=True)
            }
    except FileNotFoundError:
        if table in (
            list_written_tables(read_json(folder / MANIFEST)) if listed is None else listed
        ):
            raise BadInput(
                f"{path}: is gone, and the run wrote it; put it back, or run the study again"
            ) from None
        return {name: np.zeros(0, column.dtype) for name, column in EVERY[table].items()}
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror}); is {folder} a run folder?"
        ) from None
    except (
        ValueError,
        csv.Error,
    ) as error:  # cells that are no numbers, rows of different lengths, a NUL
        raise BadInput(f"{path}: damaged ({error}); run the study again") from None


def read_csv_rows(path: Path, again: str = "start the sweep again") -> list[Row]:
    """Read rows of a CSV of ours as text, by column. BadInput: it is missing or damaged; again: the
    remedy.
    """
    try:
        with open_table_text(path) as file:
            rows = list(csv.DictReader(file))
        if any(None in row or None in row.values() for row in rows):
            raise ValueError("a row has not as many cells as the heading")
    except (OSError, ValueError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{path}: damaged ({reason}); {again}") from None
    return [{name: unguard_cell(cell) for name, cell in row.items()} for row in rows]


def to_csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Write rows, the heading first, as the text of a CSV."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([map(format_cell, row) for row in rows])
    return text.getvalue()


def open_table_text(path: Path) -> TextIO:
    """Open a table of ours for reading. Raises OSError."""
    return TextIOWrapper(
        open_regular(path, OURS_MOST_BYTES, is_ours=True), encoding="utf-8", newline=""
    )


def _parse_column(table: str, name: str, cells: Sequence[str]) -> np.ndarray:
    column = EVERY[table].get(name, Column("", type="text"))
    try:
        return np.array(column.read(cells), column.dtype)
    except ValueError as error:
        raise ValueError(f"column {name}: {error}") from None


SCENERY = ("green", "water")
"""what map.npz may hold besides buildings and streets"""


# -- the folder of a training

TRAINING = "training.json"
CURVE = "curve.csv"
EVALUATIONS = "evaluations.csv"
KIND = "training"
"""what training.json says that it is"""


FAILURES = "failures.csv"


@dataclass(frozen=True)
class Failed:
    """A run that failed. folder : in that of all runs. attempts : how often it was tried. error :
    its line.
    """

    folder: str
    label: str
    seed: int
    attempts: int
    kind: str
    error: str


def write_failures(folder: Path, failed: Sequence[Failed]) -> None:
    """Keep the table of failures; where nothing failed there is none."""
    if not failed:
        (folder / FAILURES).unlink(missing_ok=True)
        return
    rows = [[field.name for field in fields(Failed)], *map(astuple, failed)]
    write_text(folder / FAILURES, to_csv_text(rows))


def read_failures(folder: Path) -> list[Failed]:
    """Read what failed when runs of a folder were played last. BadInput: the table is damaged."""
    path = folder / FAILURES
    if not describe_file_kind(path):
        return []
    rows: list[Fields] = read_csv_rows(path)
    try:
        return [
            Failed(**row | {name: int(row[name]) for name in ("seed", "attempts")}) for row in rows
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{path}: not a table of failures ({error!r}); start the sweep again"
        ) from None


def refuse_failures(*folders: Path) -> None:
    """Raise RunsFailed where runs of these folders failed."""
    failed = {folder: len(read_failures(folder)) for folder in folders}
    if any(failed.values()):
        tables = ", ".join(str(folder / FAILURES) for folder, n in failed.items() if n)
        total = format_count(sum(failed.values()), "run")
        raise RunsFailed(f"{total} failed, see {tables}; the same command plays what is missing")


def format_failures(failed: Sequence[Failed]) -> list[str]:
    """Format for people: how many failed, then each with its error and where its traceback lies;
    nothing where none did.
    """
    return read_sentences().failures(failed).splitlines()

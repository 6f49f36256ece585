"""Repeat a finished run, sweep, tuning or training from what its folder says, and compare every number."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from netsim import __version__
from netsim.checkpoint import read_arrays
from netsim.errors import BadInput, one_line
from netsim.parquet import read_parquet
from netsim.safe import OURS_MOST_BYTES, content, what_is
from scenarios.app.results.folder import (
    CHECKPOINT,
    ERROR,
    EXPORTS,
    MANIFEST,
    PAGE,
    STUDY,
    SUMMARY,
    TRAINING,
    WORLDS,
    check_version,
    is_parquet,
    no_links,
    read_json,
    text_of,
    version_of,
)
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.how import How
from scenarios.app.run.job import MOST_TEXT_BYTES, Job, JobKind, changed_input, do
from scenarios.app.run.runner import run_job
from scenarios.app.run.sweep import folder_name
from scenarios.app.study.load import load

_SHOWN = 40  # characters of a text


@dataclass(frozen=True)
class ValueDifference:
    """Where two folders differ: a file, what in it (a key, a column, an array), and how.

    size : the largest difference relative to the larger of two numbers; infinite where something is no number, is
    missing or has another length.
    """

    file: str
    what: str
    how: str
    size: float

    def text(self) -> str:
        """A line."""
        return one_line(f"{self.file}{f', {self.what}' if self.what else ''}: {self.how}")


def differences_in(first: Path, second: Path, names: Sequence[str]) -> list[ValueDifference]:
    """What differs in the files of these names, in their order; of a file those that differ most come first.

    Files with the same bytes are the same, and are not looked into.
    """
    found: list[ValueDifference] = []
    for name in names:
        a = first / name
        b = second / name
        if not what_is(a) and not what_is(b):
            continue
        if not what_is(a) or not what_is(b):
            found.append(ValueDifference(name, "", f"is missing in {(b if what_is(a) else a).parent}", np.inf))
        elif _bytes(a) != _bytes(b):
            of = sorted(_looked_into(a, b), key=lambda d: -d.size)
            found += of or [ValueDifference(name, "", "other bytes, the same numbers", 0.0)]
    return found


def check_whole(folder: Path, names: Sequence[str]) -> None:
    """Refuse (BadInput) a folder of which one of these files is there and cannot be read as what it is."""
    for path in (folder / name for name in names):
        if path.suffix in _KINDS and what_is(path):
            values_in(path)


def _bytes(path: Path) -> bytes:
    try:
        return content(path, OURS_MOST_BYTES, own=True)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); run the study again") from None


def _looked_into(a: Path, b: Path) -> list[ValueDifference]:
    """The differences of two files of one name."""
    kind = _KINDS.get(a.suffix)
    return [] if kind is None else _of_values(a.name, values_in(a), values_in(b), kind)


_KINDS = {".json": "", ".csv": "column ", ".parquet": "column ", ".npz": "array "}


def values_in(path: Path) -> dict[str, list[Any]]:
    """What a file of results holds: key, column or array -> its values; cells of a table as they are written."""
    try:
        if path.suffix == ".json":
            return {key: [value] for key, value in flattened(read_json(path)).items()}
        if path.suffix == ".csv":
            with text_of(path) as file:
                columns = zip(*csv.reader(file), strict=True)
                return {name: cells for name, *cells in columns}
        read = read_parquet if path.suffix == ".parquet" else read_arrays
        return {key: array.reshape(-1).tolist() for key, array in read(path).items()}
    except (OSError, ValueError, csv.Error) as error:
        raise BadInput(f"{path}: damaged ({error}); run the study again") from None


def flattened(value: Any, path: str = "") -> dict[str, Any]:
    """Path -> value of everything in a JSON object."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        return {path: value}
    return {k: v for key, one in inner for k, v in flattened(one, f"{path}.{key}".lstrip(".")).items()}


def _of_values(
    file: str, a: Mapping[str, Sequence[Any]], b: Mapping[str, Sequence[Any]], kind: str
) -> list[ValueDifference]:
    found = [
        ValueDifference(file, f"{kind}{name}", "only in one of the two", np.inf) for name in sorted(set(a) ^ set(b))
    ]
    for name in (name for name in a if name in b):
        one = _compared(a[name], b[name])
        found += [] if one is None else [ValueDifference(file, f"{kind}{name}", *one)]
    return found


def _compared(a: Sequence[Any], b: Sequence[Any]) -> tuple[str, float] | None:
    """How two columns differ, and by how much; None where they are the same."""
    if len(a) != len(b):
        return f"{len(a):,} rows and {len(b):,} rows", np.inf
    sizes = {k: _size(x, y) for k, (x, y) in enumerate(zip(a, b, strict=True)) if x != y and not (x != x and y != y)}
    if not sizes:
        return None
    at = max(sizes, key=lambda k: sizes[k])
    values = f"{str(a[at])[:_SHOWN]!r} and {str(b[at])[:_SHOWN]!r}"
    if len(a) == 1:
        return values, sizes[at]
    return f"{len(sizes):,} of {len(a):,} rows differ, most in row {at + 1:,}: {values}", sizes[at]


def _size(x: Any, y: Any) -> float:
    """The relative difference of two numbers; infinite where one is none."""
    try:
        one = float(x)
        two = float(y)
    except (TypeError, ValueError):
        return np.inf
    most = max(abs(one), abs(two))
    size = abs(one - two) / most if most else 0.0
    return float(size) if np.isfinite(size) else np.inf


_OTHER = (MANIFEST, TRAINING, STUDY, CHECKPOINT, PAGE, ERROR, WORLDS, *EXPORTS.values())
"""files that a repetition does not write byte by byte: records tell wall times"""


@dataclass(frozen=True)
class Repeated:
    """A repeated run or training: its label and folder, the folder of the repetition, what differs, and a note.

    label : its path below the folder that was asked for; empty for that itself.
    """

    label: str
    folder: Path
    again: Path
    differences: list[ValueDifference]
    note: str = ""


def rerun(
    folder: Path, out: Path, only: str | None, watch: Watch, replace: bool = False
) -> tuple[list[Repeated], list[str]]:
    """Repeat all runs and trainings in a folder below `out`, or those of the label `only`; and what was left out.

    Everything is checked before the first is repeated. replace : whether finished runs in `out`, and runs of other
    studies, may be replaced.

    Raises
    ------
    BadInput : one line: nothing finished, another format, no such label, a damaged table, a study or a file of data
        that is gone or changed, an `out` that holds something else.
    """
    if what_is(folder) != "folder":
        raise BadInput(f"{folder}: no such folder; give the folder of a run, a sweep or a training")
    if out.resolve().is_relative_to(folder.resolve()):
        raise BadInput(f"--out {out}: lies in {folder}, which stays as it is; give another folder")
    paths, skipped = _finished_in(folder, only)
    jobs = [_repetition(path, out / path.relative_to(folder), replace) for path in paths]
    no_links(out, [str(job.folder.relative_to(out)) for job in jobs])
    for job in jobs:
        job.admit()
        if what_is(job.folder / SUMMARY) and not replace:
            raise BadInput(
                f"{job.folder}: holds a finished {job.kind.name}; add --replace, or give --out another folder"
            )
    repeated = []
    for k, (path, job) in enumerate(zip(paths, jobs, strict=True), 1):
        label = "" if path == folder else str(path.relative_to(folder))
        watch(Event("played", k, len(jobs), False, {"label": label}))
        (job.folder / SUMMARY).unlink(missing_ok=True)  # else it would be taken for repeated
        do(job)
        found = differences_in(path, job.folder, compared(job.kind))
        version = version_of(read_json(_record(path)))
        note = "" if version == __version__ else f"was made by netsim {version}, and is repeated by {__version__}"
        repeated.append(Repeated(label, path, job.folder, found, note))
    return repeated, skipped


def compared(kind: JobKind) -> list[str]:
    """The files that a repetition writes byte by byte."""
    return [name for name in kind.files if name not in _OTHER]


def _finished_in(folder: Path, only: str | None) -> tuple[list[Path], list[str]]:
    """The folders of finished runs and trainings, itself or below, and what is left out, with the reason."""
    labels = {only, folder_name(only or "")}
    below = sorted({path.parent for record in (TRAINING, MANIFEST) for path in folder.rglob(record)})
    found = [path for path in below if only is None or labels & set(path.relative_to(folder).parts)]
    done = [path for path in found if what_is(path / SUMMARY)]
    skipped = [one_line(f"{path}: is not finished") for path in found if path not in done]
    if not done:
        which = "" if only is None else f" of the label {only}"
        nothing = f"{folder}: no finished run, sweep, tuning or training{which} in it"
        raise BadInput(f"{skipped[0] if skipped else nothing}; give a folder that netsim wrote to the end")
    return done, skipped


def _record(folder: Path) -> Path:
    return folder / (TRAINING if what_is(folder / TRAINING) else MANIFEST)


def _repetition(folder: Path, place: Path, replace: bool) -> Job:
    """The job of a finished run or training again, in another place. BadInput: why it cannot be repeated."""
    record = _record(folder)
    path = folder / STUDY
    manifest = read_json(record)
    check_version(folder, manifest)
    try:
        digest = hashlib.sha256(content(path, MOST_TEXT_BYTES, own=True)).hexdigest()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); put back the file of this run") from None
    if manifest.get("study", digest) != digest:
        changed = f"{path}: was changed after the run: its SHA-256 is not the one in {record}"
        raise BadInput(f"{changed}; put back the file of this run, or run the changed one as a scenario")
    study = load(path)
    if record.name == TRAINING:
        from scenarios.app.training.train import jobs_of

        (job,) = jobs_of(study, [int(manifest["seed"])], place, replace)
    else:
        how = How(records="parquet" if is_parquet(folder) else "csv")
        job = run_job(study, place, command=f"netsim rerun {folder}", replace=replace, how=how)
    file, digest = changed_input(path, job.text)
    if file:
        why = "has other content than when this run read it" if digest else "is gone or cannot be read"
        raise BadInput(f"{folder}: {file} {why}; put it back")
    check_whole(folder, compared(job.kind))
    return job

"""Repeat a finished run, sweep or training from what its folder says, and compare every number."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from netsim import __version__
from netsim.errors import BadInput, one_line
from netsim.safe import content, what_is
from scenarios.app.results.folder import (
    CHECKPOINT,
    ERROR,
    EXPORTS,
    MANIFEST,
    PAGE,
    STUDY,
    SUMMARY,
    TRAINING,
    check_version,
    is_parquet,
    no_links,
    read_json,
    record_of,
    version_of,
)
from scenarios.app.results.gathered import ValueDifference, check_whole, differences_in
from scenarios.app.run.events import Event, Watch, ignore
from scenarios.app.run.how import How
from scenarios.app.run.job import MOST_TEXT_BYTES, Job, JobKind, changed_input, do
from scenarios.app.run.runner import run_job
from scenarios.app.run.sweep import folder_name
from scenarios.app.study.load import load

_OTHER = (MANIFEST, TRAINING, STUDY, CHECKPOINT, PAGE, ERROR, *EXPORTS.values())
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

    Everything is checked before the first is repeated. What is finished in `out` is compared as it is, which is noted.
    replace : whether that is repeated again, and runs of other studies may be replaced.

    Raises BadInput: nothing finished, another format, no such label, a damaged table, a study or a file of data
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
    repeated = []
    for k, (path, job) in enumerate(zip(paths, jobs, strict=True), 1):
        label = "" if path == folder else str(path.relative_to(folder))
        watch(Event("played", k, len(jobs), False, {"label": label}))
        was_there = not replace and job.done() is not None
        do(job, ignore, replace)
        found = differences_in(path, job.folder, compared(job.kind))
        version = version_of(read_json(record_of(path)))
        note = f"{job.folder} was there already; --replace repeats it again" if was_there else ""
        note = note if version == __version__ else f"was made by netsim {version}, and is repeated by {__version__}"
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
        nothing = f"{folder}: no finished run, sweep or training{which} in it"
        raise BadInput(f"{skipped[0] if skipped else nothing}; give a folder that netsim wrote to the end")
    return done, skipped


def _repetition(folder: Path, place: Path, replace: bool) -> Job:
    """The job of a finished run or training again, in another place. BadInput: why it cannot be repeated."""
    record = record_of(folder)
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

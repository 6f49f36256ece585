"""Repeat a finished run, sweep, tuning or training from what its folder says, and compare every number."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from netsim import __version__
from netsim.errors import BadInput
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
    WORLDS,
    check_version,
    finished_manifest,
    is_parquet,
    no_links,
    read_json,
    version_of,
)
from scenarios.app.results.same import ValueDifference, check_whole, differences_in
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.how import How
from scenarios.app.run.job import MOST_TEXT_BYTES, Job, JobKind, changed_input, do
from scenarios.app.run.play import run_job
from scenarios.app.run.points import folder_name
from scenarios.app.study.load import load
from scenarios.app.study.yaml_document import one_line

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
        raise BadInput(one_line(f"{folder}: no such folder; give the folder of a run, a sweep or a training"))
    if out.resolve().is_relative_to(folder.resolve()):
        raise BadInput(one_line(f"--out {out}: lies in {folder}, which stays as it is; give another folder"))
    paths, skipped = _finished_in(folder, only)
    jobs = [_repetition(path, out / path.relative_to(folder), replace) for path in paths]
    no_links(out, [str(job.folder.relative_to(out)) for job in jobs])
    for job in jobs:
        job.admit()
        if what_is(job.folder / SUMMARY) and not replace:
            line = f"{job.folder}: holds a finished {job.kind.name}; add --replace, or give --out another folder"
            raise BadInput(one_line(line))
    repeated = []
    for k, (path, job) in enumerate(zip(paths, jobs, strict=True), 1):
        label = str(path.relative_to(folder)) if path != folder else ""
        watch(Event("played", k, len(jobs), False, {"label": label}))
        (job.folder / SUMMARY).unlink(missing_ok=True)  # else it would be taken for repeated
        do(job)
        found = differences_in(path, job.folder, compared(job.kind))
        repeated.append(Repeated(label, path, job.folder, found, _note(path / job.kind.record)))
    return repeated, skipped


def _note(record: Path) -> str:
    """What must be known of a run that another version made."""
    version = version_of(read_json(record))
    return "" if version == __version__ else f"was made by netsim {version}, and is repeated by {__version__}"


def _repetition(folder: Path, place: Path, replace: bool) -> Job:
    """The job of a finished run or training again, in another place. BadInput: why it cannot be repeated."""
    training = bool(what_is(folder / TRAINING))
    record = folder / (TRAINING if training else MANIFEST)
    manifest = read_json(record) if training else finished_manifest(folder)
    if training and not (manifest.get("finished") and what_is(folder / SUMMARY)):
        raise BadInput(one_line(f"{folder}: this training is not finished; start it again and it goes on"))
    check_version(folder, manifest)
    path = folder / STUDY
    try:
        digest = hashlib.sha256(content(path, MOST_TEXT_BYTES, own=True)).hexdigest()
    except OSError as error:
        raise BadInput(one_line(f"{path}: cannot be read ({error.strerror}); put back the file of this run")) from None
    if manifest.get("study", digest) != digest:
        raise BadInput(
            one_line(f"{path}: was changed after the run: its SHA-256 is not the one in {record}; put back the file of "
                     "this run, or run the changed one as a scenario of its own")
        )  # fmt: skip
    study = load(path)
    if training:
        from scenarios.app.training.train import jobs_of

        (job,) = jobs_of(study, [int(manifest["seed"])], place, replace)
    else:
        how = How(records="parquet" if is_parquet(folder) else "csv")
        job = run_job(study, place, command=f"netsim rerun {folder}", replace=replace, how=how)
    file, digest = changed_input(path, job.text)
    if file:
        why = "has other content than when this run read it" if digest else "is gone or cannot be read"
        raise BadInput(one_line(f"{folder}: {file} {why}; put it back"))
    check_whole(folder, compared(job.kind))
    return job


def compared(kind: JobKind) -> list[str]:
    """The files that a repetition writes byte by byte."""
    return [name for name in kind.files if name not in _OTHER]


def _finished_in(folder: Path, only: str | None) -> tuple[list[Path], list[str]]:
    """The folders of finished runs and trainings, itself or below, and what is left out, with the reason."""
    if any(what_is(folder / record) for record in (TRAINING, MANIFEST)):
        return [folder], []
    below = {path.parent for record in (TRAINING, MANIFEST) for path in folder.rglob(record)}
    wanted = {only, folder_name(only)} if only is not None else set[str | None]()
    found = sorted(path for path in below if only is None or wanted & set(path.relative_to(folder).parts))
    done = [path for path in found if what_is(path / SUMMARY)]
    if not done:
        which = "" if only is None else f" of the label {only}"
        what = f"no finished run, sweep, tuning or training{which} in it"
        raise BadInput(one_line(f"{folder}: {what}; give a folder that netsim wrote"))
    return done, [one_line(f"{path}: is not finished") for path in found if path not in done]

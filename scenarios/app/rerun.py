"""Play finished runs and trainings again from what their folders say, and compare tables and
summaries.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from netsim.checkpoint import read_arrays
from netsim.errors import BadInput, to_one_line
from netsim.safe import OURS_MOST_BYTES, describe_file_kind, read_content
from scenarios.app.results.folder import (
    CHECKPOINT,
    ERROR,
    EXPORT,
    MANIFEST,
    PAGE,
    STUDY,
    SUMMARY,
    TRAINING,
    check_version,
    open_table_text,
    read_json,
    refuse_links,
)
from scenarios.app.results.gathered import flatten_keys
from scenarios.app.run.events import Watch
from scenarios.app.run.job import Job, JobKind, do_job, find_changed_input_and_digest
from scenarios.app.run.runner import build_run_job
from scenarios.app.run.sweep import make_folder_name
from scenarios.app.study.load import load

_OTHER = (MANIFEST, TRAINING, STUDY, CHECKPOINT, PAGE, ERROR, EXPORT)
"""files that a repetition does not write byte by byte: records tell wall times"""
_SHOWN = 40  # characters of a value


def rerun_folder(
    folder: Path, out: Path, only: str | None, watch: Watch, replace: bool = False
) -> dict[Path, list[str]]:
    """Play all finished runs and trainings in a folder again below `out`, or those of the label
    `only`.

    Returns the folder of each, and what differs in its repetition, a line each. What is finished in
    `out` is compared as it is. replace : whether runs of other studies there may be replaced.

    Raises BadInput: nothing finished, another format, a study or a file of data that is gone or
    changed, an `out` that holds something else.
    """
    if out.resolve().is_relative_to(folder.resolve()):
        raise BadInput(f"--out {out}: lies in {folder}, which stays as it is; give another folder")
    labels = {only, make_folder_name(only or "")}
    records = sorted(path for name in (TRAINING, MANIFEST) for path in folder.rglob(name))
    done = [path for path in records if describe_file_kind(path.with_name(SUMMARY))]
    jobs = {
        record.parent: build_repetition(record, out / record.parent.relative_to(folder), replace)
        for record in done
        if only is None or labels & set(record.parent.relative_to(folder).parts)
    }
    if not jobs:
        label_text = ""
        if only is not None:
            label_text = f" of the label {only}"
        raise BadInput(
            f"{folder}: no finished run or training{label_text} in it; give a folder that "
            f"netsim wrote to the end"
        )
    refuse_links(out, [str(job.folder.relative_to(out)) for job in jobs.values()])
    for job in jobs.values():
        job.admit()
    for job in jobs.values():
        do_job(job, watch)
    return {
        path: [*compare_tables(path, job.folder, list_compared_files(job.kind))]
        for path, job in jobs.items()
    }


def build_repetition(record: Path, place: Path, replace: bool) -> Job:
    """Return the job of a finished run or training again, in another place. record : of the
    finished one.
    """
    folder = record.parent
    manifest = read_json(record)
    check_version(folder, manifest)
    read_json(folder / SUMMARY)  # a damaged one is refused before hours are played
    study = load(folder / STUDY)
    if record.name == TRAINING:
        from scenarios.app.training.train import build_training_jobs

        (job,) = build_training_jobs(study, [int(manifest["seed"])], place, replace)
    else:
        job = build_run_job(study, place, command=f"netsim rerun {folder}", replace=replace)
    file, digest = find_changed_input_and_digest(folder / STUDY, job.text)
    if file:
        reason = (
            "has other content than when this run read it"
            if digest
            else "is gone or cannot be read"
        )
        raise BadInput(f"{folder}: {file} {reason}; put it back")
    return job


def list_compared_files(kind: JobKind) -> list[str]:
    """Return the files that a repetition writes byte by byte."""
    return [name for name in kind.files if name not in _OTHER]


def compare_tables(first: Path, second: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield what differs in the files of these names: a line for each key, column or array."""
    for name in names:
        a, b = (
            read_values(path) if describe_file_kind(path) else {}
            for path in (first / name, second / name)
        )
        for key in dict.fromkeys([*a, *b]):
            pairs = [
                *zip_longest(
                    map(str, a.get(key, ())), map(str, b.get(key, ())), fillvalue="nothing"
                )
            ]
            differ = [k for k, (x, y) in enumerate(pairs) if x != y]
            if differ:
                x, y = (repr(text[:_SHOWN]) for text in pairs[differ[0]])
                rows = (
                    f"{len(differ):,} of {len(pairs):,} values differ, first in row "
                    f"{differ[0] + 1:,}: "
                )
                yield to_one_line(f"{name}, {key}: {rows if len(pairs) > 1 else ''}{x} and {y}")


def read_values(path: Path) -> Mapping[str, Sequence[object]]:
    """Return what a file of results holds: key, column or array -> its values, cells of a table as
    they are written; of any other kind of file its bytes.
    """
    if path.suffix == ".json":
        return {key: [value] for key, value in flatten_keys(read_json(path)).items()}
    try:
        if path.suffix == ".csv":
            with open_table_text(path) as file:
                return {name: cells for name, *cells in zip(*csv.reader(file), strict=True)}
        if path.suffix == ".npz":
            return {key: array.reshape(-1).tolist() for key, array in read_arrays(path).items()}
        return {"bytes": [read_content(path, OURS_MOST_BYTES, is_ours=True)]}
    except (OSError, ValueError, csv.Error) as error:
        raise BadInput(f"{path}: damaged ({error}); run the study again") from None

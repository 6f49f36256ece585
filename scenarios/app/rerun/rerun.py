"""Repeat a finished run, sweep or training from what its folder says, and compare every number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from netsim import __version__
from netsim.errors import BadInput
from netsim.record import cell_text
from netsim.safe import what_is
from scenarios.app.results.folder import (
    CHECKPOINT,
    MANIFEST,
    RECORDS,
    STUDY,
    SUMMARY,
    check_version,
    finished_manifest,
    is_parquet,
    read_json,
)
from scenarios.app.results.read import RUNS, SWEEP, listed
from scenarios.app.results.same import Difference, differences_in, values_in
from scenarios.app.results.training_folder import (
    CURVE,
    EPISODE,
    EPISODE_ROUNDS,
    EPISODE_SCENE,
    EVALUATIONS,
    TRAINING,
)
from scenarios.app.run.how import How
from scenarios.app.run.inputs import input_digests
from scenarios.app.run.runner import run
from scenarios.app.study.load import load
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import one_line

OF_RUN = tuple(name for name in RECORDS if name not in (MANIFEST, CHECKPOINT))
"""files of a run that its repetition writes byte by byte; a manifest tells wall times"""
OF_TRAINING = (SUMMARY, CURVE, EVALUATIONS, "policy.json", "policy.safetensors", EPISODE, EPISODE_ROUNDS, EPISODE_SCENE)
Tell = Callable[[int, int, str], None]
"""told of each repetition: which, of how many, its label"""


@dataclass(frozen=True)
class Repeated:
    """A repeated run: its label and folder, the folder of the repetition, what differs, and what must be known.

    The table of a sweep, which is compared with the summaries of the runs that were repeated, has its name as label.
    """

    label: str
    folder: Path
    again: Path
    differences: list[Difference]
    note: str = ""


def rerun(folder: Path, out: Path, only: str | None, tell: Tell) -> list[Repeated]:
    """Repeat all runs of a folder below `out`, or those of the label `only`; everything is checked before the first.

    Raises
    ------
    BadInput : one line: nothing finished, another format, no such label, a file of data that is gone or changed.
    """
    if what_is(folder) != "folder":
        raise BadInput(one_line(f"{folder}: no such folder; give the folder of a run, a sweep or a training"))
    if out.resolve() == folder.resolve() or out.resolve().is_relative_to(folder.resolve()):
        raise BadInput(one_line(f"--out {out}: lies in {folder}, which stays as it is; give another folder"))
    chosen = _chosen(folder, only)
    prepared = [_checked_training(path) if what_is(path / TRAINING) else _checked(path) for _, path in chosen]
    repeated = []
    for k, ((label, path), (study, note)) in enumerate(zip(chosen, prepared, strict=True)):
        tell(k, len(chosen), label)
        again = out / path.relative_to(folder) if path != folder else out
        if what_is(path / TRAINING):
            _train(path, study, again)
            found = differences_in(path, again, OF_TRAINING)
        else:
            how = How(records="parquet" if is_parquet(path) else "csv")
            run(study, again, command=f"netsim rerun {path}", how=how)
            found = differences_in(path, again, OF_RUN)
        repeated.append(Repeated(label, path, again, found, note))
    if what_is(folder / RUNS):
        repeated.append(Repeated(RUNS, folder, out, rows_that_differ(folder, [path for _, path in chosen])))
    return repeated


def rows_that_differ(folder: Path, runs: Collection[Path]) -> list[Difference]:
    """Where the table of a sweep says something else of these runs than their summaries do."""
    columns = values_in(folder / RUNS)
    row_of = {folder / name: i for i, name in enumerate(columns.get("folder", []))}
    found = []
    for path in runs:
        summary = read_json(path / SUMMARY)
        for key in [key for key in summary if key in columns]:
            wanted, cell = cell_text(summary[key]), columns[key][row_of[path]]
            if cell != wanted:
                how = f"row {row_of[path] + 1}: {cell[:40]!r}, and {wanted!r} in {path / SUMMARY}"
                found.append(Difference(RUNS, f"column {key}", how, np.inf))
    return found


def _chosen(folder: Path, only: str | None) -> list[tuple[str, Path]]:
    """Labels and folders of what is repeated."""
    seeds = [path.parent for path in sorted(folder.glob(f"seed-*/{TRAINING}"))]
    if what_is(folder / TRAINING) or (what_is(folder / MANIFEST) and not what_is(folder / RUNS)):
        every = [("", folder)]
    elif seeds:
        every = [(path.name, path) for path in seeds]
    else:
        every = [(label, path) for label, path in listed(folder) if _is_done(folder, path)]
    if only is None:
        return every
    chosen = [(label, path) for label, path in every if label == only]
    if not chosen:
        known = ", ".join(dict.fromkeys(label for label, _ in every if label)) or "none"
        raise BadInput(one_line(f"--only {only}: {folder} has no run of this label; it has: {known[:400]}"))
    return chosen


def _is_done(folder: Path, path: Path) -> bool:
    """Whether a listed run is finished; of a sweep each is, or it says how it goes on."""
    return bool(what_is(folder / SWEEP)) or bool(what_is(path / SUMMARY))


def _checked(folder: Path) -> tuple[Study, str]:
    """The study of a finished run that can be repeated, and what must be known of that."""
    manifest = finished_manifest(folder)
    check_version(folder, manifest)
    study = load(folder / STUDY)
    _check_inputs(folder, study, manifest.get("files"))
    versions = manifest.get("versions")
    return study, _of_version(versions.get("netsim") if isinstance(versions, dict) else None)


def _checked_training(folder: Path) -> tuple[Study, str]:
    """The same of a training."""
    manifest = read_json(folder / TRAINING)
    if not manifest.get("finished") or not what_is(folder / SUMMARY):
        raise BadInput(one_line(f"{folder}: this training is not finished; start it again and it goes on"))
    if not isinstance(manifest.get("seed"), int):
        raise BadInput(one_line(f"{folder / TRAINING}: seed is missing or damaged; train again"))
    study = load(folder / STUDY)
    return study, _of_version(manifest.get("program"))


def _check_inputs(folder: Path, study: Study, recorded: Any) -> None:
    """Refuse where a file that the run read is gone or has other content."""
    known: Mapping[str, Any] = recorded if isinstance(recorded, dict) else {}
    for file, digest in input_digests(study).items():
        if not digest:
            raise BadInput(one_line(f"{folder}: {file}, which this run read, is gone or cannot be read; put it back"))
        if known.get(file, digest) != digest:
            raise BadInput(one_line(f"{folder}: {file} has other content than when this run read it; put it back"))


def _of_version(version: Any) -> str:
    """What is said of a run that another version made."""
    if version == __version__:
        return ""
    return one_line(f"was made by netsim {version or 'of another version'}, and is repeated by {__version__}")


def _train(folder: Path, study: Study, again: Path) -> None:
    from scenarios.app.training.train import train

    train(study, [read_json(folder / TRAINING)["seed"]], again, lambda _: None)

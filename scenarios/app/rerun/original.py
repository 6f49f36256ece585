"""A finished run or training that can be repeated: checked whole before anything is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim import __version__
from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.results.folder import (
    CHECKPOINT,
    MANIFEST,
    RECORDS,
    STUDY,
    SUMMARY,
    check_version,
    finished_manifest,
    read_json,
    version_of,
)
from scenarios.app.results.same import check_whole
from scenarios.app.results.training_folder import (
    CURVE,
    EPISODE,
    EPISODE_ROUNDS,
    EPISODE_SCENE,
    EVALUATIONS,
    TRAINING,
)
from scenarios.app.run.inputs import input_digests, text_digest
from scenarios.app.study.load import load
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import one_line

OF_RUN = tuple(name for name in RECORDS if name not in (MANIFEST, CHECKPOINT))
"""files of a run that its repetition writes byte by byte; a manifest tells wall times"""
OF_TRAINING = (SUMMARY, CURVE, EVALUATIONS, "policy.json", "policy.safetensors", EPISODE, EPISODE_ROUNDS, EPISODE_SCENE)


@dataclass(frozen=True)
class Original:
    """A run, or a training with its seed: the folder, the study, and what must be known of the repetition."""

    folder: Path
    study: Study
    note: str
    seed: int | None = None


def original(folder: Path) -> Original:
    """What lies in a folder. BadInput: why it cannot be repeated."""
    return _training(folder) if what_is(folder / TRAINING) else _run(folder)


def _run(folder: Path) -> Original:
    manifest = finished_manifest(folder)
    check_version(folder, manifest)
    study = _study(folder, MANIFEST, manifest)
    _check_inputs(folder, study, manifest.get("files"))
    check_whole(folder, OF_RUN)
    return Original(folder, study, _of_version(version_of(manifest)))


def _training(folder: Path) -> Original:
    manifest = read_json(folder / TRAINING)
    if not manifest.get("finished") or not what_is(folder / SUMMARY):
        raise BadInput(one_line(f"{folder}: this training is not finished; start it again and it goes on"))
    seed = manifest.get("seed")
    if not isinstance(seed, int):
        raise BadInput(one_line(f"{folder / TRAINING}: seed is missing or damaged; train again"))
    study = _study(folder, TRAINING, manifest)
    check_whole(folder, OF_TRAINING)
    return Original(folder, study, _of_version(manifest.get("program")), seed)


def _study(folder: Path, record: str, manifest: Mapping[str, Any]) -> Study:
    """The study of a folder, which is the very file whose digest was recorded; older folders have none."""
    known, path = manifest.get("study"), folder / STUDY
    try:
        digest = text_digest(path)
    except OSError as error:
        raise BadInput(one_line(f"{path}: cannot be read ({error.strerror}); put back the file of this run")) from None
    if known is not None and known != digest:
        raise BadInput(
            one_line(f"{path}: was changed after the run: its SHA-256 is not the one in {folder / record}; put back "
                     "the file of this run, or run the changed one as a scenario of its own")
        )  # fmt: skip
    return load(path)


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

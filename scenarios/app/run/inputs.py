"""The files that attacks read, by their digests: a run of other content is another run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from netsim.errors import BadInput
from netsim.safe import content, what_is
from scenarios.app.results.folder import MANIFEST, read_json
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import one_line

_MOST_BYTES = 2**26


def input_digests(study: Study) -> dict[str, str]:
    """SHA-256 of each file that an attack of a study reads, by its path; empty for one that cannot be read."""
    attacks = () if study.learning is None else study.learning.attacks
    return {file: _digest(file) for attack in attacks for file in attack.files}


def same_inputs(folder: Path, digests: Mapping[str, str]) -> bool:
    """Whether the run in a folder, if there is one, read the same files with the same content."""
    return not _changed(folder, digests)


def admit_inputs(folder: Path, digests: Mapping[str, str], replace: bool) -> None:
    """Refuse a folder with a run of the same study that read other content, unless it may be replaced."""
    changed = _changed(folder, digests)
    if changed and not replace:
        raise BadInput(
            one_line(f"{folder}: holds a run that read {changed} with other content; add --replace, or give --out "
                     "another folder")
        )  # fmt: skip


def _changed(folder: Path, digests: Mapping[str, str]) -> str:
    """The first file that the run in a folder read with other content; empty for none."""
    if not digests or not what_is(folder / MANIFEST):
        return ""
    read = read_json(folder / MANIFEST).get("files")
    known = read if isinstance(read, dict) else {}
    return next((file for file, digest in digests.items() if known.get(file) != digest), "")


def _digest(file: str) -> str:
    try:
        return hashlib.sha256(content(file, _MOST_BYTES)).hexdigest()
    except OSError:
        return ""

"""The files that a study reads, by their digests: a run of other content is another run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.safe import content, opened, what_is
from netsim.traces.source import MOST_FILE_BYTES
from scenarios.app.results.folder import is_text
from scenarios.app.study.load import file_fields
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import one_line

_BLOCK = 2**20  # bytes that are hashed at once
_MOST_TEXT_BYTES = 2**26
_READ = "# reads "
_OF_OURS = (".html", ".part")
"""ends of names that tell nothing of the content of a folder: pages, and files that are being written"""


def input_digests(study: Study) -> dict[str, str]:
    """SHA-256 of each file that a study reads, by its path; empty for one that cannot be read.

    Of a folder that of all its files with their names, but for pages.
    """
    values = study.model_dump(mode="json", exclude={"vary", "train"}) | {"seed": 0}
    return {file: _digest(file) for file in _files(json.dumps(values))}


def text_digest(text: str | Path) -> str:
    """SHA-256 of the text of a study, or of the file of ours that has it. Raises OSError."""
    return hashlib.sha256(
        content(text, _MOST_TEXT_BYTES, own=True) if isinstance(text, Path) else text.encode()
    ).hexdigest()


def read_lines(study: Study) -> str:
    """Comments for the text of a study: each file that it reads, with its digest. Nothing where it reads none."""
    return "".join(f"{_READ}{json.dumps(file)} {digest}\n" for file, digest in input_digests(study).items())


def admit_text(file: Path, text: str, what: str, others: str) -> None:
    """Refuse (BadInput) a folder whose text of a study, with its `read_lines`, is another one than `text`.

    what : is in the folder; others : what of it may be another. Both for the complaint.
    """
    if is_text(file, text):
        return
    which = f"of another {others}"
    try:
        old = content(file, _MOST_TEXT_BYTES, own=True).decode("utf-8", "replace")
    except OSError:
        old = ""
    (old_read, old_rest), (read, rest) = _parted(old), _parted(text)
    if old_rest == rest and (changed := [line for line in read if line not in old_read]):
        name = json.loads(changed[0].removeprefix(_READ).rpartition(" ")[0])
        which = f"that read {name} with other content"
    raise BadInput(one_line(f"{file.parent}: holds the {what} {which}; add --replace, or give --out another folder"))


def _parted(text: str) -> tuple[list[str], list[str]]:
    """The lines of a text that name files, and all others."""
    lines = text.splitlines()
    return [line for line in lines if line.startswith(_READ)], [line for line in lines if not line.startswith(_READ)]


@lru_cache(maxsize=4096)
def _files(values: str) -> tuple[str, ...]:
    """The names of files in a study, which is given as JSON: a sweep asks for those of each run several times."""
    data = json.loads(values)
    return tuple(dict.fromkeys(str(_at(data, place)) for place in file_fields(Study, data)))


def _at(data: Any, place: tuple[str | int, ...]) -> Any:
    for step in place:
        data = data[step]
    return data


def _digest(file: str) -> str:
    try:
        if what_is(file) == "folder":
            whole = hashlib.sha256()
            for path in _inside(Path(file)):
                whole.update(f"{path.relative_to(file)}\n{_of_file(path)}\n".encode())
            return whole.hexdigest()
        return _of_file(Path(file))
    except OSError:
        return ""


def _inside(folder: Path) -> Iterator[Path]:
    """The files of a folder in the order of their names, those of folders in it among them."""
    for path in sorted(folder.rglob("*")):
        if what_is(path) == "file" and not path.name.startswith(".") and path.suffix not in _OF_OURS:
            yield path


def _of_file(path: Path) -> str:
    """SHA-256 of a file, which is read once as long as it stays the same: sweeps have many runs of large traces."""
    with opened(path, MOST_FILE_BYTES):
        stat = path.stat()
    return _read_once(str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4096)
def _read_once(path: str, inode: int, size: int, mtime_ns: int) -> str:
    digest = hashlib.sha256()
    with opened(path, MOST_FILE_BYTES) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()

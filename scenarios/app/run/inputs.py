"""The files that a study reads, by their digests: a run of other content is another run."""

from __future__ import annotations

import hashlib
from functools import lru_cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any

from netsim.safe import opened, what_is
from netsim.traces.source import MOST_FILE_BYTES
from scenarios.app.study.load import file_fields
from scenarios.app.study.study import Study

_NO_CONTENT = (".html", ".part")
"""ends of names that say nothing of the content of a folder: pages, and files that are being written"""


def input_digests(study: Study) -> dict[str, str]:
    """SHA-256 of each file that a study reads, by its path; empty for one that cannot be read.

    Of a folder that of all its files with their names, but for pages.
    """
    data: Any = study.model_dump(mode="json", exclude={"vary", "train"}) | {"seed": 0}
    return {file: _digest(file) for file in (str(reduce(getitem, at, data)) for at in file_fields(Study, data))}


def _digest(file: str) -> str:
    path = Path(file)
    try:
        if what_is(path) != "folder":
            return _digest_of(path)
        inside = [p for p in sorted(path.rglob("*")) if not p.name.startswith(".") and p.suffix not in _NO_CONTENT]
        lines = [f"{p.relative_to(path)}\n{_digest_of(p)}\n" for p in inside if what_is(p) == "file"]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    except OSError:
        return ""


def _digest_of(path: Path) -> str:
    stat = path.stat()
    return _digest_once(path, stat.st_ino, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4096)
def _digest_once(path: Path, inode: int, size: int, mtime_ns: int) -> str:
    """SHA-256 of a file, which is read once as long as it stays the same: sweeps have many runs of large traces."""
    with opened(path, MOST_FILE_BYTES) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]

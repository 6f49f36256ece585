"""Folders for files that nobody keeps. Each holds a locked file while its process lives, so that the folder of one that
was killed is told from one in use, and removed by whoever makes the next.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from netsim.safe import writable

LOCK = ".netsim-lock"
_UNLOCKED = ".netsim-new"  # its name until it is locked


@contextmanager
def scratch(prefix: str, place: Path | None = None) -> Generator[Path, None, None]:
    """Create a folder of this prefix, and remove it at the end, and first those of processes that were killed.

    place : the folder that it lies in; None: that of temporary files.
    """
    _remove_stale(prefix, Path(tempfile.gettempdir()) if place is None else place)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as name:
        folder = Path(name)
        fd = writable(folder / _UNLOCKED, create=True)
        try:
            with suppress(OSError):  # a file system without locks: then nobody takes the folder for stale
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (folder / _UNLOCKED).rename(folder / LOCK)
            yield folder
        finally:
            os.close(fd)


def _remove_stale(prefix: str, place: Path) -> None:
    """Remove our folders of this prefix whose lock no process holds any more."""
    for folder in place.glob(f"{prefix}*"):
        with suppress(OSError):
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or not (folder / LOCK).exists():
                continue
            fd = writable(folder / LOCK)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)

"""The marker and the lock of a folder that we write: one file, written before anything else, that says what it is.

A folder with a marker is ours, whatever else is missing: a run that is killed at any moment leaves a folder that the
same command takes up. The marker is locked (`flock`) while the folder is written. The system lets go of the lock when
its process ends, in whatever way, so no lock outlives its owner, and no two processes hold it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

from netsim.errors import BadInput
from netsim.safe import check_own, content, remove_parts, writable

MARKER = ".netsim"
Mark = Literal["run", "sweep", "training", "search", "tuning"]
"""what a folder is"""
PATIENCE_S = 2.0  # a process that was told to end, or whose parent ended, lets go of a lock within this
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, a quota, a bound on files
_NO_ACCESS = (errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.ENODEV)  # taken away, or broken
_MOST_BYTES = 100


def marked(folder: Path) -> str:
    """What the marker says that a folder is; empty where there is none, or nothing in it yet.

    Raises BadInput for a marker that is none of ours.
    """
    path = folder / MARKER
    try:
        text = content(path, _MOST_BYTES, own=True).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; give --out another folder") from None
    if text and text not in get_args(Mark):
        raise BadInput(f"{path}: is no marker of netsim; give --out another folder")
    return text


@contextmanager
def held(folder: Path, what: Mark, admit: Callable[[], object]) -> Generator[None, None, None]:
    """Create a folder if need be, mark and lock it; only one process at a time does so.

    `admit` raises BadInput for a folder that may not be had. It is asked before anything is written, and again under
    the lock, when nobody else can change the answer.
    """
    admit()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = writable(folder / MARKER, create=True)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written ({error.strerror}); give --out another place") from None
    try:
        _lock(fd, folder, what)
        if marked(folder) != what:
            admit()
            os.ftruncate(fd, 0)
            os.write(fd, f"{what}\n".encode())
        admit()
        remove_parts(folder)
        yield
    except OSError as error:
        elsewhere = error.filename is not None and not Path(str(error.filename)).is_relative_to(folder)
        if error.errno not in _NO_ROOM and (elsewhere or error.errno not in _NO_ACCESS):
            raise
        remedy = "make room" if error.errno in _NO_ROOM else "see that it can be written"
        raise BadInput(
            f"{folder}: cannot be written any more ({error.strerror}); {remedy}, and the same command goes on where it "
            "stopped"
        ) from None
    finally:
        os.close(fd)  # and with it the lock goes


def check_files(folder: Path, ours: Callable[[str], bool]) -> None:
    """Refuse a folder in which one of our names is a link, a folder or a device; nothing is written through it."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if ours(path.name):
            try:
                check_own(path)
            except OSError as error:
                raise BadInput(f"{path}: {error.strerror}; give --out another folder, or move it away") from None


def _lock(fd: int, folder: Path, what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                remedy = "wait for it, or give --out another folder"
                raise BadInput(f"{folder}: another process is writing this {what}; {remedy}") from None
            time.sleep(0.05)
        except OSError as error:
            why = f"its file system cannot lock files ({error.strerror})"
            raise BadInput(f"{folder}: {why}; give --out a folder on another one") from None

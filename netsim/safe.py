"""Files opened safely: regular files only, no more bytes than fit the purpose, and no links among
our own files.

A file that a person names may be reached through links. It is refused where it is a device, a pipe
or a socket, which may never end, and where it is larger than its purpose needs. The files of a
folder of results (`is_ours`) are ours: a link among them leads out of the folder, so none is
followed, and nothing is written into a file that has a second name.

Errors are OSErrors with a short `strerror`; callers add the file, the place and a remedy.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal

_PART = re.compile(r"(.+)\.[0-9a-f]{16}\.part", re.DOTALL)
"""the unique name of a file that is not whole yet"""
OURS_MOST_BYTES = 4 * 2**30
"""of a table or an archive of arrays that we wrote"""
_PIECE_BYTES = 2**20
_PASSED_OVER = re.compile(r"(^|[/\\])(\.|__MACOSX)")
_MOST_NAMES = 100_000  # below a folder: five times those of the largest collection of traces

KEPT: list[dict[Path, int]] = [{Path("/"): -1}]
"""folder -> descriptor of the lock that stays until a command ends; a command begins with none, and
keeps one"""


@contextmanager
def keep_lock() -> Generator[None, None, None]:
    """Keep the lock of the first folder that is held within until the end: its page is drawn and
    its result told before the same command in another process goes on.
    """
    KEPT.append({})
    try:
        yield
    finally:
        for fd in KEPT.pop().values():
            os.close(fd)


Kind = Literal["", "file", "folder", "other"]


def describe_file_kind(path: str | Path) -> Kind:
    """The kind of file at a path, seen through links; empty where there is none."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return ""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "other"


def read_file_version(path: str | Path) -> tuple[int, int]:
    """Time of the last change and size of a file or of all files in a folder; zeros where it cannot
    be read.
    """
    try:
        stats = [
            p.stat()
            for p in (
                Path(path),
                *(list_files_below(path) if describe_file_kind(path) == "folder" else ()),
            )
        ]
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return 0, 0
    return max(stat.st_mtime_ns for stat in stats), sum(stat.st_size for stat in stats)


def list_files_below(folder: str | Path) -> list[Path]:
    """The regular files of a folder and below, in order, but for hidden ones and those that
    archives of macOS add.

    Raises OSError for the root of the file system, and for more than 100,000 files and folders.
    """
    inside = Path(folder).rglob("*")
    if (
        Path(folder).resolve() == Path(os.sep)
        or len(entries := list(islice(inside, _MOST_NAMES + 1))) > _MOST_NAMES
    ):
        problem = (
            f"is the root of the file system, or has more than {_MOST_NAMES:,} files and folders"
        )
        raise OSError(errno.EFBIG, problem, str(folder))
    hidden = _PASSED_OVER.search
    return sorted(
        p
        for p in entries
        if not hidden(str(p.relative_to(folder))) and describe_file_kind(p) == "file"
    )


def open_regular(path: str | Path, max_bytes: int, is_ours: bool = False) -> BinaryIO:
    """A regular file for reading. Raises OSError for anything else, and for one of more bytes."""
    fd = _open_descriptor(path, os.O_RDONLY, is_ours)
    if os.fstat(fd).st_size > max_bytes:
        os.close(fd)
        raise _build_size_error(path, max_bytes)
    return os.fdopen(fd, "rb")


def read_content(path: str | Path, max_bytes: int, is_ours: bool = False) -> bytes:
    """All bytes of a regular file. Raises OSError for anything else, and for more bytes."""
    with open_regular(path, max_bytes, is_ours) as file:
        data = bytearray()
        while piece := file.read(
            _PIECE_BYTES
        ):  # a buffer for as many as there may be would be taken at once
            data += piece
            if len(data) > max_bytes:  # it grew, or says nothing of its size
                raise _build_size_error(path, max_bytes)
    return bytes(data)


def open_own_file(path: Path, create: bool = False) -> int:
    """Descriptor of a file of ours, for reading and appending. It has no second name."""
    fd = _open_descriptor(
        path, os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0), is_ours=True
    )
    if os.fstat(fd).st_nlink > 1:
        os.close(fd)
        raise OSError(errno.EMLINK, "has a second name, a hard link; remove it", str(path))
    return fd


@contextmanager
def open_replacement(path: Path) -> Generator[BinaryIO, None, None]:
    """A new file that takes its place when it is whole; until then the old one stays."""
    check_own(path)
    part = path.with_name(f"{path.name}.{os.urandom(8).hex()}.part")
    fd = _open_descriptor(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, is_ours=True)
    try:
        with os.fdopen(fd, "wb") as file:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
        part.replace(path)
    except BaseException:  # a disk that is full, an interrupt: give back what the part has of it
        part.unlink(missing_ok=True)
        raise


def find_whole_name(name: str) -> str:
    """The name that a file of `open_replacement` will have when it is whole; of any other file its
    own.
    """
    match = _PART.fullmatch(name)
    return name if match is None else match[1]


def remove_parts(folder: Path, name: str = "") -> None:
    """Remove files of `open_replacement` that were never whole (`name`: one file's), but for those
    that a process writes.
    """
    for path in folder.iterdir():
        whole = find_whole_name(path.name)
        if (
            whole != path.name
            and name in ("", whole)
            and describe_file_kind(path) == "file"
            and not _is_locked(path)
        ):
            path.unlink(missing_ok=True)


def _is_locked(path: Path) -> bool:
    """Whether a process writes a file of `open_replacement`: its lock goes with it."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def check_own(path: Path) -> None:
    """Raise OSError where something stands that is no regular file: a link, a folder, a device."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, _describe_mode(mode), str(path))


def _open_descriptor(path: str | Path, flags: int, is_ours: bool) -> int:
    """An open regular file; O_NONBLOCK: a pipe does not keep us waiting."""
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (os.O_NOFOLLOW if is_ours else 0)
    try:
        mode = Path(path).stat(follow_symlinks=not is_ours).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG  # opening it says the rest
    except ValueError as error:
        raise OSError(errno.EINVAL, f"no name of a file: {error}", str(path)) from None
    if not stat.S_ISREG(mode):  # looked at first: opening a device may do something
        raise OSError(errno.EINVAL, _describe_mode(mode), str(path))
    fd = os.open(path, flags, 0o666)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise OSError(errno.EINVAL, _describe_mode(mode), str(path))
    return fd


def _describe_mode(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "is a symbolic link, and only regular files belong here; remove it"
    if stat.S_ISDIR(mode):
        return "is a folder"
    return "is no regular file but a device, a pipe or a socket"


def _build_size_error(path: str | Path, max_bytes: int) -> OSError:
    return OSError(
        errno.EFBIG, f"is larger than {format_size(max_bytes)}, the most that is read", str(path)
    )


def format_size(n_bytes: int) -> str:
    """`4 GiB`, `50 MiB`, `200 KiB`."""
    unit, name = next(
        ((2**k, n) for k, n in ((30, "GiB"), (20, "MiB"), (10, "KiB")) if n_bytes >= 2**k),
        (1, "bytes"),
    )
    return f"{n_bytes / unit:g} {name}"

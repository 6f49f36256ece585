"""How runs are played and kept: none of it changes a result, so none of it stands in a scenario.

The memory of a run has a limit, and its measured peak is kept. The limit is what is asked for, else
NETSIM_MEMORY_GB, else what this machine has free when the run begins.
"""

from __future__ import annotations

import os
import re
import resource
import tempfile
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf, isinf
from pathlib import Path

from netsim.errors import BadInput

OPTION = "--memory-gb"
VARIABLE = "NETSIM_MEMORY_GB"
GB = 1e9
_SELF = Path("/proc/self")
_REMEDY = (
    f"raise {OPTION} or {VARIABLE}, or take fewer UEs, base stations or attacks, or a "
    f"smaller model or area"
)


@dataclass(frozen=True)
class How:
    """How runs are played. memory_gb : most memory of a run, in GB; none: NETSIM_MEMORY_GB, else
    what the machine has free.
    """

    memory_gb: float | None = None

    def check(self) -> None:
        """Refuse a limit that is none."""
        limit(self.memory_gb)

    def within(self) -> AbstractContextManager[None]:
        """Limit the memory of what is done within. Raises BadInput where it needs more."""
        return within(limit(self.memory_gb))

    def among(self, runs: int) -> How:
        """Options of one of several runs at once, which share the limit equally."""
        most = limit(self.memory_gb)
        if runs < 2 or isinf(most):
            return self
        return replace(self, memory_gb=most / GB / runs)


USUAL = How()


@contextmanager
def one_thread() -> Generator[None, None, None]:
    """Linear algebra on one thread: sums keep their order, results their bits."""
    import scipy.linalg  # noqa: F401 - compiled loops call its BLAS, which is limited only if it is there by now
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


def limit(memory_gb: float | None, environ: Mapping[str, str] = os.environ) -> float:
    """Bytes that a process may hold, infinite for no limit. Raises BadInput."""
    stated = environ.get(VARIABLE, "")
    if memory_gb is None and not stated:
        return held_bytes() + free_bytes()
    if memory_gb is None:
        text = f"{VARIABLE} {stated[:40]!r}"
    else:
        text = f"{OPTION} {memory_gb:g}"
    try:
        value = float(stated) if memory_gb is None else memory_gb
    except ValueError:
        value = 0.0
    if not 0.0 < value < inf:
        raise BadInput(f"{text}: must be a number of GB above 0, as 8 or 0.5")
    return value * GB


@contextmanager
def within(most: float) -> Generator[None, None, None]:
    """Let this process allocate at most this number of bytes. Raises BadInput where it needs more.

    The peak counts from here on.
    """
    held = held_bytes()
    remedy = f"its limit is {most / GB:.2f} GB; {_REMEDY}"
    if held > most:
        raise BadInput(f"the run holds {held / GB:.2f} GB of memory before it begins, and {remedy}")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    room = _stated(_SELF / "status", "VmData", inf) + most - held
    if room < (inf if soft == resource.RLIM_INFINITY else soft):
        resource.setrlimit(resource.RLIMIT_DATA, (int(room), hard))
    with suppress(OSError):  # else the peak counts from the start of the process
        (_SELF / "clear_refs").write_text("5")
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "can't allocate memory" not in str(
            error
        ):  # that is one of PyTorch
            raise
        why = str(error)[:200] or "nothing is left"
        raise BadInput(
            f"not enough memory ({why}): {remedy}; a run goes on from its checkpoint"
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def held_bytes() -> float:
    """The resident set of this process; 0 where the system does not say."""
    return _stated(_SELF / "status", "VmRSS", 0.0)


def peak_gb() -> float | None:
    """The largest resident set of this process since `within` began, in GB; None where the system
    does not say.
    """
    return round(_stated(_SELF / "status", "VmHWM", 0.0) / GB, 3) or None


def free_bytes(root: Path = Path("/")) -> float:
    """What a process can still take here: of Linux, and of its control groups; infinite where
    neither says.

    Pages of files, which the kernel gives back when they are needed, are free.
    """
    free = _stated(root / "proc" / "meminfo", "MemAvailable", inf)
    group = (
        root
        / "sys"
        / "fs"
        / "cgroup"
        / _text(root / "proc" / "self" / "cgroup").strip().rpartition("::/")[2]
    )
    for folder in (group, *group.parents):
        used = _stated(folder / "memory.current", "", 0.0) - _stated(
            folder / "memory.stat", "inactive_file", 0.0
        )
        free = min(free, max(_stated(folder / "memory.max", "", inf) - used, 0.0))
    return free


def _stated(path: Path, name: str, otherwise: float) -> float:
    """Bytes that a line `name N`, or `name:  N kB`, of a file of Linux states."""
    found = re.search(rf"^{name}:?\s*(\d+)( kB)?$", _text(path), re.MULTILINE)
    if found is None:
        return otherwise
    return float(found[1]) * (1024 if found[2] else 1)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


@contextmanager
def scratch(prefix: str, place: Path | None = None) -> Generator[Path, None, None]:
    """Create a folder of this prefix, and remove it at the end. place : it lies there; None: with
    temporary files.
    """
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as name:
        yield Path(name)

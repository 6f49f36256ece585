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
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""variables of how many threads PyTorch starts"""
GB = 1e9
_SELF = Path("/proc/self")
_REMEDY = (
    f"raise {OPTION} or {VARIABLE}, or take fewer UEs, base stations or attacks, or a "
    f"smaller model or area"
)


@dataclass(frozen=True)
class Resources:
    """How runs are played. memory_gb : most memory of a run, in GB; none: NETSIM_MEMORY_GB, else
    what the machine has free.
    """

    memory_gb: float | None = None

    def check_limit(self) -> None:
        """Refuse a limit that is none."""
        resolve_limit_bytes(self.memory_gb)

    def limit_memory(self) -> AbstractContextManager[None]:
        """Limit the memory of what is done within. Raises BadInput where it needs more."""
        return limit_process_memory(resolve_limit_bytes(self.memory_gb))

    def split_memory_among(self, runs: int) -> Resources:
        """Return options of one of `runs` runs at once, each with an equal part of the limit."""
        max_bytes = resolve_limit_bytes(self.memory_gb)
        if runs < 2 or isinf(max_bytes):
            return self
        return replace(self, memory_gb=max_bytes / GB / runs)


DEFAULT_RESOURCES = Resources()


@contextmanager
def use_one_thread() -> Generator[None]:
    """Linear algebra on one thread: sums keep their order, results their bits.

    PyTorch loads for long, and is not loaded for that where the environment sets its threads.
    """
    import scipy.linalg  # noqa: F401 - compiled loops call its BLAS, which is limited only if it is there by now
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        if {os.environ.get(name) for name in THREADS} == {"1"}:
            yield
            return
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def resolve_limit_bytes(memory_gb: float | None, environ: Mapping[str, str] = os.environ) -> float:
    """Return the bytes that a process may hold: what is asked for, else of the environment, else
    what it holds and what is free here, infinite where that is not known. Raises BadInput.
    """
    stated = environ.get(VARIABLE, "")
    if memory_gb is None and not stated:
        return measure_held_bytes() + measure_free_memory_bytes()
    text = f"{VARIABLE} {stated[:40]!r}" if memory_gb is None else f"{OPTION} {memory_gb:g}"
    try:
        value = float(stated) if memory_gb is None else memory_gb
    except ValueError:
        value = 0.0
    if not 0.0 < value < inf:
        raise BadInput(f"{text}: must be a number of GB above 0, as 8 or 0.5")
    return value * GB


@contextmanager
def limit_process_memory(max_bytes: float) -> Generator[None]:
    """Let this process allocate at most this number of bytes. Raises BadInput where it needs more.

    The peak counts from here on.
    """
    held = measure_held_bytes()
    remedy = f"its limit is {max_bytes / GB:.2f} GB; {_REMEDY}"
    if held > max_bytes:
        raise BadInput(f"the run holds {held / GB:.2f} GB of memory before it begins, and {remedy}")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    room = _read_stated_bytes(_SELF / "status", "VmData", inf) + max_bytes - held
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
        reason = str(error)[:200] or "nothing is left"
        raise BadInput(
            f"not enough memory ({reason}): {remedy}; a run goes on from its checkpoint"
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def measure_held_bytes() -> float:
    """Return the resident set of this process; 0 where the system does not say."""
    return _read_stated_bytes(_SELF / "status", "VmRSS", 0.0)


def measure_peak_since_limit_gb() -> float | None:
    """Return the largest resident set since `limit_process_memory` began, in GB; None where the
    system does not say.
    """
    return round(_read_stated_bytes(_SELF / "status", "VmHWM", 0.0) / GB, 3) or None


def measure_free_memory_bytes(root: Path = Path("/")) -> float:
    """Return what a process can still take here: of Linux, and of its control groups; infinite
    where neither says.

    Pages of files, which the kernel gives back when they are needed, are free.
    """
    free = _read_stated_bytes(root / "proc/meminfo", "MemAvailable", inf)
    group = (
        root / "sys/fs/cgroup" / _read_text(root / "proc/self/cgroup").strip().rpartition("::/")[2]
    )
    for folder in (group, *group.parents):
        used = _read_stated_bytes(folder / "memory.current", "", 0.0) - _read_stated_bytes(
            folder / "memory.stat", "inactive_file", 0.0
        )
        free = min(free, max(_read_stated_bytes(folder / "memory.max", "", inf) - used, 0.0))
    return free


def _read_stated_bytes(path: Path, name: str, otherwise: float) -> float:
    """Return the bytes that a line `name N`, or `name:  N kB`, of a file of Linux states; of kB
    1024 times the number. otherwise : where no such line stands there.
    """
    match = re.search(rf"^{name}:?\s*(\d+)( kB)?$", _read_text(path), re.MULTILINE)
    if match is None:
        return otherwise
    return float(match[1]) * (1024 if match[2] else 1)


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


@contextmanager
def create_scratch_folder(prefix: str, place: Path | None = None) -> Generator[Path]:
    """Create a folder of this prefix, and remove it at the end. place : it lies there; None: with
    temporary files.
    """
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as name:
        yield Path(name)

"""How much memory a run may take: what is asked for, else NETSIM_MEMORY_GB, else what this machine has free."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

from netsim.errors import BadInput

VARIABLE = "NETSIM_MEMORY_GB"
GB = 1e9
_CGROUPS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""files of a control group with its limit and its use, of version 2 and of version 1"""


@dataclass(frozen=True)
class Limit:
    """So many bytes, infinite for none, and who says so."""

    bytes: float
    source: str

    @property
    def option(self) -> str:
        """What raises it."""
        return VARIABLE if self.source == VARIABLE else "--memory-gb"


def limit(memory_gb: float | None, environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Limit:
    """The limit of a run; root : of the file system that tells what the machine has. Raises BadInput."""
    if memory_gb is not None:
        return Limit(_checked(memory_gb, f"--memory-gb {memory_gb:g}") * GB, "--memory-gb")
    stated = environ.get(VARIABLE, "")
    if stated:
        try:
            value = float(stated)
        except ValueError:
            value = 0.0
        return Limit(_checked(value, f"{VARIABLE} {stated[:40]!r}") * GB, VARIABLE)
    return Limit(free_bytes(root), "free on this machine")


def _checked(memory_gb: float, said: str) -> float:
    if not (memory_gb > 0 and isfinite(memory_gb)):
        raise BadInput(f"{said}: must be a number of GB above 0, as 8 or 0.5")
    return memory_gb


def free_bytes(root: Path = Path("/")) -> float:
    """What a process can still take here: of Linux, and of its control groups; infinite where nobody tells."""
    free = _available(root / "proc" / "meminfo")
    for folder in _groups(root):
        for names in _CGROUPS:
            most, used = (_number(folder / name) for name in names)
            if most is not None and used is not None:
                free = min(free, max(most - used + _cached(folder / "memory.stat"), 0.0))
    return free


def _available(path: Path) -> float:
    """MemAvailable of /proc/meminfo."""
    for line in _text(path).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable" and value.split()[:1] and value.split()[0].isdigit():
            return float(value.split()[0]) * 1024
    return inf


def _groups(root: Path) -> list[Path]:
    """The control group of this process and those around it, wherever they may be mounted."""
    mounted, found = root / "sys" / "fs" / "cgroup", []
    for line in _text(root / "proc" / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        kinds, _, place = rest.partition(":")
        base = mounted / "memory" if kinds == "memory" else mounted if not kinds else None
        if base is not None:
            own = [part for part in Path(place).parts if part not in ("/", "..")]
            found += [base.joinpath(*own[:k]) for k in range(len(own) + 1)]
    return found


def _cached(path: Path) -> float:
    """Pages of files that the kernel gives back when they are needed, in bytes."""
    for line in _text(path).splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file") and value.isdigit():
            return float(value)
    return 0.0


def _number(path: Path) -> float | None:
    """The number in a file; None where there is none, as `max`."""
    text = _text(path).strip()
    return float(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""

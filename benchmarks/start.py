"""What commands cost before they do anything: CPU time of processes of their own, one after
another.

Each is a fresh process, whose time includes the interpreter's. `limit` is that of an interpreter
that imports numpy and pydantic, without which no scenario is read, or of the bare interpreter;
`share` is what we reach of it. `modules` are those that are loaded, and `slow` the libraries among
them that take long: both are counts, which no machine changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.world import ROOT, Row, digits, row

SLOW = (
    "torch",
    "numba",
    "scipy",
    "pandas",
    "pyarrow",
    "plotly",
    "sklearn",
    "stable_baselines3",
    "gymnasium",
)
_COMMAND = "from scenarios.app.cli.start import main; import sys; sys.argv[1:] = {words}; main()"
_COUNT = (
    "; import json, sys; print(json.dumps([len(sys.modules), [n for n in {slow} if n in "
    "sys.modules]]))"
)


@dataclass(frozen=True)
class Start:
    """A command or an import, the most that it may take, and what any program of its kind
    imports.
    """

    name: str
    code: str
    most_s: float | None
    needed: str


def commands(most_s: tuple[float | None, ...]) -> tuple[Start, ...]:
    """The rows, with their bars."""
    needed = "import numpy, pydantic"
    return (
        Start("import netsim", "import netsim", most_s[0], "pass"),
        Start(
            "netsim --help",
            "import scenarios.app.cli.commands as c; c.build_parser().format_help()",
            most_s[1],
            "pass",
        ),
        Start(
            "netsim validate campus",
            _COMMAND.format(words=["validate", "campus"]),
            most_s[2],
            needed,
        ),
    )


FULL = commands((0.2, 0.1, 0.5))
SMALL = commands((None, None, None))


def _environment() -> dict[str, str]:
    """That of this process, in which byte code is kept, as that of an installed package is."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_s(code: str) -> float:
    """CPU seconds of an interpreter that runs this."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, cwd=ROOT, env=_environment()
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{code}: exit code {process.returncode}")
    return used.ru_utime + used.ru_stime


def loaded(code: str) -> tuple[int, list[str]]:
    """How many modules it has loaded in the end, and which slow libraries."""
    command = [sys.executable, "-c", code + _COUNT.format(slow=SLOW)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=ROOT, env=_environment()
    )
    modules, slow = json.loads(done.stdout.splitlines()[-1])
    return int(modules), list(slow)


def rows(starts: tuple[Start, ...], seconds: float) -> Iterator[Row]:
    """Each when it is measured: ours and what is needed take turns."""
    for start in starts:
        modules, slow = loaded(start.code)  # byte code is written by now
        pairs: list[tuple[float, float]] = []
        while len(pairs) < 3 or sum(map(sum, pairs)) < seconds / len(starts):
            pairs.append((cpu_s(start.code), cpu_s(start.needed)))
        mine, limit = (sorted(found) for found in zip(*pairs, strict=True))
        yield row(
            f"{start.name}: CPU time of a process",
            median(mine),
            "s",
            start.most_s,
            spread=[digits(mine[0]), digits(mine[-1])],
            limit=digits(median(limit)),
            share=digits(median(limit) / median(mine)),
            modules=modules,
            slow=slow,
        ) | {"subject": "start"}

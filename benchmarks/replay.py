"""What a long replay costs: files of taxis and of vehicles that come and go, played by the command
in a process.

Files are drawn from a seed. Each kind is played with n and with 2 n users, and an exponent is log2
of their ratio.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log2
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks.world import ROOT, Row, digits, row

DAY_S = 86_400
FIRST_S = 1_211_007_600  # a midnight in San Francisco, May 2008
SIDE_M = 12_000.0
LAT = 37.76
LON = -122.43
METRES_PER_DEGREE = 111_000.0


@dataclass(frozen=True)
class Bench:
    """Users of the smaller file of each kind, how long and how often they are seen, and what the
    larger may take.
    """

    taxis: int
    days: int
    fixes_a_day: int
    vehicles: int
    seconds: int
    taxis_s: float | None = None
    taxis_gb: float | None = None


FULL = Bench(250, 25, 80, 1500, 1800, taxis_s=300.0, taxis_gb=2.0)
SMALL = Bench(2, 3, 20, 4, 60)


class Cost(NamedTuple):
    """CPU time of a process in seconds, and its peak memory in GB."""

    cpu_s: float
    memory_gb: float


def taxis(file: Path, n: int, bench: Bench) -> int:
    """A CSV of taxis that wander about a city; returns the number of fixes."""
    rng = np.random.default_rng(1)
    lines = ["time_s,user,lat,lon"]
    for taxi in range(n):
        times = rng.permuted(np.tile(np.arange(DAY_S), (bench.days, 1)), axis=1)[
            :, : bench.fixes_a_day
        ]
        time_s = (FIRST_S + np.sort(times, axis=1) + DAY_S * np.arange(bench.days)[:, None]).ravel()
        way_m = rng.normal(0, 2500, 2) + np.cumsum(rng.normal(0, 150, (len(time_s), 2)), axis=0)
        east_m, north_m = (np.abs((way_m + SIDE_M / 2) % (2 * SIDE_M) - SIDE_M) - SIDE_M / 2).T
        lat = LAT + north_m / METRES_PER_DEGREE
        lon = LON + east_m / (METRES_PER_DEGREE * np.cos(np.deg2rad(LAT)))
        lines += [
            f"{t},taxi{taxi},{y:.5f},{x:.5f}" for t, y, x in zip(time_s, lat, lon, strict=True)
        ]
    file.write_text("\n".join(lines) + "\n")
    return len(lines) - 1


def vehicles(file: Path, n: int, bench: Bench) -> int:
    """SUMO floating car data, a step a second, of vehicles that come and go; returns the number of
    fixes.
    """
    rng = np.random.default_rng(2)
    comes = np.sort(rng.integers(0, int(0.8 * bench.seconds), n))
    leaves = comes + 1 + rng.exponential(bench.seconds / 3, n)
    at_m = rng.uniform(0, 4000, (n, 2))
    speed_mps = rng.uniform(5, 14, n)
    eastward = rng.integers(0, 2, n)
    sign = rng.choice([-1.0, 1.0], n)
    fixes = 0
    with file.open("w") as out:
        out.write("<fcd-export>\n")
        for t in range(bench.seconds):
            eastward ^= rng.random(n) < 0.02
            at_m[np.arange(n), 1 - eastward] += sign * speed_mps
            outside = ((at_m < 0) | (at_m > 4000)).any(axis=1)
            sign[outside] *= -1
            at_m = np.clip(at_m, 0, 4000)
            here = np.flatnonzero((comes <= t) & (t < leaves))
            fixes += len(here)
            cars = [
                f'<vehicle id="v{v}" x="{at_m[v, 0]:.2f}" y="{at_m[v, 1]:.2f}"/>\n' for v in here
            ]
            out.write(f'<timestep time="{t}">\n{"".join(cars)}</timestep>\n')
        out.write("</fcd-export>\n")
    return fixes


_COMMAND = """
import os, sys
from benchmarks.world import peak_gb
from scenarios.app.cli.commands import main
code = main(sys.argv[1:])
print(sum(os.times()[:4]), peak_gb())
sys.exit(code)
"""


def played(trace: Path, out: Path, options: list[str]) -> Cost:
    """What `netsim replay --published` takes for a file, with both ways to standardise positions
    and its pages.
    """
    attacks = ["--set", "learning.attacks=[{kind: closed-form}]", "--quiet", "--out", str(out)]
    command = [
        sys.executable,
        "-c",
        _COMMAND,
        "replay",
        "--published",
        str(trace),
        *attacks,
        *options,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(f"netsim {' '.join(command[3:])}: exit code {done.returncode}")
    return Cost(*map(float, done.stdout.splitlines()[-1].split()))


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Of each kind its smaller file, and its larger one with exponents; a file is played once, in
    whatever time.
    """
    yield from _rows("taxis", taxis, bench.taxis, bench, [], (bench.taxis_s, bench.taxis_gb))
    often = ["--round", f"{bench.seconds / 15:g}s", "--set", "world.tick_s=1"]
    yield from _rows("vehicles", vehicles, bench.vehicles, bench, often, (None, None))


def _rows(
    name: str,
    write: Callable[[Path, int, Bench], int],
    n: int,
    bench: Bench,
    options: list[str],
    bars: tuple[float | None, float | None],
) -> Iterator[Row]:
    costs = list[Cost]()
    for users in (n, 2 * n):
        with TemporaryDirectory() as folder:
            fixes = write(Path(folder) / "trace", users, bench)
            costs.append(played(Path(folder) / "trace", Path(folder) / "out", options))
        work = f"replay of {fixes:,} fixes of {users:,} {name}"
        last = users > n
        cpu, memory = (
            {"exponent": digits(log2(of[-1] / of[0]))} if last else {}
            for of in zip(*costs, strict=True)
        )
        rate = {"fixes_per_s": digits(fixes / costs[-1].cpu_s)}
        most_s, most_gb = bars if last else (None, None)
        own = {"subject": "replay"}
        yield row(f"{work}: CPU time", costs[-1].cpu_s, "s", most_s, **rate, **cpu) | own
        yield (
            row(f"{work}: peak memory of the process", costs[-1].memory_gb, "GB", most_gb, **memory)
            | own
        )

"""Reading a long file of SUMO floating car data, beside a plain loop over `lxml.etree.iterparse`,
on one thread.

The file has the attributes that SUMO writes, a line for each vehicle and second. The loop is the
fastest of its kind: it hears about ends of timesteps alone, takes id, x and y of the vehicles
within, and forgets them. It neither looks for document types and depths, nor says in which line a
file is wrong, as our reader does.

`limit` is reading the file and counting its lines: what any reader has to look at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.paired import beside, timed, without
from benchmarks.world import Row
from netsim.trace_files.read import read_trace_table

SIDE_M = 4000.0


@dataclass(frozen=True)
class Bench:
    """Fixes of the file, vehicles at a time, seconds that one stays, and the least ratio."""

    fixes: int
    at_once: int
    stay_s: int
    bar: float | None = None


FULL = Bench(592_571, 300, 250, 0.7)
SMALL = Bench(200, 5, 10)


def write(file: Path, bench: Bench) -> None:
    """Vehicles that come and go, one after the other in each of so many places."""
    rng = np.random.default_rng(0)
    time_s = 0
    left = bench.fixes
    comes = rng.integers(0, bench.stay_s, bench.at_once)
    with file.open("w") as out:
        out.write('<?xml version="1.0" encoding="UTF-8"?>\n\n<fcd-export>\n')
        while left:
            n = min(left, bench.at_once)
            name = np.arange(n) + bench.at_once * ((time_s + comes[:n]) // bench.stay_s)
            x, y = rng.uniform(0, SIDE_M, (2, n))
            angle, speed, pos = rng.uniform(0, [[360], [14], [200]], (3, n))
            rows = [
                f'        <vehicle id="veh{k}" x="{at_x:.2f}" y="{at_y:.2f}" '
                f'angle="{a:.2f}" type="DEFAULT_VEHTYPE" '
                f'speed="{v:.2f}" pos="{p:.2f}" lane="{k % 97}#1_0" slope="0.00"/>\n'
                for k, at_x, at_y, a, v, p in zip(name, x, y, angle, speed, pos, strict=True)
            ]
            out.write(f'    <timestep time="{time_s}.00">\n{"".join(rows)}    </timestep>\n')
            time_s = time_s + 1
            left = left - n
        out.write("</fcd-export>\n")


def loop(file: Path) -> tuple[list[float], list[int], list[float], list[float]]:
    """Times, users by number, x and y, as one writes it with lxml."""
    from lxml import etree

    names: dict[str, int] = {}
    time_s = list[float]()
    user = list[int]()
    x = list[float]()
    y = list[float]()
    for _, step in etree.iterparse(str(file), events=("end",), tag="timestep"):
        now_s = float(step.get("time"))
        for vehicle in step:
            time_s.append(now_s)
            user.append(names.setdefault(vehicle.get("id"), len(names)))
            x.append(float(vehicle.get("x")))
            y.append(float(vehicle.get("y")))
        step.clear()
    return time_s, user, x, y


def same(file: Path) -> bool:
    """Whether both find the same rows, to the bit."""
    table = read_trace_table(file, crs="local")
    mine = (table.fixes.time_s, table.fixes.user, *table.fixes.place.T)
    return all(np.array_equal(a, b) for a, b in zip(mine, loop(file), strict=True))


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """The row, or why there is none."""
    work = f"reading {bench.fixes:,} fixes of SUMO FCD"
    name = {"subject": "trace"}
    try:
        from lxml import etree
    except ImportError as error:
        reason = f"not installed ({error}); pip install 'netsim-fl[bench]'"
        yield without(work, "lxml", bench.bar, reason) | name
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "cars.fcd.xml"
        write(file, bench)
        found: dict[str, Any] = {"mb": round(file.stat().st_size / 1e6, 1), "same": same(file)}
        yield beside(
            work,
            timed(lambda: read_trace_table(file)),
            timed(lambda: loop(file)),
            bench.bar,
            seconds,
            timed(lambda: file.read_bytes().count(b"\n")),
            peer=f"lxml {etree.__version__}, iterparse",
            **found,
            **name,
        )

"""What engines cost: a sweep of brief runs on processes of this machine, and on a Ray cluster that
it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.world import Row, digits, row
from scenarios.app.run.clusters import OnRay
from scenarios.app.run.executor import Engine, OnProcesses
from scenarios.app.run.sweep import Sweep
from scenarios.app.study.load import Scenario

JOBS = 2
START_S = 30.0
"""that a cluster may take to start and to end"""
_TEXT = """\
title: Brief runs
seed: 1
world:
  duration_s: 900
  city: {{kind: open-field, width_m: 400, height_m: 300}}
  base_stations: [{{name: a, position_m: [100, 100]}}, {{name: b, position_m: [300, 200]}}]
  ues: {{count: 4, mobility: {{kind: random-waypoint}}, measurement_period_s: 5}}
vary: {{seed: {seeds}}}
"""


@dataclass(frozen=True)
class Bench:
    """Brief runs of a sweep, and how much longer than processes a cluster of this machine may
    take.
    """

    runs: int
    ratio: float | None = None


FULL = Bench(200, 1.25)
SMALL = Bench(3)


def rows(bench: Bench) -> Iterator[Row]:
    """Seconds of the sweep on each engine; every engine writes the same table."""
    with TemporaryDirectory() as place:
        scenario = Path(place) / "s.yaml"
        scenario.write_text(_TEXT.format(seeds=list(range(1, bench.runs + 1))))
        work = f"{bench.runs} brief runs, {JOBS} at a time"
        local_s, table = _played(scenario, OnProcesses())
        yield row(f"{work}: processes", local_s, "s", subject="sweeps")
        if find_spec("ray") is None:
            return
        ray_s, other = _played(scenario, OnRay())
        if other != table:
            raise ValueError("the tables of two engines differ")
        bar = None if bench.ratio is None else digits(bench.ratio * local_s + START_S)
        ratio = {"peer": "processes", "theirs": digits(local_s), "ratio": digits(local_s / ray_s)}
        yield row(f"{work}: Ray on this machine", ray_s, "s", bar, subject="sweeps", **ratio)


def _played(scenario: Path, engine: Engine) -> tuple[float, bytes]:
    """Seconds that a sweep takes, and its table."""
    with TemporaryDirectory() as out:
        began = perf_counter()
        table = Sweep(
            Scenario.from_source(scenario), Path(out) / "s", JOBS, lambda *end: None, engine=engine
        ).play()
        return perf_counter() - began, table.read_bytes()

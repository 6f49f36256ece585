"""What runs cost as they grow: with their rounds, their UEs and the targets of their attacks; and a
wide tick.

Each run has a process of its own, in which a run of two rounds loads modules and compiles functions
before CPU time counts. An exponent is the slope of a straight line through the logarithms: 1 for a
cost in proportion.

    python -m benchmarks.growth '{"rounds": 50, "ues": 5, "n_targets": 5}'     # one run, one JSON
    object
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from benchmarks.world import ROOT, Row, alone, digits, exponent, peak_gb, row, size_name

BAR = 1.05
TICK_BAR_GB = 2.0
ROUND_S = 600


@dataclass(frozen=True)
class Work:
    """A run: so many rounds of so many UEs, of which so many are attacked."""

    rounds: int
    ues: int
    targets: int


@dataclass(frozen=True)
class Bench:
    """Runs that differ in their rounds, UEs and targets, the exponents that are good enough, and a
    wide tick.
    """

    rounds: tuple[Work, ...]
    ues: tuple[Work, ...]
    targets: tuple[Work, ...]
    tick: tuple[int, int]
    exponent: float | None = None
    tick_gb: float | None = None


FULL = Bench(
    tuple(Work(n, 5, 5) for n in (50, 200, 800, 2000)),
    tuple(Work(3, n, 50) for n in (100, 1000, 10_000)),
    tuple(Work(3, 3000, n) for n in (1, 50, 500, 3000)),
    (100, 100_000),
    BAR,
    TICK_BAR_GB,
)
SMALL = Bench(
    (Work(2, 2, 2), Work(4, 2, 2)),
    (Work(2, 2, 2), Work(2, 4, 2)),
    (Work(2, 4, 1), Work(2, 4, 4)),
    (2, 50),
)


def document(work: Work) -> dict[str, Any]:
    """A scenario: people on foot measure every half minute, hide in noise, and are attacked."""
    return {
        "title": "How a run grows",
        "seed": 1,
        "world": {
            "duration_s": ROUND_S * work.rounds,
            "tick_s": 60,
            "city": {"kind": "open-field", "width_m": 1000, "height_m": 800},
            "base_stations": [
                {"name": "west", "position_m": [250, 400]},
                {"name": "east", "position_m": [750, 400]},
            ],
            "ues": {
                "count": work.ues,
                "mobility": {"kind": "random-waypoint"},
                "measurement_period_s": 30,
            },
            "radio": {"shadowing": {"kind": "correlated"}, "uplink": {"kind": "noma"}},
        },
        "learning": {
            "round_s": ROUND_S,
            "learner": {"kind": "rsrp-net", "hidden": [64, 32], "labels": "centred"},
            "defenses": [
                {"kind": "clip", "norm": 1},
                {"kind": "gaussian", "noise_multiplier": 0.01},
            ],
            "threat": {"n_targets": work.targets},
            "attacks": [{"kind": "closed-form"}],
            "leakage": {"random_baseline_draws": 100},
            "references": {"kriging_samples": 0, "central": False},
        },
    }


def played(work: Work) -> dict[str, float]:
    """What a run takes here: `cpu_s`, and `peak_gb` of the process so far."""
    from scenarios import load, run

    with TemporaryDirectory() as folder:
        for some in (replace(work, rounds=2, ues=3, targets=3), work):
            file = Path(folder) / f"{some.rounds}-{some.ues}-{some.targets}.yaml"
            file.write_text(json.dumps(document(some)))
            study = load(str(file))
            began = process_time()
            run(study, Path(folder) / file.stem)
            cpu_s = process_time() - began
    return {"cpu_s": cpu_s, "peak_gb": peak_gb()}


def cost(work: Work) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth", json.dumps(asdict(work))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Of each way to grow its runs, then the exponents of CPU time and of peak memory; a run is
    played once.
    """
    own = {"subject": "growth"}
    for axis in ("rounds", "ues", "targets"):
        works: tuple[Work, ...] = getattr(bench, axis)
        sizes = [getattr(work, axis) for work in works]
        costs = list[dict[str, float]]()
        for work in works:
            costs.append(cost(work))
            name = f"{work.rounds:,} rounds, {work.ues:,} UEs, {work.targets:,} targets: CPU time"
            yield row(name, costs[-1]["cpu_s"], "s", peak_gb=digits(costs[-1]["peak_gb"])) | own
        name = f"growth with {axis}, {sizes[0]:,} to {sizes[-1]:,}"
        slopes = {key: exponent(sizes, [one[key] for one in costs]) for key in ("cpu_s", "peak_gb")}
        yield row(f"{name}: CPU time", slopes["cpu_s"], "exponent", bench.exponent) | own
        yield (
            row(
                f"{name}: peak memory of the process", slopes["peak_gb"], "exponent", bench.exponent
            )
            | own
        )
    wide = alone(*bench.tick, min(seconds, 1.0))
    name = f"{size_name(*bench.tick)}: one tick"
    yield row(name, wide["ms"], "ms") | own
    yield row(f"{name}, peak memory of the process", wide["peak_gb"], "GB", bench.tick_gb) | own


if __name__ == "__main__":
    print(json.dumps(played(Work(**json.loads(sys.argv[1])))))

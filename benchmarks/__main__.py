"""Measure the program: `python -m benchmarks SUBJECT [--seconds N] [--sizes small|full]`.

Subjects: world, town, uploads, trace, replay, distance, attacks, span, tracking, density,
radio-map, images, training, accounting, rl, growth, start, sweeps, whole.

Writes one JSON object a line to standard output, versions to standard error, and ends with 1 where
a bar is missed:

subject, work : what was measured, and how much of it ours, unit : our figure peer, theirs, ratio :
another simulator with its version, its figure in the same session, and theirs / ours bar, met :
what is required, and whether it is reached: the least ratio where there is a peer, else the largest
figure reason : why there is no figure, where there is none

Everything runs on one core and one thread, `whole` on two of each; a peer and we take turns, and
figures are medians. What each peer does and does not compute stands in `benchmarks/peers.py`,
`accounting.py`, `training_peers.py`, `federated_peers.py` and `inversion_peers.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

from threadpoolctl import threadpool_limits

from benchmarks import (
    accounting,
    attacks,
    density,
    distance,
    growth,
    images,
    radio_map,
    replay,
    rl,
    span,
    start,
    sweeps,
    town,
    trace,
    tracking,
    training,
    uploads,
    whole,
)
from benchmarks.paired import beside, often, timed
from benchmarks.peers import start as started
from benchmarks.world import Ours, Row, ladder_rows, row, size_name, tick_ms

Size = tuple[int, int]


@dataclass(frozen=True)
class Plan:
    """What to measure: peers and their bars at each size (n_bs, n_ue), the ladder, and where memory
    is measured.
    """

    against: dict[Size, dict[str, float | None]]
    ladder: tuple[Size, ...]
    memory: Size


PLANS = {
    "full": Plan(
        against={
            (20, 1_000): {"crrm": 3.3, "aimm": 250.0, "mobile-env": 1_200.0},
            (5, 15): {"crrm": 1.4, "mobile-env": 45.0},
            (50, 10_000): {"crrm": 4.0},
        },
        ladder=((50, 1_000), (50, 2_000), (50, 5_000), (50, 10_000), (10, 10_000), (20, 10_000)),
        memory=(50, 10_000),
    ),
    "small": Plan(
        against={(2, 5): {"crrm": None, "aimm": None, "mobile-env": None}},
        ladder=((2, 50), (2, 100)),
        memory=(2, 100),
    ),
}

BENCHES = {
    "full": attacks.Bench(100, (256, 128), dlg_ms=40.0, closed_form_ms=0.1, loop=25.0, stacked=8.0),
    "small": attacks.Bench(4, (16, 8)),
}

IMAGES = {
    "full": images.Bench(
        15, 4_000, 100, 10_000, round_s=9.0, vectors_s=1.0, plan_s=5.0
    ),  # 100 rounds in 15 minutes
    "small": images.Bench(3, 40, 10, 100),
}


PEOPLE = {
    "full": density.Bench(
        20_000,
        1_000_000,
        parts=50,
        waves_s=0.3,
        peers={"scipy": 60.0, "scikit-learn": 120.0},
        many_s=20.0,
        many_mb=500.0,
    ),
    "small": density.Bench(200, 500, parts=50),
}


ACCOUNTS = {
    "full": accounting.Bench(1_000, part=40, dp_accounting=1000.0, opacus=10.0),
    "small": accounting.Bench(40, part=4),
}

AGENTS = {"full": rl.FULL, "small": rl.SMALL}


TRAININGS = {"full": training.FULL, "small": training.SMALL}


SPANS = {"full": span.FULL, "small": span.SMALL}


TRACKS = {"full": tracking.FULL, "small": tracking.SMALL}


TOWNS = {"full": town.FULL, "small": town.SMALL}


UPLOADS = {"full": uploads.FULL, "small": uploads.SMALL}


REPLAYS = {"full": replay.FULL, "small": replay.SMALL}


SWEEPS = {"full": sweeps.FULL, "small": sweeps.SMALL}


GROWTHS = {"full": growth.FULL, "small": growth.SMALL}


STARTS = {"full": start.FULL, "small": start.SMALL}


WHOLES = {"full": whole.FULL, "small": whole.SMALL}


TRACES = {"full": trace.FULL, "small": trace.SMALL}


DISTANCES = {"full": distance.FULL, "small": distance.SMALL}


MAPS = {"full": radio_map.FULL, "small": radio_map.SMALL}


TURN_S = 0.05
"""of a turn, in which as many ticks as fit are played"""


def against(peer: str, bar: float | None, size: Size, seconds: float) -> Row:
    """One peer at one size, both in turns; without the peer, ours alone and the reason."""
    name, theirs, reason = started(peer, *size)
    ours = Ours(*size)
    work = f"{size_name(*size)}: one tick"
    if theirs is None:
        ms = tick_ms([ours.tick], seconds)[0]
        return {**row(work, ms, "ms", bar), "peer": name, "met": None, "reason": reason}
    once_s = min(timed(ours.tick)() for _ in range(3))
    mine = often(ours.tick, max(1, int(TURN_S / once_s)))
    its = often(theirs, max(1, int(TURN_S / timed(theirs)())))
    return {**beside(work, mine, its, bar, seconds), "subject": "world", "peer": name}


def world(plan: Plan, seconds: float) -> Iterator[Row]:
    """All rows of the world's chain, each when it is measured."""
    for size, peers in plan.against.items():
        for peer, bar in peers.items():
            yield against(peer, bar, size, seconds)
    yield from ladder_rows(list(plan.ladder), seconds, plan.memory)


SUBJECTS: dict[str, Callable[[str, float], Iterator[Row]]] = {
    "world": lambda sizes, seconds: world(PLANS[sizes], seconds),
    "town": lambda sizes, seconds: town.rows(TOWNS[sizes], seconds),
    "uploads": lambda sizes, seconds: uploads.rows(UPLOADS[sizes], seconds),
    "trace": lambda sizes, seconds: trace.rows(TRACES[sizes], seconds),
    "distance": lambda sizes, seconds: distance.rows(DISTANCES[sizes], seconds),
    "replay": lambda sizes, seconds: replay.rows(REPLAYS[sizes], seconds),
    "attacks": lambda sizes, seconds: attacks.rows(BENCHES[sizes], seconds),
    "span": lambda sizes, seconds: span.rows(SPANS[sizes], seconds),
    "tracking": lambda sizes, seconds: tracking.rows(TRACKS[sizes]),
    "density": lambda sizes, seconds: density.rows(PEOPLE[sizes], seconds),
    "radio-map": lambda sizes, seconds: radio_map.rows(MAPS[sizes], seconds),
    "images": lambda sizes, seconds: images.rows(IMAGES[sizes], seconds),
    "training": lambda sizes, seconds: training.rows(TRAININGS[sizes], seconds),
    "accounting": lambda sizes, seconds: accounting.rows(ACCOUNTS[sizes], seconds),
    "rl": lambda sizes, seconds: rl.rows(AGENTS[sizes], seconds),
    "start": lambda sizes, seconds: start.rows(STARTS[sizes], seconds),
    "whole": lambda sizes, seconds: whole.rows(WHOLES[sizes], seconds),
    "sweeps": lambda sizes, seconds: sweeps.rows(SWEEPS[sizes]),
    "growth": lambda sizes, seconds: growth.rows(GROWTHS[sizes], seconds),
}
"""the rows of a subject, by its sizes and the seconds for each row"""

CORES = {"whole": whole.CORES}
"""of subjects that have more than one"""


def stay_on_cores(count: int) -> None:
    """Stay on so many of the cores that we may use, and so do processes that we start."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-count:])


def main(arguments: list[str] | None = None) -> int:
    """Print the rows; 1 where a bar is missed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure the program."
    )
    parser.add_argument("subject", choices=list(SUBJECTS))
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="time for each row, warm-up apart"
    )
    parser.add_argument("--sizes", choices=sorted(PLANS), default="full")
    chosen = parser.parse_args(arguments)
    cores = CORES.get(chosen.subject, 1)
    stay_on_cores(cores)
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("netsim-fl", "numpy", "scipy", "simpy", "torch")
    )
    print(f"Python {platform.python_version()}, {packages}, {platform.platform()}", file=sys.stderr)
    with threadpool_limits(cores):
        lines = SUBJECTS[chosen.subject](chosen.sizes, chosen.seconds)
        missed = False
        for line in lines:
            print(json.dumps(line), flush=True)
            missed = missed or line.get("met") is False
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
